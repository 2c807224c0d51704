//! When a plan told the truth: the bounds that a run's `memory.json` and `process.json` are held to.
//!
//! The bench over the whole matrix and the tests of its corners read the same ones here.

use std::path::Path;

use serde_json::Value;

const MIB: u64 = 1 << 20;

/// What a phase does, for bounds and for the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Load,
    Tokenise,
    Quantise,
    Train,
    Evaluate,
    Eval,
    Sample,
    Save,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Load => "load",
            Kind::Tokenise => "tokenise",
            Kind::Quantise => "quantise",
            Kind::Train => "train",
            Kind::Evaluate => "train · evaluate",
            Kind::Eval => "eval",
            Kind::Sample => "sample",
            Kind::Save => "save",
        }
    }

    fn of(stage: &str, phase: &str) -> Option<Kind> {
        Some(match (stage, phase) {
            (_, "tokenise" | "read rows") => Kind::Tokenise,
            ("load model" | "load adapter" | "load data", _) => Kind::Load,
            ("quantize nf4", _) => Kind::Quantise,
            ("train lora" | "train full", "evaluate") => Kind::Evaluate,
            ("train lora" | "train full", _) => Kind::Train,
            ("eval", _) => Kind::Eval,
            ("sample", _) => Kind::Sample,
            ("save adapter" | "save merged" | "save model", _) => Kind::Save,
            _ => return None,
        })
    }
}

/// A phase's bytes in RAM or on disk, as planned and as counted.
#[derive(Debug, Clone)]
pub struct Row {
    pub stage: String,
    pub phase: String,
    pub place: String,
    pub kind: Kind,
    pub planned: u64,
    pub measured: u64,
}

impl Row {
    /// Measured of planned.
    pub fn ratio(&self) -> f64 {
        self.measured as f64 / self.planned.max(1) as f64
    }

    /// Planned is never the smaller; in RAM it is at most 1 % or 8 MiB above what was measured, where weights are read
    /// or rows tokenised 25 % or 64 MiB; on disk it is exact.
    pub fn holds(&self) -> bool {
        let (planned, measured) = (self.planned, self.measured);
        if self.place == "disk" {
            return planned == measured;
        }
        let near = match self.kind {
            Kind::Load | Kind::Tokenise => measured as f64 * 1.25 >= planned as f64 || planned <= measured + 64 * MIB,
            _ => measured as f64 >= 0.99 * planned as f64 || planned <= measured + 8 * MIB,
        };
        planned >= measured && near
    }
}

/// What a run left in its folder.
#[derive(Debug, Clone)]
pub struct Ran {
    pub rows: Vec<Row>,
    /// The plan's peak in RAM.
    pub planned: u64,
    /// The most that was resident, as the kernel counts it.
    pub resident: u64,
}

impl Ran {
    /// Reads a run's folder.
    ///
    /// # Errors
    /// Words, where a file is missing or a stage has no kind here.
    pub fn read(folder: &Path) -> Result<Ran, String> {
        let json = |name: &str| -> Result<Value, String> {
            let text = std::fs::read_to_string(folder.join(name)).map_err(|e| format!("{name}: {e}"))?;
            serde_json::from_str(&text).map_err(|e| format!("{name}: {e}"))
        };
        Ran::of(&json("memory.json")?, &json("process.json")?)
    }

    /// From the contents of `memory.json` and `process.json`.
    ///
    /// # Errors
    /// Words, as of [`Ran::read`].
    pub fn of(memory: &Value, process: &Value) -> Result<Ran, String> {
        let mut rows = Vec::new();
        for row in memory.as_array().ok_or("memory.json is no list")? {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let (stage, phase) = (text("stage"), text("phase"));
            let kind = Kind::of(&stage, &phase).ok_or_else(|| format!("no bound is known for {stage} · {phase}"))?;
            let bytes = |key: &str| row[key].as_u64().unwrap_or(0);
            let (planned, measured) = (bytes("planned"), bytes("measured"));
            rows.push(Row { stage, phase, place: text("place"), kind, planned, measured });
        }
        let bytes = |key: &str| process[key].as_u64().ok_or_else(|| format!("process.json has no `{key}`"));
        Ok(Ran { rows, planned: bytes("planned_ram")?, resident: bytes("peak_resident")? })
    }

    /// The process as a whole may hold 5 % and 64 MiB above its plan: code, stacks and what the allocator keeps.
    pub fn resident_holds(&self) -> bool {
        self.resident as f64 <= self.planned as f64 * 1.05 + (64 * MIB) as f64
    }

    /// Everything outside its bounds, in words.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong: Vec<String> = self
            .rows
            .iter()
            .filter(|row| !row.holds())
            .map(|row| {
                let Row { stage, phase, place, planned, measured, .. } = row;
                format!("{stage} · {phase}, {place}: planned {planned}, measured {measured}")
            })
            .collect();
        if !self.resident_holds() {
            wrong.push(format!("the process: planned {}, resident {}", self.planned, self.resident));
        }
        wrong
    }
}
