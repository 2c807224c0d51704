//! What people and programs read: plan tables, JSON, closing tables, pages of the manual.

mod code_page;
mod fit;
mod histogram;
mod json;
mod levers;
mod listing;
mod memory_table;
mod overrun;
mod paper;
mod plan_diff;
mod plan_html;
mod plan_table;
mod preview;
mod reference;
mod scaffold;
mod signature;
mod specimen;
mod stage_page;
mod table;

pub use code_page::{code_json, code_page, codes};
pub use fit::{Fit, fit, needs, remedy};
pub use json::{plan_json, target_json};
pub use levers::{edits, in_words};
pub use listing::{Listing, count, devices, shapes, stages};
pub use memory_table::{Measured, memory_table};
pub use overrun::overrun;
pub use paper::{Ink, Paper, clip, wrap};
pub use plan_diff::{TargetDiff, diff_json, diff_table, plan_diff};
pub use plan_html::plan_html;
pub use plan_table::{TargetPlan, holdings_brief, plan_table};
pub use preview::{preview_json, preview_page};
pub use reference::reference;
pub use scaffold::{Goal, Wish, scaffold};
pub use stage_page::{stage_json, stage_page};
pub use table::{Align, Table};
