//! Pairs of the grammar to values.

use std::sync::LazyLock;

use pest::iterators::Pair;
use pest::pratt_parser::{Assoc, Op, PrattParser};

use super::ast::{Expr, ExprKind, Operator, Piece};
use super::grammar::Rule;
use super::lines::open_hole;
use super::lower::Lower;
use super::number::{self, Bad};
use crate::text::Diagnostic;

/// Values and operators of one expression: each costs stack when it is computed.
const LONGEST: usize = 255;

impl Lower<'_> {
    pub fn value(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.span(&pair);
        let kind = match pair.as_rule() {
            Rule::word => ExprKind::Word(pair.as_str().to_owned()),
            Rule::number => self.number(pair),
            Rule::string => ExprKind::Text(self.pieces(pair)),
            Rule::file => {
                ExprKind::FileText(pair.into_inner().next().map(|text| self.pieces(text)).unwrap_or_default())
            }
            Rule::list => ExprKind::List(pair.into_inner().map(|item| self.value(item)).collect()),
            Rule::group => match pair.into_inner().next() {
                Some(inner) => self.expression(inner).kind,
                None => ExprKind::Wrong,
            },
            Rule::expression => return self.expression(pair),
            Rule::wrong_quotes => {
                let inner: String = pair.as_str().chars().filter(|c| !"'“”".contains(*c)).collect();
                self.report(
                    Diagnostic::error("syntax.single_quote", "texts and paths stand in double quotes")
                        .label(span, "other quotes")
                        .help(format!("write `\"{inner}\"`")),
                );
                ExprKind::Wrong
            }
            Rule::wrong_path if pair.as_str().starts_with("//") || pair.as_str().starts_with("/*") => {
                self.report(
                    Diagnostic::error("syntax.comment", "a comment begins with `#`")
                        .label(span, "is none here")
                        .help("write `# …`"),
                );
                ExprKind::Wrong
            }
            Rule::wrong_path => {
                let mut diagnostic = Diagnostic::error("syntax.path", "a path stands in quotes").label(span, "a path");
                diagnostic = diagnostic.help(format!("write `\"{}\"`", pair.as_str().replace('\\', "/")));
                self.report(diagnostic);
                ExprKind::Wrong
            }
            _ => ExprKind::Wrong,
        };
        Expr { kind, span }
    }

    fn number(&mut self, pair: Pair<'_, Rule>) -> ExprKind {
        let (span, text) = (self.span(&pair), pair.as_str());
        let mut inner = pair.into_inner();
        let mantissa = inner.next().map_or("", |pair| pair.as_str());
        let unit = inner.next();
        let bad = match number::read(mantissa, unit.as_ref().map(Pair::as_str)) {
            Ok(kind) => return kind,
            Err(bad) => bad,
        };
        self.report(match bad {
            Bad::Large(limit) => {
                Diagnostic::error("syntax.number", format!("`{text}` is too large")).label(span, limit)
            }
            Bad::Small(limit) => {
                Diagnostic::error("syntax.number", format!("`{text}` is too small")).label(span, limit)
            }
            Bad::Form(why) => Diagnostic::error("syntax.number", format!("`{text}` is no size")).label(span, why),
            Bad::Unit(nearest) => {
                let unit_span = unit.as_ref().map_or(span, |pair| self.span(pair));
                let unit = unit.as_ref().map_or("", Pair::as_str);
                let diagnostic = Diagnostic::error("syntax.unit", format!("`{unit}` is no unit"))
                    .label(unit_span, "unknown")
                    .note("units are B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, %, steps, epochs and rows");
                match nearest {
                    _ if matches!(unit, "bit" | "bits") => diagnostic.help(
                        "weights in 4 bits are `quantize nf4`, an optimizer's moments in 8 bits `optim=adamw8bit`",
                    ),
                    Some(nearest) => diagnostic.help(format!("write `{mantissa}{nearest}`")),
                    None => diagnostic.help("a text stands in quotes, a unit directly behind its number"),
                }
            }
        });
        ExprKind::Wrong
    }

    /// The stretches of a quoted text; neighbours of plain text are joined.
    fn pieces(&mut self, pair: Pair<'_, Rule>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        for piece in pair.into_inner() {
            let span = self.span(&piece);
            match piece.as_rule() {
                Rule::chunk => plain.push_str(piece.as_str()),
                Rule::escape => match piece.as_str().get(1..) {
                    Some("n") => plain.push('\n'),
                    Some("t") => plain.push('\t'),
                    Some(same @ ("\"" | "\\" | "$")) => plain.push_str(same),
                    _ => self.report(
                        Diagnostic::error("syntax.escape", format!("`{}` means nothing in a text", piece.as_str()))
                            .label(span, "known are \\n \\t \\\" \\\\ and \\$")
                            .help("write `\\\\` for a backslash; paths take `/` everywhere"),
                    ),
                },
                Rule::hole => {
                    if let Some(name) = piece.into_inner().next() {
                        if !plain.is_empty() {
                            pieces.push(Piece::Plain(std::mem::take(&mut plain)));
                        }
                        pieces.push(Piece::Hole(self.name(&name)));
                    }
                }
                _ if !piece.as_str().ends_with('}') => self.report(
                    Diagnostic::error(
                        "syntax.hole",
                        format!("`{}` opens a substitution and does not close it", piece.as_str()),
                    )
                    .label(span, "expected `${name}`, the name of a param or let")
                    .help(open_hole("", piece.as_str().trim_end(), "")),
                ),
                _ => self.report(
                    Diagnostic::error("syntax.hole", format!("`{}` is no substitution", piece.as_str()))
                        .label(span, "expected `${name}`, the name of a param or let")
                        .help("compute with `let name = …` and put `${name}` here; `\\$` is a plain dollar"),
                ),
            }
        }
        if !plain.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Plain(plain));
        }
        pieces
    }

    pub fn expression(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.span(&pair);
        if pair.clone().into_inner().count() > LONGEST {
            self.report(
                Diagnostic::error("syntax.deep", "an expression of too many parts")
                    .label(span, format!("more than {LONGEST} values and operators"))
                    .help("take parts out with `let name = …`"),
            );
            return Expr { kind: ExprKind::Wrong, span };
        }
        let mut terms = Vec::new();
        let mut pairs = Vec::new();
        for pair in pair.into_inner() {
            match operator(pair.as_rule()) {
                Some(_) => self.spaced(&pair),
                None => terms.push(self.value(pair.clone())),
            }
            pairs.push(pair);
        }
        let mut terms = terms.into_iter();
        let mut whole = PRATT
            .map_primary(|pair| terms.next().unwrap_or(Expr { kind: ExprKind::Wrong, span: self.span(&pair) }))
            .map_infix(|left, pair, right| {
                let operator = operator(pair.as_rule()).unwrap_or(Operator::Add);
                let span = left.span.to(right.span);
                Expr { kind: ExprKind::Binary { operator, left: Box::new(left), right: Box::new(right) }, span }
            })
            .parse(pairs.into_iter());
        whole.span = span;
        whole
    }

    /// Holds an operator to the spaces around it.
    fn spaced(&mut self, operator: &Pair<'_, Rule>) {
        let span = self.span(operator);
        let blank = |at: Option<u32>| {
            at.and_then(|at| self.text.as_bytes().get(at as usize)).is_some_and(u8::is_ascii_whitespace)
        };
        if !blank(span.start.checked_sub(1)) || !blank(Some(span.end)) {
            self.report(
                Diagnostic::error("syntax.operator", format!("`{}` needs a space on either side", operator.as_str()))
                    .label(span, "no space here")
                    .help("`-` and `.` also belong to names, so operators stand between spaces: `a - b`"),
            );
        }
    }
}

static PRATT: LazyLock<PrattParser<Rule>> =
    LazyLock::new(|| {
        PrattParser::new().op(Op::infix(Rule::add, Assoc::Left) | Op::infix(Rule::subtract, Assoc::Left)).op(Op::infix(
            Rule::multiply,
            Assoc::Left,
        )
            | Op::infix(Rule::divide, Assoc::Left))
    });

fn operator(rule: Rule) -> Option<Operator> {
    match rule {
        Rule::add => Some(Operator::Add),
        Rule::subtract => Some(Operator::Subtract),
        Rule::multiply => Some(Operator::Multiply),
        Rule::divide => Some(Operator::Divide),
        _ => None,
    }
}
