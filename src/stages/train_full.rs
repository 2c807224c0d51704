//! `train full`: trains every weight of a dense model.

use super::{Lowered, Refusal, Stage, World, train};
use crate::model::{Float, Held};
use crate::plan::Step;
use crate::text::Diagnostic;
use crate::train::Trainable;

pub struct TrainFull;

impl Stage for TrainFull {
    fn name(&self) -> &'static str {
        "train full"
    }

    fn lower(&self, step: &Step, world: &mut World<'_>) -> Result<Lowered, Refusal> {
        let model = world.model(step)?;
        if !world.target.gpu && model.form.weights != Held::Float(Float::F32) {
            return Err(vec![
                Diagnostic::error("train.narrow", "full training on the processor needs weights in f32")
                    .label(step.name_span, "updates smaller than a step of a 16-bit weight would vanish")
                    .help("dtype=f32 on `load model`"),
            ]);
        }
        train::lower(step, world, model, Trainable::Full)
    }
}
