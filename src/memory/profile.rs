//! Adds up lifetimes: what is alive in each phase, and where the peak is.

use super::{Holding, Kept, PerPlace, Place, Schedule, StagePlan};
use crate::text::{Result, Span};

/// Everything alive in one phase.
#[derive(Debug, Clone)]
pub struct PhaseProfile {
    pub name: &'static str,
    pub peak: PerPlace,
    /// Floor first, then values of earlier stages, then the phase's own.
    pub holdings: Vec<Holding>,
    /// What was measured, where the phase is over before the run begins.
    pub measured: Option<PerPlace>,
}

#[derive(Debug, Clone)]
pub struct StageProfile {
    pub name: String,
    pub span: Span,
    pub line: usize,
    pub phases: Vec<PhaseProfile>,
}

impl StageProfile {
    pub fn peak(&self) -> PerPlace {
        self.phases.iter().fold(PerPlace::default(), |most, phase| most.max(phase.peak))
    }
}

/// A schedule without its bodies: what reports read.
#[derive(Debug, Clone)]
pub struct Profile {
    pub stages: Vec<StageProfile>,
}

impl Profile {
    pub fn of<B>(schedule: &Schedule<B>) -> Result<Profile> {
        let mut alive: Vec<Kept> = schedule.resident.clone();
        let mut stages = Vec::with_capacity(schedule.stages.len());
        for (index, stage) in schedule.stages.iter().enumerate() {
            alive.retain(|kept| kept.until >= index);
            let before: Vec<Holding> =
                schedule.floor.iter().chain(alive.iter().flat_map(|kept| &kept.holdings)).cloned().collect();
            let base = PerPlace::sum(&before)?;
            let mut phases = Vec::with_capacity(stage.phases.len());
            for phase in &stage.phases {
                let (before, mut peak) = match &phase.early {
                    Some(early) => (&early.before, PerPlace::sum(&early.before)?),
                    None => (&before, base),
                };
                peak.join(phase.own()?)?;
                let holdings = before.iter().chain(&phase.holdings).cloned().collect();
                let measured = phase.early.as_ref().map(|early| early.measured);
                phases.push(PhaseProfile { name: phase.name, peak, holdings, measured });
            }
            stages.push(StageProfile { name: stage.name.clone(), span: stage.span, line: stage.line, phases });
            alive.extend(stage.keeps.iter().cloned());
        }
        Ok(Profile { stages })
    }

    pub fn peak(&self) -> PerPlace {
        self.stages.iter().fold(PerPlace::default(), |most, stage| most.max(stage.peak()))
    }

    /// The first stage and phase that reach the peak in `place`; none where nothing lies there.
    pub fn summit(&self, place: Place) -> Option<(&StageProfile, &PhaseProfile)> {
        let most = self.peak()[place];
        self.stages
            .iter()
            .flat_map(|stage| stage.phases.iter().map(move |phase| (stage, phase)))
            .find(|(_, phase)| most > 0 && phase.peak[place] == most)
    }
}

/// Peaks of stages one after the other while a schedule is still being made. What only the whole of it knows to be there
/// before the first stage is missing, so that no peak of the profile is lower.
pub struct Rising {
    floor: PerPlace,
    /// With the last stage that each lives in.
    alive: Vec<(PerPlace, usize)>,
    stages: usize,
}

impl Rising {
    pub fn new(floor: &[Holding]) -> Result<Rising> {
        Ok(Rising { floor: PerPlace::sum(floor)?, alive: Vec::new(), stages: 0 })
    }

    /// The next stage's peak.
    pub fn add<B>(&mut self, stage: &StagePlan<B>) -> Result<PerPlace> {
        let index = self.stages;
        self.alive.retain(|(_, until)| *until >= index);
        let mut base = self.floor;
        for (kept, _) in &self.alive {
            base.join(*kept)?;
        }
        let mut most = PerPlace::default();
        for phase in stage.phases.iter().filter(|phase| phase.early.is_none()) {
            let mut peak = base;
            peak.join(phase.own()?)?;
            most = most.max(peak);
        }
        for kept in &stage.keeps {
            self.alive.push((PerPlace::sum(&kept.holdings)?, kept.until));
        }
        self.stages += 1;
        Ok(most)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Phase;
    use super::*;
    use crate::text::SourceId;

    fn stage(name: &str, phases: Vec<Phase>, keeps: Vec<Kept>) -> StagePlan<()> {
        StagePlan { name: name.into(), span: Span::new(SourceId(0), 0, 0), line: 1, phases, keeps, body: () }
    }

    fn ram(name: &str, bytes: u64) -> Holding {
        Holding::new(name, Place::Ram, bytes, "")
    }

    #[test]
    fn peaks_are_over_lifetimes_not_sums() {
        let schedule = Schedule {
            floor: vec![ram("program", 1)],
            resident: vec![Kept { holdings: vec![ram("tokenizer", 1000)], until: 0 }],
            stages: vec![
                stage(
                    "load model",
                    vec![Phase::new("read", vec![ram("weights", 100), ram("window", 10)])],
                    vec![Kept { holdings: vec![ram("weights", 100)], until: 1 }],
                ),
                stage(
                    "quantize nf4",
                    vec![Phase::new("quantise", vec![ram("nf4", 25)])],
                    vec![Kept { holdings: vec![ram("nf4", 25)], until: 2 }],
                ),
                stage("eval", vec![Phase::new("score", vec![ram("scratch", 7)])], vec![]),
            ],
        };
        let profile = Profile::of(&schedule).expect("adds up");
        let peaks: Vec<u64> = profile.stages.iter().map(|s| s.peak()[Place::Ram]).collect();
        assert_eq!(peaks, [1111, 126, 33]);
        let mut rising = Rising::new(&schedule.floor).expect("adds up");
        let risen = schedule.stages.iter().map(|stage| rising.add(stage).expect("adds up")[Place::Ram]);
        assert_eq!(risen.collect::<Vec<u64>>(), [111, 126, 33], "all but the tokenizer, which is not known yet");
        let (stage, phase) = profile.summit(Place::Ram).expect("something is held");
        assert_eq!((stage.name.as_str(), phase.name), ("load model", "read"));
        assert!(profile.summit(Place::Gpu).is_none());
    }

    #[test]
    fn a_phase_whose_holdings_trade_places_has_its_own_peak() {
        let mut peak = PerPlace::default();
        peak.add(Place::Ram, 30).expect("small");
        let mut phase = Phase::new("quantise", vec![ram("dense", 100), ram("nf4", 25)]);
        phase.peak = Some(peak);
        let schedule =
            Schedule { floor: vec![], resident: vec![], stages: vec![stage("quantize nf4", vec![phase], vec![])] };
        assert_eq!(Profile::of(&schedule).expect("adds up").peak()[Place::Ram], 30);
    }

    #[test]
    fn sizes_past_counting_are_a_fault() {
        let schedule = Schedule {
            floor: vec![ram("program", u64::MAX)],
            resident: vec![],
            stages: vec![stage("x", vec![Phase::new("y", vec![ram("z", 1)])], vec![])],
        };
        assert_eq!(Profile::of(&schedule).expect_err("overflows").code, "size.overflow");
    }
}
