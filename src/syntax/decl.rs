//! The catalogue's stage declarations: a head line, then a member a line.

use pest::iterators::Pair;

use super::ast::*;
use super::grammar::Rule;
use super::lines::{Line, Statement};
use super::lower::Lower;
use crate::text::{Diagnostic, Span};

impl Lower<'_> {
    pub fn declaration(&mut self, statement: &Statement, span: Span, doc: Option<String>) -> Option<Item> {
        let (head, body) = statement.lines.split_first()?;
        let text = self.text;
        let code = |line: &Line| text.get(line.start..line.end).unwrap_or("");
        let words = self.pairs(Rule::stage_head, code(head))?;
        let words = words.filter(|pair| pair.as_rule() == Rule::name).map(|pair| self.name(&pair)).collect();
        let indent = body.first().map_or(0, |line| line.indent);
        let mut members = Vec::new();
        let mut lines = body.iter().peekable();
        while let Some(line) = lines.next() {
            self.base = line.start;
            if code(line) == "example" {
                let mut example = Vec::new();
                while let Some(line) = lines.next_if(|line| line.indent > indent) {
                    example.push(line);
                }
                members.push(Member::Example { text: self.example(&example) });
            } else if line.indent != indent {
                let place = Span::new(self.source, line.start, line.end);
                self.report(
                    Diagnostic::error("syntax.indent", "members of a stage stand at one depth")
                        .label(place, "stands at another"),
                );
            } else if let Some(member) = self.member(line) {
                members.push(member);
            }
        }
        Some(Item::Decl(StageDecl { words, members, span, doc }))
    }

    /// The lines of an example, without their common indentation.
    pub fn example(&self, lines: &[&Line]) -> String {
        let least = lines.iter().map(|line| line.indent).min().unwrap_or(0);
        let mut text = String::new();
        for line in lines {
            text.extend(std::iter::repeat_n(' ', line.indent - least));
            text.push_str(self.text.get(line.start..line.end).unwrap_or(""));
            text.push('\n');
        }
        text
    }

    fn member(&mut self, line: &Line) -> Option<Member> {
        let code = self.text.get(line.start..line.end).unwrap_or("");
        let doc = line.doc.clone();
        let role = code.split(' ').next().unwrap_or("");
        match role {
            "take" | "borrow" => {
                let mut pairs = self.pairs(Rule::input_line, code)?;
                let name = self.name(&pairs.next()?);
                let kind = pairs.next()?;
                let many = kind.as_rule() == Rule::many;
                let kind = if many { kind.into_inner().next()? } else { kind };
                let kind = self.owned_kind(kind);
                let default = pairs.find(|pair| pair.as_rule() == Rule::name).map(|pair| self.name(&pair));
                if let Some(word) = default.as_ref().filter(|word| word.text != "none") {
                    let span = word.span;
                    self.report(
                        Diagnostic::error("syntax.expected", "expected `none`")
                            .label(span, "an input has no other default"),
                    );
                }
                Some(Member::Input { takes: role == "take", name, kind, many, optional: default.is_some(), doc })
            }
            "make" => {
                let pair = self.pairs(Rule::make_line, code)?.next()?;
                Some(Member::Make { kind: self.owned_kind(pair) })
            }
            _ => {
                let (mut positional, mut name, mut kind, mut default) = (false, None, None, None);
                for pair in self.pairs(Rule::member_line, code)? {
                    match pair.as_rule() {
                        Rule::position => positional = true,
                        Rule::name => name = Some(self.name(&pair)),
                        Rule::kind => kind = Some(self.kind(pair)),
                        Rule::EOI => {}
                        _ => default = Some(self.value(pair)),
                    }
                }
                Some(Member::Arg { positional, name: name?, kind: kind?, default, doc })
            }
        }
    }

    pub fn owned_kind(&mut self, pair: Pair<'_, Rule>) -> OwnedKind {
        let span = self.span(&pair);
        let mut words = pair.into_inner().map(|pair| Word { text: pair.as_str().to_owned(), span: self.span(&pair) });
        let name = words.next().unwrap_or(Word { text: String::new(), span });
        let (of, adapter) = (words.next(), words.next());
        OwnedKind { name, of, adapter, span }
    }

    pub fn kind(&mut self, pair: Pair<'_, Rule>) -> Kind {
        let span = self.span(&pair);
        let atoms = pair.into_inner().map(|atom| self.kind_atom(atom)).collect();
        Kind { atoms, span }
    }

    fn kind_atom(&mut self, pair: Pair<'_, Rule>) -> KindAtom {
        let rule = pair.as_rule();
        let mut inner = pair.clone().into_inner();
        match (rule, inner.next()) {
            (Rule::kind_list, Some(kind)) => KindAtom::List(self.kind(kind)),
            (_, name) => {
                let name = name.unwrap_or(pair);
                let word = Word { text: name.as_str().to_owned(), span: self.span(&name) };
                KindAtom::Name { name: word, range: inner.next().map(|range| bounds(range.as_str())) }
            }
        }
    }
}

/// The two ends of `low..high`.
fn bounds(text: &str) -> Range {
    let (low, high) = text.split_once("..").unwrap_or((text, ""));
    Range { low: low.parse().ok(), high: high.parse().ok() }
}
