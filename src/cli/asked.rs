//! What the command line and the environment give a pipeline beside its text.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::prepare::{source_text, usage};
use super::{DeviceChoice, Pipeline};
use crate::catalog::Catalog;
use crate::check::{self, Asked};
use crate::plan::{Budget, Plan, tell_apart};
use crate::text::{Diagnostic, Fault, Sources};

/// Gathers params and `--set`; what cannot be read at all is wrong usage.
pub fn asked(pipeline: &Pipeline) -> Result<Asked, Fault> {
    let mut asked =
        Asked { sets: pipeline.set.clone(), variables: variables(std::env::vars_os())?, ..Asked::default() };
    for file in &pipeline.params_file {
        if file == Path::new("-") && pipeline.file == Path::new("-") {
            return Err(usage("standard input cannot be both the pipeline and its params"));
        }
        asked.files.push(source_text(file)?);
    }
    for param in &pipeline.params {
        let Some((name, value)) = param.split_once('=') else {
            return Err(usage(format!("`{param}` is not a `name=value`"))
                .help("values for the pipeline's params follow the file: `tunepipe run finetune.tp epochs=3`"));
        };
        if name.trim().is_empty() {
            return Err(usage(format!("`{param}` gives a value to nothing")).help("for example `epochs=3`"));
        }
        asked.params.push((name.to_owned(), value.to_owned()));
    }
    Ok(asked)
}

/// How a run was asked for, as its manifest keeps it: enough to ask for it again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recorded {
    file: PathBuf,
    /// Where the command was given: what paths are relative to.
    working: PathBuf,
    params: Vec<(String, String)>,
    /// Files of params: name, folder, text.
    params_files: Vec<(String, PathBuf, String)>,
    variables: Vec<(String, String)>,
    set: Vec<String>,
    budget: Vec<String>,
    device: String,
}

impl Recorded {
    /// Of the environment only what the pipeline takes from it: what else is there may be no one's business.
    pub fn of(pipeline: &Pipeline, asked: &Asked, plan: &Plan, device: DeviceChoice) -> Self {
        let taken = |(name, _): &&(String, String)| {
            plan.overrides.iter().any(|one| one.what.split('=').next() == Some(name.as_str()))
        };
        let device = match device {
            DeviceChoice::Auto => "auto",
            DeviceChoice::Cpu => "cpu",
            DeviceChoice::Cuda => "cuda",
        };
        Recorded {
            file: pipeline.file.clone(),
            working: std::env::current_dir().unwrap_or_default(),
            params: asked.params.clone(),
            params_files: asked.files.clone(),
            variables: asked.variables.iter().filter(taken).cloned().collect(),
            set: asked.sets.clone(),
            budget: pipeline.budget.clone(),
            device: device.to_owned(),
        }
    }

    pub fn read(value: &Value) -> Option<Self> {
        serde_json::from_value(value.clone()).ok()
    }

    pub fn json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    pub fn asked(&self) -> Asked {
        Asked {
            params: self.params.clone(),
            files: self.params_files.clone(),
            variables: self.variables.clone(),
            sets: self.set.clone(),
        }
    }

    /// The command's other half.
    pub fn pipeline(&self, json: bool, quiet: bool) -> Pipeline {
        Pipeline {
            file: self.file.clone(),
            params: self.params.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            params_file: Vec::new(),
            set: self.set.clone(),
            budget: self.budget.clone(),
            json,
            quiet,
            brief: false,
        }
    }

    /// Goes to where the command was given, if that is still there, and returns `folder` as it is called from the place
    /// where the process is then.
    pub fn enter(&self, folder: &Path) -> PathBuf {
        // Where it has moved on with all that lies in it, hashes tell whether this is it.
        let _ = std::env::set_current_dir(&self.working);
        let here = std::env::current_dir().and_then(std::fs::canonicalize).unwrap_or_default();
        folder.strip_prefix(&here).map_or_else(|_| folder.to_owned(), Path::to_owned)
    }
}

fn variables(all: impl Iterator<Item = (OsString, OsString)>) -> Result<Vec<(String, String)>, Fault> {
    let mut found = Vec::new();
    for (name, value) in all {
        let Some(name) = name.to_str().filter(|name| name.starts_with(check::VARIABLE)).map(str::to_owned) else {
            continue;
        };
        let value = value.into_string().map_err(|_| usage(format!("the environment's `{name}` is not UTF-8")))?;
        found.push((name, value));
    }
    found.sort();
    Ok(found)
}

/// Puts the targets of `--budget` in the place of the file's: the line of that name, all lines of that device, or the
/// target as it is written.
pub fn budgets(plan: &mut Plan, asked: &[String], sources: &mut Sources) -> Result<(), Vec<Diagnostic>> {
    if asked.is_empty() {
        return Ok(());
    }
    let mut chosen: Vec<Budget> = Vec::new();
    for text in asked {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let of = |fits: &dyn Fn(&Budget) -> bool| -> Vec<Budget> {
            plan.budgets.iter().filter(|line| fits(line)).cloned().collect()
        };
        let named = of(&|line| line.label == text);
        let named = if named.is_empty() { of(&|line| line.short() == text) } else { named };
        let new = if named.is_empty() { vec![check::budget(&text, sources, Catalog::standard())?] } else { named };
        for budget in new {
            if !chosen.iter().any(|known| known.said == budget.said) {
                chosen.push(budget);
            }
        }
    }
    // Lines of the file have names of their own; what the command line adds may go by the same.
    let mut labels: Vec<&str> = chosen.iter().map(|budget| &*budget.label).collect();
    labels.sort_unstable();
    if labels.windows(2).any(|two| two[0] == two[1]) {
        tell_apart(&mut chosen, |budget| sources.line_column(budget.span).0);
    }
    plan.budgets = chosen;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_ours_are_found_in_order() {
        let all = [("PATH", "x"), ("TUNEPIPE_PARAM_LR", "1"), ("TUNEPIPE_PARAM_EPOCHS", "2"), ("TUNEPIPE", "3")];
        let found = variables(all.iter().map(|(name, value)| (OsString::from(*name), OsString::from(*value))));
        let names: Vec<String> = found.unwrap_or_default().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["TUNEPIPE_PARAM_EPOCHS", "TUNEPIPE_PARAM_LR"]);
    }
}
