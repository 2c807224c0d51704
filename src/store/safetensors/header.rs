//! The JSON header, held to the file it stands in.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Error, MapAccess, Visitor};

use super::reader::TensorRecord;
use crate::store::types::{StoredType, elements, shape_text};
use crate::text::{Fault, Result};

/// The largest header that the format's own library reads.
pub(super) const MAX_HEADER: u64 = 100_000_000;

/// Bytes before the header: its length.
pub(super) const PREFIX: u64 = 8;

pub(super) struct Header {
    pub tensors: Vec<TensorRecord>,
    pub metadata: BTreeMap<String, String>,
}

/// Entries in the header's order; a map would hide that a name stands there twice.
struct Entries {
    tensors: Vec<(String, Entry)>,
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Entries { tensors: Vec::new(), metadata: BTreeMap::new() };
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                entries.metadata = map.next_value().map_err(|e| A::Error::custom(format!("in `__metadata__`: {e}")))?;
            } else {
                let entry = map.next_value().map_err(|e| A::Error::custom(format!("in `{name}`: {e}")))?;
                entries.tensors.push((name, entry));
            }
        }
        Ok(entries)
    }
}

/// Reads a header of a file of `file_len` bytes. Sizes must follow from shapes and types, and lie in the file without overlap
/// and to its end; gaps between tensors are let be.
pub(super) fn parse(path: &Path, json: &[u8], file_len: u64) -> Result<Header> {
    let entries: Entries = serde_json::from_slice(json).map_err(|e| {
        broken(path, "safetensors.header", "its header cannot be read").note(format!("in the header: {e}"))
    })?;
    let data_start = PREFIX + json.len() as u64;
    let data_len = file_len.saturating_sub(data_start);
    let mut seen = HashSet::with_capacity(entries.tensors.len());
    let mut tensors = Vec::with_capacity(entries.tensors.len());
    for (name, entry) in entries.tensors {
        if !seen.insert(name.clone()) {
            return Err(broken(path, "safetensors.duplicate", &format!("`{name}` stands in its header twice")));
        }
        tensors.push(record(path, name, &entry, data_start, data_len)?);
    }
    check_overlap(path, &tensors)?;
    let used = tensors.iter().map(|t| t.offset + t.bytes).max().unwrap_or(data_start);
    if used < file_len {
        return Err(broken(path, "safetensors.trailing", "bytes follow its last tensor")
            .note(format!("its tensors end at byte {used}; the file has {file_len}"))
            .help("copy or download the file again"));
    }
    Ok(Header { tensors, metadata: entries.metadata })
}

fn record(path: &Path, name: String, entry: &Entry, data_start: u64, data_len: u64) -> Result<TensorRecord> {
    let dtype = StoredType::from_safetensors(&entry.dtype).ok_or_else(|| {
        broken(path, "safetensors.dtype", &format!("`{name}` has the unknown type `{}`", entry.dtype))
    })?;
    let shape: Option<Vec<usize>> = entry.shape.iter().map(|d| usize::try_from(*d).ok()).collect();
    let sized = shape.and_then(|shape| Some((dtype.bytes_of(elements(&shape)?)?, shape)));
    let Some((bytes, shape)) = sized else {
        return Err(broken(path, "safetensors.shape", &format!("the shape of `{name}` is too large to address")));
    };
    let (begin, end) = entry.data_offsets;
    if end.checked_sub(begin) != Some(bytes) {
        return Err(broken(path, "safetensors.offsets", &format!("the offsets of `{name}` do not fit its shape"))
            .note(format!("{dtype} of shape {} takes {bytes} bytes", shape_text(&shape)))
            .note(format!("its offsets are {begin} to {end}")));
    }
    if end > data_len {
        return Err(broken(path, "safetensors.truncated", &format!("`{name}` reaches beyond the end of the file"))
            .note(format!("it ends at byte {}; the file has {}", data_start.saturating_add(end), data_start + data_len))
            .help("copy or download the file again"));
    }
    Ok(TensorRecord { name, shape, dtype, offset: data_start + begin, bytes })
}

fn check_overlap(path: &Path, tensors: &[TensorRecord]) -> Result<()> {
    let mut order: Vec<&TensorRecord> = tensors.iter().filter(|t| t.bytes > 0).collect();
    order.sort_by_key(|t| t.offset);
    for pair in order.windows(2) {
        if let [a, b] = pair
            && a.offset + a.bytes > b.offset
        {
            let what = format!("`{}` and `{}` share bytes", a.name, b.name);
            return Err(broken(path, "safetensors.overlap", &what));
        }
    }
    Ok(())
}

pub(super) fn broken(path: &Path, code: &'static str, what: &str) -> Fault {
    Fault::new(code, format!("`{}` is not a sound safetensors file: {what}", path.display())).at(path)
}
