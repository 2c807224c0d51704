//! `tunepipe check`: types a pipeline, against its budgets too.

use serde_json::json;

use super::prepare::{Prepared, answer_json};
use super::{Exit, Pipeline};
use crate::memory::{Bytes, Place};
use crate::run::{Console, Voice};
use crate::stages::Facts;
use crate::text::out;
use crate::tools::{TargetPlan, target_json};

pub fn check(pipeline: &Pipeline) -> Exit {
    let mut prepared = match Prepared::read(pipeline) {
        Ok(prepared) => prepared,
        Err(exit) => return exit,
    };
    let voice = if pipeline.quiet { Voice::Quiet } else { Voice::Normal };
    let facts = Facts::new(Box::new(Console::new(None, voice)));
    let views = prepared.targets(&facts);
    facts.quiet_down();
    if pipeline.json {
        answer_json(&json!({
            "version": 1,
            "file": pipeline.file.display().to_string(),
            "ok": prepared.exit() == Exit::Done,
            "targets": views.iter().map(target_json).collect::<Vec<_>>(),
            "diagnostics": prepared.diagnostics_json(),
        }));
    } else {
        prepared.report();
        if !prepared.failed() {
            let mut said: Vec<&String> = Vec::new();
            for remark in views.iter().flat_map(|view| &view.remarks) {
                if !pipeline.quiet && !said.contains(&remark) {
                    out::say(&format!("note: {remark}"));
                    said.push(remark);
                }
            }
            for view in &views {
                out::answer(&format!("{}: {}\n", pipeline.file.display(), verdict(view)));
            }
        }
    }
    prepared.exit()
}

/// One line on one target.
fn verdict(view: &TargetPlan) -> String {
    let peak = view.profile.peak();
    if !view.judged() {
        let needs: Vec<String> = Place::ALL
            .into_iter()
            .filter(|place| peak[*place] > 0)
            .map(|place| format!("{place} {}", Bytes(peak[place])))
            .collect();
        return format!("right; not judged, as there is no budget line (needs {})", needs.join(", "));
    }
    let judged: Vec<String> = Place::ALL
        .into_iter()
        .filter_map(|place| match view.limits.get(place) {
            Some(limit) => Some(format!("{place} {} of {}", Bytes(peak[place]), Bytes(limit))),
            None if peak[place] > 0 => Some(format!("{place} {} not judged", Bytes(peak[place]))),
            None => None,
        })
        .collect();
    let word = if view.fits() { "fits" } else { "does not fit" };
    format!("{word} {} ({})", view.label, judged.join(", "))
}
