//! Training: settings, the optimizer step, evaluation, and what they take.

mod evaluate;
mod moments;
mod settings;
mod trainer;
mod window;

#[cfg(test)]
mod tests;

pub use evaluate::{Eval, Evaluator, evaluation};
pub use settings::{Length, Optim, Schedule, Settings, Warmup};
pub use trainer::{Cursor, PARAMETER, StepReport, Trainable, Trainer, grows_with, planned, state_specs};
pub use window::{Micro, Window, Windows};
