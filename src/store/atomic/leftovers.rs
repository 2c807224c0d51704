//! What a writer that was killed leaves beside its destination, and how the next one tells it from a living writer's.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{parent_of, temp_prefix};

/// Holds a temporary file or folder as in use. The lock goes with the process, however that ends.
pub(super) fn claim(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    file.try_lock().ok()?;
    Some(file)
}

/// Puts back an old folder whose replacement was interrupted between two renames, and removes the temporary files and
/// folders of writers that are gone. Best effort: what cannot be judged is left alone.
pub(in crate::store) fn clear(destination: &Path) {
    for old in abandoned(destination, "old") {
        if fs::symlink_metadata(destination).is_err() {
            let _ = fs::rename(old.join("old"), destination);
        }
        // With the destination in place, what is left here is the folder that it replaced.
        if fs::symlink_metadata(destination).is_ok() {
            let _ = fs::remove_dir_all(&old);
        }
    }
    for temp in abandoned(destination, "tmp") {
        let _ = if temp.is_dir() { fs::remove_dir_all(&temp) } else { fs::remove_file(&temp) };
    }
}

/// As `clear`, of every destination in a folder.
pub fn clear_all(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_prefix('.')) else { continue };
        let of = ["tmp", "old"].into_iter().find_map(|word| name.rsplit_once(&format!(".{word}-")));
        if let Some((destination, _)) = of {
            clear(&folder.join(destination));
        }
    }
}

/// Siblings that a writer of `destination` made, and that no living one claims.
fn abandoned(destination: &Path, word: &str) -> Vec<PathBuf> {
    let prefix = temp_prefix(destination, word);
    let Ok(entries) = fs::read_dir(parent_of(destination)) else { return Vec::new() };
    let named = entries.flatten().filter(|entry| is_ours(&entry.file_name(), &prefix));
    let real = named.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    real.map(|entry| entry.path()).filter(|path| claim(path).is_some()).collect()
}

/// The prefix and six random letters or digits.
fn is_ours(name: &OsStr, prefix: &OsStr) -> bool {
    let rest = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
    rest.is_some_and(|rest| rest.len() == 6 && rest.iter().all(u8::is_ascii_alphanumeric))
}
