//! Planned beside measured, at the end of a run.

use super::paper::Paper;
use super::table::{Align, Table};
use crate::memory::{Bytes, Place};

/// One phase of one stage: the planned peak and what was seen.
#[derive(Debug, Clone)]
pub struct Measured {
    pub stage: String,
    pub phase: String,
    pub place: Place,
    pub planned: u64,
    pub measured: u64,
}

/// A row a phase, with the measured share of the plan.
pub fn memory_table(rows: &[Measured], paper: Paper) -> String {
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Right, Align::Right, Align::Right]).headed();
    table.row(["stage · phase", "place", "planned", "measured", ""].map(str::to_owned).to_vec());
    for row in rows {
        let share = if row.planned == 0 {
            String::new()
        } else {
            format!("{:.1} %", row.measured as f64 / row.planned as f64 * 100.0)
        };
        table.row(vec![
            format!("{} · {}", row.stage, row.phase),
            row.place.to_string(),
            Bytes(row.planned).to_string(),
            Bytes(row.measured).to_string(),
            share,
        ]);
    }
    table.painted("  ", paper, &|_, _, cell| cell.to_owned())
}
