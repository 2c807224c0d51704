//! Pairs of the grammar to parts and aliases.

use pest::iterators::Pair;

use super::ast::{Expr, ExprKind, Part, Word};
use super::grammar::{self, Rule, Stop};
use super::habits::instead;
use super::number;
use crate::text::{Diagnostic, SourceId, Span};

/// Lowers the pairs of one statement.
pub(super) struct Lower<'a> {
    /// The whole file.
    pub text: &'a str,
    pub source: SourceId,
    /// Offset of the parsed stretch in the file.
    pub base: usize,
    pub diagnostics: &'a mut Vec<Diagnostic>,
}

impl Lower<'_> {
    pub fn span(&self, pair: &Pair<'_, Rule>) -> Span {
        let span = pair.as_span();
        Span::new(self.source, self.base + span.start(), self.base + span.end())
    }

    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// A stretch that has to be one value and nothing else.
    pub fn alone(&mut self, text: &str) -> Option<Expr> {
        match grammar::read(Rule::value_alone, text) {
            Ok(pair) => pair.into_inner().find(|pair| pair.as_rule() != Rule::EOI).map(|pair| self.value(pair)),
            Err(stop) => {
                self.stop(&stop, text);
                None
            }
        }
    }

    /// Reports where a statement stops being one.
    pub fn stop(&mut self, stop: &Stop, statement: &str) {
        let rest = statement.get(stop.at..).unwrap_or("");
        let blank = rest.len() - rest.trim_start().len();
        let code = rest.trim_start();
        let (found, length) = match code.chars().next() {
            None | Some('#') => ("the statement ends here".to_owned(), 0),
            Some(c) => {
                let word = code.find(|c: char| c.is_whitespace() || "=[](),\"#".contains(c)).unwrap_or(code.len());
                let length = if word == 0 { c.len_utf8() } else { word };
                (format!("found `{}`", code.get(..length).unwrap_or("")), length)
            }
        };
        let at = self.base + stop.at + if length > 0 { blank } else { 0 };
        let span = Span::new(self.source, at, at + length);
        // A value may be any of these.
        let parts = ["a number", "a quoted text", "a name"];
        let mut expected = stop.expected.clone();
        if expected.contains(&"a value") {
            expected.retain(|words| !parts.contains(words));
        }
        let expected = match expected.split_last() {
            None => "something else".to_owned(),
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        };
        let mut diagnostic = Diagnostic::error("syntax.expected", format!("expected {expected}")).label(span, found);
        // `10 ** 4` stops at its second star.
        let power = code.starts_with('*') && statement.get(..stop.at).unwrap_or("").trim_end().ends_with('*');
        if let Some(instead) = instead(if power { "**" } else { code }) {
            diagnostic = diagnostic.help(instead);
        } else if code.starts_with('=') && !code.starts_with("=>") {
            diagnostic = diagnostic.help("an argument is `name=value`, with one `=`");
        } else if code.starts_with(['<', '>', '!', '&', '|', ';']) {
            diagnostic = diagnostic.help("a stage is its name, values, `name=value` and flags, separated by spaces");
        } else if code.starts_with(['\'', '‘', '’', '”', '“']) {
            diagnostic = diagnostic.help("texts and paths stand in double quotes: \"…\"");
        }
        self.report(diagnostic);
    }

    /// A name, held to the language's spelling.
    pub fn name(&mut self, pair: &Pair<'_, Rule>) -> Word {
        let word = Word { text: pair.as_str().to_owned(), span: self.span(pair) };
        if let Some(diagnostic) = misspelt(&word) {
            self.report(diagnostic);
        }
        word
    }

    /// Parts and alias of a stage, a budget line or an entry.
    pub fn parts<'p>(&mut self, pairs: impl Iterator<Item = Pair<'p, Rule>>) -> (Vec<Part>, Option<Word>) {
        let (mut parts, mut alias): (Vec<Part>, Option<Word>) = (Vec::new(), None);
        for pair in pairs {
            let span = self.span(&pair);
            if let Some(name) = alias.as_ref().filter(|_| pair.as_rule() != Rule::EOI) {
                let name = name.span;
                self.report(
                    Diagnostic::error("syntax.as", "`as name` comes last")
                        .label(span, "stands behind the name")
                        .label(name, "the name")
                        .help("move `as` with its name to the end of the stage"),
                );
                alias = None;
            }
            if self.misread_number(parts.last_mut(), &pair) {
                continue;
            }
            // `prompt"q"`: a name and its value without the `=` between.
            if let Some(Part::Value(Expr { kind: ExprKind::Word(_), span: before })) = parts.last()
                && before.end == span.start
                && matches!(pair.as_rule(), Rule::string | Rule::file | Rule::list | Rule::group)
            {
                let name = Word { text: self.slice(*before).to_owned(), span: *before };
                let value = self.value(pair);
                self.report(
                    Diagnostic::error("syntax.equals", "an `=` is missing between a name and its value")
                        .label(name.span.to(value.span), "stand together")
                        .help(format!("write `{}={}`", name.text, self.slice(value.span))),
                );
                parts.pop();
                parts.push(Part::Argument { name, value });
                continue;
            }
            let fraction = pair.as_rule() == Rule::wrong_path && pair.as_str().starts_with('/');
            if let Some(before) = parts.last().map(Part::span).filter(|before| before.end >= span.start)
                && !matches!(pair.as_rule(), Rule::EOI | Rule::wrong_comma)
                && !fraction
            {
                self.report(
                    Diagnostic::error("syntax.space", "two arguments stand together without a space")
                        .label(before.to(span), "no space between")
                        .help("put a space between them"),
                );
            }
            let rule = pair.as_rule();
            let raw = pair.as_str();
            match rule {
                Rule::EOI => {}
                Rule::alias => alias = pair.into_inner().find(|p| p.as_rule() == Rule::name).map(|p| self.name(&p)),
                Rule::argument | Rule::wrong_spaces | Rule::wrong_no_value | Rule::wrong_colon | Rule::wrong_dashes => {
                    let mut inner = pair.into_inner();
                    let Some(mut name) = inner.next().map(|pair| self.name(&pair)) else { continue };
                    let value = inner.next().map(|pair| self.value(pair));
                    // `--max-len` of a command line.
                    if rule == Rule::wrong_dashes {
                        name.text = name.text.replace('-', "_");
                    }
                    self.odd_argument(rule, raw, span, &name, value.as_ref());
                    let value = value.unwrap_or(Expr { kind: ExprKind::Wrong, span: name.span });
                    parts.push(Part::Argument { name, value });
                }
                Rule::wrong_comma => self.report(
                    Diagnostic::error("syntax.comma", format!("a `{raw}` between arguments"))
                        .label(span, "remove it")
                        .help("arguments are separated by spaces alone"),
                ),
                _ => {
                    let value = self.value(pair);
                    if self.spaced_unit(parts.last_mut(), &value) {
                        continue;
                    }
                    parts.push(Part::Value(value));
                }
            }
        }
        (parts, alias)
    }

    /// Reports an argument that is written as other languages write it.
    fn odd_argument(&mut self, rule: Rule, raw: &str, span: Span, name: &Word, value: Option<&Expr>) {
        let shown = value.map_or("…", |value| self.slice(value.span));
        let write = format!("write `{}={shown}`", name.text);
        let diagnostic = match rule {
            Rule::wrong_spaces => Diagnostic::error("syntax.spaces", "spaces around `=`").label(span, "no spaces here"),
            Rule::wrong_no_value => Diagnostic::error("syntax.no_value", format!("`{raw}` has no value"))
                .label(Span::new(self.source, span.end as usize, span.end as usize), "a value belongs here"),
            Rule::wrong_colon => Diagnostic::error("syntax.colon", "an argument is written with `=`, not with `:`")
                .label(span, "with a colon"),
            Rule::wrong_dashes => {
                Diagnostic::error("syntax.dashes", "an argument has no `--` in front").label(span, "here")
            }
            _ => return,
        };
        let write = if rule == Rule::wrong_dashes && value.is_none() {
            format!("write `{0}` for a flag, `{0}=…` for a value", name.text)
        } else {
            write
        };
        self.report(diagnostic.help(write));
    }

    /// `1/1000` and `0,0002` go on with the number before them. They are reported whole, and the number is no value any
    /// more.
    fn misread_number(&mut self, before: Option<&mut Part>, pair: &Pair<'_, Rule>) -> bool {
        let number = match before {
            Some(Part::Value(number) | Part::Argument { value: number, .. }) => number,
            None => return false,
        };
        let (span, rule) = (self.span(pair), pair.as_rule());
        let rest = self.text.get(span.end as usize..).unwrap_or("");
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let tight = number.span.end == span.start;
        let decimal = self.slice(number.span).bytes().all(|b| b.is_ascii_digit() || b == b'-');
        if tight && rule == Rule::wrong_path && pair.as_str().starts_with('/') && is_number(&number.kind) {
            let (left, right) = (self.slice(number.span).to_owned(), pair.as_str().trim_start_matches('/'));
            self.report(
                Diagnostic::error(
                    "syntax.operator",
                    "arithmetic stands in parentheses, with spaces around its operators",
                )
                .label(number.span.to(span), "a quotient")
                .help(format!("write `({left} / {right})`")),
            );
            number.kind = ExprKind::Wrong;
            return true;
        }
        if tight
            && rule == Rule::wrong_comma
            && pair.as_str() == ","
            && digits > 0
            && decimal
            && is_number(&number.kind)
        {
            let whole = self.slice(number.span).to_owned();
            let part = rest.get(..digits).unwrap_or("").to_owned();
            let end = span.end as usize + digits;
            self.report(
                Diagnostic::error("syntax.number", "a decimal point is a point")
                    .label(Span::new(self.source, number.span.start as usize, end), "with a comma")
                    .help(format!("write `{whole}.{part}`")),
            );
            // The digits behind it come next, and are said.
            number.kind = ExprKind::Wrong;
            number.span.end = u32::try_from(end).unwrap_or(number.span.end);
            return true;
        }
        // Those digits.
        number.kind == ExprKind::Wrong && rule == Rule::number && number.span.end == span.end
    }

    /// `15 GiB`: the number and its unit came apart. They are reported, and the number is no value any more.
    fn spaced_unit(&mut self, before: Option<&mut Part>, value: &Expr) -> bool {
        let ExprKind::Word(word) = &value.kind else { return false };
        let number = match before {
            Some(Part::Value(number) | Part::Argument { value: number, .. }) => number,
            None => return false,
        };
        if !number::is_unit(word) || !matches!(number.kind, ExprKind::Int(_) | ExprKind::Float(_)) {
            return false;
        }
        let together = format!("{}{word}", self.slice(number.span));
        self.report(
            Diagnostic::error("syntax.unit", "a space between a number and its unit")
                .label(number.span.to(value.span), "belongs together")
                .help(format!("write `{together}`")),
        );
        number.kind = ExprKind::Wrong;
        true
    }
}

fn is_number(kind: &ExprKind) -> bool {
    matches!(kind, ExprKind::Int(_) | ExprKind::Float(_))
}

/// What is wrong with a name's spelling: names are lower case letters, digits, `_`, `-` and `.`.
fn misspelt(word: &Word) -> Option<Diagnostic> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '.');
    let text = &word.text;
    if text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(fine) {
        return None;
    }
    let lower = text.to_lowercase().trim_start_matches('_').to_owned();
    let diagnostic = Diagnostic::error("syntax.name", format!("`{text}` is no name"))
        .label(word.span, "a name is lower case: a to z, then also 0 to 9, `_`, `-`, `.`");
    let usable = lower.starts_with(|c: char| c.is_ascii_lowercase()) && lower.chars().all(fine);
    Some(if usable { diagnostic.help(format!("write `{lower}`")) } else { diagnostic })
}
