use std::path::Path;

use super::*;

fn one(text: &str, start: usize, end: usize) -> (Sources, Diagnostic) {
    let mut sources = Sources::default();
    let id = sources.add("pipe.tp", Path::new("."), text);
    let diagnostic = Diagnostic::error("test.code", "a message").label(Span::new(id, start, end), "here");
    (sources, diagnostic)
}

#[test]
fn columns_count_characters_and_survive_crlf() {
    let text = "tunepipe 1\r\nload data \"größe日本.txt\" formt=x\r\n";
    let at = text.find("formt").unwrap();
    let (sources, diagnostic) = one(text, at, at + 5);
    let json = to_json(&sources, std::slice::from_ref(&diagnostic));
    assert_eq!((json[0]["line"].as_u64(), json[0]["column"].as_u64()), (Some(2), Some(25)));
    assert_eq!((json[0]["end_line"].as_u64(), json[0]["end_column"].as_u64()), (Some(2), Some(30)));
    let shown = render(&sources, &[diagnostic], false);
    assert!(shown.contains("pipe.tp:2:25"), "{shown}");
    assert!(!shown.contains('\r') && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn every_span_of_a_small_text_renders() {
    let text = "é\n\n  b\r\n日";
    for start in 0..text.len() + 3 {
        for end in start..text.len() + 3 {
            let (sources, diagnostic) = one(text, start, end);
            let shown = render(&sources, &[diagnostic], false);
            assert!(shown.contains("test.code") && shown.contains("here"), "{start}..{end}: {shown}");
        }
    }
}

#[test]
fn an_empty_file_and_a_label_elsewhere_are_said() {
    let (mut sources, diagnostic) = one("", 0, 0);
    assert!(render(&sources, &[diagnostic], false).contains("a message"));
    let (a, b) = (sources.add("a.tp", Path::new("."), "one\n"), sources.add("b.tp", Path::new("."), "x\n  two\n"));
    let two = Diagnostic::warning("w.w", "m").label(Span::new(a, 0, 3), "l").label(Span::new(b, 4, 7), "cause");
    let shown = render(&sources, &[two.note("long note").help("type\n  this")], false);
    assert!(shown.contains("b.tp:2:3: cause") && shown.contains("help: type\n          this"), "{shown}");
}

#[test]
fn a_line_without_end_is_shown_around_what_is_meant() {
    let line = format!("{}nope{}", "x".repeat(500_000), "é".repeat(500_000));
    let text = format!("tunepipe 1\n{}\n{line}\nlast\n", "a ".repeat(400));
    let at = text.find("nope").unwrap();
    let (sources, diagnostic) = one(&text, at, at + 4);
    let word = format!("`{}` is long", "w".repeat(5000));
    let shown = render(&sources, &[Diagnostic { message: word, ..diagnostic }], false);
    assert!(shown.len() < 2000, "{shown}");
    assert!(shown.contains("pipe.tp:3:500001") && shown.contains("xxnopeéé") && shown.contains("4 │ last"), "{shown}");
    // What is pointed at stands under it, and both ends of a long stretch are there.
    let pointed = shown.lines().skip_while(|line| !line.contains("nope")).nth(1).unwrap();
    let column = |line: &str, c: char| line.chars().position(|one| one == c).unwrap();
    let above = shown.lines().find(|line| line.contains("nope")).unwrap();
    assert_eq!(column(pointed, '─').max(1), column(above, 'n'), "{shown}");
    let whole = Span::new(SourceId(0), text.find("xx").unwrap(), text.len() - 6);
    let shown = render(&sources, &[Diagnostic::error("a.b", "m").label(whole, "all")], false);
    assert!(shown.len() < 3000 && shown.contains("xx…é"), "{shown}");
}

#[test]
fn places_without_end_are_counted() {
    let text = "a ".repeat(20_000);
    let (sources, mut diagnostic) = one(&text, 0, 1);
    for at in 1..20_000 {
        diagnostic = diagnostic.label(Span::new(SourceId(0), at * 2, at * 2 + 1), "there");
    }
    let shown = render(&sources, &[diagnostic], false);
    assert!(shown.len() < 3000 && shown.contains("and 19992 more such places"), "{shown}");
    assert_eq!(shown.matches("there").count(), 7, "{shown}");
}

#[test]
fn what_a_terminal_would_obey_is_shown_instead() {
    let text = "load\u{1b}[2J \u{202e}model\0\n";
    for (start, end) in [(4, 5), (9, 12), (0, text.len()), (17, 18)] {
        let (sources, diagnostic) = one(text, start, end);
        let shown = render(&sources, &[diagnostic.note("a\u{7}b").help("c\u{1b}d")], false);
        assert!(shown.contains("load␛[2J ␦model␀") && shown.contains("a␇b") && shown.contains("c␛d"), "{shown}");
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
    }
}
