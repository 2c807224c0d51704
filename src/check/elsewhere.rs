//! Names that are declared, and cannot be seen from where they are used: said to be there, and why they are no use.

use std::collections::HashMap;

use super::Checker;
use crate::syntax::{Item, Word};
use crate::text::{Diagnostic, Label, Span};

/// A name with its declaration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hidden<'a> {
    span: Span,
    /// The recipe that it belongs to; none: the file itself.
    recipe: Option<&'a str>,
}

/// What a place wants that found a name unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Setting,
    Model,
    Data,
}

/// Every name that a file declares anywhere, the insides of its recipes included.
pub(super) fn hidden<'a>(items: &'a [Item]) -> HashMap<&'a str, Vec<Hidden<'a>>> {
    let mut found: HashMap<&'a str, Vec<Hidden<'a>>> = HashMap::new();
    let mut add = |word: &'a Word, recipe| {
        found.entry(&word.text).or_default().push(Hidden { span: word.span, recipe });
    };
    fn declared(item: &Item) -> Option<&Word> {
        match item {
            Item::Param(line) => Some(&line.name),
            Item::Let(line) => Some(&line.name),
            Item::Stage(line) => line.alias.as_ref(),
            _ => None,
        }
    }
    for item in items {
        if let Some(word) = declared(item) {
            add(word, None);
        }
        let Item::Recipe(line) = item else { continue };
        let home = Some(&*line.name.text);
        line.params.iter().for_each(|param| add(&param.name, home));
        line.body.iter().filter_map(declared).for_each(|word| add(word, home));
    }
    found
}

impl Checker<'_> {
    /// Says of an unknown name where it is, where it is anywhere: given from outside without a param, in a used file
    /// under another name, in the file around a recipe, in a recipe. None: it is nowhere. The diagnostic's first label is
    /// the name.
    pub fn elsewhere(&mut self, diagnostic: &Diagnostic, word: &str, wanted: Wanted) -> Option<Diagnostic> {
        let in_recipe = self.order != usize::MAX;
        let mut told = diagnostic.clone();
        told.notes.clear();
        let place = told.labels.first().map(|label| label.span);
        if place.is_some_and(|span| self.is_outside(span)) {
            told.message = format!("`{word}` is given from outside the file, and names nothing there");
            set_label(&mut told, "a name of the file is not read here");
            return self.names.contains_key(word).then(|| told.help("write the value itself"));
        }
        let hidden = self.scopes.get(self.scope).and_then(|scope| scope.hidden.get(word));
        // A `param` may well take it, further down or out of a recipe's reach.
        let declared = hidden.is_some_and(|hidden| hidden.iter().any(|one| one.recipe.is_none()));
        let unused = |one: &&mut super::given::One| one.name == word && !one.used && !declared;
        if let Some(given) = self.given.params.iter_mut().find(unused) {
            given.used = true;
            let (span, layer) = (given.name_span, given.layer);
            told.message = format!("`{word}` is given {}, and no `param` takes it", layer.words());
            set_label(&mut told, "not declared in the file");
            return Some(told.label(span, "given here").help(format!("declare it above: `param {word} = …`")));
        }
        let end = format!(".{word}");
        let mut prefixed: Vec<&String> = self.names.keys().filter(|name| name.ends_with(&end)).collect();
        prefixed.sort();
        if let Some(name) = prefixed.first() {
            set_label(&mut told, "goes by the name of its file");
            return Some(told.help(format!("write `{name}`")));
        }
        let hidden = self.scopes.get(self.scope)?.hidden.get(word)?;
        let home = hidden.iter().find(|one| in_recipe && one.recipe.is_none()).or(hidden.first())?;
        let (span, recipe) = (home.span, home.recipe);
        told.message = format!("`{word}` is not in reach here");
        set_label(&mut told, "out of reach");
        let kind = match wanted {
            Wanted::Setting => "",
            Wanted::Model => ": Model",
            Wanted::Data => ": Data",
        };
        let key = match wanted {
            Wanted::Setting => word,
            Wanted::Model => "model",
            Wanted::Data => "data",
        };
        let handed = || match wanted {
            Wanted::Setting => format!("give this recipe a parameter `{word}`, and its call `{word}={word}`"),
            _ => format!("give this recipe a parameter `{key}{kind}`, and its call `{key}={word}`"),
        };
        Some(match recipe {
            None if in_recipe => told.label(span, "the file's: a recipe sees its parameters only").help(handed()),
            // Of the file and not in a recipe, it would have been found.
            None => return None,
            Some(recipe) => {
                let told = told.label(span, format!("belongs to the recipe `{recipe}`, which alone sees it"));
                match (in_recipe, wanted) {
                    (true, _) => told.help(format!("give this recipe a parameter `{word}{kind}` of its own")),
                    (false, Wanted::Setting) => told.help(format!("declare one for the file: `let {word} = …`")),
                    (false, _) => told.help(format!(
                        "name one of the file's with `as {word}`, or what the recipe makes: `{recipe} … as {word}`"
                    )),
                }
            }
        })
    }

    /// Whether a place is in what is given beside the text.
    pub fn is_outside(&self, span: Span) -> bool {
        self.given.params.iter().any(|one| one.value_span.source == span.source)
            || self.given.sets.iter().any(|set| set.span.source == span.source)
    }
}

fn set_label(diagnostic: &mut Diagnostic, words: &str) {
    if let Some(Label { text, .. }) = diagnostic.labels.first_mut() {
        words.clone_into(text);
    }
}
