//! What `load data` says about rows: the arguments of the stage, resolved.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Origin;

/// What a row holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A text: one column of a JSON row, or a paragraph of a plain text file.
    Text,
    /// `instruction`, `input`, `output`, and LLaMA-Factory's `system` and `history`.
    Alpaca,
    /// `messages` with role and content, or ShareGPT's `conversations` with from and value.
    Chat,
    /// Two columns: what is given, and what is learnt.
    Completion,
    /// `input_ids` and perhaps `labels`, taken as they are.
    Tokens,
}

impl Format {
    pub const ALL: [Format; 5] = [Format::Text, Format::Alpaca, Format::Chat, Format::Completion, Format::Tokens];

    /// The symbol that `format=` takes.
    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Alpaca => "alpaca",
            Format::Chat => "chat",
            Format::Completion => "completion",
            Format::Tokens => "tokens",
        }
    }

    pub fn from_name(name: &str) -> Option<Format> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// Which tokens count in the loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrainOn {
    /// What the assistant says, up to and including the token that ends its turn. Rows of `format=text` and rows of
    /// `format=tokens` without labels are answers as a whole.
    Answers,
    /// Every token.
    All,
}

/// What happens to a row of more than `max_len` tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Long {
    Error,
    Drop,
    /// It becomes several rows of at most `max_len` tokens.
    Split,
    /// Its first `max_len` tokens stay, the last of them replaced by the token that ended the row.
    Truncate,
}

/// How many rows are kept from training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Holdout {
    /// Rows whose hash lies in the lowest so many hundredths of all hashes: about that share of the rows.
    Percent(f64),
    /// The rows with the smallest hashes: exactly so many.
    Rows(usize),
}

/// How many rows of a set an epoch has, where not all once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    Percent(f64),
    Rows(usize),
}

/// The arguments of `load data`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Read in this order.
    pub paths: Vec<PathBuf>,
    pub format: Format,
    /// `format=text`: the column of a JSON row.
    pub text: String,
    /// `format=completion`: the column that is given.
    pub prompt: String,
    /// `format=completion`: the column that is learnt.
    pub completion: String,
    pub train_on: TrainOn,
    /// Tokens a row may have; none: no limit.
    pub max_len: Option<usize>,
    pub long: Long,
    pub holdout: Option<Holdout>,
    /// Rows that an epoch has, the next ones each time; none: all.
    pub take: Option<Take>,
    /// Times that an epoch goes through the rows.
    pub repeat: u32,
    /// Several rows in one sequence of at most `max_len` tokens.
    pub packed: bool,
    /// A new order each epoch.
    pub shuffle: bool,
    /// End rows with the end-of-text token.
    pub eos: bool,
    /// Begin rows as the tokenizer says.
    pub bos: bool,
}

impl Settings {
    /// The stage's defaults.
    pub fn new(paths: Vec<PathBuf>, format: Format) -> Self {
        Settings {
            paths,
            format,
            text: "text".into(),
            prompt: "prompt".into(),
            completion: "completion".into(),
            train_on: TrainOn::Answers,
            max_len: None,
            long: Long::Error,
            holdout: None,
            take: None,
            repeat: 1,
            packed: false,
            shuffle: true,
            eos: true,
            bos: true,
        }
    }
    /// The file that a row came from.
    pub fn path_of(&self, origin: Origin) -> &Path {
        self.paths.get(origin.file as usize).map_or(Path::new(""), PathBuf::as_path)
    }

    /// `data/alpaca.jsonl:17`.
    pub fn place(&self, origin: Origin) -> String {
        format!("{}:{}", self.path_of(origin).display(), origin.line)
    }
}
