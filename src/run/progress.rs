//! How far a run is: which stages are done, what they left, and where its records stood then. `progress.json` in the
//! run's folder, replaced whole whenever a stage ends.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::hashes::folder_hashes;
use crate::stages::{Done, Marks};
use crate::store::{self, Identity};
use crate::text::{Fault, Result};

const FILE: &str = "progress.json";

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// At work, or ended by nobody's will.
    Running,
    Interrupted,
    Failed,
    Done,
}

impl Outcome {
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Running => "unfinished",
            Outcome::Interrupted => "interrupted",
            Outcome::Failed => "failed",
            Outcome::Done => "ended",
        }
    }
}

/// A stage that is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stage {
    pub stage: String,
    pub marks: Marks,
    /// Bytes that it leaves on disk.
    pub bytes: u64,
    pub outputs: Vec<Output>,
}

/// A folder that a stage made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Output {
    pub path: PathBuf,
    /// SHA-256 by file.
    pub files: BTreeMap<String, String>,
}

/// A folder that is being made: what lies there under `identity` came from this run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Making {
    pub path: PathBuf,
    identity: Identity,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Progress {
    version: u64,
    pub outcome: Outcome,
    /// Those that are done, from the first on.
    pub stages: Vec<Stage>,
    pub making: Option<Making>,
}

impl Progress {
    /// Of a run that begins.
    pub fn begun() -> Self {
        Progress { version: 1, outcome: Outcome::Running, stages: Vec::new(), making: None }
    }

    /// That of a run's folder; none where the run is older than its being kept, or did not come so far.
    ///
    /// Errors: `run.damaged`, `file.*`.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Fault::io("read", &path, &e)),
        };
        let damaged =
            |e: String| Fault::new("run.damaged", format!("`{}` cannot be read: {e}", path.display())).at(&path);
        let progress: Progress = serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
        match progress.version {
            1 => Ok(Some(progress)),
            other => Err(damaged(format!("it is of version {other}"))),
        }
    }

    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|e| Fault::new("json", format!("cannot write {FILE}: {e}")).at(&path))?;
        text.push(b'\n');
        store::write(&path, true, |file| file.put(&text))
    }

    /// Adds a stage; what it made is read and hashed.
    pub fn add(&mut self, done: &Done<'_>, marks: Marks) -> Result<()> {
        let outputs = done
            .outputs
            .iter()
            .map(|path| Ok(Output { path: path.clone(), files: folder_hashes(path, None)? }))
            .collect::<Result<Vec<Output>>>()?;
        self.stages.truncate(done.index);
        self.stages.push(Stage { stage: done.name.to_owned(), marks, bytes: done.bytes, outputs });
        self.making = None;
        Ok(())
    }

    pub fn make(&mut self, path: &Path, identity: Option<Identity>) {
        self.making = identity.map(|identity| Making { path: path.to_owned(), identity });
    }

    /// What an interrupted stage made before its end was noted.
    pub fn made(&self) -> Option<&Path> {
        let making = self.making.as_ref()?;
        (Identity::of(&making.path) == Some(making.identity)).then_some(making.path.as_path())
    }
}

impl Output {
    /// Holds the folder to what the stage left there.
    ///
    /// Errors: `run.output` naming a file that differs, is missing, or is new.
    pub fn verify(&self) -> Result<()> {
        let shown = self.path.display();
        let changed = |what: String| {
            Fault::new("run.output", format!("`{shown}` is no longer what this run saved there: {what}"))
                .at(&self.path)
                .help("put it back as it was; or move it away and run the pipeline anew")
        };
        let now = match folder_hashes(&self.path, None) {
            Ok(now) => now,
            Err(fault) if fault.code == "file.missing" => return Err(changed("it is gone".into())),
            Err(fault) => return Err(fault),
        };
        let differs = self.files.iter().find_map(|(name, sum)| match now.get(name) {
            None => Some(format!("`{name}` is gone")),
            Some(other) if other != sum => Some(format!("`{name}` has changed")),
            Some(_) => None,
        });
        let new = || now.keys().find(|name| !self.files.contains_key(*name)).map(|name| format!("`{name}` is new"));
        differs.or_else(new).map_or(Ok(()), |what| Err(changed(what)))
    }
}
