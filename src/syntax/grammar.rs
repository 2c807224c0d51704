//! The door to pest: rules, and how an error names them.

use pest::Parser;
use pest::error::{ErrorVariant, InputLocation};
use pest::iterators::Pair;

#[derive(pest_derive::Parser)]
#[grammar = "../grammar/tunepipe.pest"]
struct Grammar;

/// Where a statement stops being one: byte offset in the statement, and what could have stood there.
pub(super) struct Stop {
    pub at: usize,
    pub expected: Vec<&'static str>,
}

/// The first pair of `rule` over a whole statement.
pub(super) fn read(rule: Rule, text: &str) -> Result<Pair<'_, Rule>, Stop> {
    let at_start = |expected| Stop { at: 0, expected };
    match Grammar::parse(rule, text) {
        Ok(mut pairs) => pairs.next().ok_or_else(|| at_start(vec![words(rule)])),
        Err(error) => {
            let at = match error.location {
                InputLocation::Pos(at) | InputLocation::Span((at, _)) => at,
            };
            let mut expected = Vec::new();
            if let ErrorVariant::ParsingError { positives, .. } = &error.variant {
                for positive in positives {
                    let words = words(*positive);
                    if !words.is_empty() && !expected.contains(&words) {
                        expected.push(words);
                    }
                }
            }
            Err(Stop { at, expected })
        }
    }
}

/// What a person calls a rule; empty for what is not worth proposing. No catch-all arm: a new rule does not compile until someone has said this.
fn words(rule: Rule) -> &'static str {
    match rule {
        Rule::EOI => "the end of the statement",
        Rule::WHITESPACE | Rule::COMMENT => "",
        Rule::edition_line => "`tunepipe 1`",
        Rule::budget_line => "`budget` with a device or limits",
        Rule::param_line => "`param name = default`",
        Rule::let_line => "`let name = value`",
        Rule::stage_line => "a stage",
        Rule::value_alone => "one value",
        Rule::use_line => "`use \"file.tp\" as name`",
        Rule::recipe_head => "`recipe name(param: Type = default)`",
        Rule::recipe_param | Rule::owned_param | Rule::owned_word => "a parameter (`name: Type = default`)",
        Rule::open => "`(`",
        Rule::close => "`)`",
        Rule::alias | Rule::r#as => "`as name`",
        Rule::part => "an argument",
        Rule::argument => "`name=value`",
        Rule::wrong_spaces
        | Rule::wrong_no_value
        | Rule::wrong_colon
        | Rule::wrong_dashes
        | Rule::wrong_comma
        | Rule::wrong_hole
        | Rule::wrong_quotes
        | Rule::wrong_path => "",
        Rule::value => "a value",
        Rule::expression => "a value",
        Rule::operator | Rule::add | Rule::subtract | Rule::multiply | Rule::divide => {
            "an operator (`+`, `-`, `*`, `/`)"
        }
        Rule::group => "a value",
        Rule::list => "a value",
        Rule::number => "a number",
        Rule::mantissa | Rule::digits => "a number",
        Rule::unit => "a unit",
        Rule::file => "a value",
        Rule::string => "a quoted text",
        Rule::chunk | Rule::escape | Rule::hole => "the rest of the text",
        Rule::path_char => "",
        Rule::word => "a value",
        Rule::name => "a name",
        Rule::name_start | Rule::name_char => "a name",
        Rule::kind | Rule::kind_name => "a type",
        Rule::kind_atom | Rule::kind_list => "a type",
        Rule::range => "a range (`1..8`)",
        Rule::bound => "a number",
        Rule::owned_kind | Rule::many => "`Model<…>` or `Data`",
        Rule::entry_line => "a device or a shape",
        Rule::stage_head => "`stage` with its name",
        Rule::input_line => "`take` or `borrow` with a name and a type",
        Rule::make_line => "`make` with a type",
        Rule::member_line | Rule::position => "`name: Type = default`",
    }
}
