//! Rows as they were read: checked, not yet tokenised.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::text::Fault;

/// Where a row begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Index into [`Rows::files`].
    pub file: u32,
    /// From 1.
    pub line: u64,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    /// The name that chat templates know.
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub role: Role,
    pub content: String,
    /// Whatever else the message has (`tool_calls`, `name`), handed to the template as it is.
    pub rest: Option<Box<Map<String, Value>>>,
}

impl Message {
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Message { role, content: content.into(), rest: None }
    }
}

/// Turns in order, with the tools that the row declares for its template.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conversation {
    pub messages: Vec<Message>,
    pub tools: Option<Box<Value>>,
}

/// What a row holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Text(String),
    /// Turns, to be written by the chat template.
    Chat(Conversation),
    /// One instruction in Alpaca's form; earlier turns are pairs of instruction and answer.
    Alpaca {
        system: Option<String>,
        history: Vec<(String, String)>,
        instruction: String,
        input: String,
        output: String,
    },
    Completion {
        prompt: String,
        completion: String,
    },
    /// Ids, and which of them count (none: all).
    Tokens {
        ids: Vec<u32>,
        counted: Option<Vec<bool>>,
    },
}

impl Content {
    /// Whether there is nothing to learn in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Content::Text(text) => text.is_empty(),
            Content::Chat(conversation) => conversation.messages.is_empty(),
            Content::Alpaca { output, .. } => output.is_empty(),
            Content::Completion { completion, .. } => completion.is_empty(),
            Content::Tokens { ids, .. } => ids.is_empty(),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub origin: Origin,
    pub content: Content,
}

/// Every row of a data set, in file order.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    pub files: Vec<PathBuf>,
    pub rows: Vec<Row>,
}

impl Rows {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The file that a row came from.
    pub fn file(&self, origin: Origin) -> &Path {
        self.files.get(origin.file as usize).map_or(Path::new(""), PathBuf::as_path)
    }

    /// `data/alpaca.jsonl:17`.
    pub fn place(&self, origin: Origin) -> String {
        format!("{}:{}", self.file(origin).display(), origin.line)
    }

    /// A fault at the row's first line.
    pub fn fault(&self, origin: Origin, code: &'static str, message: impl Into<String>) -> Fault {
        Fault::new(code, message).at_line(self.file(origin), origin.line, None)
    }
}
