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

    fn learns(&self) -> bool {
        true
    }

    fn lower(&self, step: &Step, world: &mut World<'_>) -> Result<Lowered, Refusal> {
        let model = world.model(step)?;
        if let Some(span) = model.mapped_by {
            return Err(vec![
                Diagnostic::error("train.mapped", "`train full` changes weights, and these lie in the model's files")
                    .label(span, "leaves them there")
                    .label(step.name_span, "trains every one of them")
                    .help("leave `mapped` out of `load model`"),
            ]);
        }
        if !world.target.gpu && model.form.weights != Held::Float(Float::F32) {
            return Err(vec![
                Diagnostic::error("train.narrow", "full training on the processor needs weights in f32")
                    .label(step.name_span, "updates smaller than a step of a 16-bit weight would vanish")
                    .help("dtype=f32 on `load model`"),
            ]);
        }
        fusable(step)?;
        train::lower(step, world, model, Trainable::Full)
    }
}

/// An update in the backward pass comes before the last gradient is known: it cannot wait for other batches or for the norm
/// of all gradients.
fn fusable(step: &Step) -> Result<(), Refusal> {
    if !step.args.flag("fused_step") {
        return Ok(());
    }
    let at = |argument: &str| step.args.span(argument).unwrap_or(step.name_span);
    let mut wrong = Vec::new();
    if !step.args.is_none("clip") {
        wrong.push(
            Diagnostic::error(
                "train.fused",
                "`fused_step` cannot clip: the norm of all gradients is known only at the end",
            )
            .label(at("fused_step"), "updates before that")
            .label(at("clip"), "clips by the norm of all gradients")
            .help("add `clip=none`, or leave `fused_step` out"),
        );
    }
    if step.args.count("accum") > 1 {
        wrong.push(
            Diagnostic::error("train.fused", "`fused_step` cannot accumulate: gradients of earlier batches are gone")
                .label(at("fused_step"), "updates with each batch")
                .label(at("accum"), "adds up several")
                .help("accum=1 and a larger `batch=`, or leave `fused_step` out"),
        );
    }
    if step.args.text("on_nan") == Some("skip") {
        wrong.push(
            Diagnostic::error(
                "train.fused",
                "`fused_step` cannot pass over a step: blocks above are updated when a gradient shows not to be finite",
            )
            .label(at("fused_step"), "updates before that")
            .label(at("on_nan"), "would take the updates back")
            .help("leave `on_nan=skip` out, or `fused_step`"),
        );
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}
