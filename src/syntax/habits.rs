//! Statements as other languages write them, each answered with how it is said here.

use super::ast::*;
use super::lower::Lower;
use crate::text::{Diagnostic, Span};

impl Lower<'_> {
    /// Reports a statement that is another language's, once for several of a kind.
    pub fn foreign(&mut self, code: &str, span: Span) -> Option<Item> {
        if let Some(stage) = code.strip_prefix("- ") {
            let place = Span::new(self.source, self.base, self.base + 1);
            // Once for a list of them.
            if !self.diagnostics.iter().any(|known| known.code == "syntax.yaml") {
                let stage = stage.lines().next().unwrap_or("").trim();
                self.report(
                    Diagnostic::error("syntax.yaml", "a statement has no dash in front, which is YAML's way")
                        .label(place, "remove it")
                        .help(format!("write `{stage}`")),
                );
            }
            return Some(Item::Broken(Broken { words: Vec::new(), span }));
        }
        let end = code.find(|c: char| !(c.is_alphanumeric() || "_-.".contains(c)))?;
        let (name, rest) = code.split_at_checked(end)?;
        if name.is_empty() {
            return None;
        }
        let word = Word { text: name.to_owned(), span: Span::new(self.source, self.base, self.base + end) };
        let broken = |words: Vec<Word>| Some(Item::Broken(Broken { words, span }));
        if rest.starts_with(':') {
            self.yaml(&word);
            return broken(vec![word]);
        }
        if rest.starts_with('(') {
            self.call(&word, rest);
            return broken(vec![word]);
        }
        let value = rest.trim_start();
        let second = value.find(|c: char| !(c.is_alphanumeric() || "_-.".contains(c))).unwrap_or(value.len());
        let (second, behind) = value.split_at_checked(second)?;
        // `train lora(rank=8)`
        if !second.is_empty() && behind.starts_with('(') && behind.contains('=') {
            let both = Word { text: format!("{name} {second}"), span: word.span };
            self.call(&both, behind);
            return broken(vec![word]);
        }
        // `var lr = 3`
        let keyword = matches!(name, "var" | "const" | "set" | "local" | "export" | "val");
        if let Some(given) = behind.trim_start().strip_prefix('=').filter(|_| keyword && !second.is_empty()) {
            let given = given.trim().lines().next().unwrap_or("").to_owned();
            let place = Span::new(self.source, self.base, self.base + end);
            self.report(
                Diagnostic::error("syntax.assign", format!("`{name}` is no statement here"))
                    .label(place, "declares a name elsewhere")
                    .help(format!("write `let {second} = {given}`")),
            );
            let (first, second) = (Word { text: "let".into(), span: place }, Word { text: second.into(), span: place });
            return broken(vec![first, second]);
        }
        // Tight, it is an argument whose indentation was forgotten.
        if value.len() < rest.len() && value.starts_with('=') && !value.starts_with("==") {
            let value = value.trim_start_matches('=').trim();
            let value = value.lines().next().unwrap_or("").to_owned();
            // `model = load model "m"`
            let is_stage = value.starts_with(char::is_alphabetic) && value.contains([' ', '(']);
            self.report(
                Diagnostic::error("syntax.assign", format!("`{name}` is given a value like a variable"))
                    .label(word.span, "is no stage")
                    .help(match is_stage {
                        true => format!("what a stage makes is named behind it: write `{value} as {name}`"),
                        false => {
                            format!("write `let {name} = {value}`, or indent it to be an argument: `{name}={value}`")
                        }
                    }),
            );
            let keyword = Word { text: "let".into(), span: word.span };
            return broken(vec![keyword, word]);
        }
        None
    }

    /// `model: "m"`
    fn yaml(&mut self, word: &Word) {
        if self.diagnostics.iter().any(|known| known.code == "syntax.yaml") {
            return;
        }
        let write = match &*word.text {
            "model" | "base_model" => "write `load model \"models/llama\"`",
            "data" | "dataset" | "datasets" => "write `load data \"rows.jsonl\" format=alpaca`",
            "train" | "training" | "lora" | "adapter" => "write `train lora rank=8 lr=2e-4`",
            _ => "write for example `load model \"models/llama\"`, then `train lora rank=8`",
        };
        let diagnostic = Diagnostic::error("syntax.yaml", format!("`{}:` is YAML's way", word.text))
            .label(word.span, "with a colon")
            .note("a pipeline is one stage a line, from top to bottom: its name, then `name=value`")
            .help(write);
        self.report(diagnostic);
    }

    /// `load_model("m", dtype="bf16")`
    fn call(&mut self, word: &Word, rest: &str) {
        let stage = word.text.replace(['_', '.'], " ");
        let inside = rest.trim().trim_start_matches('(').trim_end_matches(')');
        let values: Vec<&str> = inside.split(',').map(str::trim).filter(|value| !value.is_empty()).collect();
        let write = [vec![&*stage], values].concat().join(" ");
        let diagnostic = Diagnostic::error("syntax.call", "a stage is written without brackets and commas")
            .label(word.span, "looks like a call")
            .help(format!("write `{write}`"));
        self.report(diagnostic);
    }

    /// Whether the line above has the same mistake, a lost indentation, and has it said.
    pub fn follows_mistake(&self, span: Span) -> bool {
        let Some(last) = self.diagnostics.last().filter(|last| last.code == "syntax.statement") else { return false };
        let before = last.labels.first().map_or(0, |label| label.span.end as usize);
        let between = self.text.get(before..span.start as usize).unwrap_or("");
        // Further lines of the same kind stand between: `rank=8`, then `lr=1`.
        between.lines().all(|line| line.trim().is_empty() || line.split_whitespace().all(|word| word.contains('=')))
    }
}

/// What to write for a stretch that no rule reads, where it is another language's.
pub(super) fn instead(code: &str) -> Option<&'static str> {
    let starts = |list: &[&str]| list.iter().any(|start| code.starts_with(start));
    if starts(&["```", "~~~"]) {
        Some("it is Markdown's, and no part of the pipeline: leave the line out")
    } else if starts(&["//", "/*", "*/"]) {
        Some("a comment begins with `#` and ends with its line")
    } else if starts(&["$"]) {
        Some("a name stands by itself: `lr=lr`; `${lr}` is for texts in quotes")
    } else if starts(&["- "]) {
        Some("a list stands in brackets: `targets=[q_proj v_proj]`")
    } else if starts(&["{"]) {
        Some("there are no braces: arguments stand behind the stage's name, lists in `[ ]`")
    } else if starts(&["**", "^"]) {
        Some("there is no power; write the number out: `lr=1e-4`")
    } else if starts(&["%"]) {
        Some("operators are `+`, `-`, `*` and `/`; `3%` is a percentage")
    } else if starts(&["*", "+"]) {
        Some("arithmetic stands in parentheses, with spaces around its operators: `batch=(2 * 4)`")
    } else if starts(&["\\"]) {
        Some("a line that is indented deeper goes on with the statement: leave the `\\` out")
    } else if starts(&["("]) {
        Some("there are no functions: a value is a number, a text, a name, or arithmetic of those")
    } else if starts(&[":="]) {
        Some("a value stands behind `=`: `let lr = 3e-4`")
    } else if code.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        Some("a number begins with a digit: `0.5`")
    } else {
        None
    }
}
