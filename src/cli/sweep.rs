//! `tunepipe run --sweep lr=1e-4,2e-4`: one run for each value, all planned before the first begins, ranked at the end.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use super::asked::asked;
use super::prepare::{Prepared, answer_json, complain, facts, stem, usage};
use super::terminal::paper;
use super::{DeviceChoice, Exit, Pipeline, outputs, run};
use crate::catalog::{Atom, Catalog};
use crate::plan::{Plan, Val, ValueId};
use crate::run::Voice;
use crate::stages::{RunHome, Target};
use crate::text::{Fault, out};
use crate::tools::{Ranked, ranking};

/// Runs that one command may come to.
const MOST: usize = 256;

/// One combination of values.
struct Trial {
    pipeline: Pipeline,
    /// `lr=1e-4 rank=8`
    label: String,
}

pub fn sweep(pipeline: &Pipeline, run_dir: Option<&Path>, device: DeviceChoice, axes: &[String]) -> Exit {
    let trials = match trials(pipeline, axes) {
        Ok(trials) => trials,
        Err(fault) => {
            complain(&fault);
            return Exit::Usage;
        }
    };
    let folders = folder_names(trials.iter().map(|trial| &*trial.label));
    // An older run in one of the folders would be taken for this one's.
    let places = run_dir.into_iter().flat_map(|home| {
        let below = folders.iter().map(|name| home.join(name));
        std::iter::once(home.to_owned()).chain(below)
    });
    if let Some(Err(fault)) = places.map(|place| outputs::run_folder(&place)).find(Result::is_err) {
        complain(&fault);
        return Exit::Usage;
    }
    if let Err(exit) = planned(&trials, &folders, run_dir) {
        return exit;
    }
    let stem = stem(&pipeline.file);
    let home =
        match run_dir.map(Path::to_owned).map_or_else(|| crate::run::fresh_folder(&Path::new("runs").join(stem)), Ok) {
            Ok(home) => home,
            Err(fault) => {
                complain(&fault);
                return Exit::Failed;
            }
        };
    let mut ranked = Vec::new();
    let (mut failed, mut interrupted) = (false, None);
    for (at, trial) in trials.iter().enumerate() {
        if !pipeline.quiet && !pipeline.json {
            out::answer(&format!("{}/{}  {}\n", at + 1, trials.len(), trial.label));
        }
        let folder = home.join(folders.get(at).map_or("run", String::as_str));
        let started = Instant::now();
        let exit = run::run(&trial.pipeline, Some(&folder), device);
        failed |= exit != Exit::Done;
        if let Exit::Interrupted | Exit::Terminated = exit {
            let left = trials.len() - at - 1;
            if left > 0 {
                out::say(&format!("  note: {left} of {} runs were not begun", trials.len()));
            }
            interrupted = Some(exit);
        }
        ranked.push(Ranked {
            label: trial.label.clone(),
            done: exit == Exit::Done,
            score: scores(&folder),
            seconds: started.elapsed().as_secs_f64(),
            folder: folder.display().to_string(),
        });
        if interrupted.is_some() {
            break;
        }
    }
    ranked.sort_by(Ranked::order);
    if pipeline.json {
        let runs: Vec<Value> = ranked.iter().map(Ranked::json).collect();
        answer_json(
            &json!({"version": 1, "ok": !failed, "folder": home.display().to_string(), "runs": runs, "diagnostics": []}),
        );
    } else {
        out::answer(&format!("\n{}", ranking(&ranked, paper())));
    }
    match interrupted {
        Some(exit) => exit,
        None if failed => Exit::Failed,
        None => Exit::Done,
    }
}

/// Every combination of the axes' values, the first axis the slowest.
fn trials(pipeline: &Pipeline, axes: &[String]) -> Result<Vec<Trial>, Fault> {
    if pipeline.file == Path::new("-") {
        return Err(
            usage("standard input is read once, and a sweep reads its pipeline several times").help("name a file")
        );
    }
    let mut trials = vec![Trial { pipeline: Pipeline { brief: true, ..pipeline.clone() }, label: String::new() }];
    let mut names: Vec<&str> = Vec::new();
    let beside = asked(pipeline)?;
    for axis in axes {
        let Some((name, values)) =
            axis.split_once('=').map(|(name, values)| (name.trim(), values)).filter(|(name, _)| !name.is_empty())
        else {
            return Err(usage(format!("`--sweep {axis}` is not a `name=value,value`"))
                .help("for example `--sweep lr=1e-4,2e-4`"));
        };
        if names.contains(&name) {
            return Err(usage(format!("`{name}` is swept twice"))
                .help(format!("put all its values into one: `--sweep {name}=…,…`")));
        }
        let is_name = |given: &&String| given.split('=').next().map(str::trim) == Some(name);
        if let Some(other) = pipeline.params.iter().find(is_name) {
            return Err(usage(format!("`{name}` is swept, and given as `{other}`")).help("leave one of them out"));
        }
        if let Some(other) = pipeline.set.iter().find(is_name) {
            return Err(usage(format!("`{name}` is swept, and set by `--set {other}`")).help("leave one of them out"));
        }
        if let Some(place) = beside.beside(name).filter(|_| !pipeline.quiet) {
            out::say(&format!("note: `{name}` is swept: what {place} gives for it is not used"));
        }
        names.push(name);
        let values = split(values);
        if values.iter().any(|value| value.is_empty()) {
            return Err(usage(format!("`--sweep {axis}` has an empty value")).help("separate values by single commas"));
        }
        if let Some(value) = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)) {
            return Err(usage(format!("`--sweep {axis}` has `{}` twice", value.1))
                .help("leave one out: two runs of one seed are the same to the last bit"));
        }
        let mut next = Vec::new();
        for trial in &trials {
            for value in &values {
                let mut pipeline = trial.pipeline.clone();
                let given = format!("{name}={value}");
                // A dot is between a stage and its argument.
                if name.contains('.') {
                    pipeline.set.push(given.clone())
                } else {
                    pipeline.params.push(given.clone())
                }
                let label = if trial.label.is_empty() { given } else { format!("{} {given}", trial.label) };
                next.push(Trial { pipeline, label });
            }
        }
        if next.len() > MOST {
            return Err(usage(format!("the sweep comes to more than {MOST} runs")));
        }
        trials = next;
    }
    Ok(trials)
}

/// Values between commas; those within brackets and quotes belong to a value.
fn split(text: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let (mut depth, mut quoted) = (0usize, false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '[' | '(' if !quoted => depth += 1,
            ']' | ')' if !quoted => depth = depth.saturating_sub(1),
            ',' if !quoted && depth == 0 => {
                values.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = values.last_mut() {
            last.push(c);
        }
    }
    values.iter().map(|value| value.trim().to_owned()).collect()
}

/// Plans every run, so that the last does not fail hours after the first began, and holds their outputs apart.
fn planned(trials: &[Trial], folders: &[String], run_dir: Option<&Path>) -> Result<(), Exit> {
    let quiet = trials.first().is_some_and(|trial| trial.pipeline.quiet);
    let facts = facts(if quiet { Voice::Quiet } else { Voice::Normal });
    let mut outputs: Vec<(PathBuf, &str)> = Vec::new();
    let mut works: Vec<(Vec<Work>, &str)> = Vec::new();
    for (trial, folder) in trials.iter().zip(folders) {
        let mut prepared = Prepared::read(&trial.pipeline)?;
        if let Some(home) = run_dir {
            prepared.home = Some(RunHome::exactly(&home.join(folder)));
        }
        if prepared.plan.as_ref().is_some_and(|plan| !plan.budgets.is_empty()) {
            prepared.targets(&facts);
        }
        let lowered =
            if prepared.exit() == Exit::Done { prepared.lower(&Target::this_machine(), &facts) } else { None };
        facts.quiet_down();
        let mut lowered = match lowered {
            Some(lowered) if prepared.exit() == Exit::Done => lowered,
            _ => {
                refuse(trial, &prepared);
                return Err(if prepared.exit() == Exit::Done { Exit::Wrong } else { prepared.exit() });
            }
        };
        let work = prepared.plan.as_ref().map(work).unwrap_or_default();
        if let Some((_, other)) = works.iter().find(|(known, _)| *known == work) {
            complain(
                &Fault::new("sweep.same", format!("the runs with {other} and {} would do the same", trial.label))
                    .note("every argument of every stage has one value in both, outputs aside")
                    .help("leave one of equal values out; a value that nothing uses, or that `--set` replaces, is not worth a sweep"),
            );
            return Err(Exit::Wrong);
        }
        works.push((work, &trial.label));
        prepared.diagnostics.append(&mut lowered.not_runnable);
        if prepared.failed() {
            refuse(trial, &prepared);
            return Err(Exit::Wrong);
        }
        for output in lowered.outputs {
            if let Some((_, other)) = outputs.iter().find(|(known, _)| *known == output) {
                complain(
                    &Fault::new("sweep.output", format!("the runs with {other} and {} both write `{}`", trial.label, output.display()))
                        .help("put what is swept into the path, as in \"out/lr${lr}\"; `save adapter` without a path writes to the run's own folder"),
                );
                return Err(Exit::Wrong);
            }
            outputs.push((output, &trial.label));
        }
    }
    Ok(())
}

/// Says what is wrong with one of the runs, for the sake of which none begins.
fn refuse(trial: &Trial, prepared: &Prepared) {
    if trial.pipeline.json {
        answer_json(&json!({"version": 1, "ok": false, "given": trial.label,
                            "diagnostics": prepared.diagnostics_json()}));
    } else {
        out::say(&format!("with {}:", trial.label));
        prepared.report();
    }
}

/// A stage with all that decides what it computes: its arguments without the outputs, and its inputs.
type Work = (String, Vec<(String, Val)>, Vec<(String, ValueId)>);

fn work(plan: &Plan) -> Vec<Work> {
    let catalog = Catalog::standard();
    let steps = plan.steps.iter().map(|step| {
        let decl = catalog.stage(&step.stage);
        let output =
            |name: &str| decl.and_then(|decl| decl.arg(name)).is_some_and(|arg| arg.kind.0.contains(&Atom::Output));
        let args = step.args.0.iter().filter(|arg| !output(&arg.name));
        (step.stage.clone(), args.map(|arg| (arg.name.clone(), arg.val.clone())).collect(), step.inputs.clone())
    });
    steps.collect()
}

/// Bytes of a folder's name, before a number that tells it from another.
const LONGEST_NAME: usize = 100;

/// A folder's name for each combination. Characters that paths do not take give way, and long ones are cut; where two
/// come out alike, on a disk that does not tell capitals apart too, the later one is numbered.
fn folder_names<'t>(labels: impl Iterator<Item = &'t str>) -> Vec<String> {
    let fine = |c: char| if c.is_ascii_alphanumeric() || "=.,-+_".contains(c) { c } else { '_' };
    let mut taken = HashSet::new();
    let names = labels.map(|label| {
        let base: String = label.chars().map(fine).take(LONGEST_NAME).collect();
        let numbered = (2..).map(|n| format!("{base}-{n}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        names.find(|name| taken.insert(name.to_lowercase())).unwrap_or(base)
    });
    names.collect()
}

/// The last held-out loss, and the mean of the last tenth of the training losses.
fn scores(folder: &Path) -> (Option<f64>, Option<f64>) {
    let text = fs::read_to_string(folder.join("metrics.jsonl")).unwrap_or_default();
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let held = lines.iter().rev().find(|line| line["event"] == "eval").and_then(|line| line["loss"].as_f64());
    let losses: Vec<f64> =
        lines.iter().filter(|line| line["event"].is_null()).filter_map(|line| line["loss"].as_f64()).collect();
    let tail = losses.get(losses.len() - losses.len().div_ceil(10)..).unwrap_or(&[]);
    let mean = (!tail.is_empty()).then(|| tail.iter().sum::<f64>() / tail.len() as f64);
    (held, mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_between_commas() {
        assert_eq!(split("1e-4,2e-4"), ["1e-4", "2e-4"]);
        assert_eq!(split("[q_proj,v_proj],all"), ["[q_proj,v_proj]", "all"]);
        assert_eq!(split("\"a,b\",c"), ["\"a,b\"", "c"]);
        assert_eq!(split("1, 2"), ["1", "2"]);
    }

    #[test]
    fn every_run_has_a_folder_of_its_own() {
        let names = |labels: &[&str]| folder_names(labels.iter().copied());
        assert_eq!(names(&["lr=1e-4 path=\"a/b\""]), ["lr=1e-4_path=_a_b_"]);
        assert_eq!(names(&["p=a b", "p=a/b", "p=a-2", "p=A_B"]), ["p=a_b", "p=a_b-2", "p=a-2", "p=A_B-3"]);
        assert_eq!(names(&["p=a/b", "p=a_b-2", "p=a b"]), ["p=a_b", "p=a_b-2", "p=a_b-3"]);
        let long = names(&[&format!("p={}x", "é".repeat(400)), &format!("p={}y", "é".repeat(400))]);
        assert!(long[0] != long[1] && long.iter().all(|name| name.len() < 110), "{long:?}");
    }
}
