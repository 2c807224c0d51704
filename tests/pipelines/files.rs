//! Every pipeline of the repository and every example of the catalogue is what the program accepts.

use tunepipe::catalog::Catalog;

use super::*;
use crate::lang::examples::before;

/// Errors of a check, but for files that are not here.
fn errors(told: &Told) -> Vec<Value> {
    let list = told.json()["diagnostics"].as_array().expect("a list").clone();
    list.into_iter().filter(|d| d["severity"] == "error" && d["code"] != "file.missing").collect()
}

#[test]
fn every_pipeline_checks() {
    let desk = Desk::empty();
    let mut seen = 0;
    for entry in fs::read_dir(repository().join("pipelines")).expect("pipelines").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|e| e != "tp") {
            continue;
        }
        let name = path.to_str().expect("UTF-8");
        let told = desk.tunepipe(&["check", "--json", name]);
        assert!(errors(&told).is_empty(), "{name}: {}", told.out);
        // What is here is whole: only a model to be fetched may be missing.
        let missing = told.json()["diagnostics"].to_string();
        assert!(
            told.code == Some(0) || missing.contains("/models/") || missing.contains("/data/"),
            "{name}: {}",
            told.out
        );
        seen += 1;
    }
    assert!(seen >= 12);
}

#[test]
fn pipelines_on_what_is_here_run() {
    let desk = Desk::empty();
    copy(&repository().join("pipelines"), &desk.path("pipelines"));
    for name in ["early", "full", "continue", "merge", "mixed", "team"] {
        let told = desk.tunepipe(&["run", "-q", &format!("pipelines/{name}.tp"), "--run-dir", name]).ended(0);
        assert!(!told.err.contains("over the plan"), "{name}: {}", told.err);
    }
}

#[test]
fn every_example_of_the_catalogue_lowers() {
    let desk = Desk::new();
    let mut right = 0;
    for stage in &Catalog::standard().stages {
        assert!(!stage.examples.is_empty(), "{} has no example", stage.name);
        for example in &stage.examples {
            let (model, rows) = ("load model \"model\"\n", "load data \"rows.jsonl\" format=completion\n");
            let text = before(stage, model, rows) + example;
            desk.write("example.tp", &text);
            let told = desk.tunepipe(&["check", "--json", "example.tp"]);
            assert!(errors(&told).is_empty(), "{text}\n{}", told.out);
            right += usize::from(told.code == Some(0));
        }
    }
    assert!(right > Catalog::standard().stages.len() / 2, "only {right} examples name no file that is absent");
}
