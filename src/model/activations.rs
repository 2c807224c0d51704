//! Every buffer that a pass through the model writes, taken once for the largest micro-batch and used by all.
//!
//! The set is generic over what a buffer is: made with a pool it runs, made with `()` it is the plan.

use super::adapter::LoraSettings;
use super::batch::{Extent, Laid};
use super::offload::{Away, ROUND, near, waiting};
use super::parts::{Make, Planned, plan, take};
use super::shape::Shape;
use super::tensors::Proj;
use super::weight::{Float, Form, Held, scratch_elements};
use super::windows::{largest_window, rows_per_window};
use crate::kernels::{self, Buf, Heads, Pool, RopeTable, Spec};
use crate::text::{Fault, Result};

/// What of the forward pass is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All that the backward pass reads.
    All,
    /// The input of each block; the backward pass makes the rest again, block by block.
    Inputs,
    /// Nothing: no backward pass follows.
    Nothing,
    /// Nothing but keys and values, for this many positions of one row: tokens are generated.
    Cache { positions: usize },
}

/// What a set of buffers is for.
#[derive(Debug, Clone)]
pub struct Need<'a> {
    pub keep: Keep,
    /// What is kept waits in RAM, but for the blocks that are worked on; see [`offload`](super::offload).
    pub offload: bool,
    pub extent: Extent,
    /// The adapter that the pass goes through.
    pub lora: Option<&'a LoraSettings>,
    /// Hold the logits of all counted tokens until the backward pass, instead of a window of them.
    pub keep_logits: bool,
    /// Threads that attention is planned for.
    pub threads: usize,
}

impl Need<'_> {
    fn trains(&self) -> bool {
        matches!(self.keep, Keep::All | Keep::Inputs)
    }

    fn dropout(&self) -> bool {
        self.trains() && self.lora.is_some_and(|lora| lora.dropout > 0.0)
    }
}

/// What one block keeps for its backward pass, beside its input; n tokens.
pub(crate) struct Block<T> {
    /// 1/rms of the attention norm's input, `[n]`.
    pub attention_rstd: T,
    /// Queries after rotation, `[n, heads · head_dim]`.
    pub q: T,
    /// Attention's output, as `q`.
    pub o: T,
    /// log of the sum of exponentials of each query row and head, `[n, heads]`.
    pub lse: T,
    /// The residual stream between the block's two halves, `[n, hidden]`.
    pub middle: T,
    pub mlp_rstd: T,
    /// `[n, ffn]`.
    pub gate: T,
    pub up: T,
    /// `A x` of each adapted layer, `[n, rank]`, by [`Proj::ALL`].
    pub low: [Option<T>; 7],
}

impl<T> Block<T> {
    pub fn make(holding: &'static str, shape: &Shape, need: &Need<'_>, make: Make<'_, T>) -> Result<Self> {
        let n = need.extent.tokens;
        let (hidden, q, ffn) = (shape.hidden, shape.q_width(), shape.ffn);
        let mut f32s = |shape: &[usize]| make(holding, Spec::f32(shape));
        let mut low = [const { None }; 7];
        if let Some(lora) = need.lora {
            for proj in Proj::ALL.into_iter().filter(|proj| lora.targets.contains(proj)) {
                low[proj.index()] = Some(f32s(&[n, lora.rank])?);
            }
        }
        Ok(Block {
            attention_rstd: f32s(&[n])?,
            q: f32s(&[n, q])?,
            o: f32s(&[n, q])?,
            lse: f32s(&[n, shape.heads])?,
            middle: f32s(&[n, hidden])?,
            mlp_rstd: f32s(&[n])?,
            gate: f32s(&[n, ffn])?,
            up: f32s(&[n, ffn])?,
            low,
        })
    }

    /// Every tensor, in a fixed order; each has a row for each token.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        let Block { attention_rstd, q, o, lse, middle, mlp_rstd, gate, up, low } = self;
        [attention_rstd, q, o, lse, middle, mlp_rstd, gate, up].into_iter().chain(low.iter().flatten())
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let Block { attention_rstd, q, o, lse, middle, mlp_rstd, gate, up, low } = self;
        [attention_rstd, q, o, lse, middle, mlp_rstd, gate, up].into_iter().chain(low.iter_mut().flatten())
    }
}

/// Room that each block uses anew. In the backward pass the wide ones serve several tensors one after the other; who
/// lives where is said in `backward`.
pub(crate) struct Work<T> {
    /// Output of a norm, `[n, hidden]`.
    pub normed: T,
    /// `silu(gate) · up`, `[n, max(ffn, heads · head_dim)]`.
    pub wide: T,
    /// Room to widen weights into.
    pub weight: Option<T>,
    /// Adapter input after dropout, `[n, max(hidden, ffn, heads · head_dim)]`.
    pub dropped: Option<T>,
    pub attention: T,
}

/// Gradients that flow through the blocks.
pub(crate) struct Flow<T> {
    /// Of the residual stream, `[n, hidden]`.
    pub d: T,
    /// Of a norm's output, `[n, hidden]`.
    pub d_normed: T,
    /// `[n, max(ffn, heads · head_dim)]` each.
    pub wide: [T; 2],
    /// `[n, kv_heads · head_dim]` each.
    pub dk: T,
    pub dv: T,
    pub low: Option<LowFlow<T>>,
}

/// What an adapter's gradients need.
pub(crate) struct LowFlow<T> {
    /// Gradient of the adapter's inner columns, `[n, rank]`.
    pub d: T,
    /// B the other way round, `[rank, widest output]`.
    pub turned: T,
}

/// From the residual stream to the loss; c counted tokens.
pub(crate) struct Top<T> {
    /// The counted rows of the residual stream, `[c, hidden]`.
    pub rows: T,
    pub rstd: T,
    /// Those rows after the last norm, `[c, hidden]`.
    pub normed: T,
    /// Gradient of `normed`; only where a backward pass follows.
    pub d_normed: Option<T>,
    /// Loss of each counted token, `[c]`.
    pub loss: T,
    pub lse: T,
    /// `[window or c, vocab]`.
    pub logits: T,
    /// `logits` has room for all counted tokens.
    pub kept: bool,
}

pub(crate) struct Activations<T = Buf> {
    /// Inputs of the blocks and, last, the output of the last; or a few that take turns ([`Self::x_at`]); or one that
    /// every block changes in place.
    pub xs: Vec<T>,
    /// Keys and values after rotation, `[n or positions, kv_heads · head_dim]`: of each block, or of a few in turns.
    pub kv: Vec<(T, T)>,
    pub blocks: Vec<Block<T>>,
    /// What waits in RAM, by block: none where nothing is offloaded.
    pub away: Vec<Away<T>>,
    pub work: Work<T>,
    pub flow: Option<Flow<T>>,
    pub top: Top<T>,
}

/// The set as it runs.
pub(crate) struct Pass {
    pub set: Activations,
    pub rope: RopeTable,
    pub keep: Keep,
    /// `set.away` holds what the last forward pass put there.
    pub filled: bool,
    extent: Extent,
}

const ROTARY: &str = "rotary tables";

impl<T> Activations<T> {
    /// The one description of the set.
    pub fn make(shape: &Shape, form: Form, need: &Need<'_>, make: Make<'_, T>) -> Result<Activations<T>> {
        let Extent { tokens: n, counted: c, longest } = need.extent;
        let (hidden, kv) = (shape.hidden, shape.kv_width());
        let wide = shape.ffn.max(shape.q_width());
        let (inputs, caches, blocks) = match need.keep {
            Keep::All => (shape.layers + 1, shape.layers, shape.layers),
            Keep::Inputs => (shape.layers + 1, 1, 1),
            Keep::Nothing => (1, 1, 1),
            Keep::Cache { .. } => (1, shape.layers, 1),
        };
        let (inputs, caches, blocks) = match need.offload {
            true => (inputs.min(ROUND), near(caches), near(blocks)),
            false => (inputs, caches, blocks),
        };
        let saved = if need.trains() { "saved activations" } else { "activations" };
        // With `recompute` the inner activations of one block are made again in the room of the last.
        let inner = if need.keep == Keep::Inputs { "block activations" } else { saved };
        let (cache, cached) = match need.keep {
            Keep::Cache { positions } => ("kv cache", positions),
            _ => (inner, n),
        };
        let xs = (0..inputs).map(|_| make(saved, Spec::f32(&[n, hidden]))).collect::<Result<Vec<T>>>()?;
        let mut pairs = Vec::with_capacity(caches);
        for _ in 0..caches {
            pairs.push(pair(cache, cached, kv, make)?);
        }
        let mut kept = Vec::with_capacity(blocks);
        for _ in 0..blocks {
            kept.push(Block::make(inner, shape, need, make)?);
        }
        let mut away = Vec::new();
        if need.offload {
            for _ in 0..waiting(shape.layers) {
                away.push(Away::make(shape, need, make)?);
            }
        }
        let mut f32s = |holding, shape: &[usize]| make(holding, Spec::f32(shape));
        let work = Work {
            normed: f32s("block scratch", &[n, hidden])?,
            wide: f32s("block scratch", &[n, wide])?,
            weight: match weight_scratch(shape, form) {
                0 => None,
                elements => Some(f32s("weight scratch", &[elements])?),
            },
            dropped: match need.dropout() {
                true => Some(f32s("block scratch", &[n, wide.max(hidden)])?),
                false => None,
            },
            attention: {
                let elements = kernels::attention_scratch(&heads(shape), longest, need.threads)?;
                f32s("attention scratch", &[elements])?
            },
        };
        let flow = match need.trains() {
            false => None,
            true => Some(Flow {
                d: f32s("activation gradients", &[n, hidden])?,
                d_normed: f32s("activation gradients", &[n, hidden])?,
                wide: [f32s("activation gradients", &[n, wide])?, f32s("activation gradients", &[n, wide])?],
                dk: f32s("activation gradients", &[n, kv])?,
                dv: f32s("activation gradients", &[n, kv])?,
                low: match need.lora {
                    Some(lora) => Some(LowFlow {
                        d: f32s("activation gradients", &[n, lora.rank])?,
                        turned: f32s("activation gradients", &[lora.rank, wide.max(hidden)])?,
                    }),
                    None => None,
                },
            }),
        };
        let per = rows_per_window(shape.vocab);
        let logits = if need.keep_logits { c } else { largest_window(c, per) };
        let top = Top {
            rows: f32s("counted rows", &[c, hidden])?,
            rstd: f32s("counted rows", &[c])?,
            normed: f32s("counted rows", &[c, hidden])?,
            d_normed: match need.trains() {
                true => Some(f32s("counted rows", &[c, hidden])?),
                false => None,
            },
            loss: f32s("counted rows", &[c])?,
            lse: f32s("counted rows", &[c])?,
            logits: f32s("logits", &[logits, shape.vocab])?,
            kept: need.keep_logits,
        };
        Ok(Activations { xs, kv: pairs, blocks: kept, away, work, flow, top })
    }

    /// Where in `xs` a block's input lies: the output of the block before it.
    pub fn x_at(&self, layer: usize) -> usize {
        layer % self.xs.len().max(1)
    }
}

/// Keys and values.
pub(super) fn pair<T>(holding: &'static str, rows: usize, width: usize, make: Make<'_, T>) -> Result<(T, T)> {
    Ok((make(holding, Spec::f32(&[rows, width]))?, make(holding, Spec::f32(&[rows, width]))?))
}

/// What a pass takes, by holding.
pub(crate) fn specs(shape: &Shape, form: Form, need: &Need<'_>) -> Result<Planned> {
    let mut list = plan(|make| Activations::make(shape, form, need, make))?;
    let table = RopeTable::spec(need.extent.longest, shape.head_dim);
    list.extend([(ROTARY, table.clone()), (ROTARY, table)]);
    Ok(list)
}

impl Pass {
    /// Takes the set out of a pool.
    pub fn take(shape: &Shape, form: Form, need: &Need<'_>, pool: &dyn Pool) -> Result<Pass> {
        let Extent { tokens, counted, longest } = need.extent;
        if tokens == 0 || counted == 0 || longest == 0 {
            return Err(Fault::new("train.nothing", "there is no token to learn from or to score")
                .note(format!("the largest batch has {tokens} tokens, of which {counted} count")));
        }
        if longest > shape.max_positions {
            let most = shape.max_positions;
            return Err(Fault::new(
                "model.too_long",
                format!("a row has {longest} tokens, and the model was made for {most}"),
            )
            .help(format!("max_len={most} long=truncate")));
        }
        let set = take(pool, |make| Activations::make(shape, form, need, make))?;
        let frequencies = shape.rope.frequencies(shape.head_dim);
        let rope = kernels::rope_tables(&frequencies, 1.0, longest, pool, ROTARY)?;
        Ok(Pass { set, rope, keep: need.keep, filled: false, extent: need.extent })
    }

    /// Refuses a batch that the buffers were not taken for.
    pub fn admit(&self, batch: &Laid<'_>) -> Result<()> {
        let (is, most) = (batch.extent(), self.extent);
        if is.tokens <= most.tokens && is.counted <= most.counted && is.longest <= most.longest {
            return Ok(());
        }
        Err(Fault::new("train.extent", "a batch is larger than the plan's largest").note(format!(
            "tokens {} of {}, counted {} of {}, longest row {} of {}",
            is.tokens, most.tokens, is.counted, most.counted, is.longest, most.longest
        )))
    }
}

pub(crate) fn heads(shape: &Shape) -> Heads {
    Heads { heads: shape.heads, kv_heads: shape.kv_heads, head_dim: shape.head_dim }
}

/// f32 elements that the widest window of any narrow weight takes.
fn weight_scratch(shape: &Shape, form: Form) -> usize {
    let linear = match form.weights {
        Held::Float(Float::F32) => 0,
        _ => {
            Proj::ALL.iter().map(|p| p.dims(shape)).map(|(rows, cols)| scratch_elements(rows, cols)).max().unwrap_or(0)
        }
    };
    let head = match form.embeddings {
        Float::F32 => 0,
        _ => scratch_elements(shape.vocab, shape.hidden),
    };
    linear.max(head)
}
