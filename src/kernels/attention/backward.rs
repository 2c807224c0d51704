//! The backward pass: tasks are one chunk of a segment's keys with one query head.
//!
//! Heads of a group add to the same rows of dk and dv, chunks to the same rows of dq. They take turns, in one order, so
//! that sums do not depend on threads: a task begins when the head before it is done with its chunk, and the chunk
//! before it with its head. Tasks are dealt out in an order in which what they wait for comes first, so some thread can
//! always go on.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::matmul::Shared;
use super::super::shape::product;
use super::super::small::{Left, Mask, Small, lay, turn_into_panels};
use super::super::vector::{dot, exp, wide};
use super::forward::score;
use super::{BLOCK, CHUNK, Heads, Input, Outer, Segment, chunks, deal, in_panels, longest, padded, query_blocks};
use super::{scores_apart, slot, spread};
use crate::text::Result;

/// A chunk of a segment's keys and a query head.
struct Task<'a> {
    seg: &'a Segment,
    chunk: Range<usize>,
    head: usize,
    /// Which of `heads_done`, and which of `chunks_done`.
    keys: usize,
    queries: usize,
}

/// Who may go on.
struct Turns {
    /// Of each chunk and key-value head: query heads that have added to it.
    heads_done: Vec<AtomicUsize>,
    /// Of each segment and query head: chunks that have added to it.
    chunks_done: Vec<AtomicUsize>,
}

/// Elements of a task's rooms: keys and values turned; keys laid side by side, sums of dk and dv; probabilities and
/// their gradients; q, the outer gradient and dq of a block.
pub(super) fn rooms(h: &Heads, longest_k: usize) -> Result<[usize; 10]> {
    let (keys, padded) = (in_panels(longest_k.min(CHUNK))?, padded(h)?);
    let turned = product("scratch", keys, h.head_dim)?;
    let laid = product("scratch", keys, padded)?;
    let scores = BLOCK * scores_apart(longest_k);
    let block = product("scratch", BLOCK, padded)?;
    Ok([turned, turned, laid, laid, laid, scores, scores, block, block, block])
}

pub(super) fn run(
    input: &Input<'_>,
    outer: &Outer<'_>,
    segs: &[Segment],
    grads: [&Shared<'_>; 3],
    scratch: &mut [f32],
) -> Result<()> {
    let (heads, kv_heads, group) = (input.heads.heads, input.heads.kv_heads, input.heads.group());
    let (mut tasks, mut chunk_count) = (Vec::new(), 0);
    for (at, seg) in segs.iter().enumerate() {
        for chunk in chunks(seg.k.len()) {
            tasks.extend((0..heads).map(|head| Task {
                seg,
                chunk: chunk.clone(),
                head,
                keys: chunk_count * kv_heads + head / group,
                queries: at * heads + head,
            }));
            chunk_count += 1;
        }
    }
    // What a task waits for lies on the diagonal before its own.
    tasks.sort_by_key(|task| task.chunk.start / CHUNK + task.head % group);
    let counters = |n| std::iter::repeat_with(|| AtomicUsize::new(0)).take(n).collect();
    let turns = Turns { heads_done: counters(chunk_count * kv_heads), chunks_done: counters(segs.len() * heads) };
    let longest = longest(segs);
    let rooms = rooms(&input.heads, longest)?;
    let apart = (padded(&input.heads)?, scores_apart(longest));
    spread(scratch, slot(&input.heads, longest)?, tasks.len(), |task, scratch| {
        let task = &tasks[task];
        let _turn = turns.wait(task, task.head % group);
        backward(input, outer, task, grads, deal(scratch, rooms), apart);
    })
}

/// A turn that ends when it is dropped, even by a panic, so that nobody waits for it in vain.
struct Turn<'a>([&'a AtomicUsize; 2]);

impl Turns {
    fn wait(&self, task: &Task<'_>, member: usize) -> Turn<'_> {
        let (keys, queries) = (&self.heads_done[task.keys], &self.chunks_done[task.queries]);
        for (counter, before) in [(keys, member), (queries, task.chunk.start / CHUNK)] {
            let mut tries = 0u32;
            while counter.load(Ordering::Acquire) < before {
                tries = tries.saturating_add(1);
                if tries < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
            }
        }
        Turn([keys, queries])
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        for counter in self.0 {
            counter.fetch_add(1, Ordering::Release);
        }
    }
}

fn backward(
    input: &Input<'_>,
    outer: &Outer<'_>,
    task: &Task<'_>,
    [dq, dk, dv]: [&Shared<'_>; 3],
    [k_turned, v_turned, k_laid, dk_sums, dv_sums, p, ds, q_laid, d_o_laid, dq_block]: [&mut [f32]; 10],
    (padded, apart): (usize, usize),
) {
    let Task { seg, head, ref chunk, .. } = *task;
    let Heads { heads, head_dim: dim, .. } = input.heads;
    let (kv_head, scale) = (head / input.heads.group(), input.heads.scale());
    let keys = chunk.len();
    let key_rows = seg.k.start + chunk.start..seg.k.start + chunk.end;
    let (k, v) = (input.key(input.k, kv_head, key_rows.start), input.key(input.v, kv_head, key_rows.start));
    turn_into_panels(k_turned, k, input.kv_width, keys, dim);
    turn_into_panels(v_turned, v, input.kv_width, keys, dim);
    lay(k_laid, padded, k, input.kv_width, keys, dim);
    let mut first = true;
    // Rows before the first that sees a key of the chunk have no part in it.
    let before = (chunk.start + seg.q.len()).saturating_sub(seg.k.len());
    let from = seg.q.start + before / BLOCK * BLOCK;
    for (rows, seen) in query_blocks(seg, from..seg.q.end) {
        let n = rows.len();
        let seen = seen as isize - chunk.start as isize;
        // The keys that the block's last row sees.
        let keys = (seen + n as isize - 1).clamp(0, keys as isize) as usize;
        lay(q_laid, padded, input.query(input.q, head, rows.start), input.width, n, dim);
        lay(d_o_laid, padded, input.query(outer.d_o, head, rows.start), input.width, n, dim);
        let row = |of| Left { of, row: padded, depth: 1 };
        score(p, apart, row(q_laid), k_turned, &(0..keys), (n, dim), scale, seen);
        score(ds, apart, row(d_o_laid), v_turned, &(0..keys), (n, dim), 1.0, seen);
        wide!(for (i, row) in rows.clone().enumerate() {
            let d_o = &d_o_laid[i * padded..][..dim];
            let (lse, mean) = (outer.lse[row * heads + head], dot(d_o, input.query(outer.o, head, row)));
            let visible = (seen + i as isize).clamp(0, keys as isize) as usize;
            let (p, p_hidden) = p[i * apart..][..keys].split_at_mut(visible);
            let (ds, ds_hidden) = ds[i * apart..][..keys].split_at_mut(visible);
            for (p, ds) in p.iter_mut().zip(ds.iter_mut()) {
                *p = exp(*p - lse);
                *ds = *p * (*ds - mean);
            }
            p_hidden.fill(0.0);
            ds_hidden.fill(0.0);
        });
        // Of the chunk, the first block sees fewer keys than it has only where later ones see them.
        if first {
            dv_sums[..chunk.len() * padded].fill(0.0);
            dk_sums[..chunk.len() * padded].fill(0.0);
            first = false;
        }
        for (sums, left, right, alpha) in
            [(&mut *dv_sums, &*p, &*d_o_laid, 1.0), (&mut *dk_sums, &*ds, &*q_laid, scale)]
        {
            Small {
                c: sums,
                c_row: padded,
                left: Left { of: left, row: 1, depth: apart },
                right,
                right_row: padded,
                rows: keys,
                cols: padded,
                depth: n,
                alpha,
                add: true,
                mask: Mask::OverQueries { seen },
            }
            .multiply();
        }
        Small {
            c: dq_block,
            c_row: padded,
            left: Left { of: ds, row: apart, depth: 1 },
            right: k_laid,
            right_row: padded,
            rows: n,
            cols: padded,
            depth: keys,
            alpha: scale,
            add: false,
            mask: Mask::OverKeys { seen },
        }
        .multiply();
        // SAFETY: the rows belong to the task's segment and the columns to its head, and it is the chunk's turn.
        let mut dq = unsafe { input.query_mut(dq, head, &rows) };
        wide!(for i in 0..n {
            give(dq.row(i), &dq_block[i * padded..], chunk.start == 0);
        });
    }
    // SAFETY: key rows belong to one segment and chunk, the columns to one key-value head, and it is the head's turn.
    let (mut dk, mut dv) = unsafe { (input.key_mut(dk, kv_head, &key_rows), input.key_mut(dv, kv_head, &key_rows)) };
    let fresh = head.is_multiple_of(input.heads.group());
    wide!(for i in 0..keys {
        give(dk.row(i), &dk_sums[i * padded..], fresh);
        give(dv.row(i), &dv_sums[i * padded..], fresh);
    });
}

/// Writes or adds sums.
#[inline(always)]
fn give(to: &mut [f32], sums: &[f32], fresh: bool) {
    if fresh {
        to.copy_from_slice(&sums[..to.len()]);
    } else {
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
    }
}
