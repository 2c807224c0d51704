//! `preview`: rows as a model sees them. Tokens that count in the loss are told from those that are only read.

use std::fmt::Write;

use serde_json::{Value, json};

use super::histogram::Histogram;
use super::paper::{Ink, Paper, clip, prose, wrap};
use crate::data::{ChatTemplate, Tokenizer};
use crate::stages::Preview;

/// Tokens of a row that are shown; the rest is counted.
const SHOWN: usize = 480;
/// Rows that a warning names.
const NAMED: usize = 3;

/// A row's tokens with their texts.
struct Shown {
    place: String,
    pieces: Vec<Piece>,
    /// Tokens of the whole row, and how many of them count.
    tokens: usize,
    counted: usize,
    held_out: bool,
}

struct Piece {
    id: u32,
    text: String,
    /// Its id is a label that counts in the loss.
    trained: bool,
}

/// The first rows, their lengths, and what is odd about them.
pub fn preview_page(seen: &Preview, rows: usize, paper: Paper) -> String {
    let mut out = String::new();
    let files: Vec<String> = seen.settings.paths.iter().map(|path| path.display().to_string()).collect();
    let head = format!("load data in line {}, for {} in line {}", seen.line, seen.stage, seen.stage_line);
    prose(&mut out, paper, Ink::Strong, &head, "");
    let _ = writeln!(out, "  {}", clip(&files.join(", "), paper.width.saturating_sub(2)));
    prose(&mut out, paper, Ink::Faint, &template_words(seen), "  ");
    out.push('\n');
    for shown in rows_of(seen, rows) {
        let _ = writeln!(
            out,
            "{} {}",
            paper.ink(Ink::Name, &shown.place),
            paper.ink(
                Ink::Faint,
                &format!(
                    "{} tokens, {} trained on{}",
                    shown.tokens,
                    shown.counted,
                    if shown.held_out { "; held out" } else { "" }
                )
            ),
        );
        tokens(&mut out, &shown, paper);
        out.push('\n');
    }
    let _ = writeln!(out, "{}", legend(paper));
    counts(&mut out, seen, paper);
    if let Some(drawn) = Histogram::of(&seen.encoded.tokens.sizes().len) {
        let _ = writeln!(out, "\n{}", paper.ink(Ink::Faint, "tokens a row"));
        out.push_str(&drawn.render(paper, "  "));
    }
    let odd = oddities(seen);
    if !odd.is_empty() {
        out.push('\n');
    }
    for words in odd {
        marked(&mut out, paper, "", "note:", &words);
    }
    out
}

/// A sentence behind a word that stands out.
fn marked(out: &mut String, paper: Paper, indent: &str, mark: &str, text: &str) {
    let under = indent.len() + mark.chars().count() + 1;
    for (at, line) in wrap(text, paper.width.saturating_sub(under)).iter().enumerate() {
        let _ = match at {
            0 => writeln!(out, "{indent}{} {line}", paper.ink(Ink::Warn, mark)),
            _ => writeln!(out, "{:under$}{line}", ""),
        };
    }
}

fn template_words(seen: &Preview) -> String {
    let own = seen.tokenizer.chat_template();
    let uses = matches!(seen.settings.format.name(), "chat" | "alpaca");
    match (&seen.template, own, uses) {
        (_, _, false) => format!("format={}, as written: no template", seen.settings.format.name()),
        (Some(name), _, _) if ChatTemplate::builtin(name).is_some() => format!("through the chat template `{name}`"),
        (Some(given), own, _) if own != Some(given.as_str()) => {
            "through the chat template that the pipeline gives".into()
        }
        (_, Some(_), _) => "through the model's own chat template".into(),
        (_, None, _) => "through Alpaca's prompt: the model has no chat template".into(),
    }
}

fn rows_of(seen: &Preview, rows: usize) -> Vec<Shown> {
    let tokens = &seen.encoded.tokens;
    let last = tokens.len().min(rows) as u32;
    (0..last)
        .map(|row| {
            let (ids, counted) = (tokens.ids(row), tokens.counted(row));
            // A row's first token is no label, whatever its flag says.
            let trained = |at: usize| at > 0 && counted.get(at).copied().unwrap_or(false);
            let texts = texts(&seen.tokenizer, ids.get(..ids.len().min(SHOWN)).unwrap_or(ids));
            let pieces = texts.into_iter().zip(ids).enumerate();
            Shown {
                place: place(seen, row),
                pieces: pieces.map(|(at, (text, id))| Piece { id: *id, text, trained: trained(at) }).collect(),
                tokens: ids.len(),
                counted: (0..ids.len()).filter(|at| trained(*at)).count(),
                held_out: seen.encoded.held.contains(&row),
            }
        })
        .collect()
}

fn place(seen: &Preview, row: u32) -> String {
    let origin = seen.encoded.tokens.origin(row);
    let path = origin.and_then(|origin| seen.settings.paths.get(origin.file as usize));
    let file =
        path.and_then(|path| path.file_name()).map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    format!("{file}:{}", origin.map_or(0, |origin| origin.line))
}

/// What each token adds to the text of those before it. A token that ends within a character adds it with the next.
fn texts(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    let mut told = String::new();
    (1..=ids.len())
        .map(|upto| {
            let whole = ids.get(..upto).and_then(|ids| tokenizer.show(ids).ok()).unwrap_or_default();
            if whole.ends_with('\u{fffd}') && upto < ids.len() {
                return String::new();
            }
            let same = whole.bytes().zip(told.bytes()).take_while(|(a, b)| a == b).count();
            let from = (0..=same).rev().find(|at| whole.is_char_boundary(*at)).unwrap_or(0);
            let text = whole.get(from..).unwrap_or_default().to_owned();
            told = whole;
            text
        })
        .collect()
}

/// On two grounds where there is colour; where there is none, what is trained on stands between `⟦` and `⟧`.
fn tokens(out: &mut String, shown: &Shown, paper: Paper) {
    let mut line = String::from("  ");
    let mut within = false;
    for (at, piece) in shown.pieces.iter().enumerate() {
        if !paper.colour && piece.trained != within {
            line.push(if piece.trained { '⟦' } else { '⟧' });
            within = piece.trained;
        }
        let odd = at % 2 == 1;
        let ink = if piece.trained { Ink::Trained(odd) } else { Ink::Given(odd) };
        let mut rest = piece.text.as_str();
        while let Some((before, after)) = rest.split_once('\n') {
            line.push_str(&paper.ink(ink, &format!("{}↵", visible(before))));
            out.push_str(line.trim_end_matches(' '));
            out.push('\n');
            line = String::from("  ");
            rest = after;
        }
        if !rest.is_empty() {
            line.push_str(&paper.ink(ink, &visible(rest)));
        }
    }
    if within && !paper.colour {
        line.push('⟧');
    }
    let left = shown.tokens.saturating_sub(shown.pieces.len());
    if left > 0 {
        line.push_str(&paper.ink(Ink::Faint, &format!(" … {left} more tokens")));
    }
    // A row that ends on a line break has said all.
    if !line.trim().is_empty() {
        out.push_str(line.trim_end_matches(' '));
        out.push('\n');
    }
}

/// Characters that would move the cursor, made visible.
fn visible(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => '→',
            '\r' => '␍',
            c if c.is_control() => '␦',
            c => c,
        })
        .collect()
}

fn legend(paper: Paper) -> String {
    if paper.colour {
        format!("{} {}", paper.ink(Ink::Trained(false), " trained on "), paper.ink(Ink::Given(false), " only read "))
    } else {
        wrap("⟦trained on⟧, the rest is only read; ↵ is a line break", paper.width).join("\n")
    }
}

/// Rows read, kept, and what became of the others.
fn counts(out: &mut String, seen: &Preview, paper: Paper) {
    let report = &seen.encoded.tokens.report;
    let held = seen.encoded.held.len();
    let share = report.counted as f64 / report.tokens.max(1) as f64 * 100.0;
    let text = format!(
        "{} rows read, {} kept: {} to train on, {held} held out; {} tokens, {} trained on ({share:.1} %)",
        report.read,
        report.rows,
        seen.encoded.train.len(),
        report.tokens,
        report.counted
    );
    out.push('\n');
    wrap(&text, paper.width).iter().for_each(|line| out.extend([&**line, "\n"]));
    let told = [
        (report.truncated, "cut to `max_len`"),
        (report.dropped_long, "dropped: longer than `max_len`"),
        (report.dropped_empty, "dropped: empty"),
        (report.unwritten, "have an answer that the chat template does not write"),
        (report.tools_unread, "have tools that the chat template does not write"),
        (report.zero_counted, "dropped: no token of them counts in the loss"),
        (report.answer_cut, "of those lost their whole answer to `max_len`"),
    ];
    for (count, words) in told.into_iter().filter(|(count, _)| *count > 0) {
        marked(out, paper, "  ", &count.to_string(), words);
    }
}

/// What a person should look at twice: doubled beginnings, missing ends, ends that are not learnt.
fn oddities(seen: &Preview) -> Vec<String> {
    let (tokens, report) = (&seen.encoded.tokens, &seen.encoded.tokens.report);
    let mut odd = Vec::new();
    if report.duplicate_bos > 0 {
        odd.push(format!(
            "{} rows bring a beginning-of-text token of their own; the second was taken out",
            report.duplicate_bos
        ));
    }
    let name = |rows: &[u32]| {
        let places: Vec<String> = rows.iter().take(NAMED).map(|row| place(seen, *row)).collect();
        places.join(", ")
    };
    let all = || 0..tokens.len() as u32;
    if let Some(bos) = seen.tokenizer.bos() {
        let doubled: Vec<u32> = all().filter(|row| tokens.ids(*row).starts_with(&[bos, bos])).collect();
        if !doubled.is_empty() {
            odd.push(format!("{} rows begin with two beginning-of-text tokens: {}", doubled.len(), name(&doubled)));
        }
    }
    let stops = seen.tokenizer.stop_ids();
    if stops.is_empty() {
        odd.push("the tokenizer knows no end-of-text token, so the model is not taught where to stop".into());
        return odd;
    }
    let stop = |row: u32| tokens.ids(row).iter().rposition(|id| stops.contains(id));
    // Of a row that was split only the last piece can end.
    let goes_on = |row: u32| tokens.origin(row).is_some() && tokens.origin(row) == tokens.origin(row + 1);
    let endless: Vec<u32> = all().filter(|row| stop(*row).is_none() && !goes_on(*row)).collect();
    if !endless.is_empty() {
        let way = if seen.settings.eos { "" } else { " (`no_eos` is set)" };
        odd.push(format!(
            "{} rows have no end-of-text token{way}, so they do not teach the model where to stop: {}",
            endless.len(),
            name(&endless)
        ));
    }
    let taught = |row: u32| {
        let marks = tokens.ids(row).iter().zip(tokens.counted(row)).skip(1);
        marks.into_iter().any(|(id, counts)| *counts && stops.contains(id))
    };
    let unlearnt: Vec<u32> = all().filter(|row| stop(*row).is_some() && !taught(*row)).collect();
    if !unlearnt.is_empty() {
        odd.push(format!(
            "{} rows end without their end-of-text token being trained on: {}",
            unlearnt.len(),
            name(&unlearnt)
        ));
    }
    odd
}

/// For programs: texts, ids and marks of the first rows, counts, lengths in bins.
pub fn preview_json(seen: &Preview, rows: usize) -> Value {
    let report = &seen.encoded.tokens.report;
    let shown: Vec<Value> = rows_of(seen, rows)
        .iter()
        .map(|row| {
            let ids: Vec<u32> = row.pieces.iter().map(|piece| piece.id).collect();
            let texts: Vec<&str> = row.pieces.iter().map(|piece| piece.text.as_str()).collect();
            let trained: Vec<bool> = row.pieces.iter().map(|piece| piece.trained).collect();
            json!({"place": row.place, "tokens": row.tokens, "counted": row.counted, "held_out": row.held_out,
                   "ids": ids, "texts": texts, "trained": trained})
        })
        .collect();
    let lengths = Histogram::of(&seen.encoded.tokens.sizes().len).map(|drawn| {
        let [half, nine, ninety_nine, all] = drawn.quantiles;
        json!({"from": drawn.from, "step": drawn.step, "counts": drawn.counts, "p50": half, "p90": nine,
               "p99": ninety_nine, "max": all})
    });
    json!({
        "line": seen.line,
        "stage": seen.stage,
        "format": seen.settings.format.name(),
        "template": template_words(seen),
        "rows": shown,
        "report": report,
        "train_rows": seen.encoded.train.len(),
        "held_rows": seen.encoded.held.len(),
        "lengths": lengths,
        "notes": oddities(seen),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_row_is_some_tokens() {
        let tokenizer = Tokenizer::bytes().expect("made");
        let text = "né\n日";
        let ids = tokenizer.encode(text, false).expect("encoded");
        let texts = texts(&tokenizer, &ids);
        assert_eq!(texts.len(), ids.len());
        assert_eq!(texts.concat(), text);
        assert_eq!((&*texts[0], &*texts[1], &*texts[2]), ("n", "", "é"));
    }

    #[test]
    fn without_colour_marks_tell_what_is_trained() {
        let piece = |text: &str, trained| Piece { id: 0, text: text.into(), trained };
        let pieces = vec![piece("Q:\n", false), piece(" yes", true), piece("\t.", true)];
        let shown = Shown { place: String::new(), pieces, tokens: 9, counted: 2, held_out: false };
        let mut out = String::new();
        tokens(&mut out, &shown, Paper::plain());
        assert_eq!(out, "  Q:↵\n  ⟦ yes→.⟧ … 6 more tokens\n");
        let mut out = String::new();
        tokens(&mut out, &shown, Paper { width: 80, colour: true, screen: true });
        assert!(out.contains("\u{1b}[30;102m yes\u{1b}[0m\u{1b}[30;42m→.\u{1b}[0m"), "{out:?}");
    }
}
