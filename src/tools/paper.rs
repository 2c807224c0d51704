//! What words are written on: how wide it is, and whether it takes colour.

use crate::text::shown;

/// A terminal, or a file that is read like one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paper {
    /// Columns.
    pub width: usize,
    pub colour: bool,
    /// Whether longer lines are broken where they end, as a terminal does, words or not.
    pub screen: bool,
}

/// Roles of words, each with a colour where there is colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    Strong,
    Name,
    Good,
    Warn,
    Faint,
    /// A token that counts in the loss, on two grounds that tell neighbours apart.
    Trained(bool),
    /// A token that is only read, likewise.
    Given(bool),
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Ink::Strong => "1",
            Ink::Name => "36",
            Ink::Good => "32",
            Ink::Warn => "33",
            Ink::Faint => "2",
            Ink::Trained(false) => "30;42",
            Ink::Trained(true) => "30;102",
            Ink::Given(false) => "37;100",
            Ink::Given(true) => "97;48;5;238",
        }
    }
}

impl Paper {
    /// A file: a hundred columns, no colour.
    pub fn plain() -> Self {
        Paper { width: 100, colour: false, screen: false }
    }

    /// A sentence behind an indent; on a screen in as many lines as it needs, those behind the first set in.
    pub fn sentence(self, indent: &str, text: &str) -> String {
        let indent_width = indent.chars().count();
        if !self.screen || indent_width + text.chars().count() <= self.width {
            return format!("{indent}{text}\n");
        }
        let lines = wrap(text, self.width.saturating_sub(indent_width + 2));
        let set_in = |(at, line): (usize, String)| format!("{indent}{}{line}\n", if at == 0 { "" } else { "  " });
        lines.into_iter().enumerate().map(set_in).collect()
    }

    pub fn ink(self, ink: Ink, text: &str) -> String {
        let text = &*shown(text);
        if self.colour && !text.is_empty() { format!("\u{1b}[{}m{text}\u{1b}[0m", ink.code()) } else { text.to_owned() }
    }
}

/// A text in lines of at most `width` columns, broken between words; a longer word stands alone.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

/// A sentence in as many lines as the paper needs, each behind the indent.
pub fn prose(out: &mut String, paper: Paper, ink: Ink, text: &str, indent: &str) {
    for line in wrap(text, paper.width.saturating_sub(indent.len())) {
        out.extend([indent, &paper.ink(ink, &line), "\n"]);
    }
}

/// The first columns of a text, with `…` where more was there.
pub fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_broken_between_and_never_lost() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable x", 4), ["unbreakable", "x"]);
        assert_eq!(wrap("a\n\nb", 9), ["a", "", "b"]);
    }

    #[test]
    fn a_sentence_is_broken_on_a_screen_alone() {
        assert_eq!(Paper::plain().sentence("  ", &"word ".repeat(40)).lines().count(), 1);
        let narrow = Paper { width: 12, colour: false, screen: true };
        assert_eq!(narrow.sentence(" ", "one two three"), " one two\n   three\n");
    }

    #[test]
    fn colour_is_only_where_it_is_taken() {
        assert_eq!(Paper::plain().ink(Ink::Strong, "x"), "x");
        assert_eq!(Paper { width: 9, colour: true, screen: true }.ink(Ink::Strong, "x"), "\u{1b}[1mx\u{1b}[0m");
        assert_eq!(clip("abcdef", 4), "abc…");
    }
}
