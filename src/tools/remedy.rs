//! The smallest change that fits, found by planning it: switches that keep every bit first, then a smaller batch at an
//! equal number of tokens a step.

use crate::memory::{Bytes, Place, Profile};
use crate::plan::{Plan, Step, Val};
use crate::stages::{Facts, Target, lower};

/// One set of changes: step index, argument, value, and how it is written.
type Change = Vec<(usize, &'static str, Val, String)>;

/// What to type so that the pipeline fits `target`, or how far the switches of this version go.
pub fn remedy(plan: &Plan, target: &Target, facts: &Facts) -> String {
    let mut least: Option<Profile> = None;
    for change in candidates(plan) {
        let Some(profile) = profile_of(plan, &change, target, facts) else { continue };
        let peak = profile.peak();
        if target.limits.overruns(peak).is_empty() {
            return format!("{} fits: {}", written(plan, &change), judged(&profile, target));
        }
        least = Some(profile);
    }
    match least {
        Some(profile) => format!(
            "no memory switch is enough: with all of them and batch=1 it still needs {}; a shorter max_len, a smaller \
             model or a larger machine is left",
            judged(&profile, target)
        ),
        None => "a smaller model, or a larger machine".to_owned(),
    }
}

/// Changes in the order of what they cost: nothing, time, smaller batches.
fn candidates(plan: &Plan) -> Vec<Change> {
    let mut streamed: Change = Vec::new();
    let mut trains = Vec::new();
    for (at, step) in plan.steps.iter().enumerate() {
        if step.stage == "save merged" && !step.args.flag("low_ram") {
            streamed.push((at, "low_ram", Val::Bool(true), "low_ram".to_owned()));
        }
        if step.args.get("recompute").is_some() {
            trains.push((at, step));
        }
    }
    let switch = |name: &'static str| -> Change {
        let off = trains.iter().filter(|(_, step)| !step.args.flag(name));
        off.map(|(at, _)| (*at, name, Val::Bool(true), name.to_owned())).collect()
    };
    let mut list: Vec<Change> = vec![
        streamed.clone(),
        switch("free_logits"),
        [streamed.clone(), switch("free_logits")].concat(),
        switch("recompute"),
        [streamed.clone(), switch("free_logits"), switch("recompute")].concat(),
    ];
    // Halve the batch and double the windows, down to one sequence.
    let largest = trains.iter().map(|(_, step)| step.args.count("batch")).max().unwrap_or(1);
    let mut cut = 2;
    while cut <= largest {
        let smaller: Change = trains.iter().flat_map(|(at, step)| smaller(*at, step, cut)).collect();
        list.push([streamed.clone(), switch("free_logits"), smaller.clone()].concat());
        list.push([streamed.clone(), switch("free_logits"), switch("recompute"), smaller].concat());
        cut *= 2;
    }
    list.retain(|change| !change.is_empty());
    list
}

fn smaller(at: usize, step: &Step, cut: usize) -> Change {
    let (batch, accum) = (step.args.count("batch"), step.args.count("accum"));
    if !batch.is_multiple_of(cut) {
        return Vec::new();
    }
    let int = |n: usize| Val::Int(i64::try_from(n).unwrap_or(i64::MAX));
    let (batch, accum) = (batch / cut, accum.saturating_mul(cut));
    vec![(at, "batch", int(batch), format!("batch={batch}")), (at, "accum", int(accum), format!("accum={accum}"))]
}

fn profile_of(plan: &Plan, change: &Change, target: &Target, facts: &Facts) -> Option<Profile> {
    let mut changed = plan.clone();
    for (at, name, val, _) in change {
        let arg = changed.steps.get_mut(*at)?.args.0.iter_mut().find(|arg| arg.name == *name)?;
        arg.val = val.clone();
    }
    Profile::of(&lower(&changed, target, facts).schedule?).ok()
}

/// `train lora` (line 12): free_logits batch=2 accum=8.
fn written(plan: &Plan, change: &Change) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (at, step) in plan.steps.iter().enumerate() {
        let words: Vec<&str> = change.iter().filter(|(on, ..)| *on == at).map(|(.., word)| word.as_str()).collect();
        if !words.is_empty() {
            parts.push(format!("`{}` on `{}` in line {}", words.join(" "), step.stage, step.line));
        }
    }
    parts.join(" and ")
}

fn judged(profile: &Profile, target: &Target) -> String {
    let peak = profile.peak();
    let words: Vec<String> = Place::ALL
        .into_iter()
        .filter_map(|place| {
            let limit = target.limits.get(place)?;
            (peak[place] > 0).then(|| format!("{place} {} of {}", Bytes(peak[place]), Bytes(limit)))
        })
        .collect();
    words.join(", ")
}
