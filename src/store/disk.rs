//! Reading a file by position, in windows on the stack, or through a mapped window where much is read at once, and
//! turning what lies there into f32.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use super::StoredType;
use super::gguf::dequant;
use crate::text::{Fault, Result};

/// Bytes of one read. A reading thread holds one window, on its stack.
pub const WINDOW: usize = 64 << 10;

/// Window of reads of few elements; holds the largest block.
const SMALL: usize = 8 << 10;

/// Elements from which a read is shared among threads, and the share of each; whole blocks of every type.
const PARALLEL: usize = 1 << 20;
const SHARE: usize = 1 << 18;

/// Bytes that are fetched ahead of a large read's end.
#[cfg(target_os = "linux")]
const AHEAD: u64 = 64 << 20;

/// The largest block of any type, in elements.
const LARGEST_BLOCK: usize = 256;

/// A part of a file, mapped to be read for as long as this lives: pages of the system's cache, not of the heap.
///
/// Whoever cuts the file short meanwhile ends this process (SIGBUS) at its next look at what is gone. The writers of this
/// room never do: they make a new file and rename it, and what is mapped stays the old one, whole.
#[derive(Debug)]
pub struct Mapped(memmap2::Mmap);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// An open file that is read by position, from any thread.
#[derive(Debug)]
pub(super) struct DiskFile {
    file: File,
    path: PathBuf,
    len: u64,
}

impl DiskFile {
    pub fn open(path: &Path) -> Result<Self> {
        let fault = |e: io::Error| Fault::io("read", path, &e);
        let file = File::open(path).map_err(fault)?;
        let meta = file.metadata().map_err(fault)?;
        if !meta.is_file() {
            return Err(Fault::new("file.not_a_file", format!("`{}` is not a regular file", path.display())).at(path));
        }
        Ok(DiskFile { file, path: path.to_owned(), len: meta.len() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn as_file(&self) -> &File {
        &self.file
    }

    /// Fills `out` from `offset` on.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        read_exact_at(&self.file, out, offset).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => self.changed(),
            _ => Fault::io("read", &self.path, &e),
        })
    }

    /// The elements `first..first + out.len()` of the tensor of type `dtype` that starts at byte `base`. Bits do not
    /// depend on how a range is cut, nor on the number of threads.
    pub fn read_f32(&self, base: u64, dtype: StoredType, first: u64, out: &mut [f32]) -> Result<()> {
        if out.len() < PARALLEL {
            return self.read_share(base, dtype, first, out);
        }
        let (block, bytes) = dtype.block();
        if first.is_multiple_of(block as u64) && out.len().is_multiple_of(block) {
            let at = offset(base, first / block as u64, bytes)?;
            self.announce(at, out.len() / block * bytes);
            if let Some(window) = self.map(at, out.len() / block * bytes)? {
                let parts = out.par_chunks_mut(SHARE).zip(window.par_chunks(SHARE / block * bytes));
                return parts.try_for_each(|(out, bytes)| decode(dtype, bytes, out));
            }
        }
        out.par_chunks_mut(SHARE)
            .enumerate()
            .try_for_each(|(i, part)| self.read_share(base, dtype, first + (i * SHARE) as u64, part))
    }

    /// The elements of a 16-bit type as they lie in the file, from element `first` of the tensor at byte `base` on. The
    /// system copies them to where they are wanted: a map would cost a fault for every page.
    pub fn copy_16(&self, base: u64, first: u64, out: &mut [u16]) -> Result<()> {
        let at = offset(base, first, 2)?;
        self.announce(at, size_of_val(out));
        let read = |(i, out): (usize, &mut [u16])| {
            self.read_at(offset(at, i as u64, SHARE * 2)?, bytemuck::cast_slice_mut(out))?;
            if cfg!(target_endian = "big") {
                out.iter_mut().for_each(|bits| *bits = u16::from_le(*bits));
            }
            Ok(())
        };
        if out.len() < PARALLEL {
            return out.chunks_mut(SHARE).enumerate().try_for_each(read);
        }
        out.par_chunks_mut(SHARE).enumerate().try_for_each(read)
    }

    /// Lets the system begin to fetch what is about to be read and what most likely comes after it, so that the disk
    /// works while values are converted.
    fn announce(&self, at: u64, len: usize) {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{Advice, fadvise};
            let len = std::num::NonZeroU64::new((len as u64).saturating_add(AHEAD));
            // Advice that is not taken costs speed alone.
            let _ = fadvise(&self.file, at, len, Advice::WillNeed);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (at, len);
    }

    /// `len` bytes from `offset` on, to be used where they lie. None where the file system cannot map.
    pub fn lend(&self, offset: u64, len: usize) -> Result<Option<Mapped>> {
        self.announce(offset, len);
        Ok(self.map(offset, len)?.map(Mapped))
    }

    /// Maps a window of the file, so that a large read copies nothing. None where the file system cannot map: the caller
    /// then reads by position.
    fn map(&self, offset: u64, len: usize) -> Result<Option<memmap2::Mmap>> {
        let now = self.file.metadata().map_err(|e| Fault::io("read", &self.path, &e))?.len();
        if offset.checked_add(len as u64).is_none_or(|end| end > now) {
            return Err(self.changed());
        }
        // SAFETY: the map is read-only, and lives for one read, or for as long as a pipeline asks with `mapped`. Another
        // process that changes the file meanwhile can change values (any bit pattern is a number here), or, by cutting it
        // short, end this process; the length was checked a moment ago. Nothing here ever changes a file in place.
        let map = unsafe { memmap2::MmapOptions::new().offset(offset).len(len).map(&self.file) };
        Ok(map.ok())
    }

    fn changed(&self) -> Fault {
        Fault::new("file.changed", format!("`{}` became shorter while it was read", self.path.display()))
            .at(&self.path)
            .help("do not change a model's files while they are in use")
    }

    fn read_share(&self, base: u64, dtype: StoredType, first: u64, out: &mut [f32]) -> Result<()> {
        // Clearing a whole window costs more than reading the one row of a head that was asked for.
        if out.len() <= SMALL / 8 {
            self.read_windows::<SMALL>(base, dtype, first, out)
        } else {
            self.read_windows::<WINDOW>(base, dtype, first, out)
        }
    }

    fn read_windows<const N: usize>(
        &self,
        base: u64,
        dtype: StoredType,
        mut first: u64,
        mut out: &mut [f32],
    ) -> Result<()> {
        let (block, bytes) = dtype.block();
        let mut window = [0u8; N];
        while !out.is_empty() {
            let at = offset(base, first / block as u64, bytes)?;
            let skip = (first % block as u64) as usize;
            let taken = if skip != 0 || out.len() < block {
                // A part of a block: decoded beside, and the part copied.
                let window = window.get_mut(..bytes).unwrap_or_default();
                self.read_at(at, window)?;
                let mut whole = [0f32; LARGEST_BLOCK];
                let n = out.len().min(block - skip);
                decode(dtype, window, whole.get_mut(..block).unwrap_or_default())?;
                for (to, from) in out.iter_mut().zip(whole.iter().skip(skip)).take(n) {
                    *to = *from;
                }
                n
            } else {
                let blocks = (out.len() / block).min(N / bytes);
                let window = window.get_mut(..blocks * bytes).unwrap_or_default();
                self.read_at(at, window)?;
                decode(dtype, window, out.get_mut(..blocks * block).unwrap_or_default())?;
                blocks * block
            };
            first += taken as u64;
            out = out.get_mut(taken..).unwrap_or_default();
        }
        Ok(())
    }
}

fn offset(base: u64, block: u64, bytes: usize) -> Result<u64> {
    block
        .checked_mul(bytes as u64)
        .and_then(|n| n.checked_add(base))
        .ok_or_else(|| Fault::new("size.overflow", "a tensor is too large to address"))
}

/// Whole blocks into as many elements.
fn decode(dtype: StoredType, bytes: &[u8], out: &mut [f32]) -> Result<()> {
    match dtype {
        StoredType::F32 => each(bytes, out, f32::from_le_bytes),
        StoredType::F64 => each(bytes, out, |b| f64::from_le_bytes(b) as f32),
        // bf16 is the upper half of an f32.
        StoredType::BF16 => each(bytes, out, |b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)),
        StoredType::F16 => decode_f16(bytes, out),
        quantised if quantised.is_quantised() => dequant::decode(quantised, bytes, out),
        other => {
            return Err(Fault::new("model.unreadable_type", format!("{other} values cannot be read as weights")));
        }
    }
    Ok(())
}

fn each<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    for (to, from) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *to = value(*from);
    }
}

/// Through `half`'s slices, which use the processor's conversion.
fn decode_f16(bytes: &[u8], out: &mut [f32]) {
    let mut halves = [f16::ZERO; 512];
    for (to, from) in out.chunks_mut(512).zip(bytes.chunks(1024)) {
        for (h, b) in halves.iter_mut().zip(from.as_chunks::<2>().0) {
            *h = f16::from_le_bytes(*b);
        }
        if let Some(part) = halves.get(..to.len()) {
            part.convert_to_f32_slice(to);
        }
    }
}

/// f32 values as the bytes of `dtype`, rounded to nearest even, into `out`, which has exactly their length.
pub(super) fn encode(dtype: StoredType, values: &[f32], out: &mut [u8]) -> Result<()> {
    /// Values of one thread's share.
    const PIECE: usize = 1 << 15;
    let one: fn(&[f32], &mut [u8]) = match dtype {
        StoredType::F32 => |values, out| each_out(values, out, |x| x.to_le_bytes()),
        StoredType::BF16 => |values, out| each_out(values, out, |x| round_bf16(x).to_le_bytes()),
        StoredType::F16 => encode_f16,
        other => return Err(Fault::new("output.dtype", format!("weights are not written as {other}"))),
    };
    let bytes = dtype.block().1;
    if out.len() / bytes != values.len() {
        return Err(Fault::new("output.size", "values do not fill the bytes they are written to; this is a bug"));
    }
    out.par_chunks_mut(PIECE * bytes).zip(values.par_chunks(PIECE)).for_each(|(out, values)| one(values, out));
    Ok(())
}

fn each_out<const N: usize>(values: &[f32], out: &mut [u8], value: impl Fn(f32) -> [u8; N]) {
    for (to, from) in out.as_chunks_mut::<N>().0.iter_mut().zip(values) {
        *to = value(*from);
    }
}

/// The bits of the nearest bf16, without a branch, so that it vectorises. A NaN stays one: its payload must not round
/// away or overflow into a number.
fn round_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
    (if x.is_nan() { (bits >> 16) | 0x40 } else { rounded }) as u16
}

fn encode_f16(values: &[f32], out: &mut [u8]) {
    let mut halves = [f16::ZERO; 512];
    for (values, out) in values.chunks(512).zip(out.chunks_mut(1024)) {
        let halves = halves.get_mut(..values.len()).unwrap_or_default();
        halves.convert_from_f32_slice(values);
        for (to, from) in out.as_chunks_mut::<2>().0.iter_mut().zip(halves.iter()) {
            *to = from.to_le_bytes();
        }
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                out = out.get_mut(n..).unwrap_or_default();
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// A whole small file as text or JSON; larger than `limit` bytes is refused before it is read.
pub(super) fn read_small(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let file = DiskFile::open(path)?;
    if file.len() > limit {
        return Err(Fault::new("file.too_large", format!("`{}` has {} bytes", path.display(), file.len()))
            .at(path)
            .note(format!("a file of this kind has at most {limit}")));
    }
    let mut bytes = vec![0u8; file.len() as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// A whole small JSON file that must hold an object.
pub(super) fn read_json(path: &Path) -> Result<serde_json::Value> {
    let bytes = read_small(path, 64 << 20)?;
    let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(|e| json_fault(path, &e))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(Fault::new("json.not_an_object", format!("`{}` must hold a JSON object", path.display())).at(path))
    }
}

fn json_fault(path: &Path, error: &serde_json::Error) -> Fault {
    let text = error.to_string();
    let why = text.split(" at line ").next().unwrap_or_default().to_owned();
    let fault = Fault::new("json.syntax", format!("`{}` is not valid JSON: {why}", path.display()));
    fault.at_line(path, error.line() as u64, Some(error.column() as u64))
}

#[cfg(test)]
mod tests;
