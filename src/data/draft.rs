//! A row as text with marks, on its way to ids with marks.

use std::borrow::Cow;
use std::ops::Range;

use super::prompt::{alpaca_prompt, no_template};
use super::{ChatTemplate, Content, Conversation, Message, Role, Settings, Tokenizer, TrainOn};
use crate::text::{Fault, Result};

/// Text whose bytes are marked as counting in the loss or not. It is tokenised as a whole, as the field does, and a
/// token counts if any byte of it is marked: where a token spans prompt and answer, it is the answer's first.
#[derive(Default)]
pub(super) struct Draft {
    parts: Vec<Part>,
    /// The text comes from a chat template, which may bring its own beginning-of-text token.
    pub templated: bool,
    /// The template's ranges end after their last stop token: what a template writes between turns is not learnt.
    trims: bool,
    /// An answer is not in what the template wrote.
    pub unwritten: bool,
    /// Add the end-of-text token, counted or not, where the template ended on none.
    ensure_end: Option<bool>,
}

#[derive(Default)]
struct Part {
    text: String,
    /// Ascending, disjoint, not empty.
    marked: Vec<Range<usize>>,
    /// The end-of-text token follows, and counts.
    ends: bool,
}

impl Draft {
    /// Appends text, marked or not.
    pub fn push(&mut self, text: &str, marked: bool) {
        if self.parts.last().is_none_or(|part| part.ends) {
            self.parts.push(Part::default());
        }
        let Some(part) = self.parts.last_mut() else { return };
        let start = part.text.len();
        part.text.push_str(text);
        if marked && !text.is_empty() {
            part.marked.push(start..part.text.len());
        }
    }

    /// Bytes of the text.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.text.len()).sum()
    }

    /// Ends a text with the end-of-text token.
    fn end(&mut self) {
        if let Some(part) = self.parts.last_mut() {
            part.ends = true;
        }
    }

    /// Ids, which of them count, and whether the text itself began with a beginning-of-text token too many. With `bos`
    /// the ids begin with that token exactly once, if the tokenizer is one that adds it.
    pub fn tokenize(&self, tokenizer: &Tokenizer, bos: bool) -> Result<(Vec<u32>, Vec<bool>, bool)> {
        let (mut ids, mut counted) = (Vec::new(), Vec::new());
        for part in &self.parts {
            let start = ids.len();
            let whole = part.marked.first().is_some_and(|range| range.len() == part.text.len());
            if whole || part.marked.is_empty() {
                ids.extend(tokenizer.encode(&part.text, true)?);
                counted.resize(ids.len(), !part.marked.is_empty());
            } else {
                let (more, offsets) = tokenizer.encode_with_offsets(&part.text)?;
                counted.extend(flags(&offsets, &part.marked));
                ids.extend(more);
            }
            if self.trims {
                trim_to_stops(&ids[start..], &mut counted[start..], tokenizer.stop_ids());
            }
            if let Some(eos) = tokenizer.eos().filter(|_| part.ends) {
                close(&mut ids, &mut counted, eos, true);
            }
        }
        if let (Some(marked), Some(eos)) = (self.ensure_end, tokenizer.eos()) {
            let tail = &ids[ids.len().saturating_sub(3)..];
            if !tail.iter().any(|id| tokenizer.stop_ids().contains(id)) {
                close(&mut ids, &mut counted, eos, marked);
            }
        }
        let Some(bos) = tokenizer.bos().filter(|_| bos) else { return Ok((ids, counted, false)) };
        let own = ids.iter().take_while(|id| **id == bos).count();
        match own {
            0 => {
                ids.insert(0, bos);
                counted.insert(0, false);
            }
            _ => {
                ids.drain(1..own);
                counted.drain(1..own);
            }
        }
        Ok((ids, counted, own > usize::from(self.templated)))
    }
}

/// Puts the end-of-text token at the end, where it is not already.
fn close(ids: &mut Vec<u32>, counted: &mut Vec<bool>, eos: u32, marked: bool) {
    if ids.last() == Some(&eos) {
        if let Some(last) = counted.last_mut() {
            *last |= marked;
        }
        return;
    }
    ids.push(eos);
    counted.push(marked);
}

/// Whether each token touches a marked range; both ascend.
fn flags(offsets: &[(usize, usize)], marked: &[Range<usize>]) -> Vec<bool> {
    let mut ranges = marked.iter().peekable();
    let touches = |&(start, end): &(usize, usize)| {
        while ranges.next_if(|range| range.end <= start).is_some() {}
        ranges.peek().is_some_and(|range| range.start < end.max(start + 1))
    };
    offsets.iter().map(touches).collect()
}

/// Within each run of counted tokens, what follows the last stop token no longer counts.
fn trim_to_stops(ids: &[u32], counted: &mut [bool], stops: &[u32]) {
    let mut end = counted.len();
    while let Some(last) = counted[..end].iter().rposition(|counts| *counts) {
        let first = counted[..last].iter().rposition(|counts| !*counts).map_or(0, |before| before + 1);
        if let Some(stop) = ids[first..=last].iter().rposition(|id| stops.contains(id)) {
            counted[first + stop + 1..=last].fill(false);
        }
        end = first;
    }
}

/// The turns of a row that has turns. LLaMA-Factory's way for Alpaca's: the input follows the instruction on a new line.
pub(super) fn conversation_of(content: &Content) -> Cow<'_, Conversation> {
    match content {
        Content::Chat(conversation) => Cow::Borrowed(conversation),
        Content::Alpaca { system, history, instruction, input, output } => {
            let mut messages = Vec::new();
            messages.extend(system.iter().map(|system| Message::new(Role::System, system.as_str())));
            for (asked, answered) in history {
                messages.push(Message::new(Role::User, asked.as_str()));
                messages.push(Message::new(Role::Assistant, answered.as_str()));
            }
            let parts: Vec<&str> =
                [instruction, input].into_iter().map(String::as_str).filter(|s| !s.is_empty()).collect();
            messages.push(Message::new(Role::User, parts.join("\n")));
            messages.push(Message::new(Role::Assistant, output.as_str()));
            Cow::Owned(Conversation { messages, tools: None })
        }
        _ => Cow::Owned(Conversation::default()),
    }
}

/// Writes a row of anything but ids as text with marks.
pub(super) fn draft(content: &Content, settings: &Settings, template: Option<&ChatTemplate>) -> Result<Draft> {
    let all = settings.train_on == TrainOn::All;
    let mut draft = Draft::default();
    match (content, template) {
        (Content::Chat(_) | Content::Alpaca { .. }, Some(template)) => {
            return templated(&conversation_of(content), settings, template);
        }
        (Content::Chat(_), None) => return Err(no_template()),
        (Content::Alpaca { system, history, instruction, input, output }, None) => {
            if let Some(system) = system {
                draft.push(&format!("{system}\n\n"), all);
            }
            let earlier = history.iter().map(|(asked, answered)| (alpaca_prompt(asked, ""), answered));
            for (prompt, answer) in earlier.chain([(alpaca_prompt(instruction, input), output)]) {
                draft.push(&prompt, all);
                draft.push(answer, true);
                if settings.eos {
                    draft.end();
                }
            }
        }
        (Content::Text(text), _) => {
            draft.push(text, true);
            if settings.eos {
                draft.end();
            }
        }
        (Content::Completion { prompt, completion }, _) => {
            draft.push(prompt, all);
            draft.push(completion, true);
            if settings.eos {
                draft.end();
            }
        }
        (Content::Tokens { .. }, _) => {}
    }
    Ok(draft)
}

/// A conversation through its template. Which part of the text is an answer is found by rendering the conversation up to
/// it and with it: the difference is what the template writes for the assistant's turn, its end included.
fn templated(conversation: &Conversation, settings: &Settings, template: &ChatTemplate) -> Result<Draft> {
    let text = template.render(conversation, false)?;
    let mut part = Part { text, marked: Vec::new(), ends: false };
    let mut unwritten = false;
    let answers = || conversation.messages.iter().enumerate().filter(|(_, m)| m.role == Role::Assistant);
    let all = settings.train_on == TrainOn::All;
    if all {
        part.marked.extend((!part.text.is_empty()).then_some(0..part.text.len()));
    } else {
        for (at, answer) in answers() {
            let render = |turns: usize, prompt: bool| {
                let messages = conversation.messages.get(..turns).unwrap_or(&[]);
                template.render_messages(messages, conversation.tools.as_deref(), prompt)
            };
            let before = render(at, true)?;
            let with = if at + 1 == conversation.messages.len() { None } else { Some(render(at + 1, false)?) };
            let with = with.as_deref().unwrap_or(&part.text);
            if !with.starts_with(&before) || !part.text.starts_with(with) {
                return Err(not_a_prefix(at, &before, with));
            }
            // Two answers in a row may touch; marks must not overlap.
            let start = before.len().max(part.marked.last().map_or(0, |range| range.end));
            let range = start..with.len().max(start);
            unwritten |= !part.text.get(range.clone()).unwrap_or_default().contains(ending(&answer.content));
            if !range.is_empty() {
                part.marked.push(range);
            }
        }
    }
    let ends_on_answer = conversation.messages.last().is_some_and(|last| last.role == Role::Assistant);
    let ensure_end = settings.eos.then_some(ends_on_answer || all);
    Ok(Draft { parts: vec![part], templated: true, trims: !all, unwritten, ensure_end })
}

/// The last words of an answer. Templates may trim an answer or leave its reasoning out, but its end they write.
fn ending(answer: &str) -> &str {
    let answer = answer.trim();
    let start = answer.char_indices().rev().nth(15).map_or(0, |(at, _)| at);
    &answer[start..]
}

fn not_a_prefix(turn: usize, before: &str, with: &str) -> Fault {
    let same = before.bytes().zip(with.bytes()).take_while(|(a, b)| a == b).count();
    let tail = |text: &str| text.get(same..).unwrap_or("").chars().take(40).collect::<String>();
    let message = format!(
        "the chat template rewrites earlier turns, so the answer in turn {} cannot be told from its prompt",
        turn + 1
    );
    Fault::new("template.not_incremental", message)
        .note(format!("without the answer it writes `{}` where with it stands `{}`", tail(before), tail(with)))
        .help("`train_on=all`, or another template on `load model`: `template=chatml`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_counts_if_it_touches_a_mark() {
        let offsets = [(0, 2), (2, 5), (5, 5), (5, 6), (6, 9)];
        assert_eq!(flags(&offsets, &[4..6, 20..21]), [false, true, true, true, false]);
        assert_eq!(flags(&offsets, &[0..1, 6..7]), [true, false, false, false, true]);
        assert_eq!(flags(&offsets, &[]), [false; 5]);
    }

    #[test]
    fn what_follows_a_stop_does_not_count() {
        let ids = [1, 2, 9, 4, 5, 6, 9, 9, 7];
        let mut counted = [false, true, true, true, false, true, true, true, true];
        trim_to_stops(&ids, &mut counted, &[9]);
        assert_eq!(counted, [false, true, true, false, false, true, true, true, false]);
        let mut without = [false, true, true];
        trim_to_stops(&[1, 2, 3], &mut without, &[9]);
        assert_eq!(without, [false, true, true]);
    }
}
