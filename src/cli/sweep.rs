//! `tunepipe run --sweep lr=1e-4,2e-4`: one run for each value, all planned before the first begins, ranked at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use super::prepare::{Prepared, answer_json, complain, facts, usage};
use super::{DeviceChoice, Exit, Pipeline, run};
use crate::run::Voice;
use crate::stages::Target;
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
    if let Err(exit) = planned(&trials) {
        return exit;
    }
    let stem = pipeline.file.file_stem().map_or_else(|| "stdin".into(), |stem| stem.to_string_lossy().into_owned());
    let home =
        match run_dir.map(Path::to_owned).map_or_else(|| crate::run::fresh_folder(&Path::new("runs").join(stem)), Ok) {
            Ok(home) => home,
            Err(fault) => {
                complain(&fault);
                return Exit::Failed;
            }
        };
    let mut ranked = Vec::new();
    let mut failed = false;
    for (at, trial) in trials.iter().enumerate() {
        if !pipeline.quiet && !pipeline.json {
            out::answer(&format!("{}/{}  {}\n", at + 1, trials.len(), trial.label));
        }
        let folder = home.join(folder_name(&trial.label));
        let started = Instant::now();
        let exit = run::run(&trial.pipeline, Some(&folder), device);
        failed |= exit != Exit::Done;
        ranked.push(Ranked {
            label: trial.label.clone(),
            done: exit == Exit::Done,
            score: scores(&folder),
            seconds: started.elapsed().as_secs_f64(),
            folder: folder.display().to_string(),
        });
    }
    ranked.sort_by(Ranked::order);
    if pipeline.json {
        let runs: Vec<Value> = ranked.iter().map(Ranked::json).collect();
        answer_json(
            &json!({"version": 1, "ok": !failed, "folder": home.display().to_string(), "runs": runs, "diagnostics": []}),
        );
    } else {
        out::answer(&format!("\n{}", ranking(&ranked)));
    }
    if failed { Exit::Failed } else { Exit::Done }
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
    for axis in axes {
        let Some((name, values)) = axis.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(usage(format!("`--sweep {axis}` is not a `name=value,value`"))
                .help("for example `--sweep lr=1e-4,2e-4`"));
        };
        let given = pipeline.params.iter().any(|param| param.split('=').next() == Some(name));
        if names.contains(&name) || given {
            return Err(usage(format!("`{name}` is swept and given as well")).help("give it once"));
        }
        names.push(name);
        let values = split(values);
        if values.iter().any(|value| value.is_empty()) {
            return Err(usage(format!("`--sweep {axis}` has an empty value")).help("separate values by single commas"));
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
    values
}

/// Plans every run, so that the last does not fail hours after the first began, and holds their outputs apart.
fn planned(trials: &[Trial]) -> Result<(), Exit> {
    let quiet = trials.first().is_some_and(|trial| trial.pipeline.quiet);
    let facts = facts(if quiet { Voice::Quiet } else { Voice::Normal });
    let mut outputs: Vec<(PathBuf, &str)> = Vec::new();
    for trial in trials {
        let mut prepared = Prepared::read(&trial.pipeline)?;
        if prepared.plan.as_ref().is_some_and(|plan| !plan.budgets.is_empty()) {
            prepared.targets(&facts);
        }
        let lowered =
            if prepared.exit() == Exit::Done { prepared.lower(&Target::this_machine(), &facts) } else { None };
        facts.quiet_down();
        let mut lowered = match lowered {
            Some(lowered) if prepared.exit() == Exit::Done => lowered,
            _ => {
                out::say(&format!("with {}:", trial.label));
                prepared.report();
                return Err(if prepared.exit() == Exit::Done { Exit::Wrong } else { prepared.exit() });
            }
        };
        prepared.diagnostics.append(&mut lowered.not_runnable);
        if prepared.failed() {
            out::say(&format!("with {}:", trial.label));
            prepared.report();
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

/// A folder's name for a combination: characters that paths do not take give way.
fn folder_name(label: &str) -> String {
    let fine = |c: char| if c.is_ascii_alphanumeric() || "=.,-+_".contains(c) { c } else { '_' };
    label.chars().map(fine).collect()
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
        assert_eq!(folder_name("lr=1e-4 path=\"a/b\""), "lr=1e-4_path=_a_b_");
    }
}
