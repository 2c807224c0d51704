//! Time by the wall and by the processor.

use std::ops::{Add, Mul};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Seconds that something took: on the wall, and of this process's threads together. On a machine that does other work
/// beside, the second is the one to compare.
#[derive(Debug, Clone, Copy, Default)]
pub struct Took {
    pub wall: f64,
    pub cpu: f64,
}

impl Took {
    pub fn of(f: impl FnOnce()) -> Took {
        let (wall, cpu) = (Instant::now(), cpu());
        f();
        Took { wall: wall.elapsed().as_secs_f64(), cpu: self::cpu() - cpu }
    }
}

fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl Add for Took {
    type Output = Took;

    fn add(self, other: Took) -> Took {
        Took { wall: self.wall + other.wall, cpu: self.cpu + other.cpu }
    }
}

impl Mul<f64> for Took {
    type Output = Took;

    fn mul(self, times: f64) -> Took {
        Took { wall: self.wall * times, cpu: self.cpu * times }
    }
}
