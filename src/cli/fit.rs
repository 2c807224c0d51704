//! `tunepipe fit`: the change that costs least and makes a pipeline fit, as a patch of its file.

use std::path::Path;

use serde_json::json;

use super::prepare::{Prepared, answer_json, complain, facts};
use super::{Exit, Pipeline, machine};
use crate::memory::Profile;
use crate::run::Voice;
use crate::stages::Target;
use crate::text::{Fault, out};
use crate::tools::{self, Fit, edits, in_words, needs, needs_both};

pub fn fit(pipeline: &Pipeline, write: bool) -> Exit {
    if write && pipeline.file == Path::new("-") {
        complain(&Fault::new("usage.stdin", "standard input cannot be written to").help("name the file"));
        return Exit::Usage;
    }
    let mut prepared = match Prepared::read(pipeline) {
        Ok(prepared) => prepared,
        Err(exit) => return exit,
    };
    prepared.only_plans = true;
    let voice = if pipeline.quiet { Voice::Quiet } else { Voice::Normal };
    let facts = facts(voice);
    let targets = prepared.budgets();
    let mut targets = if targets.is_empty() { vec![Target::this_machine()] } else { targets };
    let mut before: Vec<Profile> = Vec::new();
    for target in &mut targets {
        let Some(lowered) = prepared.lower(target, &facts) else { continue };
        if target.budget.is_none() {
            // Without a budget, what the machine has free, where the outputs will lie.
            target.limits = machine::free(&lowered.writes);
        }
        before.push(lowered.view.profile);
    }
    facts.quiet_down();
    let Some(plan) = prepared.plan.as_ref().filter(|_| !prepared.failed() && before.len() == targets.len()) else {
        if pipeline.json {
            answer_json(&json!({"version": 1, "ok": false, "diagnostics": prepared.diagnostics_json()}));
        } else {
            prepared.report();
        }
        return Exit::Wrong;
    };
    let found = tools::fit(plan, &targets, &facts);
    facts.quiet_down();
    let state = |profiles: &[Profile]| -> Vec<String> {
        targets
            .iter()
            .zip(profiles)
            .map(|(target, profile)| format!("{}: {}", target.label, needs(profile, target)))
            .collect()
    };
    match found {
        Fit::Already => {
            if pipeline.json {
                answer_json(&json!({"version": 1, "fits": true, "change": null, "before": state(&before),
                                    "diagnostics": prepared.diagnostics_json()}));
            } else {
                out::answer(&format!("fits as it is\n  {}\n", state(&before).join("\n  ")));
            }
            Exit::Done
        }
        Fit::None { needs } => {
            if pipeline.json {
                answer_json(
                    &json!({"version": 1, "fits": false, "change": null, "before": state(&before), "least": state(&needs),
                            "diagnostics": prepared.diagnostics_json()}),
                );
            } else {
                out::answer(&format!(
                    "nothing fits: with every switch on, the smallest batch and the shortest rows it still takes\n  {}\n",
                    state(&needs).join("\n  ")
                ));
            }
            Exit::OverBudget
        }
        Fit::Change { change, after } => {
            let both = targets.iter().zip(before.iter().zip(&after)).map(|(target, (before, after))| {
                let (before, after) = needs_both(before, after, target);
                (format!("{}: {before}", target.label), format!("{}: {after}", target.label))
            });
            let (before, after): (Vec<String>, Vec<String>) = both.unzip();
            let source = prepared.sources.get(plan.source);
            let text = patched(&source.text, &edits(plan, &change).unwrap_or_default());
            let patch = similar::TextDiff::from_lines(&*source.text, &text)
                .unified_diff()
                .context_radius(2)
                .header(&source.name, &source.name)
                .to_string();
            if pipeline.json {
                answer_json(&json!({"version": 1, "fits": false, "change": in_words(plan, &change), "patch": patch,
                                    "before": before, "after": after,
                                    "diagnostics": prepared.diagnostics_json()}));
            } else {
                out::data(&format!(
                    "{}\n\nbefore  {}\nafter   {}\n\n{patch}",
                    in_words(plan, &change),
                    before.join("\n        "),
                    after.join("\n        "),
                ));
            }
            if write { apply(&pipeline.file, &text) } else { Exit::Done }
        }
    }
}

/// The machine at hand, with what it has free.
pub(super) fn here() -> Target {
    let mut target = Target::this_machine();
    target.limits = machine::free(&[]);
    target
}

/// The text with spans replaced; the edits are in order and do not overlap.
pub(super) fn patched(text: &str, edits: &[(crate::text::Span, String)]) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut at = 0;
    for (span, replacement) in edits {
        let (start, end) = (span.start as usize, span.end as usize);
        out.push_str(text.get(at..start).unwrap_or_default());
        out.push_str(replacement);
        at = end.max(at);
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

fn apply(file: &Path, text: &str) -> Exit {
    match crate::store::write(file, true, |out| out.put(text.as_bytes())) {
        Ok(()) => Exit::Done,
        Err(fault) => {
            complain(&fault);
            Exit::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{SourceId, Span};

    #[test]
    fn edits_leave_the_rest_of_the_text_alone() {
        let text = "train lora batch=8 # big\nsave\n";
        let at = |start, end| Span::new(SourceId(0), start, end);
        let edits = [(at(11, 18), "batch=2".to_owned()), (at(18, 18), " free_logits".to_owned())];
        assert_eq!(patched(text, &edits), "train lora batch=2 free_logits # big\nsave\n");
    }
}
