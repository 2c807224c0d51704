//! Every page of a code keeps its word: the wrong example gives the code and nothing worse, the right one gives none.

use super::*;
use tunepipe::catalog::codes::{self, Example};

/// Checks an example in a folder with a model and rows.
fn checked(example: &Example) -> (Told, Vec<(String, String)>) {
    let desk = Desk::new();
    for (name, text) in &example.files {
        desk.write(name, text);
    }
    desk.write("finetune.tp", &example.whole());
    let params: Vec<String> = example.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut arguments = vec!["check", "-q", "finetune.tp"];
    arguments.extend(params.iter().map(String::as_str));
    let shown = desk.with_threads(Some(2), &arguments);
    assert!(!shown.err.contains("panicked"), "{}", shown.err);
    arguments.push("--json");
    let told = desk.tunepipe(&arguments).json();
    let found = told["diagnostics"].as_array().expect("a list").iter();
    let word = |value: &Value| value.as_str().expect("a word").to_owned();
    (shown, found.map(|one| (word(&one["severity"]), word(&one["code"]))).collect())
}

#[test]
fn every_example_of_a_code_keeps_its_word() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots/codes");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let mut wrong = Vec::new();
    for page in codes::pages() {
        let (Some(bad), Some(good)) = (&page.wrong, &page.right) else { continue };
        let code = &page.codes[0];
        let (shown, found) = checked(bad);
        if !found.iter().any(|(_, other)| other == code) {
            wrong.push(format!("{code}: the wrong example gives {found:?}\n{}", bad.whole()));
        }
        let errors: Vec<&String> = found.iter().filter(|(severity, _)| severity == "error").map(|(_, c)| c).collect();
        if errors.iter().any(|other| *other != code) {
            wrong.push(format!("{code}: the wrong example gives other errors too: {errors:?}"));
        }
        let (_, found) = checked(good);
        if found.iter().any(|(severity, other)| severity == "error" || other == code) {
            wrong.push(format!("{code}: the right example gives {found:?}\n{}", good.whole()));
        }
        // What a person sees. The sizes of an overrun move with every planned buffer; other tests hold those.
        if code == "budget.over" {
            continue;
        }
        settings.bind(|| insta::assert_snapshot!(code.replace('.', "_"), shown.err));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
