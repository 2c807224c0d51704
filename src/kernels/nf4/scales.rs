//! Scales of blocks, plain or quantised in their turn to the 8-bit dynamic type of bitsandbytes.

use crate::kernels::dynamic;

/// Scales that share a scale of their own.
pub(super) const SCALE_BLOCK: usize = 256;

/// Where a block finds its scale.
pub(super) enum Scale<'a> {
    Plain(&'a [f32]),
    Double { codes: &'a [u8], absmax: &'a [f32], offset: f32, map: &'static [f32; 256] },
}

impl<'a> Scale<'a> {
    pub(super) fn double(codes: &'a [u8], absmax: &'a [f32], offset: f32) -> Self {
        Scale::Double { codes, absmax, offset, map: map() }
    }

    #[inline(always)]
    pub(super) fn of(&self, block: usize) -> f32 {
        match self {
            Scale::Plain(absmax) => absmax[block],
            Scale::Double { codes, absmax, offset, map } => {
                map[usize::from(codes[block])] * absmax[block / SCALE_BLOCK] + offset
            }
        }
    }
}

/// The values of the signed 8-bit dynamic type.
pub fn dynamic_map() -> [f32; 256] {
    *map()
}

fn map() -> &'static [f32; 256] {
    dynamic::signed()
}

/// Quantises plain scales to the dynamic type around their mean, which is returned; `absmax` has one scale for each
/// 256 of them.
pub(super) fn quantise(plain: &[f32], codes: &mut [u8], absmax: &mut [f32]) -> f32 {
    let offset = (plain.iter().map(|v| f64::from(*v)).sum::<f64>() / plain.len().max(1) as f64) as f32;
    let blocks = plain.chunks(SCALE_BLOCK).zip(codes.chunks_mut(SCALE_BLOCK)).zip(absmax);
    for ((plain, codes), absmax) in blocks {
        *absmax = plain.iter().fold(0.0, |top, v| (v - offset).abs().max(top));
        if *absmax == 0.0 {
            codes.fill(0);
            continue;
        }
        let inverse = 1.0 / *absmax;
        for (code, v) in codes.iter_mut().zip(plain) {
            *code = dynamic::nearest(map(), (v - offset) * inverse);
        }
    }
    offset
}
