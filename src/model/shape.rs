//! What a model looks like: every size that decides its tensors and its arithmetic.

use super::family::Family;
use crate::text::{Fault, Result};

/// A decoder of the llama kind. All tensors, their sizes and the arithmetic follow from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    pub family: Family,
    /// Width of the residual stream.
    pub hidden: usize,
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Heads of keys and values; divides `heads`.
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Width inside the feed-forward part.
    pub ffn: usize,
    pub vocab: usize,
    /// The output head is the embedding table.
    pub tied: bool,
    /// The q, k, v and o projections carry biases; of the family `qwen2`, q, k and v do.
    pub attention_bias: bool,
    /// The gate, up and down projections carry biases.
    pub mlp_bias: bool,
    pub norm_eps: f64,
    pub rope: Rope,
    /// Positions the model was made for.
    pub max_positions: usize,
}

/// Rotary position embedding: base frequency and how it is stretched beyond the trained length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    pub theta: f64,
    pub scaling: Scaling,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaling {
    None,
    /// Every frequency divided by `factor`.
    Linear {
        factor: f64,
    },
    /// Llama 3.1's: long waves divided by `factor`, short ones kept, a ramp between.
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        original: f64,
    },
}

impl Shape {
    /// Columns of the queries: `heads · head_dim`.
    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Columns of the keys and of the values: `kv_heads · head_dim`.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Refuses sizes that cannot be a model, before anything is allocated or divided by them.
    pub fn validate(&self) -> Result<()> {
        // Far above any published model, far below what overflows byte arithmetic.
        let limits: [(&str, usize, usize); 8] = [
            ("hidden_size", self.hidden, 1 << 18),
            ("num_hidden_layers", self.layers, 1 << 12),
            ("num_attention_heads", self.heads, 1 << 14),
            ("num_key_value_heads", self.kv_heads, 1 << 14),
            ("head_dim", self.head_dim, 1 << 14),
            ("intermediate_size", self.ffn, 1 << 20),
            ("vocab_size", self.vocab, 1 << 24),
            ("max_position_embeddings", self.max_positions, 1 << 28),
        ];
        for (key, value, most) in limits {
            if value == 0 {
                return Err(Fault::new("config.bad_value", format!("`{key}` is 0, so there is no model")));
            }
            if value > most {
                return Err(Fault::new("config.bad_value", format!("`{key}` is {value}, beyond any model"))
                    .note(format!("the largest value that is accepted is {most}")));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(Fault::new(
                "config.bad_value",
                format!(
                    "`num_attention_heads` is {}, which {} key and value heads do not divide",
                    self.heads, self.kv_heads
                ),
            ));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(Fault::new(
                "config.bad_value",
                format!("`head_dim` is {}; rotary positions turn pairs, so it has to be even", self.head_dim),
            ));
        }
        let positive = |key: &str, value: f64| {
            if value.is_finite() && value > 0.0 {
                return Ok(());
            }
            Err(Fault::new("config.bad_value", format!("`{key}` is {value}; it has to be a number above 0")))
        };
        positive("rms_norm_eps", self.norm_eps)?;
        positive("rope_theta", self.rope.theta)?;
        match self.rope.scaling {
            Scaling::None => {}
            Scaling::Linear { factor } => positive("rope_scaling.factor", factor)?,
            Scaling::Llama3 { factor, low, high, original } => {
                positive("rope_scaling.factor", factor)?;
                positive("rope_scaling.low_freq_factor", low)?;
                positive("rope_scaling.high_freq_factor", high)?;
                positive("rope_scaling.original_max_position_embeddings", original)?;
                if high <= low {
                    return Err(Fault::new(
                        "config.bad_value",
                        format!("`rope_scaling.high_freq_factor` is {high}, not above `low_freq_factor` {low}"),
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Rope {
    /// Angular step of each pair of a head, `[head_dim / 2]`, in f32 and in transformers' order of operations.
    pub fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        let plain = (0..head_dim / 2).map(|pair| {
            let exponent = (2 * pair) as f32 / head_dim as f32;
            1.0 / self.theta.powf(f64::from(exponent)) as f32
        });
        match self.scaling {
            Scaling::None => plain.collect(),
            Scaling::Linear { factor } => plain.map(|f| f / factor as f32).collect(),
            Scaling::Llama3 { factor, low, high, original } => {
                plain.map(|f| llama3(f, factor as f32, low as f32, high as f32, original as f32)).collect()
            }
        }
    }
}

/// Llama 3.1's stretch of one frequency. A wave that fits the original context `high` times is kept, one that fits
/// it fewer than `low` times is divided by `factor`, and between the two it is interpolated.
fn llama3(frequency: f32, factor: f32, low: f32, high: f32, original: f32) -> f32 {
    let wave = 2.0 * std::f32::consts::PI / frequency;
    if wave > original / low {
        frequency / factor
    } else if wave < original / high {
        frequency
    } else {
        let smooth = (original / wave - low) / (high - low);
        (1.0 - smooth) * frequency / factor + smooth * frequency
    }
}
