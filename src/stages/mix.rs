//! `mix`: several data sets as one. Like `load data` it reads nothing: whoever uses the rows tokenises each set by its
//! own settings.

use super::load_data::Nothing;
use super::world::DataDesc;
use super::{Desc, Lowered, Refusal, Stage, World};
use crate::plan::Step;
use crate::text::{Diagnostic, Result};

pub struct Mix;

impl Stage for Mix {
    fn name(&self) -> &'static str {
        "mix"
    }

    fn lower(&self, step: &Step, world: &mut World<'_>) -> Result<Lowered, Refusal> {
        let given = world.all_data(step, "data")?;
        let parts: Vec<DataDesc> = given.iter().flat_map(|desc| desc.sets().iter().cloned()).collect();
        let Some(first) = parts.first() else { return Err(Vec::new()) };
        for other in &parts[1..] {
            if let Some(words) = differ(first, other) {
                return Err(vec![
                    Diagnostic::error("data.mix", format!("data sets that are mixed agree on {words}"))
                        .label(step.name_span, "mixes these")
                        .label(first.span, "one way here")
                        .label(other.span, "another way here")
                        .help(format!("write the same {words} on both")),
                ]);
            }
        }
        // Rows of different sets meet in one batch: the longest decides what it takes, and any holdout is a holdout.
        let mut settings = (*first.settings).clone();
        let lengths: Option<Vec<usize>> = parts.iter().map(|part| part.settings.max_len).collect();
        settings.max_len = lengths.and_then(|lengths| lengths.into_iter().max());
        settings.paths = parts.iter().flat_map(|part| part.settings.paths.iter().cloned()).collect();
        settings.holdout = parts.iter().find_map(|part| part.settings.holdout);
        let settings = world.facts.settings(settings);
        let present = parts.iter().all(|part| part.present);
        let desc = DataDesc { settings, present, index: world.index, span: step.span, line: step.line, parts };
        if let Some(id) = step.makes.first() {
            world.describe(*id, Desc::Data(desc));
        }
        Ok(Lowered { phases: Vec::new(), keeps: Vec::new(), body: Box::new(Nothing) })
    }
}

/// What two sets would have to agree on to share a batch.
fn differ(a: &DataDesc, b: &DataDesc) -> Option<&'static str> {
    let (a, b) = (&a.settings, &b.settings);
    if a.packed != b.packed {
        Some("`packed`")
    } else if a.packed && a.max_len != b.max_len {
        Some("`max_len`, the length of a packed sequence")
    } else if a.shuffle != b.shuffle {
        Some("`shuffle`")
    } else {
        None
    }
}
