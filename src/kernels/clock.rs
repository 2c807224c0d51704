//! Where a step's time goes: nanoseconds by kind of kernel, counted only while someone looks.
//!
//! Kernels are called from one thread and do not call each other, so the kinds add up to the time spent in kernels.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a kernel does, as far as a table of times tells kernels apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Products of which no side is thin: those with weights, and gradients of weights.
    Products,
    /// Products with an adapter's matrices, thin on one side.
    ThinProducts,
    Attention,
    AttentionBackward,
    Norm,
    Swiglu,
    Rope,
    CrossEntropy,
    /// Widening and dequantising weights.
    Widening,
    Optimizer,
    /// Additions, copies, fills, rows gathered and scattered, dropout.
    Elementwise,
}

impl Work {
    pub const ALL: [Work; 11] = [
        Work::Products,
        Work::ThinProducts,
        Work::Attention,
        Work::AttentionBackward,
        Work::Norm,
        Work::Swiglu,
        Work::Rope,
        Work::CrossEntropy,
        Work::Widening,
        Work::Optimizer,
        Work::Elementwise,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Work::Products => "products with weights",
            Work::ThinProducts => "adapter products",
            Work::Attention => "attention forward",
            Work::AttentionBackward => "attention backward",
            Work::Norm => "norms",
            Work::Swiglu => "swiglu",
            Work::Rope => "rope",
            Work::CrossEntropy => "cross-entropy",
            Work::Widening => "widening weights",
            Work::Optimizer => "optimizer",
            Work::Elementwise => "copies and sums",
        }
    }
}

static ON: AtomicBool = AtomicBool::new(false);
static NANOS: [AtomicU64; Work::ALL.len()] = [const { AtomicU64::new(0) }; Work::ALL.len()];

/// Starts counting from zero.
pub fn clock_start() {
    NANOS.iter().for_each(|nanos| nanos.store(0, Relaxed));
    ON.store(true, Relaxed);
}

/// Ends counting: the time of each kind of work.
pub fn clock_stop() -> Vec<(Work, Duration)> {
    ON.store(false, Relaxed);
    Work::ALL.into_iter().zip(&NANOS).map(|(work, nanos)| (work, Duration::from_nanos(nanos.load(Relaxed)))).collect()
}

/// Counts from now until it is dropped.
pub(super) struct Running {
    work: Work,
    since: Option<Instant>,
}

pub(super) fn running(work: Work) -> Running {
    Running { work, since: ON.load(Relaxed).then(Instant::now) }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            let nanos = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            NANOS[self.work as usize].fetch_add(nanos, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_kinds_is_in_the_order_of_the_counters() {
        assert!(Work::ALL.into_iter().enumerate().all(|(i, work)| work as usize == i));
    }
}
