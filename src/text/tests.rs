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
