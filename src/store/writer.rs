//! A Hugging Face folder out, tensor by tensor.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::safetensors::{SafetensorsWriter, TensorSink, header_bytes};
use super::types::TensorInfo;
use super::{AtomicFolder, Identity};
use crate::text::{Fault, Result};

/// The most bytes of tensors in one file, unless one tensor alone is larger: 5 GB, as the field has it.
pub const DEFAULT_SHARD: u64 = 5_000_000_000;

/// What Hugging Face's libraries write, and some require.
const METADATA: [(&str, &str); 1] = [("format", "pt")];

/// Everything that a model's folder will hold. Decides every byte of it but the weights' values.
#[derive(Debug, Clone)]
pub struct ModelPlan {
    /// Weights, in the order in which they will be written.
    pub tensors: Vec<TensorInfo>,
    /// At most so many bytes of tensors in a file ([`DEFAULT_SHARD`]).
    pub max_shard: u64,
    /// What `config.json` will say.
    pub config: Value,
    /// Small files whose contents are known: name, bytes.
    pub texts: Vec<(String, Vec<u8>)>,
    /// Files to copy, under their own names. One that is in `texts` too is not copied.
    pub carried: Vec<PathBuf>,
}

impl ModelPlan {
    pub fn new(tensors: Vec<TensorInfo>, config: Value) -> Self {
        ModelPlan { tensors, max_shard: DEFAULT_SHARD, config, texts: Vec::new(), carried: Vec::new() }
    }

    /// Bytes of the folder's files, headers and index included: what the disk must have.
    ///
    /// Errors: `size.overflow`, `output.*`, and `file.*` for files to copy.
    pub fn planned_bytes(&self) -> Result<u64> {
        let shards = self.shards()?;
        let mut total = self.small_files(&shards)?.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        for (path, _) in self.copies()? {
            total += std::fs::metadata(path).map_err(|e| Fault::io("read", path, &e))?.len();
        }
        for shard in &shards {
            total += header_bytes(self.tensors_of(shard), &METADATA)?.len() as u64;
            total = total.checked_add(shard.bytes).ok_or_else(too_large)?;
        }
        Ok(total)
    }

    /// Tensors greedily packed into files in their order.
    fn shards(&self) -> Result<Vec<Shard>> {
        let mut shards: Vec<Shard> = Vec::new();
        for (at, tensor) in self.tensors.iter().enumerate() {
            let bytes = tensor.bytes()?;
            match shards.last_mut() {
                Some(last) if last.bytes.checked_add(bytes).is_some_and(|n| n <= self.max_shard) => {
                    last.bytes += bytes;
                    last.tensors.end = at + 1;
                }
                _ => shards.push(Shard { name: String::new(), tensors: at..at + 1, bytes }),
            }
        }
        if shards.is_empty() {
            return Err(Fault::new("output.empty", "a model without tensors cannot be written"));
        }
        let n = shards.len();
        for (i, shard) in shards.iter_mut().enumerate() {
            shard.name = if n == 1 {
                "model.safetensors".to_owned()
            } else {
                format!("model-{:05}-of-{n:05}.safetensors", i + 1)
            };
        }
        Ok(shards)
    }

    /// `config.json`, the index if there are several files, and the texts.
    fn small_files(&self, shards: &[Shard]) -> Result<Vec<Small<'_>>> {
        let mut files = vec![("config.json", Cow::from(pretty(&self.config)))];
        if shards.len() > 1 {
            let mut total = 0u64;
            // As text: a tree of values would be most of what a plan of many saves takes.
            let mut map = BTreeMap::new();
            for shard in shards {
                total = total.checked_add(shard.bytes).ok_or_else(too_large)?;
                map.extend(self.tensors_of(shard).iter().map(|t| (t.name.as_str(), shard.name.as_str())));
            }
            files.push(("model.safetensors.index.json", Cow::from(index(total, &map))));
        }
        files.extend(self.texts.iter().map(|(name, bytes)| (&**name, Cow::from(&**bytes))));
        Ok(files)
    }

    fn tensors_of(&self, shard: &Shard) -> &[TensorInfo] {
        self.tensors.get(shard.tensors.clone()).unwrap_or(&[])
    }

    /// Files to copy, with their names.
    fn copies(&self) -> Result<Vec<(&Path, &str)>> {
        let mut copies = Vec::new();
        for path in &self.carried {
            let name = path.file_name().and_then(|n| n.to_str()).ok_or_else(|| {
                Fault::new("output.name", format!("`{}` has no name to be copied under", path.display())).at(path)
            })?;
            if !self.texts.iter().any(|(text, _)| text == name) {
                copies.push((path.as_path(), name));
            }
        }
        Ok(copies)
    }
}

/// Name and bytes of a file beside the weights.
type Small<'a> = (&'a str, Cow<'a, [u8]>);

/// One weight file to be.
#[derive(Debug)]
struct Shard {
    name: String,
    /// Which of the plan's tensors.
    tensors: Range<usize>,
    /// Of its tensors alone.
    bytes: u64,
}

/// A model's folder that is being written. It takes its name whole, on [`commit`](ModelWriter::commit); dropped before, it
/// leaves nothing. Holds [`WRITE_BUFFER`](super::WRITE_BUFFER) bytes and the headers.
#[derive(Debug)]
pub struct ModelWriter {
    folder: AtomicFolder,
    /// File name and tensors of each shard to come.
    shards: VecDeque<(String, Vec<TensorInfo>)>,
    open: Option<SafetensorsWriter>,
    /// False once a tensor failed half-way: the folder can no longer become whole.
    sound: bool,
}

impl ModelWriter {
    /// Writes everything but the weights.
    ///
    /// Errors: those of [`AtomicFolder::create`] and of [`ModelPlan::planned_bytes`].
    pub fn create(path: &Path, overwrite: bool, plan: &ModelPlan) -> Result<Self> {
        let shards = plan.shards()?;
        let files = plan.small_files(&shards)?;
        let folder = AtomicFolder::create(path, overwrite)?;
        for (name, bytes) in &files {
            folder.text(name, bytes)?;
        }
        for (from, name) in plan.copies()? {
            folder.copy(from, name)?;
        }
        let shards = shards.iter().map(|shard| (shard.name.clone(), plan.tensors_of(shard).to_vec())).collect();
        Ok(ModelWriter { folder, shards, open: None, sound: true })
    }

    /// What the folder will be known by; see [`AtomicFolder::identity`].
    pub fn identity(&self) -> Option<Identity> {
        self.folder.identity()
    }

    /// The tensor to be written next.
    pub fn expected(&self) -> Option<&TensorInfo> {
        let open = self.open.as_ref().and_then(SafetensorsWriter::expected);
        open.or_else(|| self.shards.front().and_then(|(_, tensors)| tensors.first()))
    }

    /// Writes the tensor `name`, which must be the next of the plan, with what `fill` puts into the sink.
    ///
    /// Errors: `output.order`, `output.size`, `output.failed` after an earlier error, `disk.full`, `file.*`, and what `fill` returns.
    pub fn next_tensor(&mut self, name: &str, fill: impl FnOnce(&mut TensorSink<'_>) -> Result<()>) -> Result<()> {
        self.check_sound()?;
        let mut writer = match self.open.take() {
            Some(writer) => writer,
            None => {
                let (file, tensors) = self.shards.pop_front().ok_or_else(|| {
                    Fault::new("output.order", format!("`{name}` comes after the last tensor of the plan"))
                })?;
                let file = self.folder.file(&file)?;
                SafetensorsWriter::create(file, &tensors, &METADATA)?
            }
        };
        self.sound = false;
        writer.tensor(name, fill)?;
        match writer.expected() {
            Some(_) => self.open = Some(writer),
            None => writer.commit()?,
        }
        self.sound = true;
        Ok(())
    }

    fn check_sound(&self) -> Result<()> {
        if self.sound { Ok(()) } else { Err(Fault::new("output.failed", "this model was given up after an error")) }
    }

    /// Gives the folder its name.
    ///
    /// Errors: `output.order` while tensors are missing, `output.failed` after an earlier error, and those of writing.
    pub fn commit(self) -> Result<()> {
        self.check_sound()?;
        if let Some(missing) = self.expected() {
            return Err(Fault::new("output.order", format!("`{}` was not written", missing.name)));
        }
        self.folder.commit()
    }
}

/// `model.safetensors.index.json`, laid out as [`pretty`] would.
fn index(total: u64, map: &BTreeMap<&str, &str>) -> Vec<u8> {
    let mut text = String::with_capacity(128 + 96 * map.len());
    let _ = write!(text, "{{\n  \"metadata\": {{\n    \"total_size\": {total}\n  }},\n  \"weight_map\": {{");
    for (at, (tensor, file)) in map.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(text, "{comma}\n    {}: {}", Value::from(*tensor), Value::from(*file));
    }
    text.push_str("\n  }\n}\n");
    text.into_bytes()
}

/// JSON as Hugging Face's libraries lay it out.
pub(super) fn pretty(value: &Value) -> Vec<u8> {
    let mut bytes = format!("{value:#}").into_bytes();
    bytes.push(b'\n');
    bytes
}

fn too_large() -> Fault {
    Fault::new("size.overflow", "the model's files are too large to address")
}

#[cfg(test)]
mod tests;
