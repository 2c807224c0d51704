//! `explain CODE`: what a diagnostic's code means, with an example that gives it and one that does not.

use std::fmt::Write;

use serde_json::{Value, json};

use super::listing::Listing;
use super::paper::{Ink, Paper, wrap};
use super::table::Align;
use crate::catalog::codes::{self, CodePage, Example};

/// The page for a terminal.
pub fn code_page(page: &CodePage, code: &str, paper: Paper) -> String {
    let width = paper.width.saturating_sub(2);
    let mut out = format!("{}\n", paper.ink(Ink::Strong, code));
    let mut say = |text: &str| {
        for line in wrap(text, width) {
            let _ = writeln!(out, "{}", format!("  {line}").trim_end());
        }
    };
    say(&page.title);
    for paragraph in page.doc.split("\n\n").filter(|words| !words.is_empty()) {
        say("\n");
        say(&paragraph.replace('\n', " "));
    }
    if let Some(wrong) = &page.wrong {
        shown(&mut out, "wrong", wrong, Ink::Warn, paper);
    }
    if let Some(right) = &page.right {
        shown(&mut out, "right", right, Ink::Good, paper);
    }
    if let Some(picture) = &page.shown {
        let _ = writeln!(out, "\n{}", paper.ink(Ink::Faint, "as it is printed"));
        for line in picture.lines() {
            let _ = writeln!(out, "{}", format!("  {line}").trim_end());
        }
    }
    let others: Vec<&str> = page.codes.iter().map(String::as_str).filter(|other| *other != code).collect();
    if !others.is_empty() {
        let _ = writeln!(out, "\n{}", paper.ink(Ink::Faint, "said alike"));
        for line in wrap(&others.join(" "), width) {
            let _ = writeln!(out, "  {line}");
        }
    }
    out
}

fn shown(out: &mut String, head: &str, example: &Example, ink: Ink, paper: Paper) {
    let _ = writeln!(out, "\n{}", paper.ink(Ink::Faint, head));
    for (name, text) in &example.files {
        let _ = writeln!(out, "  {}", paper.ink(Ink::Faint, &format!("{name}:")));
        let text = if text.trim().is_empty() { "(nothing)" } else { text };
        for line in text.trim_end().lines() {
            let _ = writeln!(out, "  {line}");
        }
        out.push('\n');
    }
    if !example.params.is_empty() {
        let _ = writeln!(out, "  {}\n", paper.ink(Ink::Faint, &command(example)));
    }
    for line in example.text.trim_end().lines() {
        let _ = writeln!(out, "  {}", paper.ink(ink, line));
    }
}

/// `tunepipe check finetune.tp width=16`
pub(super) fn command(example: &Example) -> String {
    let params: Vec<String> = example.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("tunepipe check finetune.tp {}", params.join(" "))
}

/// The page for programs.
pub fn code_json(page: &CodePage, code: &str) -> Value {
    let example = |example: &Option<Example>| {
        example.as_ref().map(|example| {
            let pairs = |pairs: &[(String, String)]| -> Value {
                pairs.iter().map(|(name, value)| (name.clone(), Value::from(value.clone()))).collect()
            };
            json!({"text": example.text, "whole": example.whole(), "params": pairs(&example.params),
                   "files": pairs(&example.files)})
        })
    };
    json!({"version": 1, "code": code, "title": page.title, "doc": page.doc, "wrong": example(&page.wrong),
           "right": example(&page.right), "shown": page.shown, "alike": page.codes, "diagnostics": []})
}

/// Every code with its line.
pub fn codes() -> Listing {
    let mut list = Listing::new(&[("code", Align::Left), ("what it says", Align::Left)]);
    let mut rows: Vec<(&str, &str)> = codes::pages()
        .iter()
        .flat_map(|page| page.codes.iter().map(|code| (code.as_str(), page.title.as_str())))
        .collect();
    rows.sort_unstable();
    for (code, title) in rows {
        list.push(vec![code.to_owned(), title.to_owned()], json!({"code": code, "title": title}));
    }
    list
}
