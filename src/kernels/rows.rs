//! Picking rows out of a matrix and putting them back.

use super::clock::{Work, running};
use super::shape::{expect, product, rows as count_rows, wrong};
use super::spread::{blocks, rows_per_block};
use super::{View, ViewMut};
use crate::text::Result;

/// `y[i] = x[rows[i]]`, rows of `width` elements.
pub fn gather_rows(y: ViewMut<'_>, x: View<'_>, rows: &[u32], width: usize) -> Result<()> {
    let _clock = running(Work::Elementwise);
    let (y, x) = (y.cpu::<f32>()?, x.cpu::<f32>()?);
    check("y", y.len(), "x", x.len(), rows, width)?;
    blocks(y, rows_per_block(width) * width, |start, y| {
        for (y, row) in y.chunks_exact_mut(width).zip(&rows[start / width..]) {
            let at = *row as usize * width;
            y.copy_from_slice(&x[at..at + width]);
        }
    });
    Ok(())
}

/// `y[rows[i]] = x[i]`, rows of `width` elements; other rows stay as they are, and of a row named twice the last stands.
pub fn scatter_rows(y: ViewMut<'_>, x: View<'_>, rows: &[u32], width: usize) -> Result<()> {
    let _clock = running(Work::Elementwise);
    let (y, x) = (y.cpu::<f32>()?, x.cpu::<f32>()?);
    check("x", x.len(), "y", y.len(), rows, width)?;
    for (x, row) in x.chunks_exact(width).zip(rows) {
        let at = *row as usize * width;
        y[at..at + width].copy_from_slice(x);
    }
    Ok(())
}

fn check(picked: &str, picked_len: usize, whole: &str, whole_len: usize, rows: &[u32], width: usize) -> Result<()> {
    let known = count_rows(whole, whole_len, width)?;
    expect(picked, picked_len, product(picked, rows.len(), width)?)?;
    match rows.iter().find(|row| **row as usize >= known) {
        Some(row) => Err(wrong(format!("row {row} lies beyond the {known} rows of `{whole}`"))),
        None => Ok(()),
    }
}
