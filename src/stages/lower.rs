//! From a checked plan to a schedule, for one target.

use std::path::PathBuf;

use super::{Body, Facts, STAGES, Target, World};
use crate::kernels;
use crate::memory::{Holding, Limits, Place, Rising, Schedule, StagePlan};
use crate::plan::{Plan, Step};
use crate::text::Diagnostic;

/// The heap that the program takes for itself before any stage: catalogue, grammar, output.
/// Measured at 0.5 to 3 MiB; planned above that, since a plan may never be the smaller.
const PROGRAM: u64 = 6 << 20;

/// And for each thread: its queues, and the stack of regular expressions that outlives a tokenizer. Measured at 60 KiB
/// between 1 and 16 threads.
const THREAD: u64 = 96 << 10;

/// A schedule with all that was found out on the way to it.
pub struct Lowering {
    /// None when a stage was refused.
    pub schedule: Option<Schedule<Box<dyn Body>>>,
    pub diagnostics: Vec<Diagnostic>,
    /// Steps that were refused for what they say themselves, not for what an earlier one did not make.
    pub refused: Vec<usize>,
    pub remarks: Vec<String>,
    /// Files that decide the result, for the manifest.
    pub inputs: Vec<PathBuf>,
    /// Folders that the run will make.
    pub outputs: Vec<PathBuf>,
    /// Where bytes will lie on disk that do not now.
    pub writes: Vec<(PathBuf, u64)>,
    /// Errors that stop a run but not a plan.
    pub not_runnable: Vec<Diagnostic>,
    /// Outputs that exist.
    pub standing: Vec<Diagnostic>,
}

/// The program itself, as a holding; of a machine with a GPU, whose threads are not known, without them.
pub(super) fn program(target: &Target) -> Holding {
    let threads = if target.gpu { 0 } else { target.threads as u64 };
    Holding::new("program", Place::Ram, PROGRAM.saturating_add(threads.saturating_mul(THREAD)), "")
}

/// The process itself.
fn floor(target: &Target) -> Vec<Holding> {
    let mut floor = vec![program(target)];
    if !target.gpu {
        floor.push(Holding::new("matmul slabs", Place::Ram, kernels::slabs(target.threads), "threads"));
    }
    floor
}

/// Lowers every step, going on after a refusal so that one bad stage does not hide the next.
pub fn lower(plan: &Plan, target: &Target, facts: &Facts) -> Lowering {
    lowering(plan, target, facts, None, &mut |_, _| {})
}

/// As [`lower`], but given up, with no schedule, at the first stage that overruns the target's limits for certain.
pub fn lower_within(plan: &Plan, target: &Target, facts: &Facts) -> Lowering {
    lowering(plan, target, facts, Some(&target.limits), &mut |_, _| {})
}

/// As [`lower`]; `watch` sees what is known before each step.
pub(super) fn lower_watched(
    plan: &Plan,
    target: &Target,
    facts: &Facts,
    watch: &mut dyn FnMut(&Step, &World<'_>),
) -> Lowering {
    lowering(plan, target, facts, None, watch)
}

fn lowering(
    plan: &Plan,
    target: &Target,
    facts: &Facts,
    limits: Option<&Limits>,
    watch: &mut dyn FnMut(&Step, &World<'_>),
) -> Lowering {
    let floor = floor(target);
    let mut within = limits.and_then(|limits| Some((limits, Rising::new(&floor).ok()?)));
    let mut world = World::new(plan, target, facts);
    let mut diagnostics = Vec::new();
    let mut stages: Vec<StagePlan<Box<dyn Body>>> = Vec::with_capacity(plan.steps.len());
    let (mut whole, mut refused) = (true, Vec::new());
    for (index, step) in plan.steps.iter().enumerate() {
        world.index = index;
        watch(step, &world);
        let Some(stage) = STAGES.iter().find(|stage| stage.name() == step.stage) else {
            diagnostics.push(
                Diagnostic::error("stage.no_body", format!("`{}` is declared but this build cannot do it", step.stage))
                    .label(step.name_span, "has no body"),
            );
            whole = false;
            continue;
        };
        let warned = world.warnings.len();
        let fatal = world.not_runnable.len();
        let result = stage.lower(step, &mut world);
        for list in [world.warnings.get_mut(warned..), world.not_runnable.get_mut(fatal..)].into_iter().flatten() {
            for diagnostic in list {
                *diagnostic = step.called(diagnostic.clone());
            }
        }
        match result {
            Ok(lowered) => {
                let stage = StagePlan {
                    name: step.stage.clone(),
                    span: step.span,
                    line: step.line,
                    phases: lowered.phases,
                    keeps: lowered.keeps,
                    body: lowered.body,
                };
                // A sum that cannot be counted is the profile's to say.
                let peak = within.as_mut().and_then(|(limits, rising)| Some((limits, rising.add(&stage).ok()?)));
                stages.push(stage);
                if peak.is_some_and(|(limits, peak)| !limits.overruns(peak).is_empty()) {
                    whole = false;
                    break;
                }
            }
            Err(found) => {
                if !found.is_empty() {
                    refused.push(index);
                }
                diagnostics.extend(found.into_iter().map(|diagnostic| step.called(diagnostic)));
                whole = false;
            }
        }
    }
    let over = world.outputs_over_inputs();
    whole &= over.is_empty();
    diagnostics.extend(over);
    diagnostics.append(&mut world.warnings);
    for (index, phase) in world.early() {
        // Where a stage was refused there is no schedule, and indices mean nothing.
        if let Some(stage) = stages.get_mut(index).filter(|_| whole) {
            stage.phases.push(phase);
        }
    }
    if !target.gpu && target.threads != rayon::current_num_threads() {
        world.remark(format!("planned for a machine with {} threads", target.threads));
    }
    Lowering {
        schedule: whole.then_some(Schedule { floor, resident: world.residents(), stages }),
        diagnostics,
        refused,
        outputs: world.outputs(),
        writes: world.writes,
        remarks: world.remarks,
        inputs: world.inputs,
        not_runnable: world.not_runnable,
        standing: world.standing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn every_signature_has_a_body_and_every_body_a_signature() {
        let catalog = Catalog::standard();
        let mut declared: Vec<&str> = catalog.stages.iter().map(|s| s.name.as_str()).collect();
        let mut built: Vec<&str> = STAGES.iter().map(|s| s.name()).collect();
        declared.sort_unstable();
        built.sort_unstable();
        assert_eq!(declared, built);
    }
}
