//! `tunepipe preview`: the first rows as a model sees them.

use serde_json::{Value, json};

use super::prepare::{Prepared, answer_json, facts};
use super::terminal::paper;
use super::{Exit, Pipeline};
use crate::run::Voice;
use crate::stages::{Target, previews};
use crate::text::out;
use crate::tools::{preview_json, preview_page};

pub fn preview(pipeline: &Pipeline, rows: usize) -> Exit {
    let mut prepared = match Prepared::read(pipeline) {
        Ok(prepared) => prepared,
        Err(exit) => return exit,
    };
    let voice = if pipeline.quiet { Voice::Quiet } else { Voice::Normal };
    let facts = facts(voice);
    let seen = match &prepared.plan {
        Some(plan) => {
            let (seen, found) = previews(plan, &Target::this_machine(), &facts);
            prepared.diagnostics.extend(found);
            seen
        }
        None => Vec::new(),
    };
    facts.quiet_down();
    if pipeline.json {
        let sets: Vec<Value> = seen.iter().map(|seen| preview_json(seen, rows)).collect();
        answer_json(&json!({"version": 1, "data": sets, "diagnostics": prepared.diagnostics_json()}));
        return prepared.exit();
    }
    for (at, seen) in seen.iter().enumerate() {
        out::answer(&format!("{}{}", if at > 0 { "\n" } else { "" }, preview_page(seen, rows, paper())));
    }
    prepared.report();
    if seen.is_empty() && prepared.exit() == Exit::Done {
        out::say("no rows to show: a data set is shown once its files are there and a stage with a model uses it");
    }
    prepared.exit()
}
