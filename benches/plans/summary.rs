//! The matrix as a table, and what came of it.

use std::collections::BTreeMap;

use tunepipe::memory::Bytes;

use crate::case::Case;
use crate::judge::{Kind, Ran};

/// The phases of one case, planned beside measured.
pub fn show(case: &Case, ran: &Result<Ran, String>) {
    println!("{case}");
    let ran = match ran {
        Ok(ran) => ran,
        Err(why) => return println!("  failed: {why}\n"),
    };
    for row in &ran.rows {
        let name = format!("{} · {}", row.stage, row.phase);
        let mark = if row.holds() { "" } else { "  outside" };
        let (planned, measured) = (Bytes(row.planned), Bytes(row.measured));
        println!("  {name:<34} {:<4} {planned:>10} {measured:>10}  {:.4}{mark}", row.place, row.ratio());
    }
    let mark = if ran.resident_holds() { "" } else { "  outside" };
    let ratio = ran.resident as f64 / ran.planned.max(1) as f64;
    let (planned, resident) = (Bytes(ran.planned), Bytes(ran.resident));
    println!("  {:<34} RAM  {planned:>10} {resident:>10}  {ratio:.4}{mark}\n", "the process, resident");
}

/// The worst of one kind of phase.
#[derive(Debug, Clone, Default)]
struct Worst {
    phases: usize,
    /// Smallest and largest measured of planned.
    least: Option<(f64, String)>,
    most: Option<(f64, String)>,
    /// The widest gap between planned and measured.
    gap: u64,
    outside: usize,
}

impl Worst {
    fn add(&mut self, ratio: f64, gap: u64, holds: bool, case: &Case) {
        self.phases += 1;
        self.gap = self.gap.max(gap);
        self.outside += usize::from(!holds);
        if self.least.as_ref().is_none_or(|(least, _)| ratio < *least) {
            self.least = Some((ratio, case.to_string()));
        }
        if self.most.as_ref().is_none_or(|(most, _)| ratio > *most) {
            self.most = Some((ratio, case.to_string()));
        }
    }

    fn print(&self, name: &str) {
        let (Some((least, at)), Some((most, _))) = (&self.least, &self.most) else { return };
        println!(
            "  {name:<22} {:>5} {:>8} {least:>9.4} {most:>9.4} {:>10}  {at}",
            self.phases,
            self.outside,
            Bytes(self.gap)
        );
    }
}

/// Worst ratios over the cases so far.
#[derive(Debug, Default)]
pub struct Summary {
    kinds: BTreeMap<(Kind, String), Worst>,
    process: Worst,
    cases: usize,
    failed: usize,
}

impl Summary {
    pub fn add(&mut self, case: &Case, ran: Result<Ran, String>) {
        self.cases += 1;
        let Ok(ran) = ran else {
            self.failed += 1;
            return;
        };
        for row in &ran.rows {
            let gap = row.planned.saturating_sub(row.measured);
            self.kinds.entry((row.kind, row.place.clone())).or_default().add(row.ratio(), gap, row.holds(), case);
        }
        let over = ran.resident.saturating_sub(ran.planned);
        let ratio = ran.resident as f64 / ran.planned.max(1) as f64;
        self.process.add(ratio, over, ran.resident_holds(), case);
    }

    /// Whether any case failed or any phase lies outside its bounds.
    pub fn failed(&self) -> bool {
        self.failed + self.process.outside + self.kinds.values().map(|worst| worst.outside).sum::<usize>() > 0
    }

    pub fn print(&self) {
        println!("{} cases, {} failed; measured of planned:\n", self.cases, self.failed);
        println!("  {:<22} phases  outside     least      most  widest gap  least at", "");
        for ((kind, place), worst) in &self.kinds {
            worst.print(&if place == "disk" { format!("{} on disk", kind.name()) } else { kind.name().to_owned() });
        }
        self.process.print("resident of planned");
    }
}
