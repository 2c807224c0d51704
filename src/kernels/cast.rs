//! Between f32 and the half-width types.

use candle_core::DType;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::clock::{Work, running};
use super::pointwise::copy;
use super::shape::expect;
use super::spread::{BLOCK, blocks};
use super::vector::wide;
use super::{View, ViewMut};
use crate::text::Result;

/// `y` f32 from `x` of bf16, f16 or f32; exact.
pub fn widen(y: ViewMut<'_>, x: View<'_>) -> Result<()> {
    let _clock = running(Work::Widening);
    match x.dtype() {
        DType::BF16 => {
            let (y, x) = (y.cpu::<f32>()?, x.cpu::<bf16>()?);
            expect("x", x.len(), y.len())?;
            blocks(y, BLOCK, |at, y| {
                wide!({
                    for (y, x) in y.iter_mut().zip(&x[at..]) {
                        *y = f32::from_bits(u32::from(x.to_bits()) << 16);
                    }
                });
            });
            Ok(())
        }
        DType::F16 => {
            let (y, x) = (y.cpu::<f32>()?, x.cpu::<f16>()?);
            expect("x", x.len(), y.len())?;
            blocks(y, BLOCK, |at, y| x[at..at + y.len()].convert_to_f32_slice(y));
            Ok(())
        }
        _ => {
            expect("x", x.len(), y.len())?;
            let (y, x) = (y.cpu::<f32>()?, x.cpu::<f32>()?);
            blocks(y, BLOCK, |at, y| y.copy_from_slice(&x[at..at + y.len()]));
            Ok(())
        }
    }
}

/// `y` of bf16, f16 or f32 from `x` f32, rounded to the nearest, ties to even.
pub fn narrow(y: ViewMut<'_>, x: View<'_>) -> Result<()> {
    match y.dtype() {
        DType::BF16 => {
            let (y, x) = (y.cpu::<bf16>()?, x.cpu::<f32>()?);
            expect("x", x.len(), y.len())?;
            blocks(y, BLOCK, |at, y| {
                wide!({
                    for (y, x) in y.iter_mut().zip(&x[at..]) {
                        *y = round_bf16(*x);
                    }
                });
            });
            Ok(())
        }
        DType::F16 => {
            let (y, x) = (y.cpu::<f16>()?, x.cpu::<f32>()?);
            expect("x", x.len(), y.len())?;
            blocks(y, BLOCK, |at, y| y.convert_from_f32_slice(&x[at..at + y.len()]));
            Ok(())
        }
        _ => copy(y, x),
    }
}

/// Branch-free, so that it vectorises. A NaN stays one: its payload must not round away or overflow into a number.
#[inline(always)]
fn round_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let even = (bits >> 16) & 1;
    let rounded = bits.wrapping_add(0x7FFF + even) >> 16;
    let nan = (bits >> 16) | 0x40;
    bf16::from_bits(if x.is_nan() { nan } else { rounded } as u16)
}
