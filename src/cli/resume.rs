//! `tunepipe resume RUN`: goes on with a run that was interrupted.

use std::path::{Path, PathBuf};

use serde_json::Value;
use similar::TextDiff;

use super::Exit;
use super::asked::Recorded;
use super::prepare::{Prepared, complain, facts, usage};
use super::run::{carry_out, ready, refuse};
use crate::plan::Plan;
use crate::run::{Journal, Stand, Start, Voice, hashes, outputs, start};
use crate::stages::RunHome;
use crate::store::Cache;
use crate::text::{Fault, Result, out};

/// Lines that are shown of what differs.
const SHOWN: usize = 12;

pub fn resume(run: &Path, json: bool, quiet: bool) -> Exit {
    let opened = folder(run).and_then(|folder| Earlier::open(&folder));
    let earlier = match opened {
        Ok(earlier) => earlier,
        Err(fault) => {
            complain(&fault);
            return match fault.code {
                "run.busy" | "run.damaged" => Exit::Failed,
                code if code.starts_with("file.") => Exit::Failed,
                _ => Exit::Usage,
            };
        }
    };
    earlier.go_on(json, quiet)
}

/// The run's folder: as it is named, or the newest under `runs/`.
fn folder(run: &Path) -> Result<PathBuf> {
    if run.is_dir() {
        return Ok(run.to_owned());
    }
    let runs = Path::new("runs");
    if run == Path::new("latest") {
        return crate::run::newest_run(runs)?
            .ok_or_else(|| usage("there is no run under `runs/`").help("name a run's folder"));
    }
    let fault = usage(format!("`{}` is no run's folder", run.display()));
    let named = runs.join(run.file_stem().unwrap_or_default()).join("latest");
    Err(match named.is_dir() {
        true => fault.help(format!("`tunepipe resume {}`", named.display())),
        false => fault.help("`tunepipe ls runs` lists them; `tunepipe resume latest` takes the newest"),
    })
}

/// A run that an earlier process began.
struct Earlier {
    manifest: Value,
    asked: Recorded,
    journal: Journal,
}

impl Earlier {
    /// Reads what was asked for, and keeps every other process out.
    ///
    /// Errors: `run.none`, `run.busy`, `run.finished`, `run.damaged`, `file.*`.
    fn open(folder: &Path) -> Result<Self> {
        let path = folder.join("manifest.json");
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(no_run(folder)),
            Err(e) => return Err(Fault::io("read", &path, &e)),
        };
        let damaged =
            |e: String| Fault::new("run.damaged", format!("`{}` cannot be read: {e}", path.display())).at(&path);
        let manifest: Value = serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
        let asked = Recorded::read(&manifest["asked"])
            .ok_or_else(|| damaged("it does not say how the run was asked for, as older versions did not".into()))?;
        // What is relative to where the run was begun is so still; its own folder is not.
        let folder = std::path::absolute(folder).map_err(|e| Fault::io("find", folder, &e))?;
        let folder = std::fs::canonicalize(&folder).unwrap_or(folder);
        let shown = asked.enter(&folder);
        let journal = Journal::reopen(&shown)?;
        if journal.progress().outcome == Stand::Done {
            return Err(finished(&shown));
        }
        Ok(Earlier { manifest, asked, journal })
    }

    fn go_on(self, json: bool, quiet: bool) -> Exit {
        let Earlier { manifest, asked, mut journal } = self;
        let pipeline = asked.pipeline(json, quiet);
        let voice = if quiet { Voice::Quiet } else { Voice::Normal };
        let cache = Cache::of_user();
        if let Err(fault) = same_text(&manifest, &pipeline.file).and_then(|()| same_inputs(&manifest, cache.as_ref())) {
            complain(&fault);
            return Exit::Wrong;
        }
        let text = manifest["pipeline"]["text"].as_str().unwrap_or_default().to_owned();
        let mut prepared = Prepared::of(&pipeline.file, text, asked.asked(), &pipeline.budget);
        let Some(plan) = prepared.plan.clone().filter(|_| !prepared.failed()) else {
            return refuse(&pipeline, &prepared);
        };
        let found = start(&journal, &plan).and_then(|found| Ok((outputs(&journal, found.stage)?, found)));
        let (made, found) = match found {
            Ok(found) => found,
            Err(fault) => {
                complain(&fault);
                return Exit::Failed;
            }
        };
        for fault in &found.damaged {
            out::say(&format!("note: {fault}"));
        }
        if !found.damaged.is_empty() && found.found.contains_key(&found.stage) {
            out::say("note: the one before is taken");
        }
        if !quiet {
            out::say(&said(&manifest, &plan, &found, journal.folder()));
        }
        prepared.home = Some(RunHome::of_earlier(journal.folder(), &made));
        let facts = facts(voice).to_run();
        let ready = match ready(&pipeline, &mut prepared, &facts, found.on_disk()) {
            Ok(ready) => ready,
            Err(exit) => return exit,
        };
        // The run holds what it needs of the facts; the rest is given back before anything is measured.
        drop(facts);
        let taken_back = crate::run::manifest(&plan, &prepared.sources, &ready.inputs, cache.as_ref())
            .and_then(|now| same_work(&manifest, &now))
            .and_then(|()| found.take_back(&mut journal));
        if let Err(fault) = taken_back {
            complain(&fault);
            return if fault.code == "run.changed" { Exit::Wrong } else { Exit::Failed };
        }
        carry_out(&pipeline, prepared, ready, voice, journal, found)
    }
}

/// Where the run goes on.
fn said(manifest: &Value, plan: &Plan, found: &Start, folder: &Path) -> String {
    let folder = folder.display();
    let mut text = match plan.steps.get(found.stage) {
        None => format!("`{folder}`: every stage is done"),
        Some(step) => {
            let (at, of) = (found.stage + 1, plan.steps.len());
            let from = match found.found.get(&found.stage) {
                Some(found) if found.done => "at its end".to_owned(),
                Some(found) => format!("after step {}", found.stand.trainer.step),
                None => "from its beginning".to_owned(),
            };
            format!("`{folder}` goes on with stage {at} of {of}, `{}` in line {}, {from}", step.stage, step.line)
        }
    };
    let before = manifest["tunepipe"].as_str().unwrap_or_default();
    if before != env!("CARGO_PKG_VERSION") {
        text.push_str(&format!("\nnote: it was begun by tunepipe {before}: what follows may differ in its last bits"));
    }
    text
}

fn no_run(folder: &Path) -> Fault {
    let shown = folder.display();
    let fault = Fault::new("run.none", format!("`{shown}` holds no run")).at(folder);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut rows: Vec<PathBuf> = entries.filter(|path| path.join("manifest.json").is_file()).collect();
    rows.sort();
    rows.retain(|row| !row.is_symlink());
    let unfinished = |row: &&PathBuf| {
        let read = crate::run::Progress::read(row);
        read.is_ok_and(|progress| progress.is_none_or(|progress| progress.outcome != Stand::Done))
    };
    let open: Vec<String> = rows.iter().filter(unfinished).map(|row| format!("`{}`", row.display())).collect();
    match (rows.is_empty(), open.first()) {
        (true, _) => fault
            .note("a run that was stopped before its first stage has nothing to go on from")
            .help("`tunepipe ls runs` lists what was run here"),
        (false, None) => fault.note("the runs in it are finished"),
        (false, Some(first)) => fault
            .note(format!("it holds several, of which these are not finished: {}", open.join(", ")))
            .note("what a sweep had not begun yet is no run: sweep the values that are left")
            .help(format!("go on with one: `tunepipe resume {}`", first.trim_matches('`'))),
    }
}

fn finished(folder: &Path) -> Fault {
    Fault::new("run.finished", format!("the run in `{}` is finished", folder.display()))
        .at(folder)
        .note("its schedule of learning rates has come to its end")
        .help(
            "to train on, write a new pipeline that loads what was saved, with a schedule of its own: \
             `load adapter \"out/adapter\"` behind `load model`, then `train lora`",
        )
}

fn changed(message: String) -> Fault {
    Fault::new("run.changed", message).help("undo the change to go on with this run; `tunepipe run` begins a new one")
}

/// The pipeline's file, where it is still there, says what it said.
fn same_text(manifest: &Value, file: &Path) -> Result<()> {
    let was = manifest["pipeline"]["text"].as_str().unwrap_or_default();
    match std::fs::read_to_string(file) {
        Ok(now) if file != Path::new("-") && now != was => {
            Err(differences(changed(format!("`{}` has changed since the run began", file.display())), was, &now))
        }
        _ => Ok(()),
    }
}

/// Adds the lines that differ.
fn differences(fault: Fault, was: &str, now: &str) -> Fault {
    let diff = TextDiff::from_lines(was, now);
    let mut lines = diff.iter_all_changes().filter(|change| change.tag() != similar::ChangeTag::Equal).map(|change| {
        let (sign, line) = match change.tag() {
            similar::ChangeTag::Delete => ('-', change.old_index()),
            _ => ('+', change.new_index()),
        };
        format!("line {}: {sign} {}", line.map_or(0, |line| line + 1), change.value().trim_end())
    });
    let shown: Vec<String> = lines.by_ref().take(SHOWN).collect();
    let more = lines.count();
    let fault = shown.into_iter().fold(fault, Fault::note);
    if more == 0 { fault } else { fault.note(format!("and {more} more")) }
}

/// The files that the run read are what they were.
fn same_inputs(manifest: &Value, cache: Option<&Cache>) -> Result<()> {
    let Some(inputs) = manifest["inputs"].as_object() else { return Ok(()) };
    let (there, gone): (Vec<PathBuf>, Vec<PathBuf>) = inputs.keys().map(PathBuf::from).partition(|path| path.is_file());
    let now = hashes(&there, cache)?;
    let other = now.iter().filter(|(path, sum)| inputs[*path] != sum.as_str());
    let mut notes: Vec<String> = other.map(|(path, _)| format!("`{path}` has another content")).collect();
    notes.extend(gone.iter().map(|path| format!("`{}` is gone", path.display())));
    if notes.is_empty() {
        return Ok(());
    }
    let more = notes.len().saturating_sub(SHOWN);
    notes.truncate(SHOWN);
    let fault = notes.into_iter().fold(changed("inputs have changed since the run began".into()), Fault::note);
    Err(if more == 0 { fault } else { fault.note(format!("and {more} more")) })
}

/// What comes of the pipeline now is what came of it then.
fn same_work(was: &Value, now: &Value) -> Result<()> {
    let empty = Vec::new();
    let list = |of: &Value, key: &str| of[key].as_array().unwrap_or(&empty).clone();
    for (old, new) in list(was, "used").iter().zip(&list(now, "used")) {
        if old["sha256"] != new["sha256"] {
            let file = old["file"].as_str().unwrap_or_default();
            let text = |of: &Value| of["text"].as_str().unwrap_or_default().to_owned();
            let fault = changed(format!("`{file}`, which the pipeline uses, has changed since the run began"));
            return Err(differences(fault, &text(old), &text(new)));
        }
    }
    if was["used"] != now["used"] {
        return Err(changed("the pipeline uses other files than when the run began".into()));
    }
    if was["inputs"] != now["inputs"] {
        let names = |of: &Value| of["inputs"].as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default();
        let (old, new): (Vec<String>, Vec<String>) = (names(was), names(now));
        let fault = changed("the pipeline reads other files than when the run began".into());
        let more = new.iter().filter(|name| !old.contains(name)).map(|name| format!("`{name}` is new"));
        let less = old.iter().filter(|name| !new.contains(name)).map(|name| format!("`{name}` is no longer read"));
        return Err(more.chain(less).take(SHOWN).fold(fault, Fault::note));
    }
    let (old, new) = (list(was, "stages"), list(now, "stages"));
    for (old, new) in old.iter().zip(&new) {
        if old == new {
            continue;
        }
        let (stage, line) = (old["stage"].as_str().unwrap_or_default(), &old["line"]);
        let fault = changed(format!("`{stage}` in line {line} is not what it was when the run began"));
        let values = old["arguments"].as_object().into_iter().flatten();
        let other = values.filter(|(name, value)| new["arguments"][*name] != **value);
        return Err(other.fold(fault, |fault, (name, value)| {
            fault.note(format!("`{name}` was {value} and is {}", new["arguments"][name]))
        }));
    }
    if old.len() == new.len() {
        Ok(())
    } else {
        Err(changed("the pipeline has other stages than when the run began".into()))
    }
}
