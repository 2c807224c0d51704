//! The only door from a schedule to a run.

use super::{PerPlace, Place, Profile, Schedule};
use crate::text::Result;

/// The most bytes each place may hold; none: not judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    pub gpu: Option<u64>,
    pub ram: Option<u64>,
    pub disk: Option<u64>,
}

impl Limits {
    pub fn get(&self, place: Place) -> Option<u64> {
        match place {
            Place::Gpu => self.gpu,
            Place::Ram => self.ram,
            Place::Mapped => None,
            Place::Disk => self.disk,
        }
    }

    /// Every place in which `peak` is over its limit.
    pub fn overruns(&self, peak: PerPlace) -> Vec<Overrun> {
        Place::ALL
            .into_iter()
            .filter_map(|place| {
                let limit = self.get(place)?;
                (peak[place] > limit).then_some(Overrun { place, peak: peak[place], limit })
            })
            .collect()
    }
}

/// A place that would need more than it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overrun {
    pub place: Place,
    pub peak: u64,
    pub limit: u64,
}

/// A schedule that fits. Nothing else can be run, and [`admit`] alone makes one.
pub struct Admitted<B> {
    schedule: Schedule<B>,
    profile: Profile,
}

impl<B> Admitted<B> {
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The stages with their bodies, for the executor.
    pub fn into_parts(self) -> (Schedule<B>, Profile) {
        (self.schedule, self.profile)
    }
}

/// Consumes a schedule: it comes back as [`Admitted`], or as what it would need and does not have.
pub fn admit<B>(schedule: Schedule<B>, limits: &Limits) -> Result<Result<Admitted<B>, Vec<Overrun>>> {
    let profile = Profile::of(&schedule)?;
    let overruns = limits.overruns(profile.peak());
    Ok(if overruns.is_empty() { Ok(Admitted { schedule, profile }) } else { Err(overruns) })
}

#[cfg(test)]
mod tests {
    use super::super::Holding;
    use super::*;

    #[test]
    fn over_any_limit_is_refused_and_at_the_limit_is_not() {
        let schedule = |bytes| Schedule::<()> {
            floor: vec![Holding::new("program", Place::Ram, bytes, "")],
            resident: vec![],
            stages: vec![],
        };
        let limits = Limits { ram: Some(10), ..Limits::default() };
        // A schedule of no stage has no phase, so the floor alone weighs nothing.
        assert!(admit(schedule(11), &limits).expect("adds up").is_ok());
        let mut peak = PerPlace::default();
        peak.add(Place::Ram, 11).expect("small");
        assert_eq!(limits.overruns(peak), [Overrun { place: Place::Ram, peak: 11, limit: 10 }]);
        let mut peak = PerPlace::default();
        peak.add(Place::Ram, 10).expect("small");
        assert!(limits.overruns(peak).is_empty());
    }
}
