//! Kernels against plain references in f64, finite differences, candle's autograd, and themselves on other numbers of
//! threads.

mod attention;
mod cast;
mod cuda;
mod loss;
mod matmul;
mod nf4;
mod norm;
mod optimizer;
mod packing;
mod pointwise;
mod random;
mod rope;
mod rows;
mod small;
mod thin;
mod vector;

use candle_core::{DType, Tensor, Var};
use candle_core::{Device, Result as CandleResult};

use super::*;
use crate::text::{Fault, Result};

/// A buffer that holds `values`.
fn buf(values: &[f32]) -> Buf {
    let mut buf = zeros(values.len());
    buf.view_mut().cpu::<f32>().unwrap().copy_from_slice(values);
    buf
}

fn zeros(len: usize) -> Buf {
    Heap.take("test", Spec::f32(&[len])).unwrap()
}

/// A buffer of NaN, for outputs that must be overwritten.
fn junk(len: usize) -> Buf {
    buf(&vec![f32::NAN; len])
}

fn values(buf: &Buf) -> Vec<f32> {
    buf.view().cpu::<f32>().unwrap().to_vec()
}

fn typed<T: Element>(values: &[T]) -> Buf {
    let mut buf = Heap.take("test", Spec::new(&[values.len()], T::DTYPE)).unwrap();
    buf.view_mut().cpu::<T>().unwrap().copy_from_slice(values);
    buf
}

/// Standard normal numbers.
fn noise(len: usize, seed: u64) -> Vec<f32> {
    (0..len as u64).map(|i| normal(Key::new(seed), i)).collect()
}

fn wide64(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

/// Every element within `tolerance` of the reference, relative to its largest magnitude.
#[track_caller]
fn assert_close(found: &[f32], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len());
    let size = wanted.iter().fold(1e-30f64, |top, w| top.max(w.abs()));
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        let off = (f64::from(*f) - w).abs() / size;
        assert!(off <= tolerance, "element {i}: {f} where {w} was expected, {off:e} of the largest");
    }
}

/// The results of `f` on one, two and three threads, which must agree in every bit.
#[track_caller]
fn same_on_threads(f: impl Fn() -> Vec<f32> + Sync) -> Vec<f32> {
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(&f)
    };
    let one = on(1);
    for threads in [2, 3] {
        let other = on(threads);
        let differs = one.iter().zip(&other).position(|(a, b)| a.to_bits() != b.to_bits());
        assert_eq!(differs, None, "first different element on {threads} threads");
        assert_eq!(one.len(), other.len());
    }
    one
}

/// Gradient of Σ weight·f(x) at `x`, by central differences.
fn differences(x: &[f64], weight: &[f64], f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    const H: f64 = 1e-5;
    let mut x = x.to_vec();
    let loss = |x: &[f64]| f(x).iter().zip(weight).map(|(y, w)| y * w).sum::<f64>();
    (0..x.len())
        .map(|i| {
            let middle = x[i];
            x[i] = middle + H;
            let above = loss(&x);
            x[i] = middle - H;
            let below = loss(&x);
            x[i] = middle;
            (above - below) / (2.0 * H)
        })
        .collect()
}

#[track_caller]
fn assert_wrong_shape(result: Result<()>) {
    assert_code(result, "kernel.shape");
}

#[track_caller]
fn assert_code<T>(result: Result<T>, code: &str) -> Fault {
    let fault = result.err().expect("a fault");
    assert_eq!(fault.code, code, "{fault}");
    fault
}

/// candle's side of a comparison.
fn var(x: &[f32], shape: &[usize]) -> Var {
    Var::from_slice(x, shape, &Device::Cpu).unwrap()
}

fn flat64(x: &Tensor) -> CandleResult<Vec<f64>> {
    x.flatten_all()?.to_dtype(DType::F64)?.to_vec1()
}
