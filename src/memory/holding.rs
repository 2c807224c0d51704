//! One thing that takes memory, and the places it can lie in.

use std::fmt;
use std::ops::{Index, IndexMut};

use crate::text::{Fault, Result};

/// Where bytes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    Gpu,
    Ram,
    /// Pages of files that are read where they lie. The system keeps them as long as it has room and reads them again
    /// when it had not, so they belong to no budget; a plan shows them beside what does.
    Mapped,
    Disk,
}

impl Place {
    pub const ALL: [Place; 4] = [Place::Gpu, Place::Ram, Place::Mapped, Place::Disk];

    /// The key of budgets and of JSON.
    pub fn key(self) -> &'static str {
        match self {
            Place::Gpu => "gpu",
            Place::Ram => "ram",
            Place::Mapped => "mapped",
            Place::Disk => "disk",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Place::Gpu => "GPU",
            Place::Ram => "RAM",
            Place::Mapped => "mapped",
            Place::Disk => "disk",
        })
    }
}

/// What a holding grows with, in the words of the pipeline: shown beside it, and the argument an overrun blames.
pub type Grows = &'static str;

/// Something that takes bytes in one place for as long as its phase, or its value, lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    pub name: String,
    pub place: Place,
    pub bytes: u64,
    /// Arguments of the stage or of its inputs (`batch, max_len`), among other words; empty: the model's size alone.
    pub grows: Grows,
}

impl Holding {
    pub fn new(name: impl Into<String>, place: Place, bytes: u64, grows: Grows) -> Self {
        Holding { name: name.into(), place, bytes, grows }
    }
}

/// A number of bytes for each place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerPlace([u64; Place::ALL.len()]);

impl PerPlace {
    pub fn add(&mut self, place: Place, bytes: u64) -> Result<()> {
        self[place] = self[place].checked_add(bytes).ok_or_else(too_large)?;
        Ok(())
    }

    /// Adds what lies in every place.
    pub fn join(&mut self, other: Self) -> Result<()> {
        Place::ALL.into_iter().try_for_each(|place| self.add(place, other[place]))
    }

    pub fn sum<'a>(holdings: impl IntoIterator<Item = &'a Holding>) -> Result<Self> {
        let mut total = PerPlace::default();
        for holding in holdings {
            total.add(holding.place, holding.bytes)?;
        }
        Ok(total)
    }

    pub fn max(self, other: Self) -> Self {
        let mut most = self;
        for place in Place::ALL {
            most[place] = most[place].max(other[place]);
        }
        most
    }
}

fn too_large() -> Fault {
    Fault::new("size.overflow", "the sizes of this pipeline add up to more bytes than can be counted")
}

impl Index<Place> for PerPlace {
    type Output = u64;
    fn index(&self, place: Place) -> &u64 {
        &self.0[place as usize]
    }
}

impl IndexMut<Place> for PerPlace {
    fn index_mut(&mut self, place: Place) -> &mut u64 {
        &mut self.0[place as usize]
    }
}
