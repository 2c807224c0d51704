//! The forward pass of few query rows, as when one token follows another: keys are read once, so they stay as they lie.

use super::super::matmul::{Shared, Tile, TileMut, multiply_alone};
use super::super::vector::{exp, exp_in_place, max, wide};
use super::{BLOCK, Input, Segment, chunks, query_blocks};

/// Query rows from which turning the keys pays.
pub(super) const FEW: usize = 8;

pub(super) fn forward(
    input: &Input<'_>,
    seg: &Segment,
    head: usize,
    o: &Shared<'_>,
    lse: &Shared<'_>,
    scores: &mut [f32],
) {
    let (heads, dim) = (input.heads.heads, input.heads.head_dim);
    let kv_head = head / input.heads.group();
    for (rows, seen) in query_blocks(seg, seg.q.clone()) {
        let n = rows.len();
        let q = Tile::rows(input.query(input.q, head, rows.start), n, dim, input.width);
        // SAFETY: rows belong to one segment and the columns to one head, so to this task alone.
        let mut o = unsafe { input.query_mut(o, head, &rows) };
        let (mut tops, mut sums) = ([f32::NEG_INFINITY; BLOCK], [0.0f32; BLOCK]);
        for chunk in chunks(seen + n - 1) {
            let (keys, first) = (chunk.len(), chunk.start == 0);
            let row = seg.k.start + chunk.start;
            let k = Tile::rows(input.key(input.k, kv_head, row), keys, dim, input.kv_width).t();
            let scores = &mut scores[..n * keys];
            multiply_alone(TileMut::rows(scores, n, keys, keys), q, k, input.heads.scale(), 0.0);
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
            let p = Tile::rows(scores, n, keys, keys);
            let v = Tile::rows(input.key(input.v, kv_head, row), keys, dim, input.kv_width);
            multiply_alone(o.reborrow(), p, v, 1.0, if first { 0.0 } else { 1.0 });
        }
        // SAFETY: as above, for the head's column.
        let mut lse = unsafe { lse.tile(rows.start * heads + head, n, 1, heads) };
        for (i, (top, sum)) in tops.iter().zip(&sums).take(n).enumerate() {
            lse.row(i).fill(top + sum.ln());
            let inverse = 1.0 / sum;
            wide!(o.row(i).iter_mut().for_each(|o| *o *= inverse));
        }
    }
}
