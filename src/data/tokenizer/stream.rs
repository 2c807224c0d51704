//! Text out of ids that arrive one by one.

use super::Tokenizer;
use crate::text::Result;

/// Tokens that may wait for a character's missing bytes. A UTF-8 character has four at most, so whatever waits longer
/// is no character.
const PATIENCE: usize = 8;

/// Turns ids into text as soon as the text is certain: a character that is spread over several tokens comes whole.
pub struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    /// The last tokens that were given out, as context (decoders drop a leading space), then those that wait.
    window: Vec<u32>,
    /// How many of `window` were given out.
    told: usize,
}

impl<'a> TextStream<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer) -> Self {
        TextStream { tokenizer, window: Vec::new(), told: 0 }
    }

    /// The text that `id` completes; empty while a character is unfinished.
    pub fn push(&mut self, id: u32) -> Result<String> {
        self.window.push(id);
        self.tell(false)
    }

    /// What still waits, as far as it can be read.
    pub fn finish(mut self) -> Result<String> {
        self.tell(true)
    }

    fn tell(&mut self, all: bool) -> Result<String> {
        let before = self.tokenizer.decode(&self.window[..self.told])?;
        let now = self.tokenizer.decode(&self.window)?;
        let waiting = self.window.len() - self.told;
        if now.ends_with('\u{FFFD}') && waiting < PATIENCE && !all {
            return Ok(String::new());
        }
        let text = now.strip_prefix(&before).unwrap_or(&now).to_owned();
        self.window.drain(..self.told);
        self.told = self.window.len();
        Ok(text)
    }
}
