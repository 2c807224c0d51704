//! `param` lines and what the command line gives for them.

use std::path::{Path, PathBuf};

use super::Checker;
use super::names::Datum;
use crate::catalog::{Atom, Kind, Misfit};
use crate::plan::Val;
use crate::syntax::{self, Expr, ExprKind, ParamLine, Range};
use crate::text::{Diagnostic, Sources, Span, nearest};

/// `name=value` from the command line, each a source of its own so that a mistake in it can be pointed at.
#[derive(Default)]
pub(super) struct Given(Vec<One>);

struct One {
    name: String,
    name_span: Span,
    value_span: Span,
    value: Result<Expr, Vec<Diagnostic>>,
    used: bool,
}

impl Given {
    pub fn read(params: &[(String, String)], sources: &mut Sources) -> Given {
        let one = |(name, value): &(String, String)| {
            let text = format!("{name}={value}");
            let length = text.len();
            // Paths of the command line are relative to the working directory.
            let id = sources.add("<command line>", Path::new(""), text);
            let value_span = Span::new(id, name.len() + 1, length);
            let value = syntax::parse_value(sources, value_span);
            One { name: name.clone(), name_span: Span::new(id, 0, name.len()), value_span, value, used: false }
        };
        Given(params.iter().map(one).collect())
    }
}

impl Checker<'_> {
    pub fn param(&mut self, line: &ParamLine) {
        let kind = match line.kind.as_ref().map(Kind::read_param) {
            Some(Ok(kind)) => Some(kind),
            Some(Err(diagnostic)) => {
                self.report(diagnostic);
                self.declare(&line.name, None);
                self.mark_given(&line.name.text);
                return;
            }
            None => None,
        };
        let default = line.default.as_ref().map(|expr| self.default(expr, kind.as_ref(), &line.name.text));
        let datum = match (self.mark_given(&line.name.text), default) {
            (Some(at), default) => {
                let kind = kind.or_else(|| default.flatten().and_then(|datum| inferred(&datum.val)));
                self.given_value(at, kind.as_ref(), &line.name.span)
            }
            (None, Some(default)) => default,
            (None, None) => {
                let name = &line.name.text;
                let sample = kind.as_ref().map_or("VALUE", sample);
                let kind = kind.as_ref().map_or(String::new(), |kind| format!(": it is {}", kind.words()));
                self.report(
                    Diagnostic::error("param.missing", format!("the param `{name}` has no value{kind}"))
                        .label(line.name.span, "has no default, so it has to be given")
                        .help(format!(
                            "put `{name}={}` on the command line, or a default here: `= {sample}`",
                            sample.trim_matches('"')
                        )),
                );
                None
            }
        };
        if let Some(datum) = &datum {
            self.params.push((line.name.text.clone(), datum.val.clone()));
        }
        self.declare(&line.name, datum);
    }

    pub fn default(&mut self, expr: &Expr, kind: Option<&Kind>, name: &str) -> Option<Datum> {
        let datum = self.eval(expr, kind)?;
        match kind {
            // `none` says that there is no value, whatever the kind.
            Some(kind) if datum.val != Val::None => self.fitted(datum, kind, name, expr, None),
            _ => Some(datum),
        }
    }

    /// Marks what the command line gives for a name; a second giving is an error.
    fn mark_given(&mut self, name: &str) -> Option<usize> {
        let mut first: Option<usize> = None;
        let mut twice = None;
        for (at, one) in self.given.0.iter_mut().enumerate().filter(|(_, one)| one.name == name) {
            one.used = true;
            match first {
                None => first = Some(at),
                Some(_) => twice = Some(one.name_span),
            }
        }
        if let Some(span) = twice {
            self.report(
                Diagnostic::error("param.twice", format!("`{name}` is given twice on the command line"))
                    .label(span, "again")
                    .help("give it once"),
            );
        }
        first
    }

    fn given_value(&mut self, at: usize, kind: Option<&Kind>, declared: &Span) -> Option<Datum> {
        let one = self.given.0.get(at)?;
        let (name, span, value) = (one.name.clone(), one.value_span, one.value.clone());
        let raw = self.sources.slice(span).to_owned();
        let bare = Datum { val: Val::Str(raw.clone()), folder: PathBuf::new(), shown: None, from: None };
        let takes_text = kind.is_some_and(Kind::takes_text) && !raw.starts_with(['"', '@']);
        let expr = match value {
            Ok(expr) => expr,
            // What a shell leaves of a quoted text or path is a bare one.
            Err(_) if takes_text || (kind.is_none() && !raw.contains('"') && !raw.trim().is_empty()) => {
                let expr = Expr { kind: ExprKind::Wrong, span };
                return match kind {
                    Some(kind) => self.fitted(bare, kind, &name, &expr, Some(*declared)),
                    None => Some(bare),
                };
            }
            Err(_) if raw.trim().is_empty() => {
                self.report(
                    Diagnostic::error("param.value", format!("`{name}` is given no value"))
                        .label(span, "empty")
                        .label(*declared, "declared here"),
                );
                return None;
            }
            Err(diagnostics) => {
                self.diagnostics.extend(diagnostics);
                return None;
            }
        };
        let datum = match &expr.kind {
            ExprKind::Word(word) => Some(Datum::plain(match &**word {
                "true" => Val::Bool(true),
                "false" => Val::Bool(false),
                "none" => Val::None,
                _ => Val::Symbol(word.clone()),
            })),
            _ => self.eval(&expr, kind),
        }?;
        let Some(kind) = kind else { return Some(datum) };
        if datum.val == Val::None {
            return Some(datum);
        }
        let fits = self.catalog.fit(kind, &datum.val, &datum.folder).is_ok();
        let datum = if takes_text && !fits { bare } else { datum };
        self.fitted(datum, kind, &name, &expr, Some(*declared))
    }

    /// Holds a value to a kind; the rest of it stays.
    fn fitted(&mut self, datum: Datum, kind: &Kind, name: &str, expr: &Expr, declared: Option<Span>) -> Option<Datum> {
        match self.catalog.fit(kind, &datum.val, &datum.folder) {
            Ok(val) => Some(Datum { val, ..datum }),
            Err(misfit) => {
                self.misfit(name, kind, &misfit, &datum.val, expr);
                if let (Some(declared), Some(last)) = (declared, self.diagnostics.last_mut()) {
                    last.labels.push(crate::text::Label { span: declared, text: "declared here".into() });
                    if misfit == Misfit::Whole {
                        last.notes.push(
                            "a param has the type of its default; write `param name: Float = …` for fractions".into(),
                        );
                    }
                }
                None
            }
        }
    }

    /// What the command line gives and no param wants.
    pub fn params_left(&mut self) {
        let left: Vec<(String, Span)> =
            self.given.0.iter().filter(|one| !one.used).map(|one| (one.name.clone(), one.name_span)).collect();
        for (name, span) in left {
            // An unreadable file may well declare it.
            if self.unread {
                continue;
            }
            let names: Vec<&str> = self.params.iter().map(|(name, _)| &**name).collect();
            let diagnostic = Diagnostic::error("param.unknown", format!("the pipeline has no param `{name}`"))
                .label(span, "given on the command line");
            let diagnostic = match nearest(&name, names.iter().copied()) {
                Some(near) => diagnostic.help(format!("write `{near}=…`")),
                None if names.is_empty() => diagnostic.help(format!("declare it in the file: `param {name} = …`")),
                None => diagnostic.note(format!("its params are {}", names.join(", "))),
            };
            self.report(diagnostic);
        }
    }
}

/// The kind that a default stands for, where none is written.
fn inferred(val: &Val) -> Option<Kind> {
    let any = Range { low: None, high: None };
    let atoms = match val {
        Val::Bool(_) => vec![Atom::Bool],
        Val::Int(_) => vec![Atom::Int(any)],
        Val::Float(_) => vec![Atom::Float(any)],
        Val::Bytes(_) => vec![Atom::Bytes],
        // An argument that takes one of these as a rule takes another too, and is asked when it is used.
        Val::Quantity(..) => vec![Atom::Percent(any), Atom::Steps(any), Atom::Epochs(any), Atom::Rows(any)],
        Val::Str(_) => vec![Atom::String],
        Val::Path(_) => vec![Atom::Path],
        Val::None | Val::Symbol(_) | Val::List(_) => return None,
    };
    Some(Kind(atoms))
}

/// A value of a kind, to show how one is written.
pub(super) fn sample(kind: &Kind) -> &str {
    match kind.0.first() {
        Some(Atom::Int(_)) => "8",
        Some(Atom::Float(_)) => "0.1",
        Some(Atom::Bool) => "true",
        Some(Atom::String) => "\"text\"",
        Some(Atom::Path | Atom::Output) => "\"path\"",
        Some(Atom::Bytes) => "5GB",
        Some(Atom::Percent(_)) => "3%",
        Some(Atom::Steps(_)) => "50steps",
        Some(Atom::Epochs(_)) => "1epoch",
        Some(Atom::Rows(_)) => "500rows",
        Some(Atom::Shape) => "llama-3-8b",
        Some(Atom::Symbol(name)) => name,
        Some(Atom::None) => "none",
        Some(Atom::List(_)) => "[…]",
        None => "VALUE",
    }
}
