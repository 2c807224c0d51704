//! Where every byte goes, and when: holdings, phases, the schedule they form, its admission against limits, and the
//! ledger that hands out at run time what was declared. No tensor library is known here.

mod admit;
mod bytes;
mod holding;
mod ledger;
pub mod meter;
mod pages;
mod profile;
mod resident;
mod schedule;

pub use admit::{Admitted, Limits, Overrun, admit};
pub use bytes::Bytes;
pub use holding::{Grows, Holding, PerPlace, Place};
pub use ledger::{Account, Books, Lease, Ledger};
pub use profile::{PhaseProfile, Profile, Rising, StageProfile};
pub use resident::peak_resident;
pub use schedule::{Early, Kept, Phase, Schedule, StagePlan};
