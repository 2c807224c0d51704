//! Values to 4-bit codes and back.

use super::scales::Scale;
use crate::kernels::spread::{BLOCK, blocks2};
use crate::kernels::vector::wide;

/// The sixteen values: quantiles of the normal distribution, scaled to [−1, 1], with an exact zero.
pub(super) const VALUES: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// A code is the number of thresholds strictly below the value. These are bitsandbytes' own: midpoints of neighbouring
/// values, but that the last is one f32 below what rounding to even would give.
pub(super) const THRESHOLDS: [f32; 15] = [
    -0.848_096_4,
    -0.610_632_9,
    -0.459_995_27,
    -0.339_679_42,
    -0.234_607_4,
    -0.137_911_74,
    -0.045_525_018,
    0.039_790_15,
    0.120_255_25,
    0.203_521_25,
    0.292_013_76,
    0.389_312_54,
    0.501_663_45,
    0.642_786_9,
    0.861_478_4,
];

/// The code of zero, also the one that fills the last byte of an odd tensor.
const ZERO: u8 = 7;

/// The smallest scale that is divided by; the reciprocal of a smaller one can be infinite.
const LEAST: f32 = 1e-38;

/// Both values of a byte of codes.
const PAIRS: [[f32; 2]; 256] = {
    let mut pairs = [[0.0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [VALUES[byte >> 4], VALUES[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Quantises values that start at a block.
pub(super) fn quantise(values: &[f32], block: usize, codes: &mut [u8], absmax: &mut [f32]) {
    let step = (BLOCK / block).max(1);
    blocks2((absmax, step), (codes, step * block / 2), |i, absmax, codes| {
        let values = values[i * step * block..].chunks(block);
        for ((values, codes), absmax) in values.zip(codes.chunks_mut(block / 2)).zip(absmax) {
            *absmax = wide!(quantise_block(values, codes));
        }
    });
}

#[inline(always)]
fn quantise_block(values: &[f32], codes: &mut [u8]) -> f32 {
    // The largest bit pattern without its sign: as floats, a NaN would be lost.
    let top = values.iter().fold(0u32, |top, v| top.max(v.to_bits() & 0x7FFF_FFFF));
    let absmax = f32::from_bits(top);
    let inverse = 1.0 / absmax.max(LEAST);
    let code = |v: f32| THRESHOLDS.iter().map(|t| u8::from(*t < v * inverse)).sum::<u8>();
    let (pairs, rest) = values.as_chunks::<2>();
    for (byte, [high, low]) in codes.iter_mut().zip(pairs) {
        *byte = code(*high) << 4 | code(*low);
    }
    if let ([last], Some(byte)) = (rest, codes.last_mut()) {
        *byte = code(*last) << 4 | ZERO;
    }
    absmax
}

/// The values of elements `start..start + y.len()`.
pub(super) fn dequantise(y: &mut [f32], codes: &[u8], start: usize, block: usize, scale: &Scale<'_>) {
    wide!(dequantise_blocks(y, codes, start, block, scale));
}

#[inline(always)]
fn dequantise_blocks(y: &mut [f32], codes: &[u8], start: usize, block: usize, scale: &Scale<'_>) {
    let lead = (start.next_multiple_of(block) - start).min(y.len());
    let (first, y) = y.split_at_mut(lead);
    if !first.is_empty() {
        dequantise_part(first, codes, start, scale.of(start / block));
    }
    let start = start + lead;
    for (i, part) in y.chunks_mut(block).enumerate() {
        dequantise_part(part, codes, start + i * block, scale.of(start / block + i));
    }
}

#[inline(always)]
fn dequantise_part(y: &mut [f32], codes: &[u8], start: usize, scale: f32) {
    let (lead, y) = y.split_at_mut((start % 2).min(y.len()));
    if let [y] = lead {
        *y = VALUES[usize::from(codes[start / 2] & 15)] * scale;
    }
    let codes = &codes[start.div_ceil(2)..];
    let (pairs, tail) = y.as_chunks_mut::<2>();
    for ([high, low], byte) in pairs.iter_mut().zip(codes) {
        let pair = PAIRS[usize::from(*byte)];
        *high = pair[0] * scale;
        *low = pair[1] * scale;
    }
    if let [y] = tail {
        *y = VALUES[usize::from(codes[pairs.len()] >> 4)] * scale;
    }
}
