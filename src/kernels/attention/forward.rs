//! The forward pass: tasks are some query rows of one head of one segment.

use std::ops::Range;

use super::super::matmul::Shared;
use super::super::shape::product;
use super::super::small::{Left, Mask, PANEL, Small, lay, turn_into_panels};
use super::super::vector::{exp, exp_in_place, max, wide};
use super::{BLOCK, Heads, Input, Segment, chunks, deal, few, in_panels, longest, padded, query_blocks};
use super::{scores_apart, slot, spread};
use crate::text::Result;

/// Query rows of a task: enough to pay for turning the keys again, few enough to give every thread work.
const PART: usize = 1024;

struct Task<'a> {
    seg: &'a Segment,
    rows: Range<usize>,
    head: usize,
}

/// Elements of a task's rooms: keys turned, values laid side by side, scores and output of a block.
pub(super) fn rooms(h: &Heads, longest_k: usize) -> Result<[usize; 4]> {
    let (keys, padded) = (in_panels(longest_k)?, padded(h)?);
    Ok([
        product("scratch", keys, h.head_dim)?,
        product("scratch", keys, padded)?,
        BLOCK * scores_apart(longest_k),
        product("scratch", BLOCK, padded)?,
    ])
}

pub(super) fn run(
    input: &Input<'_>,
    segs: &[Segment],
    o: &Shared<'_>,
    lse: &Shared<'_>,
    scratch: &mut [f32],
) -> Result<()> {
    let mut tasks = Vec::new();
    for seg in segs {
        for start in seg.q.clone().step_by(PART) {
            let rows = start..seg.q.end.min(start + PART);
            tasks.extend((0..input.heads.heads).map(|head| Task { seg, rows: rows.clone(), head }));
        }
    }
    // Later rows see more keys: the longest tasks come first, so that none is left to a single thread at the end.
    tasks.sort_by_key(|task| std::cmp::Reverse(task.rows.len() * seen_by_last(task)));
    let longest = longest(segs);
    let rooms = rooms(&input.heads, longest)?;
    let apart = (padded(&input.heads)?, scores_apart(longest));
    spread(scratch, slot(&input.heads, longest)?, tasks.len(), |task, scratch| match &tasks[task] {
        task if task.seg.q.len() < few::FEW => few::forward(input, task.seg, task.head, o, lse, scratch),
        task => forward(input, task, o, lse, deal(scratch, rooms), apart),
    })
}

/// Keys that a task's last row sees.
fn seen_by_last(task: &Task<'_>) -> usize {
    task.seg.k.len() - (task.seg.q.end - task.rows.end)
}

fn forward(
    input: &Input<'_>,
    task: &Task<'_>,
    o: &Shared<'_>,
    lse: &Shared<'_>,
    [turned, values, scores, out]: [&mut [f32]; 4],
    (padded, apart): (usize, usize),
) {
    let Task { seg, head, .. } = *task;
    let Heads { heads, head_dim: dim, .. } = input.heads;
    let kv_head = head / input.heads.group();
    let keys = seen_by_last(task);
    turn_into_panels(turned, input.key(input.k, kv_head, seg.k.start), input.kv_width, keys, dim);
    lay(values, padded, input.key(input.v, kv_head, seg.k.start), input.kv_width, keys, dim);
    for (rows, seen) in query_blocks(seg, task.rows.clone()) {
        let n = rows.len();
        let q = Left { of: input.query(input.q, head, rows.start), row: input.width, depth: 1 };
        // Largest score so far and the sum of exponentials below it.
        let (mut tops, mut sums) = ([f32::NEG_INFINITY; BLOCK], [0.0f32; BLOCK]);
        // The keys that the block's last row sees; the block's other rows see less, and zeros stand for the rest.
        for chunk in chunks(seen + n - 1) {
            let (keys, first) = (chunk.len(), chunk.start == 0);
            let seen = seen as isize - chunk.start as isize;
            score(scores, apart, q, turned, &chunk, (n, dim), input.heads.scale(), seen);
            wide!(for i in 0..n {
                let row = &mut scores[i * apart..][..keys];
                let (visible, hidden) = row.split_at_mut((seen + i as isize).clamp(0, keys as isize) as usize);
                hidden.fill(0.0);
                if visible.is_empty() {
                    continue;
                }
                let found = max(visible);
                let top = if found > tops[i] { found } else { tops[i] };
                let (factor, sum) = (exp(tops[i] - top), exp_in_place(visible, top));
                if !first && factor != 1.0 {
                    out[i * padded..][..padded].iter_mut().for_each(|o| *o *= factor);
                }
                sums[i] = if first { sum } else { sums[i] * factor + sum };
                tops[i] = top;
            });
            Small {
                c: out,
                c_row: padded,
                left: Left { of: scores, row: apart, depth: 1 },
                right: &values[chunk.start * padded..],
                right_row: padded,
                rows: n,
                cols: padded,
                depth: keys,
                alpha: 1.0,
                add: !first,
                mask: Mask::OverKeys { seen },
            }
            .multiply();
        }
        // SAFETY: rows belong to one task of a head, and the columns to the head, so to this task alone.
        let mut o = unsafe { input.query_mut(o, head, &rows) };
        // SAFETY: as above, for the head's column.
        let mut lse = unsafe { lse.tile(rows.start * heads + head, n, 1, heads) };
        for (i, out) in out.chunks_exact(padded).take(n).enumerate() {
            lse.row(i).fill(tops[i] + sums[i].ln());
            let inverse = 1.0 / sums[i];
            let o = o.row(i);
            wide!(o.iter_mut().zip(out).for_each(|(o, out)| *o = out * inverse));
        }
    }
}

/// Scores of `n` query rows against a chunk of turned keys, whose first is a panel's.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
pub(super) fn score(
    scores: &mut [f32],
    apart: usize,
    q: Left<'_>,
    turned: &[f32],
    chunk: &Range<usize>,
    (n, dim): (usize, usize),
    alpha: f32,
    seen: isize,
) {
    let panels = turned.chunks_exact(dim * PANEL).skip(chunk.start / PANEL);
    for (right, start) in panels.zip((0..chunk.len()).step_by(PANEL)) {
        Small {
            c: &mut scores[start..],
            c_row: apart,
            left: q,
            right,
            right_row: PANEL,
            rows: n,
            cols: PANEL.min(chunk.len() - start).next_multiple_of(super::VECTOR),
            depth: dim,
            alpha,
            add: false,
            mask: Mask::Scores { seen: seen - start as isize },
        }
        .multiply();
    }
}
