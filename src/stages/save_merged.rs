//! `save merged`: the model with its adapter added in, as a Hugging Face folder.
//!
//! `round(W + alpha/rank · B A)`, the sum in f32 and one rounding. With `low_ram` each tensor goes through one window
//! straight into the final file; without it the whole merged model is made first, as other tools do, and then written.
//! Both are the same bytes.

use super::output::{Destination, saved_type, write};
use super::world::blame;
use super::{Lowered, Refusal, Stage, World};
use crate::plan::Step;
use crate::text::{Diagnostic, Fault};

pub struct SaveMerged;

impl Stage for SaveMerged {
    fn name(&self) -> &'static str {
        "save merged"
    }

    fn lower(&self, step: &Step, world: &mut World<'_>) -> Result<Lowered, Refusal> {
        let model = world.model(step)?;
        let Some(id) = step.input("model") else { return Err(Vec::new()) };
        let original = step.args.text("base") == Some("original");
        if !original && step.args.given("base") && matches!(model.form.weights, crate::model::Held::Float(_)) {
            world.warnings.push(
                Diagnostic::warning("save.base", "the model is not quantised, so both bases are the same")
                    .label(step.args.span("base").unwrap_or(step.name_span), "changes nothing"),
            );
        }
        if let Some(line) = model.retrained.filter(|_| original) {
            return Err(vec![
                Diagnostic::error("save.base", "the source's weights are not the ones this adapter was trained on")
                    .label(step.args.span("base").unwrap_or(step.name_span), format!("line {line} trained them"))
                    .help("leave `base=original` out"),
            ]);
        }
        let dtype = saved_type(step.args.text("dtype"), model.save_as);
        let destination = Destination::of(step, world, &model, dtype)?;
        let fail = |fault: Fault| vec![blame(step, "path", &fault)];
        let base = original.then(|| model.origin.weights());
        write("merged model", id, &model, destination, step.args.flag("low_ram"), base, world).map_err(fail)
    }
}
