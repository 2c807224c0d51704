//! The run's folder: what was asked for, what happened, what it took.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::progress::{Outcome, Progress};
use crate::stages::{Done, EvalSeen, Marks, StepSeen};
use crate::store::Identity;
use crate::text::{Fault, Result};
use crate::tools::Measured;

/// Open files of one run, which is this process's alone for as long as they are open. `metrics.jsonl` holds only what the pipeline and its inputs decide, so two runs of one
/// pipeline can be compared byte for byte; what the clock decides stands in `timing.jsonl`.
pub struct Journal {
    folder: PathBuf,
    metrics: File,
    timing: File,
    progress: Progress,
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
        let (metrics, timing) = open(&folder)?;
        Ok(Journal { metrics, timing, folder, progress: Progress::begun() })
    }

    /// Opens the records of an earlier process of the same run. Nothing is changed yet.
    ///
    /// Errors: `run.busy` while another process has them; `file.*`.
    pub fn reopen(folder: &Path) -> Result<Self> {
        let (metrics, timing) = open(folder)?;
        let progress = Progress::read(folder)?.unwrap_or_else(Progress::begun);
        Ok(Journal { metrics, timing, folder: folder.to_owned(), progress })
    }

    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Where the records end; what stands before that is safe on the disk.
    pub fn marks(&self) -> Result<Marks> {
        let end = |file: &File, name: &str| {
            let synced = file.sync_data().and_then(|()| file.metadata());
            synced.map(|meta| meta.len()).map_err(|e| Fault::io("write", &self.folder.join(name), &e))
        };
        Ok(Marks { metrics: end(&self.metrics, "metrics.jsonl")?, timing: end(&self.timing, "timing.jsonl")? })
    }

    /// Goes back to where the records stood once, with so many stages done.
    pub fn take_back(&mut self, marks: Marks, stages: usize) -> Result<()> {
        for (file, name, bytes) in
            [(&self.metrics, "metrics.jsonl", marks.metrics), (&self.timing, "timing.jsonl", marks.timing)]
        {
            let cut = file.set_len(bytes).and_then(|()| file.sync_all());
            cut.map_err(|e| Fault::io("write", &self.folder.join(name), &e))?;
        }
        self.progress.stages.truncate(stages);
        self.outcome(Outcome::Running)
    }

    pub fn outcome(&mut self, outcome: Outcome) -> Result<()> {
        self.progress.outcome = outcome;
        self.progress.write(&self.folder)
    }

    pub fn making(&mut self, path: &Path, identity: Option<Identity>) -> Result<()> {
        self.progress.make(path, identity);
        self.progress.write(&self.folder)
    }

    pub fn done(&mut self, done: &Done<'_>) -> Result<()> {
        let marks = self.marks()?;
        self.progress.add(done, marks)?;
        self.progress.write(&self.folder)
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
        let mut metrics = json!({"step": seen.step, "epoch": seen.epoch, "loss": seen.loss, "lr": seen.lr,
                                 "grad_norm": seen.grad_norm, "tokens": seen.tokens, "counted": seen.counted});
        if seen.skipped {
            metrics["skipped"] = true.into();
        }
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

/// The growing records of a run, locked: the system lets go of them with the process, however that ends.
fn open(folder: &Path) -> Result<(File, File)> {
    let open = |name: &str| {
        let path = folder.join(name);
        OpenOptions::new().create(true).append(true).open(&path).map_err(|e| Fault::io("write", &path, &e))
    };
    let metrics = open("metrics.jsonl")?;
    // A file system without locks only means that nobody is kept out.
    if let Err(std::fs::TryLockError::WouldBlock) = metrics.try_lock() {
        return Err(Fault::new("run.busy", format!("another process is at work on the run in `{}`", folder.display()))
            .at(folder)
            .help("wait until it has ended, or stop it: it makes a checkpoint before it goes"));
    }
    Ok((metrics, open("timing.jsonl")?))
}

/// Whether a folder is a run's. Metrics alone tell too: another run's would go on behind them.
pub fn holds_run(folder: &Path) -> bool {
    ["manifest.json", "metrics.jsonl", "timing.jsonl"].iter().any(|name| folder.join(name).exists())
}

/// What is said of a folder that is to hold a run and has one.
pub fn already(folder: &Path) -> Fault {
    Fault::new("run.exists", format!("`{}` already holds a run", folder.display())).at(folder).help(format!(
        "name another folder with `--run-dir`, or leave it out for a new one; `tunepipe resume {}` goes on with it",
        folder.display()
    ))
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
