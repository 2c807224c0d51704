//! Comments as other languages write them. They are reported, once for each way, and then read as blanks, so that nothing
//! in them is taken for arguments.

use std::borrow::Cow;
use std::ops::Range;

use crate::text::{Diagnostic, SourceId, Span};

/// How a comment begins elsewhere.
const OPENERS: [&str; 4] = ["//", "/*", "--", ";"];

/// The text with other languages' comments blanked out, each byte for a space: places stay what they are.
pub(super) fn blanked<'t>(text: &'t str, source: SourceId, diagnostics: &mut Vec<Diagnostic>) -> Cow<'t, str> {
    let found = find(text);
    report(text, source, &found, diagnostics);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut blanked = String::with_capacity(text.len());
    for (_, range) in found {
        blanked.push_str(text.get(blanked.len()..range.start).unwrap_or(""));
        let comment = text.get(range).unwrap_or("");
        // Line breaks in a comment of several lines stay.
        blanked.extend(comment.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { char::from(byte) } else { ' ' }));
    }
    blanked.push_str(text.get(blanked.len()..).unwrap_or(""));
    Cow::Owned(blanked)
}

/// Every such comment with how it begins, outside quotes and comments of our own.
fn find(text: &str) -> Vec<(&'static str, Range<usize>)> {
    let mut found = Vec::new();
    let (mut at, mut behind) = (0, 0);
    for raw in text.split_inclusive('\n') {
        let (start, line) = (at, raw.trim_end());
        at += raw.len();
        let mut chars = line.char_indices();
        while let Some((column, c)) = chars.next() {
            // In a comment that began before.
            if start + column < behind {
                continue;
            }
            match c {
                '#' => break,
                '"' => {
                    let mut escaped = false;
                    // One that is not closed on its line is a mistake of its own.
                    let _ = chars.find(|(_, c)| {
                        let closes = *c == '"' && !escaped;
                        escaped = *c == '\\' && !escaped;
                        closes
                    });
                }
                '/' | '-' | ';' => {
                    let Some(opener) = opener(line, column) else { continue };
                    let rest = text.get(start + column..).unwrap_or("");
                    // A comment that is never closed is its line's alone, so that it does not hide the rest.
                    let closed = if opener == "/*" { rest.find("*/").map(|end| end + 2) } else { None };
                    behind = start + column + closed.unwrap_or(line.len() - column);
                    found.push((opener, start + column..behind));
                }
                _ => {}
            }
        }
    }
    found
}

/// The way in which a comment begins in a line, if one does: behind a blank or at the line's start, and not as something
/// else that begins so.
fn opener(line: &str, column: usize) -> Option<&'static str> {
    let (before, rest) = line.split_at_checked(column)?;
    let found = OPENERS.into_iter().find(|opener| rest.starts_with(opener))?;
    let first = before.trim_start_matches('\u{FEFF}').trim().is_empty();
    if !first && !before.ends_with([' ', '\t']) {
        return None;
    }
    let behind = rest.get(found.len()..).unwrap_or("");
    let spaced = behind.is_empty() || behind.starts_with([' ', '\t']);
    let word = behind.split_whitespace().next().unwrap_or("");
    let comment = match found {
        // `--lr=3` is an argument of a command line.
        "--" => spaced || behind.starts_with('-'),
        // `rank=8 ; lr=3` keeps arguments apart.
        ";" => (first || spaced) && !word.contains('='),
        _ => true,
    };
    comment.then_some(found)
}

/// One error for each way, however many comments are written so.
fn report(text: &str, source: SourceId, found: &[(&'static str, Range<usize>)], diagnostics: &mut Vec<Diagnostic>) {
    for opener in OPENERS {
        let mut so = found.iter().filter(|(other, _)| *other == opener);
        let Some((_, range)) = so.next() else { continue };
        let written = text.get(range.clone()).unwrap_or("");
        let first = written.lines().next().unwrap_or("");
        let words = first.trim_start_matches(opener).trim_end_matches("*/").trim_matches(['*', '-', ' ']);
        let words = if words.is_empty() { "…" } else { words };
        let mut diagnostic = Diagnostic::error("syntax.comment", "a comment begins with `#` and ends with its line")
            .label(Span::new(source, range.start, range.start + first.len()), format!("begins with `{opener}`"))
            .help(format!("write `# {words}`"));
        let more = so.count();
        if more > 0 {
            diagnostic = diagnostic.note(format!("{} comments of this file begin so", more + 1));
        }
        diagnostics.push(diagnostic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_like_a_comment_is_not_always_one() {
        for line in ["// a", "x // a", "x /* a */ y", "-- a", "x -- a", "x --", "; a", ";a", "x ; a b", "\u{FEFF}// a"]
        {
            assert_eq!(find(line).len(), 1, "{line}");
        }
        for line in [
            "a//b",
            "http://x",
            "x --lr=3",
            "--lr",
            "x ; lr=3",
            "x; y",
            "rows/*.jsonl",
            "a - b",
            "\"a // b\"",
            "# a // b",
        ] {
            assert!(find(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn places_stay_what_they_are() {
        let text = "a /* é\nb */ c // d\n\"\\\" // e\" -- f\n/* open\ng\n";
        let mut said = Vec::new();
        let blanked = blanked(text, SourceId(0), &mut said);
        assert_eq!(blanked, "a      \n     c     \n\"\\\" // e\"     \n       \ng\n");
        assert_eq!((blanked.len(), said.len()), (text.len(), 3));
    }
}
