//! Which value a stage takes or borrows, and what becomes of it.

use super::Checker;
use super::elsewhere::Wanted;
use super::names::{Named, What};
use super::owned::Owned;
use super::stage::Filled;
use crate::catalog::{Catalog, InputDecl, StageDecl};
use crate::plan::{Type, ValueId};
use crate::syntax::{Expr, ExprKind, Item, Part, Word};
use crate::text::{Diagnostic, Span, nearest};

/// Candidates that are listed one by one.
const LISTED: usize = 4;

/// A statement that makes a value out of nothing, as `load model` does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Maker {
    pub span: Span,
    pub is_model: bool,
}

/// Those of a file, in its order.
pub(super) fn makers(items: &[Item], catalog: &Catalog) -> Vec<Maker> {
    let maker = |item: &Item| {
        let Item::Stage(line) = item else { return None };
        let words = line.parts.iter().map_while(|part| match part {
            Part::Value(Expr { kind: ExprKind::Word(word), span }) => Some((&**word, *span)),
            _ => None,
        });
        let (words, spans): (Vec<&str>, Vec<Span>) = words.unzip();
        let (count, decl) = catalog.stage_at(&words)?;
        let made = decl.makes.first().filter(|_| decl.inputs.is_empty())?;
        Some(Maker { span: spans.first()?.to(*spans.get(count - 1)?), is_model: made.is_model() })
    };
    items.iter().filter_map(maker).collect()
}

impl<'a> Checker<'a> {
    /// Inputs by name and makes in order. A stage whose model has an error makes one that passes for anything, so that
    /// one mistake is said once.
    pub fn pass_values(
        &mut self,
        filled: &Filled<'_>,
        alias: Option<&Word>,
        step: usize,
    ) -> (Vec<(String, ValueId)>, Vec<ValueId>) {
        let decl = filled.decl;
        let mut inputs: Vec<(String, ValueId)> = Vec::new();
        let mut taken: Option<(ValueId, bool)> = None;
        let mut several = false;
        for (input, found) in decl.inputs.iter().zip(self.inputs(filled)) {
            for (id, fits) in found.unwrap_or_default() {
                if input.takes {
                    several |= taken.is_some();
                    taken = Some((id, fits));
                }
                inputs.push((input.name.clone(), id));
            }
        }
        for (name, id) in &inputs {
            match decl.input(name) {
                Some(input) if input.takes => self.owned.take(*id, step, filled.name_span),
                _ => self.owned.borrow(*id, step),
            }
        }
        let of = taken.filter(|(_, fits)| *fits).and_then(|(id, _)| self.owned.get(id).kind);
        // What is made of several has none of their names.
        let old_name = taken.filter(|_| !several).and_then(|(id, _)| self.owned.get(id).name.clone());
        let name = self.name_for(decl, alias, old_name.as_deref());
        let mut makes = Vec::new();
        for pattern in &decl.makes {
            // What is made of a value with an error is of no known type.
            let wrong = pattern.is_model() && decl.inputs.iter().any(|input| input.takes) && of.is_none();
            let kind = if wrong { None } else { pattern.made_of(of) };
            let id = self.owned.make(Owned {
                is_model: pattern.is_model(),
                kind,
                name: name.as_ref().map(|(name, _)| name.clone()),
                made_by: step,
                made_at: filled.name_span,
                maker: decl.name.clone(),
                of: taken.map(|(id, _)| id),
                taken: None,
                last_use: None,
            });
            if let Some((name, span)) = &name {
                let named = Named { span: *span, used: false, what: What::Owned(id), follows: false };
                self.names.insert(name.clone(), named);
            } else if let Some((taken, _)) = taken {
                self.follow(taken, id);
            }
            makes.push(id);
        }
        (inputs, makes)
    }

    /// The values of each input, and whether they are of the wanted type; none where an optional one is left out, an
    /// error where one is missing, which is reported.
    pub fn inputs(&mut self, filled: &Filled<'_>) -> Vec<Result<Vec<(ValueId, bool)>, ()>> {
        let decl = filled.decl;
        let mut found = Vec::with_capacity(decl.inputs.len());
        for (input, given) in decl.inputs.iter().zip(&filled.inputs) {
            found.push(match given.as_ref().map(|(words, span)| (&words[..], *span)) {
                Some(([word], _)) if input.optional && self.left_out(word) => Ok(Vec::new()),
                Some(([], _)) => Err(()),
                Some(([word], span)) if input.many => {
                    let _ = self.named_input(decl, input, word);
                    self.too_few(decl, input, span)
                }
                Some((words, _)) => self.named_inputs(decl, input, words),
                None if input.many => self.all_unnamed(decl, input, filled.name_span),
                None if input.optional => Ok(Vec::new()),
                None => self.unnamed_input(decl, input, filled.name_span).map(|one| vec![one]).ok_or(()),
            });
        }
        found
    }

    fn named_inputs(
        &mut self,
        decl: &StageDecl,
        input: &InputDecl,
        words: &[Word],
    ) -> Result<Vec<(ValueId, bool)>, ()> {
        let mut found: Vec<(ValueId, bool)> = Vec::new();
        let mut whole = true;
        for word in words {
            match self.named_input(decl, input, word) {
                Some((id, _)) if found.iter().any(|(known, _)| *known == id) => {
                    whole = false;
                    self.report(
                        Diagnostic::error("arg.twice", format!("`{}` is named twice", word.text))
                            .label(word.span, "again")
                            .help("to have rows twice in an epoch, write `repeat=2` on their `load data`"),
                    );
                }
                Some(one) => found.push(one),
                None => whole = false,
            }
        }
        if whole { Ok(found) } else { Err(()) }
    }

    /// Every unnamed value of a sort, for an input that is several.
    fn all_unnamed(&mut self, decl: &StageDecl, input: &InputDecl, span: Span) -> Result<Vec<(ValueId, bool)>, ()> {
        let all = self.owned.unnamed(input.pattern.is_model());
        if all.len() >= 2 {
            return Ok(all.iter().map(|id| (*id, true)).collect());
        }
        self.too_few(decl, input, span)
    }

    fn too_few(&mut self, decl: &StageDecl, input: &InputDecl, span: Span) -> Result<Vec<(ValueId, bool)>, ()> {
        if self.unread {
            return Err(());
        }
        let mut diagnostic = Diagnostic::error("value.few", format!("`{}` takes two data sets or more", decl.name))
            .label(span, "finds fewer");
        let named: Vec<&str> = self
            .owned
            .iter()
            .filter(|(id, owned)| {
                !owned.is_model && owned.name.as_ref().is_some_and(|name| self.names_value(name, *id))
            })
            .filter_map(|(_, owned)| owned.name.as_deref())
            .collect();
        diagnostic = if named.len() >= 2 {
            diagnostic.help(format!("write `{} {}=[{}]`", decl.name, input.name, named.join(" ")))
        } else {
            diagnostic.help("load another above; one data set alone needs no mixing")
        };
        self.report(diagnostic);
        // It goes on with what there is.
        let all = self.owned.unnamed(input.pattern.is_model());
        if all.is_empty() { Err(()) } else { Ok(all.iter().map(|id| (*id, true)).collect()) }
    }

    /// Whether a name is `none`, or an input of the recipe that its call leaves out.
    fn left_out(&mut self, word: &Word) -> bool {
        match self.names.get_mut(&word.text) {
            Some(named) => {
                let absent = matches!(named.what, What::Absent);
                named.used |= absent;
                absent
            }
            None => word.text == "none",
        }
    }

    /// The name of what a stage makes: its alias, or the name of what it took.
    fn name_for(&mut self, decl: &StageDecl, alias: Option<&Word>, old: Option<&str>) -> Option<(String, Span)> {
        let inherited = || old.and_then(|old| self.names.get(old).map(|named| (old.to_owned(), named.span)));
        let Some(alias) = alias else { return if decl.makes.is_empty() { None } else { inherited() } };
        if decl.makes.is_empty() {
            self.report(
                Diagnostic::error("value.nothing", format!("`{}` makes nothing that could be named", decl.name))
                    .label(alias.span, "names nothing")
                    .help(format!("remove `as {}`", alias.text)),
            );
            return None;
        }
        // A stage may say again the name that it would keep anyway.
        if old == Some(&*alias.text) {
            return inherited();
        }
        self.free(alias).then(|| (alias.text.clone(), alias.span))
    }

    /// `model=name`: the value, and whether it is of the wanted type. None: reported.
    fn named_input(&mut self, decl: &StageDecl, input: &InputDecl, word: &Word) -> Option<(ValueId, bool)> {
        let key = &input.name;
        let Some(named) = self.names.get_mut(&word.text) else {
            self.no_such_value(input, word);
            return None;
        };
        named.used = true;
        let declared = named.span;
        let id = match &named.what {
            What::Owned(id) => *id,
            What::Unknown => return None,
            What::Absent => {
                self.report(
                    Diagnostic::error(
                        "recipe.absent",
                        format!("`{}` is left out here, and `{}` needs it", word.text, decl.name),
                    )
                    .label(word.span, "there is none")
                    .label(declared, "may be left out")
                    .help(format!("take `= none` from the parameter `{}`, or leave the stage out", word.text)),
                );
                return None;
            }
            What::Known(_) | What::Open => {
                self.report(
                    Diagnostic::error("value.name", format!("`{key}=` takes {}, not a setting", input.pattern.words()))
                        .label(word.span, "is a setting")
                        .label(declared, "declared here"),
                );
                return None;
            }
        };
        let owned = self.owned.get(id);
        if let Some((_, by)) = owned.taken {
            let taker = self.sources.slice(by).to_owned();
            let heir = self.owned.iter().find(|(_, other)| other.of == Some(id)).map(|(_, heir)| heir);
            let mut diagnostic =
                Diagnostic::error("value.taken", format!("`{}` is used after it was taken", word.text))
                    .label(word.span, "is gone here")
                    .label(by, format!("`{taker}` takes it"));
            diagnostic = match heir.and_then(|heir| heir.name.as_deref()) {
                Some(name) => diagnostic.help(format!("write `{key}={name}`, what `{taker}` made of it")),
                None => diagnostic.help(format!("leave `{key}=` out to use what `{taker}` made of it")),
            };
            self.report(diagnostic);
            return None;
        }
        match owned.kind {
            Some(kind) if !input.pattern.accepts(kind) => {
                self.wrong_type(decl, input, id, word.span);
                Some((id, false))
            }
            _ => Some((id, true)),
        }
    }

    /// Whether a name means this value here: a recipe does not see its caller's.
    fn names_value(&self, name: &str, id: ValueId) -> bool {
        self.names.get(name).is_some_and(|named| matches!(named.what, What::Owned(other) if other == id))
    }

    fn no_such_value(&mut self, input: &InputDecl, word: &Word) {
        if self.unread {
            return;
        }
        if !self.said.insert(word.text.clone()) {
            return;
        }
        let is_model = input.pattern.is_model();
        let what = if is_model { "model" } else { "data" };
        let diagnostic = Diagnostic::error("value.unknown", format!("there is no {what} named `{}`", word.text))
            .label(word.span, "unknown");
        let wanted = if is_model { Wanted::Model } else { Wanted::Data };
        if !self.below.contains_key(&*word.text)
            && let Some(told) = self.elsewhere(&diagnostic, &word.text, wanted)
        {
            return self.report(told);
        }
        let named: Vec<&str> = self
            .owned
            .iter()
            .filter(|(_, owned)| owned.is_model == is_model && owned.taken.is_none())
            .filter_map(|(id, owned)| owned.name.as_deref().filter(|name| self.names_value(name, id)))
            .collect();
        let mut diagnostic = diagnostic;
        if let Some(later) = self.below.get(&*word.text) {
            diagnostic = diagnostic.label(*later, "named only here").help("move that stage above this one");
        } else if let Some(near) = nearest(&word.text, named.iter().copied()) {
            diagnostic = diagnostic.help(format!("write `{}={near}`", input.name));
        } else if named.is_empty() {
            let maker = if is_model { "load model" } else { "load data" };
            let alone = self.owned.unnamed(is_model).len() == 1;
            let or = if alone { format!(", or leave `{}=` out", input.name) } else { String::new() };
            diagnostic = diagnostic.help(format!("name one where it is made: `{maker} … as {}`{or}", word.text));
        } else {
            diagnostic = diagnostic.note(format!("there is {}", named.join(", ")));
        }
        self.report(diagnostic);
    }

    /// The one unnamed value of an input's type. None: there is none or there are several, and that is reported.
    fn unnamed_input(&mut self, decl: &StageDecl, input: &InputDecl, span: Span) -> Option<(ValueId, bool)> {
        let is_model = input.pattern.is_model();
        let all = self.owned.unnamed(is_model);
        let accepts = |id: &&ValueId| self.owned.get(**id).kind.is_none_or(|kind| input.pattern.accepts(kind));
        let mut fitting = all.iter().filter(accepts);
        match (fitting.next().copied(), fitting.next()) {
            (Some(only), None) => return Some((only, true)),
            (Some(_), Some(_)) => {
                let fitting: Vec<ValueId> = all.iter().filter(accepts).copied().collect();
                self.ambiguous(decl, input, span, &fitting);
                return None;
            }
            (None, _) => {}
        }
        match all {
            _ if self.unread => None,
            [] => {
                self.none_alive(decl, input, span);
                None
            }
            [only] => {
                let only = *only;
                self.wrong_type(decl, input, only, span);
                Some((only, false))
            }
            [.., last] => {
                let last = *last;
                self.wrong_type(decl, input, last, span);
                None
            }
        }
    }

    fn ambiguous(&mut self, decl: &StageDecl, input: &InputDecl, span: Span, fitting: &[ValueId]) {
        let what = if input.pattern.is_model() { "models" } else { "data sets" };
        let count = fitting.len();
        let mut diagnostic = Diagnostic::error("value.ambiguous", format!("`{}` could use {count} {what}", decl.name))
            .label(span, format!("which is its {}?", input.name));
        let mut lines = Vec::new();
        for id in fitting {
            let owned = self.owned.get(*id);
            let line = self.sources.line_column(owned.made_at).0;
            lines.push(format!("line {line}"));
            if lines.len() <= LISTED {
                diagnostic = diagnostic.label(owned.made_at, format!("this one, of line {line}"));
            }
        }
        if lines.len() > LISTED {
            lines.truncate(LISTED);
            diagnostic = diagnostic.note(format!("they are made on {} and further lines", lines.join(", ")));
        }
        let maker = fitting.first().map_or("", |id| &*self.owned.get(*id).maker);
        let name = if input.pattern.is_model() { "base" } else { "rows" };
        self.report(diagnostic.help(format!(
            "name the one that is meant, `{maker} … as {name}`, and write `{} {}={name}`",
            decl.name, input.name
        )));
    }

    fn none_alive(&mut self, decl: &StageDecl, input: &InputDecl, span: Span) {
        let is_model = input.pattern.is_model();
        if std::mem::replace(&mut self.said_none[usize::from(is_model)], !self.trying) {
            return;
        }
        let what = input.pattern.words();
        let mut diagnostic = Diagnostic::error("value.none", format!("`{}` has no {} to use", decl.name, input.name))
            .label(span, format!("needs {what}"));
        let named: Vec<(String, Span)> = self
            .owned
            .iter()
            .filter(|(_, owned)| owned.is_model == is_model && owned.taken.is_none())
            .filter_map(|(id, owned)| {
                Some((owned.name.clone().filter(|name| self.names_value(name, id))?, owned.made_at))
            })
            .take(LISTED)
            .collect();
        for (name, made) in &named {
            diagnostic = diagnostic.label(*made, format!("`{name}` has a name, and goes by it"));
        }
        if let Some((name, _)) = named.first() {
            diagnostic = diagnostic.help(format!("write `{}={name}`", input.name));
        } else if self.order != usize::MAX {
            let kind = if is_model { "Model" } else { "Data" };
            diagnostic = diagnostic
                .help(format!("a recipe sees its parameters only: give it one more, `{}: {kind}`", input.name));
        } else {
            // The stages that make one out of nothing.
            let below = |is_model: bool| {
                let mut later = self.makers.iter().filter(|maker| maker.is_model == is_model);
                later.find(|maker| maker.span.source == span.source && maker.span.start > span.start).copied()
            };
            if let Some(maker) = below(is_model) {
                diagnostic = diagnostic.label(maker.span, "made only here");
                let mut last = maker;
                // A stage that stands above all that it needs is one mistake.
                let needs = decl.inputs.iter().any(|other| !other.optional && other.pattern.is_model() != is_model);
                let bare = self.owned.iter().all(|(_, owned)| owned.is_model == is_model);
                if let Some(other) = below(!is_model).filter(|_| needs && bare) {
                    self.said_none[usize::from(!is_model)] = !self.trying;
                    diagnostic = diagnostic.label(other.span, "and this, which it needs too");
                    last = if other.span.start > maker.span.start { other } else { maker };
                }
                let line = self.sources.line_column(last.span).0;
                self.report(diagnostic.help(format!("move `{}` below line {line}", decl.name)));
                return;
            }
            let maker =
                self.catalog.stages.iter().find(|stage| {
                    stage.inputs.is_empty() && stage.makes.iter().any(|made| made.is_model() == is_model)
                });
            if let Some(example) = maker.and_then(|stage| stage.examples.first()) {
                let line = example.lines().next().unwrap_or("").trim();
                diagnostic = diagnostic.help(format!("put one above, for example `{line}`"));
            }
        }
        self.report(diagnostic);
    }

    /// A value is there, but not of the type that a stage wants: says both, and how to come to the wanted one.
    fn wrong_type(&mut self, decl: &StageDecl, input: &InputDecl, id: ValueId, span: Span) {
        let owned = self.owned.get(id);
        let found = owned.kind.map_or_else(|| "another".to_owned(), |kind| kind.to_string());
        let what = if owned.is_model { "the model" } else { "the data" };
        let named = owned.name.as_ref().map_or_else(|| what.to_owned(), |name| format!("`{name}`"));
        let mut diagnostic = Diagnostic::error(
            "value.type",
            format!("`{}` wants `{}`, and {named} is `{found}` here", decl.name, input.pattern),
        )
        .label(span, format!("wants {}", input.pattern.words()))
        .label(owned.made_at, format!("`{}` makes it `{found}`", owned.maker));
        let line = |span| self.sources.line_column(span).0;
        let ways = owned.kind.map(|kind| self.ways(kind, input)).unwrap_or_default();
        let other = owned.kind.filter(|_| ways.is_empty()).and_then(|kind| self.written_instead(decl, kind));
        if let Some(other) = other {
            diagnostic = diagnostic.help(format!("write {other}"));
        } else if let Some((fitting, next)) = self.owned.earlier(id, input.pattern) {
            let (before, next) = (self.owned.get(fitting), self.owned.get(next));
            let kind = before.kind.map_or_else(String::new, |kind| format!(", where {what} is still `{kind}`"));
            diagnostic = diagnostic.help(format!(
                "move `{}` above `{}` on line {}{kind}",
                decl.name,
                next.maker,
                line(next.made_at)
            ));
        } else if !ways.is_empty() {
            diagnostic = diagnostic.help(format!("put {} before it", ways.join(" or ")));
        }
        self.report(diagnostic);
    }

    /// For a stage that writes a model out: those of the same first word that write one of this type.
    fn written_instead(&self, decl: &StageDecl, kind: Type) -> Option<String> {
        let writes =
            |stage: &StageDecl| stage.args.iter().any(|arg| arg.kind.0.contains(&crate::catalog::Atom::Output));
        let first = |stage: &StageDecl| stage.name.split(' ').next().map(str::to_owned);
        let fits = |stage: &&StageDecl| {
            let accepts = stage.inputs.iter().any(|input| input.pattern.accepts(kind));
            stage.name != decl.name && writes(stage) && first(stage) == first(decl) && accepts
        };
        let found: Vec<String> = self
            .catalog
            .stages
            .iter()
            .filter(fits)
            .filter_map(|stage| Some(format!("`{}`", stage.examples.first()?.trim())))
            .collect();
        (writes(decl) && !found.is_empty()).then(|| found.join(" or "))
    }

    /// Stages that take a model of type `kind` and make one that fits.
    fn ways(&self, kind: Type, input: &InputDecl) -> Vec<String> {
        let fits = |stage: &&StageDecl| {
            let takes = stage.inputs.iter().any(|other| other.takes && other.pattern.accepts(kind));
            takes
                && stage
                    .makes
                    .iter()
                    .any(|made| made.made_of(Some(kind)).is_some_and(|made| input.pattern.accepts(made)))
        };
        self.catalog.stages.iter().filter(fits).map(|stage| format!("`{}`", stage.name)).collect()
    }

    /// Models and data that nothing uses.
    pub fn idle_values(&mut self) {
        let mut found = Vec::new();
        for (_, owned) in self.owned.iter().filter(|(_, owned)| owned.last_use.is_none()) {
            let what = match (&owned.name, owned.is_model) {
                (Some(name), _) => format!("`{name}`"),
                (None, true) => "this model".to_owned(),
                (None, false) => "these rows".to_owned(),
            };
            let verb = if owned.is_model || owned.name.is_some() { "is" } else { "are" };
            let mut diagnostic = Diagnostic::warning("value.unused", format!("{what} {verb} never used"))
                .label(owned.made_at, "made here");
            // A stage that writes such a value out.
            let saver = self.catalog.stages.iter().find(|stage| {
                let writes = stage.args.iter().any(|arg| arg.kind.0.contains(&crate::catalog::Atom::Output));
                let fits = |input: &InputDecl| owned.kind.is_some_and(|kind| input.pattern.accepts(kind));
                writes && stage.inputs.iter().any(fits)
            });
            let example = saver.filter(|_| owned.of.is_some()).and_then(|stage| stage.examples.first());
            diagnostic = match example {
                Some(example) => diagnostic.help(format!("save it, for example `{}`", example.trim())),
                None => diagnostic.help("use it in a stage below, or remove this line"),
            };
            found.push(diagnostic);
        }
        self.diagnostics.extend(found);
    }
}
