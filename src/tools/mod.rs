//! What people and programs read: plan tables, JSON, closing tables.

mod fit;
mod json;
mod levers;
mod memory_table;
mod overrun;
mod plan_table;
mod ranking;
mod table;

pub use fit::{Fit, fit, needs, remedy};
pub use json::{plan_json, target_json};
pub use levers::{edits, in_words};
pub use memory_table::{Measured, memory_table};
pub use overrun::overrun;
pub use plan_table::{TargetPlan, holdings_brief, plan_table};
pub use ranking::{Ranked, ranking};
