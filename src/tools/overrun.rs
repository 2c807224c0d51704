//! What is said of a pipeline that does not fit: where, by how much, and which argument makes it big.

use super::{TargetPlan, holdings_brief};
use crate::memory::{Bytes, Holding, Place};
use crate::plan::{Plan, Step};
use crate::text::{Diagnostic, Span};

/// An error for each place that overruns, labelled on the argument that the largest holding grows with. `remedy` is
/// what was found to fit.
pub fn overrun(plan: &Plan, view: &TargetPlan, remedy: Option<&str>) -> Vec<Diagnostic> {
    let peak = view.profile.peak();
    view.limits
        .overruns(peak)
        .into_iter()
        .filter_map(|over| {
            let (stage, phase) = view.profile.summit(over.place)?;
            // A stage a step, in their order.
            let at = view.profile.stages.iter().position(|other| std::ptr::eq(other, stage))?;
            let step = plan.steps.get(at)?;
            let mut message = format!(
                "needs {} of {}, {} more than {} has",
                Bytes(over.peak),
                place_words(over.place),
                Bytes(over.peak - over.limit),
                view.label,
            );
            if view.label == "this machine" {
                message.push_str(" free");
            }
            let (span, words) = blamed(plan, step, &phase.holdings, over.place)
                .unwrap_or_else(|| (step.name_span, largest(&phase.holdings, over.place, phase.name)));
            let mut diagnostic = step.called(Diagnostic::error("budget.over", message).label(span, words));
            if let Some(budget) = view.budget {
                diagnostic = diagnostic.label(budget, format!("allows {}", Bytes(over.limit)));
            }
            let breakdown = holdings_brief(&phase.holdings, over.place);
            diagnostic = diagnostic.note(format!("{} · {} holds\n{}", stage.name, phase.name, breakdown.trim_end()));
            Some(match remedy {
                Some(remedy) => diagnostic.help(remedy),
                None => diagnostic,
            })
        })
        .collect()
}

/// The argument, written in the pipeline, with which most of the phase grows: of the stage itself, or of one that made
/// its inputs, as `max_len` of `load data`. None where that is less than a fifth: then it is the model that is large.
fn blamed(plan: &Plan, step: &Step, holdings: &[Holding], place: Place) -> Option<(Span, String)> {
    let makers = step.inputs.iter().filter_map(|(_, id)| plan.steps.get(plan.value(*id).made_by));
    let steps: Vec<&Step> = std::iter::once(step).chain(makers).collect();
    let here: Vec<&Holding> = holdings.iter().filter(|h| h.place == place).collect();
    let total: u64 = here.iter().map(|h| h.bytes).fold(0, u64::saturating_add);
    let mut blamed: Vec<(Span, u64, &Holding)> = Vec::new();
    for holding in here {
        for name in holding.grows.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            let Some(span) = steps.iter().find_map(|step| given(step, name)) else { continue };
            match blamed.iter_mut().find(|(known, ..)| *known == span) {
                None => blamed.push((span, holding.bytes, holding)),
                Some((_, sum, largest)) => {
                    *sum = sum.saturating_add(holding.bytes);
                    if holding.bytes > largest.bytes {
                        *largest = holding;
                    }
                }
            }
        }
    }
    // Of those within a twentieth of the most the first: what a holding names first is what people change first.
    let most = blamed.iter().map(|(_, sum, _)| *sum).max()?;
    let (span, sum, largest) = blamed.into_iter().find(|(_, sum, _)| *sum >= most - most / 20)?;
    (sum >= total / 5).then(|| (span, format!("makes `{}` {}", largest.name, Bytes(largest.bytes))))
}

fn largest(holdings: &[Holding], place: Place, phase: &str) -> String {
    match holdings.iter().filter(|h| h.place == place).max_by_key(|h| h.bytes) {
        Some(holding) => format!("holds `{}`, {}", holding.name, Bytes(holding.bytes)),
        None => format!("the peak is here, in `{phase}`"),
    }
}

/// Where the pipeline gives an argument: of a stage in a recipe, at the call.
fn given(step: &Step, name: &str) -> Option<Span> {
    let arg = step.args.get(name)?;
    arg.from.as_ref().map_or(arg.span, |from| Some(from.span.unwrap_or(from.call)))
}

fn place_words(place: Place) -> &'static str {
    match place {
        Place::Gpu => "GPU memory",
        Place::Ram => "RAM",
        Place::Mapped => "mapped files",
        Place::Disk => "disk",
    }
}
