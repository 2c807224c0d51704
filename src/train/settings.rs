//! What a training run is asked to do, and its learning rate at each step.

use crate::text::{Fault, Result};

/// How the learning rate falls after warmup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    Constant,
    Cosine,
    Linear,
}

/// Steps in which the learning rate rises from zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Warmup {
    Steps(u64),
    /// Of all steps, rounded up.
    Percent(f64),
}

/// The optimizer, by how its moments are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Optim {
    /// AdamW, moments in f32.
    #[default]
    AdamW,
    /// AdamW, moments in bitsandbytes' blockwise 8-bit type: a quarter of the memory, and other results.
    AdamW8bit,
}

/// How long a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Epochs(u64),
    /// Optimizer steps.
    Steps(u64),
}

/// A run's settings, as `train lora` and `train full` share them.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub length: Length,
    /// Sequences of a micro-batch.
    pub batch: usize,
    /// Micro-batches of an optimizer step.
    pub accum: usize,
    /// Peak learning rate.
    pub lr: f64,
    pub schedule: Schedule,
    pub warmup: Warmup,
    pub weight_decay: f64,
    pub optim: Optim,
    /// Largest global gradient norm.
    pub clip: Option<f64>,
    /// Of dropout; the rows' order and the adapter's first values have their own use of it.
    pub seed: u64,
    /// Keep block inputs only and make the rest again in the backward pass.
    pub recompute: bool,
    /// Let saved activations wait in RAM, but for the blocks at work. Where all memory is RAM it moves them all the same,
    /// which saves nothing: stages ask for it on a card alone.
    pub offload: bool,
    /// Never hold the logits of more than a window of tokens.
    pub free_logits: bool,
    /// Full training alone: update each block in the backward pass, so that one block's gradients exist at a time.
    /// Without accumulation and clipping, and without `skip_not_finite`: an update cannot be taken back.
    pub fused_step: bool,
    /// Make no update in a step whose loss or gradient is not finite, and go on; else such a step is an error.
    pub skip_not_finite: bool,
}

impl Default for Settings {
    /// The signatures' defaults.
    fn default() -> Self {
        Settings {
            length: Length::Epochs(1),
            batch: 1,
            accum: 1,
            lr: 2e-4,
            schedule: Schedule::Cosine,
            warmup: Warmup::Steps(0),
            weight_decay: 0.01,
            optim: Optim::AdamW,
            clip: Some(1.0),
            seed: 0,
            recompute: false,
            offload: false,
            free_logits: false,
            fused_step: false,
            skip_not_finite: false,
        }
    }
}

impl Settings {
    pub fn validate(&self) -> Result<()> {
        let sane = |what: &str, value: f64| {
            if value.is_finite() && value >= 0.0 {
                return Ok(());
            }
            Err(Fault::new("train.bad_value", format!("{what} is {value}; it has to be a number from 0 up")))
        };
        sane("the learning rate", self.lr)?;
        sane("the weight decay", self.weight_decay)?;
        if let Some(clip) = self.clip
            && !(clip.is_finite() && clip > 0.0)
        {
            return Err(Fault::new(
                "train.bad_value",
                format!("a gradient norm clipped to {clip} leaves nothing to learn from"),
            )
            .help("clip=1.0, or clip=none to leave gradients as they are"));
        }
        if let Warmup::Percent(percent) = self.warmup
            && !(0.0..=100.0).contains(&percent)
        {
            return Err(Fault::new("train.bad_value", format!("a warmup of {percent}% is no part of the steps")));
        }
        Ok(())
    }

    /// Warmup steps of `total`.
    pub fn warmup_steps(&self, total: u64) -> u64 {
        match self.warmup {
            Warmup::Steps(steps) => steps,
            Warmup::Percent(percent) => (percent / 100.0 * total as f64).ceil() as u64,
        }
    }

    /// Learning rate of optimizer step `step` (from 0) of `total`: `s / w` of the peak in warmup, then the schedule
    /// from the peak to 0 over the steps that are left.
    pub fn lr_at(&self, step: u64, total: u64) -> f64 {
        let warmup = self.warmup_steps(total);
        let factor = if step < warmup {
            step as f64 / warmup.max(1) as f64
        } else {
            let done = (step - warmup) as f64 / total.saturating_sub(warmup).max(1) as f64;
            match self.schedule {
                Schedule::Constant => 1.0,
                Schedule::Cosine => (0.5 * (1.0 + (std::f64::consts::PI * done).cos())).max(0.0),
                Schedule::Linear => (1.0 - done).max(0.0),
            }
        };
        self.lr * factor
    }
}
