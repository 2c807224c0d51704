//! Finds the change that costs least and really fits: every candidate is planned, for every target.

use super::levers::{Change, Lever, candidates, changed, edits, in_words};
use crate::memory::{Bytes, Place, Profile};
use crate::plan::Plan;
use crate::stages::{Facts, Target, lower};

/// What a search came to.
pub enum Fit {
    /// Nothing has to change.
    Already,
    /// This change fits; a profile for each target, after it.
    Change { change: Change, after: Vec<Profile> },
    /// Not even the largest change fits; what it would still need.
    None { needs: Vec<Profile> },
}

/// Searches for one change that fits every target.
pub fn fit(plan: &Plan, targets: &[Target], facts: &Facts) -> Fit {
    let fits = |profiles: &[Profile]| {
        targets.iter().zip(profiles).all(|(target, profile)| target.limits.overruns(profile.peak()).is_empty())
    };
    let mut last = match profiles(plan, targets, facts) {
        Some(now) if fits(&now) => return Fit::Already,
        now => now.unwrap_or_default(),
    };
    let works = |change: &Change| profiles(&changed(plan, change), targets, facts).is_some();
    let mut candidates = candidates(plan, &works);
    let all = candidates.last().and_then(|all| profiles(&changed(plan, all), targets, facts));
    candidates.retain(|change| edits(plan, change).is_some());
    // Every lever makes what lies on a card smaller. Where all of them together are not enough, none of the rest is.
    let beyond = |(target, profile): (&Target, &Profile)| {
        target.limits.get(Place::Gpu).is_some_and(|most| profile.peak()[Place::Gpu] > most)
    };
    if all.is_some_and(|all| targets.iter().zip(&all).any(beyond)) {
        let least = candidates.iter().rev().find_map(|change| profiles(&changed(plan, change), targets, facts));
        return Fit::None { needs: least.unwrap_or(last) };
    }
    for change in candidates {
        let Some(after) = profiles(&changed(plan, &change), targets, facts) else { continue };
        if fits(&after) {
            return leaner(plan, targets, facts, change, after, &fits);
        }
        last = after;
    }
    Fit::None { needs: last }
}

/// The change without what it does not need, the dearest tried first.
fn leaner(
    plan: &Plan,
    targets: &[Target],
    facts: &Facts,
    mut change: Change,
    mut after: Vec<Profile>,
    fits: &impl Fn(&[Profile]) -> bool,
) -> Fit {
    for group in groups(&change).into_iter().rev() {
        let pulled =
            |lever: &Lever| group.iter().any(|(step, argument)| (*step, *argument) == (lever.step, lever.argument));
        let fewer: Change = change.iter().filter(|lever| !pulled(lever)).cloned().collect();
        if fewer.is_empty() {
            continue;
        }
        if let Some(less) = profiles(&changed(plan, &fewer), targets, facts).filter(|less| fits(less)) {
            (change, after) = (fewer, less);
        }
    }
    Fit::Change { change, after }
}

/// Levers that only make sense together, by step and argument, in the order of the change.
fn groups(change: &Change) -> Vec<Vec<(usize, &'static str)>> {
    let mut groups: Vec<Vec<&Lever>> = Vec::new();
    for lever in change {
        let (tied, mut rest): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.iter().any(|other| lever.belongs_to(other)));
        let mut one = tied.concat();
        one.push(lever);
        rest.push(one);
        groups = rest;
    }
    groups.into_iter().map(|group| group.into_iter().map(|lever| (lever.step, lever.argument)).collect()).collect()
}

fn profiles(plan: &Plan, targets: &[Target], facts: &Facts) -> Option<Vec<Profile>> {
    targets.iter().map(|target| Profile::of(&lower(plan, target, facts).schedule?).ok()).collect()
}

/// Help for an overrun: the change that fits, with what it then takes.
pub fn remedy(plan: &Plan, target: &Target, facts: &Facts) -> String {
    let one = std::slice::from_ref(target);
    match fit(plan, one, facts) {
        Fit::Already => "it fits as it is".to_owned(),
        Fit::Change { change, after } => {
            let takes = after.first().map_or_else(String::new, |profile| needs(profile, target));
            format!("{} fits: {takes}", in_words(plan, &change))
        }
        Fit::None { needs: profiles } => {
            let takes = profiles.first().map_or_else(String::new, |profile| needs(profile, target));
            format!(
                "no switch, batch or length is small enough: the least takes {takes}. A smaller model or a larger machine is left"
            )
        }
    }
}

/// `GPU 14.4 GiB of 14.8 GiB, RAM …`: what a profile takes of a target's limits.
pub fn needs(profile: &Profile, target: &Target) -> String {
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
