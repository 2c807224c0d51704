//! Writing a safetensors file in one pass: the header first, then one tensor after the other, nothing kept.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write;

use serde_json::Value;

use crate::store::disk::encode;
use crate::store::types::{StoredType, TensorInfo, shape_text};
use crate::store::{AtomicFile, WRITE_BUFFER};
use crate::text::{Fault, Result};

/// The eight bytes of length and the JSON of a file that holds `tensors` in this order, padded with spaces to a multiple of
/// eight as the format's library does.
///
/// Errors: `size.overflow`; `output.dtype` for types that safetensors has not; `output.twice`.
pub fn header_bytes(tensors: &[TensorInfo], metadata: &[(&str, &str)]) -> Result<Vec<u8>> {
    // Written out as text: a plan makes this for every save, and a tree of values would be most of its time.
    let quoted = |text: &str| Value::from(text).to_string();
    let mut json = String::with_capacity(64 + 112 * tensors.len());
    json.push('{');
    if !metadata.is_empty() {
        let entries: Vec<String> = metadata.iter().map(|(k, v)| format!("{}:{}", quoted(k), quoted(v))).collect();
        let _ = write!(json, "\"__metadata__\":{{{}}}", entries.join(","));
    }
    let mut names = HashSet::with_capacity(tensors.len());
    let mut begin = 0u64;
    for tensor in tensors {
        let Some(dtype) = tensor.dtype.safetensors_name() else {
            return Err(Fault::new("output.dtype", format!("safetensors has no type for {}", tensor.dtype)));
        };
        let end = begin.checked_add(tensor.bytes()?).ok_or_else(|| {
            Fault::new("size.overflow", format!("the file that ends in `{}` is too large", tensor.name))
        })?;
        if !names.insert(&*tensor.name) {
            return Err(Fault::new("output.twice", format!("`{}` would be written twice", tensor.name)));
        }
        if json.len() > 1 {
            json.push(',');
        }
        let _ = write!(json, "{}:{{\"dtype\":{},\"shape\":[", quoted(&tensor.name), quoted(dtype));
        for (at, size) in tensor.shape.iter().enumerate() {
            let _ = write!(json, "{}{size}", if at > 0 { "," } else { "" });
        }
        let _ = write!(json, "],\"data_offsets\":[{begin},{end}]}}");
        begin = end;
    }
    json.push('}');
    let mut json = json.into_bytes();
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(&json);
    Ok(bytes)
}

/// A safetensors file that is being written. Tensors come in the order of the list it was created with.
#[derive(Debug)]
pub struct SafetensorsWriter {
    file: AtomicFile,
    left: VecDeque<TensorInfo>,
    /// False once a tensor failed half-way: the file can no longer become whole.
    sound: bool,
}

impl SafetensorsWriter {
    /// Writes the header. Errors: those of [`header_bytes`], and of writing.
    pub fn create(mut file: AtomicFile, tensors: &[TensorInfo], metadata: &[(&str, &str)]) -> Result<Self> {
        file.put(&header_bytes(tensors, metadata)?)?;
        Ok(SafetensorsWriter { file, left: tensors.iter().cloned().collect(), sound: true })
    }

    /// The tensor that comes next.
    pub fn expected(&self) -> Option<&TensorInfo> {
        self.left.front()
    }

    /// Writes the next tensor, which must be `name`, with what `fill` puts into the sink.
    ///
    /// Errors: `output.order`, `output.failed` after an earlier error, `output.size` when `fill` puts too little or too much, and what `fill` returns.
    pub fn tensor(&mut self, name: &str, fill: impl FnOnce(&mut TensorSink<'_>) -> Result<()>) -> Result<()> {
        self.check_sound()?;
        self.sound = false;
        let Some(info) = self.left.pop_front().filter(|info| info.name == name) else {
            return Err(Fault::new("output.order", format!("`{name}` is not the tensor to be written now")));
        };
        let mut sink = TensorSink { left: info.elements()?, info: &info, file: &mut self.file };
        fill(&mut sink)?;
        if sink.left != 0 {
            return Err(sink.wrong_size());
        }
        self.sound = true;
        Ok(())
    }

    fn check_sound(&self) -> Result<()> {
        if self.sound {
            return Ok(());
        }
        let what = format!("`{}` was given up after an error", self.file.path().display());
        Err(Fault::new("output.failed", what).at(self.file.path()))
    }

    /// Syncs the file and, outside a folder, gives it its name.
    ///
    /// Errors: `output.order` while tensors are missing, `output.failed` after an earlier error, and those of writing.
    pub fn commit(self) -> Result<()> {
        self.check_sound()?;
        if let Some(missing) = self.expected() {
            return Err(Fault::new("output.order", format!("`{}` was not written", missing.name)));
        }
        self.file.commit()
    }
}

/// Takes the elements of one tensor, in order, in pieces of any size.
pub struct TensorSink<'a> {
    file: &'a mut AtomicFile,
    info: &'a TensorInfo,
    left: u64,
}

impl TensorSink<'_> {
    /// Appends values, rounded once to the tensor's type, to nearest even.
    pub fn write_f32(&mut self, values: &[f32]) -> Result<()> {
        self.left = self.left.checked_sub(values.len() as u64).ok_or_else(|| self.wrong_size())?;
        let (dtype, bytes) = (self.info.dtype, self.info.dtype.block().1);
        for part in values.chunks(WRITE_BUFFER / 8) {
            self.file.fill(part.len() * bytes, |room| encode(dtype, part, room))?;
        }
        Ok(())
    }

    /// Appends the bits of values that are in the tensor's 16-bit type already.
    pub fn write_16(&mut self, dtype: StoredType, bits: &[u16]) -> Result<()> {
        if self.info.dtype != dtype || dtype.block() != (1, 2) {
            return Err(Fault::new("output.dtype", format!("`{}` is not written as {dtype}", self.info.name)));
        }
        self.left = self.left.checked_sub(bits.len() as u64).ok_or_else(|| self.wrong_size())?;
        if cfg!(target_endian = "little") {
            return self.file.put(bytemuck::cast_slice(bits));
        }
        bits.iter().try_for_each(|bits| self.file.put(&bits.to_le_bytes()))
    }

    /// The tensor that is being written.
    pub fn info(&self) -> &TensorInfo {
        self.info
    }

    fn wrong_size(&self) -> Fault {
        let shape = shape_text(&self.info.shape);
        Fault::new("output.size", format!("`{}` of shape {shape} was not given as many values", self.info.name))
    }
}
