//! What the language offers: stages with their signatures, devices, shapes. Declared in `stdlib/*.tp`, in the language
//! itself, embedded in the binary; checker, manual and completion all read it here.

pub mod codes;
mod fit;
mod kind;
mod load;
mod recipe;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::OnceLock;

pub use fit::Misfit;
pub use kind::{AdapterPattern, Atom, Kind, Pattern, WeightsPattern};
pub use recipe::{RecipeDecl, signature};

use crate::plan::{Device, Val};

/// A stage's signature.
#[derive(Debug, Clone)]
pub struct StageDecl {
    /// All words of it: `train lora`.
    pub name: String,
    pub doc: String,
    pub inputs: Vec<InputDecl>,
    /// What the stage makes.
    pub makes: Vec<Pattern>,
    pub args: Vec<ArgDecl>,
    /// Statements, each example a text of its own.
    pub examples: Vec<String>,
}

impl StageDecl {
    pub fn arg(&self, name: &str) -> Option<&ArgDecl> {
        self.args.iter().find(|arg| arg.name == name)
    }

    pub fn input(&self, name: &str) -> Option<&InputDecl> {
        self.inputs.iter().find(|input| input.name == name)
    }
}

/// A value the stage takes or borrows.
#[derive(Debug, Clone)]
pub struct InputDecl {
    pub name: String,
    /// Taken: it is gone afterwards. Else borrowed.
    pub takes: bool,
    pub pattern: Pattern,
    /// Two or more of them: those that are named, or all that are unnamed.
    pub many: bool,
    /// Filled only when it is given by name.
    pub optional: bool,
    pub doc: String,
}

/// An argument the user may write.
#[derive(Debug, Clone)]
pub struct ArgDecl {
    pub name: String,
    /// May stand without its name.
    pub positional: bool,
    pub kind: Kind,
    /// None: the user has to give it.
    pub default: Option<Val>,
    pub doc: String,
}

/// A card or machine of the catalogue.
#[derive(Debug, Clone)]
pub struct DeviceDecl {
    pub name: String,
    pub device: Device,
    pub doc: String,
}

/// A published model's sizes, as they are written.
#[derive(Debug, Clone)]
pub struct ShapeDecl {
    pub name: String,
    /// In the order of the text; a bare word is true.
    pub keys: Vec<(String, Val)>,
    pub doc: String,
}

#[derive(Debug, Clone, Default)]
pub struct Catalog {
    pub stages: Vec<StageDecl>,
    pub devices: Vec<DeviceDecl>,
    pub shapes: Vec<ShapeDecl>,
    /// The standard library's recipes.
    pub recipes: Vec<RecipeDecl>,
    by_name: HashMap<String, usize>,
    /// Words of the longest stage name.
    longest: usize,
}

impl Catalog {
    /// The catalogue in this binary. A test holds it to load without a complaint.
    pub fn standard() -> &'static Catalog {
        static STANDARD: OnceLock<Catalog> = OnceLock::new();
        STANDARD.get_or_init(|| load::standard().0)
    }

    /// The stage with the longest name that these words start with, and how many words that name has.
    pub fn stage_at(&self, words: &[&str]) -> Option<(usize, &StageDecl)> {
        (1..=words.len().min(self.longest)).rev().find_map(|count| {
            let name = words.get(..count)?.join(" ");
            self.stage(&name).map(|stage| (count, stage))
        })
    }

    pub fn stage(&self, name: &str) -> Option<&StageDecl> {
        self.by_name.get(name).and_then(|at| self.stages.get(*at))
    }

    pub fn recipe(&self, name: &str) -> Option<&RecipeDecl> {
        self.recipes.iter().find(|recipe| recipe.decl.name == name)
    }

    pub fn device(&self, name: &str) -> Option<&DeviceDecl> {
        self.devices.iter().find(|device| device.name == name)
    }

    /// The device that was probably meant: one that has the word as a part (`T4` for `colab-t4`), or is spelt alike.
    pub fn near_device(&self, name: &str) -> Option<&str> {
        let names = || self.devices.iter().map(|device| &*device.name);
        let lower = name.to_lowercase();
        let part = names().find(|known| known.split('-').any(|part| part == lower));
        part.or_else(|| crate::text::nearest(name, names()))
    }

    pub fn shape(&self, name: &str) -> Option<&ShapeDecl> {
        self.shapes.iter().find(|shape| shape.name == name)
    }
}
