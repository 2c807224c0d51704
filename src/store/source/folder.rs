//! A Hugging Face folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::order::normalised;
use super::{CARRIED, HfTokenizer, Parts, TensorEntry, TokenizerSource};
use crate::store::atomic::is_plain_name;
use crate::store::disk::{DiskFile, read_json, read_small};
use crate::store::safetensors::TensorFile;
use crate::text::{Fault, Result};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

pub(super) fn read(folder: &Path) -> Result<Parts> {
    let names = list(folder)?;
    let has = |name: &str| names.iter().any(|n| n == name);
    if !has("config.json") {
        return Err(no_config(folder, &names));
    }
    let config_path = folder.join("config.json");
    let config = read_json(&config_path)?;
    let mut inputs = vec![config_path];
    let opened = if has(SINGLE) {
        vec![TensorFile::open(&folder.join(SINGLE))?]
    } else if has(INDEX) {
        inputs.push(folder.join(INDEX));
        open_shards(folder)?
    } else {
        return Err(no_weights(folder, &names));
    };
    inputs.extend(opened.iter().map(TensorFile::path));
    let carried: Vec<PathBuf> = CARRIED.iter().filter(|n| has(n)).map(|n| folder.join(n)).collect();
    inputs.extend(carried.iter().cloned());
    let tokenizer = tokenizer(folder, &has)?;
    let mut tensors = Vec::new();
    for (file, opened) in opened.iter().enumerate() {
        tensors.extend(opened.tensors().iter().map(|t| TensorEntry {
            name: normalised(&t.name),
            stored_name: t.name.clone(),
            shape: t.shape.clone(),
            dtype: t.dtype,
            file,
            offset: t.offset,
            bytes: t.bytes,
            head_rows: None,
        }));
    }
    let files: Vec<DiskFile> = opened.into_iter().map(TensorFile::into_disk).collect();
    Ok(Parts { config, files, tensors, tokenizer, carried, inputs })
}

fn list(folder: &Path) -> Result<Vec<String>> {
    let fault = |e: std::io::Error| Fault::io("read", folder, &e);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(fault)? {
        if let Ok(name) = entry.map_err(fault)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn no_config(folder: &Path, names: &[String]) -> Fault {
    let fault = Fault::new("config.missing", format!("`{}` has no `config.json`", folder.display())).at(folder);
    if let Some(gguf) = names.iter().find(|n| n.to_lowercase().ends_with(".gguf")) {
        return fault.help(format!("to read the GGUF file in it, name the file: `{}`", folder.join(gguf).display()));
    }
    if names.iter().any(|n| n == "adapter_config.json") {
        return fault
            .note("it holds an adapter, not a model")
            .help("load the adapter's base model, and the adapter onto it");
    }
    fault.note("a model's folder holds `config.json`, `model.safetensors` (or shards with an index) and a tokenizer")
}

fn no_weights(folder: &Path, names: &[String]) -> Fault {
    let shown = folder.display();
    let safetensors: Vec<&String> = names.iter().filter(|n| n.ends_with(".safetensors")).collect();
    match safetensors.as_slice() {
        [] => {}
        [one] => {
            return Fault::new("model.no_weights", format!("`{shown}` has no `{SINGLE}`"))
                .at(folder)
                .note(format!("it holds `{one}`"))
                .help(format!("if that file is the whole model, rename it to `{SINGLE}`"));
        }
        [first, .., last] => {
            return Fault::new("model.no_index", format!("`{shown}` holds several weight files and no `{INDEX}`"))
                .at(folder)
                .note(format!("`{first}` to `{last}`, {} in all", safetensors.len()))
                .note("the index says which of them belong to the model")
                .help(format!("download `{INDEX}` too"));
        }
    }
    let pickle = names.iter().find(|n| n.starts_with("pytorch_model") && n.ends_with(".bin") || n.ends_with(".pth"));
    if let Some(pickle) = pickle {
        return Fault::new("model.pickle", format!("`{shown}` holds its weights as `{pickle}`, which is not read"))
            .at(folder)
            .note("a PyTorch file is a program that runs when it is loaded; safetensors files hold numbers alone")
            .help(format!(
                "convert it once: `python -c \"from transformers import AutoModelForCausalLM as M; \
                 M.from_pretrained('{shown}', torch_dtype='auto').save_pretrained('{shown}')\"`"
            ));
    }
    let fault = Fault::new("model.no_weights", format!("`{shown}` has no `{SINGLE}` and no `{INDEX}`")).at(folder);
    match names.iter().find(|n| n.to_lowercase().ends_with(".gguf")) {
        Some(gguf) => {
            fault.help(format!("to read the GGUF file in it, name the file: `{}`", folder.join(gguf).display()))
        }
        None => fault,
    }
}

/// The shards that the index names, in the order of their names, each holding what the index says of it.
fn open_shards(folder: &Path) -> Result<Vec<TensorFile>> {
    let path = folder.join(INDEX);
    let index = read_json(&path)?;
    let wrong =
        |what: &str| Fault::new("model.index", format!("`{}` is not a sound index: {what}", path.display())).at(&path);
    let map = index.get("weight_map").and_then(Value::as_object).ok_or_else(|| wrong("it has no `weight_map`"))?;
    let mut shards: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (tensor, file) in map {
        let file = file.as_str().ok_or_else(|| wrong(&format!("the file of `{tensor}` is not a name")))?;
        if !is_plain_name(file) {
            return Err(wrong(&format!("`{file}` is not a file name in the model's own folder")));
        }
        shards.entry(file).or_default().push(tensor);
    }
    if shards.is_empty() {
        return Err(wrong("it names no tensor"));
    }
    let absent: Vec<&str> = shards.keys().copied().filter(|file| !folder.join(file).is_file()).collect();
    if let Some(first) = absent.first() {
        let what = format!("{} of {} weight files are missing from `{}`", absent.len(), shards.len(), folder.display());
        let fault = Fault::new("model.missing_shard", what).at(&folder.join(first));
        return Err(fault.note(format!("missing: {}", some(&absent))).help("finish the download of the model"));
    }
    let mut opened = Vec::with_capacity(shards.len());
    for (file, tensors) in &shards {
        let shard = TensorFile::open(&folder.join(file))?;
        let here: std::collections::HashSet<&str> = shard.tensors().iter().map(|t| t.name.as_str()).collect();
        let absent: Vec<&str> = tensors.iter().copied().filter(|t| !here.contains(t)).collect();
        if !absent.is_empty() {
            let what = format!("the index lists tensors in `{file}` that it does not hold");
            return Err(Fault::new("model.missing_tensor", what)
                .at(&folder.join(file))
                .note(format!("missing: {}", some(&absent)))
                .help("download the model again: index and weights are not of the same version"));
        }
        opened.push(shard);
    }
    Ok(opened)
}

/// The first few of a list.
fn some(names: &[&str]) -> String {
    const SHOWN: usize = 4;
    let mut text: Vec<String> = names.iter().take(SHOWN).map(|n| format!("`{n}`")).collect();
    if names.len() > SHOWN {
        text.push(format!("and {} more", names.len() - SHOWN));
    }
    text.join(", ")
}

fn tokenizer(folder: &Path, has: &dyn Fn(&str) -> bool) -> Result<TokenizerSource> {
    if !has("tokenizer.json") {
        let found = ["tokenizer.model", "vocab.json"].into_iter().find(|n| has(n));
        return Ok(TokenizerSource::Missing(match found {
            Some(other) => format!("the folder has `{other}` but no `tokenizer.json`, which is the form that is read"),
            None => "the folder has no `tokenizer.json`".to_owned(),
        }));
    }
    let json = |name: &str| has(name).then(|| read_json(&folder.join(name))).transpose();
    let template = if has("chat_template.jinja") {
        let path = folder.join("chat_template.jinja");
        let text = String::from_utf8(read_small(&path, 16 << 20)?);
        Some(
            text.map_err(|_| Fault::new("file.not_utf8", format!("`{}` is not UTF-8 text", path.display())).at(&path))?,
        )
    } else {
        // An older form of the same: {"chat_template": "…"}.
        let older = json("chat_template.json")?;
        older.as_ref().and_then(|j| j.get("chat_template")).and_then(Value::as_str).map(str::to_owned)
    };
    Ok(TokenizerSource::HfJson(HfTokenizer {
        path: folder.join("tokenizer.json"),
        config: json("tokenizer_config.json")?,
        special_tokens: json("special_tokens_map.json")?,
        template,
    }))
}
