//! From files of rows to batches of token ids. The one room that knows `tokenizers` and `minijinja`.
//!
//! [`tokens`] makes a [`TokenSet`] of files, or finds the one that was made of them before; [`split`] keeps some of its
//! rows from training, and a [`BatchPlan`] says which rows meet in which micro-batch of which epoch. From there on only lengths matter, so
//! a planner walks the same [`BatchPlan`] over kept [`Sizes`] and sees the very batches that a run will see.
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
mod kept;
mod order;
mod prompt;
mod read;
mod rows;
mod settings;
mod template;
mod tokenizer;
mod tokens;
mod walk;
mod work;

pub use batch::{Batch, Extent, IGNORED};
pub use encode::tokenise;
pub use epochs::{BatchPlan, Draw, Epoch};
pub use guess::{Guess, guess};
pub use holdout::split;
pub use kept::{Heard, Source, tokens};
pub use prompt::{PromptStyle, alpaca_prompt, render_prompt};
pub use rows::{Content, Conversation, Message, Origin, Role};
pub use settings::{Format, Holdout, Long, Settings, Take, TrainOn};
pub use template::ChatTemplate;
pub use tokenizer::{Decoder, TextStream, Tokenizer, TokenizerFiles, TokenizerJson};
pub use tokens::{Report, Sizes, TokenSet};
pub use walk::{Cursor, Length, Walk, Window};
pub use work::{Costs, Work, Written};

#[cfg(test)]
mod tests;
