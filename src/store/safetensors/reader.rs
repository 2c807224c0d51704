//! An open safetensors file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::header::{self, MAX_HEADER, PREFIX, broken};
use crate::store::StoredType;
use crate::store::disk::DiskFile;
use crate::text::{Fault, Result};

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorRecord {
    pub name: String,
    pub shape: Vec<usize>,
    pub dtype: StoredType,
    /// Where its bytes start, from the start of the file.
    pub offset: u64,
    pub bytes: u64,
}

/// A safetensors file whose header has been checked; no weight is read until asked for.
#[derive(Debug)]
pub struct TensorFile {
    file: DiskFile,
    tensors: Vec<TensorRecord>,
    metadata: BTreeMap<String, String>,
}

impl TensorFile {
    /// Errors: `file.*`; `safetensors.truncated`, `.header_size`, `.header`, `.dtype`, `.shape`, `.offsets`, `.overlap`,
    /// `.duplicate`.
    pub fn open(path: &Path) -> Result<Self> {
        let file = DiskFile::open(path)?;
        if file.len() < PREFIX {
            return Err(truncated(path, &format!("it has {} bytes", file.len())));
        }
        let mut prefix = [0u8; 8];
        file.read_at(0, &mut prefix)?;
        let header_len = u64::from_le_bytes(prefix);
        if header_len > MAX_HEADER {
            let pointer = match &prefix {
                b"version " => Some("it is a pointer of git-lfs: `git lfs pull` fetches what it points at"),
                b"<!doctyp" | b"<!DOCTYP" | b"<html>\n<" => Some("it is a web page: the download went wrong"),
                _ => None,
            };
            if let Some(words) = pointer {
                return Err(broken(path, "safetensors.pointer", words));
            }
            return Err(broken(path, "safetensors.header_size", &format!("its header would have {header_len} bytes"))
                .note(format!("at most {MAX_HEADER} are read; the file may be of another format")));
        }
        if header_len > file.len() - PREFIX {
            let found = format!("its header would have {header_len} bytes, the file has {}", file.len());
            return Err(truncated(path, &found));
        }
        let mut json = vec![0u8; header_len as usize];
        file.read_at(PREFIX, &mut json)?;
        let header = header::parse(path, &json, file.len())?;
        Ok(TensorFile { file, tensors: header.tensors, metadata: header.metadata })
    }

    /// Tensors in the header's order.
    pub fn tensors(&self) -> &[TensorRecord] {
        &self.tensors
    }

    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    pub fn get(&self, name: &str) -> Option<&TensorRecord> {
        self.tensors.iter().find(|t| t.name == name)
    }

    pub fn path(&self) -> PathBuf {
        self.file.path().to_owned()
    }

    /// Size of the file.
    pub fn bytes_on_disk(&self) -> u64 {
        self.file.len()
    }

    /// Fills `out` with the elements `first..first + out.len()` of the flattened tensor.
    ///
    /// Errors: `model.range` beyond the tensor, `model.unreadable_type` for integers and the like, `file.*`.
    pub fn read_f32(&self, tensor: &TensorRecord, first: u64, out: &mut [f32]) -> Result<()> {
        let end = first.checked_add(out.len() as u64).and_then(|n| tensor.dtype.bytes_of(n));
        if !tensor.dtype.is_readable() || end.is_none_or(|end| end > tensor.bytes) {
            return Err(refused(tensor, self.file.path()));
        }
        self.file.read_f32(tensor.offset, tensor.dtype, first, out)
    }

    pub(in crate::store) fn into_disk(self) -> DiskFile {
        self.file
    }
}

fn refused(tensor: &TensorRecord, path: &Path) -> Fault {
    if tensor.dtype.is_readable() {
        Fault::new("model.range", format!("more was asked of `{}` than it has", tensor.name)).at(path)
    } else {
        Fault::new("model.unreadable_type", format!("`{}` holds {} values, not weights", tensor.name, tensor.dtype))
            .at(path)
            .note("f32, f16, bf16 and f64 are read")
    }
}

fn truncated(path: &Path, found: &str) -> Fault {
    broken(path, "safetensors.truncated", "it is cut short").note(found).help("copy or download the file again")
}
