//! Pages of codes and the sources that give the codes are held to each other, and both to the suite.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tunepipe::catalog::{Catalog, codes};
use tunepipe::tools::reference;

/// What makes a diagnostic or a fault out of a code that stands in it.
const MAKERS: [&str; 5] = ["Diagnostic::error(", "Diagnostic::warning(", "Fault::new(", "broken(", "problem("];

fn sources(folder: &Path, out: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, out);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).expect("text");
            // Modules of tests come last; one in a file of its own is only named.
            out.push_str(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(""));
        }
    }
}

/// Dotted words in quotes, and those that a maker is given first.
fn written(text: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let is_code = |word: &str| {
        let mut parts = word.split('.');
        let part = |part: Option<&str>| {
            part.is_some_and(|p| {
                !p.is_empty() && p.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            })
        };
        part(parts.next()) && (part(parts.next()) || word == "json") && parts.next().is_none()
    };
    let (mut dotted, mut made) = (BTreeSet::new(), BTreeSet::new());
    for (at, _) in text.match_indices('"') {
        let Some(word) = text[at + 1..].split('"').next().filter(|word| word.len() < 40) else { continue };
        if is_code(word) {
            dotted.insert(word.to_owned());
        }
    }
    for maker in MAKERS {
        for (at, _) in text.match_indices(maker) {
            let rest = text[at + maker.len()..].trim_start();
            if let Some(word) = rest.strip_prefix('"').and_then(|rest| rest.split('"').next()).filter(|w| is_code(w)) {
                made.insert(word.to_owned());
            }
        }
    }
    (dotted, made)
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let mut text = String::new();
    sources(Path::new("src"), &mut text);
    let (dotted, made) = written(&text);
    let known: BTreeSet<String> = codes::all().map(str::to_owned).collect();
    let groups: BTreeSet<&str> = known.iter().filter_map(|code| code.split_once('.')).map(|(group, _)| group).collect();
    let files =
        ["chat_template", "cu", "json", "jsonl", "safetensors", "jinja", "bin", "model", "txt", "md", "weight", "bias"];
    let of_group = |code: &&String| {
        code.split_once('.').is_some_and(|(group, rest)| groups.contains(group) && !files.contains(&rest))
    };
    let lacking: BTreeSet<&String> =
        made.iter().chain(dotted.iter().filter(of_group)).filter(|c| !known.contains(*c)).collect();
    assert!(lacking.is_empty(), "codes without a page in stdlib/codes: {lacking:?}");
    let stale: Vec<&String> = known.iter().filter(|code| !dotted.contains(*code)).collect();
    assert!(stale.is_empty(), "pages of codes that nothing gives: {stale:?}");
}

/// A code that the checker can give by itself has a rule in the suite.
#[test]
fn every_code_of_the_language_is_in_the_suite() {
    let mut suite = String::new();
    for file in fs::read_dir("tests/suite").expect("the suite is there").flatten() {
        suite += &fs::read_to_string(file.path()).unwrap_or_default();
    }
    let read = |name: &str| fs::read_to_string(format!("stdlib/codes/{name}.md")).expect("pages");
    let language = read("language") + &read("recipes");
    let mut lacking = Vec::new();
    for page in codes::pages().iter().filter(|page| page.wrong.is_some()) {
        let code = &page.codes[0];
        if language.contains(&format!("\n## {code}\n")) && !suite.contains(&format!(" {code}: ")) {
            lacking.push(code);
        }
    }
    assert!(lacking.is_empty(), "codes of the language that no file of tests/suite expects: {lacking:?}");
}

/// `docs/reference` is what `tunepipe explain --reference docs/reference` writes.
#[test]
fn the_reference_is_as_the_catalogue_says() {
    let pages = reference(Catalog::standard());
    let folder = Path::new("docs/reference");
    for (name, text) in &pages {
        let found = fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(found == *text, "docs/reference/{name} is stale: run `tunepipe explain --reference docs/reference`");
    }
    for entry in fs::read_dir(folder).expect("the reference is there").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(pages.iter().any(|(page, _)| *page == name), "docs/reference/{name} is of no use any more");
    }
}
