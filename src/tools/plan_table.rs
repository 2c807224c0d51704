//! The plan as a person reads it: where every byte goes, stage by stage, and what makes the peak.

use super::paper::Paper;
use super::table::{Align, Table};
use crate::memory::{Bytes, Holding, Limits, Place, Profile, StageProfile};
use crate::text::Span;

/// A pipeline's profile for one target.
#[derive(Debug, Clone)]
pub struct TargetPlan {
    /// The device's name, `gpu`, `cpu` or `this machine`.
    pub label: String,
    pub limits: Limits,
    /// The budget line that set the limits.
    pub budget: Option<Span>,
    /// Threads of a processor that the pipeline is planned for; none: its cores do not decide the bytes.
    pub threads: Option<usize>,
    pub profile: Profile,
    /// What the reader must know of how the figures were made (`no data at hand: planned from max_len`).
    pub remarks: Vec<String>,
}

impl TargetPlan {
    pub fn fits(&self) -> bool {
        self.limits.overruns(self.profile.peak()).is_empty()
    }

    /// Whether any limit is set at all.
    pub fn judged(&self) -> bool {
        Place::ALL.into_iter().any(|place| self.limits.get(place).is_some())
    }

    /// Why nothing is judged; none where something is.
    pub fn unjudged(&self) -> Option<String> {
        match (self.judged(), self.budget, self.threads) {
            (true, ..) => None,
            (_, None, _) => Some("there is no budget line".into()),
            (_, Some(_), Some(threads)) => {
                let s = if threads == 1 { "" } else { "s" };
                Some(format!("the budget line means a processor of {threads} thread{s}, and limits nothing"))
            }
            (_, Some(_), None) => Some("the budget line limits nothing".into()),
        }
    }

    /// Places that the plan uses or that are judged.
    pub fn places(&self) -> Vec<Place> {
        let peak = self.profile.peak();
        Place::ALL.into_iter().filter(|place| peak[*place] > 0 || self.limits.get(*place).is_some()).collect()
    }
}

/// Draws one target: a row a phase, the limits, and what lies at the highest point of the tightest place.
pub fn plan_table(plan: &TargetPlan, paper: Paper) -> String {
    let places = plan.places();
    let peak = plan.profile.peak();
    let mut align = vec![Align::Left, Align::Right];
    align.extend(places.iter().map(|_| Align::Right));
    align.push(Align::Left);
    let mut table = Table::new(&align).headed();

    let mut head = vec!["stage".to_owned(), "line".to_owned()];
    head.extend(places.iter().map(Place::to_string));
    table.row(head);
    for stage in &plan.profile.stages {
        let single = stage.phases.len() == 1;
        for (index, phase) in stage.phases.iter().enumerate() {
            let (name, line) = match (index, single) {
                (0, true) => (format!("{} · {}", stage.name, phase.name), stage.line.to_string()),
                (0, false) => (format!("{} · {}", stage.name, phase.name), stage.line.to_string()),
                _ => (format!("{} · {}", " ".repeat(stage.name.chars().count()), phase.name), String::new()),
            };
            let mut row = vec![name, line];
            row.extend(places.iter().map(|place| bytes_or_dash(phase.peak[*place])));
            let at: Vec<String> = places
                .iter()
                .filter(|place| phase.peak[**place] == peak[**place] && first_summit(plan, **place, stage, phase.name))
                .map(|place| format!("{place} peak"))
                .collect();
            row.push(if at.is_empty() { String::new() } else { format!("◀ {}", at.join(", ")) });
            table.row(row);
        }
    }
    let mut totals = vec!["peak".to_owned(), String::new()];
    totals.extend(places.iter().map(|place| bytes_or_dash(peak[*place])));
    table.row(totals);
    if plan.judged() {
        let mut limits = vec![format!("budget {}", plan.label), String::new()];
        limits.extend(places.iter().map(|place| match plan.limits.get(*place) {
            Some(limit) => Bytes(limit).to_string(),
            None if *place == Place::Mapped => bytes_or_dash(0),
            None => "not judged".to_owned(),
        }));
        limits.push(if plan.fits() { "fits".into() } else { "does not fit".into() });
        table.row(limits);
    }
    let mut out = table.painted("  ", paper, &|_, _, cell| cell.to_owned());

    if let Some(place) = tightest(plan, &places)
        && let Some((stage, phase)) = plan.profile.summit(place)
    {
        out.push('\n');
        out.push_str(&paper.sentence("  ", &format!("{place} at its peak, {} · {}:", stage.name, phase.name)));
        out.push_str(&holdings_table(&phase.holdings, place, paper));
    }
    // That there is no budget line the pipeline itself shows.
    let unjudged = plan.unjudged().filter(|_| plan.budget.is_some());
    if !plan.remarks.is_empty() || unjudged.is_some() {
        out.push('\n');
    }
    if let Some(why) = unjudged {
        out.push_str(&paper.sentence("  ", &format!("note: not judged, as {why}")));
    }
    for remark in &plan.remarks {
        out.push_str(&paper.sentence("  ", &format!("note: {remark}")));
    }
    out
}

/// Holdings of one place, the largest first, with their share and what they grow with.
fn holdings_table(holdings: &[Holding], place: Place, paper: Paper) -> String {
    let mut here: Vec<&Holding> = holdings.iter().filter(|h| h.place == place && h.bytes > 0).collect();
    here.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    let total: u64 = here.iter().map(|h| h.bytes).fold(0, u64::saturating_add).max(1);
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Left, Align::Left]).drawn(3);
    for holding in here {
        let share = holding.bytes as f64 / total as f64;
        table.row(vec![
            holding.name.clone(),
            Bytes(holding.bytes).to_string(),
            format!("{:.1} %", share * 100.0),
            "█".repeat((share * 24.0).round() as usize),
            if holding.grows.is_empty() { String::new() } else { format!("grows with {}", holding.grows) },
        ]);
    }
    table.painted("    ", paper, &|_, _, cell| cell.to_owned())
}

/// The largest holdings of one place in few words, for a diagnostic: those of a hundredth and more.
pub fn holdings_brief(holdings: &[Holding], place: Place) -> String {
    let mut here: Vec<&Holding> = holdings.iter().filter(|h| h.place == place && h.bytes > 0).collect();
    here.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    let total: u64 = here.iter().map(|h| h.bytes).fold(0, u64::saturating_add).max(1);
    let (shown, small): (Vec<&Holding>, Vec<&Holding>) = here.into_iter().partition(|h| h.bytes >= total / 100);
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    for holding in &shown {
        let grows = if holding.grows.is_empty() { String::new() } else { format!("grows with {}", holding.grows) };
        table.row(vec![holding.name.clone(), Bytes(holding.bytes).to_string(), grows]);
    }
    let rest: u64 = small.iter().map(|h| h.bytes).fold(0, u64::saturating_add);
    if rest > 0 {
        table.row(vec![format!("{} smaller", small.len()), Bytes(rest).to_string(), String::new()]);
    }
    table.render("  ")
}

fn bytes_or_dash(bytes: u64) -> String {
    if bytes == 0 { "–".to_owned() } else { Bytes(bytes).to_string() }
}

/// Marks a peak once, where it is first reached.
fn first_summit(plan: &TargetPlan, place: Place, of: &StageProfile, phase: &str) -> bool {
    plan.profile.summit(place).is_some_and(|(stage, at)| std::ptr::eq(stage, of) && at.name == phase)
}

/// The place whose peak a reader wants explained: the worst overrun, else the GPU, else RAM.
fn tightest(plan: &TargetPlan, places: &[Place]) -> Option<Place> {
    let peak = plan.profile.peak();
    let over = plan.limits.overruns(peak).into_iter().max_by_key(|o| o.peak - o.limit).map(|o| o.place);
    over.or_else(|| places.iter().copied().find(|place| *place != Place::Disk && peak[*place] > 0))
}
