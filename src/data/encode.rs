//! Rows to ids, in parallel, in order.

use rayon::prelude::*;

use super::apart::Apart;
use super::draft::draft;
use super::{ChatTemplate, Content, Format, Long, Origin, Row, Rows, Settings, TokenSet, Tokenizer};
use crate::text::{Fault, Result};

/// Rows tokenised at a time: enough to keep every core busy, few enough that their texts and ids are small.
const CHUNK: usize = 512;
/// Rows that a report names.
const NAMED: usize = 5;

/// Tokenises every row: with its marks of what counts, begun and ended as tokenizer and settings say, no longer than
/// `max_len`. Rows are done in parallel and kept in order, so the result does not depend on the number of threads.
/// `progress` hears of (done, total) rows on the calling thread.
///
/// # Errors
/// `data.long_row` under `long=error`, naming the first such row, how many there are and the longest; `data.no_rows`
/// where none is left; `data.no_template`, `template.*` and `tokenizer.failed` at the row that met them.
pub fn encode(
    rows: &Rows,
    tokenizer: &Tokenizer,
    settings: &Settings,
    template: Option<&ChatTemplate>,
    progress: &dyn Fn(usize, usize),
) -> Result<TokenSet> {
    let mut set = TokenSet::new();
    set.report.no_eos = settings.eos && settings.format != Format::Tokens && tokenizer.eos().is_none();
    let mut long: Option<(Origin, usize)> = None;
    let mut long_rows = 0usize;
    progress(0, rows.len());
    let apart = Apart::new();
    for (at, chunk) in rows.rows.chunks(CHUNK).enumerate() {
        let one = |row: &Row| encode_row(row, tokenizer, settings, template).map_err(|fault| at_row(fault, rows, row));
        let done: Vec<Result<Encoded>> = apart.run(|| chunk.par_iter().map(one).collect());
        for (row, encoded) in chunk.iter().zip(done) {
            let mut encoded = encoded?;
            set.report.read += 1;
            set.report.duplicate_bos += usize::from(encoded.duplicate_bos);
            set.report.unwritten += usize::from(encoded.unwritten);
            set.report.tools_unread += usize::from(encoded.tools_unread);
            if encoded.empty {
                set.report.dropped_empty += 1;
                continue;
            }
            let len = encoded.ids.len();
            set.report.longest_read = set.report.longest_read.max(len);
            let mut cut = false;
            if let Some(max) = settings.max_len.filter(|max| len > *max) {
                match settings.long {
                    Long::Error => {
                        long_rows += 1;
                        long.get_or_insert((row.origin, len));
                        continue;
                    }
                    Long::Drop => {
                        set.report.dropped_long += 1;
                        continue;
                    }
                    // A row in which nothing counts is told as one below.
                    Long::Split if !encoded.counted.iter().skip(1).any(|counts| *counts) => {}
                    Long::Split => {
                        split(&mut set, &encoded, max, row.origin);
                        continue;
                    }
                    Long::Truncate => {
                        cut = true;
                        encoded.truncate(max, tokenizer.stop_ids());
                    }
                }
            }
            if !encoded.counted.iter().skip(1).any(|counts| *counts) {
                set.report.zero_counted += 1;
                set.report.answer_cut += usize::from(cut);
                if set.report.zero_places.len() < NAMED {
                    set.report.zero_places.push(rows.place(row.origin));
                }
                continue;
            }
            set.report.truncated += usize::from(cut);
            set.push(&encoded.ids, &encoded.counted, row.origin);
        }
        progress((at * CHUNK + chunk.len()).min(rows.len()), rows.len());
    }
    if let (Some((origin, len)), Some(max)) = (long, settings.max_len) {
        return Err(too_long(rows, origin, len, max, long_rows, set.report.longest_read));
    }
    if set.is_empty() {
        return Err(nothing_left(rows, &set));
    }
    set.finish();
    Ok(set)
}

/// Keeps a row as pieces of at most `max` tokens. Each after the first begins with the last token of the one before,
/// so that every token is learnt once: a row's first token is never a label. A piece in which nothing counts is left
/// out.
fn split(set: &mut TokenSet, row: &Encoded, max: usize, origin: Origin) {
    set.report.split += 1;
    let mut start = 0;
    // One token alone has nothing to learn.
    while start + 1 < row.ids.len() {
        let end = start.saturating_add(max).min(row.ids.len());
        let (ids, counted) = (&row.ids[start..end], &row.counted[start..end]);
        if counted.iter().skip(1).any(|counts| *counts) {
            set.push(ids, counted, origin);
        }
        // `max_len` is two or more, so it goes on.
        start = end.saturating_sub(1).max(start + 1);
    }
}

#[derive(Default)]
struct Encoded {
    ids: Vec<u32>,
    counted: Vec<bool>,
    duplicate_bos: bool,
    /// See [`Report`](super::Report).
    unwritten: bool,
    tools_unread: bool,
    empty: bool,
}

impl Encoded {
    /// Keeps the first `max` tokens. A row that ended on a stop token ends on it still; it counts if it follows on what
    /// is left of an answer, since to stop within a prompt is not what the row teaches.
    fn truncate(&mut self, max: usize, stops: &[u32]) {
        let is_stop = |at: usize| self.ids.get(at).filter(|id| stops.contains(id)).copied();
        let last_counted = self.counted.iter().rposition(|counts| *counts);
        let end = self.ids.len().checked_sub(1).and_then(is_stop).or_else(|| last_counted.and_then(is_stop));
        let end_counts = last_counted.is_some_and(|at| is_stop(at).is_some());
        self.ids.truncate(max);
        self.counted.truncate(max);
        // Cut within a later prompt, the row ends without a word that counts.
        let within_answer = max.checked_sub(2).and_then(|at| self.counted.get(at)).is_some_and(|counts| *counts);
        if let (Some(end), Some(id), Some(counts)) = (end, self.ids.last_mut(), self.counted.last_mut()) {
            *id = end;
            *counts = within_answer && end_counts;
        }
    }
}

fn encode_row(
    row: &Row,
    tokenizer: &Tokenizer,
    settings: &Settings,
    template: Option<&ChatTemplate>,
) -> Result<Encoded> {
    let empty = row.content.is_empty();
    if empty {
        return Ok(Encoded { empty, ..Encoded::default() });
    }
    if let Content::Tokens { ids, counted } = &row.content {
        let counted = match counted {
            Some(counted) if settings.train_on == super::TrainOn::Answers => counted.clone(),
            _ => vec![true; ids.len()],
        };
        return Ok(Encoded { ids: ids.clone(), counted, ..Encoded::default() });
    }
    let draft = draft(&row.content, settings, template)?;
    let (ids, counted, duplicate_bos) = draft.tokenize(tokenizer, settings.bos)?;
    let tools_unread = match (&row.content, template) {
        (Content::Chat(conversation), Some(template)) => template.leaves_tools(conversation),
        _ => false,
    };
    Ok(Encoded { ids, counted, duplicate_bos, unwritten: draft.unwritten, tools_unread, empty })
}

/// The same fault, at the row where it was met.
fn at_row(fault: Fault, rows: &Rows, row: &Row) -> Fault {
    match fault.spot {
        Some(_) => fault,
        None => fault.at_line(rows.file(row.origin), row.origin.line, None),
    }
}

fn too_long(rows: &Rows, origin: Origin, len: usize, max: usize, count: usize, longest: usize) -> Fault {
    let message = format!("a row of {len} tokens is longer than `max_len={max}`");
    let others = match count {
        1 => "it is the only one".to_owned(),
        _ => format!("{count} of {} rows are longer; the longest has {longest} tokens", rows.len()),
    };
    rows.fault(origin, "data.long_row", message)
        .note(others)
        .help(format!("`long=truncate`, `long=drop`, or `max_len={longest}`"))
}

fn nothing_left(rows: &Rows, set: &TokenSet) -> Fault {
    let report = &set.report;
    let mut fault = Fault::new("data.no_rows", format!("none of {} rows is left to train on", report.read));
    if let Some(first) = rows.files.first() {
        fault = fault.at(first);
    }
    let reasons = [
        (report.dropped_empty, "are empty"),
        (report.dropped_long, "are longer than `max_len` and were dropped"),
        (report.answer_cut, "lost their whole answer to `max_len`"),
        (report.zero_counted - report.answer_cut, "have no token that counts in the loss: there is no answer in them"),
    ];
    for (count, reason) in reasons.into_iter().filter(|(count, _)| *count > 0) {
        fault = fault.note(format!("{count} {reason}"));
    }
    fault
}
