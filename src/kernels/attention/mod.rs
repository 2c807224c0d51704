//! Causal attention inside each segment, with grouped queries.
//!
//! Scores exist for one block of query rows against one chunk of keys at a time, so nothing of size heads × T × T does,
//! and what does stays in a core's cache; what lies behind the diagonal is passed over. Keys are turned once for many
//! blocks of query rows, so that no product packs its factors ([`small`](super::small)). What a task computes, and the
//! order in which tasks add to the same rows, follow from shapes alone: which thread takes a task, and in which scratch,
//! leaves no trace.

mod backward;
mod few;
mod forward;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::clock::{Work, running};
use super::matmul::{Shared, TileMut};
use super::shape::{expect, product, rows, wrong};
use super::small::{PANEL, VECTOR};
use super::{View, ViewMut};
use crate::text::Result;

/// Query rows scored at a time.
const BLOCK: usize = 64;
/// Keys scored at a time: whole panels.
const CHUNK: usize = 256;

/// The form of the heads. Rows of q are `heads · head_dim` wide, those of k and v `kv_heads · head_dim`; query heads
/// `g·heads/kv_heads …` share key-value head `g`. Scores are scaled by 1/√head_dim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
}

/// One sequence: its rows of q (and o), and its rows of k and v. The last query row sees the last key row, the one
/// before it one key less; so k may be longer than q, as when earlier keys are cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub q: Range<usize>,
    pub k: Range<usize>,
}

impl Heads {
    fn width(&self) -> Result<usize> {
        product("q", self.heads, self.head_dim)
    }

    fn kv_width(&self) -> Result<usize> {
        product("k", self.kv_heads, self.head_dim)
    }

    /// Query heads that share a key-value head.
    fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    fn scale(&self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }

    fn check(&self) -> Result<()> {
        if self.head_dim == 0 || self.kv_heads == 0 || self.heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            return Err(wrong(format!(
                "{} heads of width {} cannot share {} key-value heads evenly",
                self.heads, self.head_dim, self.kv_heads
            )));
        }
        Ok(())
    }
}

/// f32 elements of scratch that let `threads` threads work at once, forwards or backwards, on segments of at most
/// `longest_k` keys. Less scratch costs speed only, down to one thread's.
pub fn attention_scratch(h: &Heads, longest_k: usize, threads: usize) -> Result<usize> {
    h.check()?;
    product("scratch", slot(h, longest_k)?, threads.max(1))
}

/// Scratch of one task, forwards or backwards.
fn slot(h: &Heads, longest_k: usize) -> Result<usize> {
    let sum = |rooms: &[usize]| rooms.iter().try_fold(0usize, |sum, room| sum.checked_add(*room));
    let (there, back) = (sum(&forward::rooms(h, longest_k)?), sum(&backward::rooms(h, longest_k)?));
    let most = there.zip(back).map(|(there, back)| there.max(back));
    most.ok_or_else(|| wrong("`scratch` is too large to address".to_owned()))
}

/// The width of a head's rows in scratch: whole vectors.
fn padded(h: &Heads) -> Result<usize> {
    h.head_dim.checked_next_multiple_of(VECTOR).ok_or_else(|| wrong("`head_dim` is too large to address".to_owned()))
}

/// The keys of whole panels.
fn in_panels(keys: usize) -> Result<usize> {
    keys.checked_next_multiple_of(PANEL).ok_or_else(|| wrong("`k` is too large to address".to_owned()))
}

/// How far apart rows of scores are, so that they do not fall into the same lines of the cache.
fn scores_apart(longest_k: usize) -> usize {
    longest_k.min(CHUNK).next_multiple_of(VECTOR) + VECTOR
}

/// Parts of a slot, each as long as planned, front to back.
fn deal<const N: usize>(mut scratch: &mut [f32], rooms: [usize; N]) -> [&mut [f32]; N] {
    rooms.map(|room| {
        let (part, rest) = std::mem::take(&mut scratch).split_at_mut(room);
        scratch = rest;
        part
    })
}

/// o = softmax(q·kᵀ/√head_dim, causal)·v and lse = ln Σ e^score, `[n, heads]`, for the way back.
#[allow(clippy::too_many_arguments, reason = "the operands of the formula")]
pub fn attention(
    o: ViewMut<'_>,
    lse: ViewMut<'_>,
    q: View<'_>,
    k: View<'_>,
    v: View<'_>,
    h: &Heads,
    segs: &[Segment],
    scratch: ViewMut<'_>,
) -> Result<()> {
    let _clock = running(Work::Attention);
    h.check()?;
    let (o, lse, scratch) = (o.cpu::<f32>()?, lse.cpu::<f32>()?, scratch.cpu::<f32>()?);
    let input = Input { q: q.cpu()?, k: k.cpu()?, v: v.cpu()?, heads: *h, width: h.width()?, kv_width: h.kv_width()? };
    let n = input.check(segs)?;
    expect("o", o.len(), input.q.len())?;
    expect("lse", lse.len(), product("lse", n, h.heads)?)?;
    let (o, lse) = (Shared::new(o), Shared::new(lse));
    forward::run(&input, segs, &o, &lse, scratch)
}

/// Gradients of [`attention`] from `d_o`: overwrites `dq`, `dk` and `dv`. Probabilities are computed again from `lse`.
/// Segments share no rows of k.
#[allow(clippy::too_many_arguments, reason = "the operands of the formula")]
pub fn attention_backward(
    dq: ViewMut<'_>,
    dk: ViewMut<'_>,
    dv: ViewMut<'_>,
    d_o: View<'_>,
    o: View<'_>,
    lse: View<'_>,
    q: View<'_>,
    k: View<'_>,
    v: View<'_>,
    h: &Heads,
    segs: &[Segment],
    scratch: ViewMut<'_>,
) -> Result<()> {
    let _clock = running(Work::AttentionBackward);
    h.check()?;
    let (dq, dk, dv) = (dq.cpu::<f32>()?, dk.cpu::<f32>()?, dv.cpu::<f32>()?);
    let (scratch, d_o, o, lse) = (scratch.cpu::<f32>()?, d_o.cpu::<f32>()?, o.cpu::<f32>()?, lse.cpu::<f32>()?);
    let input = Input { q: q.cpu()?, k: k.cpu()?, v: v.cpu()?, heads: *h, width: h.width()?, kv_width: h.kv_width()? };
    let n = input.check(segs)?;
    for (name, len, wanted) in [
        ("dq", dq.len(), input.q.len()),
        ("d_o", d_o.len(), input.q.len()),
        ("o", o.len(), input.q.len()),
        ("dk", dk.len(), input.k.len()),
        ("dv", dv.len(), input.k.len()),
        ("lse", lse.len(), product("lse", n, h.heads)?),
    ] {
        expect(name, len, wanted)?;
    }
    let mut covered = 0;
    for seg in segs {
        if seg.k.start != covered {
            return Err(wrong("segments do not follow each other in the rows of `k`".to_owned()));
        }
        covered = seg.k.end;
    }
    expect("k", input.k.len(), product("k", covered, input.kv_width)?)?;
    let (dq, dk, dv) = (Shared::new(dq), Shared::new(dk), Shared::new(dv));
    let outer = Outer { d_o, o, lse };
    backward::run(&input, &outer, segs, [&dq, &dk, &dv], scratch)
}

/// The operands of both directions.
struct Input<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    heads: Heads,
    width: usize,
    kv_width: usize,
}

/// What the backward pass knows of the forward pass.
struct Outer<'a> {
    d_o: &'a [f32],
    o: &'a [f32],
    lse: &'a [f32],
}

impl Input<'_> {
    /// The number of query rows, once segments are known to cover them one after the other.
    fn check(&self, segs: &[Segment]) -> Result<usize> {
        let n = rows("q", self.q.len(), self.width)?;
        let keys = rows("k", self.k.len(), self.kv_width)?;
        expect("v", self.v.len(), self.k.len())?;
        let mut covered = 0;
        for Segment { q, k } in segs {
            if q.start != covered || q.end <= q.start || k.end < k.start || k.end > keys {
                return Err(wrong(format!(
                    "a segment of query rows {}–{} and key rows {}–{} does not continue {covered} rows of {n}",
                    q.start, q.end, k.start, k.end
                )));
            }
            if k.len() < q.len() {
                return Err(wrong(format!("a segment of {} query rows has only {} key rows", q.len(), k.len())));
            }
            covered = q.end;
        }
        if covered != n {
            return Err(wrong(format!("segments cover {covered} of {n} query rows")));
        }
        Ok(n)
    }

    /// Rows of a head from this one on, `width` apart.
    fn query<'a>(&self, of: &'a [f32], head: usize, row: usize) -> &'a [f32] {
        &of[row * self.width + head * self.heads.head_dim..]
    }

    /// Rows of a key-value head from this one on, `kv_width` apart.
    fn key<'a>(&self, of: &'a [f32], kv_head: usize, row: usize) -> &'a [f32] {
        &of[row * self.kv_width + kv_head * self.heads.head_dim..]
    }

    /// # Safety
    /// As for [`Shared::tile`].
    unsafe fn query_mut<'a>(&self, of: &Shared<'a>, head: usize, rows: &Range<usize>) -> TileMut<'a> {
        let start = rows.start * self.width + head * self.heads.head_dim;
        // SAFETY: the caller's promise.
        unsafe { of.tile(start, rows.len(), self.heads.head_dim, self.width) }
    }

    /// # Safety
    /// As for [`Shared::tile`].
    unsafe fn key_mut<'a>(&self, of: &Shared<'a>, kv_head: usize, rows: &Range<usize>) -> TileMut<'a> {
        let start = rows.start * self.kv_width + kv_head * self.heads.head_dim;
        // SAFETY: the caller's promise.
        unsafe { of.tile(start, rows.len(), self.heads.head_dim, self.kv_width) }
    }
}

fn longest(segs: &[Segment]) -> usize {
    segs.iter().map(|seg| seg.k.len()).max().unwrap_or(0)
}

/// Runs every task once, each worker in its own part of the scratch.
fn spread(scratch: &mut [f32], slot: usize, tasks: usize, run: impl Fn(usize, &mut [f32]) + Sync) -> Result<()> {
    if tasks == 0 {
        return Ok(());
    }
    let slots = scratch.len() / slot;
    if slots == 0 {
        return Err(wrong(format!("`scratch` has {} elements where at least {slot} are needed", scratch.len())));
    }
    let workers = slots.min(tasks).min(rayon::current_num_threads());
    let next = AtomicUsize::new(0);
    scratch.par_chunks_exact_mut(slot).take(workers).with_max_len(1).for_each(|slot| {
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                break;
            }
            run(task, slot);
        }
    });
    Ok(())
}

/// The blocks of some of a segment's query rows: which rows of q, and the keys that the first of them sees.
fn query_blocks(seg: &Segment, rows: Range<usize>) -> impl Iterator<Item = (Range<usize>, usize)> + use<> {
    let (before, first) = (seg.k.len() - seg.q.len(), seg.q.start);
    rows.clone().step_by(BLOCK).map(move |start| (start..rows.end.min(start + BLOCK), start - first + before + 1))
}

/// The chunks of the first `keys` keys.
fn chunks(keys: usize) -> impl Iterator<Item = Range<usize>> {
    (0..keys).step_by(CHUNK).map(move |start| start..keys.min(start + CHUNK))
}
