//! Inner loops that the compiler turns into vector instructions.

/// Accumulators a reduction keeps: two AVX-512 registers, eight of SSE. Fixed, so that sums do not depend on the machine.
const LANES: usize = 32;

/// Evaluates an expression as compiled for the widest vectors this machine has.
///
/// A macro, since what the expression calls has to be inlined to profit, closures first of all.
macro_rules! wide {
    ($body:expr) => {
        pulp::Arch::new().dispatch($crate::kernels::vector::Loop(
            #[inline(always)]
            || $body,
        ))
    };
}
pub(super) use wide;

/// Calls its closure as `FnMut`: the way to `FnOnce` leads through a shim that is not inlined.
pub(super) struct Loop<F>(pub(super) F);

impl<R, F: FnMut() -> R> pulp::NullaryFnOnce for Loop<F> {
    type Output = R;

    #[inline(always)]
    fn call(mut self) -> R {
        (self.0)()
    }
}

/// eˣ within 2 ulp over all of f32, subnormal results, infinities and NaN included.
///
/// x = n·ln 2 + r with |r| ≤ ½ ln 2; a polynomial of degree 7 gives eʳ (coefficients from Cephes' `expf`), and 2ⁿ is
/// applied in two factors, since 2ⁿ alone may lie outside the range of normal numbers.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    /// 1.5 · 2²³: adding it rounds to an integer and leaves that in the low bits.
    const ROUND: f32 = 12_582_912.0;
    /// ln 2 in two parts; the first has few enough bits for n·LN2_HIGH to be exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Written as comparisons: `min` and `max` would swallow a NaN.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let y = p * (r * r) + r + 1.0;
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    y * power(half) * power(n.wrapping_sub(half))
}

/// 1 / (1 + e⁻ˣ)
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Folds lanes pairwise: the order is fixed, and errors stay smaller than in a row.
#[inline(always)]
fn fold(mut lanes: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] = f(lanes[l], lanes[l + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// Σ aᵢ·bᵢ over the shorter length.
#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let n = a.len().min(b.len());
    let (a, a_tail) = a[..n].as_chunks::<LANES>();
    let (b, b_tail) = b[..n].as_chunks::<LANES>();
    let mut lanes = [0.0f32; LANES];
    for (a, b) in a.iter().zip(b) {
        for l in 0..LANES {
            lanes[l] += a[l] * b[l];
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(a_tail.iter().zip(b_tail)) {
        *lane += a * b;
    }
    fold(lanes, |a, b| a + b)
}

/// Σ aᵢ·bᵢ·cᵢ over the shortest length.
#[inline(always)]
pub(super) fn dot3(a: &[f32], b: &[f32], c: &[f32]) -> f32 {
    let n = a.len().min(b.len()).min(c.len());
    let (a, a_tail) = a[..n].as_chunks::<LANES>();
    let (b, b_tail) = b[..n].as_chunks::<LANES>();
    let (c, c_tail) = c[..n].as_chunks::<LANES>();
    let mut lanes = [0.0f32; LANES];
    for ((a, b), c) in a.iter().zip(b).zip(c) {
        for l in 0..LANES {
            lanes[l] += a[l] * b[l] * c[l];
        }
    }
    for (lane, ((a, b), c)) in lanes.iter_mut().zip(a_tail.iter().zip(b_tail).zip(c_tail)) {
        *lane += a * b * c;
    }
    fold(lanes, |a, b| a + b)
}

/// The largest element; −∞ of none. A NaN is passed over: it shows in the sum that follows.
#[inline(always)]
pub(super) fn max(x: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (chunks, tail) = x.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for l in 0..LANES {
            lanes[l] = larger(lanes[l], chunk[l]);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(tail) {
        *lane = larger(*lane, *x);
    }
    fold(lanes, larger)
}

/// Replaces xᵢ by e^(xᵢ − shift) and returns their sum.
#[inline(always)]
pub(super) fn exp_in_place(x: &mut [f32], shift: f32) -> f32 {
    let (chunks, tail) = x.as_chunks_mut::<LANES>();
    let mut lanes = [0.0f32; LANES];
    for chunk in chunks {
        for l in 0..LANES {
            chunk[l] = exp(chunk[l] - shift);
            lanes[l] += chunk[l];
        }
    }
    for (lane, x) in lanes.iter_mut().zip(tail) {
        *x = exp(*x - shift);
        *lane += *x;
    }
    fold(lanes, |a, b| a + b)
}

/// Σ e^(xᵢ − shift). Long rows (a vocabulary) are summed by pieces into f64, so the error does not grow with them.
#[inline(always)]
pub(super) fn exp_sum(x: &[f32], shift: f32) -> f64 {
    let mut sum = 0.0f64;
    for piece in x.chunks(64 * LANES) {
        let (chunks, tail) = piece.as_chunks::<LANES>();
        let mut lanes = [0.0f32; LANES];
        for chunk in chunks {
            for l in 0..LANES {
                lanes[l] += exp(chunk[l] - shift);
            }
        }
        for (lane, x) in lanes.iter_mut().zip(tail) {
            *lane += exp(*x - shift);
        }
        sum += f64::from(fold(lanes, |a, b| a + b));
    }
    sum
}

/// Replaces xᵢ by scale · e^(xᵢ − shift) and returns Σ e^(xᵢ − shift), by pieces as in [`exp_sum`].
#[inline(always)]
pub(super) fn exp_scaled(x: &mut [f32], shift: f32, scale: f32) -> f64 {
    let mut sum = 0.0f64;
    for piece in x.chunks_mut(64 * LANES) {
        let (chunks, tail) = piece.as_chunks_mut::<LANES>();
        let mut lanes = [0.0f32; LANES];
        for chunk in chunks {
            for l in 0..LANES {
                let p = exp(chunk[l] - shift);
                lanes[l] += p;
                chunk[l] = p * scale;
            }
        }
        for (lane, x) in lanes.iter_mut().zip(tail) {
            let p = exp(*x - shift);
            *lane += p;
            *x = p * scale;
        }
        sum += f64::from(fold(lanes, |a, b| a + b));
    }
    sum
}

/// Σ xᵢ² in f64.
#[inline(always)]
pub(super) fn sum_squares(x: &[f32]) -> f64 {
    const WIDE: usize = 16;
    let (chunks, tail) = x.as_chunks::<WIDE>();
    let mut lanes = [0.0f64; WIDE];
    for chunk in chunks {
        for l in 0..WIDE {
            let x = f64::from(chunk[l]);
            lanes[l] += x * x;
        }
    }
    for (lane, x) in lanes.iter_mut().zip(tail) {
        *lane += f64::from(*x) * f64::from(*x);
    }
    lanes.iter().sum()
}
