//! A declarative pipeline language for fine-tuning language models: a pipeline is planned to the byte before it runs.
//!
//! # The chain
//!
//! One direction, from a file's bytes to what lies on disk. `check` and `plan` stop earlier on the same chain as
//! `run`.
//!
//! ```text
//! bytes ─ text ─→ syntax ─→ check ─→ plan ─→ stages::lower ─→ memory::admit ─→ run
//!         spans   AST       types    steps   Schedule         Admitted         folders, metrics
//! ```
//!
//! 1. [`text`] keeps sources and spans, and says what is wrong: a [`text::Fault`] where no line of a pipeline is known
//!    yet, a [`text::Diagnostic`] where one is. The room that knows miette.
//! 2. [`syntax`] splits lines into statements and parses each for itself, so that one mistake does not hide the next.
//!    The room that knows pest.
//! 3. [`catalog`] holds what the language offers: stages, shapes and devices, declared in `stdlib/*.tp` in the
//!    language's own syntax and embedded in the binary.
//! 4. [`check`] gives every argument its value and type and every model and data set its owner.
//! 5. [`plan`] is what comes of that: steps in order, values with their last use, budgets.
//! 6. [`stages`] lowers a plan for one target, a file a stage: the stage's phases, what each of them holds, and the
//!    body that will do the work. Headers, configs and rows are read, weights are not.
//! 7. [`memory`] adds up lifetimes, admits a schedule against limits, and lends at run time, by the ledger, what was
//!    declared.
//! 8. [`run`] executes what was admitted, stage by stage, and writes down what happened beside what was planned.
//!
//! Below the stages lies the engine: [`store`] (files of models and adapters), [`data`] (rows to batches of ids),
//! [`kernels`] (each numeric operation once, into buffers it is given), [`model`] (the decoder, forward and backward
//! by hand) and [`train`] (the optimizer step and evaluation). Above it stand [`tools`] (tables and JSON of plans and
//! runs) and [`cli`]. Which room may use which is a table in `tests/rooms/mod.rs`; `docs/architecture.md` has the
//! reasons.
//!
//! # Five promises, and where they are kept
//!
//! 1. **A budget is a type error.** [`memory::Profile`] adds up what is alive in each phase,
//!    `memory::Limits::overruns` compares it with the budget, and `tools::overrun` says it at the line, with the peak
//!    broken down.
//! 2. **The plan is the run.** The schedule that is planned carries the bodies that run. [`memory::Admitted`] has no
//!    other maker than `memory::admit`, and `run::execute` takes nothing else. Buffers come from [`memory::Ledger`],
//!    which refuses what a phase did not declare; sets of buffers are described once and either planned or taken
//!    (`model::parts`). [`memory::meter`] counts the heap, and every run ends with planned beside measured.
//! 3. **Memory switches change memory, not results.** Windows follow from shapes alone (`model::windows`), a switch
//!    keeps or drops buffers around the same kernels (`model::activations`, `model::top`), reductions have one order,
//!    and random numbers come from seed and position ([`kernels::Key`]).
//! 4. **Nothing is written twice and nothing is half-written.** Files and folders take their names only when whole
//!    (`store::atomic`); a merge goes window by window straight into the final file (`stages::output`).
//! 5. **Same numbers as the field.** `tests/golden` holds forward passes, evaluation, greedy texts, training, NF4 and
//!    merging to references made with transformers, PEFT, torch and bitsandbytes; candle's autograd is the oracle of
//!    the gradients' unit tests.

/// What the language offers: stages, shapes and devices.
pub mod catalog;
/// AST to plan: names, types, units, ownership.
pub mod check;
/// The command line: verbs, exit codes.
pub mod cli;
/// Rows to batches of token ids.
pub mod data;
/// Each numeric operation once, writing into buffers it is given.
pub mod kernels;
/// Holdings, phases, schedules, their admission, and the ledger.
pub mod memory;
/// The decoder: shape, tensors, adapters, forward and backward.
pub mod model;
/// A checked pipeline: steps, values, budgets.
pub mod plan;
/// Executor, journal and console of an admitted schedule.
pub mod run;
/// One file a stage: what it holds and what it does.
pub mod stages;
/// Files of models and adapters, read in windows and written atomically.
pub mod store;
/// Source text to AST.
pub mod syntax;
/// Sources, spans, faults and diagnostics.
pub mod text;
/// Plan tables, closing tables, JSON.
pub mod tools;
/// The optimizer step, its settings, evaluation.
pub mod train;
