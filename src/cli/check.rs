//! `tunepipe check`: types a pipeline, against its budgets too.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use super::files::named;
use super::prepare::{Prepared, answer_json, complain, complaints, facts, usage};
use super::terminal::{paper, stderr_paper};
use super::{Exit, Pipeline};
use crate::memory::{Bytes, Place};
use crate::run::Voice;
use crate::text::{self, out};
use crate::tools::{TargetPlan, target_json};

/// How findings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people
    Text,
    /// As workflow commands, which GitHub shows at the lines of a pull request
    Github,
}

/// What came of one file.
struct Checked {
    file: PathBuf,
    prepared: Prepared,
    views: Vec<TargetPlan>,
}

pub fn check(pipeline: &Pipeline, form: Form) -> Exit {
    // Words without `=` are further files.
    let (params, more): (Vec<String>, Vec<String>) =
        pipeline.params.iter().cloned().partition(|word| word.contains('='));
    // One that is no file was meant for a param.
    if let Some(word) = more.iter().find(|word| *word != "-" && !word.contains(['.', '/']) && !Path::new(word).exists())
    {
        complain(
            &usage(format!("there is no file or folder `{word}`"))
                .help(format!("a value for a param is written `{word}=…`")),
        );
        return Exit::Usage;
    }
    let mut paths = vec![pipeline.file.clone()];
    paths.extend(more.into_iter().map(PathBuf::from));
    let (files, faults) = match named(&paths) {
        Ok(named) => named,
        Err(fault) => {
            complain(&fault);
            return Exit::Usage;
        }
    };
    faults.iter().for_each(complain);
    let voice = if pipeline.quiet { Voice::Quiet } else { Voice::Normal };
    let facts = facts(voice);
    let mut all = Vec::new();
    let mut unreadable = !faults.is_empty();
    for file in files {
        let one = Pipeline { file: file.clone(), params: params.clone(), ..pipeline.clone() };
        match Prepared::read(&one) {
            Ok(mut prepared) => {
                let views = prepared.targets(&facts);
                all.push(Checked { file, prepared, views });
            }
            Err(_) => unreadable = true,
        }
    }
    facts.quiet_down();
    let single = paths.len() == 1 && all.len() == 1 && !paths[0].is_dir();
    match (pipeline.json, form) {
        // A file that cannot be read is a complaint, and an answer by itself where it is the only one.
        (true, _) if all.is_empty() => {}
        (true, _) => answer_json(&json_of(&all, single)),
        (false, Form::Github) => {
            for one in &all {
                out::answer(&text::to_github(&one.prepared.sources, &one.prepared.diagnostics));
            }
        }
        (false, Form::Text) => all.iter().for_each(|one| tell(one, pipeline.quiet)),
    }
    let exits = all.iter().map(|one| one.prepared.exit());
    match unreadable {
        true => Some(Exit::Usage),
        false => {
            exits.min_by_key(|exit| [Exit::Wrong, Exit::OverBudget, Exit::Done].iter().position(|known| known == exit))
        }
    }
    .unwrap_or(Exit::Done)
}

fn tell(one: &Checked, quiet: bool) {
    one.prepared.report();
    let name = text::shown_path(&one.file);
    if one.prepared.failed() {
        return;
    }
    let mut said: Vec<&String> = Vec::new();
    for remark in one.views.iter().flat_map(|view| &view.remarks) {
        if !quiet && !said.contains(&remark) {
            out::tell(&stderr_paper().sentence("", &format!("note: {remark}")));
            said.push(remark);
        }
    }
    // A file of recipes and lets, for others to use.
    if one.prepared.plan.as_ref().is_some_and(|plan| plan.steps.is_empty()) {
        let (_, text) = one.prepared.source_name();
        let bare = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
        if bare.filter(|line| !line.is_empty()).all(|line| line.starts_with("tunepipe")) {
            out::answer(&format!("{}: right; holds nothing yet (`tunepipe new` writes a pipeline)\n", name));
            return;
        }
        out::answer(&format!("{}: right; has no stages of its own\n", name));
        return;
    }
    for view in &one.views {
        out::answer(&paper().sentence("", &format!("{name}: {}", verdict(view))));
    }
}

/// One file's answer, or with several files a list of them; `ok` and `diagnostics` over all.
fn json_of(all: &[Checked], single: bool) -> Value {
    let answer = |one: &Checked| {
        json!({
            "file": one.file.display().to_string(),
            "ok": one.prepared.exit() == Exit::Done,
            "targets": one.views.iter().map(target_json).collect::<Vec<_>>(),
            "diagnostics": one.prepared.diagnostics_json(),
        })
    };
    if let ([only], true) = (all, single) {
        let mut value = json!({"version": 1});
        if let (Value::Object(whole), Value::Object(fields)) = (&mut value, answer(only)) {
            whole.extend(fields);
        }
        return value;
    }
    let found = all.iter().filter_map(|one| one.prepared.diagnostics_json().as_array().cloned()).flatten();
    let diagnostics: Vec<Value> = complaints().into_iter().chain(found).collect();
    json!({
        "version": 1,
        "ok": complaints().is_empty() && all.iter().all(|one| one.prepared.exit() == Exit::Done),
        "files": all.iter().map(answer).collect::<Vec<_>>(),
        "diagnostics": diagnostics,
    })
}

/// One line on one target.
fn verdict(view: &TargetPlan) -> String {
    let peak = view.profile.peak();
    if let Some(why) = view.unjudged() {
        let needs: Vec<String> = Place::ALL
            .into_iter()
            .filter(|place| peak[*place] > 0)
            .map(|place| format!("{place} {}", Bytes(peak[place])))
            .collect();
        return format!("right; not judged, as {why} (needs {})", needs.join(", "));
    }
    let judged: Vec<String> = Place::ALL
        .into_iter()
        .filter_map(|place| match view.limits.get(place) {
            Some(limit) => Some(format!("{place} {} of {}", Bytes(peak[place]), Bytes(limit))),
            None if peak[place] > 0 && place == Place::Mapped => Some(format!("{place} {}", Bytes(peak[place]))),
            None if peak[place] > 0 => Some(format!("{place} {} not judged", Bytes(peak[place]))),
            None => None,
        })
        .collect();
    let word = if view.fits() { "fits" } else { "does not fit" };
    format!("{word} {} ({})", view.label, judged.join(", "))
}
