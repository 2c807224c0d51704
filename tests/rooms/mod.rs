//! Rooms import in one direction (docs/architecture.md). A new edge has to be written down here first.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A room, and the rooms it may use.
const ROOMS: &[(&str, &[&str])] = &[
    ("text", &[]),
    ("plan", &["text"]),
    ("syntax", &["text", "plan"]),
    ("catalog", &["text", "syntax", "plan"]),
    ("check", &["text", "syntax", "catalog", "plan"]),
    ("memory", &["text"]),
    ("store", &["text"]),
    ("data", &["text", "store"]),
    ("kernels", &["text"]),
    ("model", &["text", "plan", "store", "kernels"]),
    ("train", &["text", "model", "data", "kernels", "store", "memory"]),
    ("stages", &["text", "catalog", "plan", "memory", "kernels", "train", "model", "data", "store"]),
    ("tools", &["text", "syntax", "catalog", "check", "plan", "memory", "store", "data", "model", "stages"]),
    ("run", &["text", "plan", "memory", "model", "stages", "store", "tools"]),
    ("cli", &["text", "store", "data", "syntax", "catalog", "check", "plan", "memory", "stages", "run", "tools"]),
];

/// Third-party crates that stand behind one door each.
const DOORS: &[(&str, &str)] = &[
    ("pest", "syntax"),
    ("miette", "text"),
    ("clap", "cli"),
    ("clap_complete", "cli"),
    ("gemm", "kernels"),
    ("gemm_common", "kernels"),
    ("tokenizers", "data"),
    ("minijinja", "data"),
    ("memmap2", "store"),
    ("safetensors", "store"),
    ("indicatif", "run"),
    ("similar", "cli"),
    ("jiff", "run"),
    ("signal_hook", "run"),
];

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a room is a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// Code above the first `#[cfg(test)]`: tests may look anywhere. Test modules in files of their own are left out whole.
fn code(path: &Path) -> String {
    if path.file_stem().is_some_and(|stem| stem == "tests") || path.components().any(|c| c.as_os_str() == "tests") {
        return String::new();
    }
    let text = fs::read_to_string(path).expect("a source file is text");
    let end = text.find("#[cfg(test)]").unwrap_or(text.len());
    text[..end].lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[test]
fn rooms_import_in_one_direction() {
    let mut wrong = Vec::new();
    for (room, allowed) in ROOMS {
        let mut list = Vec::new();
        files(&src().join(room), &mut list);
        for file in list {
            let text = code(&file);
            for (other, _) in ROOMS {
                let used =
                    text.contains(&format!("crate::{other}::")) || text.contains(&format!("use crate::{other};"));
                if used && other != room && !allowed.contains(other) {
                    wrong.push(format!("{} uses {other}", file.display()));
                }
            }
            for (door, owner) in DOORS {
                let used = text.contains(&format!("{door}::")) && !text.contains(&format!("crate::{door}::"));
                let word = text.match_indices(&format!("{door}::")).any(|(at, _)| {
                    at == 0 || !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':')
                });
                if used && word && owner != room {
                    wrong.push(format!("{} knows {door}, whose door is {owner}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_folder_of_src_is_a_room_of_the_table() {
    let named: BTreeSet<&str> = ROOMS.iter().map(|(room, _)| *room).collect();
    for entry in fs::read_dir(src()).expect("src is there").flatten() {
        if entry.path().is_dir() {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(named.contains(name.as_str()), "`{name}` is in no row of the table");
        }
    }
}
