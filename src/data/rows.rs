//! Rows as they were read: checked, not yet tokenised.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Where a row begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Index into [`Settings::paths`](super::Settings::paths).
    pub file: u32,
    /// From 1.
    pub line: u64,
}

impl Origin {
    /// The same place where `files` other files come before its own.
    pub(super) fn after(self, files: u32) -> Self {
        Origin { file: self.file.saturating_add(files), ..self }
    }
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
