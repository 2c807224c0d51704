//! Runs that were killed or interrupted go on to the same bits.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// A run under way. Its folder is `runs/NAME`, and its outputs lie in `out/NAME`.
fn begin(desk: &Desk, arguments: &[&str]) -> Child {
    let mut command = crate::program();
    command.args(arguments).current_dir(desk.path("")).env("RAYON_NUM_THREADS", "2");
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("a pid");
    kill_process(pid, signal).expect("sent");
}

/// Waits until the run has written so many lines of metrics, or is over.
fn until_lines(desk: &Desk, name: &str, child: &mut Child, lines: usize) {
    let path = desk.path(&format!("runs/{name}/metrics.jsonl"));
    let begun = Instant::now();
    while fs::read(&path).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count()) < lines
        && child.try_wait().expect("asked").is_none()
    {
        assert!(begun.elapsed() < Duration::from_secs(120), "no {lines} lines of metrics");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn told(child: Child) -> (ExitStatus, String) {
    let output = child.wait_with_output().expect("an end");
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// What a run leaves that is the same on any day: outputs and metrics.
fn leavings(desk: &Desk, name: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = desk.files(&format!("out/{name}"));
    found.insert("metrics.jsonl".into(), fs::read(desk.path(&format!("runs/{name}/metrics.jsonl"))).expect("metrics"));
    found
}

fn written(desk: &Desk, name: &str, text: &str) -> String {
    let file = format!("{name}.tp");
    desk.write(&file, &format!("tunepipe 1\n{}\n", text.replace("OUT", &format!("out/{name}"))));
    file
}

/// Runs `text` to its end under `whole`, and under `name` with a signal whenever so many lines are written; both leave
/// the same.
#[track_caller]
fn goes_on_alike(desk: &Desk, name: &str, text: &str, signal: Signal, at: &[usize]) {
    let whole = format!("{name}-whole");
    desk.run_on(Some(2), &whole, &text.replace("OUT", &format!("out/{whole}")));
    assert!(!desk.path(&format!("runs/{whole}/checkpoints")).exists(), "a finished run keeps no checkpoint");
    let (file, folder) = (written(desk, name, text), format!("runs/{name}"));
    let mut interrupted = 0;
    for (round, lines) in at.iter().enumerate() {
        let mut child = match round {
            0 => begin(desk, &["run", "-q", &file, "--run-dir", &folder]),
            _ => begin(desk, &["resume", "-q", &folder]),
        };
        until_lines(desk, name, &mut child, *lines);
        // One that is over by now is none to be asked.
        if child.try_wait().expect("asked").is_none() {
            send(&child, signal);
        }
        let (status, err) = told(child);
        assert!(!err.contains("panicked") && !err.contains("over the plan"), "{err}");
        match (status.code(), status.signal()) {
            (Some(0), _) => break,
            (Some(130 | 143), _) | (_, Some(9)) => interrupted += 1,
            _ => panic!("{name}: {status}\n{err}"),
        }
    }
    assert!(interrupted > 0, "{name} was over before it could be interrupted");
    let state = outcome(desk, name);
    if state != "done" {
        let told = desk.tunepipe(&["resume", "-q", &folder]).ended(0);
        assert!(!told.err.contains("over the plan"), "{name}: {}", told.err);
    }
    same(name, &leavings(desk, &whole), &leavings(desk, name));
    assert!(!desk.path(&format!("runs/{name}/checkpoints")).exists());
}

/// How a run says that it ended.
fn outcome(desk: &Desk, name: &str) -> String {
    let text = fs::read_to_string(desk.path(&format!("runs/{name}/progress.json"))).expect("progress");
    let progress: Value = serde_json::from_str(&text).expect("JSON");
    progress["outcome"].as_str().expect("a word").to_owned()
}

const DATA: &str = "load data \"rows.jsonl\" format=completion holdout=4rows";

/// Every kind of training, taken up in mid-epoch, with whatever has a state of its own.
#[test]
fn every_training_goes_on_to_the_same_bits() {
    let lora = |data: &str, before: &str, training: &str| {
        format!(
            "load model \"model\"\n{DATA} {data}\n{before}\n\
             train lora rank=4 alpha=8 epochs=12 warmup=2steps save_every=2steps {training}\n\
             save adapter \"OUT/adapter\"\nsave merged \"OUT/merged\"\neval batch=4"
        )
    };
    let full = |training: &str| {
        format!(
            "load model \"model\"\n{DATA}\ntrain full epochs=8 lr=1e-3 save_every=3steps {training}\n\
             save model \"OUT/model\" dtype=f32"
        )
    };
    let cases = [
        ("lora", lora("", "", "lr=2e-3 batch=3 accum=2 dropout=0.1 eval_every=5steps")),
        ("qlora", lora("", "quantize nf4 double_quant", "lr=2e-3 batch=4 recompute free_logits clip=none")),
        ("packed", lora("packed max_len=200", "quantize nf4", "lr=2e-3 batch=1 accum=2 dropout=0.1 optim=adamw8bit")),
        ("taken", lora("take=7rows", "", "lr=2e-3 batch=2 accum=2 schedule=linear")),
        ("full", full("batch=3 accum=2")),
        ("full8", full("batch=4 optim=adamw8bit recompute free_logits")),
        ("fused", full("batch=4 fused_step clip=none")),
        ("best", lora("", "", "batch=4 keep=best patience=3 eval_every=2steps lr=2e-2 keep_last=1")),
    ];
    let desk = Desk::new();
    for (name, text) in &cases {
        goes_on_alike(&desk, name, text, Signal::KILL, &[7, 12, 19]);
    }
    for (name, text) in &cases[..2] {
        goes_on_alike(&desk, &format!("{name}-int"), text, Signal::INT, &[4, 9, 10, 17, 24]);
    }
}

/// Moments drawn from a fixed seed.
struct Draws(u64);

impl Draws {
    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }
}

/// Kills at any moment: `TUNEPIPE_KILLS=100` for more of them than here.
#[test]
fn a_run_that_is_killed_at_any_moment_goes_on() {
    let kills: usize = std::env::var("TUNEPIPE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let text = format!(
        "load model \"model\"\n{DATA}\nquantize nf4\n\
         train lora rank=4 epochs=3 batch=3 accum=2 lr=2e-3 save_every=1steps dropout=0.1\n\
         save adapter \"OUT/adapter\"\nsave merged \"OUT/merged\"\nsave merged \"OUT/low\" low_ram\neval batch=4"
    );
    let desk = Desk::new();
    let begun = Instant::now();
    desk.run_on(Some(2), "whole", &text.replace("OUT", "out/whole"));
    let lasts = begun.elapsed().as_secs_f64();
    let file = written(&desk, "killed", &text);
    let mut draws = Draws(7);
    let (mut killed, mut stages) = (0, BTreeMap::new());
    while killed < kills {
        let _ = fs::remove_dir_all(desk.path("runs/killed"));
        let _ = fs::remove_dir_all(desk.path("out/killed"));
        loop {
            let begins = !desk.path("runs/killed/manifest.json").exists();
            if begins {
                let _ = fs::remove_dir_all(desk.path("runs/killed"));
            }
            let mut child = match begins {
                true => begin(&desk, &["run", "-q", &file, "--run-dir", "runs/killed"]),
                false => begin(&desk, &["resume", "-q", "runs/killed"]),
            };
            let at = Instant::now() + Duration::from_secs_f64(lasts * 0.8 * draws.next());
            while Instant::now() < at && child.try_wait().expect("asked").is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let over = child.try_wait().expect("asked").is_some();
            if !over {
                child.kill().expect("killed");
            }
            let (status, err) = told(child);
            // A kill may come when all is done but the process itself.
            let done = desk.path("runs/killed/progress.json").exists() && outcome(&desk, "killed") == "done";
            if over || done {
                assert!(!over || status.code() == Some(0), "{status}\n{err}");
                assert!(!err.contains("over the plan") && !err.contains("damaged"), "{err}");
                break;
            }
            killed += 1;
            let done = fs::read_to_string(desk.path("runs/killed/progress.json")).map_or(0, |text| {
                let progress: Value = serde_json::from_str(&text).expect("JSON");
                progress["stages"].as_array().expect("a list").len()
            });
            *stages.entry(done).or_insert(0) += 1;
        }
        same("killed", &leavings(&desk, "whole"), &leavings(&desk, "killed"));
        let left: Vec<String> = desk.files("").into_keys().filter(|name| name.contains(".tmp-")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    println!("{killed} kills, by stages that were done: {stages:?}");
}

/// A run that takes long enough to be met at work.
fn long(desk: &Desk) -> String {
    let text =
        format!("load model \"model\"\n{DATA}\ntrain lora rank=2 epochs=400 batch=4\nsave adapter \"OUT/adapter\"");
    written(desk, "long", &text)
}

#[test]
fn signals_end_a_run_that_can_be_resumed() {
    let desk = Desk::new();
    let file = long(&desk);
    for (signal, code, name) in [(Signal::INT, 130, "SIGINT"), (Signal::TERM, 143, "SIGTERM")] {
        let _ = fs::remove_dir_all(desk.path("runs/long"));
        let mut child = begin(&desk, &["run", &file, "--run-dir", "runs/long"]);
        until_lines(&desk, "long", &mut child, 8);
        send(&child, signal);
        let (status, err) = told(child);
        assert_eq!(status.code(), Some(code), "{err}");
        let says = format!("{name}: interrupted after step ");
        assert!(err.contains(&says) && err.contains("`tunepipe resume runs/long` goes on from there"), "{err}");
        assert_eq!(outcome(&desk, "long"), "interrupted");
        let steps = desk.losses("runs/long").len();
        let at = format!("runs/long/checkpoints/02-{steps:08}");
        assert!(desk.path(&at).is_dir(), "{at}: the last step is in a checkpoint");
    }
    // A second signal does not wait for anything.
    let mut child = begin(&desk, &["resume", "runs/long"]);
    let lines = desk.metrics("runs/long").len();
    until_lines(&desk, "long", &mut child, lines + 4);
    send(&child, Signal::INT);
    send(&child, Signal::INT);
    let (status, err) = told(child);
    assert!(status.signal() == Some(2) || status.code() == Some(130), "{status}\n{err}");
    let told = desk.tunepipe(&["ls", "runs", "--json"]).ended(0).json();
    assert!(told["runs"].as_array().expect("a list").is_empty(), "`runs/long` is no folder of folders: {told}");
    let mut child = begin(&desk, &["resume", "--json", "runs/long"]);
    until_lines(&desk, "long", &mut child, lines + 8);
    send(&child, Signal::TERM);
    assert_eq!(told_code(child), Some(143));
}

fn told_code(child: Child) -> Option<i32> {
    told(child).0.code()
}

#[test]
fn one_process_works_on_a_run() {
    let desk = Desk::new();
    let file = long(&desk);
    let mut child = begin(&desk, &["run", "-q", &file, "--run-dir", "runs/long"]);
    until_lines(&desk, "long", &mut child, 4);
    let told = desk.tunepipe(&["resume", "runs/long"]).ended(3);
    assert!(told.err.contains("another process is at work on the run in `runs/long`"), "{}", told.err);
    let told = desk.tunepipe(&["run", &file, "--run-dir", "runs/long"]).ended(2);
    assert!(told.err.contains("already holds a run") && told.err.contains("tunepipe resume"), "{}", told.err);
    child.kill().expect("killed");
    child.wait().expect("an end");
    let mut child = begin(&desk, &["resume", "-q", "runs/long"]);
    let lines = desk.metrics("runs/long").len();
    until_lines(&desk, "long", &mut child, lines + 2);
    assert!(child.try_wait().expect("asked").is_none(), "a lock goes with its process");
    child.kill().expect("killed");
    child.wait().expect("an end");
}

/// A run with checkpoints after steps 2 and 4, killed in its second epoch.
fn killed(desk: &Desk, name: &str, more: &str) -> String {
    let text = format!(
        "param rank = 2\nuse \"team.tp\" as team\nload model \"model\"\n{DATA}\n\
         train lora rank=rank epochs=60 batch=4 lr=team.rate save_every=2steps\nsave adapter \"OUT/adapter\"\n{more}"
    );
    desk.write("team.tp", "tunepipe 1\nlet rate = 2e-4\n");
    let file = written(desk, name, &text);
    let folder = format!("runs/{name}");
    let mut child = begin(desk, &["run", "-q", &file, "rank=3", "--run-dir", &folder]);
    until_lines(desk, name, &mut child, 12);
    child.kill().expect("killed");
    child.wait().expect("an end");
    file
}

#[test]
fn what_has_changed_is_refused_with_what_differs() {
    let desk = Desk::new();
    let file = killed(&desk, "changed", "");
    let refused = |path: &str, text: &str, says: &[&str]| {
        let was = fs::read_to_string(desk.path(path)).expect("a file");
        desk.write(path, text);
        let metrics = fs::read(desk.path("runs/changed/metrics.jsonl")).expect("metrics");
        let told = desk.tunepipe(&["resume", "runs/changed"]).ended(1);
        for words in says {
            assert!(told.err.contains(words), "{path}: {words} in\n{}", told.err);
        }
        assert_eq!(fs::read(desk.path("runs/changed/metrics.jsonl")).expect("metrics"), metrics, "nothing is touched");
        desk.write(path, &was);
    };
    let text = fs::read_to_string(desk.path(&file)).expect("a file");
    let other = text.replace("batch=4", "batch=3");
    refused(&file, &other, &["`changed.tp` has changed", "line 6: - train lora", "line 6: + train lora", "batch=3"]);
    refused("rows.jsonl", &super::rows(23), &["inputs have changed", "`rows.jsonl` has another content"]);
    refused(
        "team.tp",
        "tunepipe 1\nlet rate = 3e-4\n",
        &["`team.tp`, which the pipeline uses, has changed", "line 2: + let rate = 3e-4"],
    );
    let moved = desk.path("model/config.json");
    let away = desk.path("config.json");
    fs::rename(&moved, &away).expect("moved");
    let told = desk.tunepipe(&["resume", "runs/changed"]).ended(1);
    assert!(told.err.contains("config.json` is gone"), "{}", told.err);
    fs::rename(&away, &moved).expect("moved");

    // Params come from the manifest, and a text that is gone is there as well; the run's folder says all.
    fs::remove_file(desk.path(&file)).expect("removed");
    let told = desk.tunepipe(&["resume", "runs/changed"]).ended(0);
    assert!(told.err.contains("goes on with stage 3 of 4, `train lora` in line 6, after step "), "{}", told.err);
    let config = fs::read_to_string(desk.path("out/changed/adapter/adapter_config.json")).expect("a config");
    assert!(config.contains("\"r\": 3"), "{config}");

    let told = desk.tunepipe(&["resume", "runs/changed"]).ended(2);
    assert!(told.err.contains("is finished") && told.err.contains("load adapter"), "{}", told.err);
    let told = desk.tunepipe(&["resume", "model"]).ended(2);
    assert!(told.err.contains("holds no run"), "{}", told.err);
    let told = desk.tunepipe(&["resume", "--json", "changed.tp"]).ended(2).json();
    assert_eq!(told["diagnostics"][0]["code"], "usage");
}

/// A file of a checkpoint, and what becomes of its bytes.
type Damage<'a> = (&'a str, &'a dyn Fn(&mut Vec<u8>));

/// Of two checkpoints the newer one is damaged: in its tensors, in its note, or cut short.
#[test]
fn a_damaged_checkpoint_gives_way_to_the_one_before() {
    let damages: [Damage<'_>; 3] = [
        ("state.safetensors", &|bytes| {
            let at = bytes.len() - 9;
            bytes[at] ^= 4;
        }),
        ("cursor.json", &|bytes| bytes[20] ^= 1),
        ("state.safetensors", &|bytes| bytes.truncate(bytes.len() / 2)),
    ];
    let desk = Desk::new();
    let whole = format!(
        "load model \"model\"\n{DATA}\ntrain lora rank=3 epochs=60 batch=4 lr=2e-4 save_every=2steps\nsave adapter \"out/whole/adapter\""
    );
    desk.run_on(Some(2), "whole", &whole);
    for (at, (file, damage)) in damages.iter().enumerate() {
        let name = format!("damaged{at}");
        killed(&desk, &name, "");
        let folder = desk.path(&format!("runs/{name}/checkpoints"));
        let mut all: Vec<PathBuf> =
            fs::read_dir(&folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
        all.retain(|path| !path.file_name().expect("a name").to_string_lossy().starts_with('.'));
        all.sort();
        let newest = all.pop().expect("a checkpoint").join(file);
        let before: u64 = all
            .pop()
            .expect("another")
            .to_string_lossy()
            .rsplit('-')
            .next()
            .expect("a step")
            .parse()
            .expect("a number");
        let mut bytes = fs::read(&newest).expect("a file");
        damage(&mut bytes);
        fs::write(&newest, &bytes).expect("written");
        let told = desk.tunepipe(&["resume", &format!("runs/{name}")]).ended(0);
        assert!(told.err.contains("is damaged: ") && told.err.contains("the one before is taken"), "{}", told.err);
        assert!(told.err.contains(&format!("after step {before}\n")), "{}", told.err);
        same(&name, &desk.files("out/whole"), &desk.files(&format!("out/{name}")));
    }
}

/// What finished stages saved is held to its hashes, and not made again.
#[test]
fn finished_outputs_are_verified_and_stay() {
    let desk = Desk::new();
    let text = format!(
        "load model \"model\"\n{DATA}\ntrain lora rank=2 epochs=2 batch=4\nsave adapter \"OUT/adapter\"\n\
         train lora epochs=400 batch=4 save_every=3steps\nsave merged \"OUT/merged\""
    );
    let file = written(&desk, "outputs", &text);
    let mut child = begin(&desk, &["run", "-q", &file, "--run-dir", "runs/outputs"]);
    until_lines(&desk, "outputs", &mut child, 40);
    child.kill().expect("killed");
    child.wait().expect("an end");
    let weights = desk.path("out/outputs/adapter/adapter_model.safetensors");
    let bytes = fs::read(&weights).expect("saved");
    let made = fs::metadata(&weights).expect("saved").modified().expect("a time");
    for damage in ["changed", "gone", "new"] {
        match damage {
            "changed" => fs::write(&weights, b"other").expect("written"),
            "gone" => fs::remove_file(&weights).expect("removed"),
            _ => fs::write(desk.path("out/outputs/adapter/x"), b"").expect("written"),
        }
        let told = desk.tunepipe(&["resume", "runs/outputs"]).ended(3);
        assert!(told.err.contains("no longer what this run saved") && told.err.contains(damage), "{}", told.err);
        let _ = fs::remove_file(desk.path("out/outputs/adapter/x"));
        fs::write(&weights, &bytes).expect("written");
        fs::File::options().append(true).open(&weights).and_then(|file| file.set_modified(made)).expect("set");
    }
    let mut child = begin(&desk, &["resume", "-q", "runs/outputs"]);
    let lines = desk.metrics("runs/outputs").len();
    until_lines(&desk, "outputs", &mut child, lines + 4);
    send(&child, Signal::INT);
    assert_eq!(told_code(child), Some(130));
    assert_eq!(fs::metadata(&weights).expect("saved").modified().expect("a time"), made, "it is not made again");
}

#[test]
fn the_best_state_is_the_one_that_is_saved() {
    let desk = Desk::new();
    let text = format!(
        "load model \"model\"\n{DATA}\ntrain lora rank=8 epochs=40 batch=4 lr=3e-2 keep=best patience=4\neval batch=4\nsave adapter \"out/a\""
    );
    desk.run("best", &text);
    let events = desk.metrics("runs/best");
    let best = events.iter().find(|event| event["event"] == "best").expect("an event");
    let scores: Vec<f64> = events
        .iter()
        .filter(|event| event["event"] == "eval" && event["step"].as_u64().is_some_and(|step| step > 0))
        .map(|event| event["loss"].as_f64().expect("a loss"))
        .collect();
    let lowest = scores.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(best["loss"].as_f64(), Some(lowest));
    let after = events.iter().rfind(|event| event["event"] == "eval").expect("a score of its own");
    let same = (after["loss"].as_f64().expect("a loss") - lowest).abs() < 1e-6;
    assert!(after["step"].is_null() && same, "{after} after {lowest}");
    let steps = desk.losses("runs/best").len();
    assert!(steps < 200, "`patience` ended it: {steps} of 200");
    assert_eq!(scores.iter().rev().position(|loss| *loss == lowest), Some(4), "four scores were no better: {scores:?}");
}

/// A model in which the token of the byte `~` is no number where it is read: only windows with one are not finite.
fn with_a_bad_token(desk: &Desk) {
    let (narrow, wide) = (desk.path("narrow"), desk.path("wide"));
    super::bits::wide_model(&narrow, 384);
    let bytes = fs::read(narrow.join("model.safetensors")).expect("a model");
    let old = SafeTensors::deserialize(&bytes).expect("safetensors");
    let mut embedding = old.tensor("model.embed_tokens.weight").expect("a tensor").data().to_vec();
    for value in embedding.chunks_exact_mut(4).skip(usize::from(b'~') * 8).take(8) {
        value.copy_from_slice(&f32::NAN.to_le_bytes());
    }
    let view = |shape: &[usize], data| {
        safetensors::tensor::TensorView::new(Dtype::F32, shape.to_vec(), data).expect("a tensor")
    };
    let head = old.tensor("model.embed_tokens.weight").expect("a tensor");
    let mut all: Vec<(String, safetensors::tensor::TensorView<'_>)> = old.tensors();
    all.retain(|(name, _)| name != "model.embed_tokens.weight");
    all.push(("model.embed_tokens.weight".into(), view(&[384, 8], &embedding)));
    all.push(("lm_head.weight".into(), head));
    fs::create_dir_all(&wide).expect("a folder");
    safetensors::serialize_to_file(all, None, &wide.join("model.safetensors")).expect("written");
    let text = fs::read_to_string(narrow.join("config.json")).expect("a config");
    let untied = text.replace("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    fs::write(wide.join("config.json"), untied).expect("written");
    let row = |at: usize, end: &str| format!("{{\"text\": \"row {at} of several{end}\"}}\n");
    let rows = (0..9).map(|at| row(at, if at == 4 { " ~ " } else { "" }));
    desk.write("bad.jsonl", &rows.collect::<String>());
}

#[test]
fn a_window_that_is_not_finite_ends_training_or_is_passed_over() {
    let desk = Desk::empty();
    with_a_bad_token(&desk);
    let text = |more: &str| {
        format!(
            "tunepipe 1\nload model \"wide\" tokenizer=bytes dtype=f32\n\
             load data \"bad.jsonl\" format=text no_shuffle\n{more}\nsave adapter \"out/a\" overwrite\n"
        )
    };
    desk.write("stop.tp", &text("train lora rank=2 epochs=2 lr=1e-2 save_every=1steps"));
    let told = desk.tunepipe(&["run", "-q", "stop.tp", "--run-dir", "runs/stop"]).ended(3);
    for words in [
        "step 5 gives a loss of NaN",
        "bad.jsonl:5",
        "the state after step 4 is kept",
        "tunepipe resume runs/stop",
        "on_nan=skip",
    ] {
        assert!(told.err.contains(words), "{words} in\n{}", told.err);
    }
    assert!(!desk.path("out/a").exists());
    assert_eq!(desk.losses("runs/stop").len(), 4, "the step itself is not on record");
    assert_eq!(outcome(&desk, "stop"), "failed");
    let told = desk.tunepipe(&["resume", "-q", "runs/stop"]).ended(3);
    assert!(told.err.contains("step 5 gives a loss of NaN"), "{}", told.err);

    desk.write("skip.tp", &text("train lora rank=2 epochs=2 lr=1e-2 on_nan=skip"));
    let told = desk.tunepipe(&["run", "skip.tp", "--run-dir", "runs/skip"]).ended(0);
    assert!(
        told.err.contains("step 5 made no update: its loss or gradient is not finite (bad.jsonl:5)"),
        "{}",
        told.err
    );
    assert!(told.err.contains("2 of 18 steps made no update"), "{}", told.err);
    let steps: Vec<Value> = desk.metrics("runs/skip").into_iter().filter(|line| line["event"].is_null()).collect();
    assert_eq!(steps.len(), 18);
    for (at, step) in steps.iter().enumerate() {
        let bad = at % 9 == 4;
        assert_eq!(step["skipped"] == true, bad, "{step}");
        assert_eq!(step["loss"].is_null(), bad, "{step}");
    }
    let all = tensors(&desk.path("out/a")).into_values().flat_map(|tensor| tensor.values).collect::<Vec<f32>>();
    assert!(all.iter().all(|value| value.is_finite()) && all.iter().any(|value| *value != 0.0));

    // Windows that can be learnt from, and none else.
    desk.write("bad.jsonl", "{\"text\": \"all ~ bad\"}\n");
    let told = desk.tunepipe(&["run", "-q", "skip.tp", "--run-dir", "runs/none"]).ended(3);
    assert!(told.err.contains("no step could be made"), "{}", told.err);
    desk.write("fused.tp", &text("train full clip=none fused_step on_nan=skip").replace("save adapter", "save model"));
    let told = desk.tunepipe(&["check", "fused.tp"]).ended(1);
    assert!(told.err.contains("train.fused") && told.err.contains("cannot pass over a step"), "{}", told.err);
}

#[test]
fn what_is_asked_of_checkpoints_has_to_go_together() {
    let desk = Desk::new();
    let wrong = |data: &str, training: &str| {
        desk.write(
            "no.tp",
            &format!(
                "tunepipe 1\nload model \"model\"\nload data \"rows.jsonl\" format=completion {data}\n\
                      train lora steps=2 {training}\nsave adapter \"o\"\n"
            ),
        );
        let told = desk.tunepipe(&["check", "--json", "no.tp"]).ended(1).json();
        let first = told["diagnostics"]
            .as_array()
            .expect("a list")
            .iter()
            .find(|d| d["severity"] == "error")
            .expect("one")
            .clone();
        (first["code"].as_str().expect("a code").to_owned(), first["message"].as_str().expect("words").to_owned())
    };
    let held = "holdout=4rows";
    for (data, training, code, words) in [
        ("", "keep=best", "train.keep", "no row is held out"),
        (held, "keep=best save_every=none", "train.keep", "none is made"),
        (held, "patience=2", "train.keep", "patience"),
        (held, "save_every=none keep_last=3", "arg.idle", "keep_last"),
        (held, "save_every=0steps", "type.range", "save_every"),
        (held, "keep_last=0", "type.range", "keep_last"),
        (held, "on_nan=ignore", "name.unknown_symbol", "on_nan"),
    ] {
        let found = wrong(data, training);
        assert!(found.0 == code && found.1.contains(words), "{training}: {found:?}");
    }
    // Without checkpoints nothing is planned for them, and none is made; with them it is exact.
    let disk = |name: &str, training: &str| {
        desk.run(name, &format!("load model \"model\"\n{DATA}\ntrain lora epochs=3 batch=4 {training}\nsave adapter"));
        let rows: Vec<Value> =
            serde_json::from_slice(&fs::read(desk.path(&format!("runs/{name}/memory.json"))).expect("memory"))
                .expect("JSON");
        let of = rows.into_iter().filter(|row| row["stage"] == "train lora" && row["place"] == "disk");
        of.map(|row| {
            (row["phase"].as_str().expect("a name").to_owned(), row["planned"].as_u64(), row["measured"].as_u64())
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(disk("none", "save_every=none"), []);
    for (name, training) in [
        ("epochs", ""),
        ("steps", "save_every=2steps"),
        ("one", "keep_last=1"),
        ("many", "keep_last=9 save_every=1steps"),
    ] {
        let rows = disk(name, training);
        assert_eq!(rows.len(), 3, "{rows:?}");
        for (phase, planned, measured) in &rows {
            assert_eq!(planned, measured, "{name} · {phase}");
        }
    }
}
