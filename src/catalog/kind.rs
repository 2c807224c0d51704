//! Types of arguments and of values that pass from stage to stage.

use std::fmt;

use crate::plan::{Type, Weights};
use crate::syntax::{self, Range};
use crate::text::{Diagnostic, nearest};

/// One of several kinds of value, as `Float 0..|none`; none at all is anything, which only a recipe's parameter is.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind(pub Vec<Atom>);

#[derive(Debug, Clone, PartialEq)]
pub enum Atom {
    Int(Range),
    Float(Range),
    Bool,
    String,
    /// A file or folder that is read.
    Path,
    /// A file or folder that is made.
    Output,
    Bytes,
    Percent(Range),
    Steps(Range),
    Epochs(Range),
    Rows(Range),
    /// The name of a shape of the catalogue.
    Shape,
    None,
    Symbol(String),
    List(Kind),
}

const NAMES: [&str; 12] =
    ["Int", "Float", "Bool", "String", "Path", "Output", "Bytes", "Percent", "Steps", "Epochs", "Rows", "Shape"];

impl Kind {
    /// Reads a kind as it is written after `name:`.
    pub fn read(written: &syntax::Kind) -> Result<Kind, Diagnostic> {
        written.atoms.iter().map(Atom::read).collect::<Result<_, _>>().map(Kind)
    }

    /// Reads a param's kind. A lone symbol there that is nearly a type (`string`) is meant as the type.
    pub fn read_param(written: &syntax::Kind) -> Result<Kind, Diagnostic> {
        if let [syntax::KindAtom::Name { name, range: None }] = &written.atoms[..]
            && let Some(near) = nearest_type(&name.text).filter(|near| *near != name.text)
        {
            return Err(Diagnostic::error("type.unknown", format!("there is no type `{}`", name.text))
                .label(name.span, "types start with a capital letter")
                .help(format!("write `{near}`")));
        }
        Kind::read(written)
    }

    /// The symbols it accepts.
    pub fn symbols(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|atom| match atom {
            Atom::Symbol(name) => Some(&**name),
            _ => None,
        })
    }

    pub fn is_flag(&self) -> bool {
        self.0 == [Atom::Bool]
    }

    pub fn has_symbol(&self, name: &str) -> bool {
        self.symbols().any(|symbol| symbol == name)
    }

    /// Whether a quoted text may stand for it.
    pub fn takes_text(&self) -> bool {
        self.0.iter().any(|atom| matches!(atom, Atom::String | Atom::Path | Atom::Output))
    }

    pub fn takes_path(&self) -> bool {
        self.0.iter().any(|atom| match atom {
            Atom::Path | Atom::Output => true,
            Atom::List(kind) => kind.takes_path(),
            _ => false,
        })
    }

    /// In words: `a whole number from 1 to 1024`, `f32, bf16 or none`.
    pub fn words(&self) -> String {
        if self.0.is_empty() {
            return "any setting".into();
        }
        join(self.0.iter().map(Atom::words).collect())
    }
}

/// `a`, `a or b`, `a, b or c`.
fn join(mut words: Vec<String>) -> String {
    match words.pop() {
        None => String::new(),
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} or {last}", words.join(", ")),
    }
}

impl Atom {
    fn read(written: &syntax::KindAtom) -> Result<Atom, Diagnostic> {
        let (name, range) = match written {
            syntax::KindAtom::List(kind) => return Kind::read(kind).map(Atom::List),
            syntax::KindAtom::Name { name, range } => (name, range),
        };
        if let Some(Range { low: Some(low), high: Some(high) }) = range.filter(|range| range.low > range.high) {
            return Err(Diagnostic::error("type.range", format!("no number lies between {low} and {high}"))
                .label(name.span, "its range ends before it begins")
                .help(format!("write `{} {high}..{low}`", name.text)));
        }
        let open = range.unwrap_or(Range { low: None, high: None });
        let at_least = |low| Range { low: Some(open.low.unwrap_or(low)), high: open.high };
        let atom = match &*name.text {
            "Int" => Atom::Int(open),
            "Float" => Atom::Float(open),
            "Percent" => Atom::Percent(range.unwrap_or(Range { low: Some(0.0), high: Some(100.0) })),
            "Steps" => Atom::Steps(at_least(0.0)),
            "Epochs" => Atom::Epochs(at_least(0.0)),
            "Rows" => Atom::Rows(at_least(0.0)),
            _ if range.is_some() => {
                return Err(Diagnostic::error("type.range", format!("`{}` takes no range", name.text))
                    .label(name.span, "ranges go with Int, Float, Percent, Steps, Epochs and Rows"));
            }
            "Bool" => Atom::Bool,
            "String" => Atom::String,
            "Path" => Atom::Path,
            "Output" => Atom::Output,
            "Bytes" => Atom::Bytes,
            "Shape" => Atom::Shape,
            "none" => Atom::None,
            "true" | "false" => {
                return Err(Diagnostic::error("type.unknown", format!("`{}` is a value, not a type", name.text))
                    .label(name.span, "here")
                    .help("write `Bool`"));
            }
            symbol if symbol.starts_with(|c: char| c.is_ascii_lowercase()) => Atom::Symbol(symbol.to_owned()),
            unknown => {
                let diagnostic = Diagnostic::error("type.unknown", format!("there is no type `{unknown}`"))
                    .label(name.span, "unknown")
                    .note(format!("types are {}", NAMES.join(", ")));
                return Err(match nearest_type(unknown).or_else(|| nearest(&unknown.to_lowercase(), NAMES)) {
                    Some(near) => diagnostic.help(format!("write `{near}`")),
                    None => diagnostic,
                });
            }
        };
        Ok(atom)
    }

    fn words(&self) -> String {
        let limits = |range: &Range| match (range.low, range.high) {
            (Some(low), Some(high)) => format!(" from {low} to {high}"),
            (Some(low), None) => format!(" of at least {low}"),
            (None, Some(high)) => format!(" of at most {high}"),
            (None, None) => String::new(),
        };
        match self {
            Atom::Int(range) => format!("a whole number{}", limits(range)),
            Atom::Float(range) => format!("a number{}", limits(range)),
            Atom::Bool => "`true` or `false`".into(),
            Atom::String => "a quoted text".into(),
            Atom::Path | Atom::Output => "a quoted path".into(),
            Atom::Bytes => "a size such as `5GB`".into(),
            Atom::Percent(_) => "a percentage such as `3%`".into(),
            Atom::Steps(_) => "steps such as `50steps`".into(),
            Atom::Epochs(_) => "epochs such as `1epoch`".into(),
            Atom::Rows(_) => "rows such as `500rows`".into(),
            Atom::Shape => "a shape of the catalogue".into(),
            Atom::None => "`none`".into(),
            Atom::Symbol(name) => format!("`{name}`"),
            Atom::List(kind) => format!("a list of {}", kind.words()),
        }
    }
}

/// A type whose name was written in lower case or as other languages call it.
fn nearest_type(word: &str) -> Option<&'static str> {
    match word {
        "str" | "text" | "string" => Some("String"),
        "integer" => Some("Int"),
        "number" | "double" => Some("Float"),
        "boolean" => Some("Bool"),
        "file" | "folder" | "dir" => Some("Path"),
        _ => NAMES.iter().find(|name| name.eq_ignore_ascii_case(word)).copied(),
    }
}

impl fmt::Display for Kind {
    /// As it is written in the catalogue.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, atom) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("|")?;
            }
            let (name, range) = match atom {
                Atom::Int(range) => ("Int", Some(range)),
                Atom::Float(range) => ("Float", Some(range)),
                Atom::Bool => ("Bool", None),
                Atom::String => ("String", None),
                Atom::Path => ("Path", None),
                Atom::Output => ("Output", None),
                Atom::Bytes => ("Bytes", None),
                Atom::Percent(_) => ("Percent", None),
                Atom::Steps(_) => ("Steps", None),
                Atom::Epochs(_) => ("Epochs", None),
                Atom::Rows(_) => ("Rows", None),
                Atom::Shape => ("Shape", None),
                Atom::None => ("none", None),
                Atom::Symbol(name) => (&**name, None),
                Atom::List(kind) => {
                    write!(f, "[{kind}]")?;
                    continue;
                }
            };
            f.write_str(name)?;
            if let Some(range) = range.filter(|range| range.low.is_some() || range.high.is_some()) {
                let end = |end: Option<f64>| end.map(|end| end.to_string()).unwrap_or_default();
                write!(f, " {}..{}", end(range.low), end(range.high))?;
            }
        }
        Ok(())
    }
}

/// Which values a stage accepts as an input, or makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    Data,
    Model { weights: WeightsPattern, adapter: AdapterPattern },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightsPattern {
    Dense,
    Nf4,
    /// Either; what the stage makes keeps them.
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdapterPattern {
    None,
    Lora,
    /// With or without.
    Any,
}

impl Pattern {
    pub fn read(written: &syntax::OwnedKind) -> Result<Pattern, Diagnostic> {
        let bad = |word: &syntax::Word, wanted: &str| {
            Diagnostic::error("type.unknown", format!("expected {wanted}, found `{}`", word.text))
                .label(word.span, "unknown")
        };
        match (&*written.name.text, &written.of) {
            ("Data", None) => Ok(Pattern::Data),
            ("Model", Some(of)) => {
                let weights = match &*of.text {
                    "dense" => WeightsPattern::Dense,
                    "nf4" => WeightsPattern::Nf4,
                    "W" => WeightsPattern::Any,
                    _ => return Err(bad(of, "`dense`, `nf4` or `W`")),
                };
                let adapter = match written.adapter.as_ref().map(|word| (word, &*word.text)) {
                    None => AdapterPattern::None,
                    Some((_, "lora")) => AdapterPattern::Lora,
                    Some((_, "any")) => AdapterPattern::Any,
                    Some((word, _)) => return Err(bad(word, "`lora` or `any`")),
                };
                Ok(Pattern::Model { weights, adapter })
            }
            // A recipe's parameter may be any model.
            ("Model", None) => Ok(Pattern::Model { weights: WeightsPattern::Any, adapter: AdapterPattern::Any }),
            _ => Err(bad(&written.name, "`Data`, `Model` or `Model<…>`")),
        }
    }

    pub fn is_model(self) -> bool {
        self != Pattern::Data
    }

    pub fn accepts(self, kind: Type) -> bool {
        match (self, kind) {
            (Pattern::Data, Type::Data) => true,
            (Pattern::Model { weights, adapter }, Type::Model { weights: found, lora }) => {
                let weights = match weights {
                    WeightsPattern::Dense => found == Weights::Dense,
                    WeightsPattern::Nf4 => found == Weights::Nf4,
                    WeightsPattern::Any => true,
                };
                let adapter = match adapter {
                    AdapterPattern::None => !lora,
                    AdapterPattern::Lora => lora,
                    AdapterPattern::Any => true,
                };
                weights && adapter
            }
            _ => false,
        }
    }

    /// The type a stage makes by this pattern out of a model of type `of`; none where that hangs on a model there is not.
    pub fn made_of(self, of: Option<Type>) -> Option<Type> {
        let Pattern::Model { weights, adapter } = self else { return Some(Type::Data) };
        let (old_weights, old_lora) = match of {
            Some(Type::Model { weights, lora }) => (Some(weights), Some(lora)),
            _ => (None, None),
        };
        let weights = match weights {
            WeightsPattern::Dense => Weights::Dense,
            WeightsPattern::Nf4 => Weights::Nf4,
            WeightsPattern::Any => old_weights?,
        };
        let lora = match adapter {
            AdapterPattern::None => false,
            AdapterPattern::Lora => true,
            AdapterPattern::Any => old_lora?,
        };
        Some(Type::Model { weights, lora })
    }

    /// In words: `a model without an adapter, its weights dense`.
    pub fn words(self) -> &'static str {
        match self {
            Pattern::Data => "data",
            Pattern::Model { weights, adapter } => match (weights, adapter) {
                (WeightsPattern::Dense, AdapterPattern::None) => "a model with full-width weights and no adapter",
                (WeightsPattern::Dense, AdapterPattern::Lora) => "a model with full-width weights and an adapter",
                (WeightsPattern::Dense, AdapterPattern::Any) => "a model with full-width weights",
                (WeightsPattern::Nf4, AdapterPattern::None) => "an nf4-quantised model without an adapter",
                (WeightsPattern::Nf4, AdapterPattern::Lora) => "an nf4-quantised model with an adapter",
                (WeightsPattern::Nf4, AdapterPattern::Any) => "an nf4-quantised model",
                (WeightsPattern::Any, AdapterPattern::None) => "a model without an adapter",
                (WeightsPattern::Any, AdapterPattern::Lora) => "a model with an adapter",
                (WeightsPattern::Any, AdapterPattern::Any) => "a model",
            },
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pattern::Model { weights, adapter } = self else { return f.write_str("Data") };
        f.write_str(match weights {
            WeightsPattern::Dense => "Model<dense",
            WeightsPattern::Nf4 => "Model<nf4",
            WeightsPattern::Any => "Model<W",
        })?;
        f.write_str(match adapter {
            AdapterPattern::None => ">",
            AdapterPattern::Lora => ", lora>",
            AdapterPattern::Any => ", any>",
        })
    }
}
