//! Random numbers by place, not by turn: the value at an index follows from a key and the index alone, so neither
//! threads nor the order of work can change it.
//!
//! The generator is Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

use super::ViewMut;
use super::spread::{BLOCK, blocks};
use super::vector::wide;
use crate::text::Result;

/// Names one stream of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Key(seed).with(0)
    }

    /// The key as other forms of the generator take it: its low half is Philox's first word.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// A stream of its own below this one: `Key::new(seed).with(step).with(layer)`.
    pub fn with(self, stream: u64) -> Self {
        // The last counter word keeps keys apart from numbers drawn at the same place.
        let [[a], [b], _, _] = philox([stream as u32], [(stream >> 32) as u32], 1, self);
        Key(u64::from(a) | u64::from(b) << 32)
    }
}

/// `N` independent blocks of Philox, side by side so that they vectorise: words `w[0..4][lane]` for the counters
/// (low[lane], high[lane], 0, domain).
#[inline(always)]
fn philox<const N: usize>(low: [u32; N], high: [u32; N], domain: u32, key: Key) -> [[u32; N]; 4] {
    const ROUNDS: usize = 10;
    const M0: u64 = 0xD251_1F53;
    const M1: u64 = 0xCD9E_8D57;
    const W0: u32 = 0x9E37_79B9;
    const W1: u32 = 0xBB67_AE85;
    let [mut a, mut b, mut c, mut d] = [low, high, [0; N], [domain; N]];
    let (mut k0, mut k1) = (key.0 as u32, (key.0 >> 32) as u32);
    for _ in 0..ROUNDS {
        for (((a, b), c), d) in a.iter_mut().zip(&mut b).zip(&mut c).zip(&mut d) {
            let (p0, p1) = (M0 * u64::from(*a), M1 * u64::from(*c));
            (*a, *b) = ((p1 >> 32) as u32 ^ *b ^ k0, p1 as u32);
            (*c, *d) = ((p0 >> 32) as u32 ^ *d ^ k1, p0 as u32);
        }
        k0 = k0.wrapping_add(W0);
        k1 = k1.wrapping_add(W1);
    }
    [a, b, c, d]
}

/// The four words that indices 4·block … 4·block + 3 share.
#[inline(always)]
fn words(key: Key, block: u64) -> [u32; 4] {
    philox([block as u32], [(block >> 32) as u32], 0, key).map(|[w]| w)
}

/// 24 random bits as a number of [0, 1).
#[inline(always)]
fn unit(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// The uniform number of [0, 1) at an index.
pub fn uniform(key: Key, index: u64) -> f32 {
    unit(words(key, index / 4)[(index % 4) as usize])
}

/// The standard normal number at an index (Box and Muller's transform, in f64).
pub fn normal(key: Key, index: u64) -> f32 {
    normals(words(key, index / 4))[(index % 4) as usize]
}

/// The standard normal numbers at the four indices from `4 · block` on, for the price of one.
pub fn normal4(key: Key, block: u64) -> [f32; 4] {
    normals(words(key, block))
}

fn normals(words: [u32; 4]) -> [f32; 4] {
    let pair = |a: u32, b: u32| {
        // (0, 1], so that the logarithm is finite.
        let radius = (-2.0 * ((f64::from(a) + 1.0) / 4_294_967_296.0).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * f64::from(b) / 4_294_967_296.0).sin_cos();
        [(radius * cos) as f32, (radius * sin) as f32]
    };
    let ([a, b], [c, d]) = (pair(words[0], words[1]), pair(words[2], words[3]));
    [a, b, c, d]
}

/// Indices that [`uniforms`] makes at a time.
pub(super) const BATCH: usize = 64;

/// The uniform numbers at `start`, `start + 1`, …; `start` is a multiple of 4.
#[inline(always)]
pub(super) fn uniforms(key: Key, start: u64) -> [f32; BATCH] {
    const LANES: usize = BATCH / 4;
    let blocks: [u64; LANES] = std::array::from_fn(|l| (start / 4).wrapping_add(l as u64));
    let w = philox(blocks.map(|b| b as u32), blocks.map(|b| (b >> 32) as u32), 0, key);
    let mut out = [0.0; BATCH];
    for l in 0..LANES {
        for word in 0..4 {
            out[4 * l + word] = unit(w[word][l]);
        }
    }
    out
}

/// yᵢ = lo + (hi − lo) · uniform(i)
pub fn fill_uniform(y: ViewMut<'_>, lo: f32, hi: f32, key: Key) -> Result<()> {
    blocks(y.cpu::<f32>()?, BLOCK, |at, y| {
        wide!({
            for (i, part) in y.chunks_mut(BATCH).enumerate() {
                let u = uniforms(key, (at + i * BATCH) as u64);
                for (y, u) in part.iter_mut().zip(u) {
                    *y = lo + (hi - lo) * u;
                }
            }
        });
    });
    Ok(())
}

/// yᵢ = std · normal(i)
pub fn fill_normal(y: ViewMut<'_>, std: f32, key: Key) -> Result<()> {
    blocks(y.cpu::<f32>()?, BLOCK, |at, y| {
        for (i, part) in y.chunks_mut(4).enumerate() {
            for (y, z) in part.iter_mut().zip(normals(words(key, (at / 4 + i) as u64))) {
                *y = std * z;
            }
        }
    });
    Ok(())
}
