//! What a pipeline can do: one file a stage, holding its arguments' meaning, the phases with what they hold, and the
//! body that does it.

mod bridge;
mod checkpoint;
mod facts;
mod job;
mod lower;
mod mapped;
mod output;
mod pour;
mod preview;
mod rows;
mod run_home;
mod swallowed;
mod target;
mod watch;
mod world;

mod eval;
mod load_adapter;
mod load_data;
mod load_model;
mod mix;
mod quantize_nf4;
mod sample;
mod save_adapter;
mod save_merged;
mod save_model;
mod train;
mod train_full;
mod train_loop;
mod train_lora;

pub use bridge::FileWeights;
pub use checkpoint::{CHECKPOINTS, Found, clear, newest, remove_all};
pub use facts::Facts;
pub use job::{Body, Job, LedgerPool, Seen};
pub use lower::{Lowering, lower, lower_within};
pub use pour::{Windows, pour};
pub use preview::{Preview, positions, previews};
pub use run_home::RunHome;
pub use target::Target;
pub use watch::{Count, Done, EvalSeen, Marks, STOPPED, Silent, StepSeen, Stop, Watch, stopped};
pub use world::{Desc, Lowered, ModelDesc, Origin, Refusal, World};

use crate::plan::Step;

/// A stage of the language. Its signature stands in `stdlib/stages.tp`; a test holds the two to each other.
pub trait Stage: Sync {
    /// The catalogue's name: `train lora`.
    fn name(&self) -> &'static str;

    /// Looks at headers, configs and lengths, never at a weight, and says what the stage will hold and do. Pure but
    /// for reading: it may be called as often as a planner likes.
    fn lower(&self, step: &Step, world: &mut World<'_>) -> Result<Lowered, Refusal>;

    /// Whether it learns: what it makes cannot be had again but by doing all of it, or from a checkpoint.
    fn learns(&self) -> bool {
        false
    }
}

/// Every stage there is.
pub static STAGES: &[&dyn Stage] = &[
    &load_model::LoadModel,
    &load_data::LoadData,
    &mix::Mix,
    &quantize_nf4::QuantizeNf4,
    &train_lora::TrainLora,
    &train_full::TrainFull,
    &load_adapter::LoadAdapter,
    &eval::Eval,
    &sample::Sample,
    &save_adapter::SaveAdapter,
    &save_merged::SaveMerged,
    &save_model::SaveModel,
];

/// Whether the stage of this name learns.
pub fn learns(name: &str) -> bool {
    STAGES.iter().any(|stage| stage.name() == name && stage.learns())
}

/// What a run takes once, before its first phase is measured.
pub fn start() {
    crate::kernels::warm();
}
