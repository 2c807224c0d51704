//! `tunepipe run`: does what the pipeline says.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::asked::Recorded;
use super::machine;
use super::prepare::{Prepared, answer_json, complain, facts, show, stem};
use super::terminal::paper;
use super::{DeviceChoice, Exit, Pipeline, outputs};
use crate::memory::{Admitted, Place, admit, peak_resident};
use crate::run::signals::{self, Signal};
use crate::run::{Console, Journal, Stand, Start, Voice, execute, manifest};
use crate::stages::{self, Body, Facts, RunHome, STOPPED, Target};
use crate::store::Cache;
use crate::text::{self, Fault, out};
use crate::tools::{Measured, TargetPlan, memory_table, plan_table};

pub fn run(pipeline: &Pipeline, run_dir: Option<&Path>, device: DeviceChoice) -> Exit {
    if device == DeviceChoice::Cuda {
        complain(
            &Fault::new("device.no_cuda", "this build has no CUDA backend")
                .help("leave `--device` out, or say `--device cpu`: the same pipeline runs on the processor"),
        );
        return Exit::Usage;
    }
    if let Some(Err(fault)) = run_dir.map(outputs::run_folder) {
        complain(&fault);
        return Exit::Usage;
    }
    let mut prepared = match Prepared::read(pipeline) {
        Ok(prepared) => prepared,
        Err(exit) => return exit,
    };
    if prepared.empty(pipeline, "run") {
        return Exit::Usage;
    }
    if let Some(folder) = run_dir {
        prepared.home = Some(RunHome::exactly(folder));
    }
    let voice = if pipeline.quiet { Voice::Quiet } else { Voice::Normal };
    let facts = facts(voice).to_run();
    let ready = match ready(pipeline, &mut prepared, &facts, 0) {
        Ok(ready) => ready,
        Err(exit) => return exit,
    };
    let Some(plan) = &prepared.plan else { return Exit::Wrong };
    // The run holds what it needs of the facts; the rest is given back before anything is measured.
    drop(facts);

    let begun = Journal::create(Path::new("runs"), &stem(&pipeline.file), run_dir).and_then(|mut journal| {
        let mut manifest = manifest(plan, &prepared.sources, &ready.inputs, Cache::of_user().as_ref())?;
        manifest["asked"] = Recorded::of(pipeline, &prepared.asked, plan, device).json();
        journal.manifest(&manifest)?;
        journal.outcome(Stand::Running)?;
        Ok(journal)
    });
    match begun {
        Ok(journal) => carry_out(pipeline, prepared, ready, voice, journal, Start::default()),
        Err(fault) => {
            complain(&fault);
            Exit::Failed
        }
    }
}

/// What may be run.
pub struct Ready {
    admitted: Admitted<Box<dyn Body>>,
    view: TargetPlan,
    /// Files that decide the result.
    pub inputs: Vec<PathBuf>,
}

/// Lowers, judges and admits a pipeline for this machine. `on_disk`: bytes of what it writes that lie there already.
pub fn ready(pipeline: &Pipeline, prepared: &mut Prepared, facts: &Facts, on_disk: u64) -> Result<Ready, Exit> {
    // The declared budgets first: a pipeline that breaks its own promise is not run anywhere.
    if prepared.plan.as_ref().is_some_and(|plan| !plan.budgets.is_empty()) {
        prepared.targets(facts);
    }
    let mut here = Target::this_machine();
    let budgeted = prepared.budgets();
    if let Some(other) = budgeted.iter().find(|target| !target.gpu && target.threads != here.threads)
        && !pipeline.quiet
    {
        let (theirs, ours) = (other.threads, here.threads);
        out::say(&format!(
            "note: the budget is for {theirs} threads, and this run has {ours}: it is planned again for those"
        ));
    }
    let lowered = if prepared.exit() == Exit::Done { prepared.lower(&here, facts) } else { None };
    if let Some(lowered) = &lowered {
        here.limits = machine::free(&lowered.writes);
        here.limits.disk = here.limits.disk.map(|free| free.saturating_add(on_disk));
    }
    facts.quiet_down();
    let Some(mut lowered) = lowered else {
        return Err(refuse(pipeline, prepared));
    };
    lowered.view.limits = here.limits;
    // What was a warning to a plan is an error to a run.
    let fatal = std::mem::take(&mut lowered.not_runnable);
    prepared.diagnostics.retain(|known| !fatal.iter().any(|other| other.message == known.message));
    prepared.diagnostics.extend(fatal);
    prepared.judge(&lowered.view, &here, facts);
    if prepared.exit() != Exit::Done {
        return Err(refuse(pipeline, prepared));
    }
    prepared.report();
    let admitted = match admit(lowered.schedule, &here.limits) {
        Ok(Ok(admitted)) => admitted,
        Ok(Err(_)) => return Err(Exit::OverBudget),
        Err(fault) => {
            complain(&fault);
            return Err(Exit::Wrong);
        }
    };
    if !pipeline.quiet && !pipeline.json && !pipeline.brief {
        out::answer(&format!(
            "{} on {}\n\n{}\n",
            text::shown_path(&pipeline.file),
            lowered.view.label,
            plan_table(&lowered.view, paper())
        ));
    }
    Ok(Ready { admitted, view: lowered.view, inputs: lowered.inputs })
}

/// Runs what was admitted, and tells how it went.
pub fn carry_out(
    pipeline: &Pipeline,
    mut prepared: Prepared,
    ready: Ready,
    voice: Voice,
    mut journal: Journal,
    start: Start,
) -> Exit {
    let Some(plan) = &prepared.plan else { return Exit::Wrong };
    let listening = signals::listen(voice == Voice::Normal);
    let folder = journal.folder().to_owned();
    let mut console = Console::new(Some(&mut journal), voice);
    console.answers = !pipeline.json;
    let result = match listening {
        Ok(()) => execute(ready.admitted, plan, &mut console, &folder, start),
        Err(fault) => {
            complain(&fault);
            return Exit::Failed;
        }
    };
    console.clear();
    let broken = console.broken.take();
    let results = std::mem::take(&mut console.results);
    let (measured, diagnostic) = match result {
        Ok(outcome) => (outcome.measured, None),
        Err(failure) => (failure.measured, Some(failure.diagnostic)),
    };
    let stopped = diagnostic.as_ref().filter(|diagnostic| diagnostic.code == STOPPED).and_then(|_| signals::signal());
    let stand = match (&diagnostic, &broken, stopped) {
        (None, None, _) => Stand::Done,
        (_, None, Some(_)) => Stand::Interrupted,
        _ => Stand::Failed,
    };
    let recorded = broken
        .map_or(Ok(()), Err)
        .and_then(|()| journal.memory(&measured))
        .and_then(|()| journal.process(ready.view.profile.peak()[Place::Ram], peak_resident()))
        .and_then(|()| journal.outcome(stand))
        // Nothing is taken up again that has come to its end.
        .and_then(|()| if stand == Stand::Done { stages::remove_all(&folder) } else { Ok(()) });
    if let Err(fault) = &recorded {
        complain(fault);
    }
    let again = format!("tunepipe resume {}", folder.display());
    match (&diagnostic, stopped) {
        (Some(diagnostic), Some(signal)) => {
            out::say(&format!("{}: {}", signal.name(), diagnostic.message));
            out::say(&format!("  help: `{again}` goes on from there"));
        }
        (Some(diagnostic), None) => show(&prepared.sources, std::slice::from_ref(diagnostic)),
        (None, _) => {}
    }
    let ok = diagnostic.is_none() && recorded.is_ok();
    if pipeline.json && !pipeline.brief {
        prepared.diagnostics.extend(diagnostic);
        let memory: Vec<_> = measured.iter().map(row_json).collect();
        let mut answer = json!({"version": 1, "ok": ok, "run": folder.display().to_string(), "results": results,
                                "memory": memory, "diagnostics": prepared.diagnostics_json()});
        if let Some(signal) = stopped {
            answer["interrupted"] = signal.name().into();
            answer["resume"] = again.into();
        }
        answer_json(&answer);
    } else if ok && !pipeline.quiet && !pipeline.brief {
        out::answer(&format!("\n{}\nrun folder: {}\n", memory_table(&measured, paper()), folder.display()));
    }
    warn_of_drift(&measured);
    match stopped.filter(|_| recorded.is_ok()) {
        Some(Signal::Interrupt) => Exit::Interrupted,
        Some(Signal::Terminate) => Exit::Terminated,
        None if ok => Exit::Done,
        None => Exit::Failed,
    }
}

pub fn refuse(pipeline: &Pipeline, prepared: &Prepared) -> Exit {
    if pipeline.json && !pipeline.brief {
        answer_json(&json!({"version": 1, "ok": false, "diagnostics": prepared.diagnostics_json()}));
    } else {
        prepared.report();
    }
    match prepared.exit() {
        Exit::Done => Exit::Wrong,
        exit => exit,
    }
}

fn row_json(row: &Measured) -> serde_json::Value {
    json!({"stage": row.stage, "phase": row.phase, "place": row.place.key(), "planned": row.planned,
           "measured": row.measured})
}

/// A phase over its plan is a defect of the planner, and is said to be one.
fn warn_of_drift(measured: &[Measured]) {
    let over: Vec<&Measured> = measured.iter().filter(|r| r.measured > r.planned).collect();
    if over.is_empty() {
        return;
    }
    out::say("note: memory went over the plan, which is a defect of tunepipe; please report these rows:");
    for row in over {
        out::say(&format!(
            "  {} · {} {}: planned {} bytes, measured {}",
            row.stage, row.phase, row.place, row.planned, row.measured
        ));
    }
}
