//! The run's folder: what was asked for, what happened, what it took.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::stages::{EvalSeen, StepSeen};
use crate::text::{Fault, Result};
use crate::tools::Measured;

/// Open files of one run. `metrics.jsonl` holds only what the pipeline and its inputs decide, so two runs of one
/// pipeline can be compared byte for byte; what the clock decides stands in `timing.jsonl`.
pub struct Journal {
    folder: PathBuf,
    metrics: File,
    timing: File,
}

impl Journal {
    /// Makes `runs/<stem>/<UTC time>/` under `root` (or exactly `folder`) and points `latest` at it.
    pub fn create(root: &Path, stem: &str, folder: Option<&Path>) -> Result<Self> {
        let folder = match folder {
            Some(folder) => folder.to_owned(),
            None => fresh_folder(&root.join(stem))?,
        };
        fs::create_dir_all(&folder).map_err(|e| Fault::io("make", &folder, &e))?;
        if holds_run(&folder) {
            return Err(already(&folder));
        }
        let open = |name: &str| {
            let path = folder.join(name);
            OpenOptions::new().create(true).append(true).open(&path).map_err(|e| Fault::io("write", &path, &e))
        };
        let journal = Journal { metrics: open("metrics.jsonl")?, timing: open("timing.jsonl")?, folder };
        Ok(journal)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn manifest(&self, manifest: &Value) -> Result<()> {
        self.whole("manifest.json", manifest)
    }

    pub fn memory(&self, rows: &[Measured]) -> Result<()> {
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| {
                json!({"stage": row.stage, "phase": row.phase, "place": row.place.key(),
                       "planned": row.planned, "measured": row.measured})
            })
            .collect();
        self.whole("memory.json", &Value::Array(rows))
    }

    /// The process as a whole: the plan's peak in RAM, and the most that was resident, where the system tells.
    pub fn process(&self, planned_ram: u64, peak_resident: Option<u64>) -> Result<()> {
        self.whole("process.json", &json!({"planned_ram": planned_ram, "peak_resident": peak_resident}))
    }

    pub fn step(&mut self, seen: &StepSeen) -> Result<()> {
        let metrics = json!({"step": seen.step, "epoch": seen.epoch, "loss": seen.loss, "lr": seen.lr,
                             "grad_norm": seen.grad_norm, "tokens": seen.tokens, "counted": seen.counted});
        let rate = if seen.seconds > 0.0 { seen.tokens as f64 / seen.seconds } else { 0.0 };
        let timing = json!({"step": seen.step, "seconds": seen.seconds, "tokens_per_s": rate});
        line(&mut self.metrics, &self.folder.join("metrics.jsonl"), &metrics)?;
        line(&mut self.timing, &self.folder.join("timing.jsonl"), &timing)
    }

    pub fn event(&mut self, event: &Value) -> Result<()> {
        line(&mut self.metrics, &self.folder.join("metrics.jsonl"), event)
    }

    pub fn eval(&mut self, stage: &str, at: usize, seen: &EvalSeen) -> Result<()> {
        self.event(&json!({"event": "eval", "stage": stage, "line": at, "step": seen.step, "loss": seen.loss,
                           "perplexity": seen.perplexity, "counted": seen.counted}))
    }

    fn whole(&self, name: &str, value: &Value) -> Result<()> {
        let path = self.folder.join(name);
        let mut text = serde_json::to_string_pretty(value)
            .map_err(|e| Fault::new("json", format!("cannot write {name}: {e}")).at(&path))?;
        text.push('\n');
        crate::store::write(&path, true, |file| file.put(text.as_bytes()))
    }
}

/// Whether a folder is a run's. Metrics alone tell too: another run's would go on behind them.
pub fn holds_run(folder: &Path) -> bool {
    ["manifest.json", "metrics.jsonl", "timing.jsonl"].iter().any(|name| folder.join(name).exists())
}

/// What is said of a folder that is to hold a run and has one.
pub fn already(folder: &Path) -> Fault {
    Fault::new("run.exists", format!("`{}` already holds a run", folder.display()))
        .at(folder)
        .help("name another folder with `--run-dir`, or leave it out for a new one")
}

fn line(file: &mut File, path: &Path, value: &Value) -> Result<()> {
    let mut text = value.to_string();
    text.push('\n');
    file.write_all(text.as_bytes()).map_err(|e| Fault::io("write", path, &e))
}

/// `runs/<stem>/2026-01-31T12-00-00Z`, with a number after it when two runs start in one second.
pub fn fresh_folder(parent: &Path) -> Result<PathBuf> {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H-%M-%SZ").to_string();
    fs::create_dir_all(parent).map_err(|e| Fault::io("make", parent, &e))?;
    for attempt in 0..1000 {
        let name = if attempt == 0 { now.clone() } else { format!("{now}-{attempt}") };
        let folder = parent.join(&name);
        match fs::create_dir(&folder) {
            Ok(()) => {
                point_latest(parent, &name);
                return Ok(folder);
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(Fault::io("make", &folder, &e)),
        }
    }
    Err(Fault::new("run.exists", format!("too many runs in one second under `{}`", parent.display())))
}

/// A convenience only: a file system without links goes without.
fn point_latest(parent: &Path, name: &str) {
    #[cfg(unix)]
    {
        let link = parent.join("latest");
        let fresh = parent.join(format!(".latest-{name}"));
        if std::os::unix::fs::symlink(name, &fresh).is_ok() && fs::rename(&fresh, &link).is_err() {
            let _ = fs::remove_file(&fresh);
        }
    }
    #[cfg(not(unix))]
    let _ = (parent, name);
}
