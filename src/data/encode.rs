//! Rows to ids: read, tokenised and let go a window at a time, in parallel, in order.

use rayon::prelude::*;

use super::apart::Apart;
use super::draft::draft;
use super::read::{Reader, Window};
use super::tokens::{Builder, Piece};
use super::{
    ChatTemplate, Content, Format, Long, Origin, Report, Settings, TokenSet, Tokenizer, TrainOn, Work, Written,
};
use crate::text::{Fault, Result};

/// Rows that a report names.
const NAMED: usize = 5;

/// Reads and tokenises every row: with its marks of what counts, begun and ended as tokenizer and settings say, no
/// longer than `max_len`. Rows are done in parallel and kept in order, so the result does not depend on the number of
/// threads. `progress` hears of (done, total) bytes of the files, on the calling thread. With the rows come the SHA-256
/// of each file's bytes as they were read.
///
/// # Errors
/// What is wrong with the files, at file, line and column: `file.*`, `data.bad_json`, `data.bad_row`,
/// `data.not_utf8`, `data.unknown_file`, `data.empty`. `data.long_row` under `long=error`, naming the first such row,
/// how many there are and the longest; `data.no_rows` where none is left; `data.no_template`, `template.*` and
/// `tokenizer.failed` at the row that met them.
pub fn tokenise(
    settings: &Settings,
    tokenizer: &Tokenizer,
    template: Option<&ChatTemplate>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(TokenSet, Vec<[u8; 32]>)> {
    let mut reader = Reader::new(settings)?;
    let mut set = Builder::default();
    set.report.no_eos = settings.eos && settings.format != Format::Tokens && tokenizer.eos().is_none();
    let mut long: Option<(Origin, usize)> = None;
    let mut long_rows = 0usize;
    let mut window = Window::default();
    let total = reader.bytes();
    progress(0, total);
    let apart = Apart::new();
    while reader.fill(&mut window)? {
        let one = |at: usize| {
            let done = one_row(&window, at, settings, tokenizer, template);
            done.map_err(|fault| at_row(fault, settings, window.origin(at)))
        };
        let done: Vec<Result<Done>> = apart.run(|| (0..window.len()).into_par_iter().map(one).collect());
        let mut kept = Vec::with_capacity(done.len());
        let mut work = Work { rows: window.len() as u64, text: window.bytes() as u64, ..Work::default() };
        for (at, done) in done.into_iter().enumerate() {
            let (mut done, origin) = (done?, window.origin(at));
            let written = Written { bytes: done.written.max(window.bytes_of(at)) as u64, tokens: done.len as u64 };
            work.window = work.window.and(written);
            work.longest = work.longest.max(written);
            if done.fate == Fate::TooLong {
                long_rows += 1;
                long.get_or_insert((origin, done.len));
            }
            count(&mut set.report, &done, origin);
            // Rows that will be refused are only counted.
            if long.is_none() {
                kept.extend(done.pieces.drain(..).map(|piece| (piece, origin)));
            }
        }
        set.append(kept, work);
        // A file that grew meanwhile is no more than done.
        progress(reader.bytes_read().min(total.saturating_sub(1)), total);
    }
    progress(total, total);
    if let (Some((origin, len)), Some(max)) = (long, settings.max_len) {
        return Err(too_long(settings, &set.report, origin, len, max, long_rows));
    }
    let set = set.finish();
    if set.is_empty() {
        return Err(nothing_left(settings, &set.report));
    }
    Ok((set, reader.into_digests()))
}

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Truncated,
    Split,
    Empty,
    /// Under `long=error`.
    TooLong,
    Dropped,
    /// Nothing in it counts; where it was truncated, perhaps for that.
    Uncounted {
        cut: bool,
    },
}

/// A row, done.
struct Done {
    fate: Fate,
    /// What is kept of it: itself, or what it was split into.
    pieces: Vec<Piece>,
    /// Bytes as it was written out for the tokenizer.
    written: usize,
    /// Tokens before `max_len` had its say.
    len: usize,
    /// See [`Report`].
    duplicate_bos: bool,
    unwritten: bool,
    tools_unread: bool,
}

fn count(report: &mut Report, done: &Done, origin: Origin) {
    report.read += 1;
    report.duplicate_bos += usize::from(done.duplicate_bos);
    report.unwritten += usize::from(done.unwritten);
    report.tools_unread += usize::from(done.tools_unread);
    report.longest_read = report.longest_read.max(done.len);
    match done.fate {
        Fate::Kept | Fate::TooLong => {}
        Fate::Truncated => report.truncated += 1,
        Fate::Split => report.split += 1,
        Fate::Empty => report.dropped_empty += 1,
        Fate::Dropped => report.dropped_long += 1,
        Fate::Uncounted { cut } => {
            report.zero_counted += 1;
            report.answer_cut += usize::from(cut);
            if report.zero_places.len() < NAMED {
                report.zero_places.push(origin);
            }
        }
    }
}

fn one_row(
    window: &Window,
    at: usize,
    settings: &Settings,
    tokenizer: &Tokenizer,
    template: Option<&ChatTemplate>,
) -> Result<Done> {
    let content = window.content(at, settings)?;
    if content.is_empty() {
        return Ok(Done {
            fate: Fate::Empty,
            pieces: Vec::new(),
            written: 0,
            len: 0,
            duplicate_bos: false,
            unwritten: false,
            tools_unread: false,
        });
    }
    let mut row = encoded(content, tokenizer, settings, template)?;
    let len = row.ids.len();
    let mut pieces = Vec::new();
    let mut cut = false;
    let fate = match settings.max_len.filter(|max| len > *max) {
        Some(_) if settings.long == Long::Error => Fate::TooLong,
        Some(_) if settings.long == Long::Drop => Fate::Dropped,
        // A row in which nothing counts is told as any other such.
        Some(max) if settings.long == Long::Split && row.counts() => {
            split(&mut pieces, &row, max);
            Fate::Split
        }
        long => {
            if let Some(max) = long.filter(|_| settings.long == Long::Truncate) {
                cut = true;
                row.truncate(max, tokenizer.stop_ids());
            }
            match (row.counts(), cut) {
                (false, cut) => Fate::Uncounted { cut },
                (true, true) => Fate::Truncated,
                (true, false) => Fate::Kept,
            }
        }
    };
    let Encoded { ids, counted, written, duplicate_bos, unwritten, tools_unread } = row;
    if matches!(fate, Fate::Kept | Fate::Truncated) {
        pieces.push(Piece::new(ids, counted));
    }
    Ok(Done { fate, pieces, written, len, duplicate_bos, unwritten, tools_unread })
}

/// Keeps a row as pieces of at most `max` tokens. Each after the first begins with the last token of the one before,
/// so that every token is learnt once: a row's first token is never a label. A piece in which nothing counts is left
/// out.
fn split(pieces: &mut Vec<Piece>, row: &Encoded, max: usize) {
    let mut start = 0;
    // One token alone has nothing to learn.
    while start + 1 < row.ids.len() {
        let end = start.saturating_add(max).min(row.ids.len());
        let (ids, counted) = (&row.ids[start..end], &row.counted[start..end]);
        if counted.iter().skip(1).any(|counts| *counts) {
            pieces.push(Piece::new(ids.to_vec(), counted.to_vec()));
        }
        // `max_len` is two or more, so it goes on.
        start = end.saturating_sub(1).max(start + 1);
    }
}

#[derive(Default)]
struct Encoded {
    ids: Vec<u32>,
    counted: Vec<bool>,
    written: usize,
    duplicate_bos: bool,
    unwritten: bool,
    tools_unread: bool,
}

impl Encoded {
    /// Whether there is anything to learn: a row's first token is never a label.
    fn counts(&self) -> bool {
        self.counted.iter().skip(1).any(|counts| *counts)
    }

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

/// A row's ids with their marks, before `max_len`.
fn encoded(
    content: Content,
    tokenizer: &Tokenizer,
    settings: &Settings,
    template: Option<&ChatTemplate>,
) -> Result<Encoded> {
    if let Content::Tokens { ids, counted } = content {
        let counted = match counted {
            Some(counted) if settings.train_on == TrainOn::Answers => counted,
            _ => vec![true; ids.len()],
        };
        return Ok(Encoded { ids, counted, ..Encoded::default() });
    }
    let draft = draft(&content, settings, template)?;
    let (ids, counted, duplicate_bos) = draft.tokenize(tokenizer, settings.bos)?;
    let tools_unread = match (&content, template) {
        (Content::Chat(conversation), Some(template)) => template.leaves_tools(conversation),
        _ => false,
    };
    let (written, unwritten) = (draft.bytes(), draft.unwritten);
    Ok(Encoded { ids, counted, written, duplicate_bos, unwritten, tools_unread })
}

/// The same fault, at the row where it was met.
fn at_row(fault: Fault, settings: &Settings, origin: Origin) -> Fault {
    match fault.spot {
        Some(_) => fault,
        None => fault.at_line(settings.path_of(origin), origin.line, None),
    }
}

fn too_long(settings: &Settings, report: &Report, origin: Origin, len: usize, max: usize, count: usize) -> Fault {
    let (read, longest) = (report.read, report.longest_read);
    let message = format!("a row of {len} tokens is longer than `max_len={max}`");
    let others = match count {
        1 => "it is the only one".to_owned(),
        _ => format!("{count} of {read} rows are longer; the longest has {longest} tokens"),
    };
    Fault::new("data.long_row", message)
        .at_line(settings.path_of(origin), origin.line, None)
        .note(others)
        .help(format!("`long=truncate`, `long=drop`, or `max_len={longest}`"))
}

fn nothing_left(settings: &Settings, report: &Report) -> Fault {
    let mut fault = Fault::new("data.no_rows", format!("none of {} rows is left to train on", report.read));
    if let Some(first) = settings.paths.first() {
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
