//! An open GGUF file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::bytes::{Bytes, broken};
use super::value::GgufValue;
use crate::store::disk::DiskFile;
use crate::store::types::{StoredType, elements, shape_text};
use crate::text::Result;

const MAGIC: [u8; 4] = *b"GGUF";
const MAX_ENTRIES: u64 = 1 << 20;
const MAX_DIMS: u32 = 4;

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GgufTensor {
    /// As stored: `blk.0.attn_q.weight`.
    pub name: String,
    /// Slowest dimension first, as everywhere else; GGUF itself stores the fastest first.
    pub shape: Vec<usize>,
    pub dtype: StoredType,
    /// Where its bytes start, from the start of the file.
    pub offset: u64,
    pub bytes: u64,
}

/// A GGUF file whose head has been checked; no weight is read until asked for.
#[derive(Debug)]
pub struct GgufFile {
    file: DiskFile,
    /// In the file's order.
    metadata: Vec<(String, GgufValue)>,
    tensors: Vec<GgufTensor>,
}

impl GgufFile {
    /// Errors: `file.*`; `gguf.bad_magic`, `.version`, `.big_endian`, `.truncated`, `.count`, `.value`, `.alignment`,
    /// `.type`, `.shape`, `.offset`, `.overlap`, `.duplicate`.
    pub fn open(path: &Path) -> Result<Self> {
        let file = DiskFile::open(path)?;
        let mut bytes = Bytes::new(&file);
        read_version(&mut bytes)?;
        let tensor_count = read_count(&mut bytes, "tensors")?;
        let value_count = read_count(&mut bytes, "metadata values")?;
        let mut metadata = Vec::new();
        let mut seen = HashSet::new();
        for _ in 0..value_count {
            let key = bytes.string("a metadata key")?;
            let kind = bytes.u32(&key)?;
            let value = GgufValue::read(&mut bytes, kind, &key, 0)?;
            if !seen.insert(key.clone()) {
                return Err(bytes.broken("gguf.duplicate", &format!("`{key}` stands in its metadata twice")));
            }
            metadata.push((key, value));
        }
        let infos = (0..tensor_count).map(|_| Info::read(&mut bytes)).collect::<Result<Vec<_>>>()?;
        let alignment = alignment(path, &metadata)?;
        let start = bytes.position().checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        let tensors = place(path, infos, start, alignment, file.len())?;
        Ok(GgufFile { file, metadata, tensors })
    }

    /// Tensors in the file's order.
    pub fn tensors(&self) -> &[GgufTensor] {
        &self.tensors
    }

    pub fn get(&self, name: &str) -> Option<&GgufTensor> {
        self.tensors.iter().find(|t| t.name == name)
    }

    pub fn metadata(&self) -> &[(String, GgufValue)] {
        &self.metadata
    }

    pub fn value(&self, key: &str) -> Option<&GgufValue> {
        self.metadata.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    pub fn path(&self) -> PathBuf {
        self.file.path().to_owned()
    }

    /// Elements `first..first + out.len()` of the flattened tensor, in the file's own order of rows.
    pub fn read_f32(&self, tensor: &GgufTensor, first: u64, out: &mut [f32]) -> Result<()> {
        let end = first.saturating_add(out.len() as u64);
        if elements(&tensor.shape).is_none_or(|n| end > n) {
            let what = format!("more was asked of `{}` than it has", tensor.name);
            return Err(broken(self.file.path(), "model.range", &what));
        }
        self.file.read_f32(tensor.offset, tensor.dtype, first, out)
    }

    pub(in crate::store) fn into_disk(self) -> DiskFile {
        self.file
    }
}

fn read_version(bytes: &mut Bytes<'_>) -> Result<()> {
    let magic: [u8; 4] = bytes.array("its first four bytes")?;
    if magic != MAGIC {
        return Err(bytes.broken("gguf.bad_magic", "it does not begin with `GGUF`"));
    }
    match bytes.u32("its version")? {
        2 | 3 => Ok(()),
        1 => Err(bytes
            .broken("gguf.version", "it is of version 1; versions 2 and 3 are read")
            .help("convert the model again with a current llama.cpp")),
        other if matches!(other.swap_bytes(), 1..=3) => {
            Err(bytes.broken("gguf.big_endian", "it is written for big-endian machines"))
        }
        other => Err(bytes.broken("gguf.version", &format!("it is of version {other}; versions 2 and 3 are read"))),
    }
}

fn read_count(bytes: &mut Bytes<'_>, of: &str) -> Result<u64> {
    let n = bytes.u64("its counts")?;
    if n > MAX_ENTRIES {
        return Err(bytes.broken("gguf.count", &format!("it claims to have {n} {of}")));
    }
    Ok(n)
}

fn alignment(path: &Path, metadata: &[(String, GgufValue)]) -> Result<u64> {
    let Some((_, value)) = metadata.iter().find(|(key, _)| key == "general.alignment") else { return Ok(32) };
    match value.as_u64() {
        Some(n) if n.is_power_of_two() && (8..=1 << 20).contains(&n) => Ok(n),
        _ => Err(broken(path, "gguf.alignment", "`general.alignment` is not a power of two from 8 to 1048576")),
    }
}

/// A tensor's entry in the head.
struct Info {
    name: String,
    shape: Vec<u64>,
    ggml_type: u32,
    offset: u64,
}

impl Info {
    fn read(bytes: &mut Bytes<'_>) -> Result<Self> {
        let name = bytes.string("a tensor's name")?;
        let dims = bytes.u32(&name)?;
        if dims > MAX_DIMS {
            return Err(
                bytes.broken("gguf.shape", &format!("`{name}` has {dims} dimensions; at most {MAX_DIMS} exist"))
            );
        }
        let mut shape = (0..dims).map(|_| bytes.u64(&name)).collect::<Result<Vec<_>>>()?;
        shape.reverse();
        let ggml_type = bytes.u32(&name)?;
        let offset = bytes.u64(&name)?;
        Ok(Info { name, shape, ggml_type, offset })
    }
}

/// Holds every tensor to its type, the alignment and the file, and to its neighbours.
fn place(path: &Path, infos: Vec<Info>, start: u64, alignment: u64, file_len: u64) -> Result<Vec<GgufTensor>> {
    let mut seen = HashSet::new();
    let mut tensors = Vec::with_capacity(infos.len());
    for info in infos {
        let name = &info.name;
        if !seen.insert(name.clone()) {
            return Err(broken(path, "gguf.duplicate", &format!("`{name}` stands in it twice")));
        }
        let dtype = supported(info.ggml_type).ok_or_else(|| {
            broken(path, "gguf.type", &format!("`{name}` is stored as {}", type_name(info.ggml_type)))
                .note("F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K are read")
                .help("take a file of another quantisation, such as Q8_0 or Q4_K_M")
        })?;
        let shape: Option<Vec<usize>> = info.shape.iter().map(|d| usize::try_from(*d).ok()).collect();
        let counted = shape.and_then(|shape| Some((elements(&shape)?, shape)));
        let Some((count, shape)) = counted else {
            return Err(broken(path, "gguf.shape", &format!("the shape of `{name}` is too large to address")));
        };
        let row = shape.last().copied().unwrap_or(1);
        let bytes = dtype.bytes_of(count).filter(|_| row.is_multiple_of(dtype.block().0)).ok_or_else(|| {
            let block = dtype.block().0;
            broken(path, "gguf.shape", &format!("the rows of `{name}` do not fill blocks of {block}"))
                .note(format!("{dtype} of shape {}", shape_text(&shape)))
        })?;
        if !info.offset.is_multiple_of(alignment) {
            return Err(broken(path, "gguf.offset", &format!("`{name}` is not aligned to {alignment} bytes")));
        }
        let offset = start.checked_add(info.offset);
        let inside = offset.and_then(|at| at.checked_add(bytes)).is_some_and(|end| end <= file_len);
        let Some(offset) = offset.filter(|_| inside || bytes == 0) else {
            return Err(broken(path, "gguf.truncated", &format!("`{name}` reaches beyond the end of the file"))
                .note(format!("it has {bytes} bytes; the file has {file_len}"))
                .help("copy or download the file again"));
        };
        tensors.push(GgufTensor { name: info.name, shape, dtype, offset, bytes });
    }
    let mut order: Vec<&GgufTensor> = tensors.iter().filter(|t| t.bytes > 0).collect();
    order.sort_by_key(|t| t.offset);
    for pair in order.windows(2) {
        if let [a, b] = pair
            && a.offset + a.bytes > b.offset
        {
            return Err(broken(path, "gguf.overlap", &format!("`{}` and `{}` share bytes", a.name, b.name)));
        }
    }
    Ok(tensors)
}

fn supported(ggml_type: u32) -> Option<StoredType> {
    Some(match ggml_type {
        0 => StoredType::F32,
        1 => StoredType::F16,
        2 => StoredType::Q4_0,
        3 => StoredType::Q4_1,
        6 => StoredType::Q5_0,
        7 => StoredType::Q5_1,
        8 => StoredType::Q8_0,
        12 => StoredType::Q4K,
        13 => StoredType::Q5K,
        14 => StoredType::Q6K,
        30 => StoredType::BF16,
        _ => return None,
    })
}

/// ggml's name of a type that is not read here.
fn type_name(ggml_type: u32) -> String {
    let name = match ggml_type {
        4 => "Q4_2",
        5 => "Q4_3",
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        other => return format!("the unknown type {other}"),
    };
    name.to_owned()
}
