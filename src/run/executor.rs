//! Runs an admitted schedule, stage by stage, and measures it against its plan.

use std::collections::BTreeMap;
use std::path::Path;

use super::taken_up::Start;
use crate::memory::{Admitted, Ledger, Place};
use crate::model::Model;
use crate::plan::{Plan, ValueId};
use crate::stages::{self, Body, Done, Job, STOPPED, Watch};
use crate::text::Diagnostic;
use crate::tools::Measured;

/// What a run leaves to report.
pub struct Outcome {
    pub measured: Vec<Measured>,
    pub ledger: Ledger,
}

/// A stage that failed, with what was measured until then.
pub struct Failure {
    pub diagnostic: Diagnostic,
    pub measured: Vec<Measured>,
}

/// Takes nothing but what was admitted. A failing stage ends the run; its diagnostic stands at its statement. `start`
/// says what an earlier process of the same run has done: that is done again only as far as its values are wanted.
pub fn execute(
    admitted: Admitted<Box<dyn Body>>,
    plan: &Plan,
    watch: &mut dyn Watch,
    run_dir: &Path,
    mut start: Start,
) -> Result<Outcome, Box<Failure>> {
    stages::start();
    let (schedule, profile) = admitted.into_parts();
    let ledger = Ledger::default();
    let mut models: BTreeMap<ValueId, Model> = BTreeMap::new();
    let mut measured = Vec::new();
    let mut on_disk = 0u64;
    let wanted = wanted(plan, start.stage);
    for (index, ((stage, planned), step)) in
        schedule.stages.into_iter().zip(&profile.stages).zip(&plan.steps).enumerate()
    {
        let again = index < start.stage;
        if again && !wanted.get(index).is_some_and(|wanted| *wanted) {
            on_disk = on_disk.saturating_add(start.bytes(index));
            continue;
        }
        let found = start.found.remove(&index);
        // Its beginning is on record, unless it is done for the first time.
        watch.again(again || found.is_some());
        watch.stage(&stage.name, stage.line);
        watch.again(again);
        let mut job = Job::new(step, index, &stage.phases, &ledger, &mut models, watch, run_dir).taken_up(found);
        let result = match job.stop()() {
            true => Err(stages::stopped("interrupted between two stages")),
            false => stage.body.run(&mut job),
        };
        let (seen, wrote, outputs) = job.finish();
        for phase in &planned.phases {
            let Some(peak) = phase.measured.as_ref().or_else(|| seen.get(phase.name)) else { continue };
            for place in Place::ALL {
                let measured_bytes = peak[place] + if place == Place::Disk { on_disk } else { 0 };
                if phase.peak[place] > 0 {
                    measured.push(Measured {
                        stage: stage.name.clone(),
                        phase: phase.name.to_owned(),
                        place,
                        planned: phase.peak[place],
                        measured: measured_bytes,
                    });
                }
            }
        }
        on_disk = on_disk.saturating_add(wrote);
        let recorded =
            result.and_then(|()| watch.done(&Done { index, name: &stage.name, outputs: &outputs, bytes: wrote }));
        if let Err(fault) = recorded {
            let words = if fault.code == STOPPED { "was at work" } else { "this stage failed" };
            let diagnostic = step.called(Diagnostic::from_fault(&fault, step.name_span, words));
            return Err(Box::new(Failure { diagnostic, measured }));
        }
        // A value dies after its last use, and its memory with it.
        models.retain(|id, _| plan.value(*id).last_use > index);
    }
    Ok(Outcome { measured, ledger })
}

/// Which stages have to be done, where those before `start` are done already: all from there on, and those whose values
/// they use.
pub fn wanted(plan: &Plan, start: usize) -> Vec<bool> {
    let mut wanted: Vec<bool> = (0..plan.steps.len()).map(|index| index >= start).collect();
    for index in (0..plan.steps.len()).rev() {
        if !wanted[index] {
            continue;
        }
        for (_, id) in &plan.steps[index].inputs {
            if let Some(maker) = wanted.get_mut(plan.value(*id).made_by) {
                *maker = true;
            }
        }
    }
    wanted
}
