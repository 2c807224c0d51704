//! `recipe name(params)` and the statements of its body.

use pest::iterators::Pair;

use super::ast::*;
use super::grammar::Rule;
use super::lines::{Line, Statement};
use super::lower::Lower;
use super::statement;
use crate::text::{Diagnostic, Span};

impl Lower<'_> {
    /// The head ends with its brackets; the first line behind it sets the body's depth, equal depth is the next
    /// statement and deeper continues it.
    pub fn recipe(&mut self, recipe: &Statement, span: Span, doc: Option<String>) -> Option<Item> {
        let head = recipe.lines.iter().skip(1).take_while(|line| line.inside).count() + 1;
        let (head, body) = recipe.lines.split_at_checked(head)?;
        let end = head.last().map_or(recipe.start, |line| line.end);
        let code = self.text.get(recipe.start..end).unwrap_or("");
        let (mut name, mut params) = (None, Vec::new());
        let Some(pairs) = self.pairs(Rule::recipe_head, code) else {
            let bare = !code.contains('(');
            if let Some(last) = self.diagnostics.last_mut().filter(|last| bare && last.help.is_none()) {
                last.help =
                    Some(format!("write `{}(model: Model, data: Data)`, with what it needs in brackets", code.trim()));
            }
            return None;
        };
        for pair in pairs {
            match pair.as_rule() {
                Rule::name => name = Some(self.name(&pair)),
                Rule::recipe_param => params.extend(self.recipe_param(pair, head)),
                _ => {}
            }
        }
        let name = name?;
        if body.is_empty() {
            self.report(
                Diagnostic::error("recipe.empty", format!("the recipe `{}` has no stages", name.text))
                    .label(Span::new(self.source, recipe.start, end), "nothing stands below it")
                    .help("write its stages below, indented by two spaces"),
            );
        }
        let mut line = RecipeLine { name, params, body: Vec::new(), examples: Vec::new(), span, doc };
        for part in self.body(body) {
            self.body_statement(part, &mut line);
        }
        Some(Item::Recipe(line))
    }

    fn body_statement(&mut self, part: Statement, recipe: &mut RecipeLine) {
        let text = self.text;
        if let Some((first, rest)) = part.lines.split_first()
            && text.get(first.start..first.end) == Some("example")
        {
            recipe.examples.push(self.example(&rest.iter().collect::<Vec<_>>()));
            return;
        }
        match statement::lower(text, self.source, &part, self.diagnostics) {
            item @ (Item::Stage(_) | Item::Let(_) | Item::Broken(_)) => recipe.body.push(item),
            Item::Edition(_)
            | Item::Budget(_)
            | Item::Param(_)
            | Item::Decl(_)
            | Item::Entry(_)
            | Item::Use(_)
            | Item::Recipe(_) => {
                let span = Span::new(self.source, part.start, part.end);
                let word = self.slice(span).split_whitespace().next().unwrap_or("").to_owned();
                let help = match &*word {
                    "param" => "a recipe's params stand in its brackets: `recipe name(rank: Int = 8)`",
                    _ => "put it at the left edge, outside the recipe",
                };
                self.report(
                    Diagnostic::error("recipe.statement", format!("`{word}` has no place in a recipe"))
                        .label(span, "a recipe holds stages and `let`")
                        .help(help),
                );
                recipe.body.push(Item::Broken(Broken { words: Vec::new(), span }));
            }
        }
    }

    /// The lines of a body, cut into statements.
    fn body(&mut self, lines: &[Line]) -> Vec<Statement> {
        let indent = lines.first().map_or(0, |line| line.indent);
        let mut parts: Vec<Statement> = Vec::new();
        let mut said = false;
        for line in lines {
            match parts.last_mut() {
                Some(part) if line.inside || line.indent > indent => {
                    part.end = line.end;
                    part.lines.push(line.clone());
                }
                _ => {
                    if line.indent < indent && !std::mem::replace(&mut said, true) {
                        self.report(
                            Diagnostic::error("syntax.indent", "this line is less deep than the recipe's first")
                                .label(Span::new(self.source, line.start, line.end), "stands further left")
                                .help(format!("indent it by {indent} spaces to be the recipe's next stage")),
                        );
                    }
                    let (start, end, lines) = (line.start, line.end, vec![line.clone()]);
                    parts.push(Statement { start, end, doc: None, lines, broken: false });
                }
            }
        }
        parts
    }

    fn recipe_param(&mut self, pair: Pair<'_, Rule>, head: &[Line]) -> Option<RecipeParam> {
        let start = self.span(&pair).start as usize;
        let (mut positional, mut name, mut kind, mut default) = (false, None, ParamKind::Open, None);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::position => positional = true,
                Rule::name => name = Some(self.name(&pair)),
                Rule::kind => kind = ParamKind::Setting(self.kind(pair)),
                Rule::owned_kind => kind = ParamKind::Owned(self.owned_kind(pair)),
                _ => default = Some(self.expression(pair)),
            }
        }
        let doc = head.iter().find(|line| (line.start..line.end).contains(&start)).and_then(|line| line.doc.clone());
        Some(RecipeParam { positional, name: name?, kind, default, doc })
    }
}
