//! What a file says, with the place of every word of it.

use crate::text::{SourceId, Span};

/// A name as it stands in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    pub span: Span,
}

/// One file: its statements in order.
#[derive(Debug, Clone)]
pub struct File {
    pub source: SourceId,
    pub items: Vec<Item>,
}

/// One statement.
#[derive(Debug, Clone)]
pub enum Item {
    Edition(Edition),
    Budget(BudgetLine),
    Param(ParamLine),
    Let(LetLine),
    Stage(StageLine),
    /// `stage …` with its members, in the catalogue.
    Decl(StageDecl),
    /// `device …` or `shape …`, in the catalogue.
    Entry(Entry),
    Use(UseLine),
    Recipe(RecipeLine),
    /// A statement that could not be read; the error is reported.
    Broken(Broken),
}

/// `tunepipe 1`
#[derive(Debug, Clone)]
pub struct Edition {
    pub number: Expr,
    pub span: Span,
}

/// `budget colab-t4 disk=60GiB`
#[derive(Debug, Clone)]
pub struct BudgetLine {
    pub parts: Vec<Part>,
    pub span: Span,
    pub doc: Option<String>,
}

/// `param name[: Kind] [= default]`
#[derive(Debug, Clone)]
pub struct ParamLine {
    pub name: Word,
    pub kind: Option<Kind>,
    pub default: Option<Expr>,
    pub span: Span,
    pub doc: Option<String>,
}

/// `let name = expression`
#[derive(Debug, Clone)]
pub struct LetLine {
    pub name: Word,
    pub value: Expr,
    pub span: Span,
    pub doc: Option<String>,
}

/// A stage with its arguments: which of the leading words are its name, the catalogue knows.
#[derive(Debug, Clone)]
pub struct StageLine {
    /// At least one; the first is a word.
    pub parts: Vec<Part>,
    /// `as name`
    pub alias: Option<Word>,
    pub span: Span,
    pub doc: Option<String>,
}

/// `device name key=value …` or `shape name key=value flag …`
#[derive(Debug, Clone)]
pub struct Entry {
    pub sort: EntrySort,
    pub name: Word,
    pub parts: Vec<Part>,
    pub span: Span,
    pub doc: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntrySort {
    Device,
    Shape,
}

/// `use "team.tp" as team`
#[derive(Debug, Clone)]
pub struct UseLine {
    /// The path as it is written, relative to the file that says so.
    pub path: String,
    pub path_span: Span,
    pub alias: Option<Word>,
    pub span: Span,
}

/// `recipe name(params)` with the stages of its body.
#[derive(Debug, Clone)]
pub struct RecipeLine {
    pub name: Word,
    pub params: Vec<RecipeParam>,
    /// Stages and lets.
    pub body: Vec<Item>,
    /// Calls that show how it is used, each a text of its own.
    pub examples: Vec<String>,
    pub span: Span,
    pub doc: Option<String>,
}

#[derive(Debug, Clone)]
pub struct RecipeParam {
    /// May be given without its name.
    pub positional: bool,
    pub name: Word,
    pub kind: ParamKind,
    pub default: Option<Expr>,
    /// What stands behind it as `##`.
    pub doc: Option<String>,
}

#[derive(Debug, Clone)]
pub enum ParamKind {
    /// None is written: whatever the default is, or anything.
    Open,
    Setting(Kind),
    /// A model or data.
    Owned(OwnedKind),
}

#[derive(Debug, Clone)]
pub struct Broken {
    /// The names at the statement's start: `let`, `rate` of `let rate = = 3`.
    pub words: Vec<Word>,
    pub span: Span,
}

/// A piece of a stage, budget or entry after another.
#[derive(Debug, Clone)]
pub enum Part {
    /// A positional value, a flag, or a word of the stage's name.
    Value(Expr),
    /// `name=value`
    Argument { name: Word, value: Expr },
}

impl Part {
    pub fn span(&self) -> Span {
        match self {
            Part::Value(value) => value.span,
            Part::Argument { name, value } => name.span.to(value.span),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    Word(String),
    Int(i64),
    Float(f64),
    /// A size, already in bytes.
    Bytes(u64),
    Quantity(f64, Unit),
    Text(Vec<Piece>),
    /// `@"file"`: what stands in the file.
    FileText(Vec<Piece>),
    List(Vec<Expr>),
    Binary {
        operator: Operator,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// A value that is wrong in itself; the error is reported.
    Wrong,
}

/// A stretch of a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Plain(String),
    /// `${name}`
    Hole(Word),
}

/// What a number counts when letters stand behind it; bytes have their own kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Percent,
    Steps,
    Epochs,
    Rows,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// The kind of value an argument or a param takes: one of several.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    pub atoms: Vec<KindAtom>,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub enum KindAtom {
    /// `Int 1..1024`, or a symbol: lower case.
    Name { name: Word, range: Option<Range> },
    /// `[q_proj|k_proj]`
    List(Kind),
}

/// `low..high`, both ends belonging to it, each optional.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// The kind of a value that passes from stage to stage: `Model<W, lora>`, `Data`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedKind {
    pub name: Word,
    pub of: Option<Word>,
    pub adapter: Option<Word>,
    pub span: Span,
}

/// A stage's signature.
#[derive(Debug, Clone)]
pub struct StageDecl {
    pub words: Vec<Word>,
    pub members: Vec<Member>,
    pub span: Span,
    pub doc: Option<String>,
}

#[derive(Debug, Clone)]
pub enum Member {
    /// `many`: several values, `[Data]`.
    Input {
        takes: bool,
        name: Word,
        kind: OwnedKind,
        many: bool,
        optional: bool,
        doc: Option<String>,
    },
    Make {
        kind: OwnedKind,
    },
    Arg {
        positional: bool,
        name: Word,
        kind: Kind,
        default: Option<Expr>,
        doc: Option<String>,
    },
    Example {
        text: String,
    },
}
