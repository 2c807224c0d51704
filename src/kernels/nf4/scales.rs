//! Scales of blocks, plain or quantised in their turn to the 8-bit dynamic type of bitsandbytes.

use std::sync::OnceLock;

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

/// The values of the signed 8-bit dynamic type, ascending: a sign, an exponent of base ten that takes 0 to 6 bits, and
/// a linear fraction in what is left (Dettmers, "8-bit approximations for parallelism in deep learning", 2016), beside
/// an exact 0 and 1. Equal to bitsandbytes' `create_dynamic_map()`.
pub fn dynamic_map() -> [f32; 256] {
    *map()
}

fn map() -> &'static [f32; 256] {
    static MAP: OnceLock<[f32; 256]> = OnceLock::new();
    MAP.get_or_init(make_map)
}

fn make_map() -> [f32; 256] {
    let mut values = vec![0.0f32, 1.0];
    for exponent in 0..7 {
        let edges = spaced((1usize << exponent) + 1);
        let power = 10f64.powi(exponent - 6) as f32;
        for pair in edges.windows(2) {
            let mean = (pair[0] + pair[1]) / 2.0;
            values.extend([power * mean, -power * mean]);
        }
    }
    values.sort_by(f32::total_cmp);
    std::array::from_fn(|i| values.get(i).copied().unwrap_or(1.0))
}

/// `count` values from 0.1 to 1 as `torch.linspace` rounds them: the second half is counted down from the end.
fn spaced(count: usize) -> Vec<f32> {
    let (start, end) = (0.1f32, 1.0f32);
    let last = count - 1;
    let step = f64::from((end - start) / last as f32);
    let value = |i: usize| {
        if i < count / 2 { f64::from(start) + step * i as f64 } else { f64::from(end) - step * (last - i) as f64 }
    };
    (0..count).map(|i| value(i) as f32).collect()
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
            *code = nearest((v - offset) * inverse);
        }
    }
    offset
}

/// The code of the value nearest to `v`; the lower one's at a midpoint.
fn nearest(v: f32) -> u8 {
    let map = map();
    let right = map.partition_point(|m| *m < v).clamp(1, map.len() - 1);
    let midpoint = (map[right - 1] + map[right]) * 0.5;
    (if v > midpoint { right } else { right - 1 }) as u8
}
