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

/// Whatever the values are, each run has a folder of its own, and what is given twice is said.
#[test]
fn a_sweep_keeps_its_runs_apart() {
    let desk = Desk::new();
    desk.write(
        "t.tp",
        &TUNE
            .replace("param rank = 2", "param rank = 2\nparam word = \"w\"")
            .replace("save adapter", "sample prompt=word max_new=1"),
    );
    let sweep = |more: &[&str]| desk.tunepipe(&[&["run", "t.tp", "--json"], more].concat());
    let long = format!("word={}x,{}y", "a ".repeat(200), "a ".repeat(200));
    for (axis, runs) in [("word=a b,a/b,a?b", 3), (&*long, 2)] {
        let told = sweep(&["--sweep", axis]).ended(0).json();
        let mut folders: Vec<&str> =
            told["runs"].as_array().expect("runs").iter().filter_map(|run| run["run"].as_str()).collect();
        folders.sort_unstable();
        folders.dedup();
        assert_eq!(folders.len(), runs, "{told}");
        assert!(folders.iter().all(|folder| desk.path(folder).join("memory.json").exists()), "{told}");
    }

    // What cannot be two runs is refused before the first.
    for (more, code, words) in [
        (&["--sweep", "rank=2,2"][..], 2, "has `2` twice"),
        (&["--sweep", "rank=2", "--sweep", "rank=4"], 2, "swept twice"),
        (&["--sweep", "rank=2,4", "rank=8"], 2, "given as `rank=8`"),
        (&["--sweep", "train.rank=2,4", "--set", "train.rank=8"], 2, "set by `--set train.rank=8`"),
        (&["--sweep", "train.rank=2,4", "--set", "train-lora.rank=8"], 1, "given twice"),
        (&["--sweep", "lr=1e-3,0.001"], 1, "would do the same"),
        (&["--sweep", "rank=2,4", "--set", "train.rank=8"], 1, "would do the same"),
        (&["--sweep", "batch=2,4"], 1, "--sweep train.batch="),
        (&["--sweep", "r=2,4"], 1, "no param `r`"),
    ] {
        let told = desk.tunepipe(&[&["run", "t.tp", "--run-dir", "runs/no"], more].concat()).ended(code);
        assert!(told.err.contains(words), "{more:?}: {}", told.err);
        assert!(!desk.path("runs/no").exists(), "{more:?}");
    }
    desk.write("let.tp", &TUNE.replace("param rank", "let rank"));
    let told = desk.tunepipe(&["run", "let.tp", "--sweep", "rank=2,4"]).ended(1);
    assert!(told.err.contains("param rank = …") && told.err.contains("a `let`"), "{}", told.err);

    // A file of params stands behind the sweep, and that is said.
    desk.write("ours.params", "rank = 4\nlr = 2e-3\n");
    let told =
        desk.tunepipe(&["run", "t.tp", "--params", "ours.params", "--sweep", "rank=2,3", "--run-dir", "runs/one"]);
    let told = told.ended(0);
    assert!(told.err.contains("what `ours.params` gives for it is not used"), "{}", told.err);
    assert!(!told.err.contains("`lr`"), "{}", told.err);
    // An older sweep's folder is not taken for this one's.
    let again = desk.tunepipe(&["run", "t.tp", "--sweep", "rank=2,8", "--run-dir", "runs/one"]).ended(2);
    assert!(again.err.contains("already holds a run") && !desk.path("runs/one/rank=8").exists(), "{}", again.err);
}

/// A name of the file means nothing on the command line, and one given there is no name of the file.
#[test]
fn names_given_from_outside_are_told_from_the_files() {
    let desk = Desk::new();
    desk.write("t.tp", &TUNE.replace("param lr = 1e-3\n", ""));
    let told = desk.tunepipe(&["check", "t.tp", "lr=1e-3"]).ended(1);
    assert!(told.err.contains("given on the command line, and no `param` takes it"), "{}", told.err);
    assert!(told.err.contains("param lr = …") && told.err.matches(" × ").count() == 1, "{}", told.err);
    desk.write("u.tp", TUNE);
    let told = desk.tunepipe(&["check", "u.tp", "--set", "train.lr=lr"]).ended(1);
    assert!(told.err.contains("write the value itself") && !told.err.contains("declare it"), "{}", told.err);
    let told = desk.tunepipe(&["check", "u.tp", "--set", "train.lr=much"]).ended(1);
    assert!(told.err.contains("for example `lr=") && !told.err.contains("declare it"), "{}", told.err);
    for (arguments, words) in [
        (&["check", "u.tp", "lr"][..], "`lr=…`"),
        (&["check", "u.tp", "=3"], "gives a value to nothing"),
        (&["u.tp"], "tunepipe check u.tp"),
    ] {
        let told = desk.tunepipe(arguments).ended(2);
        assert!(told.err.contains(words), "{arguments:?}: {}", told.err);
    }
    let told = desk.tunepipe(&["check", "u.tp", "batch=4"]).ended(1);
    assert!(told.err.contains("--set train.batch=…"), "{}", told.err);
}
