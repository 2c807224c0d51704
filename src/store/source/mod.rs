//! A model as it lies on disk, a Hugging Face folder or a GGUF file alike.

mod folder;
mod gguf;
mod order;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub(super) use order::layer_order;

use super::StoredType;
use super::disk::{DiskFile, Mapped};
use super::gguf::GgufVocab;
use super::near::{near_names, near_path};
use super::types::elements;
use crate::text::{Fault, Result};

/// Files beside the weights that make a model usable, to be copied along with it.
pub const CARRIED: [&str; 11] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
];

/// One tensor of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorEntry {
    /// Hugging Face's name, with the leading `model.` that some files leave out: `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    /// The name in its file.
    pub stored_name: String,
    /// Slowest dimension first.
    pub shape: Vec<usize>,
    pub dtype: StoredType,
    /// Which of [`ModelSource::weight_files`] it lies in.
    pub file: usize,
    /// Where its bytes start in that file, and how many they are.
    pub offset: u64,
    pub bytes: u64,
    /// Rows of a head when the file stores them interleaved (GGUF's queries and keys); read back in order.
    head_rows: Option<usize>,
}

impl TensorEntry {
    pub fn elements(&self) -> u64 {
        elements(&self.shape).unwrap_or(0)
    }
}

/// The tokenizer files of a Hugging Face folder.
#[derive(Debug, Clone, PartialEq)]
pub struct HfTokenizer {
    /// `tokenizer.json`.
    pub path: PathBuf,
    /// `tokenizer_config.json`, read.
    pub config: Option<Value>,
    /// `special_tokens_map.json`, read.
    pub special_tokens: Option<Value>,
    /// The text of `chat_template.jinja`.
    pub template: Option<String>,
}

/// What a model's tokenizer is to be made from.
#[derive(Debug, Clone, PartialEq)]
pub enum TokenizerSource {
    HfJson(HfTokenizer),
    Gguf(GgufVocab),
    /// No tokenizer that can be read; the words say what was looked for and found.
    Missing(String),
}

/// An opened model: headers read and checked, weights only read when asked for.
#[derive(Debug)]
pub struct ModelSource {
    path: PathBuf,
    config: Value,
    files: Vec<DiskFile>,
    tensors: Vec<TensorEntry>,
    by_name: HashMap<String, usize>,
    tokenizer: TokenizerSource,
    carried: Vec<PathBuf>,
    inputs: Vec<PathBuf>,
}

/// What the readers of the two forms find.
struct Parts {
    config: Value,
    files: Vec<DiskFile>,
    tensors: Vec<TensorEntry>,
    tokenizer: TokenizerSource,
    carried: Vec<PathBuf>,
    inputs: Vec<PathBuf>,
}

impl ModelSource {
    /// Opens a folder (`config.json` with `model.safetensors` or an index and its shards) or a `.gguf` file.
    ///
    /// Errors: `file.missing` with near names; `model.no_weights`, `model.pickle`, `model.index`, `model.missing_shard`,
    /// `model.missing_tensor`, `model.duplicate_tensor`, `model.not_a_model`, `config.*`, `safetensors.*`, `gguf.*`.
    pub fn open(path: &Path) -> Result<Self> {
        let parts = if path.is_dir() {
            folder::read(path)?
        } else if path.is_file() {
            gguf::read(path)?
        } else {
            return Err(missing(path));
        };
        Self::assemble(path, parts)
    }

    fn assemble(path: &Path, mut parts: Parts) -> Result<Self> {
        parts.tensors.sort_by_cached_key(|t| layer_order(&t.name));
        let mut by_name = HashMap::with_capacity(parts.tensors.len());
        for (i, tensor) in parts.tensors.iter().enumerate() {
            if by_name.insert(tensor.name.clone(), i).is_some() {
                let what = format!("`{}` holds `{}` twice", path.display(), tensor.name);
                return Err(Fault::new("model.duplicate_tensor", what).at(path));
            }
        }
        let Parts { config, files, tensors, tokenizer, carried, inputs } = parts;
        Ok(ModelSource { path: path.to_owned(), config, files, tensors, by_name, tokenizer, carried, inputs })
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `config.json`, or the same keys made from a GGUF's metadata. Always an object.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// Every tensor: embeddings, layers in order, norm, head, then whatever else lies in the files.
    pub fn tensors(&self) -> &[TensorEntry] {
        &self.tensors
    }

    pub fn get(&self, name: &str) -> Option<&TensorEntry> {
        self.by_name.get(name).and_then(|i| self.tensors.get(*i))
    }

    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// [`get`](Self::get), or `model.missing_tensor`.
    pub fn require(&self, name: &str) -> Result<&TensorEntry> {
        self.get(name).ok_or_else(|| {
            Fault::new("model.missing_tensor", format!("`{}` has no tensor `{name}`", self.path.display()))
                .at(&self.path)
        })
    }

    /// Whether a tensor's values can be read as weights, which its header tells.
    ///
    /// Errors: `model.missing_tensor`, `model.unreadable_type`.
    pub fn check_readable(&self, name: &str) -> Result<()> {
        let tensor = self.require(name)?;
        readable(tensor, self.files.get(tensor.file).map_or(&self.path, |file| file.path()))
    }

    /// Fills `out` with the elements `first..first + out.len()` of the flattened tensor, as f32.
    ///
    /// The bits do not depend on how a tensor is cut into ranges. Allocates nothing.
    ///
    /// Errors: `model.missing_tensor`, `model.range`, `model.unreadable_type`, `file.*`.
    pub fn read_f32(&self, name: &str, first: u64, out: &mut [f32]) -> Result<()> {
        let tensor = self.require(name)?;
        let Some(file) = self.files.get(tensor.file) else { return Err(self.out_of_range(tensor)) };
        if first.checked_add(out.len() as u64).is_none_or(|end| end > tensor.elements()) {
            return Err(self.out_of_range(tensor));
        }
        readable(tensor, file.path())?;
        match tensor.head_rows {
            None => file.read_f32(tensor.offset, tensor.dtype, first, out),
            Some(head) => gguf::read_interleaved(file, tensor, head, first, out),
        }
    }

    /// Rows `rows` of the first dimension, as f32; `out` has exactly their size.
    pub fn read_rows(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        let tensor = self.require(name)?;
        let row = tensor.shape.iter().skip(1).try_fold(1usize, |n, d| n.checked_mul(*d));
        let wanted = row.and_then(|row| rows.len().checked_mul(row));
        let first = row.and_then(|row| (rows.start as u64).checked_mul(row as u64));
        match (wanted, first) {
            (Some(wanted), Some(first)) if wanted == out.len() => self.read_f32(name, first, out),
            _ => Err(self.out_of_range(tensor)),
        }
    }

    /// The rows `rows` bit for bit, where the file holds them as `dtype`, of 16 bits, and in this order; false where not.
    ///
    /// Errors: those of [`Self::read_f32`].
    pub fn copy_rows(&self, name: &str, rows: Range<usize>, dtype: StoredType, out: &mut [u16]) -> Result<bool> {
        let tensor = self.require(name)?;
        if tensor.dtype != dtype || dtype.block() != (1, 2) || tensor.head_rows.is_some() {
            return Ok(false);
        }
        let Some(file) = self.files.get(tensor.file) else { return Err(self.out_of_range(tensor)) };
        let row = tensor.shape.iter().skip(1).try_fold(1usize, |n, d| n.checked_mul(*d));
        let wanted = row.and_then(|row| rows.len().checked_mul(row));
        let first = row.and_then(|row| (rows.start as u64).checked_mul(row as u64));
        match (wanted, first) {
            (Some(wanted), Some(first))
                if wanted == out.len()
                    && first.checked_add(wanted as u64).is_some_and(|end| end <= tensor.elements()) =>
            {
                file.copy_16(tensor.offset, first, out).map(|()| true)
            }
            _ => Err(self.out_of_range(tensor)),
        }
    }

    /// Whether the values of a tensor lie in its file as this machine computes with them: of this very type, in order,
    /// aligned, the lowest byte first. Then [`Self::map_tensor`] gives them.
    pub fn lies_as(&self, name: &str, dtype: StoredType) -> bool {
        let Some(tensor) = self.get(name) else { return false };
        let (elements, size) = dtype.block();
        // A map begins at a page, so what is aligned in the file is aligned in memory.
        let aligned = elements == 1 && tensor.offset.is_multiple_of(size as u64);
        cfg!(target_endian = "little") && tensor.dtype == dtype && tensor.head_rows.is_none() && aligned
    }

    /// All values of a tensor where they lie; none unless [`Self::lies_as`] says so.
    ///
    /// Errors: `model.missing_tensor`; `file.changed` where the file has become shorter; `file.no_map` where its file
    /// system cannot map.
    pub fn map_tensor(&self, name: &str, dtype: StoredType) -> Result<Option<Mapped>> {
        let tensor = self.require(name)?;
        if !self.lies_as(name, dtype) {
            return Ok(None);
        }
        let (Some(file), Ok(len)) = (self.files.get(tensor.file), usize::try_from(tensor.bytes)) else {
            return Err(self.out_of_range(tensor));
        };
        let mapped = file.lend(tensor.offset, len)?.ok_or_else(|| {
            Fault::new("file.no_map", format!("`{}` cannot be mapped", file.path().display()))
                .at(file.path())
                .note("its file system, or a limit on this process, does not allow it")
                .help("leave `mapped` out, or copy the model to a local disk")
        })?;
        Ok(Some(mapped))
    }

    fn out_of_range(&self, tensor: &TensorEntry) -> Fault {
        Fault::new("model.range", format!("more was asked of `{}` than it has", tensor.name)).at(&self.path)
    }

    /// Size of the files that hold the weights.
    pub fn bytes_on_disk(&self) -> u64 {
        self.files.iter().map(DiskFile::len).sum()
    }

    /// The files that hold the weights.
    pub fn weight_files(&self) -> Vec<PathBuf> {
        self.files.iter().map(|f| f.path().to_owned()).collect()
    }

    /// The type that most weights have, by elements; q4_1 and the like for a GGUF.
    pub fn dtype(&self) -> StoredType {
        let mut counts: HashMap<StoredType, u64> = HashMap::new();
        for tensor in self.tensors.iter().filter(|t| t.dtype.is_readable()) {
            *counts.entry(tensor.dtype).or_default() += tensor.elements();
        }
        // Ties go by the order of the types, never by a hash.
        counts.into_iter().max_by_key(|(dtype, n)| (*n, *dtype)).map_or(StoredType::F32, |(dtype, _)| dtype)
    }

    /// The type to save a model of this source in: its own, or bf16 where that is quantised.
    pub fn save_dtype(&self) -> StoredType {
        match self.dtype() {
            own @ (StoredType::F32 | StoredType::F16 | StoredType::BF16) => own,
            StoredType::F64 => StoredType::F32,
            _ => StoredType::BF16,
        }
    }

    pub fn tokenizer(&self) -> &TokenizerSource {
        &self.tokenizer
    }

    /// Lets the tokenizer's own data go, some MiB of a large vocabulary, once what was needed is made from it.
    pub fn forget_tokenizer(&mut self) {
        self.tokenizer = TokenizerSource::Missing("its tokenizer was read and let go".to_owned());
    }

    /// Files to copy along when a model made from this one is saved ([`CARRIED`]).
    pub fn carried_files(&self) -> &[PathBuf] {
        &self.carried
    }

    /// Every file that was read or will be, in a fixed order, for hashing.
    pub fn inputs(&self) -> &[PathBuf] {
        &self.inputs
    }
}

fn readable(tensor: &TensorEntry, path: &Path) -> Result<()> {
    if tensor.dtype.is_readable() {
        return Ok(());
    }
    let what = format!("`{}` holds {} values, which are not read as weights", tensor.name, tensor.dtype);
    Err(Fault::new("model.unreadable_type", what)
        .at(path)
        .note("f32, f16 and bf16 are read from safetensors, and the block types of GGUF"))
}

fn missing(path: &Path) -> Fault {
    let fault = Fault::new("file.missing", format!("there is no model at `{}`", path.display())).at(path);
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    if !parent.is_dir() {
        let text = path.to_string_lossy();
        // `owner/name` may be meant as a model of the hub.
        let hub = text.split('/').filter(|part| !part.is_empty() && *part != "." && *part != "..").count() == 2
            && !path.is_absolute();
        let fault = fault.note(format!("the folder `{}` does not exist either", parent.display()));
        return if hub {
            fault.help(format!(
                "models are read from disk; to fetch one: `hf download {text} --local-dir models/{name}`"
            ))
        } else {
            fault
        };
    }
    let others = near_names(parent, name);
    match near_path(path) {
        Some(first) => {
            let fault =
                others.iter().skip(1).fold(fault, |fault, other| fault.note(format!("there is also `{other}`")));
            fault.help(format!("did you mean `{}`?", first.display()))
        }
        None => fault,
    }
}
