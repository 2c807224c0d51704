//! `tunepipe plan`: where every byte would go.

use super::prepare::{Prepared, answer_json};
use super::{Exit, Pipeline};
use crate::run::{Console, Voice};
use crate::stages::Facts;
use crate::text::out;
use crate::tools::{plan_json, plan_table};

pub fn plan(pipeline: &Pipeline) -> Exit {
    let mut prepared = match Prepared::read(pipeline) {
        Ok(prepared) => prepared,
        Err(exit) => return exit,
    };
    prepared.only_plans = true;
    let voice = if pipeline.quiet { Voice::Quiet } else { Voice::Normal };
    let facts = Facts::new(Box::new(Console::new(None, voice)));
    let views = prepared.targets(&facts);
    facts.quiet_down();
    if pipeline.json {
        answer_json(&plan_json(&views, prepared.diagnostics_json()));
    } else {
        for view in &views {
            out::answer(&format!("{} on {}\n\n{}\n", pipeline.file.display(), view.label, plan_table(view)));
        }
        prepared.report();
    }
    prepared.exit()
}
