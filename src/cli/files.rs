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

/// Every pipeline that is named, and what could not be read of them: one that fails keeps no other from being read.
pub fn read_all(paths: &[PathBuf]) -> Result<(Vec<Named>, Vec<Fault>), Fault> {
    let (all, mut faults) = named(paths)?;
    let mut files = Vec::new();
    for path in all {
        match read(&path) {
            Ok(file) => files.push(file),
            Err(fault) => faults.push(fault),
        }
    }
    Ok((files, faults))
}

/// A file as it is, all `.tp` below a folder, `-` for standard input; not read yet, with the folders that could not be
/// listed. Sorted by the bytes of their paths within a folder; hidden folders are left out. Errors: a command line that
/// cannot be meant.
pub fn named(paths: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<Fault>), Fault> {
    let (mut all, mut faults): (Vec<PathBuf>, Vec<Fault>) = (Vec::new(), Vec::new());
    for path in paths {
        if path.is_dir() {
            let before = all.len() + faults.len();
            below(path, &mut all, &mut faults);
            if all.len() + faults.len() == before {
                faults.push(Fault::new("file.none", format!("no `.tp` file lies in `{}`", path.display())).at(path));
            }
        } else {
            all.push(path.clone());
        }
    }
    if all.iter().filter(|path| *path == Path::new("-")).count() > 1 {
        return Err(usage("standard input is read once"));
    }
    Ok((all, faults))
}

fn read(path: &Path) -> Result<Named, Fault> {
    let (name, folder, text) = source_text(path)?;
    Ok(Named { name, folder, text, path: (path != Path::new("-")).then(|| path.to_owned()) })
}

fn below(folder: &Path, found: &mut Vec<PathBuf>, faults: &mut Vec<Fault>) {
    let listed = fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut entries: Vec<PathBuf> = match listed {
        Ok(entries) => entries,
        Err(error) => return faults.push(Fault::io("read", folder, &error)),
    };
    entries.sort();
    for path in entries {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        // A link to a folder above would go round for ever.
        let kind = fs::symlink_metadata(&path);
        let is_folder = kind.as_ref().is_ok_and(|kind| kind.is_dir());
        let is_link = kind.is_ok_and(|kind| kind.is_symlink());
        if is_folder && !hidden {
            below(&path, found, faults);
        } else if path.extension().is_some_and(|extension| extension == "tp")
            && (path.is_file() || (is_link && !hidden && !path.exists()))
        {
            // A link that leads nowhere is read too, and so complained of.
            found.push(path);
        }
    }
}
