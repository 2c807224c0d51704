//! Whether a value is of a kind.

use std::path::Path;

use super::{Atom, Catalog, Kind};
use crate::plan::{Unit, Val};
use crate::syntax::Range;
use crate::text::{joined, nearest};

/// Why a value is not of a kind. Later variants are the more telling ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misfit {
    /// Another kind altogether.
    Kind,
    /// No symbol of that name; the nearest there is.
    Symbol(Option<String>),
    /// Not a list, but it could be an item of one.
    NotList,
    /// A number whose unit is missing or another one; how the unit is written.
    Unit(&'static str),
    /// Has to be whole.
    Whole,
    /// Right but for its range, in words.
    Range(String),
    /// A path that cannot be meant.
    Path(&'static str),
}

impl Catalog {
    /// The value as its kind holds it: an Int becomes a Float where that is wanted, a text a path joined to `folder`.
    pub fn fit(&self, kind: &Kind, val: &Val, folder: &Path) -> Result<Val, Misfit> {
        // Where several paths may stand, one may be a pattern of them.
        let several = kind.0.iter().any(|atom| matches!(atom, Atom::List(items) if items.takes_path()));
        self.fit_in(kind, val, folder, several)
    }

    fn fit_in(&self, kind: &Kind, val: &Val, folder: &Path, several: bool) -> Result<Val, Misfit> {
        if kind.0.is_empty() {
            return Ok(val.clone());
        }
        let mut worst = Misfit::Kind;
        for atom in &kind.0 {
            match self.fit_atom(atom, val, folder, several) {
                Ok(val) => return Ok(val),
                Err(misfit) => worst = worst.max(misfit),
            }
        }
        if let (Val::Symbol(name), Misfit::Kind | Misfit::Symbol(_)) = (val, &worst) {
            let shapes = self.shapes.iter().map(|shape| &*shape.name).filter(|_| kind.0.contains(&Atom::Shape));
            worst = Misfit::Symbol(nearest(name, kind.symbols().chain(shapes)).map(str::to_owned));
        }
        Err(worst)
    }

    fn fit_atom(&self, atom: &Atom, val: &Val, folder: &Path, several: bool) -> Result<Val, Misfit> {
        match (atom, val) {
            (Atom::Int(range), Val::Int(n)) => within(range, *n as f64).map(|()| val.clone()),
            (Atom::Int(_), Val::Float(_)) => Err(Misfit::Whole),
            (Atom::Float(range), Val::Int(n)) => within(range, *n as f64).map(|()| Val::Float(*n as f64)),
            (Atom::Float(range), Val::Float(x)) => within(range, *x).map(|()| val.clone()),
            (Atom::Bool, Val::Bool(_)) | (Atom::Bytes, Val::Bytes(_)) => Ok(val.clone()),
            (Atom::Bytes, Val::Int(_) | Val::Float(_)) => Err(Misfit::Unit("GiB")),
            (Atom::String, Val::Str(_)) => Ok(val.clone()),
            (Atom::String, Val::Path(path)) => Ok(Val::Str(path.display().to_string())),
            (Atom::Path, Val::Str(text)) => path(text, folder, !several),
            (Atom::Output, Val::Str(text)) => path(text, folder, false),
            (Atom::Path | Atom::Output, Val::Path(_)) => Ok(val.clone()),
            (Atom::Percent(range), _) => quantity(val, Unit::Percent, range),
            (Atom::Steps(range), _) => quantity(val, Unit::Steps, range),
            (Atom::Epochs(range), _) => quantity(val, Unit::Epochs, range),
            (Atom::Rows(range), _) => quantity(val, Unit::Rows, range),
            (Atom::Shape, Val::Symbol(name)) if self.shape(name).is_some() => Ok(val.clone()),
            (Atom::Shape, Val::Symbol(_)) => Err(Misfit::Symbol(None)),
            (Atom::None, Val::None) => Ok(Val::None),
            (Atom::Symbol(wanted), Val::Symbol(name)) if wanted == name => Ok(val.clone()),
            (Atom::Symbol(_), Val::Symbol(_)) => Err(Misfit::Symbol(None)),
            (Atom::List(kind), Val::List(items)) => items
                .iter()
                .map(|item| self.fit_in(kind, item, folder, several))
                .collect::<Result<_, _>>()
                .map(Val::List),
            (Atom::List(kind), one) if self.fit_in(kind, one, folder, several).is_ok() => Err(Misfit::NotList),
            _ => Err(Misfit::Kind),
        }
    }
}

fn within(range: &Range, x: f64) -> Result<(), Misfit> {
    match (range.low, range.high) {
        (Some(low), Some(high)) if x < low || x > high => {
            Err(Misfit::Range(format!("has to lie between {low} and {high}")))
        }
        (Some(low), None) if x < low => Err(Misfit::Range(format!("has to be at least {low}"))),
        (None, Some(high)) if x > high => Err(Misfit::Range(format!("has to be at most {high}"))),
        _ => Ok(()),
    }
}

fn quantity(val: &Val, unit: Unit, range: &Range) -> Result<Val, Misfit> {
    let written = match unit {
        Unit::Percent => "%",
        Unit::Steps => "steps",
        Unit::Epochs => "epochs",
        Unit::Rows => "rows",
    };
    match val {
        Val::Quantity(x, found) if *found == unit => {
            if matches!(unit, Unit::Steps | Unit::Rows) && x.fract() != 0.0 {
                return Err(Misfit::Whole);
            }
            if unit == Unit::Epochs && *x <= 0.0 {
                return Err(Misfit::Range("has to be more than 0 epochs".into()));
            }
            within(range, *x).map(|()| val.clone())
        }
        Val::Int(_) | Val::Float(_) | Val::Quantity(..) => Err(Misfit::Unit(written)),
        _ => Err(Misfit::Kind),
    }
}

fn path(text: &str, folder: &Path, is_one_input: bool) -> Result<Val, Misfit> {
    if text.trim().is_empty() {
        return Err(Misfit::Path("it is empty"));
    }
    if text.contains('\0') {
        return Err(Misfit::Path("it holds a zero byte"));
    }
    if text == "~" || text.starts_with("~/") {
        return Err(Misfit::Path("`~` is not expanded: write the folder out"));
    }
    if is_one_input && text.contains(['*', '?']) {
        return Err(Misfit::Path("one file or folder is meant here, not a pattern of several"));
    }
    Ok(Val::Path(joined(folder, text)))
}
