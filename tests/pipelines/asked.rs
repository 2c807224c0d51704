//! What is given beside a pipeline's text: params, `--set`, `--budget`, `--sweep`.

use serde_json::Value;

use super::Desk;

const TUNE: &str = "tunepipe 1
budget rtx-4090 ram=64GiB
budget ram=64GiB disk=60GiB
param lr = 1e-3
param rank = 2
load model \"model\"
load data \"rows.jsonl\" format=completion holdout=4rows
train lora rank=rank lr=lr steps=3 batch=2
save adapter
";

#[test]
fn what_is_given_stands_in_the_manifest() {
    let desk = Desk::new();
    desk.write("t.tp", &format!("{TUNE}sample prompt=@\"prompt.txt\" max_new=4\n"));
    desk.write("prompt.txt", "Q: Who?");
    desk.write("ours.params", "# for all of us\nrank = 4\nlr = 2e-3\n");
    let told = desk.tunepipe(&[
        "run",
        "-q",
        "t.tp",
        "lr=5e-3",
        "--params",
        "ours.params",
        "--set",
        "train.batch=1",
        "--run-dir",
        "runs/a",
    ]);
    told.ended(0);
    let manifest: Value = serde_json::from_slice(&desk.files("runs/a")["manifest.json"]).expect("JSON");
    assert_eq!((&manifest["params"]["rank"], &manifest["params"]["lr"]), (&4.into(), &0.005.into()));
    assert_eq!(manifest["stages"][2]["arguments"]["batch"], 1);
    assert_eq!(manifest["inputs"]["prompt.txt"].as_str().map(str::len), Some(64), "a text of a file is an input");
    let given: Vec<&str> =
        manifest["overrides"].as_array().expect("a list").iter().filter_map(|one| one["given"].as_str()).collect();
    assert_eq!(given, ["lr=5e-3", "rank = 4", "train.batch=1"]);

    let told = desk.tunepipe(&["check", "t.tp", "--set", "trian.batch=1"]).ended(1);
    assert!(told.err.contains("set.stage") && told.err.contains("train.batch"), "{}", told.err);
    let told = desk.tunepipe(&["check", "t.tp", "--params", "none.params"]).ended(2);
    assert!(told.err.contains("none.params"), "{}", told.err);
}

#[test]
fn budgets_are_picked_and_replaced() {
    let desk = Desk::new();
    desk.write("t.tp", TUNE);
    let labels = |arguments: &[&str]| -> Vec<String> {
        let told = desk.tunepipe(&[&["check", "t.tp", "--json"], arguments].concat()).json();
        let targets = told["targets"].as_array().expect("targets").clone();
        targets.iter().filter_map(|target| target["budget"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(labels(&[]), ["rtx-4090", "cpu"]);
    assert_eq!(labels(&["--budget", "rtx-4090"]), ["rtx-4090"]);
    assert_eq!(labels(&["--budget", "colab-t4", "--budget", "gpu=4GiB ram=8GiB"]), ["colab-t4", "gpu"]);
    desk.tunepipe(&["check", "t.tp", "--budget", "ram=1MiB"]).ended(4);
    let told = desk.tunepipe(&["check", "t.tp", "--budget", "rtx-4900"]).ended(1);
    assert!(told.err.contains("rtx-4090"), "{}", told.err);
}

#[test]
fn a_sweep_plans_all_then_runs_and_ranks() {
    let desk = Desk::new();
    desk.write("t.tp", TUNE);
    // The second value is wrong: nothing runs.
    let told = desk.tunepipe(&["run", "-q", "t.tp", "--sweep", "rank=2,0", "--run-dir", "runs/no"]).ended(1);
    assert!(told.err.contains("rank=0") && !desk.path("runs/no").exists(), "{}", told.err);
    // Two runs cannot write one folder.
    desk.write("out.tp", &TUNE.replace("save adapter", "save adapter \"out/a\""));
    let told = desk.tunepipe(&["run", "-q", "out.tp", "--sweep", "lr=1e-3,2e-3"]).ended(1);
    assert!(told.err.contains("both write") && !desk.path("out").exists(), "{}", told.err);

    let told = desk.tunepipe(&[
        "run",
        "-q",
        "t.tp",
        "--json",
        "--sweep",
        "lr=0.0,3e-3",
        "--sweep",
        "train.batch=1,2",
        "--run-dir",
        "runs/sweep",
    ]);
    let told = told.ended(0).json();
    let runs = told["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 4);
    let losses: Vec<f64> = runs.iter().map(|run| run["held_out_loss"].as_f64().expect("a loss")).collect();
    assert!(losses.is_sorted(), "{losses:?}");
    // A rate of zero learns nothing, so it ranks below.
    assert!(runs[0]["given"].as_str().is_some_and(|given| given.starts_with("lr=3e-3")), "{told}");
    assert!(desk.path("runs/sweep/lr=0.0_train.batch=2/adapter/adapter_config.json").exists());
}
