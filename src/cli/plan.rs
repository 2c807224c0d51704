//! `tunepipe plan`: where every byte would go.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use super::prepare::{Prepared, answer_json, complain, facts};
use super::terminal::paper;
use super::{Exit, Pipeline, outputs};
use crate::run::Voice;
use crate::text::{self, Fault, Result, out};
use crate::tools::{TargetDiff, TargetPlan, diff_json, diff_table, plan_diff, plan_html, plan_json, plan_table};

/// How a plan is shown.
#[derive(Debug, Args)]
pub struct Shown {
    /// Write the plan as one page of HTML
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Show what changed since an earlier `plan --json`
    #[arg(long, value_name = "OLD.json")]
    diff: Option<PathBuf>,
}

const PAGE: outputs::Ours = outputs::Ours { begins: b"<!doctype html>", what: "page of a plan" };

pub fn plan(pipeline: &Pipeline, shown: &Shown) -> Exit {
    // A page may replace a page, and nothing else: not the pipeline, nor its rows.
    if let Some(path) = &shown.html
        && let Err(fault) = outputs::file("--html", path, Some(&PAGE), "page.html")
    {
        complain(&fault);
        return Exit::Usage;
    }
    let mut prepared = match Prepared::read(pipeline) {
        Ok(prepared) => prepared,
        Err(exit) => return exit,
    };
    if prepared.empty(pipeline, "plan") {
        return Exit::Usage;
    }
    let old = match shown.diff.as_deref().map(earlier).transpose() {
        Ok(old) => old,
        Err(fault) => {
            complain(&fault);
            return Exit::Usage;
        }
    };
    prepared.only_plans = true;
    let voice = if pipeline.quiet { Voice::Quiet } else { Voice::Normal };
    let facts = facts(voice);
    let views = prepared.targets(&facts);
    facts.quiet_down();
    if let Some(path) = &shown.html
        && let Err(fault) = page(path, &prepared, &views)
    {
        complain(&fault);
        return Exit::Failed;
    }
    let diff = match old.as_ref().map(|old| difference(old, &views)).transpose() {
        Ok(diff) => diff,
        Err(fault) => {
            complain(&fault);
            return Exit::Usage;
        }
    };
    match (pipeline.json, &diff) {
        (true, Some(diff)) => answer_json(&diff_json(diff, prepared.diagnostics_json())),
        (true, None) => answer_json(&plan_json(&views, prepared.diagnostics_json())),
        (false, Some(diff)) => out::answer(&diff_table(diff, paper())),
        (false, None) => {
            for view in &views {
                out::answer(&format!(
                    "{} on {}\n\n{}\n",
                    text::shown_path(&pipeline.file),
                    view.label,
                    plan_table(view, paper())
                ));
            }
        }
    }
    if !pipeline.json {
        prepared.report();
    }
    prepared.exit()
}

/// An earlier answer, as it lies in a file.
fn earlier(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).map_err(|e| Fault::io("read", path, &e))?;
    serde_json::from_str(&text).map_err(|e| {
        Fault::new("plan.not_a_plan", format!("this is no plan of `tunepipe plan --json`: {e}"))
            .at(path)
            .help("make one with `tunepipe plan finetune.tp --json > plan.json`")
    })
}

fn difference(old: &Value, views: &[TargetPlan]) -> Result<Vec<TargetDiff>> {
    plan_diff(old, &plan_json(views, Value::Null))
}

/// Written whole or not at all, over an older page.
fn page(path: &Path, prepared: &Prepared, views: &[TargetPlan]) -> Result<()> {
    let name = prepared.source_name();
    let html = plan_html(name, views, &prepared.sources, &prepared.diagnostics);
    crate::store::write(path, true, |out| out.put(html.as_bytes()))
}
