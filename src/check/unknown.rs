//! Stages, arguments and words that do not exist, each with the name that was probably meant.

use super::elsewhere::Wanted;
use super::stage::{Filled, next_positional};
use super::{Checker, foreign, names};
use crate::catalog::StageDecl;
use crate::syntax::Word;
use crate::text::{Diagnostic, Span, nearest};

const STATEMENTS: [&str; 6] = ["budget", "param", "let", "tunepipe", "use", "recipe"];

impl<'a> Checker<'a> {
    /// The stage that some leading words name. An unknown one is reported; where it is clear which was meant, the
    /// check goes on with that one, so that its other mistakes are said too.
    pub fn find_stage(&mut self, words: &[(&str, Span)]) -> Option<(usize, &'a StageDecl)> {
        let catalog = self.catalog;
        let texts: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        if let Some(found) = catalog.stage_at(&texts) {
            return Some(found);
        }
        let (first, first_span) = words.first()?;
        // Its declaration has an error, which is reported.
        if self.scopes[self.scope].unread.contains(*first) {
            return None;
        }
        if first.contains('.') && self.lost(first, Some(first)) {
            return None;
        }
        if let Some(declared) = self.scopes[self.scope].declared.get(first).copied() {
            self.report(
                Diagnostic::error("recipe.later", format!("`{first}` cannot be called here"))
                    .label(*first_span, "called before it is declared")
                    .label(declared, "declared here")
                    .help("a recipe is called below its declaration, and never by itself"),
            );
            return None;
        }
        // `train qlora`: a recipe goes by its own name.
        if let Some((second, second_span)) = words.get(1)
            && catalog.stages.iter().any(|stage| stage.name.split(' ').next() == Some(first))
            && self.recipe_names().any(|name| name == *second)
        {
            let diagnostic = Diagnostic::error("name.unknown_stage", format!("there is no stage `{first} {second}`"))
                .label(first_span.to(*second_span), "unknown")
                .help(format!("`{second}` is a recipe, and stands by itself: write `{second}`"));
            self.report(diagnostic);
            return None;
        }
        // `train_lora`, `trainlora`: a name's words joined.
        let joined = |name: &str| name.replace([' ', '_', '-'], "");
        if let Some(decl) =
            catalog.stages.iter().find(|stage| stage.name.contains(' ') && joined(&stage.name) == joined(first))
        {
            self.report(
                Diagnostic::error("name.unknown_stage", format!("there is no stage `{first}`"))
                    .label(*first_span, "one word")
                    .help(format!("write `{}`", decl.name)),
            );
            return Some((1, decl));
        }
        let here = |word: &str| catalog.stages.iter().any(|stage| stage.name.split(' ').next() == Some(word));
        if let Some(help) = foreign::statement(first).filter(|_| !here(first))
            && nearest(first, self.recipe_names()).is_none()
        {
            self.report(
                Diagnostic::error("name.unknown_stage", format!("there is no stage `{first}`"))
                    .label(*first_span, "unknown")
                    .help(help),
            );
            return None;
        }
        // A slip in a name of as many words, each of them near.
        for count in (1..=texts.len().min(2)).rev() {
            let texts = texts.get(..count)?;
            let joined = texts.join(" ");
            let near = |name: &&str| {
                let words: Vec<&str> = name.split(' ').collect();
                words.len() == count
                    && words
                        .iter()
                        .zip(texts)
                        .all(|(word, text)| text.starts_with(word) || nearest(text, [*word]).is_some())
            };
            let names = catalog.stages.iter().map(|stage| &*stage.name).filter(near);
            let statements = STATEMENTS.iter().copied().chain(self.recipe_names()).filter(|_| count == 1);
            if let Some(near) = nearest(&joined, names.chain(statements)).map(str::to_owned) {
                let span = first_span.to(words.get(count - 1)?.1);
                self.report(
                    Diagnostic::error("name.unknown_stage", format!("there is no stage `{joined}`"))
                        .label(span, "unknown")
                        .help(format!("write `{near}`")),
                );
                return catalog.stage(&near).map(|decl| (count, decl));
            }
        }
        let family: Vec<&str> = catalog
            .stages
            .iter()
            .filter(|stage| stage.name.split(' ').any(|word| word == *first))
            .map(|stage| &*stage.name)
            .collect();
        let diagnostic = if family.is_empty() {
            let near = nearest(first, catalog.stages.iter().filter_map(|stage| stage.name.split(' ').next()));
            if self.lost(first, near) {
                return None;
            }
            let all: Vec<&str> = catalog.stages.iter().map(|stage| &*stage.name).collect();
            let diagnostic = Diagnostic::error("name.unknown_stage", format!("there is no stage `{first}`"))
                .label(*first_span, "unknown")
                .note(format!("stages are {}", all.join(", ")));
            match near {
                Some(near) => diagnostic.help(format!("write `{near}`")),
                None => diagnostic,
            }
        } else {
            let listed: Vec<String> = family.iter().map(|name| format!("`{name}`")).collect();
            let span = words.get(1).map_or(*first_span, |(_, second)| first_span.to(*second));
            let shown = texts.get(..2).map_or((*first).to_owned(), |two| two.join(" "));
            Diagnostic::error("name.unknown_stage", format!("there is no stage `{shown}`"))
                .label(span, "unknown")
                .help(format!("write {}", listed.join(" or ")))
        };
        self.report(diagnostic);
        None
    }

    /// An argument that the stage does not have. Where it is clear which was meant, that one is not missed as well.
    pub fn unknown_argument(&mut self, filled: &mut Filled<'_>, name: &Word) {
        let (decl, stage) = (filled.decl, filled.name_span);
        let free = |filled: &Filled<'_>, word: &str| {
            let arg = decl.args.iter().position(|arg| arg.name == word).filter(|at| filled.args[*at].is_none());
            let input =
                decl.inputs.iter().position(|input| input.name == word).filter(|at| filled.inputs[*at].is_none());
            (arg, input)
        };
        let meant = decl.args.iter().map(|arg| &*arg.name).chain(decl.inputs.iter().map(|input| &*input.name));
        let theirs = foreign::ours(&name.text).filter(|word| decl.arg(word).is_some());
        let meant = theirs.or_else(|| nearest(&name.text, meant.filter(|word| free(filled, word) != (None, None))));
        if let Some((arg, input)) = meant.map(|word| free(filled, word)) {
            if let Some(at) = arg {
                filled.args[at] = Some((None, name.span));
            }
            if let Some(at) = input {
                filled.inputs[at] = Some((Vec::new(), name.span));
            }
        }
        // A name in upper case is reported as such.
        if name.text.chars().any(char::is_uppercase) {
            return;
        }
        let names = || decl.args.iter().map(|arg| &*arg.name).chain(decl.inputs.iter().map(|input| &*input.name));
        let diagnostic =
            Diagnostic::error("name.unknown_argument", format!("`{}` has no argument `{}`", decl.name, name.text))
                .label(name.span, "unknown");
        let elsewhere: Vec<String> = self
            .catalog
            .stages
            .iter()
            .filter(|other| other.arg(&name.text).is_some())
            .map(|other| format!("`{}`", other.name))
            .collect();
        let other = theirs.or(foreign::ours(&name.text));
        let diagnostic = match nearest(&name.text, names()) {
            _ if theirs.is_some() => diagnostic.help(format!("write `{}`", theirs.unwrap_or_default())),
            _ if other.is_some() => {
                let near = other.unwrap_or_default();
                let stages = self.catalog.stages.iter().filter(|stage| stage.arg(near).is_some());
                let stages: Vec<String> = stages.map(|stage| format!("`{}`", stage.name)).collect();
                diagnostic.help(format!("it is called `{near}` here, an argument of {}", stages.join(", ")))
            }
            _ if foreign::instead(&name.text).is_some() => {
                diagnostic.help(foreign::instead(&name.text).unwrap_or_default())
            }
            Some(near) if elsewhere.is_empty() => diagnostic.help(format!("write `{near}`")),
            _ if !elsewhere.is_empty() => {
                let diagnostic = diagnostic.label(stage, "this stage").note(format!(
                    "`{}` is an argument of {}",
                    name.text,
                    elsewhere.join(", ")
                ));
                // One of them that stands above is where it was to go.
                let there =
                    self.steps.iter().rev().find(|step| {
                        self.catalog.stage(&step.stage).is_some_and(|decl| decl.arg(&name.text).is_some())
                    });
                match there.filter(|_| !self.trying && self.calls.is_empty()) {
                    Some(step) => diagnostic.help(format!("move it to `{}` in line {}", step.stage, step.line)),
                    None => diagnostic,
                }
            }
            _ => diagnostic.note(format!("its arguments are {}", names().collect::<Vec<_>>().join(", "))),
        };
        self.report(diagnostic);
    }

    /// A word by itself that is neither flag nor symbol nor a name.
    pub fn unknown_word(&mut self, filled: &mut Filled<'_>, word: &str, span: Span) {
        let decl = filled.decl;
        let error = |code, message| Diagnostic::error(code, message).label(span, "stands alone");
        if let Some(arg) = decl.arg(word) {
            let sample = super::params::sample(&arg.kind);
            return self.report(
                error("arg.no_value", format!("`{word}` needs a value: it is {}", arg.kind.words()))
                    .help(format!("write `{word}={sample}`")),
            );
        }
        if decl.input(word).is_some() {
            return self.report(
                error("arg.no_value", format!("`{word}` needs the name of a value"))
                    .help(format!("write `{word}=name`, with a name given by `as`")),
            );
        }
        if let Some(declared) = self.below.get(word).copied() {
            if self.said.insert(word.to_owned()) {
                self.report(names::later(word, span, declared));
            }
            return;
        }
        // `rank8`, `formatchat`: an `=` was left out.
        let begun = decl.args.iter().filter(|arg| !arg.kind.is_flag() && word.len() > arg.name.len());
        let begun = begun.filter(|arg| word.starts_with(&*arg.name)).max_by_key(|arg| arg.name.len());
        if let Some(arg) = begun.filter(|_| nearest(word, decl.args.iter().map(|arg| &*arg.name)).is_none()) {
            let value = word.get(arg.name.len()..).unwrap_or("");
            if let Some(at) = decl.args.iter().position(|other| other.name == arg.name) {
                filled.args[at].get_or_insert((None, span));
            }
            return self.report(
                Diagnostic::error("syntax.equals", format!("`{word}` looks like `{}` without its `=`", arg.name))
                    .label(span, "one word")
                    .help(format!("write `{}={value}`", arg.name)),
            );
        }
        let at = next_positional(filled);
        let next = at.map(|at| &decl.args[at]);
        let denied: Vec<String> =
            decl.args.iter().filter(|arg| arg.kind.is_flag()).map(|arg| format!("no_{}", arg.name)).collect();
        let mut known: Vec<&str> = decl.args.iter().map(|arg| &*arg.name).collect();
        known.extend(next.iter().flat_map(|arg| arg.kind.symbols()));
        known.extend(self.names.keys().map(|name| &**name));
        known.extend(denied.iter().map(|name| &**name));
        let near = nearest(word, known).map(str::to_owned);
        let near = near.as_deref();
        if self.lost(word, near) {
            return;
        }
        let diagnostic =
            Diagnostic::error("name.unknown", format!("`{word}` is unknown in `{}`", decl.name)).label(span, "unknown");
        if let Some(told) = self.elsewhere(&diagnostic, word, Wanted::Setting) {
            return self.report(told);
        }
        let takes_path = next.is_some_and(|arg| arg.kind.takes_path());
        let diagnostic = match near {
            Some(near) => diagnostic.help(match decl.arg(near) {
                Some(arg) if !arg.kind.is_flag() => format!("write `{near}={}`", super::params::sample(&arg.kind)),
                _ => format!("write `{near}`"),
            }),
            None if takes_path => {
                // The path is there, if not as one.
                if let Some(at) = at {
                    filled.args[at] = Some((None, span));
                }
                diagnostic.help(format!("a path stands in quotes: write `\"{word}\"`"))
            }
            None => diagnostic
                .note("a word by itself is a flag of the stage, a symbol for its next value, or a `param` or `let`"),
        };
        self.report(diagnostic);
    }
}
