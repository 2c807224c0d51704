//! Runs an admitted schedule, stage by stage, and measures it against its plan.

use std::collections::BTreeMap;
use std::path::Path;

use crate::memory::{Admitted, Ledger, Place};
use crate::model::Model;
use crate::plan::{Plan, ValueId};
use crate::stages::{self, Body, Job, Watch};
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

/// Takes nothing but what was admitted. A failing stage ends the run; its diagnostic stands at its statement.
pub fn execute(
    admitted: Admitted<Box<dyn Body>>,
    plan: &Plan,
    watch: &mut dyn Watch,
    run_dir: &Path,
) -> Result<Outcome, Box<Failure>> {
    stages::start();
    let (schedule, profile) = admitted.into_parts();
    let ledger = Ledger::default();
    let mut models: BTreeMap<ValueId, Model> = BTreeMap::new();
    let mut measured = Vec::new();
    let mut on_disk = 0u64;
    for (index, ((stage, planned), step)) in
        schedule.stages.into_iter().zip(&profile.stages).zip(&plan.steps).enumerate()
    {
        watch.stage(&stage.name, stage.line);
        let mut job = Job::new(step, index, &stage.phases, &ledger, &mut models, watch, run_dir);
        let result = stage.body.run(&mut job);
        let (seen, wrote) = job.finish();
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
        if let Err(fault) = result {
            let diagnostic = step.called(Diagnostic::from_fault(&fault, step.name_span, "this stage failed"));
            return Err(Box::new(Failure { diagnostic, measured }));
        }
        // A value dies after its last use, and its memory with it.
        models.retain(|id, _| plan.value(*id).last_use > index);
    }
    Ok(Outcome { measured, ledger })
}
