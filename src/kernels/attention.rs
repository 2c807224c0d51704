//! Causal attention inside each segment, with grouped queries.
//!
//! Scores exist for one block of query rows against one chunk of keys at a time, so nothing of size heads × T × T does,
//! and what does stays in a core's cache; chunks behind the diagonal are passed over. Keys (and, on the way back, values)
//! are turned once for all blocks of query rows, since a product would else turn them for each. A task is one head of one
//! segment (on the way back: one key-value head with the query heads that share it), and what it computes depends on
//! nothing but the task: which thread takes it, and in which scratch, leaves no trace.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::clock::{Work, running};
use super::matmul::{Shared, Tile, TileMut, multiply_alone};
use super::shape::{expect, product, rows, wrong};
use super::vector::{dot, exp, exp_in_place, max, wide};
use super::{View, ViewMut};
use crate::text::Result;

/// Query rows scored at a time.
const BLOCK: usize = 64;
/// Keys scored at a time; fewer than a block's that are left over join the chunk before them.
const CHUNK: usize = 512;
/// Query rows from which turning the keys pays.
const TURNED: usize = 64;
/// Rows of turned keys are whole vectors and one more apart, so that they do not fall into the same lines of the cache.
const VECTOR: usize = 16;

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

/// Scratch of one task: scores and their gradients for a block of query rows, keys and values turned.
fn slot(h: &Heads, longest_k: usize) -> Result<usize> {
    let scores = 2 * BLOCK * longest_k.min(CHUNK + BLOCK);
    let apart = longest_k.checked_add(2 * VECTOR).ok_or_else(|| wrong("`k` is too large to address".to_owned()))?;
    let turned = product("scratch", product("scratch", 2, h.head_dim)?, apart)?;
    turned.checked_add(scores).ok_or_else(|| wrong("`scratch` is too large to address".to_owned()))
}

/// How far apart rows of turned keys are.
fn apart(keys: usize) -> usize {
    keys.next_multiple_of(VECTOR) + VECTOR
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
    spread(scratch, slot(h, longest(segs))?, segs.len() * h.heads, |task, scores| {
        forward(&input, &segs[task / h.heads], task % h.heads, &o, &lse, scores);
    })
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
    spread(scratch, slot(h, longest(segs))?, segs.len() * h.kv_heads, |task, scratch| {
        backward(&input, &outer, &segs[task / h.kv_heads], task % h.kv_heads, [&dq, &dk, &dv], scratch);
    })
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

    fn query<'a>(&self, of: &'a [f32], head: usize, rows: &Range<usize>) -> Tile<'a> {
        let start = rows.start * self.width + head * self.heads.head_dim;
        Tile::rows(&of[start..], rows.len(), self.heads.head_dim, self.width)
    }

    fn key<'a>(&self, of: &'a [f32], kv_head: usize, rows: &Range<usize>) -> Tile<'a> {
        let start = rows.start * self.kv_width + kv_head * self.heads.head_dim;
        Tile::rows(&of[start..], rows.len(), self.heads.head_dim, self.kv_width)
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

    /// One row of one head.
    fn row<'a>(&self, of: &'a [f32], head: usize, row: usize) -> &'a [f32] {
        let start = row * self.width + head * self.heads.head_dim;
        &of[start..start + self.heads.head_dim]
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

/// The blocks of a segment's query rows: which rows of q, and the keys that the first of them sees.
fn query_blocks(seg: &Segment) -> impl Iterator<Item = (Range<usize>, usize)> {
    let before = seg.k.len() - seg.q.len();
    let first = seg.q.start;
    seg.q.clone().step_by(BLOCK).map({
        let end = seg.q.end;
        move |start| (start..end.min(start + BLOCK), start - first + before + 1)
    })
}

/// The chunks of the first `keys` keys.
fn chunks(keys: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let end = if keys - start < CHUNK + BLOCK { keys } else { start + CHUNK };
        let chunk = start..end;
        start = end;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// Keys or values of a segment and a head as the right factor of scores, `[head_dim, keys]`: turned into scratch where
/// many query rows read them, else as they lie.
enum Across<'a> {
    Turned { room: &'a [f32], apart: usize },
    AsTheyLie { of: &'a [f32] },
}

impl<'a> Across<'a> {
    fn new(input: &Input<'_>, of: &'a [f32], seg: &Segment, kv_head: usize, room: &'a mut [f32]) -> Self {
        if seg.q.len() < TURNED {
            return Across::AsTheyLie { of };
        }
        let (dim, apart, keys) = (input.heads.head_dim, apart(seg.k.len()), seg.k.len());
        let room = &mut room[..dim * apart];
        for first in (0..keys).step_by(VECTOR) {
            let some = VECTOR.min(keys - first);
            let start = (seg.k.start + first) * input.kv_width + kv_head * dim;
            for d in 0..dim {
                for (i, to) in room[d * apart + first..][..some].iter_mut().enumerate() {
                    *to = of[start + i * input.kv_width + d];
                }
            }
        }
        Across::Turned { room, apart }
    }

    fn of(&self, input: &Input<'a>, seg: &Segment, kv_head: usize, chunk: &Range<usize>) -> Tile<'a> {
        match *self {
            Across::Turned { room, apart } => {
                Tile::rows(&room[chunk.start..], input.heads.head_dim, chunk.len(), apart)
            }
            Across::AsTheyLie { of } => input.key(of, kv_head, &rows_of(seg, chunk)).t(),
        }
    }
}

/// The rows of k that a chunk of a segment's keys are.
fn rows_of(seg: &Segment, chunk: &Range<usize>) -> Range<usize> {
    seg.k.start + chunk.start..seg.k.start + chunk.end
}

fn forward(input: &Input<'_>, seg: &Segment, head: usize, o: &Shared<'_>, lse: &Shared<'_>, scratch: &mut [f32]) {
    let heads = input.heads.heads;
    let kv_head = head / input.heads.group();
    let (scores, turned) = scratch.split_at_mut(scores_of(seg));
    let across = Across::new(input, input.k, seg, kv_head, turned);
    for (rows, seen) in query_blocks(seg) {
        let q = input.query(input.q, head, &rows);
        // SAFETY: rows belong to one segment and the columns to one head, so to this task alone.
        let mut o = unsafe { input.query_mut(o, head, &rows) };
        // Largest score so far and the sum of exponentials below it.
        let (mut tops, mut sums) = ([f32::NEG_INFINITY; BLOCK], [0.0f32; BLOCK]);
        // The keys that the block's last row sees; the block's other rows see less, and zeros stand for the rest.
        for chunk in chunks(seen + rows.len() - 1) {
            let (keys, first) = (chunk.len(), chunk.start == 0);
            let scores = &mut scores[..rows.len() * keys];
            let k = across.of(input, seg, kv_head, &chunk);
            multiply_alone(TileMut::rows(scores, rows.len(), keys, keys), q, k, input.heads.scale(), 0.0);
            for (i, row) in scores.chunks_exact_mut(keys).enumerate() {
                let (visible, hidden) = row.split_at_mut((seen + i).saturating_sub(chunk.start).min(keys));
                hidden.fill(0.0);
                if visible.is_empty() {
                    continue;
                }
                let (top, factor, sum) = wide!({
                    let found = max(visible);
                    let top = if found > tops[i] { found } else { tops[i] };
                    (top, exp(tops[i] - top), exp_in_place(visible, top))
                });
                if !first && factor != 1.0 {
                    wide!(o.row(i).iter_mut().for_each(|o| *o *= factor));
                }
                sums[i] = if first { sum } else { sums[i] * factor + sum };
                tops[i] = top;
            }
            let (p, v) =
                (Tile::rows(scores, rows.len(), keys, keys), input.key(input.v, kv_head, &rows_of(seg, &chunk)));
            multiply_alone(o.reborrow(), p, v, 1.0, if first { 0.0 } else { 1.0 });
        }
        // SAFETY: as above, for the head's column.
        let mut lse = unsafe { lse.tile(rows.start * heads + head, rows.len(), 1, heads) };
        for (i, (top, sum)) in tops.iter().zip(&sums).take(rows.len()).enumerate() {
            lse.row(i).fill(top + sum.ln());
            let inverse = 1.0 / sum;
            wide!(o.row(i).iter_mut().for_each(|o| *o *= inverse));
        }
    }
}

/// Scratch for the scores and their gradients of a segment's blocks; what follows is for turned keys.
fn scores_of(seg: &Segment) -> usize {
    2 * BLOCK * seg.k.len().min(CHUNK + BLOCK)
}

fn backward(
    input: &Input<'_>,
    outer: &Outer<'_>,
    seg: &Segment,
    kv_head: usize,
    [dq, dk, dv]: [&Shared<'_>; 3],
    scratch: &mut [f32],
) {
    let (group, scale) = (input.heads.group(), input.heads.scale());
    for of in [dk, dv] {
        // SAFETY: key rows belong to one segment and the columns to one key-value head, so to this task alone; of each
        // output, the task uses one tile at a time.
        let mut tile = unsafe { input.key_mut(of, kv_head, &seg.k) };
        (0..seg.k.len()).for_each(|row| tile.row(row).fill(0.0));
    }
    let (scores, turned) = scratch.split_at_mut(scores_of(seg));
    let (scores, gradients) = scores.split_at_mut(scores.len() / 2);
    let (k_room, v_room) = turned.split_at_mut(turned.len() / 2);
    let across_k = Across::new(input, input.k, seg, kv_head, k_room);
    let across_v = Across::new(input, input.v, seg, kv_head, v_room);
    for head in kv_head * group..(kv_head + 1) * group {
        for (rows, seen) in query_blocks(seg) {
            let n = rows.len();
            let (q, d_o) = (input.query(input.q, head, &rows), input.query(outer.d_o, head, &rows));
            let mut means = [0.0f32; BLOCK];
            for (mean, row) in means.iter_mut().zip(rows.clone()) {
                *mean = wide!(dot(input.row(outer.d_o, head, row), input.row(outer.o, head, row)));
            }
            // SAFETY: the rows and columns of dq belong to one segment and to a head of this task's group.
            let mut dq = unsafe { input.query_mut(dq, head, &rows) };
            for chunk in chunks(seen + n - 1) {
                let (keys, area) = (chunk.len(), n * chunk.len());
                let (scores, gradients) = (&mut scores[..area], &mut gradients[..area]);
                let (k, v) = (across_k.of(input, seg, kv_head, &chunk), across_v.of(input, seg, kv_head, &chunk));
                multiply_alone(TileMut::rows(scores, n, keys, keys), q, k, scale, 0.0);
                multiply_alone(TileMut::rows(gradients, n, keys, keys), d_o, v, 1.0, 0.0);
                for (i, (p, dp)) in scores.chunks_exact_mut(keys).zip(gradients.chunks_exact_mut(keys)).enumerate() {
                    let (lse, mean) = (outer.lse[(rows.start + i) * input.heads.heads + head], means[i]);
                    let visible = (seen + i).saturating_sub(chunk.start).min(keys);
                    let (p, p_hidden) = p.split_at_mut(visible);
                    let (dp, dp_hidden) = dp.split_at_mut(visible);
                    wide!({
                        exp_in_place(p, lse);
                        for (dp, p) in dp.iter_mut().zip(p.iter()) {
                            *dp = p * (*dp - mean) * scale;
                        }
                    });
                    p_hidden.fill(0.0);
                    dp_hidden.fill(0.0);
                }
                let (p, ds) = (Tile::rows(scores, n, keys, keys), Tile::rows(gradients, n, keys, keys));
                let key_rows = rows_of(seg, &chunk);
                // SAFETY: as above for key rows.
                let (dv, dk) =
                    unsafe { (input.key_mut(dv, kv_head, &key_rows), input.key_mut(dk, kv_head, &key_rows)) };
                multiply_alone(dv, p.t(), d_o, 1.0, 1.0);
                multiply_alone(dk, ds.t(), q, 1.0, 1.0);
                let beta = if chunk.start == 0 { 0.0 } else { 1.0 };
                multiply_alone(dq.reborrow(), ds, input.key(input.k, kv_head, &key_rows), 1.0, beta);
            }
        }
    }
}
