//! `--set stage.argument=value`: arguments that the command line replaces.

use super::Checker;
use super::names::Datum;
use super::stage::Filled;
use crate::catalog::StageDecl;
use crate::plan::{Override, Val};
use crate::text::{Diagnostic, Span, nearest};

impl Checker<'_> {
    /// Puts in what `--set` gives a statement. Bodies of recipes are given it when they are called.
    pub fn override_args(&mut self, filled: &mut Filled<'_>, statement: Span) {
        if self.trying {
            return;
        }
        for at in 0..self.given.sets.len() {
            let set = &self.given.sets[at];
            if !self.names_statement(&set.stage, filled.decl, statement) {
                continue;
            }
            let place = self.calls.first().copied().unwrap_or(statement);
            let (name, denied) = match set.argument.strip_prefix("no_") {
                Some(flag) if filled.decl.arg(&set.argument).is_none() && set.value.is_none() => {
                    (flag.to_owned(), true)
                }
                _ => (set.argument.clone(), false),
            };
            let found = filled.decl.args.iter().position(|arg| arg.name == name);
            self.given.sets[at].hits.push((place, found.is_some()));
            let twice = (0..at).find(|earlier| {
                let earlier = &self.given.sets[*earlier];
                let same = earlier.argument.strip_prefix("no_").unwrap_or(&earlier.argument) == name
                    || earlier.argument == name;
                same && self.names_statement(&earlier.stage, filled.decl, statement)
            });
            if let Some(earlier) = twice {
                let (first, again) = (self.given.sets[earlier].span, self.given.sets[at].span);
                self.report(
                    Diagnostic::error("arg.twice", format!("`{name}` is given twice on the command line"))
                        .label(again, "again here")
                        .label(first, "first here")
                        .help("leave one of them out"),
                );
            }
            if let Some(arg) = found {
                self.override_one(filled, at, arg, denied);
            }
        }
    }

    fn override_one(&mut self, filled: &mut Filled<'_>, set: usize, at: usize, denied: bool) {
        let arg = &filled.decl.args[at];
        let key = self.given.sets[set].span;
        let (datum, span) = match self.given.sets[set].value.clone() {
            Some((span, value)) => (
                self.outer_value(&arg.name, span, value, Some(&arg.kind), key, arg.default == Some(Val::None)),
                key.to(span),
            ),
            None if arg.kind.is_flag() => (Some(Datum::plain(Val::Bool(!denied))), key),
            None => {
                let diagnostic = Diagnostic::error(
                    "arg.no_value",
                    format!("`{}` needs a value: it is {}", arg.name, arg.kind.words()),
                )
                .label(key, "has none");
                self.report(diagnostic);
                (None, key)
            }
        };
        filled.args[at] = Some((datum, span));
    }

    /// Whether `train`, `train lora`, `train-lora` or `12` means this statement: its first word, all of them, or the
    /// line of the pipeline's own file that it begins on.
    fn names_statement(&self, stage: &str, decl: &StageDecl, statement: Span) -> bool {
        if let Ok(line) = stage.parse::<usize>() {
            return self.calls.is_empty() && self.sources.line_column(statement).0 == line;
        }
        let same = |c: char| if matches!(c, '-' | '_') { ' ' } else { c };
        let plain = |text: &str| text.chars().map(same).collect::<String>();
        plain(stage) == plain(&decl.name) || decl.name.split(' ').next() == Some(stage)
    }

    /// Every `--set` has to mean one statement and one of its arguments.
    pub fn sets_left(&mut self) {
        let sets = std::mem::take(&mut self.given.sets);
        for set in &sets {
            let text = self.sources.get(set.span.source).text.to_string();
            let lines = |has: bool| -> Vec<usize> {
                let mut lines: Vec<usize> = set
                    .hits
                    .iter()
                    .filter(|(_, found)| *found == has)
                    .map(|(span, _)| self.sources.line_column(*span).0)
                    .collect();
                lines.dedup();
                lines
            };
            let (with, without) = (lines(true), lines(false));
            let hits = set.hits.iter().filter(|(_, found)| *found).count();
            let diagnostic = match (hits, &without[..]) {
                (1, _) => {
                    self.overrides.push(Override { what: text, from: "--set" });
                    continue;
                }
                // What could not be read may well be what is meant.
                _ if self.unread => continue,
                (0, []) => {
                    let names = self
                        .steps
                        .iter()
                        .map(|step| &*step.stage)
                        .chain(self.steps.iter().filter_map(|step| step.stage.split(' ').next()));
                    let diagnostic =
                        Diagnostic::error("set.stage", format!("the pipeline has no stage `{}`", set.stage))
                            .label(set.span, "given on the command line");
                    match nearest(&set.stage, names) {
                        Some(near) => diagnostic.help(format!("write `--set \"{near}.{}=…\"`", set.argument)),
                        None => diagnostic
                            .help("a stage goes by its name or its line: `--set train.batch=1`, `--set 12.batch=1`"),
                    }
                }
                (0, [line, ..]) => {
                    let decl = self
                        .steps
                        .iter()
                        .find(|step| step.line == *line)
                        .and_then(|step| self.catalog.stage(&step.stage));
                    let names = decl.into_iter().flat_map(|decl| decl.args.iter().map(|arg| &*arg.name));
                    let diagnostic = Diagnostic::error(
                        "set.argument",
                        format!("`{}` in line {line} has no argument `{}`", set.stage, set.argument),
                    )
                    .label(set.span, "given on the command line");
                    match nearest(&set.argument, names) {
                        Some(near) => diagnostic.help(format!("write `--set \"{}.{near}=…\"`", set.stage)),
                        None => diagnostic,
                    }
                }
                (several, _) => {
                    let shown: Vec<String> = with.iter().map(|line| format!("line {line}")).collect();
                    let diagnostic =
                        Diagnostic::error("set.several", format!("`{}` could be {several} stages", set.stage))
                            .label(set.span, "which of them?")
                            .note(format!("they stand in {}", shown.join(", ")));
                    match &with[..] {
                        [first, _, ..] => {
                            diagnostic.help(format!("say it by its line: `--set {first}.{}=…`", set.argument))
                        }
                        _ => diagnostic.help("make it a parameter of the recipe, and set that"),
                    }
                }
            };
            self.report(diagnostic);
        }
        self.given.sets = sets;
    }
}
