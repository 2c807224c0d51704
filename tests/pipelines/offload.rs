//! `offload=activations`: a card's saved activations wait in RAM. Planned for a card on any machine.

use super::*;

/// A training of 8 billion parameters in 4 bits on a card, with `HOW` on the training.
fn text(budget: &str, how: &str) -> String {
    format!(
        "tunepipe 1\n{budget}\nload model \"absent\" shape=llama-3-8b\n\
         load data \"absent.jsonl\" format=alpaca max_len=2048 long=truncate\nquantize nf4\n\
         train lora batch=2 free_logits {how}\nsave adapter \"a\"\n"
    )
}

fn plan(desk: &Desk, how: &str) -> Value {
    desk.write("plan.tp", &text("budget gpu=80GiB ram=256GiB", how));
    desk.tunepipe(&["plan", "--json", "plan.tp"]).ended(0).json()["targets"][0].clone()
}

fn training(plan: &Value) -> &Value {
    let stages = plan["stages"].as_array().expect("stages");
    let train = stages.iter().find(|stage| stage["name"] == "train lora").expect("a training");
    &train["phases"][0]
}

/// The training's peak.
fn peak(plan: &Value, place: &str) -> u64 {
    training(plan)["peak"][place].as_u64().expect("bytes")
}

/// Where a holding lies, and its bytes.
fn held(plan: &Value, name: &str) -> (String, u64) {
    let holdings = training(plan)["holdings"].as_array().expect("holdings");
    let found = holdings.iter().find(|holding| holding["name"] == name);
    let word = |h: &Value| (h["place"].as_str().expect("a place").to_owned(), h["bytes"].as_u64().expect("bytes"));
    found.map_or_else(Default::default, word)
}

#[test]
fn what_the_card_loses_the_ram_gains() {
    let desk = Desk::empty();
    for also in ["", "recompute"] {
        let (near, away) = (plan(&desk, also), plan(&desk, &format!("{also} offload=activations")));
        let (saved, left) = (held(&near, "saved activations"), held(&away, "saved activations"));
        let moved = held(&away, "offloaded activations");
        assert_eq!((saved.0.as_str(), left.0.as_str(), moved.0.as_str()), ("gpu", "gpu", "ram"));
        assert_eq!(saved.1, left.1 + moved.1, "{also}");
        assert_eq!(peak(&near, "gpu") - peak(&away, "gpu"), moved.1);
        assert_eq!(peak(&away, "ram") - peak(&near, "ram"), moved.1);
        // 30 of 32 blocks wait; the inputs' third room is the last block's output.
        let block = moved.1 / 30;
        assert_eq!(moved.1, block * 30);
        assert!(left.1 > 2 * block && left.1 <= 3 * block, "{left:?} of blocks of {block}");
    }
}

#[test]
fn fit_takes_it_after_recompute_and_with_it() {
    let desk = Desk::empty();
    let least = |how: &str| peak(&plan(&desk, how), "gpu");
    let (slow, away, both) = (least("recompute"), least("offload=activations"), least("recompute offload=activations"));
    assert!(both < away && away < slow, "{slow} {away} {both}");
    for (bytes, change) in [
        (slow, "`recompute` on `train lora` in line 6"),
        (away, "`offload=activations` on `train lora` in line 6"),
        (both, "`recompute offload=activations` on `train lora` in line 6"),
    ] {
        let budget = |ram: &str| format!("budget gpu={bytes}B ram={ram}");
        desk.write("tight.tp", &text(&budget("64GiB"), ""));
        let told = desk.tunepipe(&["fit", "--json", "tight.tp", "--write"]).ended(0).json();
        assert_eq!(told["change"], change, "{told}");
        desk.tunepipe(&["check", "tight.tp"]).ended(0);
        // Where the RAM is not there, it is no help.
        desk.write("poor.tp", &text(&budget("64MiB"), ""));
        let told = desk.tunepipe(&["fit", "--json", "poor.tp"]).ended(0).json();
        assert!(!told["change"].as_str().expect("a change").contains("offload"), "{told}");
    }
}

/// A budget of the card alone judges no RAM, and a change that fills it says so all the same.
#[test]
fn fit_tells_what_a_place_that_is_not_judged_then_takes() {
    let desk = Desk::empty();
    let away = plan(&desk, "offload=activations");
    desk.write("card.tp", &text(&format!("budget gpu={}B", peak(&away, "gpu")), ""));
    let told = desk.tunepipe(&["fit", "--json", "card.tp"]).ended(0).json();
    assert_eq!(told["change"], "`offload=activations` on `train lora` in line 6", "{told}");
    let ram = |plan: &Value| {
        let bytes = plan["peak"]["ram"]["bytes"].as_u64().expect("bytes");
        format!("RAM {} (not judged)", tunepipe::memory::Bytes(bytes))
    };
    let (near, far) = (ram(&plan(&desk, "")), ram(&away));
    assert_ne!(near, far);
    for (key, words) in [("before", near), ("after", far)] {
        let line = told[key][0].as_str().expect("a line");
        assert!(line.contains("GPU ") && line.ends_with(&words), "{key}: {line}, {words}");
        // The disk takes what it took.
        assert!(!line.contains("disk"), "{line}");
    }
    let told = desk.tunepipe(&["fit", "card.tp"]).ended(0);
    assert_eq!(told.out.matches("(not judged)").count(), 2, "{}", told.out);
}

#[test]
fn on_a_processor_alone_it_is_refused() {
    let desk = Desk::new();
    let text = |budget: &str| {
        format!(
            "tunepipe 1\n{budget}load model \"model\"\nload data \"rows.jsonl\" format=completion\n\
             train lora steps=2 offload=activations\nsave adapter \"out\"\n"
        )
    };
    for budget in ["", "budget ram=8GiB\n"] {
        desk.write("cpu.tp", &text(budget));
        let told = desk.tunepipe(&["check", "cpu.tp", "--json"]).ended(1);
        assert_eq!(told.json()["diagnostics"][0]["code"], "arg.idle", "{}", told.out);
        assert!(told.out.contains("RAM already") && told.out.contains("recompute"), "{}", told.out);
    }
    // A card is one of the targets: it is planned for the card, and the run here moves nothing, which is said.
    desk.write("card.tp", &text("budget gpu=8GiB ram=8GiB\n"));
    desk.tunepipe(&["check", "card.tp"]).ended(0);
    let told = desk.tunepipe(&["run", "card.tp", "--run-dir", "runs/card"]).ended(0);
    assert!(told.out.contains("`offload` is for the card"), "{}", told.out);
    // Two blocks are at hand anyway.
    let two = "tunepipe 1\nbudget gpu=8GiB\nload model \"two\"\nload data \"rows.jsonl\" format=completion\n\
               train lora steps=2 offload=activations\nsave adapter \"out2\"\n";
    super::bits::wide_model(&desk.path("two"), 400);
    desk.write("two.tp", &two.replace("\"two\"", "\"two\" tokenizer=bytes"));
    let told = desk.tunepipe(&["check", "two.tp", "--json"]).ended(1);
    assert_eq!(told.json()["diagnostics"][0]["code"], "arg.idle", "{}", told.out);
}
