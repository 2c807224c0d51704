//! 4-bit NormalFloat weights in the layout and the values of bitsandbytes 0.50, as its GPU code makes them. (Its CPU code
//! has rules of its own in corners: it divides in a short last block, which it also gives a scale of at least 1e-38;
//! its last threshold is an f32 higher; and it searches the 8-bit map only to within 1/65536.)
//!
//! A tensor is cut, row by row, into blocks of values; each block has the largest magnitude as its scale and 4 bits a
//! value, first value in the high half of a byte. With double quantisation the scales themselves become 8 bits each,
//! around their mean. That mean is the one number without a fixed value in the field: torch adds it up in f32, in an
//! order that depends on the processor and the number of threads. Here it is exact before it is rounded to f32, which
//! is within 2 ulp of torch's.

mod codes;
mod scales;

use std::ops::Range;

use candle_core::DType;

use super::clock::{Work, running};
use super::shape::{expect, wrong};
use super::spread::blocks;
use super::{Buf, Pool, Spec, ViewMut};
use crate::text::{Fault, Result};
pub use scales::dynamic_map;
use scales::{SCALE_BLOCK, Scale};

/// Sizes of one quantised tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nf4Layout {
    /// Elements of the tensor.
    pub values: usize,
    /// Elements that share a scale.
    pub block: usize,
    /// Whether scales are quantised, too.
    pub double: bool,
}

impl Nf4Layout {
    /// `block` is a power of two from 64 to 4096, as in bitsandbytes.
    pub fn new(values: usize, block: usize, double: bool) -> Result<Self> {
        if !block.is_power_of_two() || !(64..=4096).contains(&block) {
            return Err(Fault::new("nf4.block", format!("NF4 has no blocks of {block} values"))
                .help("use 64, 128, 256, 512, 1024, 2048 or 4096"));
        }
        Ok(Nf4Layout { values, block, double })
    }

    pub fn blocks(&self) -> usize {
        self.values.div_ceil(self.block)
    }

    /// The buffers in which the tensor is held: codes and absmax; doubled: codes, absmax codes, absmax of those.
    pub fn specs(&self) -> Vec<Spec> {
        let codes = Spec::new(&[self.values.div_ceil(2)], DType::U8);
        let blocks = self.blocks();
        if self.double {
            let scales = Spec::new(&[blocks], DType::U8);
            vec![codes, scales, Spec::f32(&[blocks.div_ceil(SCALE_BLOCK)])]
        } else {
            vec![codes, Spec::f32(&[blocks])]
        }
    }

    /// What quantising holds besides: the plain scales, until they are doubled.
    pub fn scratch(&self) -> Option<Spec> {
        self.double.then(|| Spec::f32(&[self.blocks()]))
    }
}

/// A quantised tensor.
#[derive(Debug)]
pub struct Nf4 {
    pub layout: Nf4Layout,
    /// Two values a byte, `[⌈values / 2⌉]`.
    pub codes: Buf,
    pub absmax: Scales,
}

/// The scale of every block.
#[derive(Debug)]
pub enum Scales {
    /// f32 `[blocks]`.
    Plain(Buf),
    /// scale = map\[codes\] · absmax + offset, with codes u8 `[blocks]` and absmax f32 `[⌈blocks / 256⌉]`.
    Double { codes: Buf, absmax: Buf, offset: f32 },
}

impl Nf4 {
    /// A tensor whose values arrive in windows. Takes the codes and plain scales from `holding`, scales that will be
    /// doubled from `scratch`.
    pub fn writer(layout: Nf4Layout, pool: &dyn Pool, holding: &str, scratch: &str) -> Result<Nf4Writer> {
        let mut specs = layout.specs().into_iter();
        let codes = specs.next().unwrap_or_else(|| Spec::new(&[0], DType::U8));
        let absmax = match layout.scratch() {
            Some(spec) => pool.take(scratch, spec)?,
            None => pool.take(holding, Spec::f32(&[layout.blocks()]))?,
        };
        Ok(Nf4Writer { layout, codes: pool.take(holding, codes)?, absmax, done: 0 })
    }

    /// Quantises a whole tensor.
    pub fn quantise(values: &[f32], layout: Nf4Layout, pool: &dyn Pool, holding: &str, scratch: &str) -> Result<Nf4> {
        let mut writer = Self::writer(layout, pool, holding, scratch)?;
        writer.push(values)?;
        writer.finish(pool, holding)
    }

    /// The same tensor to be quantised anew, plain scales in the buffers it has.
    pub fn rewrite(self) -> Result<Nf4Writer> {
        let Nf4 { layout, codes, absmax } = self;
        let absmax = match absmax {
            Scales::Plain(absmax) => absmax,
            Scales::Double { .. } => Buf::zeros(Spec::f32(&[layout.blocks()]), &candle_core::Device::Cpu, None)?,
        };
        Ok(Nf4Writer { layout, codes, absmax, done: 0 })
    }

    /// A tensor from buffers that were filled elsewhere (a checkpoint), held to the layout.
    pub fn from_parts(layout: Nf4Layout, codes: Buf, absmax: Scales) -> Result<Nf4> {
        let specs = layout.specs();
        let found: Vec<&Buf> = match &absmax {
            Scales::Plain(scales) => vec![&codes, scales],
            Scales::Double { codes: scales, absmax, .. } => vec![&codes, scales, absmax],
        };
        let fits = |(spec, buf): (&Spec, &&Buf)| spec.dtype == buf.dtype() && buf.len() == spec.shape[0];
        if specs.len() != found.len() || !specs.iter().zip(&found).all(fits) {
            return Err(wrong(format!("these buffers do not hold an NF4 tensor of {} values", layout.values)));
        }
        Ok(Nf4 { layout, codes, absmax })
    }

    /// Writes the f32 values of a range of elements.
    pub fn dequantise(&self, y: ViewMut<'_>, elements: Range<usize>) -> Result<()> {
        let _clock = running(Work::Widening);
        let y = y.cpu::<f32>()?;
        if elements.start > elements.end || elements.end > self.layout.values {
            return Err(wrong(format!(
                "elements {} to {} do not lie in a tensor of {}",
                elements.start, elements.end, self.layout.values
            )));
        }
        expect("y", y.len(), elements.len())?;
        let codes = self.codes.view().cpu::<u8>()?;
        let scale = match &self.absmax {
            Scales::Plain(absmax) => Scale::Plain(absmax.view().cpu()?),
            Scales::Double { codes, absmax, offset } => {
                Scale::double(codes.view().cpu()?, absmax.view().cpu()?, *offset)
            }
        };
        let block = self.layout.block;
        // A task's part starts where a block does, so only the first and last piece of the range can be partial.
        let step = 256 * block;
        let lead = (elements.start.next_multiple_of(block) - elements.start).min(y.len());
        let (head, body) = y.split_at_mut(lead);
        codes::dequantise(head, codes, elements.start, block, &scale);
        blocks(body, step, |at, part| {
            codes::dequantise(part, codes, elements.start + lead + at, block, &scale);
        });
        Ok(())
    }
}

/// A tensor being quantised, window after window.
#[derive(Debug)]
pub struct Nf4Writer {
    layout: Nf4Layout,
    codes: Buf,
    absmax: Buf,
    done: usize,
}

impl Nf4Writer {
    /// Quantises the next values. Every window but the last is a multiple of the block.
    pub fn push(&mut self, values: &[f32]) -> Result<()> {
        let (block, end) = (self.layout.block, self.done.saturating_add(values.len()));
        if end > self.layout.values || (end < self.layout.values && !values.len().is_multiple_of(block)) {
            return Err(wrong(format!(
                "a window of {} values after {} does not fit a tensor of {} in blocks of {block}",
                values.len(),
                self.done,
                self.layout.values
            )));
        }
        let codes = self.codes.view_mut().slice(self.done / 2..end.div_ceil(2)).cpu::<u8>()?;
        let absmax = self.absmax.view_mut().slice(self.done / block..end.div_ceil(block)).cpu::<f32>()?;
        codes::quantise(values, block, codes, absmax);
        // An infinity or a NaN has the largest magnitude of its block, so the scales tell.
        if let Some(bad) = absmax.iter().position(|scale| !scale.is_finite()) {
            let first = bad * block;
            let within = values[first..].iter().position(|v| !v.is_finite()).unwrap_or(0);
            let value = values.get(first + within).copied().unwrap_or(f32::NAN);
            return Err(Fault::new("nf4.not_finite", format!("element {} is {value}", self.done + first + within))
                .note("a block with a value that is not finite has no scale, and would lose its other values, too"));
        }
        self.done = end;
        Ok(())
    }

    /// The tensor, once every value has arrived. Takes the doubled scales from `holding`.
    pub fn finish(self, pool: &dyn Pool, holding: &str) -> Result<Nf4> {
        if self.done != self.layout.values {
            return Err(wrong(format!("{} values arrived of a tensor of {}", self.done, self.layout.values)));
        }
        let absmax = if self.layout.double {
            let blocks = self.layout.blocks();
            let mut codes = pool.take(holding, Spec::new(&[blocks], DType::U8))?;
            let mut absmax = pool.take(holding, Spec::f32(&[blocks.div_ceil(SCALE_BLOCK)]))?;
            let plain = self.absmax.view().cpu::<f32>()?;
            let offset = scales::quantise(plain, codes.view_mut().cpu()?, absmax.view_mut().cpu()?);
            Scales::Double { codes, absmax, offset }
        } else {
            Scales::Plain(self.absmax)
        };
        Ok(Nf4 { layout: self.layout, codes: self.codes, absmax })
    }
}
