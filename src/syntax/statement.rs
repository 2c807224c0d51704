//! One statement to one item.

use super::ast::*;
use super::grammar::{self, Rule};
use super::lines::Statement;
use super::lower::Lower;
use crate::text::{Diagnostic, SourceId, Span};

pub(super) fn lower(text: &str, source: SourceId, statement: &Statement, diagnostics: &mut Vec<Diagnostic>) -> Item {
    let code = text.get(statement.start..statement.end).unwrap_or("");
    let span = Span::new(source, statement.start, statement.end);
    let broken = || Item::Broken(Broken { words: leading_words(code, source, statement.start), span });
    if statement.broken {
        return broken();
    }
    let mut lower = Lower { text, source, base: statement.start, diagnostics };
    let doc = statement.doc.clone();
    let first = leading_words(code, source, statement.start).into_iter().next();
    let item = match first.as_ref().map_or("", |word| &word.text) {
        "tunepipe" => lower.edition(code, span),
        "budget" => lower.budget(code, span, doc),
        "param" => lower.param(code, span, doc),
        "let" => lower.binding(code, span, doc),
        "use" => lower.used(code, span),
        "recipe" => lower.recipe(statement, span, doc),
        "stage" => lower.declaration(statement, span, doc),
        "device" => lower.entry(EntrySort::Device, code, span, doc),
        "shape" => lower.entry(EntrySort::Shape, code, span, doc),
        _ => lower.stage(code, span, doc),
    };
    item.unwrap_or_else(broken)
}

/// The names at a statement's start, as far as they are names.
fn leading_words(code: &str, source: SourceId, start: usize) -> Vec<Word> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(rest) = code.get(at..) {
        let blank = rest.len() - rest.trim_start().len();
        let rest = rest.trim_start();
        let length = rest.find(|c: char| !(c.is_alphanumeric() || "_-.".contains(c))).unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or("");
        if !word.starts_with(|c: char| c.is_alphabetic()) || rest.get(length..).is_some_and(|r| r.starts_with('=')) {
            break;
        }
        at += blank;
        words.push(Word { text: word.to_owned(), span: Span::new(source, start + at, start + at + length) });
        at += length;
    }
    words
}

impl Lower<'_> {
    /// The pairs of a statement; reports where it cannot be read.
    pub fn pairs<'p>(&mut self, rule: Rule, code: &'p str) -> Option<pest::iterators::Pairs<'p, Rule>> {
        match grammar::read(rule, code) {
            Ok(pair) => Some(pair.into_inner()),
            Err(stop) => {
                self.stop(&stop, code);
                None
            }
        }
    }

    fn edition(&mut self, code: &str, span: Span) -> Option<Item> {
        if code.contains([':', '=']) {
            self.report(
                Diagnostic::error("syntax.expected", "the edition is a number, with nothing between")
                    .label(span, "has more")
                    .help("write `tunepipe 1`"),
            );
            return None;
        }
        let Some(mut pairs) = self.pairs(Rule::edition_line, code) else {
            if let Some(last) = self.diagnostics.last_mut() {
                last.help.get_or_insert_with(|| "write `tunepipe 1`".into());
            }
            return None;
        };
        let number = pairs.next().map(|pair| self.value(pair))?;
        Some(Item::Edition(Edition { number, span }))
    }

    fn budget(&mut self, code: &str, span: Span, doc: Option<String>) -> Option<Item> {
        let pairs = self.pairs(Rule::budget_line, code)?;
        let (parts, _) = self.parts(pairs);
        Some(Item::Budget(BudgetLine { parts, span, doc }))
    }

    fn param(&mut self, code: &str, span: Span, doc: Option<String>) -> Option<Item> {
        let (mut name, mut kind, mut default) = (None, None, None);
        let Some(pairs) = self.pairs(Rule::param_line, code) else {
            self.declares("param", code);
            return None;
        };
        for pair in pairs {
            match pair.as_rule() {
                Rule::name => name = Some(self.name(&pair)),
                Rule::kind => kind = Some(self.kind(pair)),
                Rule::expression => default = Some(self.expression(pair)),
                _ => {}
            }
        }
        Some(Item::Param(ParamLine { name: name?, kind, default, span, doc }))
    }

    fn binding(&mut self, code: &str, span: Span, doc: Option<String>) -> Option<Item> {
        let Some(mut pairs) = self.pairs(Rule::let_line, code) else {
            self.declares("let", code);
            return None;
        };
        let name = self.name(&pairs.next()?);
        let value = self.expression(pairs.next()?);
        Some(Item::Let(LetLine { name, value, span, doc }))
    }

    /// For a declaration that cannot be read and has no help yet: how it is written, with its own words.
    fn declares(&mut self, keyword: &str, code: &str) {
        let rest = code.strip_prefix(keyword).unwrap_or("").trim_start();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "_-.".contains(c))).unwrap_or(rest.len());
        let (name, value) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let value = value.trim_start_matches([':', '=', ' ', '\t']).lines().next().unwrap_or("").trim();
        let plain = !value.is_empty() && !value.contains(|c: char| "=()%*^!&|".contains(c) || c.is_whitespace());
        let (name, value) = (if name.is_empty() { "name" } else { name }, if plain { value } else { "…" });
        if let Some(last) = self.diagnostics.last_mut().filter(|last| last.help.is_none()) {
            last.help = Some(format!("write `{keyword} {name} = {value}`"));
        }
    }

    fn used(&mut self, code: &str, span: Span) -> Option<Item> {
        let mut pairs = self.pairs(Rule::use_line, code)?;
        let value = pairs.next().map(|pair| self.value(pair))?;
        let alias = pairs.find(|pair| pair.as_rule() == Rule::alias);
        let alias = alias.and_then(|pair| pair.into_inner().find(|p| p.as_rule() == Rule::name));
        let alias = alias.map(|pair| self.name(&pair));
        match value.kind {
            ExprKind::Text(pieces) => match &pieces[..] {
                [Piece::Plain(path)] => {
                    Some(Item::Use(UseLine { path: path.clone(), path_span: value.span, alias, span }))
                }
                _ => {
                    self.report(
                        Diagnostic::error("use.path", "what is used is named in plain words")
                            .label(value.span, "holds a `${…}`")
                            .help("write the path out"),
                    );
                    None
                }
            },
            ExprKind::Wrong => None,
            _ => {
                let written = self.slice(value.span).trim_matches('@').trim_matches('"').to_owned();
                self.report(
                    Diagnostic::error("use.path", "`use` takes the quoted path of a file")
                        .label(value.span, "no path")
                        .help(format!("write `use \"{written}\"`; recipes of the standard library need no `use`")),
                );
                None
            }
        }
    }

    fn stage(&mut self, code: &str, span: Span, doc: Option<String>) -> Option<Item> {
        if let Some(item) = self.foreign(code, span) {
            return Some(item);
        }
        let pairs = self.pairs(Rule::stage_line, code)?;
        let reported = self.diagnostics.len();
        let (parts, alias) = self.parts(pairs);
        let word = matches!(parts.first(), Some(Part::Value(Expr { kind: ExprKind::Word(_), .. })));
        if !word {
            // An error inside the first part already says what is wrong.
            if self.diagnostics.len() == reported && !self.follows_mistake(span) {
                let start = parts.first().map_or(span, Part::span);
                self.report(
                    Diagnostic::error("syntax.statement", "a statement starts with a word")
                        .label(start, "no stage, `budget`, `param` or `let`")
                        .help("indent the line by two spaces if it continues the statement above"),
                );
            }
            return None;
        }
        Some(Item::Stage(StageLine { parts, alias, span, doc }))
    }

    fn entry(&mut self, sort: EntrySort, code: &str, span: Span, doc: Option<String>) -> Option<Item> {
        let pairs = self.pairs(Rule::entry_line, code)?;
        let (mut parts, _) = self.parts(pairs);
        match parts.first() {
            Some(Part::Value(Expr { kind: ExprKind::Word(text), span: place })) => {
                let name = Word { text: text.clone(), span: *place };
                parts.remove(0);
                Some(Item::Entry(Entry { sort, name, parts, span, doc }))
            }
            _ => {
                self.report(Diagnostic::error("syntax.expected", "expected a name").label(span, "has no name"));
                None
            }
        }
    }
}
