//! What reading and tokenising takes in RAM, from what was met on the way.

use serde::{Deserialize, Serialize};

use super::kept::ENTRY_BUFFER;
use super::read::{READ_BUFFER, ROOM};
use crate::store::WRITE_BUFFER;

/// The most that was worked on at once while the rows of a set were read: what a plan of that work is made of. It is
/// kept with the tokens, so that a plan is the same whether they are made or found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Rows of a window.
    pub rows: u64,
    /// Bytes of its rows as they lie in their files.
    pub text: u64,
    /// Tokens of it that are kept.
    pub kept: u64,
    /// All its rows.
    pub window: Written,
    /// The longest row.
    pub longest: Written,
    /// Every row of every window.
    pub all: Written,
}

/// Rows written out, on their way to ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Bytes as they lie in their files, or as a prompt or a template writes them, where that is more.
    pub bytes: u64,
    /// Tokens, before `max_len` has its say.
    pub tokens: u64,
}

impl Written {
    pub(super) fn and(self, other: Self) -> Self {
        Written { bytes: self.bytes.saturating_add(other.bytes), tokens: self.tokens.saturating_add(other.tokens) }
    }

    pub(super) fn max(self, other: Self) -> Self {
        Written { bytes: self.bytes.max(other.bytes), tokens: self.tokens.max(other.tokens) }
    }

    /// What so many threads have in hand at once, out of `all`.
    fn on(self, threads: u64, all: Self) -> Self {
        Written {
            bytes: self.bytes.saturating_mul(threads).min(all.bytes),
            tokens: self.tokens.saturating_mul(threads).min(all.tokens),
        }
    }
}

/// Bytes that a row takes in a window beside its text and its tokens: where it lies, what became of it.
const ROW: u64 = 400;
/// Bytes for each byte of a row that a thread parses, writes out and tokenises: `tokenizers` holds, for each, where it
/// was before and after every rewriting, and the pieces that it was cut into. Measured at up to 77.
const ROW_BYTE: u64 = 80;
/// Bytes for each token of such a row: `tokenizers` holds its text and its place, twice while pieces are joined. Measured
/// at up to 46.
const ROW_TOKEN: u64 = 50;
/// Bytes that a thread takes beside: its stacks of regular expressions and of the template's interpreter.
const THREAD: u64 = 256 << 10;
/// Bytes of a row's length, labels, hash and place, while they are brought together.
const SIZES: u64 = 48;

/// Words that a thread remembers, what each takes in a table, and each of its bytes beside; `tokenizers` 0.23.
const WORDS: u64 = 10_000;
const WORD: u64 = 49;
const WORD_BYTE: u64 = 33;
/// Bytes of a word, where ten thousand of a text's first words are taken together.
const WORD_LENGTH: u64 = 12;

impl Work {
    pub(super) fn max(self, other: Self) -> Self {
        Work {
            rows: self.rows.max(other.rows),
            text: self.text.max(other.text),
            kept: self.kept.max(other.kept),
            window: self.window.max(other.window),
            longest: self.longest.max(other.longest),
            all: self.all.max(other.all),
        }
    }

    /// Bytes that so many threads remember of words that they met: `tokenizers` keeps the first ten thousand of each
    /// thread, with a symbol for each of their bytes.
    pub fn words(&self, threads: usize) -> u64 {
        let each = WORDS.min(self.all.tokens);
        // A table that grows is there twice, at half the size.
        let table = (each * 8 / 7).next_power_of_two() * WORD / 2 * 3;
        let met = self.all.bytes.min((threads as u64).saturating_mul(WORDS * WORD_LENGTH));
        table.saturating_mul(threads as u64).saturating_add(met.saturating_mul(WORD_BYTE))
    }

    /// RAM that tokenising takes at its peak on so many threads, where `tokens` tokens of `rows` rows come of it: the
    /// token data that grows, the rows of a window on their way, and buffers of files.
    pub fn costs(&self, tokens: u64, rows: u64, threads: usize) -> Costs {
        let threads = threads as u64;
        let at_once = self.longest.on(threads, self.window);
        // A window that a row has outgrown moves, and is there twice meanwhile.
        let window = if self.text <= ROOM as u64 { ROOM as u64 } else { self.text.saturating_mul(3) };
        let rows_at_work = [
            window,
            self.rows.saturating_mul(ROW),
            self.kept.saturating_mul(5),
            at_once.bytes.saturating_mul(ROW_BYTE),
            at_once.tokens.saturating_mul(ROW_TOKEN),
            threads.saturating_mul(THREAD),
        ];
        Costs {
            tokens: tokens.saturating_mul(5).saturating_add(rows.saturating_mul(SIZES)),
            at_work: rows_at_work.into_iter().fold(0, u64::saturating_add),
            buffers: (READ_BUFFER + WRITE_BUFFER + ENTRY_BUFFER) as u64,
        }
    }
}

/// Bytes of RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    pub tokens: u64,
    /// Rows of a window, on their way from text to ids.
    pub at_work: u64,
    /// What is read and written at once.
    pub buffers: u64,
}
