//! Words of a user, a file or a model as a terminal can be given them: it shows them, and obeys none.

use std::borrow::Cow;

/// Whether a terminal would do something else than show it. Tabs and line ends are shown as such.
pub(super) fn obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && !matches!(c, '\t' | '\n' | '\r')) || turns
}

pub(super) fn picture(c: char) -> char {
    match u32::from(c) {
        code @ 0..0x20 => char::from_u32(0x2400 + code).unwrap_or('␦'),
        0x7f => '␡',
        _ => '␦',
    }
}

/// A text with pictures in the place of characters that a terminal obeys: `␛` for ESC.
pub fn shown(text: &str) -> Cow<'_, str> {
    let alone = |at: usize| text.as_bytes().get(at + 1) != Some(&b'\n');
    let odd = |at: usize, c: char| obeyed(c) || (c == '\r' && alone(at));
    if !text.char_indices().any(|(at, c)| odd(at, c)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.char_indices().map(|(at, c)| if odd(at, c) { picture(c) } else { c }).collect())
}

/// JSON with the characters that a terminal obeys written as `\\u009b`: its strings stay what they are.
pub fn escaped(json: &str) -> Cow<'_, str> {
    if !json.chars().any(obeyed) {
        return Cow::Borrowed(json);
    }
    let one = |c: char| if obeyed(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(json.chars().map(one).collect())
}

/// The same as [`shown`], but that colours stay: sequences of the form `ESC [ 1 ; 32 m`, which is all that is drawn with here.
pub(super) fn coloured(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return shown(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, from) = rest.split_at(at);
        out.push_str(&shown(before));
        let length = colour(from).unwrap_or(1);
        match length {
            1 => out.push('␛'),
            _ => out.push_str(&from[..length]),
        }
        rest = &from[length..];
    }
    out.push_str(&shown(rest));
    Cow::Owned(out)
}

/// The length of the colour that a text begins with.
fn colour(text: &str) -> Option<usize> {
    let inside = text.strip_prefix("\u{1b}[")?;
    let digits = inside.len() - inside.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').len();
    inside.get(digits..)?.starts_with('m').then_some(digits + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        assert_eq!(shown("a\u{1b}[2Jb\u{7}\u{9b}\u{202e}\tc\r\nd\re\u{7f}"), "a␛[2Jb␇␦␦\tc\r\nd␍e␡");
        assert!(matches!(shown("plain – ä\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_keeps_what_it_says() {
        let text = "a\u{1b}[2J\u{9b}\u{202e}\u{7f}";
        let written = serde_json::json!([text]).to_string();
        let escaped = escaped(&written);
        assert!(escaped.is_ascii() && !escaped.chars().any(obeyed), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).expect("JSON")[0], text);
    }

    #[test]
    fn colours_stay_and_nothing_else_does() {
        assert_eq!(
            coloured("\u{1b}[1;32mok\u{1b}[0m \u{1b}]0;x\u{7} \u{1b}[2J\u{1b}"),
            "\u{1b}[1;32mok\u{1b}[0m ␛]0;x␇ ␛[2J␛"
        );
    }
}
