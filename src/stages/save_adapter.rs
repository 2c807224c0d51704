//! `save adapter`: the adapter alone, in PEFT's format.

use std::path::PathBuf;

use super::pour::storable;
use super::world::blame;
use super::{Body, Job, Lowered, Refusal, Stage, World};
use crate::memory::{Holding, Kept, Phase, Place};
use crate::model::{Float, LoraSettings, Shape};
use crate::plan::{Step, ValueId};
use crate::store::{WRITE_BUFFER, peft};
use crate::text::{Fault, Result};

pub struct SaveAdapter;

impl Stage for SaveAdapter {
    fn name(&self) -> &'static str {
        "save adapter"
    }

    fn lower(&self, step: &Step, world: &mut World<'_>) -> Result<Lowered, Refusal> {
        let model = world.model(step)?;
        let Some(id) = step.input("model") else { return Err(Vec::new()) };
        let Some(settings) = &model.adapter else { return Err(Vec::new()) };
        let path = step.args.path("path");
        let overwrite = world.may_replace(step, path.as_deref(), "adapter");
        match &path {
            Some(path) => world.output(step, path, overwrite)?,
            None => world.output_in_run(step, "adapter", overwrite)?,
        }
        let folder = peft_plan(&model.shape, settings, &model.base_name);
        let bytes = folder.planned_bytes().map_err(|fault| vec![blame(step, "path", &fault)])?;
        world.writes(path.as_deref(), bytes);
        let file = Holding::new("adapter file", Place::Disk, bytes, "rank targets");
        let buffer = Holding::new("write buffer", Place::Ram, WRITE_BUFFER as u64 + (256 << 10), "");
        Ok(Lowered {
            phases: vec![Phase::new("write", vec![file.clone(), buffer])],
            keeps: vec![Kept { holdings: vec![file], until: usize::MAX }],
            body: Box::new(Write { id, path, overwrite, folder }),
        })
    }
}

/// The folder PEFT will find.
fn peft_plan(shape: &Shape, settings: &LoraSettings, base_name: &str) -> peft::AdapterPlan {
    let config = peft::AdapterConfig {
        rank: settings.rank,
        alpha: settings.alpha,
        targets: peft::Targets::Names(settings.targets.iter().map(|proj| proj.name().to_owned()).collect()),
        dropout: f64::from(settings.dropout),
        rslora: settings.root_scale,
        base_model: Some(base_name.to_owned()),
    };
    let modules = settings.modules(shape).into_iter().map(|(module, outputs, inputs)| peft::AdapterShape {
        module,
        inputs,
        outputs,
    });
    peft::AdapterPlan::new(config, modules.collect())
}

struct Write {
    id: ValueId,
    path: Option<PathBuf>,
    overwrite: bool,
    folder: peft::AdapterPlan,
}

impl Body for Write {
    fn run(self: Box<Self>, job: &mut Job<'_>) -> Result<()> {
        job.enter("write")?;
        let path = self.path.unwrap_or_else(|| job.run_dir.join("adapter"));
        let (model, watch) = job.borrow_and_watch(self.id)?;
        let Some(adapter) = &model.adapter else {
            return Err(Fault::new("adapter.none", "this model has no adapter to save"));
        };
        let mut writer = peft::AdapterWriter::create(&path, self.overwrite, &self.folder)?;
        watch.making(&path, writer.identity())?;
        for (module, pair) in adapter.iter() {
            for (half, matrix) in [("lora_A", &pair.a), ("lora_B", &pair.b)] {
                storable(&format!("{module}.{half}"), matrix.view().cpu::<f32>()?, Float::F32)?;
            }
            writer.module(&module, pair.a.view().cpu::<f32>()?, pair.b.view().cpu::<f32>()?)?;
        }
        writer.commit()?;
        let bytes = job.wrote(&path)?;
        job.watch.saved("adapter", &path, bytes);
        Ok(())
    }
}
