//! `plan --diff`: what a change costs, between two answers of `plan --json`.

use serde_json::{Value, json};

use super::paper::{Ink, Paper};
use super::stage_page::signed;
use super::table::{Align, Table};
use crate::memory::{Bytes, Place};
use crate::text::{Fault, Result};

/// A size before and after; none where there was no such thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub old: Option<u64>,
    pub new: Option<u64>,
}

impl Change {
    fn by(self) -> i128 {
        i128::from(self.new.unwrap_or(0)) - i128::from(self.old.unwrap_or(0))
    }
}

/// One target of both plans, or of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetDiff {
    pub budget: String,
    /// None where the target is new, or gone.
    pub fitted: Option<bool>,
    pub fits: Option<bool>,
    pub limits: Vec<(Place, u64)>,
    pub peaks: Vec<(Place, Change)>,
    /// `train lora · step`, each place whose peak moved.
    pub phases: Vec<(String, Place, Change)>,
    /// Of the new peak's phase in each place, against the same phase before.
    pub holdings: Vec<(Place, String, Change)>,
}

/// Compares two answers. Errors: `plan.not_a_plan` where the old one is none.
pub fn plan_diff(old: &Value, new: &Value) -> Result<Vec<TargetDiff>> {
    if old["version"] != 1 || !old["targets"].is_array() {
        return Err(Fault::new("plan.not_a_plan", "this is no plan of `tunepipe plan --json`")
            .note("a JSON object with `version` 1 and a list `targets` is expected")
            .help("make one with `tunepipe plan finetune.tp --json > plan.json`"));
    }
    let (before, after) = (named(old), named(new));
    let mut out: Vec<TargetDiff> = Vec::new();
    for (name, new) in &after {
        let old = before.iter().find(|(known, _)| known == name).map(|(_, target)| *target);
        out.push(target(name, old, Some(new)));
    }
    let gone = before.iter().filter(|(name, _)| !after.iter().any(|(known, _)| known == name));
    out.extend(gone.map(|(name, old)| target(name, Some(old), None)));
    Ok(out)
}

/// Targets by name; of several with one name the second is `cpu (2)`.
fn named(plan: &Value) -> Vec<(String, &Value)> {
    let mut out: Vec<(String, &Value)> = Vec::new();
    for target in plan["targets"].as_array().into_iter().flatten() {
        let base = target["budget"].as_str().unwrap_or_default().to_owned();
        let same = out.iter().filter(|(name, _)| *name == base || name.starts_with(&format!("{base} ("))).count();
        out.push((if same == 0 { base } else { format!("{base} ({})", same + 1) }, target));
    }
    out
}

fn target(name: &str, old: Option<&Value>, new: Option<&Value>) -> TargetDiff {
    let fits = |target: Option<&Value>| target.and_then(|t| t["fits"].as_bool());
    let peak =
        |target: Option<&Value>, place: Place| target.map(|t| t["peak"][place.key()]["bytes"].as_u64().unwrap_or(0));
    let limit = |place: Place| Some((place, new.or(old)?["limits"][place.key()].as_u64()?));
    let change = |place| Change { old: peak(old, place), new: peak(new, place) };
    let (before, after) = (phases(old), phases(new));
    let mut moved = Vec::new();
    for place in Place::ALL {
        for (key, phase) in &after {
            let was = before.iter().find(|(known, _)| known == key).map(|(_, phase)| size(phase, place));
            let now = size(phase, place);
            if was != Some(now) && (was.is_some() || now > 0) {
                moved.push((key.clone(), place, Change { old: was, new: Some(now) }));
            }
        }
        for (key, phase) in before.iter().filter(|(key, _)| !after.iter().any(|(known, _)| known == key)) {
            if size(phase, place) > 0 {
                moved.push((key.clone(), place, Change { old: Some(size(phase, place)), new: None }));
            }
        }
    }
    let mut holdings = Vec::new();
    for place in Place::ALL.into_iter().filter(|place| change(*place).by() != 0) {
        let summit = after.iter().max_by_key(|(_, phase)| size(phase, place));
        let Some((key, phase)) = summit else { continue };
        let was = before.iter().find(|(known, _)| known == key).map(|(_, phase)| *phase);
        let (now, was) = (held(Some(phase), place), held(was, place));
        for (name, bytes) in &now {
            let old = was.iter().find(|(known, _)| known == name).map(|(_, bytes)| *bytes);
            if old != Some(*bytes) {
                holdings.push((place, name.clone(), Change { old, new: Some(*bytes) }));
            }
        }
        for (name, bytes) in was.iter().filter(|(name, _)| !now.iter().any(|(known, _)| known == name)) {
            holdings.push((place, name.clone(), Change { old: Some(*bytes), new: None }));
        }
    }
    holdings.sort_by_key(|(place, _, change)| (*place, std::cmp::Reverse(change.by().unsigned_abs())));
    TargetDiff {
        budget: name.to_owned(),
        fitted: fits(old),
        fits: fits(new),
        limits: Place::ALL.into_iter().filter_map(limit).collect(),
        peaks: Place::ALL.into_iter().map(|place| (place, change(place))).collect(),
        phases: moved,
        holdings,
    }
}

/// Phases by stage and name; the second `eval · score` is another than the first.
fn phases(target: Option<&Value>) -> Vec<(String, &Value)> {
    let mut out: Vec<(String, &Value)> = Vec::new();
    let stages = target.and_then(|t| t["stages"].as_array()).into_iter().flatten();
    for (stage, phase) in stages.flat_map(|s| s["phases"].as_array().into_iter().flatten().map(move |p| (s, p))) {
        let base = format!("{} · {}", stage["name"].as_str().unwrap_or("?"), phase["name"].as_str().unwrap_or("?"));
        let same = out.iter().filter(|(name, _)| *name == base || name.starts_with(&format!("{base} ("))).count();
        out.push((if same == 0 { base } else { format!("{base} ({})", same + 1) }, phase));
    }
    out
}

fn size(phase: &Value, place: Place) -> u64 {
    phase["peak"][place.key()].as_u64().unwrap_or(0)
}

/// Holdings of one place, those of one name added up.
fn held(phase: Option<&Value>, place: Place) -> Vec<(String, u64)> {
    let mut out: Vec<(String, u64)> = Vec::new();
    for holding in phase.and_then(|p| p["holdings"].as_array()).into_iter().flatten() {
        let (Some(name), Some(bytes)) = (holding["name"].as_str(), holding["bytes"].as_u64()) else { continue };
        if holding["place"] != place.key() || bytes == 0 {
            continue;
        }
        match out.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum = sum.saturating_add(bytes),
            None => out.push((name.to_owned(), bytes)),
        }
    }
    out
}

/// For a terminal, or a comment on a pull request.
pub fn diff_table(diffs: &[TargetDiff], paper: Paper) -> String {
    let mut out = String::new();
    for diff in diffs {
        if !out.is_empty() {
            out.push('\n');
        }
        let words = |fits: bool| if fits { "fits" } else { "does not fit" };
        let verdict = match (diff.fitted, diff.fits) {
            (Some(old), Some(new)) if old == new => format!("{}, as before", words(new)),
            (Some(old), Some(new)) => format!("{} → {}", words(old), words(new)),
            (None, Some(new)) => format!("new here; {}", words(new)),
            (_, None) => "not planned any more".into(),
        };
        let ink = match (diff.fitted, diff.fits) {
            (_, Some(false)) => Ink::Warn,
            (Some(false), Some(true)) => Ink::Good,
            _ => Ink::Faint,
        };
        out.push_str(&format!("{}: {}\n", paper.ink(Ink::Strong, &diff.budget), paper.ink(ink, &verdict)));
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Left, Align::Right, Align::Right, Align::Left]);
        let mut by = Vec::new();
        let mut row = |table: &mut Table, name: String, change: Change, more: String| {
            by.push(change.by());
            let difference = if change.by() == 0 { "=".to_owned() } else { signed(change.by()) };
            table.row(vec![name, said(change.old), "→".into(), said(change.new), difference, more]);
        };
        for (place, change) in diff.peaks.iter().filter(|(_, c)| c.old.unwrap_or(0) > 0 || c.new.unwrap_or(0) > 0) {
            let limit = diff.limits.iter().find(|(p, _)| p == place);
            let more = limit.map_or_else(String::new, |(_, limit)| format!("of {}", Bytes(*limit)));
            row(&mut table, format!("{place} peak"), *change, more);
            for (_, name, change) in diff.holdings.iter().filter(|(p, _, _)| p == place) {
                row(&mut table, format!("  {name}"), *change, String::new());
            }
        }
        for (name, place, change) in &diff.phases {
            row(&mut table, name.clone(), *change, place.to_string());
        }
        out.push_str(&table.painted("  ", paper, &|row, column, cell| match (column, by.get(row)) {
            (4, Some(by)) if *by > 0 => paper.ink(Ink::Warn, cell),
            (4, Some(by)) if *by < 0 => paper.ink(Ink::Good, cell),
            (2 | 5, _) => paper.ink(Ink::Faint, cell),
            _ => cell.to_owned(),
        }));
    }
    out
}

fn said(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "–".to_owned(), |bytes| Bytes(bytes).to_string())
}

/// For programs.
pub fn diff_json(diffs: &[TargetDiff], diagnostics: Value) -> Value {
    let pair = |change: &Change| json!({"old": change.old, "new": change.new, "by": change.by() as i64});
    let targets: Vec<Value> = diffs
        .iter()
        .map(|diff| {
            let peaks: serde_json::Map<String, Value> =
                diff.peaks.iter().map(|(place, change)| (place.key().to_owned(), pair(change))).collect();
            let phases: Vec<Value> = diff
                .phases
                .iter()
                .map(|(name, place, c)| json!({"phase": name, "place": place.key(), "old": c.old, "new": c.new}))
                .collect();
            let holdings: Vec<Value> = diff
                .holdings
                .iter()
                .map(|(place, name, c)| json!({"name": name, "place": place.key(), "old": c.old, "new": c.new}))
                .collect();
            json!({"budget": diff.budget, "fitted": diff.fitted, "fits": diff.fits, "peak": peaks, "phases": phases,
                   "holdings": holdings})
        })
        .collect();
    json!({"version": 1, "targets": targets, "diagnostics": diagnostics})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(budget: &str, fits: bool, activations: u64) -> Value {
        let holdings = json!([{"name": "weights", "place": "gpu", "bytes": 100, "grows_with": ""},
                              {"name": "activations", "place": "gpu", "bytes": activations, "grows_with": "batch"}]);
        json!({"version": 1, "diagnostics": [], "targets": [{
            "budget": budget, "fits": fits, "limits": {"gpu": 150},
            "peak": {"gpu": {"bytes": 100 + activations}, "ram": {"bytes": 7}, "disk": {"bytes": 0}},
            "stages": [{"name": "train lora", "line": 4, "phases": [
                {"name": "step", "peak": {"gpu": 100 + activations, "ram": 7, "disk": 0}, "holdings": holdings}]}]}]})
    }

    #[test]
    fn a_change_is_told_by_peak_holding_and_phase() {
        let diff = plan_diff(&plan("l4", true, 20), &plan("l4", false, 80)).expect("plans");
        assert_eq!(diff.len(), 1);
        let change = Change { old: Some(20), new: Some(80) };
        assert_eq!(diff[0].holdings, [(Place::Gpu, "activations".to_owned(), change)]);
        assert_eq!(
            diff[0].phases,
            [("train lora · step".to_owned(), Place::Gpu, Change { old: Some(120), new: Some(180) })]
        );
        let said = diff_table(&diff, Paper::plain());
        assert!(
            said.contains("l4: fits → does not fit") && said.contains("+60 B") && said.contains("of 150 B"),
            "{said}"
        );
        assert_eq!(diff_json(&diff, json!([]))["targets"][0]["peak"]["gpu"]["by"], 60);
    }

    #[test]
    fn nothing_changed_is_said_and_targets_come_and_go() {
        let same = plan_diff(&plan("l4", true, 20), &plan("l4", true, 20)).expect("plans");
        assert!(same[0].phases.is_empty() && same[0].holdings.is_empty());
        assert!(diff_table(&same, Paper::plain()).contains("fits, as before"));
        let other = plan_diff(&plan("l4", true, 20), &plan("a10", true, 20)).expect("plans");
        let said = diff_table(&other, Paper::plain());
        assert!(said.contains("a10: new here; fits") && said.contains("l4: not planned any more"), "{said}");
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        for odd in [json!(3), json!({"version": 2, "targets": []}), json!({"version": 1}), json!([])] {
            assert_eq!(plan_diff(&odd, &plan("l4", true, 1)).expect_err("is none").code, "plan.not_a_plan");
        }
        // Strange insides are nothing, not a panic.
        assert!(plan_diff(&json!({"version": 1, "targets": [3, {"peak": 1}]}), &plan("l4", true, 1)).is_ok());
    }
}
