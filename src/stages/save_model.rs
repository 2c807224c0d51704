//! `save model`: the whole model as a Hugging Face folder.

use super::output::{Destination, saved_type, write};
use super::world::blame;
use super::{Lowered, Refusal, Stage, World};
use crate::plan::Step;
use crate::text::Fault;

pub struct SaveModel;

impl Stage for SaveModel {
    fn name(&self) -> &'static str {
        "save model"
    }

    fn lower(&self, step: &Step, world: &mut World<'_>) -> Result<Lowered, Refusal> {
        let model = world.model(step)?;
        let Some(id) = step.input("model") else { return Err(Vec::new()) };
        let dtype = saved_type(step.args.text("dtype"), model.save_as);
        let destination = Destination::of(step, world, &model, dtype)?;
        let fail = |fault: Fault| vec![blame(step, "path", &fault)];
        write("model", id, &model, destination, true, None, world).map_err(fail)
    }
}
