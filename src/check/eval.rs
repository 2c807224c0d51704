//! Expressions to values.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::elsewhere::Wanted;
use super::names::{self, Datum, What};
use super::{Checker, arithmetic};
use crate::catalog::{Atom, Kind};
use crate::plan::Val;
use crate::syntax::{Expr, ExprKind, Piece, Word};
use crate::text::{Diagnostic, Fault, Span, joined, nearest};

/// Bytes of a file that `@"file"` may bring in: prompts and templates, not data.
const LARGEST_TEXT: u64 = 4 << 20;

impl Checker<'_> {
    /// The value of an expression, none when an error was reported. `kind` is what the place wants, where that is
    /// known: a word may be one of its symbols.
    pub fn eval(&mut self, expr: &Expr, kind: Option<&Kind>) -> Option<Datum> {
        let plain = |val| Some(Datum::plain(val));
        match &expr.kind {
            ExprKind::Wrong => {
                self.unread = true;
                None
            }
            ExprKind::Word(word) => self.word(word, expr.span, kind),
            ExprKind::Int(n) => Some(self.number(Val::Int(*n), expr.span)),
            ExprKind::Float(x) => Some(self.number(Val::Float(*x), expr.span)),
            ExprKind::Bytes(n) => Some(self.number(Val::Bytes(*n), expr.span)),
            ExprKind::Quantity(x, unit) => Some(self.number(Val::Quantity(*x, (*unit).into()), expr.span)),
            ExprKind::Text(pieces) => self.text(pieces, expr.span),
            ExprKind::FileText(pieces) => self.file_text(pieces, expr.span),
            ExprKind::List(items) => {
                let item_kind = kind.and_then(|kind| {
                    kind.0.iter().find_map(|atom| if let Atom::List(kind) = atom { Some(kind) } else { None })
                });
                // Every item is looked at, so that each mistake is said.
                let vals: Vec<Option<Val>> =
                    items.iter().map(|item| self.eval(item, item_kind).map(|datum| datum.val)).collect();
                let vals = vals.into_iter().collect::<Option<Vec<_>>>()?;
                Some(Datum { val: Val::List(vals), folder: self.folder(expr.span), shown: None, from: None })
            }
            ExprKind::Binary { operator, left, right } => {
                let (a, b) = (self.eval(left, None), self.eval(right, None));
                let (a, b) = (self.operand(a?, left)?, self.operand(b?, right)?);
                match arithmetic::apply(*operator, &a, &b) {
                    Ok(val) => plain(val),
                    Err(problem) => {
                        let mut diagnostic =
                            Diagnostic::error(problem.code, problem.message).label(expr.span, problem.label);
                        diagnostic.help = problem.help.map(str::to_owned);
                        self.report(diagnostic);
                        None
                    }
                }
            }
        }
    }

    fn number(&self, val: Val, span: Span) -> Datum {
        Datum { val, folder: PathBuf::new(), shown: Some(self.sources.slice(span).to_owned()), from: None }
    }

    fn folder(&self, span: Span) -> PathBuf {
        self.sources.get(span.source).folder.clone()
    }

    /// The user's names first, then symbols, so that a growing catalogue never changes a file.
    fn word(&mut self, word: &str, span: Span, kind: Option<&Kind>) -> Option<Datum> {
        let symbol = kind.is_some_and(|kind| {
            kind.has_symbol(word) || (kind.0.contains(&Atom::Shape) && self.catalog.shape(word).is_some())
        });
        if let Some(named) = self.names.get_mut(word) {
            named.used = true;
            let declared = named.span;
            match named.what.clone() {
                What::Known(datum) => {
                    if symbol {
                        self.report(
                            Diagnostic::warning("name.shadow", format!("`{word}` is your name here, not the symbol"))
                                .label(span, "means what you declared")
                                .label(declared, "declared here")
                                .help("rename yours if the symbol is meant"),
                        );
                    }
                    return Some(datum);
                }
                What::Unknown => {
                    self.unread = true;
                    return None;
                }
                What::Open => return None,
                What::Owned(_) | What::Absent => {
                    self.report(
                        Diagnostic::error("type.mismatch", format!("`{word}` names a model or data, not a setting"))
                            .label(span, "cannot stand here")
                            .label(declared, "named here"),
                    );
                    return None;
                }
            }
        }
        let val = match word {
            _ if symbol => Val::Symbol(word.to_owned()),
            "true" => Val::Bool(true),
            "false" => Val::Bool(false),
            "none" => Val::None,
            _ => {
                if let Some(declared) = self.below.get(word).copied() {
                    // Once: moving the declaration mends every use of it.
                    if self.said.insert(word.to_owned()) {
                        self.report(names::later(word, span, declared));
                    }
                    self.unread = true;
                    return None;
                }
                let near = kind.and_then(|kind| nearest(word, kind.symbols()));
                if kind.is_some() && self.lost(word, near) {
                    return None;
                }
                Val::Symbol(word.to_owned())
            }
        };
        Some(Datum::plain(val))
    }

    /// An operand of arithmetic: a word that names nothing is a mistake here, not a symbol.
    fn operand(&mut self, datum: Datum, expr: &Expr) -> Option<Val> {
        if let (Val::Symbol(word), ExprKind::Word(_)) = (&datum.val, &expr.kind) {
            self.unknown_name(word, expr.span);
            return None;
        }
        Some(datum.val)
    }

    pub fn unknown_name(&mut self, word: &str, span: Span) {
        if !self.said.insert(word.to_owned()) {
            return;
        }
        let diagnostic = Diagnostic::error("name.unknown", format!("`{word}` is unknown"))
            .label(span, "no param or let of this name");
        if let Some(told) = self.elsewhere(&diagnostic, word, Wanted::Setting) {
            return self.report(told);
        }
        let near = nearest(word, self.names.keys().map(|name| &**name)).map(str::to_owned);
        if self.lost(word, near.as_deref()) {
            return;
        }
        let diagnostic = match near {
            Some(near) => diagnostic.help(format!("write `{near}`")),
            None if self.difference(word).is_some() => {
                diagnostic.help(format!("write `{}`: `-` belongs to names", self.difference(word).unwrap_or_default()))
            }
            None if self.is_outside(span) => diagnostic.help("write the value itself"),
            None => diagnostic.help(format!("declare it above: `let {word} = …`")),
        };
        self.report(diagnostic);
    }

    /// A quoted text with its names put in. A text that begins with a name is relative to what the name's is.
    fn text(&mut self, pieces: &[Piece], span: Span) -> Option<Datum> {
        let mut folder = self.folder(span);
        let mut whole = String::new();
        let mut failed = false;
        for (at, piece) in pieces.iter().enumerate() {
            match piece {
                Piece::Plain(text) => whole.push_str(text),
                Piece::Hole(name) => match self.hole(name) {
                    Some((text, other)) => {
                        if let (0, Some(other)) = (at, other) {
                            folder = other;
                        }
                        whole.push_str(&text);
                    }
                    None => failed = true,
                },
            }
            if whole.len() as u64 > LARGEST_TEXT {
                self.report(
                    Diagnostic::error("text.large", "this text comes to more than 4 MiB")
                        .label(span, "with its names put in")
                        .help("texts are for prompts, templates and paths; rows are loaded with `load data`"),
                );
                return None;
            }
        }
        self.dollars(span);
        (!failed).then_some(Datum { val: Val::Str(whole), folder, shown: None, from: None })
    }

    /// `"out/$lr"` with a name `lr` in reach: it stays as it is written, which is hardly what is meant. Without such a
    /// name a dollar is a dollar.
    fn dollars(&mut self, span: Span) {
        let raw = self.sources.slice(span).to_owned();
        let mut rest = &raw[..];
        let mut at = span.start as usize;
        while let Some(next) = rest.find(['$', '\\']) {
            let (escaped, after) = (rest[next..].starts_with('\\'), &rest[next + 1..]);
            at += next + 1;
            rest = after;
            if escaped {
                let skipped = rest.chars().next().map_or(0, char::len_utf8);
                (at, rest) = (at + skipped, &rest[skipped..]);
                continue;
            }
            let end = rest.find(|c: char| !(c.is_alphanumeric() || "_-.".contains(c))).unwrap_or(rest.len());
            // `-` and `.` may belong to the name or stand behind it.
            let ends = (1..=end).rev().filter(|to| *to == end || rest[*to..].starts_with(['-', '.']));
            let known = |name: &&str| {
                self.names.get(*name).is_some_and(|named| matches!(named.what, What::Known(_) | What::Open))
            };
            let Some(name) = ends.filter_map(|to| rest.get(..to)).find(known).map(str::to_owned) else { continue };
            if let Some(named) = self.names.get_mut(&name) {
                named.used = true;
            }
            let place = Span::new(span.source, at - 1, at + name.len());
            self.report(
                Diagnostic::warning("text.dollar", format!("`${name}` is not replaced by what `{name}` is"))
                    .label(place, "stays as it is written")
                    .help(format!("write `${{{name}}}` for its value, `\\${name}` for a dollar and a word")),
            );
        }
    }

    /// The text of a name in a text, and its folder where it is a path or a text itself.
    fn hole(&mut self, name: &Word) -> Option<(String, Option<PathBuf>)> {
        if !self.names.contains_key(&name.text) && !self.below.contains_key(&*name.text) {
            self.unknown_name(&name.text, name.span);
            return None;
        }
        let datum = self.word(&name.text, name.span, None)?;
        let text = match (datum.shown, datum.val) {
            (Some(shown), _) => shown,
            (None, Val::Str(text)) => return Some((text, Some(datum.folder))),
            (None, Val::Path(path)) => return Some((path.display().to_string(), Some(PathBuf::new()))),
            (None, Val::Symbol(text)) => text,
            (None, Val::Bool(yes)) => yes.to_string(),
            (None, Val::Int(n)) => n.to_string(),
            (None, Val::Float(x)) => x.to_string(),
            (None, val @ (Val::None | Val::List(_) | Val::Bytes(_) | Val::Quantity(..))) => {
                let message = format!("{} cannot be put into a text", arithmetic::kind_words(&val));
                self.report(
                    Diagnostic::error("type.mismatch", message)
                        .label(name.span, "here")
                        .help("texts take numbers, texts, paths and symbols"),
                );
                return None;
            }
        };
        Some((text, None))
    }

    /// `@"file"`: what the file says.
    fn file_text(&mut self, pieces: &[Piece], span: Span) -> Option<Datum> {
        let name = self.text(pieces, span)?;
        let Val::Str(text) = name.val else { return None };
        let path = joined(&name.folder, &text);
        match read_text(&path) {
            Ok(text) => {
                if !self.texts.contains(&path) {
                    self.texts.push(path);
                }
                Some(Datum { val: Val::Str(text), folder: self.folder(span), shown: None, from: None })
            }
            Err(fault) => {
                self.report(Diagnostic::from_fault(&fault, span, "named here"));
                None
            }
        }
    }
}

pub(super) fn read_text(path: &Path) -> Result<String, Box<Fault>> {
    let fault = |error: &std::io::Error| Box::new(Fault::io("read", path, error));
    let kind = std::fs::metadata(path).map_err(|error| fault(&error))?;
    if !kind.is_file() {
        let message = format!("`{}` is no file", path.display());
        return Err(Box::new(Fault::new("file.kind", message).at(path)));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| fault(&error))?;
    file.take(LARGEST_TEXT + 1).read_to_end(&mut bytes).map_err(|error| fault(&error))?;
    if bytes.len() as u64 > LARGEST_TEXT {
        let message = format!("`{}` is too large for a text: more than 4 MiB", path.display());
        return Err(Box::new(
            Fault::new("file.large", message)
                .help("`@` is for prompts and templates; rows are loaded with `load data`"),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Box::new(Fault::new("file.utf8", format!("`{}` is not UTF-8 text, from byte {at} on", path.display())))
    })
}
