//! Runs of a sweep, the best first.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::paper::{Paper, clip};
use super::table::{Align, Table};

/// Characters of what was swept that a row shows; the folder tells the rest apart.
const SHOWN: usize = 60;

/// One run of a sweep.
pub struct Ranked {
    /// What was swept: `lr=1e-4`.
    pub label: String,
    /// Whether it came to its end.
    pub done: bool,
    /// Loss of the rows held out, at the last evaluation, and the mean training loss of the last tenth of the steps.
    pub score: (Option<f64>, Option<f64>),
    pub seconds: f64,
    pub folder: String,
}

impl Ranked {
    /// By held-out loss where there is one, else by training loss; what failed or has no number comes last.
    pub fn order(&self, other: &Ranked) -> Ordering {
        let key = |run: &Ranked| run.score.0.or(run.score.1).filter(|loss| loss.is_finite() && run.done);
        match (key(self), key(other)) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        }
    }

    pub fn json(&self) -> Value {
        json!({"given": self.label, "ok": self.done, "held_out_loss": self.score.0, "train_loss": self.score.1,
               "seconds": self.seconds, "run": self.folder})
    }
}

/// A row a run, in the order given.
pub fn ranking(runs: &[Ranked], paper: Paper) -> String {
    let held = runs.iter().any(|run| run.score.0.is_some());
    let mut align = vec![Align::Right, Align::Left];
    align.extend(held.then_some(Align::Right));
    align.extend([Align::Right, Align::Right, Align::Left]);
    let mut table = Table::new(&align).headed();
    let mut head = vec!["".to_owned(), "given".to_owned()];
    head.extend(held.then(|| "held-out loss".to_owned()));
    head.extend(["training loss", "seconds", "run"].map(str::to_owned));
    table.row(head);
    let number = |loss: Option<f64>| loss.map_or_else(|| "–".to_owned(), |loss| format!("{loss:.4}"));
    for (at, run) in runs.iter().enumerate() {
        let place = if run.done { (at + 1).to_string() } else { "failed".to_owned() };
        let mut row = vec![place, clip(&run.label, SHOWN)];
        row.extend(held.then(|| number(run.score.0)));
        row.extend([number(run.score.1), format!("{:.1}", run.seconds), run.folder.clone()]);
        table.row(row);
    }
    table.painted("  ", paper, &|_, _, cell| cell.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(label: &str, done: bool, score: (Option<f64>, Option<f64>)) -> Ranked {
        Ranked { label: label.into(), done, score, seconds: 1.0, folder: "runs/x".into() }
    }

    #[test]
    fn the_lowest_held_out_loss_comes_first_and_failures_last() {
        let mut runs = [
            run("a", true, (Some(2.0), Some(1.0))),
            run("b", false, (Some(0.1), None)),
            run("c", true, (Some(f64::NAN), None)),
            run("d", true, (Some(1.5), Some(9.0))),
        ];
        runs.sort_by(Ranked::order);
        assert_eq!(runs.iter().map(|run| &*run.label).collect::<Vec<_>>(), ["d", "a", "b", "c"]);
        let table = ranking(&runs, Paper::plain());
        assert!(table.contains("held-out loss") && table.contains("failed"), "{table}");
    }
}
