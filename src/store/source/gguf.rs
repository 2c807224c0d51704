//! A GGUF file as a model source.

use std::path::Path;

use rayon::prelude::*;

use super::{Parts, TensorEntry, TokenizerSource};
use crate::store::disk::DiskFile;
use crate::store::gguf::{GgufFile, GgufVocab, HeadRows, hf_config, hf_name, permuted};
use crate::text::{Fault, Result};

pub(super) fn read(path: &Path) -> Result<Parts> {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_lowercase();
    if matches!(extension.as_str(), "safetensors" | "bin" | "json" | "pth" | "pt") {
        let folder = path.parent().unwrap_or(path);
        return Err(Fault::new("model.not_a_model", format!("`{}` is a part of a model", path.display()))
            .at(path)
            .help(format!("name the folder that holds the model: `{}`", folder.display())));
    }
    let file = GgufFile::open(path)?;
    let config = hf_config(&file)?;
    let head = |of: HeadRows| {
        let key = match of {
            HeadRows::Query => "num_attention_heads",
            HeadRows::Key => "num_key_value_heads",
        };
        config.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0)
    };
    let mut tensors = Vec::with_capacity(file.tensors().len());
    for t in file.tensors() {
        let head_rows = permuted(&t.name).map(|of| rows_of_head(path, t, head(of))).transpose()?;
        tensors.push(TensorEntry {
            name: hf_name(&t.name).unwrap_or_else(|| t.name.clone()),
            stored_name: t.name.clone(),
            shape: t.shape.clone(),
            dtype: t.dtype,
            file: 0,
            offset: t.offset,
            bytes: t.bytes,
            head_rows,
        });
    }
    let tokenizer = match GgufVocab::read(&file)? {
        Some(vocab) => TokenizerSource::Gguf(vocab),
        None => TokenizerSource::Missing("the GGUF file carries no tokenizer".to_owned()),
    };
    let files = vec![file.into_disk()];
    Ok(Parts { config, files, tensors, tokenizer, carried: Vec::new(), inputs: vec![path.to_owned()] })
}

fn rows_of_head(path: &Path, tensor: &crate::store::gguf::GgufTensor, heads: u64) -> Result<usize> {
    let rows = tensor.shape.first().copied().unwrap_or(0);
    let heads = usize::try_from(heads).unwrap_or(0);
    match rows.checked_div(heads) {
        Some(head) if head > 0 && head.is_multiple_of(2) && head * heads == rows => Ok(head),
        _ => Err(Fault::new("gguf.shape", format!("`{}` has {rows} rows for {heads} heads", tensor.name)).at(path)),
    }
}

/// Where row `row` of the Hugging Face order lies in the file. The converter takes the two halves of a head's rows, which
/// rotary embeddings pair up, and deals them out in turn.
fn stored_row(row: usize, head: usize) -> usize {
    let (start, within) = (row / head * head, row % head);
    start + if within < head / 2 { 2 * within } else { 2 * (within - head / 2) + 1 }
}

/// As `DiskFile::read_f32`, for a tensor whose rows lie interleaved within heads of `head` rows; `first` and the length
/// of `out` were held to the tensor's size.
pub(super) fn read_interleaved(
    file: &DiskFile,
    tensor: &TensorEntry,
    head: usize,
    first: u64,
    out: &mut [f32],
) -> Result<()> {
    let row_len = tensor.shape.iter().skip(1).product::<usize>().max(1);
    let (mut row, skip) = ((first / row_len as u64) as usize, (first % row_len as u64) as usize);
    let mut out = out;
    if skip != 0 {
        let n = out.len().min(row_len - skip);
        let (part, rest) = out.split_at_mut(n);
        let at = stored_row(row, head) as u64 * row_len as u64 + skip as u64;
        file.read_f32(tensor.offset, tensor.dtype, at, part)?;
        (out, row) = (rest, row + 1);
    }
    out.par_chunks_mut(row_len).with_min_len(32).enumerate().try_for_each(|(i, part)| {
        let at = stored_row(row + i, head) as u64 * row_len as u64;
        file.read_f32(tensor.offset, tensor.dtype, at, part)
    })
}

#[cfg(test)]
mod row_tests {
    use super::stored_row;

    #[test]
    fn halves_of_a_head_are_dealt_out_in_turn() {
        // The converter's reshape(heads, 2, head / 2).swapaxes(1, 2), spelled out.
        let (heads, head) = (3, 8);
        let mut stored = Vec::new();
        for h in 0..heads {
            for i in 0..head / 2 {
                for s in 0..2 {
                    stored.push(h * head + s * head / 2 + i);
                }
            }
        }
        for row in 0..heads * head {
            assert_eq!(stored[stored_row(row, head)], row);
        }
    }
}
