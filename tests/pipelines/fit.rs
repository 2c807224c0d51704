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
                train lora batch=1 steps=1 recompute free_logits save_every=none\nsave merged \"out/m\"\n";
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

/// A lever inside a recipe of the file changes every use of it, and each use is planned with it.
#[test]
fn a_recipe_of_the_file_is_patched_where_it_stands() {
    let desk = Desk::new();
    let text = "tunepipe 1\nbudget ram=24MiB\nrecipe tune(n: Int, model: Model, data: Data)\n\
                \x20 train lora batch=24 steps=n  # kept: why\nload model \"model\" as a\nload model \"model\" as b\n\
                load data \"rows.jsonl\" format=completion\ntune n=2 model=a\ntune n=3 model=b\n";
    desk.write("r.tp", text);
    desk.tunepipe(&["check", "-q", "r.tp"]).ended(4);
    let told = desk.tunepipe(&["fit", "r.tp", "--write", "--json"]).ended(0).json();
    let patched = fs::read_to_string(desk.path("r.tp")).expect("text");
    let changed: Vec<(&str, &str)> = text.lines().zip(patched.lines()).filter(|(old, new)| old != new).collect();
    assert_eq!(changed.len(), 1, "{patched}");
    assert!(changed[0].1.starts_with("  train lora ") && changed[0].1.ends_with("  # kept: why"), "{patched}");
    // Said once, though two steps come of it.
    assert_eq!(told["change"].as_str().map(|words| words.matches("train lora").count()), Some(1), "{told}");
    assert!(told["change"].as_str().is_some_and(|words| words.contains("in the recipe")), "{told}");
    desk.tunepipe(&["check", "-q", "r.tp"]).ended(0);
    let told = desk.tunepipe(&["fit", "r.tp"]).ended(0);
    assert!(told.out.starts_with("fits as it is"), "{}", told.out);

    // A recipe of another file is not this file's to change.
    desk.write("team.tp", "tunepipe 1\nrecipe tune(model: Model, data: Data)\n  train lora batch=24 steps=2\n");
    let used = "tunepipe 1\nuse \"team.tp\"\nbudget ram=24MiB\nload model \"model\"\nload data \"rows.jsonl\" format=completion\ntune\n";
    desk.write("used.tp", used);
    let told = desk.tunepipe(&["fit", "used.tp", "--json"]).json();
    assert!(!told["change"].to_string().contains("recompute"), "{told}");
    assert_eq!(fs::read_to_string(desk.path("team.tp")).expect("text").matches("batch=24").count(), 1);
}

/// The bytes that a pipeline takes of one place on its first target.
fn peak(desk: &Desk, text: &str, place: &str) -> u64 {
    desk.write("peak.tp", text);
    let plan = desk.tunepipe(&["plan", "--json", "peak.tp"]).json();
    plan["targets"][0]["peak"][place]["bytes"].as_u64().unwrap_or_else(|| panic!("{plan}"))
}

/// A batch becomes smaller by whatever divides it, down to one row, at as many tokens a step.
#[test]
fn a_batch_that_is_no_power_of_two_is_made_smaller_too() {
    let desk = Desk::new();
    let text = |batch: &str, budget: &str| {
        format!(
            "tunepipe 1\n{budget}load model \"model\"\nload data \"rows.jsonl\" format=completion\n\
             train lora steps=2 {batch} recompute free_logits\n"
        )
    };
    for (batch, small) in [(15, 3), (22, 2), (3, 1)] {
        let written = format!("batch={small} accum={}", batch / small);
        let enough = peak(&desk, &text(&written, ""), "ram");
        desk.write("fit.tp", &text(&format!("batch={batch}"), &format!("budget ram={}B\n", enough + 1024)));
        let told = desk.tunepipe(&["fit", "--json", "fit.tp", "--write"]).ended(0).json();
        assert_eq!(told["change"], format!("`{written}` on `train lora` in line 5"), "{told}");
        desk.tunepipe(&["check", "-q", "fit.tp"]).ended(0);
    }
}

/// What is said to be the least is the plan of the file with every lever written out.
#[test]
fn the_least_is_the_least() {
    let desk = Desk::new();
    let text = |rows: &str, train: &str, budget: &str| {
        format!(
            "tunepipe 1\nbudget {budget}\nload model \"none\" shape=llama-3-8b\n\
             load data \"none.jsonl\" format=text {rows}\nquantize nf4\ntrain lora {train}\n"
        )
    };
    let all = "batch=1 accum=6 rank=2 recompute free_logits offload=activations optim=adamw8bit";
    let least = text("max_len=64 long=truncate", all, "gpu=9GiB");
    let least = peak(&desk, &least, "gpu");
    desk.write("fit.tp", &text("max_len=500", "batch=6 rank=7", &format!("gpu={}B", least - 1)));
    let told = desk.tunepipe(&["fit", "--json", "fit.tp"]).ended(4).json();
    let plan = format!("budget gpu={least}B");
    desk.write("fit.tp", &text("max_len=500", "batch=6 rank=7", &plan["budget ".len()..]));
    let fits = desk.tunepipe(&["fit", "--json", "fit.tp"]).ended(0).json();
    let gpu = |told: &serde_json::Value, key: &str| {
        let words = told[key][0].as_str().unwrap_or_else(|| panic!("{told}"));
        words.split(" of ").next().expect("a part").to_owned()
    };
    assert_eq!(gpu(&told, "least"), gpu(&fits, "after"));
}

/// A lever that one training cannot take is left out, and the others are tried.
#[test]
fn an_update_in_backward_keeps_its_batch() {
    let desk = Desk::new();
    let text = |train: &str, budget: &str| {
        format!(
            "tunepipe 1\nbudget {budget}\nload model \"none\" shape=llama-3.2-1b\n\
             load data \"none.jsonl\" format=text max_len=64\n\
             train full fused_step clip=none batch=4 recompute free_logits offload=activations{train}\n"
        )
    };
    let enough = peak(&desk, &text(" optim=adamw8bit", "gpu=99GiB"), "gpu");
    desk.write("fit.tp", &text("", &format!("gpu={enough}B")));
    let told = desk.tunepipe(&["fit", "--json", "fit.tp"]).ended(0).json();
    assert_eq!(told["change"], "`optim=adamw8bit` on `train full` in line 5", "{told}");
}

/// What is offered lies in the ranges that the stage declares.
#[test]
fn no_change_leaves_the_range_of_an_argument() {
    let desk = Desk::new();
    let text = |batch: &str, budget: &str| {
        format!(
            "tunepipe 1\nbudget {budget}\nload model \"none\" shape=llama-3.2-1b\n\
             load data \"none.jsonl\" format=text max_len=64\n\
             train lora {batch} rank=2 recompute free_logits offload=activations optim=adamw8bit\n"
        )
    };
    let enough = peak(&desk, &text("batch=8", "gpu=99GiB"), "gpu");
    desk.write("fit.tp", &text("batch=16 accum=40000", &format!("gpu={enough}B")));
    let told = desk.tunepipe(&["fit", "fit.tp"]).ended(4);
    assert!(told.out.starts_with("nothing fits") && !told.out.contains("accum=80000"), "{}", told.out);
}

/// Rows without a `max_len` are cut as well, where nothing else helps.
#[test]
fn rows_of_any_length_are_shortened() {
    let desk = Desk::new();
    desk.write("long.jsonl", &format!("{{\"text\": \"{}\"}}\n", "a seal sleeps ".repeat(30)));
    let text = |rows: &str, budget: &str| {
        format!(
            "tunepipe 1\n{budget}load model \"model\"\nload data \"long.jsonl\" format=text{rows}\n\
             train lora rank=2 steps=1 recompute free_logits optim=adamw8bit\n"
        )
    };
    let enough = peak(&desk, &text(" max_len=128 long=truncate", ""), "ram");
    desk.write("fit.tp", &text("", &format!("budget ram={}B\n", enough + 1024)));
    let told = desk.tunepipe(&["fit", "--json", "fit.tp", "--write"]).ended(0).json();
    assert_eq!(told["change"], "`max_len=128 long=truncate` on `load data` in line 4", "{told}");
    desk.tunepipe(&["check", "-q", "fit.tp"]).ended(0);
}

/// A smaller batch brings its `accum` along, also where a recipe hands the one on and says the other itself.
#[test]
fn a_smaller_batch_keeps_the_tokens_of_a_step() {
    let desk = Desk::new();
    let text = |recipe: &str, train: &str, budget: &str| {
        format!(
            "tunepipe 1\n{budget}recipe go(b: Int = {recipe}, model: Model, data: Data)\n\
             \x20 train lora batch=b steps=2 recompute free_logits{train}\n\
             load model \"model\"\nload data \"rows.jsonl\" format=completion\ngo\n"
        )
    };
    let enough = peak(&desk, &text("3", "", ""), "ram");
    desk.write("fit.tp", &text("6", "", &format!("budget ram={enough}B\n")));
    let told = desk.tunepipe(&["fit", "--json", "--write", "fit.tp"]).ended(0).json();
    assert!(told["change"].as_str().is_some_and(|words| words.contains("b=3") && words.contains("accum=2")), "{told}");
    let written = fs::read_to_string(desk.path("fit.tp")).expect("text");
    assert!(written.contains("free_logits accum=2\n") && written.ends_with("\ngo b=3\n"), "{written}");
    desk.tunepipe(&["check", "-q", "fit.tp"]).ended(0);
}

/// Of many stages only the one that is too large is changed, and what is offered was planned with all of them.
#[test]
fn among_many_stages_only_what_is_too_large_is_changed() {
    let desk = Desk::empty();
    let stages = |large: &[usize]| -> String {
        let one = |at: usize| {
            let batch = if large.contains(&at) { 8 } else { 1 };
            format!(
                "load model \"m{at}\" shape=smollm2-135m as m{at}\ntrain lora model=m{at} data=rows batch={batch}\n\
                 save merged \"out/{at}\" model=m{at} low_ram\n"
            )
        };
        let models: String = (0..12).map(one).collect();
        format!("tunepipe 1\nbudget ram=2GiB\nload data \"r.jsonl\" format=tokens max_len=512 as rows\n{models}")
    };
    desk.write("fits.tp", &stages(&[]));
    desk.tunepipe(&["check", "-q", "fits.tp"]).ended(0);
    for large in [&[7][..], &[0, 11], &[3, 4, 9]] {
        desk.write("many.tp", &stages(large));
        desk.tunepipe(&["check", "-q", "many.tp"]).ended(4);
        let told = desk.tunepipe(&["fit", "many.tp", "--write", "--json"]).ended(0).json();
        let words = told["change"].as_str().expect("a change");
        let lines: Vec<String> = large.iter().map(|at| format!("on `train lora` in line {}", 5 + 3 * at)).collect();
        assert_eq!(words.matches(" in line ").count(), large.len(), "{words}");
        assert!(lines.iter().all(|line| words.contains(line)), "{words}");
        desk.tunepipe(&["check", "-q", "many.tp"]).ended(0);
    }
}
