//! What is said when a value is not of the kind its place wants.

use super::arithmetic::kind_words;
use super::elsewhere::Wanted;
use super::{Checker, foreign, params};
use crate::catalog::{Atom, Kind, Misfit};
use crate::plan::Val;
use crate::syntax::{Expr, ExprKind};
use crate::text::{Diagnostic, nearest};

impl Checker<'_> {
    /// `name` is the argument or param; the first label is the value, a second one where a used name is declared.
    pub fn misfit(&mut self, name: &str, kind: &Kind, misfit: &Misfit, val: &Val, expr: &Expr) {
        let written = self.sources.slice(expr.span).trim().to_owned();
        let found = kind_words(val);
        let declared = match &expr.kind {
            ExprKind::Word(word) => self.names.get(word).map(|named| named.span),
            _ => None,
        };
        let set = |help: &str| format!("write `{name}={help}`");
        let mismatch = || {
            Diagnostic::error("type.mismatch", format!("`{name}` is {}, not {found}", kind.words()))
                .label(expr.span, format!("is {found}"))
        };
        let diagnostic = match misfit {
            Misfit::Symbol(near) => self.no_symbol(name, kind, near.as_deref(), val, expr),
            Misfit::Range(words) => {
                Diagnostic::error("type.range", format!("`{name}` {words}")).label(expr.span, "out of range")
            }
            Misfit::Whole => {
                Diagnostic::error("type.whole", format!("`{name}` has to be whole")).label(expr.span, "has a fraction")
            }
            // A share as other tools write it.
            Misfit::Unit(_) if share(kind, val).is_some() && declared.is_none() => {
                Diagnostic::error("type.unit", format!("`{name}` is {}", kind.words()))
                    .label(expr.span, "has no unit")
                    .help(set(&share(kind, val).unwrap_or_default()))
            }
            Misfit::Unit(unit) => {
                let diagnostic = Diagnostic::error("type.unit", format!("`{name}` is {}", kind.words()));
                match val {
                    Val::Int(_) | Val::Float(_) if declared.is_none() => {
                        diagnostic.label(expr.span, "has no unit").help(set(&format!("{written}{unit}")))
                    }
                    Val::Int(_) | Val::Float(_) => diagnostic.label(expr.span, "has no unit"),
                    _ => diagnostic.label(expr.span, format!("is {found}")),
                }
            }
            Misfit::NotList => mismatch().help(set(&format!("[{written}]"))),
            Misfit::Path(why) => {
                Diagnostic::error("path.wrong", format!("`{name}` is no usable path")).label(expr.span, *why)
            }
            Misfit::Kind => match val {
                Val::Int(_) | Val::Float(_) | Val::Bool(_) if kind.takes_text() && declared.is_none() => {
                    mismatch().help(set(&format!("\"{written}\"")))
                }
                Val::Str(text) if declared.is_none() && kind.has_symbol(text) => mismatch().help(set(text)),
                Val::Str(text) if declared.is_none() && text.parse::<f64>().is_ok() => mismatch().help(set(text)),
                _ => mismatch().help(format!("for example `{name}={}`", params::sample(kind))),
            },
        };
        let diagnostic = match declared {
            Some(span) => diagnostic.label(span, "its value is set here"),
            None => diagnostic,
        };
        self.report(diagnostic);
    }

    /// `a - b` for the word `a-b`, where both are the user's names.
    pub fn difference(&self, word: &str) -> Option<String> {
        let (left, right) = word.split_once('-')?;
        (self.names.contains_key(left) && self.names.contains_key(right)).then(|| format!("{left} - {right}"))
    }

    /// A word that the place does not know.
    fn no_symbol(&mut self, name: &str, kind: &Kind, near: Option<&str>, val: &Val, expr: &Expr) -> Diagnostic {
        let word = match val {
            Val::Symbol(word) => &**word,
            _ => "",
        };
        let code = if kind.words().contains("a shape") { "name.unknown_shape" } else { "name.unknown_symbol" };
        let of_user = nearest(word, self.names.keys().map(|name| &**name));
        let diagnostic = match (kind.symbols().next(), code) {
            (_, "name.unknown_shape") => {
                Diagnostic::error(code, format!("there is no shape `{word}`")).label(expr.span, "not in the catalogue")
            }
            (Some(_), _) => Diagnostic::error(code, format!("`{word}` is nothing that `{name}` can be"))
                .label(expr.span, "unknown")
                .note(format!("`{name}` is {}", kind.words())),
            (None, _) if kind.takes_text() => {
                Diagnostic::error("name.unknown", format!("`{word}` is unknown; `{name}` is {}", kind.words()))
                    .label(expr.span, "texts and paths stand in quotes")
            }
            (None, _) => {
                Diagnostic::error("name.unknown", format!("`{word}` is unknown; `{name}` is {}", kind.words()))
                    .label(expr.span, "no param or let of this name")
            }
        };
        let first = near.map(str::to_owned).or(of_user.map(str::to_owned));
        // Only a word can be a name; a name's own value may be a symbol too.
        if matches!(expr.kind, ExprKind::Word(_))
            && self.names.get(word).is_none_or(|named| named.span.source != expr.span.source)
            && let Some(told) = self.elsewhere(&diagnostic, word, Wanted::Setting)
        {
            return told;
        }
        if let Some(yes) = truth(word).filter(|_| kind.0.contains(&Atom::Bool)) {
            return diagnostic.help(match (kind.is_flag(), yes) {
                (true, true) => format!("write `{name}`, or `{name}=true`"),
                (true, false) => format!("write `no_{name}`, or `{name}=false`"),
                (false, yes) => format!("write `{name}={yes}`"),
            });
        }
        if let Some(ours) = foreign::symbol(word).filter(|ours| kind.has_symbol(ours)) {
            return diagnostic.help(format!("write `{name}={ours}`"));
        }
        match first {
            None if matches!(word, "json" | "jsonl" | "csv" | "parquet") && kind.has_symbol("alpaca") => diagnostic
                .help(format!("`{name}` is what the rows hold, whatever the file is: for example `{name}=alpaca`")),
            Some(near) => diagnostic.help(format!("write `{near}`")),
            None if self.difference(word).is_some() => diagnostic
                .help(format!("write `({})`: `-` belongs to names", self.difference(word).unwrap_or_default())),
            None if kind.takes_text() => diagnostic.help(format!("write `\"{word}\"`")),
            None if code == "name.unknown_shape" => {
                let shapes: Vec<&str> = self.catalog.shapes.iter().map(|shape| &*shape.name).collect();
                diagnostic.note(format!("shapes are {}", shapes.join(", ")))
            }
            None if self.is_outside(expr.span) => {
                diagnostic.help(format!("for example `{name}={}`", params::sample(kind)))
            }
            None if kind.symbols().next().is_none() => diagnostic.help(format!("declare it above: `let {word} = …`")),
            None => diagnostic,
        }
    }
}

/// How other languages write a truth value.
fn truth(word: &str) -> Option<bool> {
    match &*word.to_lowercase() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// `3%` for 0.03, where a percentage may stand.
fn share(kind: &Kind, val: &Val) -> Option<String> {
    let percent = kind.0.iter().any(|atom| matches!(atom, Atom::Percent(_)));
    match val {
        Val::Float(x) if percent && *x > 0.0 && *x < 1.0 => {
            // Rounded, since 0.07 · 100 is not 7.
            Some(format!("{}%", (x * 1e8).round() / 1e6))
        }
        _ => None,
    }
}
