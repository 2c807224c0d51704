//! `quantize nf4`: linear layers as 4-bit NormalFloat, a tensor at a time.
//!
//! A model that nothing has used yet comes straight from its files, so the peak is the quantised model and one tensor.
//! One that is resident already gives way tensor by tensor.

use std::sync::Arc;

use super::bridge::holdings_of;
use super::load_model::read_model;
use super::world::{Origin, blame};
use super::{Body, Count, Desc, Job, Lowered, Refusal, Stage, World};
use crate::memory::{PerPlace, Phase};
use crate::model::{self, Form, Mapping, Shape};
use crate::plan::{Step, ValueId};
use crate::text::{Diagnostic, Fault, Result};

pub struct QuantizeNf4;

impl Stage for QuantizeNf4 {
    fn name(&self) -> &'static str {
        "quantize nf4"
    }

    fn lower(&self, step: &Step, world: &mut World<'_>) -> Result<Lowered, Refusal> {
        let mut model = world.model(step)?;
        let (Some(input), Some(output)) = (step.input("model"), step.makes.first().copied()) else {
            return Err(Vec::new());
        };
        let block = step.args.count("block");
        if !block.is_power_of_two() {
            return Err(vec![
                Diagnostic::error("arg.block", format!("`block={block}` is not a power of two"))
                    .label(step.args.span("block").unwrap_or(step.name_span), "values that share a scale")
                    .help(format!("block={}", block.next_power_of_two().min(4096))),
            ]);
        }
        let double = step.args.flag("double_quant");
        let place = world.target.place();
        let dense = model.form;
        let form = dense.quantised(block, double);
        let fail = |fault: Fault| vec![blame(step, "block", &fault)];

        let kept = holdings_of(&model::holdings(&model.shape, form, &model.mapping).map_err(fail)?, place, "")
            .map_err(fail)?;
        let (phase, body): (Phase, Box<dyn Body>) = if model.resident {
            // The dense model is counted by the stage that read it; what is new are the blocks and a window. A dense
            // tensor is let go as soon as its blocks stand.
            let mut holdings: Vec<_> = kept.iter().filter(|holding| holding.name == "weights").cloned().collect();
            let window = model::quantising(&model.shape, dense, block, double).map_err(fail)?;
            let window = holdings_of(&window, place, "").map_err(fail)?;
            let mut peak = PerPlace::default();
            let above = model::growth(&model.shape, dense, block, double, &model.mapping).map_err(fail)?;
            peak.add(place, above.saturating_add(window.iter().map(|h| h.bytes).sum())).map_err(fail)?;
            holdings.extend(window);
            let mut phase = Phase::new("quantise", holdings);
            phase.peak = Some(peak);
            (phase, Box::new(Resident { input, output, block, double, values: model.shape.parameters() }))
        } else {
            let mut holdings = kept.clone();
            let window = model::reading(&model.shape, form, &model.mapping).map_err(fail)?;
            holdings.extend(holdings_of(&window, place, "").map_err(fail)?);
            let (origin, mapping) = (model.origin.weights(), model.mapping.clone());
            let body = FromFiles { output, origin, shape: model.shape.clone(), form, mapping };
            (Phase::new("read and quantise", holdings), Box::new(body))
        };
        model.form = form;
        model.resident = true;
        model.holdings = kept.clone();
        world.describe(output, Desc::Model(Box::new(model)));
        let keeps = vec![world.kept(output, kept)];
        Ok(Lowered { phases: vec![phase], keeps, body })
    }
}

struct FromFiles {
    output: ValueId,
    origin: Origin,
    shape: Arc<Shape>,
    form: Form,
    mapping: Arc<Mapping>,
}

impl Body for FromFiles {
    fn run(self: Box<Self>, job: &mut Job<'_>) -> Result<()> {
        job.enter("read and quantise")?;
        let pool = job.pool();
        let model = read_model(&self.origin, &self.shape, self.form, &self.mapping, &pool, job, "quantising")?;
        job.put(self.output, model);
        Ok(())
    }
}

struct Resident {
    input: ValueId,
    output: ValueId,
    block: usize,
    double: bool,
    values: u64,
}

impl Body for Resident {
    fn run(self: Box<Self>, job: &mut Job<'_>) -> Result<()> {
        job.enter("quantise")?;
        let model = job.take(self.input)?;
        let pool = job.pool();
        let mut done = 0u64;
        let (watch, total) = (&mut job.watch, self.values);
        let model = model.quantise(self.block, self.double, &pool, &mut |_, values| {
            done += values;
            watch.progress("quantising", done, total, Count::Values);
        })?;
        watch.finish();
        job.put(self.output, model);
        Ok(())
    }
}
