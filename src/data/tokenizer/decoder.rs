//! The part of a tokenizer that a run still needs once every row is read: ids to text.

use std::sync::Arc;

use super::{FEW_IDS, Result, unencodable};

/// Vocabulary and merges of a [`Tokenizer`](super::Tokenizer), without its file and its second reading.
#[derive(Clone)]
pub struct Decoder {
    core: Arc<tokenizers::Tokenizer>,
    /// Of the `tokenizer.json`, in which each token's text stands.
    file: usize,
}

impl Decoder {
    pub(super) fn new(core: Arc<tokenizers::Tokenizer>, file: usize) -> Self {
        Decoder { core, file }
    }

    /// The text of ids, special tokens left out. Ids that the vocabulary lacks are left out too.
    ///
    /// # Errors
    /// `tokenizer.failed`.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.core.decode(ids, true).map_err(|e| unencodable(&e.to_string()))
    }

    /// A bound on the bytes it holds: two maps between texts and ids, each with its copy of the texts, and one of merges, by
    /// the tables that the standard library makes for so many entries; measured at 6.6 MiB of 7.1 for 49,152 ids.
    pub fn bytes(&self) -> u64 {
        let ids = self.core.get_vocab_size(true);
        let table = (ids * 8 / 7 + 1).next_power_of_two() as u64;
        let (text_and_id, merge) = (33, 17);
        let tables = table.saturating_mul(2 * text_and_id + merge);
        let rest = if ids <= FEW_IDS { 16 << 10 } else { 256 << 10 };
        tables.saturating_add(self.file as u64).saturating_add(rest)
    }

    /// Tells one vocabulary from another.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.core) as usize
    }
}
