//! Recipes: declared and checked once with their parameters open, then opened up at every call.
//!
//! A recipe sees its parameters only. A model or data that it is given has no name of its own inside, so that the
//! recipe's stages find it as any unnamed value, and goes by the parameter's name as well; what a stage makes of it
//! keeps that. What is alive and unnamed at the end is the caller's.

use std::collections::HashMap;
use std::rc::Rc;

use super::Checker;
use super::names::{Datum, Named, What, below};
use super::owned::Owned;
use super::stage::Filled;
use crate::catalog::{InputDecl, Kind, StageDecl, signature};
use crate::plan::{CallArg, Val, ValueId};
use crate::syntax::{Expr, RecipeLine, StageLine, Word};
use crate::text::{Diagnostic, Label, Span};

/// Calls in calls.
const DEEPEST: usize = 32;

/// Stages that all bodies of one pipeline may come to: recipes that call one another twice double with each.
const MOST: usize = 20_000;

const CALLED: &str = "called here";

pub(super) struct Recipe<'a> {
    pub line: &'a RecipeLine,
    pub decl: StageDecl,
    /// Defaults of the arguments, in their order.
    defaults: Vec<Option<Datum>>,
    /// The file's recipes, and how many of them stand above this one: those it may call.
    scope: usize,
    order: usize,
    /// It has an error, which is reported at its own lines.
    broken: bool,
}

/// A recipe in a file's reach.
pub(super) struct Reach<'a> {
    /// Something calls it by this name.
    called: bool,
    pub recipe: Rc<Recipe<'a>>,
    /// Where its name comes from: its declaration, or a `use` line.
    pub span: Span,
    order: usize,
    used: Option<usize>,
}

/// A recipe as a file can call it, for its page.
#[derive(Debug, Clone)]
pub struct Declared {
    /// Its signature, under the name it is called by.
    pub decl: StageDecl,
    /// Its declaration, in the file that holds it.
    pub span: Span,
}

/// What a parameter is inside.
enum Bound {
    Value(ValueId),
    /// An input that may be left out, and is.
    Absent,
    Setting(What, Span),
}

/// The caller's values that a call gives, with the names they go by there.
type Lent = Vec<(ValueId, Option<String>)>;

/// A caller's state while a recipe's body is looked at.
struct Frame<'a> {
    names: HashMap<String, Named>,
    below: HashMap<&'a str, Span>,
    scope: usize,
    order: usize,
    models: Vec<ValueId>,
    data: Vec<ValueId>,
}

impl<'a> Checker<'a> {
    /// The file's own recipes and those that it uses, in their order, without those that have an error.
    pub fn reachable(&self) -> Vec<Declared> {
        let library = |reach: &Reach<'_>| {
            self.library
                .modules
                .iter()
                .any(|one| one.used_at.is_none() && one.file.source == reach.recipe.line.span.source)
        };
        let mut found: Vec<(usize, Declared)> = Vec::new();
        for (name, reach) in self.scopes.first().into_iter().flat_map(|scope| &scope.recipes) {
            if reach.recipe.broken || library(reach) {
                continue;
            }
            let decl = StageDecl { name: name.clone(), ..reach.recipe.decl.clone() };
            found.push((reach.order, Declared { decl, span: reach.recipe.line.span }));
        }
        found.sort_by(|(one, first), (other, second)| (one, &first.decl.name).cmp(&(other, &second.decl.name)));
        found.into_iter().map(|(_, declared)| declared).collect()
    }

    /// `recipe …`: its signature, and its body with every parameter open.
    pub fn recipe(&mut self, line: &'a RecipeLine) {
        if self.catalog.stage(&line.name.text).is_some() {
            self.report(
                Diagnostic::error("recipe.stage", format!("`{}` is a stage already", line.name.text))
                    .label(line.name.span, "cannot be a recipe's name")
                    .help("choose another name"),
            );
        } else if self.catalog.recipe(&line.name.text).is_some() && !self.standard_file(line) {
            self.report(
                Diagnostic::warning("name.shadow", format!("`{}` is your recipe here", line.name.text))
                    .label(line.name.span, "the standard library has one of this name")
                    .help("rename yours if both are wanted"),
            );
        }
        let before = self.errors();
        let mut defaults = Vec::new();
        let (decl, diagnostics) = signature(line, &mut |kind, expr, name| {
            let datum = self.param_default(kind, expr, name);
            let val = datum.as_ref().map(|datum| datum.val.clone());
            defaults.push(datum);
            // A default with an error is still a default.
            val.or(expr.map(|_| Val::None))
        });
        self.diagnostics.extend(diagnostics);
        self.untyped(line);
        let order = self.scopes[self.scope].recipes.len();
        let mut recipe = Recipe { line, decl, defaults, scope: self.scope, order, broken: false };
        if self.errors() == before {
            self.try_body(&recipe);
        }
        let broken =
            self.errors() > before || line.body.iter().any(|item| matches!(item, crate::syntax::Item::Broken(_)));
        recipe.broken = broken;
        self.declare_recipe(&line.name, Rc::new(recipe), None);
    }

    fn standard_file(&self, line: &RecipeLine) -> bool {
        self.library.modules.iter().any(|module| module.used_at.is_none() && module.file.source == line.span.source)
    }

    fn errors(&self) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count()
    }

    fn param_default(&mut self, kind: &Kind, expr: Option<&Expr>, name: &Word) -> Option<Datum> {
        let Some(expr) = expr else { return kind.is_flag().then(|| Datum::plain(Val::Bool(false))) };
        self.default(expr, Some(kind), &name.text)
    }

    /// `recipe r(model)`: a name that is a stage's input as a rule, with no word on what it is.
    fn untyped(&mut self, line: &RecipeLine) {
        for param in &line.params {
            let open = matches!(param.kind, crate::syntax::ParamKind::Open) && param.default.is_none();
            let inputs = || self.catalog.stages.iter().flat_map(|stage| &stage.inputs);
            let Some(input) = inputs().find(|input| open && input.name == param.name.text) else { continue };
            let write = if input.pattern.is_model() { "Model" } else { "Data" };
            let name = &param.name.text;
            let diagnostic = Diagnostic::error("recipe.untyped", format!("what `{name}` is has to be said"))
                .label(param.name.span, "a parameter without a type is a setting")
                .help(format!("write `{name}: {write}`"));
            self.report(diagnostic);
        }
    }

    pub fn declare_recipe(&mut self, name: &Word, recipe: Rc<Recipe<'a>>, used: Option<usize>) {
        if let Some(old) = self.scopes[self.scope].recipes.get(&name.text) {
            let old = old.span;
            self.report(
                Diagnostic::error("name.twice", format!("`{}` is declared twice", name.text))
                    .label(name.span, "the second time")
                    .label(old, "the first time")
                    .help(if used.is_some() {
                        "give this file a name: `use … as name`"
                    } else {
                        "choose another name here"
                    }),
            );
            return;
        }
        let scope = &mut self.scopes[self.scope];
        let order = scope.recipes.len();
        scope.recipes.insert(name.text.clone(), Reach { called: false, recipe, span: name.span, order, used });
    }

    /// The recipe that a statement's first word calls.
    pub fn recipe_at(&mut self, word: &str) -> Option<Rc<Recipe<'a>>> {
        let order = self.order;
        match self.scopes[self.scope].recipes.get_mut(word) {
            Some(reach) if reach.order < order => {
                reach.called = true;
                let (recipe, used) = (reach.recipe.clone(), reach.used);
                if let Some(used) = used.and_then(|at| self.uses.get_mut(at)) {
                    used.called = true;
                }
                Some(recipe)
            }
            _ => self.standard_recipe(word),
        }
    }

    /// Names of recipes in reach, for a word that is none.
    pub fn recipe_names(&self) -> impl Iterator<Item = &str> {
        let own = self.scopes[self.scope].recipes.iter().filter(|(_, reach)| reach.order < self.order);
        let standard = self.catalog.recipes.iter().map(|recipe| &*recipe.decl.name);
        own.map(|(name, _)| &**name).chain(standard)
    }

    /// Recipes of the pipeline's own file that nothing calls; a file of recipes alone is there to be used by others.
    pub fn idle_recipes(&mut self) {
        let Some(scope) = self.scopes.first().filter(|_| !self.steps.is_empty()) else { return };
        let idle = scope.recipes.iter().filter(|(_, reach)| !reach.called && reach.used.is_none());
        let mut idle: Vec<(&String, Span)> = idle.map(|(name, reach)| (name, reach.span)).collect();
        idle.sort_by_key(|(_, span)| span.start);
        let found: Vec<Diagnostic> = idle
            .into_iter()
            .map(|(name, span)| {
                Diagnostic::warning("name.unused", format!("`{name}` is never called"))
                    .label(span, "declared here")
                    .help("call it, or move it to a file of recipes")
            })
            .collect();
        self.diagnostics.extend(found);
    }

    /// Looks at a body with every parameter open: what is wrong whatever a call gives is said once, here.
    fn try_body(&mut self, recipe: &Recipe<'a>) {
        let owned = std::mem::take(&mut self.owned);
        let steps = std::mem::take(&mut self.steps);
        let unread = std::mem::replace(&mut self.unread, false);
        let trying = std::mem::replace(&mut self.trying, true);
        let mut bound = Vec::new();
        for input in &recipe.decl.inputs {
            let kind = input.pattern.made_of(None);
            let owned = Owned { kind, ..placeholder(input, recipe.line.name.span) };
            bound.push((input.name.clone(), Bound::Value(self.owned.make(owned))));
        }
        for (arg, default) in recipe.decl.args.iter().zip(&recipe.defaults) {
            let what = match default {
                Some(datum) if datum.val != Val::None => What::Known(datum.clone()),
                _ => What::Open,
            };
            bound.push((arg.name.clone(), Bound::Setting(what, recipe.line.name.span)));
        }
        let frame = self.enter(recipe, bound);
        for item in &recipe.line.body {
            self.item(item);
        }
        let used: Vec<bool> = recipe
            .line
            .params
            .iter()
            .map(|param| self.names.get(&param.name.text).is_none_or(|named| named.used))
            .collect();
        let lets = self.idle_names(recipe);
        let _ = self.leave(frame);
        // The unnamed value of its type may serve without being named.
        let borrowed = |name: &str| {
            let at = recipe.decl.inputs.iter().position(|input| input.name == name);
            at.is_some_and(|at| self.owned.get(ValueId(at)).last_use.is_some())
        };
        let idle: Vec<Diagnostic> = recipe
            .line
            .params
            .iter()
            .zip(used)
            .filter(|(param, used)| !used && !borrowed(&param.name.text))
            .map(|(param, _)| {
                Diagnostic::warning("name.unused", format!("`{}` is never used", param.name.text))
                    .label(param.name.span, "a parameter")
                    .help("use it, or remove it")
            })
            .collect();
        if !self.unread {
            self.diagnostics.extend(idle);
            self.diagnostics.extend(lets);
        }
        self.owned = owned;
        self.steps = steps;
        self.unread = unread;
        self.trying = trying;
    }

    /// Lets of a body that nothing uses.
    fn idle_names(&self, recipe: &Recipe<'a>) -> Vec<Diagnostic> {
        let lets = recipe.line.body.iter().filter_map(|item| match item {
            crate::syntax::Item::Let(line) => self.names.get(&line.name.text).map(|named| (line, named)),
            _ => None,
        });
        lets.filter(|(_, named)| !named.used)
            .map(|(line, named)| {
                Diagnostic::warning("name.unused", format!("`{}` is never used", line.name.text))
                    .label(named.span, "declared here")
                    .help("use it, or remove the line")
            })
            .collect()
    }

    /// A statement that calls a recipe.
    pub fn call(&mut self, line: &'a StageLine, name: Span, recipe: &Rc<Recipe<'a>>) {
        if recipe.broken {
            self.unread = true;
            if let Some(alias) = &line.alias {
                self.names.insert(alias.text.clone(), Named::unknown(alias.span));
            }
            return;
        }
        if self.calls.len() >= DEEPEST || self.opened >= MOST {
            self.unread = true;
            // Said once, however many calls there are.
            if !std::mem::replace(&mut self.too_large, true) {
                let (code, message) = if self.calls.len() >= DEEPEST {
                    ("recipe.deep", format!("recipes call one another more than {DEEPEST} deep"))
                } else {
                    ("recipe.large", format!("recipes come to more than {MOST} stages"))
                };
                self.report(Diagnostic::error(code, message).label(name, "not opened up any more"));
            }
            return;
        }
        let filled = self.fill(line, 1, name, &recipe.decl);
        let said = self.errors();
        self.missing(&filled, line.span);
        let incomplete = self.errors() > said;
        let (bound, given) = self.bind(&filled, recipe, line.span);
        let before = self.diagnostics.len();
        self.calls.push(name);
        let frame = self.enter(recipe, bound);
        self.unread |= incomplete;
        for item in &recipe.line.body {
            self.item(item);
        }
        let left = self.leave(frame);
        self.calls.pop();
        self.said_inside(before, recipe, name);
        self.hand_back(recipe, line.alias.as_ref(), name, &given, left);
    }

    /// What each parameter is: a value of the caller's, or a setting.
    fn bind(&mut self, filled: &Filled<'_>, recipe: &Recipe<'a>, call: Span) -> (Vec<(String, Bound)>, Lent) {
        let (mut bound, mut given) = (Vec::new(), Vec::new());
        for (input, id) in filled.decl.inputs.iter().zip(self.inputs(filled)) {
            let what = match id.map(|ids| ids.first().copied()) {
                Ok(Some((id, _))) => {
                    if !given.iter().any(|(known, _)| *known == id) {
                        given.push((id, self.owned.get(id).name.clone()));
                        self.owned.rename(id, None);
                    }
                    Bound::Value(id)
                }
                Ok(None) => Bound::Absent,
                // Reported: anything may stand for it inside.
                Err(()) => Bound::Value(self.owned.hide(placeholder(input, filled.name_span))),
            };
            bound.push((input.name.clone(), what));
        }
        let top = self.calls.is_empty();
        for ((arg, given), default) in filled.decl.args.iter().zip(&filled.args).zip(&recipe.defaults) {
            let (datum, span) = match given {
                Some((datum, span)) => (datum.clone(), Some(*span)),
                None => (default.clone().or_else(|| arg.default.clone().map(Datum::plain)), None),
            };
            let what = match datum {
                Some(mut datum) => {
                    // Of a call in a recipe, the parameter's own origin is what the pipeline says.
                    if top {
                        datum.from = Some(Rc::new(CallArg { name: Some(arg.name.clone()), span, call }));
                    } else if span.is_none() {
                        let call = self.calls.first().copied().unwrap_or(call);
                        datum.from = Some(Rc::new(CallArg { name: None, span: None, call }));
                    }
                    What::Known(datum)
                }
                None => What::Unknown,
            };
            bound.push((arg.name.clone(), Bound::Setting(what, span.unwrap_or(filled.name_span))));
        }
        (bound, given)
    }

    fn enter(&mut self, recipe: &Recipe<'a>, bound: Vec<(String, Bound)>) -> Frame<'a> {
        let (mut models, mut data) = (Vec::new(), Vec::new());
        let mut names = HashMap::new();
        for (name, what) in bound {
            let (what, span) = match what {
                Bound::Value(id) => {
                    let owned = self.owned.get(id);
                    let list = if owned.is_model { &mut models } else { &mut data };
                    if owned.taken.is_none() && !list.contains(&id) {
                        list.push(id);
                    }
                    (What::Owned(id), owned.made_at)
                }
                Bound::Absent => (What::Absent, recipe.line.name.span),
                Bound::Setting(what, span) => (what, span),
            };
            names.insert(name, Named { span, used: false, what, follows: true });
        }
        let (models, data) = self.owned.swap_unnamed(models, data);
        Frame {
            names: std::mem::replace(&mut self.names, names),
            below: std::mem::replace(&mut self.below, below(&recipe.line.body)),
            scope: std::mem::replace(&mut self.scope, recipe.scope),
            order: std::mem::replace(&mut self.order, recipe.order),
            models,
            data,
        }
    }

    /// Back to the caller; what the body leaves alive and unnamed.
    fn leave(&mut self, frame: Frame<'a>) -> Vec<ValueId> {
        self.names = frame.names;
        self.below = frame.below;
        self.scope = frame.scope;
        self.order = frame.order;
        let (models, data) = self.owned.swap_unnamed(frame.models, frame.data);
        models.into_iter().chain(data).collect()
    }

    /// What was found in a body is shown at the call too; what is wrong with the body itself was said before.
    fn said_inside(&mut self, before: usize, recipe: &Recipe<'a>, call: Span) {
        let home = recipe.line.span;
        let within = |span: Span| span.source == home.source && home.start <= span.start && span.end <= home.end;
        let new = self.diagnostics.split_off(before);
        for mut diagnostic in new {
            let inside = diagnostic.labels.first().is_some_and(|label| within(label.span));
            if inside && !diagnostic.is_error() {
                continue;
            }
            let calls = || diagnostic.labels.iter().filter(|label| label.text == CALLED).count();
            if inside || calls() > 0 {
                // Of a long chain, its two ends.
                if calls() >= 2 {
                    diagnostic.labels.pop();
                }
                diagnostic.labels.push(Label { span: call, text: CALLED.into() });
            }
            self.diagnostics.push(diagnostic);
        }
    }

    /// Values go back to the caller: those it gave under their names if they are still there, what was made of them in
    /// their place, and what is new.
    fn hand_back(&mut self, recipe: &Recipe<'a>, alias: Option<&Word>, call: Span, given: &Lent, left: Vec<ValueId>) {
        for (id, name) in given {
            match self.owned.get(*id).taken {
                Some((step, _)) => self.owned.take(*id, step, call),
                None => self.owned.rename(*id, name.clone()),
            }
        }
        let fresh: Vec<ValueId> = left.into_iter().filter(|id| !given.iter().any(|(known, _)| known == id)).collect();
        if let Some(alias) = alias {
            let problem = match fresh.len() {
                0 => Some(("value.nothing", format!("`{}` makes nothing that could be named", recipe.decl.name))),
                1 => None,
                n => {
                    Some(("recipe.several", format!("`{}` makes {n} values, and one name is given", recipe.decl.name)))
                }
            };
            if let Some((code, message)) = problem.filter(|_| !self.unread) {
                self.report(
                    Diagnostic::error(code, message)
                        .label(alias.span, "names what?")
                        .help(format!("remove `as {}`", alias.text)),
                );
            }
        }
        for id in &fresh {
            let root = self.owned.root(*id, given.iter().map(|(id, _)| *id));
            let old = root.and_then(|root| given.iter().find(|(id, _)| *id == root)).and_then(|(_, name)| name.clone());
            let name = match alias {
                Some(alias) if old.as_deref() == Some(&*alias.text) => old,
                Some(alias) if fresh.len() == 1 => self.free(alias).then(|| alias.text.clone()),
                _ => old,
            };
            let declared = match (alias, name.as_ref().and_then(|name| self.names.get(name))) {
                (_, Some(named)) => named.span,
                (Some(alias), None) => alias.span,
                (None, None) => call,
            };
            if let Some(name) = &name {
                let named = Named { span: declared, used: false, what: What::Owned(*id), follows: false };
                self.names.insert(name.clone(), named);
            } else if let Some(root) = root {
                self.follow(root, *id);
            }
            self.owned.hand_back(*id, name, call, &recipe.decl.name, root);
        }
    }

    /// A recipe's parameter goes on as what was made of it.
    pub fn follow(&mut self, old: ValueId, new: ValueId) {
        // Outside recipes no name follows.
        if self.order == usize::MAX {
            return;
        }
        for named in self.names.values_mut().filter(|named| named.follows) {
            if matches!(named.what, What::Owned(id) if id == old) {
                named.what = What::Owned(new);
            }
        }
    }
}

/// A value that passes for anything of its sort.
fn placeholder(input: &InputDecl, made_at: Span) -> Owned {
    Owned {
        is_model: input.pattern.is_model(),
        kind: None,
        name: None,
        made_by: 0,
        made_at,
        maker: "the call".into(),
        of: None,
        taken: None,
        last_use: None,
    }
}
