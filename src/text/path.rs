//! Paths as texts have them: relative to the folder of the text.

use std::path::{Component, Path, PathBuf};

/// The path that a literal of a text in `folder` means, as a person would write it: `../models/a` in `pipelines` is
/// `models/a`. Where the folder that `..` leaves is a link, or is not there, its parent is another than the one before
/// it, and the path stays as it is written.
pub fn joined(folder: &Path, literal: &str) -> PathBuf {
    let whole = folder.join(literal);
    if !whole.components().any(|part| matches!(part, Component::ParentDir | Component::CurDir)) {
        return whole;
    }
    let mut tidy = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::ParentDir if matches!(tidy.components().next_back(), Some(Component::Normal(_))) => {
                if !std::fs::symlink_metadata(&tidy).is_ok_and(|kind| kind.is_dir()) {
                    return whole;
                }
                tidy.pop();
            }
            Component::CurDir => {}
            part => tidy.push(part),
        }
    }
    if tidy.as_os_str().is_empty() {
        tidy.push(".");
    }
    // A slash at the end says that a folder is meant.
    if literal.ends_with('/') { tidy.join("") } else { tidy }
}

/// A path in one line, with nothing in it that a terminal obeys.
pub fn shown_path(path: &Path) -> String {
    super::shown(&path.display().to_string()).replace(['\n', '\r', '\t'], "␦")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_as_a_person_would_write_it() {
        let desk = tempfile::tempdir().expect("a folder");
        let at = |name: &str| desk.path().join(name);
        std::fs::create_dir_all(at("real/inner")).expect("made");
        std::os::unix::fs::symlink(at("real/inner"), at("link")).expect("linked");
        assert_eq!(joined(&at("real"), "../models/a"), at("models/a"));
        assert_eq!(joined(&at("real/inner"), "../../x/"), at("x/"));
        assert!(joined(&at("real"), "../x/").to_string_lossy().ends_with('/'));
        // The parent of what is linked is `real`.
        assert_eq!(joined(&at("link"), "../models"), at("link/../models"));
        assert_eq!(joined(&at("not-there"), "../models"), at("not-there/../models"));
        assert_eq!(joined(Path::new(""), "../models"), Path::new("../models"));
        assert_eq!(joined(Path::new("a"), "b"), Path::new("a/b"));
        assert_eq!(joined(&at("real"), "/abs/b"), Path::new("/abs/b"));
        assert_eq!(joined(Path::new("src"), ".."), Path::new("."));
    }

    #[test]
    fn a_name_is_one_line() {
        assert_eq!(shown_path(Path::new("a\u{1b}[31m\nb.tp")), "a␛[31m␦b.tp");
    }
}
