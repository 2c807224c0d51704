//! Runs `tests/suite/*.tp`: one small file a rule, with what it expects written beside the line it belongs to.
//!
//! - `#! code: words` at a line's end: a diagnostic of that code whose first label starts on the line and whose
//!   message or help holds the words. Several stand behind one another.
//! - `#!7 code: words` on a line of its own: the same for line 7, where no comment can stand.
//! - `#!params a=1 b=x` on a line of its own: given as on the command line.
//!
//! A file without an expectation checks without a word. Nothing may be expected that does not come, and nothing come
//! that is not expected.

use std::fs;
use std::path::Path;

use super::check;
use tunepipe::text::render;

struct Expected {
    line: usize,
    code: String,
    words: String,
}

fn expectations(text: &str) -> (Vec<Expected>, Vec<(String, String)>) {
    let (mut expected, mut params) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        for note in line.split("#!").skip(1) {
            if let Some(given) = note.strip_prefix("params ") {
                let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
                params.extend(given.split(' ').filter_map(pair));
                continue;
            }
            let digits = note.len() - note.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let line = note[..digits].parse().unwrap_or(number + 1);
            let (code, words) = note[digits..].split_once(':').expect("an expectation is `code: words`");
            expected.push(Expected { line, code: code.trim().to_owned(), words: words.trim().to_owned() });
        }
    }
    (expected, params)
}

#[test]
fn every_rule_is_kept() {
    let mut failures = Vec::new();
    let mut count = 0;
    let mut files: Vec<_> = fs::read_dir("tests/suite").expect("the suite is there").flatten().collect();
    files.sort_by_key(|file| file.path());
    for file in files.iter().map(|file| file.path()).filter(|path| path.extension().is_some_and(|e| e == "tp")) {
        count += 1;
        let text = fs::read_to_string(&file).expect("a suite file is text");
        failures.extend(run(&file, &text));
    }
    assert!(count >= 60, "only {count} files were found");
    assert!(failures.is_empty(), "{} failures\n\n{}", failures.len(), failures.join("\n"));
}

fn run(file: &Path, text: &str) -> Option<String> {
    let name = file.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let (mut expected, params) = expectations(text);
    let (sources, plan, diagnostics) = check(&name, text, &params);
    let mut wrong = String::new();
    for diagnostic in &diagnostics {
        let line = diagnostic.labels.first().map_or(0, |label| sources.line_column(label.span).0);
        let said = format!("{} {}", diagnostic.message, diagnostic.help.as_deref().unwrap_or(""));
        let found =
            expected.iter().position(|e| e.line == line && e.code == diagnostic.code && said.contains(&e.words));
        match found {
            Some(at) => drop(expected.swap_remove(at)),
            None => wrong += &format!("not expected:\n{}", render(&sources, std::slice::from_ref(diagnostic), false)),
        }
    }
    for missing in &expected {
        wrong += &format!("expected, did not come: line {} {}: {}\n", missing.line, missing.code, missing.words);
    }
    if plan.is_some() == diagnostics.iter().any(|diagnostic| diagnostic.is_error()) {
        wrong += "a plan comes when, and only when, there is no error\n";
    }
    (!wrong.is_empty()).then(|| format!("── {name}\n{wrong}"))
}
