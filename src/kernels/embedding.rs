//! Looking tokens up in a table, and the way back.

use candle_core::DType;
use half::{bf16, f16};

use super::clock::{Work, running};
use super::shape::{expect, product, rows, wrong};
use super::spread::{blocks, rows_per_block};
use super::vector::wide;
use super::{Element, View, ViewMut};
use crate::text::Result;

/// `x[i] = table[ids[i]]`. `x` is `[n, width]` f32, `table` `[vocab, width]` f32, bf16 or f16, widened as it is read.
pub fn embedding(x: ViewMut<'_>, table: View<'_>, ids: &[u32], width: usize) -> Result<()> {
    let _clock = running(Work::Elementwise);
    match table.dtype() {
        DType::BF16 => look_up::<bf16>(x, table, ids, width, bf16::to_f32),
        DType::F16 => look_up::<f16>(x, table, ids, width, f16::to_f32),
        _ => look_up::<f32>(x, table, ids, width, |v| v),
    }
}

fn look_up<T: Element>(
    x: ViewMut<'_>,
    table: View<'_>,
    ids: &[u32],
    width: usize,
    widen: impl Fn(T) -> f32 + Sync,
) -> Result<()> {
    let (x, table) = (x.cpu::<f32>()?, table.cpu::<T>()?);
    let vocab = rows("table", table.len(), width)?;
    expect("x", x.len(), product("x", ids.len(), width)?)?;
    known(ids, vocab)?;
    blocks(x, rows_per_block(width) * width, |start, x| {
        for (x, id) in x.chunks_exact_mut(width).zip(&ids[start / width..]) {
            let at = *id as usize * width;
            for (x, v) in x.iter_mut().zip(&table[at..at + width]) {
                *x = widen(*v);
            }
        }
    });
    Ok(())
}

/// `dtable[ids[i]] += dx[i]`, in the order of i for an id that occurs more than once.
pub fn embedding_backward(dtable: ViewMut<'_>, dx: View<'_>, ids: &[u32], width: usize) -> Result<()> {
    let _clock = running(Work::Elementwise);
    let (dtable, dx) = (dtable.cpu::<f32>()?, dx.cpu::<f32>()?);
    let vocab = rows("dtable", dtable.len(), width)?;
    expect("dx", dx.len(), product("dx", ids.len(), width)?)?;
    known(ids, vocab)?;
    // Each task owns a range of the table and passes over all ids, so that no two tasks meet in a row.
    const TASKS: usize = 32;
    let owned = vocab.div_ceil(TASKS).max(rows_per_block(width));
    blocks(dtable, owned * width, |start, part| {
        let first = start / width;
        wide!({
            for (id, dx) in ids.iter().zip(dx.chunks_exact(width)) {
                let Some(row) = (*id as usize).checked_sub(first) else { continue };
                let Some(row) = part.get_mut(row * width..(row + 1) * width) else { continue };
                for (row, dx) in row.iter_mut().zip(dx) {
                    *row += dx;
                }
            }
        });
    });
    Ok(())
}

fn known(ids: &[u32], vocab: usize) -> Result<()> {
    match ids.iter().find(|id| **id as usize >= vocab) {
        Some(id) => Err(wrong(format!("token {id} lies beyond the table's {vocab} rows"))),
        None => Ok(()),
    }
}
