//! Cross-entropy of next tokens.

use super::clock::{Work, running};
use super::shape::{expect, product, wrong};
use super::spread::{blocks, blocks2, rows_per_block};
use super::vector::{exp_scaled, exp_sum, max, wide};
use super::{View, ViewMut};
use crate::text::Result;

/// The label of a position that counts in neither loss nor gradient.
pub const UNCOUNTED: u32 = u32::MAX;

/// For each row of `logits` `[n, vocab]`: lse = ln Σ e^logit and loss = `lse − logit[label]`, both `[n]`. The loss of an
/// [`UNCOUNTED`] row is 0.
pub fn cross_entropy(
    loss: ViewMut<'_>,
    lse: ViewMut<'_>,
    logits: View<'_>,
    labels: &[u32],
    vocab: usize,
) -> Result<()> {
    let _clock = running(Work::CrossEntropy);
    let (loss, lse, logits) = (loss.cpu::<f32>()?, lse.cpu::<f32>()?, logits.cpu::<f32>()?);
    check(logits.len(), labels, vocab)?;
    expect("loss", loss.len(), labels.len())?;
    expect("lse", lse.len(), labels.len())?;
    let step = rows_per_block(vocab);
    blocks2((loss, step), (lse, step), |i, loss, lse| {
        let first = i * step;
        let rows = logits[first * vocab..].chunks_exact(vocab).zip(&labels[first..]);
        for ((loss, lse), (row, label)) in loss.iter_mut().zip(lse).zip(rows) {
            let (top, sum) = wide!({
                let top = max(row);
                (top, exp_sum(row, top))
            });
            let whole = f64::from(top) + sum.ln();
            *lse = whole as f32;
            *loss = row.get(*label as usize).map_or(0.0, |logit| (whole - f64::from(*logit)) as f32);
        }
    });
    Ok(())
}

/// Turns `logits` `[n, vocab]` into their gradient (softmax − onehot(label)) · scale, from the `lse` that
/// [`cross_entropy`] found. An [`UNCOUNTED`] row becomes 0.
pub fn cross_entropy_gradient(
    logits: ViewMut<'_>,
    lse: View<'_>,
    labels: &[u32],
    scale: f32,
    vocab: usize,
) -> Result<()> {
    let _clock = running(Work::CrossEntropy);
    let (logits, lse) = (logits.cpu::<f32>()?, lse.cpu::<f32>()?);
    check(logits.len(), labels, vocab)?;
    expect("lse", lse.len(), labels.len())?;
    if logits.is_empty() {
        return Ok(());
    }
    blocks(logits, rows_per_block(vocab) * vocab, |start, logits| {
        let first = start / vocab;
        for ((row, label), lse) in logits.chunks_exact_mut(vocab).zip(&labels[first..]).zip(&lse[first..]) {
            if *label == UNCOUNTED {
                row.fill(0.0);
                continue;
            }
            // A row's gradient sums to zero, so the label's part is what the others add up to: 1 − p without the loss of
            // digits when p is nearly 1.
            let Some(target) = row.get_mut(*label as usize) else { continue };
            *target = f32::NEG_INFINITY;
            let others = wide!(exp_scaled(row, *lse, scale));
            row[*label as usize] = (-others * f64::from(scale)) as f32;
        }
    });
    Ok(())
}

fn check(logits: usize, labels: &[u32], vocab: usize) -> Result<()> {
    if vocab == 0 {
        return Err(wrong("a vocabulary of no tokens has no loss".to_owned()));
    }
    expect("logits", logits, product("logits", labels.len(), vocab)?)?;
    match labels.iter().find(|label| **label != UNCOUNTED && **label as usize >= vocab) {
        Some(label) => Err(wrong(format!("label {label} lies beyond the vocabulary of {vocab} tokens"))),
        None => Ok(()),
    }
}
