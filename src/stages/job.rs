//! What a body is given to work with: the ledger, the values alive, and someone who listens.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::Device;

use super::Watch;
use super::checkpoint::Found;
use super::watch::Stop;
use crate::kernels::{Buf, Lent, Pool, Spec};
use crate::memory::{Ledger, PerPlace, Phase, Place, meter};
use crate::model::Model;
use crate::plan::{Step, ValueId};
use crate::text::{Fault, Result};

/// Buffers drawn on the run's ledger, holding by holding.
#[derive(Clone)]
pub struct LedgerPool {
    ledger: Ledger,
    device: Device,
}

impl Pool for LedgerPool {
    fn take(&self, holding: &str, spec: Spec) -> Result<Buf> {
        let lease = self.ledger.lease(holding, spec.bytes()?)?;
        Buf::zeros(spec, &self.device, Some(Box::new(lease)))
    }

    fn count(&self, holding: &str, lent: Lent) -> Result<Lent> {
        let lease = self.ledger.lease(holding, lent.spec().bytes()?)?;
        Ok(lent.with_lease(Box::new(lease)))
    }
}

/// The work of one stage.
pub trait Body {
    fn run(self: Box<Self>, job: &mut Job<'_>) -> Result<()>;
}

/// The most that was in use in one phase, by place, as the machine counts it.
pub type Seen = BTreeMap<&'static str, PerPlace>;

/// One stage's turn.
pub struct Job<'a> {
    pub step: &'a Step,
    pub watch: &'a mut dyn Watch,
    pub models: &'a mut BTreeMap<ValueId, Model>,
    /// Folder of this run, for outputs that name no place of their own.
    pub run_dir: &'a Path,
    index: usize,
    phases: &'a [Phase],
    ledger: &'a Ledger,
    phase: Option<&'static str>,
    seen: Seen,
    /// Bytes of this stage that lie on disk, and the most in this phase.
    written: u64,
    most_written: u64,
    /// Folders that it made.
    outputs: Vec<PathBuf>,
    /// Where an earlier process left off in this stage.
    found: Option<Found>,
}

impl<'a> Job<'a> {
    pub fn new(
        step: &'a Step,
        index: usize,
        phases: &'a [Phase],
        ledger: &'a Ledger,
        models: &'a mut BTreeMap<ValueId, Model>,
        watch: &'a mut dyn Watch,
        run_dir: &'a Path,
    ) -> Self {
        let (seen, outputs) = (Seen::new(), Vec::new());
        let (written, most_written) = (0, 0);
        Job {
            step,
            watch,
            models,
            run_dir,
            index,
            phases,
            ledger,
            phase: None,
            seen,
            written,
            most_written,
            outputs,
            found: None,
        }
    }

    /// The same job, to be taken up where an earlier process left off.
    pub fn taken_up(self, found: Option<Found>) -> Self {
        Job { found, ..self }
    }

    /// Where to take it up, asked once.
    pub fn found(&mut self) -> Option<Found> {
        self.found.take()
    }

    /// Index of the stage.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Whether the run is asked to stop.
    pub fn stop(&self) -> Stop {
        self.watch.stop()
    }

    /// Turns to a declared phase: what was declared for it can be drawn, and its own peak is measured.
    pub fn enter(&mut self, phase: &'static str) -> Result<()> {
        self.leave();
        let Some(found) = self.phases.iter().find(|p| p.name == phase) else {
            return Err(Fault::new("plan.undeclared", format!("phase `{phase}` was not planned"))
                .help("this is a defect of tunepipe, not of the pipeline: please report it with the pipeline"));
        };
        self.ledger.open(self.index, found);
        meter::mark();
        self.most_written = self.written;
        self.phase = Some(phase);
        Ok(())
    }

    /// Writes down the peak of the phase that ends here.
    fn leave(&mut self) {
        if let Some(phase) = self.phase.take() {
            let mut peak = PerPlace::default();
            peak[Place::Ram] = meter::peak();
            peak[Place::Mapped] = self.ledger.most()[Place::Mapped];
            peak[Place::Disk] = self.most_written;
            let most = self.seen.entry(phase).or_default();
            *most = most.max(peak);
        }
    }

    /// Counts what lies on disk from now on, by looking at it; returns the folder's bytes.
    pub fn wrote(&mut self, folder: &Path) -> Result<u64> {
        let bytes = bytes_in(folder).map_err(|e| Fault::io("read", folder, &e))?;
        self.on_disk(bytes, 0);
        self.outputs.push(folder.to_owned());
        Ok(bytes)
    }

    /// Counts bytes that came to lie on disk, and then those that went.
    pub fn on_disk(&mut self, came: u64, went: u64) {
        self.written = self.written.saturating_add(came);
        self.most_written = self.most_written.max(self.written);
        self.written = self.written.saturating_sub(went);
    }

    pub fn pool(&self) -> LedgerPool {
        LedgerPool { ledger: self.ledger.clone(), device: Device::Cpu }
    }

    /// A model out of the values alive, to change or to consume.
    pub fn take(&mut self, id: ValueId) -> Result<Model> {
        self.models.remove(&id).ok_or_else(|| gone(id))
    }

    pub fn borrow(&self, id: ValueId) -> Result<&Model> {
        self.models.get(&id).ok_or_else(|| gone(id))
    }

    /// A model to read, and the listener, both at once.
    pub fn borrow_and_watch(&mut self, id: ValueId) -> Result<(&Model, &mut dyn Watch)> {
        let model = self.models.get(&id).ok_or_else(|| gone(id))?;
        Ok((model, &mut *self.watch))
    }

    pub fn put(&mut self, id: ValueId, model: Model) {
        self.models.insert(id, model);
    }

    /// Ends the turn: the peaks of its phases, bytes that it left on disk, and the folders that it made.
    pub fn finish(mut self) -> (Seen, u64, Vec<PathBuf>) {
        self.leave();
        (self.seen, self.written, self.outputs)
    }
}

/// Bytes of the files of a folder that a stage made.
fn bytes_in(folder: &Path) -> std::io::Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(folder)? {
        total += entry?.metadata()?.len();
    }
    Ok(total)
}

fn gone(id: ValueId) -> Fault {
    Fault::new("plan.value_gone", format!("value {} is not alive when this stage needs it", id.0))
        .help("this is a defect of tunepipe, not of the pipeline: please report it with the pipeline")
}
