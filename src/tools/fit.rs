//! Finds the change that costs least and really fits: every candidate is planned, for every target.

use std::collections::VecDeque;

use super::levers::{Change, Lever, Obstacle, candidates, changed, edits, in_words};
use crate::memory::{Bytes, PerPlace, Place, Profile};
use crate::plan::Plan;
use crate::stages::{Facts, Target, lower, lower_within};

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
    if fitting(plan, targets, facts).is_some() {
        return Fit::Already;
    }
    let tried = |change: &Change| {
        let changed = changed(plan, change);
        let mut lowered = targets.iter().map(|target| lower(&changed, target, facts));
        let failed = lowered.find(|lowered| lowered.schedule.is_none())?;
        Some(if failed.refused.is_empty() { Obstacle::Other } else { Obstacle::Steps(failed.refused) })
    };
    let whole = |plan: &Plan| profiles(plan, targets, facts);
    let mut candidates = candidates(plan, &tried);
    let all = candidates.last().and_then(|all| whole(&changed(plan, all)));
    candidates.retain(|change| edits(plan, change).is_some());
    // Every lever makes what lies on a card smaller. Where all of them together are not enough, none of the rest is.
    let beyond = |(target, profile): (&Target, &Profile)| {
        target.limits.get(Place::Gpu).is_some_and(|most| profile.peak()[Place::Gpu] > most)
    };
    if !all.is_some_and(|all| targets.iter().zip(&all).any(beyond)) {
        for change in &candidates {
            if let Some(after) = fitting(&changed(plan, change), targets, facts) {
                return leaner(plan, targets, facts, change.clone(), after);
            }
        }
    }
    let least = candidates.iter().rev().find_map(|change| whole(&changed(plan, change)));
    Fit::None { needs: least.or_else(|| whole(plan)).unwrap_or_default() }
}

/// Plans that are made to find out what a change can do without. A pipeline of a few stages needs some ten; one of
/// hundreds may keep a switch too many, and still fits.
const SPARED: usize = 40;

/// The change without what it does not need: each argument all at once, the dearest first, then by halves.
fn leaner(plan: &Plan, targets: &[Target], facts: &Facts, change: Change, after: Vec<Profile>) -> Fit {
    let groups = groups(&change);
    let argument = |group: &Group| group.first().map_or("", |(_, argument)| *argument);
    let mut arguments: Vec<&str> = Vec::new();
    for group in &groups {
        if !arguments.contains(&argument(group)) {
            arguments.push(argument(group));
        }
    }
    let of = |name: &str| groups.iter().filter(|group| argument(group) == name).cloned().collect();
    let mut open: VecDeque<Vec<Group>> = arguments.into_iter().rev().map(of).collect();
    let (mut change, mut after) = (change, after);
    for _ in 0..SPARED {
        let Some(mut without) = open.pop_front() else { break };
        let pulled = |lever: &Lever| without.iter().flatten().any(|place| *place == (lever.step, lever.argument));
        let fewer: Change = change.iter().filter(|lever| !pulled(lever)).cloned().collect();
        let less = match fewer.is_empty() {
            true => None,
            false => fitting(&changed(plan, &fewer), targets, facts),
        };
        match less {
            Some(less) => (change, after) = (fewer, less),
            None if without.len() > 1 => {
                let last = without.split_off(without.len() / 2);
                open.extend([last, without]);
            }
            None => {}
        }
    }
    Fit::Change { change, after }
}

/// Levers that only make sense together, by step and argument.
type Group = Vec<(usize, &'static str)>;

/// In the order of the change.
fn groups(change: &Change) -> Vec<Group> {
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

/// The same where all of them are within their limits; given up as soon as one is not.
fn fitting(plan: &Plan, targets: &[Target], facts: &Facts) -> Option<Vec<Profile>> {
    let one = |target: &Target| {
        let profile = Profile::of(&lower_within(plan, target, facts).schedule?).ok()?;
        target.limits.overruns(profile.peak()).is_empty().then_some(profile)
    };
    targets.iter().map(one).collect()
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

/// The same for each of two profiles of one target, before a change and after it, with the places that the target's
/// budget does not judge where the change moves them: what leaves a card may well lie in RAM from then on.
pub fn needs_both(before: &Profile, after: &Profile, target: &Target) -> (String, String) {
    let peaks = (before.peak(), after.peak());
    let moved: Vec<Place> = Place::ALL
        .into_iter()
        .filter(|place| target.limits.get(*place).is_none() && peaks.0[*place] != peaks.1[*place])
        .collect();
    let told = |profile: &Profile, peak: PerPlace| {
        let judged = Some(needs(profile, target)).filter(|words| !words.is_empty());
        let beside = moved.iter().map(|place| format!("{place} {} (not judged)", Bytes(peak[*place])));
        judged.into_iter().chain(beside).collect::<Vec<_>>().join(", ")
    };
    (told(before, peaks.0), told(after, peaks.1))
}
