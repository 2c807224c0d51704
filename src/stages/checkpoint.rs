//! Checkpoints of a training: what the stage's arguments ask for, what they take, and how one is written, found again,
//! and let go.
//!
//! They lie in the run's folder, `checkpoints/<stage>-<step>/`, for as long as the run can be taken up: when a training
//! is over, what it has learnt is kept as `checkpoints/<stage>-done/`, and when the run is, nothing.

use std::fs;
use std::path::{Path, PathBuf};

use candle_core::DType;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::watch::Marks;
use super::{Refusal, World};
use crate::data;
use crate::kernels::{Spec, ViewMut};
use crate::memory::{Holding, Phase, Place};
use crate::plan::{Step, Unit, Val};
use crate::store::{self, Bits, BitsMut, State, StateWriter, StoredType, TensorInfo, WRITE_BUFFER, state_bytes};
use crate::text::{Diagnostic, Fault, Result};
use crate::train::{self, PARAMETER, Trainer};

/// The folder in the run's own.
pub const CHECKPOINTS: &str = "checkpoints";

/// Heap bytes that names and header take for each tensor of a state while it is written. Measured at 600.
const TENSOR: u64 = 1 << 10;

/// When something is done in the course of a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Every {
    Steps(u64),
    Epochs(f64),
}

impl Every {
    /// What an argument of steps or epochs says.
    pub fn of(val: &Val) -> Option<Every> {
        match val {
            Val::Quantity(steps, Unit::Steps) => Some(Every::Steps((*steps as u64).max(1))),
            Val::Quantity(epochs, _) if *epochs > 0.0 => Some(Every::Epochs(*epochs)),
            _ => None,
        }
    }

    /// Whether it is done after this step, which took the training from `before` to `after` passes over the data.
    pub fn due(self, step: u64, before: f64, after: f64) -> bool {
        match self {
            Every::Steps(n) => step.is_multiple_of(n),
            // A quarter epoch is never exactly a quarter in floating point.
            Every::Epochs(epochs) => ((after + 1e-9) / epochs).floor() > ((before + 1e-9) / epochs).floor(),
        }
    }
}

/// What `save_every`, `keep_last`, `keep` and `patience` ask for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Keeping {
    /// None: no checkpoint at all.
    pub every: Option<Every>,
    /// Checkpoints that are kept of those made.
    pub last: usize,
    /// End with the state of the lowest held-out loss.
    pub best: bool,
    /// Scores in a row that are no better, after which training ends.
    pub patience: Option<u64>,
}

impl Keeping {
    /// What a step asks for; refused where one argument makes another idle.
    pub fn of(step: &Step, held_out: bool) -> Result<Self, Refusal> {
        let args = &step.args;
        let best = args.text("keep") == Some("best");
        let keeping = Keeping {
            every: Every::of(args.val("save_every")),
            last: args.count("keep_last").max(1),
            best,
            patience: args.int("patience").and_then(|n| u64::try_from(n).ok()),
        };
        let at = |argument: &str| args.span(argument).unwrap_or(step.name_span);
        let mut wrong = Vec::new();
        if best && !held_out {
            wrong.push(
                Diagnostic::error("train.keep", "no row is held out, so no state is known to be the best")
                    .label(at("keep"), "the best of what?")
                    .help("`holdout=5%` on `load data`, or `valid=`"),
            );
        }
        if best && keeping.every.is_none() {
            wrong.push(
                Diagnostic::error("train.keep", "the best state is kept as a checkpoint, and none is made")
                    .label(at("keep"), "keeps one")
                    .label(at("save_every"), "makes none")
                    .help("leave `save_every=none` out"),
            );
        }
        if keeping.patience.is_some() && !best {
            wrong.push(
                Diagnostic::error(
                    "train.keep",
                    "`patience` ends a training that no longer gets better, and would keep its worse end",
                )
                .label(at("patience"), "scores without a better one")
                .help("add `keep=best`, or leave `patience` out"),
            );
        }
        if keeping.every.is_none() {
            wrong.extend(super::world::idle(step, "keep_last", "`save_every=none` makes no checkpoint"));
        }
        if wrong.is_empty() { Ok(keeping) } else { Err(wrong) }
    }

    /// Whether a checkpoint is made after a step: as asked, and at the end of each epoch where steps are counted.
    pub fn due(&self, step: u64, before: f64, after: f64) -> bool {
        let ends_epoch = || Every::Epochs(1.0).due(step, before, after);
        match self.every {
            None => false,
            Some(Every::Steps(n)) => step.is_multiple_of(n) || ends_epoch(),
            Some(every) => every.due(step, before, after),
        }
    }

    /// Checkpoints before the last step of a training of so many steps in so many epochs: never fewer than are made.
    fn made(&self, total: u64, epochs: f64) -> u64 {
        let before_end = |every: f64| ((epochs / every).ceil() as u64).saturating_sub(1);
        let made = match self.every {
            None => 0,
            Some(Every::Epochs(every)) => before_end(every),
            Some(Every::Steps(n)) => (total.saturating_sub(1) / n).saturating_add(before_end(1.0)),
        };
        made.min(total.saturating_sub(1))
    }
}

/// What a training's checkpoints take, and what is in each.
#[derive(Debug, Clone)]
pub struct Sizes {
    tensors: Vec<TensorInfo>,
    /// Of a checkpoint's folder.
    whole: u64,
    /// Of what is kept once the training is over: parameters alone.
    done: u64,
    /// Checkpoints that lie there while steps are made, at most.
    kept: u64,
    /// The most that lie there at once, one that is being written among them.
    most: u64,
}

impl Sizes {
    /// Of a training with this state. `stopped`: the run was asked to stop before, and a checkpoint was made for that.
    ///
    /// Errors: `size.overflow`.
    pub fn of(state: Vec<(String, Spec)>, keeping: &Keeping, total: u64, epochs: f64, stopped: bool) -> Result<Self> {
        let tensors: Vec<TensorInfo> = state
            .iter()
            .map(|(name, spec)| {
                let dtype = if spec.dtype == DType::U8 { StoredType::U8 } else { StoredType::F32 };
                TensorInfo::new(name, &spec.shape, dtype)
            })
            .collect();
        let (whole, done) = (state_bytes(&tensors)?, state_bytes(&parameters(&tensors))?);
        let made = keeping.made(total, epochs).saturating_add(u64::from(stopped));
        let last = keeping.last as u64;
        let (kept, most) = match keeping.best {
            // The best one may be none of the last, and one may be made for its sake after any score.
            true => (last.saturating_add(1), last.saturating_add(2)),
            false => (made.min(last), made.min(last.saturating_add(1))),
        };
        Ok(Sizes { tensors, whole, done, kept, most })
    }

    /// The most bytes on disk at once.
    pub fn peak(&self) -> u64 {
        self.suspended().max(self.written())
    }

    fn written(&self) -> u64 {
        self.whole.saturating_mul(self.most).max(self.whole.saturating_mul(self.kept).saturating_add(self.done))
    }

    /// With one more, that is made when the run is asked to stop.
    fn suspended(&self) -> u64 {
        self.whole.saturating_mul(self.kept.saturating_add(1))
    }

    fn disk(bytes: u64) -> Option<Holding> {
        (bytes > 0).then(|| Holding::new("checkpoints", Place::Disk, bytes, "keep_last, what is trained"))
    }

    /// What lies on disk while steps are made.
    pub fn beside_steps(&self) -> Option<Holding> {
        Self::disk(self.whole.saturating_mul(self.kept))
    }

    /// What stays of them when the training is over.
    pub fn after(&self) -> Option<Holding> {
        Self::disk(self.done)
    }

    /// The phases in which one is written, beside what else the training holds: `suspend` where a checkpoint that is made
    /// when the run is asked to stop would be one more than `checkpoint` has.
    pub fn phases(&self, holdings: &[Holding]) -> Vec<Phase> {
        let buffer = WRITE_BUFFER as u64 + (256 << 10) + (self.tensors.len() as u64).saturating_mul(TENSOR);
        let phase = |name: &'static str, bytes: u64| {
            let buffer = Holding::new("write buffer", Place::Ram, buffer, "");
            let more = std::iter::once(buffer).chain(Self::disk(bytes));
            Phase::new(name, holdings.iter().cloned().chain(more).collect())
        };
        let mut phases = vec![phase("checkpoint", self.written())];
        if self.suspended() > self.written() {
            phases.push(phase(SUSPEND, self.suspended()));
        }
        phases
    }
}

/// The phase of a checkpoint that is made because the run is asked to stop.
const SUSPEND: &str = "suspend";

fn parameters(tensors: &[TensorInfo]) -> Vec<TensorInfo> {
    tensors.iter().filter(|tensor| tensor.name.starts_with(PARAMETER)).cloned().collect()
}

/// Where a training stands, beside its tensors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stand {
    pub trainer: train::Cursor,
    /// The window that comes next.
    pub data: data::Cursor,
    /// Windows without a token that counts.
    pub passed_over: u64,
    /// Steps that were not made for a loss or gradient that is not finite.
    pub skipped: u64,
    /// The step after which rows were last scored.
    pub scored_at: u64,
    /// A score after this step was due and is not taken yet.
    pub owes_score: bool,
    pub best: Option<Best>,
    /// Scores since the best one.
    pub worse: u64,
}

/// The state of the lowest held-out loss so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Best {
    pub step: u64,
    /// The loss, as the bits of an f64: a text might round it.
    bits: u64,
}

impl Stand {
    /// Of a training that begins.
    pub fn start(trainer: train::Cursor) -> Self {
        Stand {
            trainer,
            data: data::Cursor::default(),
            passed_over: 0,
            skipped: 0,
            scored_at: 0,
            owes_score: false,
            best: None,
            worse: 0,
        }
    }
}

impl Best {
    pub fn new(step: u64, loss: f64) -> Self {
        Best { step, bits: loss.to_bits() }
    }

    pub fn loss(&self) -> f64 {
        f64::from_bits(self.bits)
    }
}

/// What is noted with a checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note {
    version: u64,
    stand: Stand,
    marks: Marks,
    /// The training is over: parameters alone are here.
    done: bool,
}

/// A checkpoint that was found intact.
#[derive(Debug)]
pub struct Found {
    pub path: PathBuf,
    pub stand: Stand,
    /// What the run had written down when it was made.
    pub marks: Marks,
    pub done: bool,
    state: State,
}

impl Found {
    /// Opens one and holds it to what was written; `verify`: all of its tensors too.
    fn open(path: &Path, verify: bool) -> Result<Self> {
        let state = State::open(path)?;
        if verify {
            state.verify()?;
        }
        let foreign = || {
            Fault::new(
                "state.damaged",
                format!("the checkpoint `{}` is of another version of tunepipe", path.display()),
            )
        };
        let note: Note = serde_json::from_value(state.note.clone()).map_err(|_| foreign())?;
        if note.version != VERSION {
            return Err(foreign());
        }
        Ok(Found { path: path.to_owned(), stand: note.stand, marks: note.marks, done: note.done, state })
    }

    /// Puts a trainer where it stood when this was made.
    pub fn restore(&self, trainer: &mut Trainer) -> Result<()> {
        let read = &mut |name: &str, out: ViewMut<'_>| self.read(name, out);
        if self.done { trainer.replace_parameters(read) } else { trainer.restore(self.stand.trainer, read) }
    }

    /// Puts its parameters in the place of a trainer's own.
    pub fn replace_parameters(&self, trainer: &mut Trainer) -> Result<()> {
        trainer.replace_parameters(&mut |name, out| self.read(name, out))
    }

    fn read(&self, name: &str, out: ViewMut<'_>) -> Result<()> {
        match out.dtype() {
            DType::U8 => self.state.read(name, BitsMut::U8(out.cpu()?)),
            _ => self.state.read(name, BitsMut::F32(out.cpu()?)),
        }
    }
}

/// Of what is written here.
const VERSION: u64 = 1;

/// One stage's checkpoints in a run's folder.
pub struct Checkpoints {
    folder: PathBuf,
    stage: usize,
    sizes: Sizes,
    keeping: Keeping,
    /// Steps of those that are there, ascending.
    there: Vec<u64>,
}

impl Checkpoints {
    /// Of the stage with this index; those of an earlier process may be there.
    pub fn new(run: &Path, stage: usize, sizes: Sizes, keeping: Keeping) -> Self {
        let folder = run.join(CHECKPOINTS);
        let there = steps(&folder, stage);
        Checkpoints { folder, stage, sizes, keeping, there }
    }

    /// Bytes that lie there now; `done`: with what is kept once the training is over.
    pub fn bytes(&self, done: bool) -> u64 {
        let kept = if done { self.sizes.done } else { 0 };
        self.sizes.whole.saturating_mul(self.there.len() as u64).saturating_add(kept)
    }

    pub fn last_step(&self) -> Option<u64> {
        self.there.last().copied()
    }

    /// Of a step, whether it is there or not.
    pub fn path(&self, step: u64) -> PathBuf {
        self.folder.join(format!("{:02}-{step:08}", self.stage))
    }

    /// The phase in which the next one is written.
    pub fn phase(&self) -> &'static str {
        let one_more = self.there.len() as u64 >= self.sizes.most;
        if one_more && self.sizes.suspended() > self.sizes.written() { SUSPEND } else { "checkpoint" }
    }

    /// Lets go of what a process that was killed left beside the checkpoint that is taken up: newer ones, which are
    /// damaged, and older ones beyond those that are kept.
    pub fn settle(&mut self, taken_up: &Found) -> Result<()> {
        let step = taken_up.stand.trainer.step;
        let best = taken_up.stand.best;
        for newer in self.there.clone().into_iter().filter(|known| *known > step || taken_up.done) {
            self.let_go(newer, &mut |_, _| {})?;
        }
        self.prune(best, &mut |_, _| {})
    }

    fn prune(&mut self, best: Option<Best>, wrote: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let best = best.filter(|_| self.keeping.best).map(|best| best.step);
        let over = self.there.len().saturating_sub(self.keeping.last.min(self.sizes.kept.max(1) as usize));
        let gone: Vec<u64> = self.there.iter().take(over).copied().filter(|step| Some(*step) != best).collect();
        gone.into_iter().try_for_each(|step| self.let_go(step, wrote))
    }

    /// Writes one. `wrote` hears of its bytes before older ones go, and of those that went.
    pub fn write(
        &mut self,
        trainer: &Trainer,
        stand: &Stand,
        marks: Marks,
        wrote: &mut dyn FnMut(u64, u64),
    ) -> Result<PathBuf> {
        let step = stand.trainer.step;
        let path = self.path(step);
        remove(&path)?;
        self.put(&path, &self.sizes.tensors, trainer, stand, marks, false)?;
        wrote(self.sizes.whole, 0);
        self.there.retain(|known| *known != step);
        self.there.push(step);
        self.there.sort_unstable();
        self.prune(stand.best, wrote)?;
        Ok(path)
    }

    /// Keeps what was learnt, and lets go of what only a training needs.
    pub fn finish(
        &mut self,
        trainer: &Trainer,
        stand: &Stand,
        marks: Marks,
        wrote: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let path = done_path(&self.folder, self.stage);
        remove(&path)?;
        self.put(&path, &parameters(&self.sizes.tensors), trainer, stand, marks, true)?;
        wrote(self.sizes.done, 0);
        for step in self.there.clone() {
            self.let_go(step, wrote)?;
        }
        Ok(())
    }

    fn let_go(&mut self, step: u64, wrote: &mut dyn FnMut(u64, u64)) -> Result<()> {
        remove(&self.path(step))?;
        self.there.retain(|known| *known != step);
        wrote(0, self.sizes.whole);
        Ok(())
    }

    fn put(
        &self,
        path: &Path,
        tensors: &[TensorInfo],
        trainer: &Trainer,
        stand: &Stand,
        marks: Marks,
        done: bool,
    ) -> Result<()> {
        let mut writer = StateWriter::create(path, tensors)?;
        for (name, buf) in trainer.state() {
            if done && !name.starts_with(PARAMETER) {
                continue;
            }
            match buf.dtype() {
                DType::U8 => writer.tensor(&name, Bits::U8(buf.view().cpu()?))?,
                _ => writer.tensor(&name, Bits::F32(buf.view().cpu()?))?,
            }
        }
        let note = Note { version: VERSION, stand: stand.clone(), marks, done };
        match serde_json::to_value(&note) {
            Ok(Value::Object(note)) => writer.commit(note),
            _ => Err(Fault::new("json", "a checkpoint's note cannot be written")),
        }
    }

    /// The checkpoint of the best state.
    pub fn best(&self, best: Best) -> Result<Found> {
        let path = self.path(best.step);
        let damaged = |fault: Fault| {
            let words = format!("the checkpoint of the best state, `{}`, is damaged: {fault}", path.display());
            Fault::new("state.damaged", words).at(&path)
        };
        Found::open(&path, true).map_err(damaged)
    }
}

fn done_path(folder: &Path, stage: usize) -> PathBuf {
    folder.join(format!("{stage:02}-done"))
}

/// Removes a checkpoint: first from its name, so that one that is half gone is not taken for one.
fn remove(path: &Path) -> Result<()> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    let fault = |e: &std::io::Error| Fault::io("remove", path, e);
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".gone");
    let aside = path.with_file_name(name);
    let _ = fs::remove_dir_all(&aside);
    fs::rename(path, &aside).map_err(|e| fault(&e))?;
    fs::remove_dir_all(&aside).map_err(|e| fault(&e))
}

/// Steps of a stage's checkpoints, ascending.
fn steps(folder: &Path, stage: usize) -> Vec<u64> {
    let prefix = format!("{stage:02}-");
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut steps: Vec<u64> =
        names.filter_map(|name| name.to_str()?.strip_prefix(&prefix)?.parse::<u64>().ok()).collect();
    steps.sort_unstable();
    steps
}

/// The newest intact checkpoint of a stage, with what was wrong with newer ones. `written`: what the run's records hold
/// now; a checkpoint that counts on more is none.
pub fn newest(run: &Path, stage: usize, written: Marks) -> (Option<Found>, Vec<Fault>) {
    let folder = run.join(CHECKPOINTS);
    let done = Some(done_path(&folder, stage)).filter(|path| path.is_dir());
    let steps = steps(&folder, stage).into_iter().rev().map(|step| folder.join(format!("{stage:02}-{step:08}")));
    let mut damaged = Vec::new();
    for path in done.into_iter().chain(steps) {
        let found = Found::open(&path, true).map_err(|fault| fault.message).and_then(|found| {
            match found.marks.within(written) {
                true => Ok(found),
                false => Err("it counts on lines of the run's records that are gone".to_owned()),
            }
        });
        match found {
            Ok(found) => return (Some(found), damaged),
            Err(why) => damaged.push(
                Fault::new("state.damaged", format!("the checkpoint `{}` is damaged: {why}", path.display())).at(&path),
            ),
        }
    }
    (None, damaged)
}

/// Clears away what processes that were killed left of checkpoints.
pub fn clear(run: &Path) {
    let folder = run.join(CHECKPOINTS);
    store::clear_all_leftovers(&folder);
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') && name.ends_with(".gone") {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes all checkpoints of a run that is over.
pub fn remove_all(run: &Path) -> Result<()> {
    let folder = run.join(CHECKPOINTS);
    match fs::remove_dir_all(&folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Fault::io("remove", &folder, &e)),
        _ => Ok(()),
    }
}

/// Notes what will lie in the run's folder.
pub fn writes(world: &mut World<'_>, sizes: &Sizes) {
    world.writes(None, sizes.peak());
}
