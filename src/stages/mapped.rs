//! `mapped` on `load model`: which weights stay in the files, and why it is refused where none can.

use super::bridge::FileWeights;
use super::world::{Origin, blame};
use super::{Refusal, World};
use crate::memory::Bytes;
use crate::model::{Float, Form, Mapping, Shape};
use crate::plan::Step;
use crate::store::StoredType;
use crate::text::{Diagnostic, Span};

/// The tensors that stay in the files: none unless `mapped` is on, and at least one matrix where it is.
pub fn mapping(
    step: &Step,
    world: &mut World<'_>,
    origin: &Origin,
    shape: &Shape,
    form: Form,
) -> Result<Mapping, Refusal> {
    if !step.args.flag("mapped") {
        return Ok(Mapping::default());
    }
    let at = step.args.span("mapped").unwrap_or(step.name_span);
    let idle = |why: &str, help: &str| {
        vec![Diagnostic::error("arg.idle", "`mapped` changes nothing here").label(at, why).help(help)]
    };
    if world.target.gpu {
        if world.plan.budgets.iter().all(|budget| budget.device.gpu.is_some()) {
            return Err(idle("a card computes with a copy in its own memory", "leave `mapped` out"));
        }
        return Ok(Mapping::default());
    }
    let mapping = match origin {
        Origin::Files(files) => Mapping::of(shape, form, &FileWeights(&files.source)),
        Origin::Random { .. } => {
            return Err(idle("a model of random values lies in no file", "leave `mapped` out"));
        }
        Origin::Absent => {
            world.remark("`mapped` is planned as if the absent files held bf16, as most that are published do");
            Mapping::stored_as(shape, form, Float::Bf16)
        }
    };
    let parts = mapping.parts(shape, form).map_err(|f| vec![blame(step, "mapped", &f)])?;
    if let (0, Origin::Files(files)) = (parts.matrices, origin) {
        return Err(not_mappable(at, files.source.dtype(), form.embeddings));
    }
    world.remark(format!(
        "mapped: {} of the model are read where they lie in its files and count to no budget, {} are held in RAM",
        Bytes(parts.mapped),
        Bytes(parts.held)
    ));
    Ok(mapping)
}

/// Why no matrix of files of `stored` can be used where it lies by a run that computes with `own`, and what would change
/// that.
fn not_mappable(at: Span, stored: StoredType, own: Float) -> Refusal {
    let fault = Diagnostic::error("arg.idle", "`mapped` changes nothing here");
    let same = match stored {
        StoredType::F32 => Some(Float::F32),
        StoredType::BF16 => Some(Float::Bf16),
        StoredType::F16 => Some(Float::F16),
        _ => None,
    };
    let fault = match same {
        Some(same) if same == own => fault
            .label(at, "no matrix can be used where it lies in the model's files")
            .note("it has to lie in order, aligned to its type")
            .help("leave `mapped` out; a model saved by `save model` can be mapped"),
        Some(same) => fault
            .label(at, format!("the files hold {stored}, and the run computes with {}", own.name()))
            .help(format!("dtype={}, or leave `mapped` out", same.name())),
        None => fault
            .label(at, format!("the files hold {stored}, which is read into {}", own.name()))
            .help("leave `mapped` out"),
    };
    vec![fault]
}
