//! `tunepipe ls`: what the language offers, and what was run here.

use std::path::Path;

use clap::ValueEnum;
use serde_json::json;

use super::Exit;
use super::prepare::{answer_json, complain};
use super::terminal::paper;
use crate::catalog::Catalog;
use crate::run;
use crate::text::out;
use crate::tools::{codes, devices, recipes, shapes, stages};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// What a pipeline can do
    Stages,
    /// Recipes of the standard library
    Recipes,
    /// Sizes of published models, for `shape=`
    Shapes,
    /// Cards and machines, for `budget`
    Devices,
    /// Runs under `runs/`, the newest first
    Runs,
    /// Codes of diagnostics, for `explain`
    Codes,
}

pub fn ls(what: What, json: bool) -> Exit {
    let catalog = Catalog::standard();
    let (key, listing) = match what {
        What::Stages => ("stages", stages(catalog)),
        What::Recipes => ("recipes", recipes(catalog)),
        What::Shapes => ("shapes", shapes(catalog)),
        What::Devices => ("devices", devices(catalog)),
        What::Codes => ("codes", codes()),
        What::Runs => match run::list(Path::new("runs")) {
            Ok(listing) => ("runs", listing),
            Err(fault) => {
                complain(&fault);
                return Exit::Failed;
            }
        },
    };
    if json {
        answer_json(&json!({"version": 1, key: listing.json, "diagnostics": []}));
    } else if listing.rows.is_empty() {
        out::say(&format!("no {key} here"));
    } else {
        out::answer(&listing.render(paper()));
    }
    Exit::Done
}
