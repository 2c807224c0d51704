//! `tunepipe fit`: what it offers is a patch of the file that then fits, and no more than is needed.

use std::fs;

use super::Desk;

const SMALL: &str = "tunepipe 1\n# kept: why this card\nbudget ram=20MiB   # kept: the card\nload model \"model\"\n\
load data \"rows.jsonl\" format=completion\ntrain lora\n  batch=24   # kept: tried\n  steps=2\nsave merged \"out/m\"\n";

#[test]
fn what_is_written_fits_and_keeps_every_comment() {
    let desk = Desk::new();
    desk.write("small.tp", SMALL);
    desk.tunepipe(&["check", "-q", "small.tp"]).ended(4);
    let told = desk.tunepipe(&["fit", "small.tp"]).ended(0);
    assert!(
        told.out.contains("before  ") && told.out.contains("after   ") && told.out.contains("\n-  batch=24"),
        "{}",
        told.out
    );
    assert_eq!(fs::read_to_string(desk.path("small.tp")).expect("text"), SMALL, "only --write writes");

    let told = desk.tunepipe(&["fit", "small.tp", "--write", "--json"]).ended(0).json();
    let text = fs::read_to_string(desk.path("small.tp")).expect("text");
    for kept in ["# kept: why this card\n", "budget ram=20MiB   # kept: the card\n", "   # kept: tried\n"] {
        assert!(text.contains(kept), "{text}");
    }
    assert_eq!(told["fits"], false);
    // batch × accum stays what it was.
    let number = |name: &str| -> u32 {
        let tail = &text[text.find(name).unwrap_or_else(|| panic!("{name}: {text}")) + name.len()..];
        tail.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).expect("a number")
    };
    assert_eq!(number("batch=") * number("accum="), 24, "{text}");
    desk.tunepipe(&["check", "small.tp"]).ended(0);

    let told = desk.tunepipe(&["fit", "small.tp"]).ended(0);
    assert!(told.out.starts_with("fits as it is"), "{}", told.out);
}

#[test]
fn switches_that_cost_nothing_come_first() {
    let desk = Desk::new();
    // At the save, not in training: only `low_ram` helps.
    let text = "tunepipe 1\nload model \"model\"\nload data \"rows.jsonl\" format=completion\n\
                train lora batch=1 steps=1 recompute free_logits\nsave merged \"out/m\"\n";
    desk.write("save.tp", text);
    let plan = desk.tunepipe(&["plan", "--json", "save.tp"]).ended(0).json();
    let phases: Vec<(String, u64)> = plan["targets"][0]["stages"]
        .as_array()
        .expect("stages")
        .iter()
        .flat_map(|stage| {
            let name = stage["name"].as_str().expect("a name").to_owned();
            let phases = stage["phases"].as_array().expect("phases").clone();
            phases.into_iter().map(move |phase| (name.clone(), phase["peak"]["ram"].as_u64().expect("bytes")))
        })
        .collect();
    let most = |merged: bool| phases.iter().filter(|(n, _)| (n == "save merged") == merged).map(|(_, b)| *b).max();
    let (save, rest) = (most(true).expect("a save"), most(false).expect("the rest"));
    assert!(rest < save, "the save is the peak: {phases:?}");
    let budget = (save + rest) / 2;
    desk.write("tight.tp", &text.replace("load model", &format!("budget ram={budget}B\nload model")));
    let told = desk.tunepipe(&["fit", "--json", "tight.tp"]).ended(0).json();
    assert_eq!(told["change"], "`low_ram` on `save merged` in line 6", "{told}");
}

#[test]
fn what_cannot_fit_is_said_with_what_it_needs() {
    let desk = Desk::new();
    desk.write("hopeless.tp", &SMALL.replace("20MiB", "1MiB"));
    let told = desk.tunepipe(&["fit", "hopeless.tp"]).ended(4);
    assert!(told.out.starts_with("nothing fits") && told.out.contains("of 1.00 MiB"), "{}", told.out);
    assert_eq!(fs::read_to_string(desk.path("hopeless.tp")).expect("text"), SMALL.replace("20MiB", "1MiB"));
}
