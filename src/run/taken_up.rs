//! Where a run is taken up that an earlier process began: the first stage that is not done, or what it learns.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::executor::wanted;
use super::journal::Journal;
use crate::plan::Plan;
use crate::stages::{self, Found, Marks};
use crate::text::{Fault, Result};

/// Where a run begins.
#[derive(Debug, Default)]
pub struct Start {
    /// The first stage that is not done.
    pub stage: usize,
    /// What trainings are taken up from, by stage.
    pub found: BTreeMap<usize, Found>,
    /// Bytes that each done stage left on disk.
    bytes: Vec<u64>,
    /// Where the run's records stood then.
    marks: Marks,
    /// Checkpoints that are damaged.
    pub damaged: Vec<Fault>,
}

impl Start {
    /// Bytes that a stage which is done left on disk.
    pub fn bytes(&self, stage: usize) -> u64 {
        self.bytes.get(stage).copied().unwrap_or(0)
    }

    /// Bytes that lie on disk already.
    pub fn on_disk(&self) -> u64 {
        self.bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Takes the records back to where they stood.
    pub fn take_back(&self, journal: &mut Journal) -> Result<()> {
        journal.take_back(self.marks, self.stage)
    }
}

/// Finds where the run of a journal is taken up.
///
/// Errors: `run.damaged` where the records lack what was written down; `file.*`.
pub fn start(journal: &Journal, plan: &Plan) -> Result<Start> {
    let learns = |index: usize| plan.steps.get(index).is_some_and(|step| stages::learns(&step.stage));
    let run = journal.folder();
    let (progress, written) = (journal.progress(), journal.marks()?);
    stages::clear(run);
    let mut start = Start { stage: progress.stages.len().min(plan.steps.len()), ..Start::default() };
    // What was learnt and is wanted has to be there; else it is learnt again, with all that follows.
    loop {
        let wanted = wanted(plan, start.stage);
        let missing = (0..start.stage).find(|index| {
            wanted[*index] && learns(*index) && !start.found.contains_key(index) && {
                let (found, damaged) = stages::newest(run, *index, written);
                start.damaged.extend(damaged);
                match found.filter(|found| found.done) {
                    Some(found) => start.found.insert(*index, found).is_some(),
                    None => true,
                }
            }
        });
        match missing {
            Some(index) => start.stage = index,
            None => break,
        }
    }
    start.found.retain(|index, _| *index < start.stage);
    start.marks = match start.stage.checked_sub(1).and_then(|last| progress.stages.get(last)) {
        Some(last) => last.marks,
        None => Marks::default(),
    };
    if start.stage < plan.steps.len() && learns(start.stage) {
        let (found, damaged) = stages::newest(run, start.stage, written);
        start.damaged.extend(damaged);
        if let Some(found) = found {
            start.marks = found.marks;
            start.found.insert(start.stage, found);
        }
    }
    if !start.marks.within(written) {
        let path = run.join("metrics.jsonl");
        return Err(Fault::new("run.damaged", format!("`{}` lacks lines that were written to it", path.display()))
            .at(&path)
            .help("put the file back as it was, or run the pipeline anew"));
    }
    start.bytes = progress.stages.iter().take(start.stage).map(|stage| stage.bytes).collect();
    Ok(start)
}

/// Folders that stages made which are not done again, held to their hashes; and those that were made since, and may be
/// replaced.
///
/// Errors: `run.output`, `file.*`.
pub fn outputs(journal: &Journal, stage: usize) -> Result<Vec<PathBuf>> {
    let progress = journal.progress();
    let mut ours = Vec::new();
    for (index, done) in progress.stages.iter().enumerate() {
        for output in &done.outputs {
            let verified = output.verify();
            if index < stage {
                verified?;
            } else if verified.is_err() {
                continue;
            }
            ours.push(output.path.clone());
        }
    }
    ours.extend(progress.made().map(Path::to_owned));
    Ok(ours)
}
