//! Hands out, at run time, what the plan declared: by holding, and no more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Bytes, PerPlace, Phase, Place};
use crate::text::{Fault, Result};

/// Planned and taken bytes of one holding of one stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub place: Place,
    /// What the current phase declared; 0 where it declares nothing of this name.
    pub planned: u64,
    /// Leased now.
    pub live: u64,
    /// The most that was leased at once, over the stage.
    pub peak: u64,
    /// The largest declaration of any phase of the stage.
    pub most_planned: u64,
}

/// All accounts, by stage index and holding.
pub type Books = BTreeMap<(usize, String), Account>;

#[derive(Debug, Default)]
struct State {
    books: Books,
    stage: usize,
    phase: &'static str,
    live: PerPlace,
    /// The most that was leased at once since the phase was opened.
    most: PerPlace,
}

/// The books of one run. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<State>>);

impl Ledger {
    /// Turns to a phase of a stage: from now on only its declarations can be drawn on.
    pub fn open(&self, stage: usize, phase: &Phase) {
        let mut state = self.state();
        state.stage = stage;
        state.phase = phase.name;
        state.most = state.live;
        for ((owner, _), account) in &mut state.books {
            if *owner == stage {
                account.planned = 0;
            }
        }
        for holding in &phase.holdings {
            let account = state.books.entry((stage, holding.name.clone())).or_insert(Account {
                place: holding.place,
                planned: 0,
                live: 0,
                peak: 0,
                most_planned: 0,
            });
            account.planned = account.planned.saturating_add(holding.bytes);
            account.most_planned = account.most_planned.max(account.planned);
        }
    }

    /// Bytes of a declared holding; they return when the lease is dropped. What was not declared, or more than
    /// was declared, is a defect of the stage and refused.
    pub fn lease(&self, holding: &str, bytes: u64) -> Result<Lease> {
        let mut state = self.state();
        let (stage, phase) = (state.stage, state.phase);
        let key = (stage, holding.to_owned());
        let Some(account) = state.books.get_mut(&key) else {
            return Err(undeclared(phase, holding, bytes, 0));
        };
        let live = account.live.saturating_add(bytes);
        if live > account.planned {
            return Err(undeclared(phase, holding, live, account.planned));
        }
        account.live = live;
        account.peak = account.peak.max(live);
        let place = account.place;
        state.live.add(place, bytes)?;
        state.most = state.most.max(state.live);
        Ok(Lease { ledger: self.clone(), key, place, bytes })
    }

    /// Bytes leased now, of all stages.
    pub fn live(&self) -> PerPlace {
        self.state().live
    }

    /// The most that was leased at once in the current phase, of all stages.
    pub fn most(&self) -> PerPlace {
        self.state().most
    }

    /// A copy of the books, for reports and tests.
    pub fn books(&self) -> Books {
        self.state().books.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the books were open leaves numbers that are still numbers.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn undeclared(phase: &str, holding: &str, wanted: u64, planned: u64) -> Fault {
    Fault::new(
        "plan.undeclared",
        format!("`{holding}` needs {} in phase `{phase}`, and the plan declared {}", Bytes(wanted), Bytes(planned)),
    )
    .help("this is a defect of tunepipe, not of the pipeline: please report it with the pipeline")
}

/// Bytes on loan from the ledger.
#[derive(Debug)]
pub struct Lease {
    ledger: Ledger,
    key: (usize, String),
    place: Place,
    bytes: u64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.ledger.state();
        if let Some(account) = state.books.get_mut(&self.key) {
            account.live = account.live.saturating_sub(self.bytes);
        }
        let live = &mut state.live[self.place];
        *live = live.saturating_sub(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Holding;
    use super::*;

    fn phase(bytes: u64) -> Phase {
        Phase::new("step", vec![Holding::new("logits", Place::Ram, bytes, "")])
    }

    #[test]
    fn gives_what_was_declared_and_takes_it_back() {
        let ledger = Ledger::default();
        ledger.open(0, &phase(10));
        let a = ledger.lease("logits", 6).expect("declared");
        assert_eq!(ledger.lease("logits", 5).expect_err("too much").code, "plan.undeclared");
        assert_eq!(ledger.lease("gradients", 1).expect_err("never declared").code, "plan.undeclared");
        drop(a);
        let b = ledger.lease("logits", 10).expect("free again");
        assert_eq!(ledger.live()[Place::Ram], 10);
        drop(b);
        assert_eq!((ledger.live()[Place::Ram], ledger.most()[Place::Ram]), (0, 10));
        assert_eq!(ledger.books()[&(0, "logits".to_owned())].peak, 10);
    }

    #[test]
    fn a_new_phase_closes_the_old_declarations() {
        let ledger = Ledger::default();
        ledger.open(0, &phase(10));
        let kept = ledger.lease("logits", 4).expect("declared");
        ledger.open(0, &Phase::new("write", vec![]));
        assert!(ledger.lease("logits", 1).is_err());
        ledger.open(1, &phase(1));
        assert!(ledger.lease("logits", 1).is_ok(), "another stage's holding of that name is its own");
        drop(kept);
        assert_eq!(ledger.live()[Place::Ram], 0);
    }
}
