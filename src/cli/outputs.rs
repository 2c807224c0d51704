//! What options say is to be written, looked at before any work is done: a slip in a path costs nothing then.

use std::path::{Path, PathBuf};

use crate::store::{OutputKind, check_output};
use crate::text::{Fault, Result};

/// What an older file has to be for a new one to take its place.
pub struct Ours {
    /// How it begins.
    pub begins: &'static [u8],
    pub what: &'static str,
}

/// The file of `option` can be written; an older one may be there, if it is one of ours.
pub fn file(option: &str, path: &Path, ours: Option<&Ours>, example: &str) -> Result<()> {
    if path.is_dir() {
        let inside = path.join(example);
        return Err(Fault::new(
            "output.not_a_file",
            format!("`{option}` names a file, and `{}` is a folder", path.display()),
        )
        .at(path)
        .help(format!("name a file in it: `{option} {}`", inside.display())));
    }
    check_output(path, OutputKind::File, true)?;
    let Some(ours) = ours.filter(|_| path.is_file()) else { return Ok(()) };
    let old = std::fs::read(path).map_err(|e| Fault::io("read", path, &e))?;
    if old.is_empty() || old.starts_with(ours.begins) {
        return Ok(());
    }
    Err(Fault::new("output.foreign", format!("`{}` is there and is no {}", path.display(), ours.what))
        .at(path)
        .help(format!("name another file: `{option} {example}`")))
}

/// Files can be written in the folder of `option`, which may be there or not.
pub fn folder(option: &str, path: &Path) -> Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(Fault::new(
            "output.not_a_folder",
            format!("`{option}` names a folder, and `{}` is a file", path.display()),
        )
        .at(path)
        .help("name a folder that is there, or a new one"));
    }
    check_output(&path.join("x"), OutputKind::File, true)
}

/// The folder of `--run-dir`: there or not, and without a run in it.
pub fn run_folder(path: &Path) -> Result<()> {
    folder("--run-dir", path)?;
    match crate::run::holds_run(path) {
        true => Err(crate::run::already(path)),
        false => Ok(()),
    }
}

/// Folders made on the way to a file; those that are still empty in the end go again.
pub struct Made(Vec<PathBuf>);

impl Made {
    /// The folder and those above it, as far as they are not there.
    pub fn folders(folder: &Path) -> Result<Self> {
        let missing: Vec<PathBuf> = folder
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .map(Path::to_owned)
            .collect();
        if !missing.is_empty() {
            std::fs::create_dir_all(folder).map_err(|e| Fault::io("make", folder, &e))?;
        }
        Ok(Made(missing))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // The deepest first; one that holds something stays, and so do those above it.
        for folder in &self.0 {
            if std::fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_stay_empty_go_again() {
        let desk = tempfile::tempdir().expect("a folder");
        let (empty, full) = (desk.path().join("a/b"), desk.path().join("c/d"));
        drop(Made::folders(&empty).expect("made"));
        assert!(!desk.path().join("a").exists());
        let made = Made::folders(&full).expect("made");
        std::fs::write(full.join("x"), "").expect("written");
        drop(made);
        assert!(full.join("x").exists());
        drop(Made::folders(desk.path()).expect("is there"));
        assert!(desk.path().exists());
    }
}
