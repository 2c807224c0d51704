//! One stage: its name, its arguments, its place in the plan.

use super::names::{Datum, Named, What};
use super::{Checker, params};
use crate::catalog::{InputDecl, StageDecl};
use crate::plan::{Arg, Args, Step, Val};
use crate::syntax::{Expr, ExprKind, Part, StageLine, Word};
use crate::text::{Diagnostic, Span};

/// What a stage was given, in the order of its signature.
pub(super) struct Filled<'a> {
    pub decl: &'a StageDecl,
    /// The stage's words.
    pub name_span: Span,
    /// No value: it was given, and that had an error.
    pub args: Vec<Option<(Option<Datum>, Span)>>,
    /// The names of values for each input that was given some, and where; no name: that had an error.
    pub inputs: Vec<Option<(Vec<Word>, Span)>>,
}

impl<'a> Checker<'a> {
    pub fn stage(&mut self, line: &'a StageLine) {
        let mut words: Vec<(&str, Span)> = Vec::new();
        for part in &line.parts {
            match part {
                Part::Value(Expr { kind: ExprKind::Word(word), span }) => words.push((word, *span)),
                _ => break,
            }
        }
        self.opened += usize::from(self.order != usize::MAX);
        let texts: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        if let Some((first, span)) = words.first()
            && self.catalog.stage_at(&texts).is_none()
            && let Some(recipe) = self.recipe_at(first)
        {
            return self.call(line, *span, &recipe);
        }
        // `quantize 4bit`: the word that is missing is the value that could not be read, which is reported.
        let misread = matches!(line.parts.get(words.len()), Some(Part::Value(Expr { kind: ExprKind::Wrong, .. })));
        let half =
            |(first, _): &(&str, Span)| self.catalog.stages.iter().any(|one| one.name.split(' ').next() == Some(first));
        let said =
            misread && words.len() == 1 && words.first().is_some_and(half) && self.catalog.stage_at(&texts).is_none();
        let Some((count, decl)) = (if said { None } else { self.find_stage(&words) }) else {
            self.unread = true;
            if let Some(alias) = &line.alias {
                self.names.insert(alias.text.clone(), Named::unknown(alias.span));
            }
            return;
        };
        let name_span = match (words.first(), words.get(count - 1)) {
            (Some((_, first)), Some((_, last))) => first.to(*last),
            _ => line.span,
        };
        let filled = self.fill(line, count, name_span, decl);
        self.missing(&filled, line.span);
        let step = self.steps.len();
        let (inputs, makes) = self.pass_values(&filled, line.alias.as_ref(), step);
        let args = decl.args.iter().zip(filled.args).map(|(arg, given)| match given {
            Some((datum, span)) => {
                let from = datum.as_ref().and_then(|datum| datum.from.as_deref().cloned());
                let val = datum.map_or(Val::None, |datum| datum.val);
                Arg { name: arg.name.clone(), val, span: Some(span), from }
            }
            None => {
                Arg { name: arg.name.clone(), val: arg.default.clone().unwrap_or(Val::None), span: None, from: None }
            }
        });
        let asked = self.calls.first().copied().unwrap_or(line.span);
        self.steps.push(Step {
            stage: decl.name.clone(),
            span: line.span,
            name_span,
            line: self.sources.line_column(asked).0,
            calls: self.calls.clone(),
            args: Args(args.collect()),
            inputs,
            makes,
        });
    }

    /// What a statement gives a stage or a recipe, behind the words of its name.
    pub fn fill<'d>(&mut self, line: &StageLine, count: usize, name_span: Span, decl: &'d StageDecl) -> Filled<'d> {
        let mut filled =
            Filled { decl, name_span, args: vec![None; decl.args.len()], inputs: vec![None; decl.inputs.len()] };
        let before = self.diagnostics.len();
        let mut taken = false;
        for (at, part) in line.parts.iter().enumerate().skip(count) {
            // A value that was said with the name before it.
            if std::mem::take(&mut taken) {
                continue;
            }
            if self.statement_in(line.parts.get(at..).unwrap_or(&[]), filled.name_span) {
                break;
            }
            if let Some((words, other)) = self.stage_in(&filled, line.parts.get(at..).unwrap_or(&[])) {
                self.run_on(&filled, other, words);
                break;
            }
            match part {
                Part::Argument { name, value } => self.argument(&mut filled, name, value),
                Part::Value(Expr { kind: ExprKind::Word(word), span }) => {
                    taken = self.apart(&mut filled, word, *span, line.parts.get(at + 1));
                    if !taken {
                        self.bare_word(&mut filled, word, *span);
                    }
                }
                Part::Value(value) => self.positional(&mut filled, value),
            }
        }
        self.gather(before, decl);
        self.override_args(&mut filled, line.span);
        filled
    }

    /// `rank 8`: a name and its value without the `=` between. Says so once.
    fn apart(&mut self, filled: &mut Filled<'_>, word: &str, span: Span, next: Option<&Part>) -> bool {
        let decl = filled.decl;
        let Some(at) = decl.args.iter().position(|arg| arg.name == word && !arg.kind.is_flag()) else { return false };
        let symbol = next_positional(filled).is_some_and(|next| decl.args[next].kind.has_symbol(word));
        let Some(Part::Value(value)) = next else { return false };
        if symbol || self.names.contains_key(word) {
            return false;
        }
        if let ExprKind::Word(next) = &value.kind
            && !decl.args[at].kind.has_symbol(next)
            && !self.names.contains_key(next)
        {
            return false;
        }
        let written = self.sources.slice(value.span).to_owned();
        self.report(
            Diagnostic::error("syntax.equals", "an `=` is missing between a name and its value")
                .label(span.to(value.span), "apart")
                .help(format!("write `{word}={written}`")),
        );
        filled.args[at].get_or_insert((None, span));
        true
    }

    /// Many words that one stage does not know are one mistake as a rule, a lost line break or a wrong stage: from the
    /// second on they are said together.
    fn gather(&mut self, before: usize, decl: &StageDecl) {
        let strange = |diagnostic: &Diagnostic| {
            matches!(diagnostic.code, "name.unknown_argument" | "name.unknown" | "arg.extra" | "arg.no_value")
        };
        let new = self.diagnostics.split_off(before);
        if new.iter().filter(|diagnostic| strange(diagnostic)).count() <= 2 {
            self.diagnostics.extend(new);
            return;
        }
        let mut rest = Vec::new();
        let mut seen = false;
        for diagnostic in new {
            if strange(&diagnostic) && std::mem::replace(&mut seen, true) {
                rest.push(diagnostic);
            } else {
                self.diagnostics.push(diagnostic);
            }
        }
        let message = format!("`{}` does not know {} more arguments", decl.name, rest.len());
        let known = rest.iter().all(|diagnostic| diagnostic.help.is_some());
        let mut together = Diagnostic::error("name.unknown_argument", message).help(match known {
            true => "write each as it is called here",
            false => "is this the stage that is meant, and is no line break missing?",
        });
        for diagnostic in rest {
            if let Some(label) = diagnostic.labels.first() {
                together = together.label(label.span, diagnostic.help.unwrap_or_else(|| label.text.clone()));
            }
        }
        self.report(together);
        // What the swallowed stage would have made is not known.
        self.unread = true;
    }

    /// Another stage's name in the middle of a stage: its line break was lost.
    fn stage_in(&self, filled: &Filled<'_>, parts: &[Part]) -> Option<(Span, &'a StageDecl)> {
        let mut words: Vec<(&str, Span)> = Vec::new();
        for part in parts.iter().take(2) {
            match part {
                Part::Value(Expr { kind: ExprKind::Word(word), span }) => words.push((word, *span)),
                _ => break,
            }
        }
        let (first, span) = words.first()?;
        let texts: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let (count, decl) = self.catalog.stage_at(&texts)?;
        let symbol = next_positional(filled).is_some_and(|at| filled.decl.args[at].kind.has_symbol(first));
        let known = symbol || filled.decl.arg(first).is_some() || self.names.contains_key(*first);
        (!known).then(|| (span.to(words.get(count - 1).map_or(*span, |(_, last)| *last)), decl))
    }

    /// The same for `param`, `let` and `budget`, in a stage or in a budget. Says so once.
    pub fn statement_in(&mut self, parts: &[Part], unended: Span) -> bool {
        let Some(Part::Value(Expr { kind: ExprKind::Word(word), span })) = parts.first() else { return false };
        if !matches!(&**word, "param" | "let" | "budget" | "tunepipe") || self.names.contains_key(word) {
            return false;
        }
        self.report(
            Diagnostic::error("syntax.statement", format!("`{word}` begins in the middle of another statement"))
                .label(*span, "is a statement of its own")
                .label(unended, "this one is not ended")
                .help("put it on a line of its own, at the left edge"),
        );
        let name = match parts.get(1) {
            Some(Part::Value(Expr { kind: ExprKind::Word(name), span })) => Some((name, *span)),
            Some(Part::Argument { name, .. }) => Some((&name.text, name.span)),
            _ => None,
        };
        if let Some((name, span)) = name {
            self.names.insert(name.clone(), Named::unknown(span));
        }
        self.unread = true;
        true
    }

    /// Says so once; what the other stage was given is not looked at.
    fn run_on(&mut self, filled: &Filled<'_>, other: &StageDecl, words: Span) {
        self.report(
            Diagnostic::error("syntax.statement", format!("`{}` begins in the middle of a stage", other.name))
                .label(words, "is a stage of its own")
                .label(filled.name_span, "this one is not ended")
                .help("put it on a line of its own, at the left edge"),
        );
        self.owned.guess(other, words);
        self.unread = true;
    }

    /// `name=value`
    fn argument(&mut self, filled: &mut Filled<'_>, name: &Word, value: &Expr) {
        let decl = filled.decl;
        if let Some(at) = decl.args.iter().position(|arg| arg.name == name.text) {
            let val = self.held_to(filled, at, value);
            self.put(filled, at, val, name.span.to(value.span));
        } else if let Some(at) = decl.inputs.iter().position(|input| input.name == name.text) {
            if let Some((_, first)) = &filled.inputs[at] {
                return self.twice(&name.text, name.span, *first);
            }
            let words = self.value_names(&decl.inputs[at], &name.text, value);
            filled.inputs[at] = Some((words, name.span));
        } else if let Some(flag) = self.denied_flag(decl, &name.text) {
            let flag = &decl.args[flag].name;
            self.report(
                Diagnostic::error("arg.flag", format!("`{}` stands alone", name.text))
                    .label(name.span.to(value.span), "has a value")
                    .help(format!("write `no_{flag}`, or `{flag}=false`")),
            );
        } else {
            self.unknown_argument(filled, name);
        }
    }

    /// The names behind an input's key; none where they are no names, which is reported.
    fn value_names(&mut self, input: &InputDecl, key: &str, value: &Expr) -> Vec<Word> {
        let word = |value: &Expr| match &value.kind {
            ExprKind::Word(word) => Some(Word { text: word.clone(), span: value.span }),
            _ => None,
        };
        let names = match &value.kind {
            ExprKind::Wrong => return Vec::new(),
            ExprKind::List(items) if input.many => items.iter().map(word).collect(),
            _ => word(value).map(|word| vec![word]),
        };
        if let Some(names) = names.filter(|names| !names.is_empty()) {
            return names;
        }
        let is_model = input.pattern.is_model();
        let (what, maker) = if is_model { ("a model", "load model") } else { ("data", "load data") };
        let (name, write) = if input.many {
            ("first", "[first second]")
        } else if is_model {
            ("base", "base")
        } else {
            ("rows", "rows")
        };
        self.report(
            Diagnostic::error("value.name", format!("`{key}=` takes the name of {what}"))
                .label(value.span, "is no name")
                .help(format!("name it where it is made, `{maker} … as {name}`, and write `{key}={write}`")),
        );
        Vec::new()
    }

    /// The flag that `no_x` denies.
    fn denied_flag(&self, decl: &StageDecl, word: &str) -> Option<usize> {
        let flag = word.strip_prefix("no_")?;
        decl.args.iter().position(|arg| arg.name == flag && arg.kind.is_flag())
    }

    /// A word by itself: a flag, a symbol for the next positional, a name of the user.
    fn bare_word(&mut self, filled: &mut Filled<'_>, word: &str, span: Span) {
        let decl = filled.decl;
        let flag = decl.args.iter().position(|arg| arg.name == word && arg.kind.is_flag());
        if let Some(at) = flag {
            return self.put(filled, at, Some(Datum::plain(Val::Bool(true))), span);
        }
        if let Some(at) = self.denied_flag(decl, word) {
            return self.put(filled, at, Some(Datum::plain(Val::Bool(false))), span);
        }
        let expr = Expr { kind: ExprKind::Word(word.to_owned()), span };
        if let Some(at) = next_positional(filled)
            && decl.args[at].kind.has_symbol(word)
        {
            return self.put(filled, at, Some(Datum::plain(Val::Symbol(word.to_owned()))), span);
        }
        match self.names.get_mut(word).map(|named| (named.what.clone(), named.span)) {
            Some((What::Owned(id), declared)) => {
                let is_model = self.owned.get(id).is_model;
                let input = decl.inputs.iter().find(|input| input.pattern.is_model() == is_model);
                let diagnostic =
                    Diagnostic::error("value.key", format!("`{word}` is a named value and goes by its key"))
                        .label(span, "stands alone")
                        .label(declared, "named here");
                self.report(match input {
                    Some(input) => diagnostic.help(format!("write `{}={word}`", input.name)),
                    None => diagnostic.note(format!("`{}` takes no such value", decl.name)),
                });
                if let Some(named) = self.names.get_mut(word) {
                    named.used = true;
                }
                // It is clear what was meant, so the input is not missed as well.
                let input = decl.inputs.iter().position(|input| input.pattern.is_model() == is_model);
                if let Some(at) = input {
                    filled.inputs[at].get_or_insert((Vec::new(), span));
                }
            }
            Some(_) => self.positional(filled, &expr),
            None if matches!(word, "true" | "false" | "none") => self.positional(filled, &expr),
            None => self.unknown_word(filled, word, span),
        }
    }

    fn positional(&mut self, filled: &mut Filled<'_>, value: &Expr) {
        let decl = filled.decl;
        if let Some(at) = next_positional(filled) {
            let val = self.held_to(filled, at, value);
            return self.put(filled, at, val, value.span);
        }
        // What is wrong in itself is said already.
        if value.kind == ExprKind::Wrong {
            self.unread = true;
            return;
        }
        let written = self.sources.slice(value.span).trim().to_owned();
        let count = decl.args.iter().filter(|arg| arg.positional).count();
        let message = match count {
            0 => format!("`{}` takes no value without a name", decl.name),
            1 => format!("`{}` takes one value without a name", decl.name),
            _ => format!("`{}` takes {count} values without a name", decl.name),
        };
        let mut diagnostic = Diagnostic::error("arg.extra", message).label(value.span, "one too many");
        let last = decl.args.iter().zip(&filled.args).rfind(|(arg, _)| arg.positional);
        if let Some((arg, Some((_, first)))) = last {
            diagnostic = diagnostic.label(*first, format!("is the {}", arg.name));
            if arg.kind.0.iter().any(|atom| matches!(atom, crate::catalog::Atom::List(_))) {
                let first = self.sources.slice(*first);
                diagnostic = diagnostic.help(format!("several stand in a list: `[{first} {written}]`"));
            }
        }
        let val = self.eval(value, None);
        if diagnostic.help.is_none() {
            let fits = val.and_then(|datum| {
                let mut fits = decl.args.iter().zip(&filled.args).filter(|(arg, given)| {
                    given.is_none() && self.catalog.fit(&arg.kind, &datum.val, &datum.folder).is_ok()
                });
                fits.next().map(|(arg, _)| arg.name.clone())
            });
            diagnostic = match fits {
                Some(name) => diagnostic.help(format!("give it its name, as in `{name}={written}`")),
                None => diagnostic,
            };
        }
        self.report(diagnostic);
    }

    /// The value, held to an argument's kind.
    fn held_to(&mut self, filled: &Filled<'_>, at: usize, value: &Expr) -> Option<Datum> {
        let arg = &filled.decl.args[at];
        let datum = self.eval(value, Some(&arg.kind))?;
        if datum.val == Val::None && arg.default == Some(Val::None) {
            return Some(datum);
        }
        match self.catalog.fit(&arg.kind, &datum.val, &datum.folder) {
            Ok(val) => Some(Datum { val, ..datum }),
            Err(misfit) => {
                self.misfit(&arg.name, &arg.kind, &misfit, &datum.val, value);
                None
            }
        }
    }

    fn put(&mut self, filled: &mut Filled<'_>, at: usize, val: Option<Datum>, span: Span) {
        match &filled.args[at] {
            Some((_, first)) => {
                let name = filled.decl.args[at].name.clone();
                self.twice(&name, span, *first);
            }
            None => filled.args[at] = Some((val, span)),
        }
    }

    pub fn twice(&mut self, name: &str, span: Span, first: Span) {
        self.report(
            Diagnostic::error("arg.twice", format!("`{name}` is given twice"))
                .label(span, "the second time")
                .label(first, "the first time")
                .help("remove one of them"),
        );
    }

    /// Arguments without a default that were not given.
    pub fn missing(&mut self, filled: &Filled<'_>, statement: Span) {
        let decl = filled.decl;
        // A short statement is shown as it would be; of a long one, its beginning.
        let whole = self.sources.slice(statement);
        let short = !whole.contains('\n') && whole.chars().count() <= 60;
        let start = if short { whole.to_owned() } else { decl.name.clone() };
        for (arg, given) in decl.args.iter().zip(&filled.args) {
            if given.is_some() || arg.default.is_some() {
                continue;
            }
            let sample = params::sample(&arg.kind);
            let write = if arg.positional { sample.to_owned() } else { format!("{}={sample}", arg.name) };
            let mut diagnostic =
                Diagnostic::error("arg.missing", format!("`{}` needs `{}`: {}", decl.name, arg.name, arg.doc))
                    .label(filled.name_span, "is not told")
                    .help(format!("for example `{start} {write}`"));
            if arg.kind.symbols().next().is_some() {
                diagnostic = diagnostic.note(format!("`{}` is {}", arg.name, arg.kind.words()));
            }
            self.report(diagnostic);
        }
    }
}

/// The first positional argument that has no value yet.
pub(super) fn next_positional(filled: &Filled<'_>) -> Option<usize> {
    filled.decl.args.iter().zip(&filled.args).position(|(arg, given)| arg.positional && given.is_none())
}
