//! `explain STAGE`: all that the catalogue and the planner know of a stage, on one page.

use std::fmt::Write;

use serde_json::{Value, json};

use super::paper::{Ink, Paper, wrap};
use super::recipe_flow::recipe_signature;
use super::signature::{default, kind, pattern};
use super::specimen::{Effect, MAX_LEN, SHAPE, specimen};
use super::table::{Align, Table};
use crate::catalog::{RecipeDecl, StageDecl};
use crate::memory::{Bytes, Place};

/// The page for a terminal.
pub fn stage_page(stage: &StageDecl, paper: Paper) -> String {
    page(stage, true, paper)
}

/// `planned`: what it holds is found out by planning it, which the catalogue's own can be.
fn page(stage: &StageDecl, planned: bool, paper: Paper) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", paper.ink(Ink::Strong, &stage.name));
    for line in wrap(&stage.doc, paper.width.saturating_sub(2)) {
        let _ = writeln!(out, "{}", format!("  {line}").trim_end());
    }
    values(&mut out, stage, paper);
    arguments(&mut out, stage, paper);
    if planned {
        memory(&mut out, stage, paper);
    }
    if !stage.examples.is_empty() {
        heading(&mut out, "examples", paper);
        for example in &stage.examples {
            for line in example.trim_end().lines() {
                let _ = writeln!(out, "  {}", paper.ink(Ink::Good, line));
            }
        }
    }
    out
}

/// A recipe's page is that of the stage it stands for, with its text below.
pub fn recipe_page(recipe: &RecipeDecl, paper: Paper) -> String {
    let mut out = stage_page(&recipe_signature(recipe), paper);
    heading(&mut out, &format!("what it is, {}", recipe.file), paper);
    for line in body(recipe) {
        let _ = writeln!(out, "{}", format!("  {line}").trim_end());
    }
    out
}

/// The page of a file's recipe: its signature as [`declared_signature`](super::declared_signature) has it, and its text.
pub fn declared_page(recipe: &StageDecl, file: &str, text: &str, paper: Paper) -> String {
    let mut out = page(recipe, false, paper);
    heading(&mut out, &format!("what it is, {file}"), paper);
    for line in text.trim_end().lines() {
        let _ = writeln!(out, "{}", format!("  {line}").trim_end());
    }
    out
}

/// The recipe's declaration: from its name on, without what the page has shown already.
pub(super) fn body(recipe: &RecipeDecl) -> impl Iterator<Item = &'static str> {
    let lines = recipe.text.lines().skip_while(|line| !line.starts_with("recipe "));
    lines.take_while(|line| line.trim() != "example")
}

fn heading(out: &mut String, text: &str, paper: Paper) {
    out.push('\n');
    for line in wrap(text, if paper.screen { paper.width } else { usize::MAX }) {
        let _ = writeln!(out, "{}", paper.ink(Ink::Faint, &line));
    }
}

fn values(out: &mut String, stage: &StageDecl, paper: Paper) {
    if stage.inputs.is_empty() && stage.makes.is_empty() {
        return;
    }
    heading(out, "values", paper);
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Left, Align::Left]);
    for input in &stage.inputs {
        let verb = if input.takes { "takes" } else { "borrows" };
        let mut words = if input.optional { "only by name; ".to_owned() } else { String::new() };
        words.push_str(input.pattern.words());
        table.row(vec![verb.into(), format!("{}=", input.name), pattern(input.pattern), words]);
    }
    for made in &stage.makes {
        table.row(vec!["makes".into(), String::new(), pattern(*made), String::new()]);
    }
    out.push_str(&table.painted("  ", paper, &|_, column, cell| match column {
        1 => paper.ink(Ink::Name, cell),
        3 => paper.ink(Ink::Faint, cell),
        _ => cell.to_owned(),
    }));
}

/// Name, type, default; what it means follows in the same line where there is room, else below.
fn arguments(out: &mut String, stage: &StageDecl, paper: Paper) {
    if stage.args.is_empty() {
        return;
    }
    heading(out, "arguments", paper);
    let most = |cells: Vec<String>, cap: usize| {
        cells.iter().map(|cell| cell.chars().count()).filter(|n| *n <= cap).max().unwrap_or(0)
    };
    let names = most(stage.args.iter().map(|arg| arg.name.clone()).collect(), 40);
    let kinds = most(stage.args.iter().map(kind).collect(), 24);
    let defaults = most(stage.args.iter().map(default).collect(), 14);
    let column = 2 + names + 2 + kinds + 2 + defaults + 2;
    let beside = paper.width >= column + 28;
    for arg in &stage.args {
        let (kind, default) = (kind(arg), default(arg));
        let name = format!("{:names$}", arg.name);
        let typed = format!("{kind:kinds$}  {default:defaults$}");
        let fits = typed.chars().count() <= kinds + 2 + defaults;
        // Where even these do not stand side by side, one stands below the other.
        if paper.screen && 4 + names + typed.trim_end().chars().count() > paper.width {
            let _ = writeln!(out, "  {}", paper.ink(Ink::Name, &arg.name));
            let typed = if default.is_empty() { kind } else { format!("{kind}, {default}") };
            for line in wrap(&typed, paper.width.saturating_sub(4)) {
                let _ = writeln!(out, "    {line}");
            }
            super::paper::prose(out, paper, Ink::Faint, &meaning(arg), "    ");
            continue;
        }
        let _ = write!(out, "  {}  {}", paper.ink(Ink::Name, &name), typed.trim_end());
        let indent = if beside { column } else { 4 };
        let mut lines = wrap(&meaning(arg), paper.width.saturating_sub(indent)).into_iter();
        if beside && fits {
            let pad = column.saturating_sub(4 + names + typed.trim_end().chars().count());
            let _ = write!(out, "{}{}", " ".repeat(pad), paper.ink(Ink::Faint, &lines.next().unwrap_or_default()));
        }
        out.push('\n');
        for line in lines.filter(|line| !line.is_empty()) {
            let _ = writeln!(out, "{}{}", " ".repeat(indent), paper.ink(Ink::Faint, &line));
        }
    }
}

fn meaning(arg: &crate::catalog::ArgDecl) -> String {
    match (arg.positional, arg.doc.is_empty()) {
        (true, false) => format!("{}; stands without its name", arg.doc),
        (true, true) => "stands without its name".into(),
        (false, _) => arg.doc.clone(),
    }
}

fn memory(out: &mut String, stage: &StageDecl, paper: Paper) {
    let found = specimen(stage);
    if found.held.is_empty() {
        return;
    }
    heading(out, "memory it holds (on a card), and what that grows with", paper);
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Left, Align::Left]);
    let mut last = "";
    for held in &found.held {
        let phase = if held.phase == last { "" } else { held.phase };
        last = held.phase;
        table.row(vec![phase.into(), held.name.clone(), held.place.to_string(), held.grows.into()]);
    }
    out.push_str(&table.painted("  ", paper, &|_, column, cell| match column {
        0 | 3 => paper.ink(Ink::Faint, cell),
        _ => cell.to_owned(),
    }));
    if found.effects.is_empty() {
        return;
    }
    heading(out, &format!("what arguments change there, on {SHAPE} with rows of {MAX_LEN} tokens"), paper);
    let mut table = Table::new(&[Align::Left, Align::Right]);
    for effect in &found.effects {
        table.row(vec![effect.change.clone(), difference(effect)]);
    }
    out.push_str(&table.painted("  ", paper, &|row, column, cell| {
        let saves = found.effects.get(row).is_some_and(|e| e.bytes.iter().all(|(_, bytes)| *bytes < 0));
        match column {
            0 => paper.ink(Ink::Name, cell),
            _ => paper.ink(if saves { Ink::Good } else { Ink::Faint }, cell),
        }
    }));
}

/// `GPU −980 MiB`.
pub(super) fn difference(effect: &Effect) -> String {
    let words: Vec<String> = effect.bytes.iter().map(|(place, bytes)| format!("{place} {}", signed(*bytes))).collect();
    words.join(", ")
}

/// A difference of bytes with its sign.
pub(super) fn signed(bytes: i128) -> String {
    let size = Bytes(u64::try_from(bytes.unsigned_abs()).unwrap_or(u64::MAX));
    match bytes {
        0 => "0".into(),
        n if n < 0 => format!("−{size}"),
        _ => format!("+{size}"),
    }
}

/// A recipe's page for programs.
pub fn recipe_json(recipe: &RecipeDecl) -> Value {
    let mut page = stage_json(&recipe_signature(recipe));
    page["recipe"] = recipe.decl.name.clone().into();
    page["file"] = recipe.file.into();
    page["text"] = recipe.text.into();
    page
}

/// The same of a file's recipe, without what it holds.
pub fn declared_json(recipe: &StageDecl, file: &str, text: &str) -> Value {
    let (inputs, args) = signature_json(recipe);
    json!({"recipe": recipe.name, "doc": recipe.doc, "inputs": inputs,
           "makes": recipe.makes.iter().map(|made| pattern(*made)).collect::<Vec<_>>(), "arguments": args,
           "examples": recipe.examples, "file": file, "text": text})
}

/// Inputs and arguments, for programs.
fn signature_json(stage: &StageDecl) -> (Vec<Value>, Vec<Value>) {
    let inputs = stage.inputs.iter().map(|input| {
        json!({"name": input.name, "takes": input.takes, "type": pattern(input.pattern),
               "optional": input.optional, "doc": input.doc})
    });
    let args = stage.args.iter().map(|arg| {
        json!({"name": arg.name, "positional": arg.positional, "type": arg.kind.to_string(),
               "default": arg.default.as_ref().map(super::signature::written), "doc": arg.doc})
    });
    (inputs.collect(), args.collect())
}

/// The page for programs.
pub fn stage_json(stage: &StageDecl) -> Value {
    let found = specimen(stage);
    let (inputs, args) = signature_json(stage);
    let held: Vec<Value> = found
        .held
        .iter()
        .map(|h| json!({"phase": h.phase, "name": h.name, "place": h.place.key(), "grows_with": h.grows}))
        .collect();
    let effects: Vec<Value> = found
        .effects
        .iter()
        .map(|e| {
            let at = |place: Place| e.bytes.iter().find(|(p, _)| *p == place).map_or(0, |(_, bytes)| *bytes as i64);
            json!({"argument": e.argument, "change": e.change, "gpu": at(Place::Gpu), "ram": at(Place::Ram),
                   "disk": at(Place::Disk)})
        })
        .collect();
    json!({
        "version": 1,
        "stage": stage.name,
        "doc": stage.doc,
        "inputs": inputs,
        "makes": stage.makes.iter().map(|made| pattern(*made)).collect::<Vec<_>>(),
        "arguments": args,
        "memory": {"shape": SHAPE, "max_len": MAX_LEN, "holdings": held, "effects": effects},
        "examples": stage.examples,
        "diagnostics": [],
    })
}
