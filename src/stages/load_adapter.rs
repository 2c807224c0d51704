//! `load adapter`: an adapter in PEFT's format, to train on or to merge.

use std::path::PathBuf;

use super::bridge::holdings_of;
use super::world::blame;
use super::{Body, Desc, Job, Lowered, Refusal, Stage, World};
use crate::memory::{Holding, Phase, Place};
use crate::model::{Adapter, LoraSettings, PairValues, Proj, Shape};
use crate::plan::{Step, ValueId};
use crate::store::peft::{AdapterConfig, AdapterSource, Half, Targets};
use crate::text::{Fault, Result};

pub struct LoadAdapter;

impl Stage for LoadAdapter {
    fn name(&self) -> &'static str {
        "load adapter"
    }

    fn lower(&self, step: &Step, world: &mut World<'_>) -> Result<Lowered, Refusal> {
        let mut model = world.model(step)?;
        let (Some(input), Some(output), Some(path)) =
            (step.input("model"), step.makes.first().copied(), step.args.path("path"))
        else {
            return Err(Vec::new());
        };
        let fail = |fault: Fault| vec![blame(step, "path", &fault)];
        let source = AdapterSource::open(&path).map_err(fail)?;
        let settings = settings(source.config(), &source).map_err(fail)?;
        fits(&source, &settings, &model.shape).map_err(fail)?;
        for file in source.inputs() {
            world.input_file(file);
        }
        let place = world.target.place();
        let planned = Adapter::planned(&model.shape, &settings).map_err(fail)?;
        let adapter = holdings_of(&planned, place, "").map_err(fail)?;
        let values: u64 = adapter.iter().map(|h| h.bytes).sum();
        let mut phase = adapter.clone();
        phase.push(Holding::new("read buffer", Place::Ram, values, ""));
        let mut kept = model.holdings.clone();
        kept.extend(adapter);
        model.holdings = kept.clone();
        model.adapter = Some(settings.clone());
        world.describe(output, Desc::Model(Box::new(model)));
        let keeps = vec![world.kept(output, kept)];
        let body = Box::new(Read { input, output, path, settings });
        Ok(Lowered { phases: vec![Phase::new("read", phase)], keeps, body })
    }
}

/// What the engine needs to know, from PEFT's config. Target names are those of the tensors themselves, so a pattern
/// or `all-linear` comes out as what it matched.
fn settings(config: &AdapterConfig, source: &AdapterSource) -> Result<LoraSettings> {
    let mut targets: Vec<Proj> = Vec::new();
    for module in source.modules() {
        let Some((_, proj)) = Proj::from_module(&module.module) else {
            return Err(unknown(&module.module));
        };
        if !targets.contains(&proj) {
            targets.push(proj);
        }
    }
    if let Targets::Names(names) = &config.targets {
        for name in names {
            let end = name.rsplit('.').next().unwrap_or(name);
            if Proj::from_name(end).is_none_or(|proj| !targets.contains(&proj)) {
                return Err(Fault::new(
                    "adapter.missing_module",
                    format!("the adapter's config names `{name}`, and its file has no values for it"),
                ));
            }
        }
    }
    if let Targets::Names(names) = &config.targets {
        // As PEFT matches: the whole path, or its end from a dot on.
        let named = |module: &str| names.iter().any(|n| module == n || module.ends_with(&format!(".{n}")));
        if let Some(stray) = source.modules().iter().find(|module| !named(&module.module)) {
            return Err(Fault::new(
                "adapter.unknown_module",
                format!("the adapter has values for `{}`, which its config does not name", stray.module),
            )
            .note(format!("`target_modules` names {}", names.join(", "))));
        }
    }
    targets.sort();
    Ok(LoraSettings {
        rank: config.rank,
        alpha: config.alpha,
        dropout: config.dropout as f32,
        targets,
        root_scale: config.rslora,
        seed: 0,
    })
}

/// Every module of the file has its place in the model, and the other way round.
fn fits(source: &AdapterSource, settings: &LoraSettings, shape: &Shape) -> Result<()> {
    let wanted = settings.modules(shape);
    for module in source.modules() {
        let Some((_, outputs, inputs)) = wanted.iter().find(|(name, ..)| *name == module.module) else {
            return Err(unknown(&module.module));
        };
        if module.outputs != *outputs || module.inputs != *inputs {
            return Err(Fault::new(
                "adapter.shape",
                format!(
                    "`{}` of the adapter maps {} to {}, and the model's maps {inputs} to {outputs}",
                    module.module, module.inputs, module.outputs
                ),
            )
            .help("load the model that this adapter was trained from"));
        }
    }
    for (name, ..) in &wanted {
        if !source.modules().iter().any(|module| module.module == *name) {
            return Err(Fault::new("adapter.missing_module", format!("the adapter has no values for `{name}`"))
                .note("other layers have some, so the file is not whole"));
        }
    }
    Ok(())
}

fn unknown(module: &str) -> Fault {
    Fault::new(
        "adapter.unknown_module",
        format!("the adapter has values for `{module}`, which the model has no place for"),
    )
    .note("an adapter whose keys do not fit would silently leave the base model as it was")
}

struct Read {
    input: ValueId,
    output: ValueId,
    path: PathBuf,
    settings: LoraSettings,
}

impl Body for Read {
    fn run(self: Box<Self>, job: &mut Job<'_>) -> Result<()> {
        job.enter("read")?;
        let source = AdapterSource::open(&self.path)?;
        let mut model = job.take(self.input)?;
        let rank = self.settings.rank;
        let mut values: Vec<(String, Vec<f32>, Vec<f32>)> = Vec::new();
        for module in source.modules() {
            let mut a = vec![0.0; rank * module.inputs];
            let mut b = vec![0.0; module.outputs * rank];
            source.read(module, Half::A, &mut a)?;
            source.read(module, Half::B, &mut b)?;
            values.push((module.module.clone(), a, b));
        }
        let pairs: Vec<PairValues<'_>> = values.iter().map(|(module, a, b)| PairValues { module, a, b }).collect();
        let pool = job.pool();
        model.adapter = Some(Adapter::from_tensors(&model.shape, self.settings, &pairs, &pool)?);
        job.put(self.output, model);
        Ok(())
    }
}
