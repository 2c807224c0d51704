//! The built program, run as a person runs it: in a folder of its own, on small pipelines.

mod asked;
mod bad_input;
mod bits;
mod codes;
mod contract;
mod damaged;
mod files;
mod fit;
mod kept;
mod ledger;
mod many;
mod mapped;
mod nothing_lost;
mod offload;
mod plans;
mod published;
mod quickstart;
mod real;
mod recipes;
mod resume;
mod saving;
mod terminal;
mod verbs;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use tempfile::TempDir;

/// The repository.
fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What the program said.
struct Told {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Told {
    /// Panics with all that was said when the program ended otherwise.
    #[track_caller]
    fn ended(self, code: i32) -> Self {
        assert!(!self.err.contains("panicked"), "{}", self.err);
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("no JSON ({e}):\n{}\n{}", self.out, self.err))
    }
}

/// A folder to run pipelines in.
struct Desk(TempDir);

impl Desk {
    fn empty() -> Self {
        Desk(tempfile::tempdir().expect("a folder"))
    }

    /// With the quickstart's `model` and short `rows.jsonl` about it.
    fn new() -> Self {
        let desk = Desk::empty();
        copy(&repository().join("pipelines/quickstart/model"), &desk.path("model"));
        desk.write("rows.jsonl", &rows(24));
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("written");
    }

    fn tunepipe(&self, arguments: &[&str]) -> Told {
        self.with_threads(None, arguments)
    }

    fn with_threads(&self, threads: Option<usize>, arguments: &[&str]) -> Told {
        self.told(arguments, |command| {
            if let Some(threads) = threads {
                command.env("RAYON_NUM_THREADS", threads.to_string());
            }
        })
    }

    /// Runs the program in an environment that `set` has a say in.
    fn told(&self, arguments: &[&str], set: impl FnOnce(&mut Command)) -> Told {
        let mut command = crate::program();
        command.args(arguments).current_dir(self.0.path()).env_remove("RAYON_NUM_THREADS");
        set(&mut command);
        let output = command.output().expect("the program starts");
        Told {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// Writes `NAME.tp` and runs it to its end; the run's folder is `runs/NAME`.
    #[track_caller]
    fn run(&self, name: &str, text: &str) -> Told {
        self.run_on(None, name, text)
    }

    #[track_caller]
    fn run_on(&self, threads: Option<usize>, name: &str, text: &str) -> Told {
        let (file, folder) = (format!("{name}.tp"), format!("runs/{name}"));
        self.write(&file, &format!("tunepipe 1\n{text}\n"));
        let told = self.with_threads(threads, &["run", "-q", &file, "--run-dir", &folder]).ended(0);
        assert!(!told.err.contains("over the plan"), "{name}: {}", told.err);
        told
    }

    /// What a run wrote down, an object a line.
    fn metrics(&self, run: &str) -> Vec<Value> {
        lines(&self.path(run).join("metrics.jsonl"))
    }

    /// Losses of a run's `eval` events, in order.
    fn evals(&self, run: &str) -> Vec<f64> {
        let evals = self.metrics(run).into_iter().filter(|m| m["event"] == "eval");
        evals.map(|m| m["loss"].as_f64().expect("a loss")).collect()
    }

    /// Losses of a run's steps, in order.
    fn losses(&self, run: &str) -> Vec<f64> {
        let steps = self.metrics(run).into_iter().filter(|m| m["event"].is_null());
        steps.map(|m| m["loss"].as_f64().expect("a loss")).collect()
    }

    /// Every file below `name`, by its path from there.
    fn files(&self, name: &str) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        gather(&self.path(name), "", &mut found);
        found
    }
}

/// Objects of a `.jsonl` file.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("a file");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn gather(folder: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            gather(&entry.path(), &format!("{name}/"), found);
        } else {
            found.insert(name, fs::read(entry.path()).expect("a file"));
        }
    }
}

fn copy(from: &Path, to: &Path) {
    let mut found = BTreeMap::new();
    gather(from, "", &mut found);
    for (name, bytes) in found {
        let path = to.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, bytes).expect("written");
    }
}

/// Questions with answers of unequal length.
fn rows(count: usize) -> String {
    let animals = ["seal", "mouse", "goat", "crow", "cow"];
    let row = |at: usize| {
        let (animal, more) = (animals[at % 5], " and swims far".repeat(at % 4));
        format!(
            "{{\"prompt\": \"Q: Where does the {animal} of house {at} live?\\nA:\", \"completion\": \" It lives in cave {at}{more}.\"}}\n"
        )
    };
    (0..count).map(row).collect()
}

/// A tensor as it lies in a file.
struct Saved {
    dtype: Dtype,
    values: Vec<f32>,
}

/// Every tensor of a folder's safetensors files.
fn tensors(folder: &Path) -> BTreeMap<String, Saved> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().extension().is_none_or(|e| e != "safetensors") {
            continue;
        }
        let bytes = fs::read(entry.path()).expect("a file");
        for (name, view) in SafeTensors::deserialize(&bytes).expect("safetensors").tensors() {
            let pair = |b: &[u8]| [b[0], b[1]];
            let values = match view.dtype() {
                Dtype::F32 => {
                    view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
                }
                Dtype::BF16 => {
                    view.data().chunks_exact(2).map(|b| half::bf16::from_le_bytes(pair(b)).to_f32()).collect()
                }
                Dtype::F16 => view.data().chunks_exact(2).map(|b| half::f16::from_le_bytes(pair(b)).to_f32()).collect(),
                other => panic!("{name} is {other:?}"),
            };
            found.insert(name, Saved { dtype: view.dtype(), values });
        }
    }
    found
}

/// Panics naming the first file that differs or is missing; an empty set proves nothing.
#[track_caller]
fn same(what: &str, one: &BTreeMap<String, Vec<u8>>, other: &BTreeMap<String, Vec<u8>>) {
    assert!(!one.is_empty(), "{what}: nothing to compare");
    assert!(one.keys().eq(other.keys()), "{what}: {:?} and {:?}", one.keys(), other.keys());
    for (name, bytes) in one {
        assert!(other[name] == *bytes, "{what}: {name} differs");
    }
}
