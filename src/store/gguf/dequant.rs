//! ggml's block types, expanded to f32 in ggml's own order of operations, so that bits agree.

use half::f16;

use crate::store::StoredType;

/// Whole blocks of `dtype` into as many elements; types that are not block types leave `out` as it is.
pub(in crate::store) fn decode(dtype: StoredType, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        StoredType::Q4_0 => blocks::<18, 32>(bytes, out, q4_0),
        StoredType::Q4_1 => blocks::<20, 32>(bytes, out, q4_1),
        StoredType::Q5_0 => blocks::<22, 32>(bytes, out, q5_0),
        StoredType::Q5_1 => blocks::<24, 32>(bytes, out, q5_1),
        StoredType::Q8_0 => blocks::<34, 32>(bytes, out, q8_0),
        StoredType::Q4K => blocks::<144, 256>(bytes, out, q4_k),
        StoredType::Q5K => blocks::<176, 256>(bytes, out, q5_k),
        StoredType::Q6K => blocks::<210, 256>(bytes, out, q6_k),
        _ => {}
    }
}

fn blocks<const B: usize, const N: usize>(bytes: &[u8], out: &mut [f32], block: impl Fn(&[u8; B], &mut [f32; N])) {
    for (from, to) in bytes.as_chunks::<B>().0.iter().zip(out.as_chunks_mut::<N>().0) {
        block(from, to);
    }
}

/// The f16 at byte `I` of a block.
fn scale<const I: usize, const B: usize>(block: &[u8; B]) -> f32 {
    const { assert!(I + 2 <= B) };
    f16::from_le_bytes([block[I], block[I + 1]]).to_f32()
}

/// d (f16), then 16 bytes of two codes: the first half of the block in the low nibbles, the second in the high ones.
fn q4_0(b: &[u8; 18], y: &mut [f32; 32]) {
    let d = scale::<0, 18>(b);
    for j in 0..16 {
        let q = b[2 + j];
        y[j] = f32::from(i16::from(q & 15) - 8) * d;
        y[j + 16] = f32::from(i16::from(q >> 4) - 8) * d;
    }
}

/// d, m (f16), then codes as in `q4_0`; y = q d + m.
fn q4_1(b: &[u8; 20], y: &mut [f32; 32]) {
    let (d, m) = (scale::<0, 20>(b), scale::<2, 20>(b));
    for j in 0..16 {
        let q = b[4 + j];
        y[j] = f32::from(q & 15) * d + m;
        y[j + 16] = f32::from(q >> 4) * d + m;
    }
}

/// Fifth bits: bit j of `high` belongs to element j.
fn five(q: u8, high: u32, j: usize) -> (u8, u8) {
    let bit = |at: usize| if high >> at & 1 == 1 { 16 } else { 0 };
    ((q & 15) | bit(j), (q >> 4) | bit(j + 16))
}

/// d (f16), 32 fifth bits, then low nibbles as in `q4_0`.
fn q5_0(b: &[u8; 22], y: &mut [f32; 32]) {
    let d = scale::<0, 22>(b);
    let high = u32::from_le_bytes([b[2], b[3], b[4], b[5]]);
    for j in 0..16 {
        let (x0, x1) = five(b[6 + j], high, j);
        y[j] = f32::from(i16::from(x0) - 16) * d;
        y[j + 16] = f32::from(i16::from(x1) - 16) * d;
    }
}

/// d, m (f16), 32 fifth bits, then low nibbles; y = q d + m.
fn q5_1(b: &[u8; 24], y: &mut [f32; 32]) {
    let (d, m) = (scale::<0, 24>(b), scale::<2, 24>(b));
    let high = u32::from_le_bytes([b[4], b[5], b[6], b[7]]);
    for j in 0..16 {
        let (x0, x1) = five(b[8 + j], high, j);
        y[j] = f32::from(x0) * d + m;
        y[j + 16] = f32::from(x1) * d + m;
    }
}

/// d (f16), then 32 signed bytes.
fn q8_0(b: &[u8; 34], y: &mut [f32; 32]) {
    let d = scale::<0, 34>(b);
    for j in 0..32 {
        y[j] = f32::from(b[2 + j].cast_signed()) * d;
    }
}

/// Six-bit scale and minimum of sub-block j of 8, packed in 12 bytes: the first four plainly, with the upper two bits of the
/// last four on top of them.
fn scale_min(j: usize, packed: &[u8]) -> (f32, f32) {
    let (s, m) = if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        ((packed[j + 4] & 15) | (packed[j - 4] >> 6 << 4), (packed[j + 4] >> 4) | (packed[j] >> 6 << 4))
    };
    (f32::from(s), f32::from(m))
}

/// d, dmin (f16), 12 bytes of scales, 128 bytes of codes: 64 elements share 32 bytes, low nibbles first.
fn q4_k(b: &[u8; 144], y: &mut [f32; 256]) {
    let (d, dmin) = (scale::<0, 144>(b), scale::<2, 144>(b));
    let (scales, codes) = (&b[4..16], &b[16..144]);
    for (i, (q, y)) in codes.as_chunks::<32>().0.iter().zip(y.as_chunks_mut::<64>().0).enumerate() {
        let ((s1, m1), (s2, m2)) = (scale_min(2 * i, scales), scale_min(2 * i + 1, scales));
        let ((d1, m1), (d2, m2)) = ((d * s1, dmin * m1), (d * s2, dmin * m2));
        for l in 0..32 {
            y[l] = d1 * f32::from(q[l] & 15) - m1;
            y[l + 32] = d2 * f32::from(q[l] >> 4) - m2;
        }
    }
}

/// As `q4_k` with 32 bytes of fifth bits before the codes: sub-block j has bit j of each byte.
fn q5_k(b: &[u8; 176], y: &mut [f32; 256]) {
    let (d, dmin) = (scale::<0, 176>(b), scale::<2, 176>(b));
    let (scales, high, codes) = (&b[4..16], &b[16..48], &b[48..176]);
    for (i, (q, y)) in codes.as_chunks::<32>().0.iter().zip(y.as_chunks_mut::<64>().0).enumerate() {
        let ((s1, m1), (s2, m2)) = (scale_min(2 * i, scales), scale_min(2 * i + 1, scales));
        let ((d1, m1), (d2, m2)) = ((d * s1, dmin * m1), (d * s2, dmin * m2));
        for l in 0..32 {
            let bit = |at: usize| (high[l] >> at & 1) << 4;
            y[l] = d1 * f32::from((q[l] & 15) | bit(2 * i)) - m1;
            y[l + 32] = d2 * f32::from((q[l] >> 4) | bit(2 * i + 1)) - m2;
        }
    }
}

/// 128 bytes of low nibbles, 64 of upper bit pairs, 16 signed scales, d (f16). Two halves of 128 elements; in each, element
/// l + 32 k takes nibble k / 2 of byte l + 32 (k mod 2) and bit pair k of byte l.
fn q6_k(b: &[u8; 210], y: &mut [f32; 256]) {
    let d = scale::<208, 210>(b);
    for (half, y) in y.as_chunks_mut::<128>().0.iter_mut().enumerate() {
        let low = &b[64 * half..][..64];
        let high = &b[128 + 32 * half..][..32];
        let scales = &b[192 + 8 * half..][..8];
        for l in 0..32 {
            for k in 0..4 {
                let nibble = low[l + 32 * (k % 2)] >> (4 * (k / 2)) & 15;
                let pair = high[l] >> (2 * k) & 3;
                let q = i16::from(nibble | pair << 4) - 32;
                let s = f32::from(scales[l / 16 + 2 * k].cast_signed());
                y[l + 32 * k] = d * s * f32::from(q);
            }
        }
    }
}
