//! Pipelines of files, folders and standard input.

use std::fs;
use std::path::{Path, PathBuf};

use super::prepare::{source_text, usage};
use crate::text::Fault;

/// A text with its name for people; no path: standard input.
pub struct Named {
    pub name: String,
    pub folder: PathBuf,
    pub text: String,
    pub path: Option<PathBuf>,
}

/// Every pipeline that is named: a file as it is, all `.tp` below a folder, `-` for standard input. Sorted by the bytes
/// of their paths within a folder; hidden folders are left out.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Named>, Fault> {
    named(paths)?.into_iter().map(|path| read(&path)).collect()
}

/// The same, not read yet.
pub fn named(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Fault> {
    let mut all: Vec<PathBuf> = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = all.len();
            below(path, &mut all)?;
            if all.len() == before {
                return Err(Fault::new("file.none", format!("no `.tp` file lies in `{}`", path.display())).at(path));
            }
        } else {
            all.push(path.clone());
        }
    }
    if all.iter().filter(|path| *path == Path::new("-")).count() > 1 {
        return Err(usage("standard input is read once"));
    }
    Ok(all)
}

fn read(path: &Path) -> Result<Named, Fault> {
    let (name, folder, text) = source_text(path)?;
    Ok(Named { name, folder, text, path: (path != Path::new("-")).then(|| path.to_owned()) })
}

fn below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Fault> {
    let failed = |error: std::io::Error| Fault::io("read", folder, &error);
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort();
    for path in entries {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        // A link to a folder above would go round for ever.
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|kind| kind.is_dir());
        if is_folder && !hidden {
            below(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "tp") && path.is_file() {
            found.push(path);
        }
    }
    Ok(())
}
