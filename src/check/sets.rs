//! `--set stage.argument=value`: arguments that the command line replaces.

use super::Checker;
use super::names::Datum;
use super::stage::Filled;
use crate::catalog::StageDecl;
use crate::plan::{Override, Val};
use crate::text::{Diagnostic, Span, nearest};

/// Stages that are listed one by one.
const LISTED: usize = 6;

/// Where a statement stands: in which calls, the pipeline's own first, and on which line of which file.
pub(super) struct Place {
    calls: Vec<usize>,
    line: usize,
    /// In the pipeline's own file.
    own: bool,
}

impl Place {
    /// The line of the pipeline's own file that asks for it.
    fn outermost(&self) -> usize {
        self.calls.first().copied().unwrap_or(self.line)
    }

    /// Whether it stands in a call of that line, and what follows names it from there: `rest` begins with the lines of
    /// further calls, and ends with its own line or words of its stage.
    fn within(&self, line: usize, rest: &str, names: &dyn Fn(&str) -> bool) -> bool {
        let mut wanted = vec![line];
        let mut last = rest;
        while let Some((line, rest)) = last.split_once('.').and_then(|(line, rest)| Some((line.parse().ok()?, rest))) {
            wanted.push(line);
            last = rest;
        }
        // The first is the pipeline's own call; others may be left out.
        let mut calls = self.calls.iter();
        let in_calls = self.calls.first() == wanted.first() && wanted.iter().all(|line| calls.any(|call| call == line));
        in_calls && last.parse().map_or_else(|_| names(last), |line: usize| line == self.line)
    }

    /// The shortest way to say which it is among others: `12`, `20.train`, `20.12`.
    fn told_from(&self, others: &[&Place], word: Option<&str>) -> String {
        let Some((first, deeper)) = self.calls.split_first() else { return self.line.to_string() };
        let alone = |same: &dyn Fn(&Place) -> bool| others.iter().filter(|other| same(other)).count() == 1;
        if let Some(word) = word.filter(|_| alone(&|other| other.calls.first() == Some(first))) {
            return format!("{first}.{word}");
        }
        if self.own && alone(&|other| other.own && other.line == self.line) {
            return self.line.to_string();
        }
        if alone(&|other| other.calls.first() == Some(first) && other.line == self.line) {
            return format!("{first}.{}", self.line);
        }
        let lines: Vec<String> = [*first].iter().chain(deeper).chain([&self.line]).map(usize::to_string).collect();
        lines.join(".")
    }
}

/// A stage's first word, or all of them however they are joined.
fn names_stage(written: &str, decl: &StageDecl) -> bool {
    let same = |c: char| if matches!(c, '-' | '_') { ' ' } else { c };
    let plain = |text: &str| text.chars().map(same).collect::<String>();
    plain(written) == plain(&decl.name) || decl.name.split(' ').next() == Some(written)
}

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
            let place = self.place(statement);
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

    /// Where a statement stands: the lines of the calls that it is in, and its own.
    fn place(&self, statement: Span) -> Place {
        let line = |span: &Span| self.sources.line_column(*span).0;
        let calls = self.calls.iter().map(line).collect();
        Place { calls, line: line(&statement), own: statement.source == self.source }
    }

    /// Whether `train`, `train lora`, `train-lora` or `12` means this statement: its first word, all of them, or the
    /// line of the pipeline's own file that it begins on. In front may stand lines of calls that it is in: `20.train`
    /// is the one in the call of line 20, `20.12` that of line 12 there.
    fn names_statement(&self, stage: &str, decl: &StageDecl, statement: Span) -> bool {
        if let Some((line, rest)) = stage.split_once('.').and_then(|(line, rest)| Some((line.parse().ok()?, rest))) {
            let place = self.place(statement);
            return place.within(line, rest, &|rest| names_stage(rest, decl));
        }
        if let Ok(line) = stage.parse::<usize>() {
            let place = self.place(statement);
            return place.own && place.line == line;
        }
        names_stage(stage, decl)
    }
    /// Every `--set` has to mean one statement and one of its arguments.
    pub fn sets_left(&mut self) {
        let sets = std::mem::take(&mut self.given.sets);
        for set in &sets {
            let text = self.sources.get(set.span.source).text.to_string();
            let places = |has: bool| -> Vec<&Place> {
                set.hits.iter().filter(|(_, found)| *found == has).map(|(place, _)| place).collect()
            };
            let (with, without) = (places(true), places(false));
            let without: Vec<usize> = without.iter().map(|place| place.outermost()).collect();
            let diagnostic = match (with.len(), &without[..]) {
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
                    let names: Vec<&str> =
                        decl.into_iter().flat_map(|decl| decl.args.iter().map(|arg| &*arg.name)).collect();
                    let diagnostic = Diagnostic::error(
                        "set.argument",
                        format!("`{}` in line {line} has no argument `{}`", set.stage, set.argument),
                    )
                    .label(set.span, "given on the command line");
                    // A call stands for stages, and one of those may have it.
                    let inside = self.steps.iter().find(|step| {
                        let has = self.catalog.stage(&step.stage).is_some_and(|decl| decl.arg(&set.argument).is_some());
                        has && step.line == *line && !step.calls.is_empty()
                    });
                    match (inside, nearest(&set.argument, names.iter().copied())) {
                        (Some(step), _) => diagnostic.help(format!(
                            "`{}` in it has: write `--set \"{line}.{}.{}=…\"`",
                            step.stage, step.stage, set.argument
                        )),
                        (None, Some(near)) => diagnostic.help(format!("write `--set \"{}.{near}=…\"`", set.stage)),
                        (None, None) if names.is_empty() => diagnostic,
                        (None, None) => diagnostic.note(format!("its arguments are {}", names.join(", "))),
                    }
                }
                (several, _) => {
                    let word = set.stage.rsplit('.').next().filter(|word| word.parse::<usize>().is_err());
                    let ways: Vec<String> = with.iter().map(|place| place.told_from(&with, word)).collect();
                    let shown: Vec<String> = ways.iter().take(LISTED).map(|way| format!("`{way}`")).collect();
                    let more = if ways.len() > LISTED { " and others" } else { "" };
                    Diagnostic::error("set.several", format!("`{}` could be {several} stages", set.stage))
                        .label(set.span, "which of them?")
                        .note(format!("by the lines they stand in they are {}{more}", shown.join(", ")))
                        .help(format!("write `--set \"{}.{}=…\"`", ways.first().map_or("", |way| way), set.argument))
                }
            };
            self.report(diagnostic);
        }
        self.given.sets = sets;
    }
}
