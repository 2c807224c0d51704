//! What a diagnostic shows of a text whose lines are too long to read, or hold characters that a terminal would obey.

use std::borrow::Cow;

use super::harmless::{obeyed, picture};
use super::{Source, Span};

/// Bytes of a line that is shown whole.
const LONG: usize = 300;
/// Characters that are kept around what is pointed at.
const AROUND: usize = 50;
/// Words of a message that nobody reads to the end.
const WORD: usize = 400;

/// A text of the same lines, of which only those around the labels hold something, and that cut to what is worth
/// seeing; with the labels' places in it.
pub(super) struct Excerpt {
    pub text: String,
    /// Offset and length of each label.
    pub places: Vec<(usize, usize)>,
}

impl Excerpt {
    /// None where the lines around the places can be shown as they are. `places` are offsets and lengths.
    pub fn of(source: &Source, places: &[(usize, usize)]) -> Option<Excerpt> {
        let last_byte = source.text.len();
        let end_of = |(start, length): &(usize, usize)| start.saturating_add(*length).min(last_byte);
        let mut shown: Vec<usize> = Vec::new();
        for place in places {
            let first = source.line_of(place.0).0;
            let last = source.line_of(end_of(place).saturating_sub(1).max(place.0)).0;
            shown.extend(first.saturating_sub(1)..=last.saturating_add(1));
        }
        shown.sort_unstable();
        shown.dedup();
        let line = |number: usize| {
            let bytes = source.lines(number, number);
            (bytes.start, source.text.get(bytes).unwrap_or(""))
        };
        if shown.iter().map(|number| line(*number).1).all(|line| line.len() <= LONG && !line.chars().any(obeyed)) {
            return None;
        }
        let mut points: Vec<usize> = places.iter().flat_map(|place| [place.0, end_of(place)]).collect();
        points.sort_unstable();
        let mut text = String::new();
        // Where each point of the source lies in the excerpt.
        let mut found: Vec<(usize, usize)> = Vec::new();
        let mut at = 0;
        for number in shown {
            text.extend(std::iter::repeat_n('\n', number.saturating_sub(at)));
            at = number + 1;
            let (start, line) = line(number);
            let here = points.iter().filter(|point| (start..=start + line.len()).contains(*point)).map(|p| p - start);
            for (from, to) in cut(line, &here.collect::<Vec<_>>(), &mut text) {
                found.push((start + from, to));
            }
        }
        let to = |point: usize| {
            let behind = found.partition_point(|(from, _)| *from <= point);
            behind.checked_sub(1).and_then(|at| found.get(at)).map_or(0, |(_, to)| *to)
        };
        let places = places.iter().map(|place| (to(place.0), to(end_of(place)).saturating_sub(to(place.0)))).collect();
        Some(Excerpt { text, places })
    }
}

/// Adds a line's stretches around `points`, all of it where it is short; with each kept character's places before and
/// after. `…` stands for what was left out.
fn cut(line: &str, points: &[usize], text: &mut String) -> Vec<(usize, usize)> {
    let mut kept: Vec<(usize, usize)> = Vec::new();
    if line.len() <= LONG {
        kept.push((0, line.len()));
    } else {
        // A line that nothing points at is shown by its beginning.
        let points = if points.is_empty() { &[0][..] } else { points };
        for point in points {
            let from = line
                .get(..*point)
                .map_or(0, |before| before.char_indices().rev().take(AROUND).last().map_or(*point, |(at, _)| at));
            let to = line.get(*point..).map_or(line.len(), |behind| {
                behind.char_indices().nth(AROUND).map_or(line.len(), |(at, _)| point + at)
            });
            match kept.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => kept.push((from, to)),
            }
        }
    }
    let mut places = Vec::new();
    let mut done = 0;
    for (from, to) in kept {
        if from > done {
            places.push((done, text.len()));
            text.push('…');
        }
        for (at, c) in line.get(from..to).unwrap_or("").char_indices() {
            places.push((from + at, text.len()));
            text.push(if obeyed(c) { picture(c) } else { c });
        }
        done = to;
    }
    if done < line.len() {
        places.push((done, text.len()));
        text.push_str("…\n");
    }
    places.push((line.len(), text.len() - usize::from(text.ends_with('\n'))));
    places
}

/// Words as they can be shown: nothing that a terminal obeys, and no word of a thousand characters.
pub(super) fn words(text: &str) -> Cow<'_, str> {
    let endless = |word: &str| word.len() > WORD;
    if !text.chars().any(obeyed) && !text.split_whitespace().any(endless) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for word in text.split_inclusive(char::is_whitespace) {
        let count = word.chars().count();
        let ends = endless(word);
        for (at, c) in word.chars().enumerate() {
            match ends && at >= AROUND && at + AROUND < count {
                true if at == AROUND => shown.push('…'),
                true => {}
                false => shown.push(if obeyed(c) { picture(c) } else { c }),
            }
        }
    }
    Cow::Owned(shown)
}

/// A span's offset and length, cut to characters that can be pointed at.
pub(super) fn visible(source: &Source, span: Span) -> (usize, usize) {
    let text = &*source.text;
    let floor = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let mut start = floor(span.start as usize);
    let end = floor(span.end as usize).max(start);
    // The end of a file has no line to show: point behind the last character instead, or at it where it is wide.
    if start == text.len() {
        start = text.trim_end().len();
        if let Some(last) = text.get(..start).and_then(|text| text.chars().last()).filter(|last| !last.is_ascii()) {
            return (start - last.len_utf8(), last.len_utf8());
        }
    }
    (start, end.saturating_sub(start))
}
