//! From files of rows to batches of token ids. The one room that knows `tokenizers` and `minijinja`.
//!
//! [`read`] makes [`Rows`] of files, [`encode`] makes a [`TokenSet`] of rows, [`split`] keeps some of them from training,
//! and a [`BatchPlan`] says which rows meet in which micro-batch of which epoch. From there on only lengths matter, so
//! a planner walks the same [`BatchPlan`] over cached [`Sizes`] and sees the very batches that a run will see.
//!
//! The rule of labels: the label of position `i` is token `i + 1` of the same row, and a position counts in the loss
//! if that token counts. A row's first token is therefore never a label, and rows in one batch never see each other.

mod apart;
mod batch;
mod draft;
mod encode;
mod epochs;
mod format;
mod guess;
mod holdout;
mod order;
mod prompt;
mod read;
mod rows;
mod settings;
mod template;
mod tokenizer;
mod tokens;
mod walk;

pub use batch::{Batch, Extent, IGNORED};
pub use encode::encode;
pub use epochs::{BatchPlan, Draw, Epoch};
pub use guess::{Guess, guess};
pub use holdout::split;
pub use prompt::{PromptStyle, alpaca_prompt, render_prompt};
pub use read::read;
pub use rows::{Content, Conversation, Message, Origin, Role, Row, Rows};
pub use settings::{Format, Holdout, Long, Settings, Take, TrainOn};
pub use template::ChatTemplate;
pub use tokenizer::{Decoder, TextStream, Tokenizer, TokenizerFiles, TokenizerJson};
pub use tokens::{Report, Sizes, TokenSet};
pub use walk::{Cursor, Length, Walk, Window};

#[cfg(test)]
mod tests;
