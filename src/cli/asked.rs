//! What the command line and the environment give a pipeline beside its text.

use std::ffi::OsString;
use std::path::Path;

use super::Pipeline;
use super::prepare::{source_text, usage};
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
