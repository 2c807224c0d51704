//! Recipes, used files and mixed data, run to the end.

use super::Desk;

const TEAM: &str = "tunepipe 1
let rate = 1e-3
recipe adapt(model: Model<dense>, data: Data, valid: Data = none, rank: Int 1..64 = 4, steps: Int 1.. = 4, batch: Int 1.. = 2, accum: Int 1.. = 1)
  train lora data=data valid=valid rank=rank steps=steps batch=batch accum=accum lr=1e-3
";

#[test]
fn a_recipe_does_what_its_stages_do() {
    let desk = Desk::new();
    desk.write("team.tp", TEAM);
    let load = "load model \"model\"\nload data \"rows.jsonl\" format=completion holdout=4rows\n";
    desk.run("plain", &format!("{load}train lora rank=4 steps=4 batch=2 lr=1e-3\nsave adapter \"out/plain\""));
    desk.run("called", &format!("use \"team.tp\" as team\n{load}team.adapt\nsave adapter \"out/called\""));
    assert_eq!(desk.losses("runs/plain"), desk.losses("runs/called"));
    super::same("adapters", &desk.files("out/plain"), &desk.files("out/called"));

    // What was used stands in the manifest, whole.
    let manifest: serde_json::Value =
        serde_json::from_slice(&desk.files("runs/called")["manifest.json"]).expect("JSON");
    assert_eq!(manifest["used"][0]["text"], TEAM);
    assert_eq!(manifest["used"][0]["sha256"].as_str().map(str::len), Some(64));
    assert_eq!(manifest["stages"][2]["line"], 5, "a stage in a recipe stands where it is called");
}

#[test]
fn a_standard_recipe_runs_and_says_how_long_by_its_call() {
    let desk = Desk::new();
    let load = "load model \"model\"\nload data \"rows.jsonl\" format=completion\n";
    // `steps` is given and `epochs` is the recipe's default: no contradiction.
    desk.run("steps", &format!("{load}qlora steps=2 accum=2\nsave adapter \"out/a\""));
    assert_eq!(desk.losses("runs/steps").len(), 2);
    let both = format!("tunepipe 1\n{load}qlora steps=2 epochs=1\n");
    desk.write("both.tp", &both);
    let told = desk.tunepipe(&["check", "both.tp"]).ended(1);
    assert!(told.err.contains("train.length") && told.err.contains("called here"), "{}", told.err);
}

#[test]
fn an_overrun_in_a_recipe_is_mended_at_its_call() {
    let desk = Desk::new();
    desk.write("team.tp", TEAM);
    let head = "tunepipe 1\nuse \"team.tp\"\nload model \"model\"\nload data \"rows.jsonl\" format=completion\n";
    let text = format!("{head}adapt batch=16 # many\nsave adapter \"out/a\"\n");
    desk.write("big.tp", &text);
    let peak = desk.tunepipe(&["plan", "big.tp", "--json"]).ended(0).json();
    let peak = peak["targets"][0]["peak"]["ram"]["bytes"].as_u64().expect("bytes");
    desk.write("big.tp", &text.replace("tunepipe 1\n", &format!("tunepipe 1\nbudget ram={}B\n", peak - 100_000)));
    let told = desk.tunepipe(&["check", "big.tp"]).ended(4);
    assert!(told.err.contains("batch=16") && told.err.contains("big.tp:6"), "{}", told.err);
    desk.tunepipe(&["fit", "big.tp", "--write"]).ended(0);
    let after = String::from_utf8(desk.files("")["big.tp"].clone()).expect("UTF-8");
    assert!(!after.contains("batch=16") && after.contains("# many"), "{after}");
    desk.tunepipe(&["check", "big.tp"]).ended(0);
}

#[test]
fn mixed_data_has_exact_epochs_and_patterns_are_sorted() {
    let desk = Desk::new();
    desk.write("many/b.jsonl", &super::rows(6));
    desk.write("many/a.jsonl", &super::rows(4));
    let text = "load model \"model\"
load data \"rows.jsonl\" format=completion take=8rows
load data \"many/*.jsonl\" format=completion repeat=2
mix
train lora rank=2 epochs=3 batch=4 eval_every=100steps
save adapter \"out/a\"";
    desk.run("mixed", text);
    // An epoch has 8 rows of the first set and 2 · 10 of the second: 7 steps of 4.
    assert_eq!(desk.losses("runs/mixed").len(), 3 * 7);
    let inputs = &desk.files("runs/mixed")["manifest.json"];
    let inputs: serde_json::Value = serde_json::from_slice(inputs).expect("JSON");
    let named: Vec<&String> = inputs["inputs"].as_object().expect("inputs").keys().collect();
    assert!(named.iter().any(|name| name.ends_with("many/a.jsonl")), "{named:?}");
    desk.run_on(Some(1), "again", &text.replace("out/a", "out/b"));
    assert_eq!(desk.losses("runs/mixed"), desk.losses("runs/again"));
    super::same("adapters", &desk.files("out/a"), &desk.files("out/b"));

    desk.write("none.tp", "tunepipe 1\nload model \"model\"\nload data \"none/*.jsonl\" format=text\ntrain lora\n");
    let told = desk.tunepipe(&["check", "none.tp"]).ended(1);
    assert!(told.err.contains("no file matches"), "{}", told.err);
    let share =
        "tunepipe 1\nload model \"model\"\nload data \"rows.jsonl\" format=completion take=25rows\ntrain lora\n";
    desk.write("share.tp", share);
    let told = desk.tunepipe(&["check", "share.tp"]).ended(1);
    assert!(told.err.contains("there are 24"), "{}", told.err);
}
