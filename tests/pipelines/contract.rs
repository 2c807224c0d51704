//! The command line's contract: exit codes, streams, JSON, the run's folder.

use super::*;

const TRAIN: &str = "load model \"model\"\nload data \"rows.jsonl\" format=completion holdout=4rows\n";

fn written(desk: &Desk, name: &str, text: &str) {
    desk.write(name, &format!("tunepipe 1\n{text}\n"));
}

/// Every key, and no other.
#[track_caller]
fn keys(value: &Value, wanted: &[&str]) {
    let mut found: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut wanted = wanted.to_vec();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

#[test]
fn exit_codes_are_as_documented() {
    let desk = Desk::new();
    written(&desk, "right.tp", &format!("{TRAIN}eval"));
    written(&desk, "wrong.tp", &format!("{TRAIN}evall"));
    written(&desk, "over.tp", &format!("budget gpu=1MiB\n{TRAIN}train lora batch=8"));
    written(&desk, "asks.tp", &format!("param rank: Int\n{TRAIN}train lora rank=rank"));
    let code = |arguments: &[&str]| desk.tunepipe(arguments).code.expect("an exit");
    for verb in ["check", "plan", "run"] {
        assert_eq!(code(&[verb, "right.tp"]), 0, "{verb}");
        assert_eq!(code(&[verb, "wrong.tp"]), 1, "{verb}");
        assert_eq!(code(&[verb, "asks.tp"]), 1, "{verb} without a required param");
        assert_eq!(code(&[verb, "asks.tp", "rank=none"]), 1, "{verb} with a wrong one");
        assert_eq!(code(&[verb, "right.tp", "rank=4"]), 1, "{verb} with one that the pipeline has not");
        assert_eq!(code(&[verb, "over.tp"]), 4, "{verb}");
        assert_eq!(code(&[verb, "absent.tp"]), 2, "{verb}");
        assert_eq!(code(&[verb, "right.tp", "--nonsense"]), 2, "{verb}");
        assert_eq!(code(&[verb, "right.tp", "no-equals"]), 2, "{verb}");
        assert_eq!(code(&[verb]), 2, "{verb}");
    }
    assert_eq!(code(&["asks"]), 2);
    assert_eq!(code(&["check", "asks.tp", "rank=4"]), 0);
    assert_eq!(code(&["--version"]), 0);
    assert_eq!(code(&["run", "--help"]), 0);
}

/// Weights full of NaN show only when they are used.
#[test]
fn a_run_that_fails_says_where_and_exits_with_3() {
    let desk = Desk::new();
    let path = desk.path("model/model.safetensors");
    let mut bytes = fs::read(&path).expect("a model");
    let from = bytes.len() - 600_000;
    bytes[from..].fill(0xff);
    fs::write(&path, bytes).expect("written");
    written(&desk, "nan.tp", "load model \"model\"\nsample prompt=\"Q: \"\nsave model \"out/model\"");
    let told = desk.tunepipe(&["run", "nan.tp", "--json"]).ended(3).json();
    assert_eq!(told["ok"], false);
    let last = told["diagnostics"].as_array().expect("a list").last().expect("a diagnostic").clone();
    assert_eq!((&last["code"], &last["line"]), (&"model.not_finite".into(), &3.into()));
    assert!(!desk.path("out").exists(), "nothing is saved after a failure");
    // What was done until then is on record.
    assert!(desk.path("runs/nan/latest/memory.json").exists());

    desk.tunepipe(&["run", "-q", "nan.tp", "--run-dir", "runs/one"]).ended(3);
    let told = desk.tunepipe(&["run", "-q", "nan.tp", "--run-dir", "runs/one"]).ended(2);
    assert!(told.err.contains("already holds a run"), "{}", told.err);
}

#[test]
fn an_overrun_is_labelled_on_its_argument() {
    let desk = Desk::new();
    let small = "budget ram=20MiB\nload model \"model\"\nload data \"rows.jsonl\" format=completion\ntrain lora batch=24 steps=2\nsave adapter \"out/a\"";
    written(&desk, "small.tp", small);
    for verb in ["check", "plan", "run"] {
        let told = desk.tunepipe(&[verb, "small.tp", "--json"]).ended(4).json();
        let over = &told["diagnostics"][0];
        assert_eq!(over["code"], "budget.over", "{verb}");
        assert_eq!(over["line"], 5, "{verb}: {over}");
        let column = over["column"].as_u64().expect("a column") as usize;
        let line = small.lines().nth(3).expect("a line");
        assert_eq!(line.find("batch=24").map(|at| at + 1), Some(column), "{verb}: {over}");
        let budget = over["labels"].as_array().expect("labels").iter().any(|label| label["line"] == 2);
        assert!(budget, "{verb}: the budget's line is shown too");
    }
    let told = desk.tunepipe(&["run", "small.tp"]).ended(4);
    assert!(told.err.contains("batch=24") && told.err.contains("small.tp:5"), "{}", told.err);
    assert!(!desk.path("runs").exists() && !desk.path("out").exists());
    // What is offered can be pasted, and fits.
    let told = desk.tunepipe(&["check", "small.tp", "--json"]).ended(4).json();
    let help = told["diagnostics"][0]["help"].as_str().expect("an offer");
    let offer = help.split('`').nth(1).expect("an offer in backticks");
    assert!(offer.contains("batch="), "{help}");
    written(&desk, "offer.tp", &small.replace("batch=24", offer));
    desk.tunepipe(&["check", "offer.tp"]).ended(0);
    // Where the training does not say what is long, the rows do.
    written(
        &desk,
        "rows.tp",
        &small
            .replace(" batch=24", "")
            .replace("completion", "completion max_len=500 packed")
            .replace("20MiB", "12MiB"),
    );
    let over = desk.tunepipe(&["check", "rows.tp", "--json"]).ended(4).json()["diagnostics"][0].clone();
    assert_eq!((&over["line"], &over["column"]), (&4.into(), &42.into()), "{over}");
    // The same pipeline within a larger budget.
    written(&desk, "large.tp", &small.replace("20MiB", "2GiB"));
    desk.tunepipe(&["check", "large.tp"]).ended(0);
}

#[test]
fn outputs_that_exist_are_refused_before_anything_runs() {
    let desk = Desk::new();
    let text = format!(
        "{TRAIN}train lora steps=2\nsave adapter \"out/adapter\"\nsave merged \"out/merged\"\nsave merged \"out/merged\""
    );
    written(&desk, "twice.tp", &text);
    let told = desk.tunepipe(&["check", "--json", "twice.tp"]).ended(1).json();
    assert_eq!((&told["diagnostics"][0]["code"], &told["diagnostics"][0]["line"]), (&"output.twice".into(), &7.into()));

    let text = text.rsplit_once('\n').expect("lines").0.to_owned();
    desk.run("first", &text);
    let before = desk.files("out");
    written(&desk, "again.tp", &text);
    for verb in ["check", "run"] {
        let told = desk.tunepipe(&[verb, "--json", "again.tp"]).ended(1).json();
        let found: Vec<(&Value, &Value)> =
            told["diagnostics"].as_array().expect("a list").iter().map(|d| (&d["code"], &d["line"])).collect();
        assert_eq!(found, [(&"output.exists".into(), &5.into()), (&"output.exists".into(), &6.into())], "{verb}");
    }
    // A plan changes nothing, so it is drawn, and says what a run would meet.
    for verb in ["plan", "fit"] {
        let told = desk.tunepipe(&[verb, "again.tp"]).ended(0);
        assert!(!told.out.is_empty(), "{verb}: {}", told.err);
    }
    let told = desk.tunepipe(&["plan", "--json", "again.tp"]).ended(0).json();
    assert_eq!(
        (&told["diagnostics"][0]["code"], &told["diagnostics"][0]["severity"]),
        (&"output.exists".into(), &"warning".into())
    );
    assert!(!desk.path("runs/again").exists(), "nothing was trained");
    same("untouched", &before, &desk.files("out"));

    let over = text
        .replace("steps=2", "steps=3")
        .replace("out/adapter\"", "out/adapter\" overwrite")
        .replace("out/merged\"", "out/merged\" overwrite");
    desk.run("over", &over);
    let after = desk.files("out");
    assert!(before.keys().eq(after.keys()), "nothing old stays and nothing odd comes");
    assert_ne!(before["merged/model.safetensors"], after["merged/model.safetensors"]);
    assert_ne!(before["adapter/adapter_model.safetensors"], after["adapter/adapter_model.safetensors"]);
}

#[test]
fn params_come_from_the_command_line() {
    let desk = Desk::new();
    written(
        &desk,
        "p.tp",
        &format!(
            "param steps = 1\nparam name = \"a\"\n{TRAIN}train lora steps=steps batch=4\nsave adapter \"out/${{name}}\""
        ),
    );
    desk.tunepipe(&["run", "-q", "p.tp", "--run-dir", "runs/plain"]).ended(0);
    desk.tunepipe(&["run", "-q", "p.tp", "steps=3", "name=b", "--run-dir", "runs/three"]).ended(0);
    assert_eq!((desk.losses("runs/plain").len(), desk.losses("runs/three").len()), (1, 3));
    assert!(desk.path("out/a").is_dir() && desk.path("out/b").is_dir());
    let manifest = fs::read_to_string(desk.path("runs/three/manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!((&manifest["params"]["steps"], &manifest["params"]["name"]), (&3.into(), &"b".into()));
}

#[test]
fn json_answers_have_their_documented_keys() {
    let desk = Desk::new();
    written(
        &desk,
        "j.tp",
        &format!(
            "budget cpu-16gb\nbudget colab-t4 disk=60GiB\n{TRAIN}train lora steps=2 batch=4\nsave merged \"out/m\""
        ),
    );
    let plan = desk.tunepipe(&["plan", "--json", "j.tp"]).ended(0).json();
    keys(&plan, &["version", "targets", "diagnostics"]);
    let targets = plan["targets"].as_array().expect("targets");
    assert_eq!(targets.len(), 2);
    for (target, device) in targets.iter().zip(["cpu", "cuda"]) {
        keys(target, &["budget", "device", "fits", "limits", "peak", "stages", "remarks"]);
        assert_eq!((&target["device"], &target["fits"]), (&device.into(), &true.into()));
        keys(&target["peak"], &["gpu", "ram", "disk"]);
        let peak = &target["peak"]["ram"];
        keys(peak, &["bytes", "stage", "phase"]);
        let stages = target["stages"].as_array().expect("stages");
        assert_eq!(stages.len(), 4);
        let mut most = 0;
        for stage in stages {
            keys(stage, &["name", "line", "phases"]);
            for phase in stage["phases"].as_array().expect("phases") {
                keys(phase, &["name", "peak", "holdings"]);
                most = most.max(phase["peak"]["ram"].as_u64().expect("bytes"));
                for holding in phase["holdings"].as_array().expect("holdings") {
                    keys(holding, &["name", "place", "bytes", "grows_with"]);
                }
            }
        }
        assert_eq!(peak["bytes"], most, "the peak is the largest phase");
    }
    assert_eq!(targets[1]["limits"]["disk"], 60u64 << 30);

    let check = desk.tunepipe(&["check", "--json", "j.tp"]).ended(0).json();
    assert_eq!((&check["version"], &check["ok"]), (&1.into(), &true.into()));
    assert!(check["targets"].as_array().is_some_and(|t| t.len() == 2) && check["diagnostics"].is_array());

    let run = desk.tunepipe(&["run", "--json", "j.tp"]).ended(0).json();
    keys(&run, &["version", "ok", "run", "results", "memory", "diagnostics"]);
    assert!(desk.path(run["run"].as_str().expect("a folder")).join("manifest.json").is_file());

    // A wrong pipeline answers in JSON too, with places.
    written(&desk, "w.tp", "load modle \"model\"");
    for verb in ["check", "plan", "run"] {
        let told = desk.tunepipe(&[verb, "--json", "w.tp"]).ended(1).json();
        assert_eq!(told["version"], 1);
        let first = &told["diagnostics"][0];
        keys(
            first,
            &[
                "code",
                "severity",
                "message",
                "file",
                "line",
                "column",
                "end_line",
                "end_column",
                "labels",
                "notes",
                "help",
            ],
        );
        assert_eq!((&first["severity"], &first["line"], &first["column"]), (&"error".into(), &2.into(), &1.into()));
    }
}

#[test]
fn the_run_folder_holds_what_is_documented() {
    let desk = Desk::new();
    written(&desk, "r.tp", &format!("{TRAIN}train lora steps=3 batch=4\nsave adapter"));
    desk.tunepipe(&["run", "-q", "r.tp"]).ended(0);
    let latest = desk.path("runs/r/latest");
    let first = fs::canonicalize(&latest).expect("latest");
    let names: Vec<String> = desk.files("runs/r/latest").into_keys().collect();
    for name in [
        "manifest.json",
        "metrics.jsonl",
        "timing.jsonl",
        "memory.json",
        "process.json",
        "progress.json",
        "adapter/adapter_config.json",
        "adapter/adapter_model.safetensors",
    ] {
        assert!(names.iter().any(|n| n == name), "{name} is not among {names:?}");
    }
    let read =
        |name: &str| -> Value { serde_json::from_slice(&fs::read(latest.join(name)).expect("a file")).expect("JSON") };
    let manifest = read("manifest.json");
    let all =
        ["version", "tunepipe", "machine", "pipeline", "used", "params", "overrides", "stages", "inputs", "asked"];
    keys(&manifest, &all);
    assert_eq!(manifest["pipeline"]["text"], fs::read_to_string(desk.path("r.tp")).expect("text"));
    let inputs = manifest["inputs"].as_object().expect("hashes");
    for name in ["rows.jsonl", "model/config.json", "model/model.safetensors", "model/tokenizer.json"] {
        assert!(inputs.get(name).and_then(Value::as_str).is_some_and(|hash| hash.len() == 64), "{name} in {inputs:?}");
    }
    assert_eq!(manifest["stages"][2]["arguments"]["rank"], 8, "defaults are resolved");

    let metrics = lines(&latest.join("metrics.jsonl"));
    let steps: Vec<&Value> = metrics.iter().filter(|m| m["event"].is_null()).collect();
    assert_eq!(steps.len(), 3);
    for (at, step) in steps.iter().enumerate() {
        keys(step, &["step", "epoch", "loss", "lr", "grad_norm", "tokens", "counted"]);
        assert_eq!(step["step"], at + 1);
    }
    assert!(metrics.iter().any(|m| m["event"] == "eval" && m["loss"].is_f64()));
    let timing = lines(&latest.join("timing.jsonl"));
    assert_eq!(timing.len(), 3);
    keys(&timing[0], &["step", "seconds", "tokens_per_s"]);
    for row in read("memory.json").as_array().expect("rows") {
        keys(row, &["stage", "phase", "place", "planned", "measured"]);
    }

    let process = read("process.json");
    keys(&process, &["planned_ram", "peak_resident"]);
    assert!(process["planned_ram"].as_u64() > Some(1 << 20), "{process}");

    desk.tunepipe(&["run", "-q", "r.tp"]).ended(0);
    let second = fs::canonicalize(&latest).expect("latest");
    assert_ne!(first, second, "latest is the newest");
    assert_eq!(fs::read_dir(desk.path("runs/r")).expect("runs").count(), 3);
    // The clock decides nothing that metrics hold.
    let both = [first, second].map(|run| fs::read(run.join("metrics.jsonl")).expect("metrics"));
    assert!(both[0] == both[1]);
}

#[test]
fn quiet_is_quiet_and_streams_are_kept_apart() {
    let desk = Desk::new();
    written(
        &desk,
        "q.tp",
        &format!("{TRAIN}train lora steps=2 batch=4\nsample prompt=\"Q: \" max_new=4\nsave merged \"out/m\" overwrite"),
    );
    let quiet = desk.tunepipe(&["run", "-q", "q.tp"]).ended(0);
    // Quiet leaves the answers that were asked for.
    assert!(
        quiet.out.starts_with("  sample in line 5\n    Q:\n  → ") && quiet.err.is_empty(),
        "{}{}",
        quiet.out,
        quiet.err
    );
    assert_eq!(quiet.out.lines().count(), 3, "{}", quiet.out);
    let loud = desk.tunepipe(&["run", "q.tp"]).ended(0);
    assert!(loud.out.contains("run folder: runs") && loud.out.contains("train lora"), "{}", loud.out);
    assert!(loud.err.contains("loss") && !loud.out.contains("loss"), "progress goes to stderr: {}", loud.err);
    for told in [&loud.out, &loud.err] {
        assert!(!told.contains('\u{1b}'), "no colours off a terminal");
    }
    // JSON stands alone on stdout, even of a run.
    desk.tunepipe(&["run", "-q", "--json", "q.tp"]).ended(0).json();
    desk.tunepipe(&["run", "--json", "q.tp"]).ended(0).json();
}

#[test]
fn a_pipeline_can_come_from_standard_input() {
    use std::io::Write;
    let desk = Desk::new();
    let mut child = crate::program()
        .args(["check", "-"])
        .current_dir(desk.0.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    child.stdin.take().expect("stdin").write_all(format!("tunepipe 1\n{TRAIN}eval\n").as_bytes()).expect("written");
    assert!(child.wait_with_output().expect("it ends").status.success());
}
