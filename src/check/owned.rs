//! Values that pass from stage to stage, each with one owner.

use crate::catalog::{Pattern, StageDecl};
use crate::plan::{Type, Value, ValueId, Weights};
use crate::text::Span;

/// A model or data on its way through the pipeline.
#[derive(Debug, Clone)]
pub(super) struct Owned {
    pub is_model: bool,
    /// None: made by a stage with an error, and then it passes for anything.
    pub kind: Option<Type>,
    pub name: Option<String>,
    pub made_by: usize,
    /// The words of the stage that makes it, or the whole unreadable statement.
    pub made_at: Span,
    /// The stage that makes it: `train lora`.
    pub maker: String,
    /// The value it was made of.
    pub of: Option<ValueId>,
    pub taken: Option<(usize, Span)>,
    pub last_use: Option<usize>,
}

#[derive(Default)]
pub(super) struct Values {
    all: Vec<Owned>,
    /// Alive and unnamed, in order.
    models: Vec<ValueId>,
    data: Vec<ValueId>,
}

impl Values {
    pub fn get(&self, id: ValueId) -> &Owned {
        &self.all[id.0]
    }

    pub fn iter(&self) -> impl Iterator<Item = (ValueId, &Owned)> {
        self.all.iter().enumerate().map(|(at, owned)| (ValueId(at), owned))
    }

    /// Unnamed values of a sort that nobody has taken.
    pub fn unnamed(&self, is_model: bool) -> &[ValueId] {
        if is_model { &self.models } else { &self.data }
    }

    pub fn make(&mut self, owned: Owned) -> ValueId {
        let id = ValueId(self.all.len());
        if owned.name.is_none() {
            if owned.is_model { self.models.push(id) } else { self.data.push(id) }
        }
        self.all.push(owned);
        id
    }

    /// A value that no stage finds by itself.
    pub fn hide(&mut self, owned: Owned) -> ValueId {
        self.all.push(owned);
        ValueId(self.all.len() - 1)
    }

    pub fn rename(&mut self, id: ValueId, name: Option<String>) {
        if let Some(owned) = self.all.get_mut(id.0) {
            owned.name = name;
        }
    }

    /// Other lists of what is alive and unnamed, for the length of a recipe's body; returns those there were.
    pub fn swap_unnamed(&mut self, models: Vec<ValueId>, data: Vec<ValueId>) -> (Vec<ValueId>, Vec<ValueId>) {
        (std::mem::replace(&mut self.models, models), std::mem::replace(&mut self.data, data))
    }

    /// The one of some values that `id` was made of, by however many stages.
    pub fn root(&self, id: ValueId, mut of: impl Iterator<Item = ValueId> + Clone) -> Option<ValueId> {
        let mut made = id;
        while let Some(before) = self.get(made).of {
            if of.clone().any(|other| other == before) {
                return of.find(|other| *other == before);
            }
            made = before;
        }
        None
    }

    /// A value that a recipe leaves, as its caller knows it: made by the call, of `of`.
    pub fn hand_back(&mut self, id: ValueId, name: Option<String>, call: Span, maker: &str, of: Option<ValueId>) {
        let Some(owned) = self.all.get_mut(id.0) else { return };
        owned.name = name;
        owned.made_at = call;
        owned.maker = maker.to_owned();
        owned.of = of;
        if owned.name.is_none() {
            if owned.is_model { self.models.push(id) } else { self.data.push(id) }
        }
    }

    pub fn take(&mut self, id: ValueId, step: usize, span: Span) {
        if let Some(owned) = self.all.get_mut(id.0) {
            owned.taken = Some((step, span));
            owned.last_use = Some(step);
        }
        self.models.retain(|other| *other != id);
        self.data.retain(|other| *other != id);
    }

    pub fn borrow(&mut self, id: ValueId, step: usize) {
        if let Some(owned) = self.all.get_mut(id.0) {
            owned.last_use = Some(step);
        }
    }

    /// What a stage that cannot be read would have taken and made.
    pub fn guess(&mut self, decl: &StageDecl, span: Span) {
        for input in decl.inputs.iter().filter(|input| input.takes) {
            if let [only] = self.unnamed(input.pattern.is_model()) {
                self.take(*only, 0, span);
            }
        }
        for pattern in &decl.makes {
            self.make(Owned {
                is_model: pattern.is_model(),
                kind: None,
                name: None,
                made_by: 0,
                made_at: span,
                maker: decl.name.clone(),
                of: None,
                taken: None,
                last_use: None,
            });
        }
    }

    /// The nearest value that `id` was made of and that a pattern accepts, with the value that was made of it.
    pub fn earlier(&self, id: ValueId, pattern: Pattern) -> Option<(ValueId, ValueId)> {
        let mut made = id;
        while let Some(of) = self.get(made).of {
            if self.get(of).kind.is_some_and(|kind| pattern.accepts(kind)) {
                return Some((of, made));
            }
            made = of;
        }
        None
    }

    pub fn finish(self) -> Vec<Value> {
        let value = |owned: Owned| Value {
            // Only a file with errors has values of unknown type, and that makes no plan.
            kind: owned.kind.unwrap_or(Type::Model { weights: Weights::Dense, lora: false }),
            name: owned.name,
            made_by: owned.made_by,
            taken_by: owned.taken.map(|(step, _)| step),
            last_use: owned.last_use.unwrap_or(owned.made_by),
        };
        self.all.into_iter().map(value).collect()
    }
}
