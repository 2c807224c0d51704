//! SHA-256 of the files that a run reads and of those that it leaves.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::store::{Cache, sum_of};
use crate::text::{Fault, Result};

/// Of bytes at hand, in hexadecimal digits.
pub fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of each file, by its path as it is shown; read in parallel. Files that a cache knows, and that did not change since,
/// are not read.
///
/// Errors: `file.*` of the first file that cannot be read.
pub fn hashes(files: &[PathBuf], cache: Option<&Cache>) -> Result<BTreeMap<String, String>> {
    let of = |path: &PathBuf| Ok((path.display().to_string(), hex(&sum_of(path, cache, &mut |_| {})?)));
    files.par_iter().map(of).collect()
}

/// Of every file in a folder that a stage made, by its name; folders in it are none of a stage's.
///
/// Errors: `file.*`.
pub fn folder_hashes(folder: &Path, cache: Option<&Cache>) -> Result<BTreeMap<String, String>> {
    let fault = |e: &std::io::Error| Fault::io("read", folder, e);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| fault(&e))? {
        let entry = entry.map_err(|e| fault(&e))?;
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            files.push(entry.path());
        }
    }
    let name = |path: String| Path::new(&path).file_name().map_or(path.clone(), |n| n.to_string_lossy().into_owned());
    Ok(hashes(&files, cache)?.into_iter().map(|(path, sum)| (name(path), sum)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_hashed_file_by_file() {
        let desk = tempfile::tempdir().expect("a folder");
        fs::write(desk.path().join("a"), "one").expect("written");
        fs::write(desk.path().join("b"), "two").expect("written");
        fs::create_dir(desk.path().join("c")).expect("made");
        let found = folder_hashes(desk.path(), None).expect("read");
        assert_eq!(found, BTreeMap::from([("a".into(), hash(b"one")), ("b".into(), hash(b"two"))]));
        assert!(folder_hashes(&desk.path().join("none"), None).is_err());
        assert!(hashes(&[desk.path().join("none")], None).is_err());
    }
}
