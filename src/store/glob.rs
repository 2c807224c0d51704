//! Patterns of paths: `data/*.jsonl`, `data/**/part-[0-9].json`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::text::{Fault, Result};

/// Files that one pattern may come to.
const MOST: usize = 100_000;

/// Whether a path has a character that a pattern gives a meaning.
pub fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

/// The files that a pattern matches, sorted by the bytes of their paths. `*` and `?` stand for any characters and any
/// one character of a name, `[a-z]` and `[!a-z]` for one of some, `**` for any depth of folders. Names that begin with
/// a dot are matched by a dot alone, as shells do it. A path that is there as it is written is itself, whatever
/// characters it has.
///
/// # Errors
/// `path.no_match` where no file matches; `path.pattern` for a bracket that is not closed; `file.*` for a folder that
/// cannot be read.
pub fn expand(pattern: &Path) -> Result<Vec<PathBuf>> {
    if pattern.exists() {
        return Ok(vec![pattern.to_owned()]);
    }
    let parts: Vec<Component<'_>> = pattern.components().collect();
    let mut found = Vec::new();
    walk(&mut PathBuf::new(), &parts, &mut found)?;
    if found.is_empty() {
        return Err(Fault::new("path.no_match", format!("no file matches `{}`", pattern.display())).at(pattern));
    }
    found.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    found.dedup();
    Ok(found)
}

fn walk(at: &mut PathBuf, parts: &[Component<'_>], found: &mut Vec<PathBuf>) -> Result<()> {
    let Some((part, rest)) = parts.split_first() else {
        if at.is_file() {
            if found.len() >= MOST {
                return Err(
                    Fault::new("path.pattern", format!("the pattern matches more than {MOST} files")).at(at.as_path())
                );
            }
            found.push(at.clone());
        }
        return Ok(());
    };
    let Component::Normal(name) = part else {
        at.push(part);
        walk(at, rest, found)?;
        at.pop();
        return Ok(());
    };
    let text = name.to_string_lossy();
    if text == "**" {
        walk(at, rest, found)?;
        for entry in entries(at)? {
            at.push(&entry);
            // A link to a folder above would go round for ever.
            let folder = fs::symlink_metadata(&at).is_ok_and(|kind| kind.is_dir());
            if folder && !entry.to_string_lossy().starts_with('.') {
                walk(at, parts, found)?;
            }
            at.pop();
        }
        return Ok(());
    }
    if !text.contains(['*', '?', '[']) {
        at.push(name);
        walk(at, rest, found)?;
        at.pop();
        return Ok(());
    }
    let pattern: Vec<char> = text.chars().collect();
    for entry in entries(at)? {
        let chars: Vec<char> = entry.to_string_lossy().chars().collect();
        let hidden = chars.first() == Some(&'.') && pattern.first() != Some(&'.');
        if !hidden && matches(&pattern, &chars).ok_or_else(|| unclosed(&text))? {
            at.push(&entry);
            walk(at, rest, found)?;
            at.pop();
        }
    }
    Ok(())
}

fn unclosed(pattern: &str) -> Fault {
    Fault::new("path.pattern", format!("`{pattern}` opens a bracket and does not close it"))
        .help("`[a-z]` is one of these letters; a name with `[` in it is matched by `?`")
}

/// Names in a folder; none where there is no such folder.
fn entries(folder: &Path) -> Result<Vec<std::ffi::OsString>> {
    let folder = if folder.as_os_str() == OsStr::new("") { Path::new(".") } else { folder };
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let failed = |error: std::io::Error| Fault::io("read", folder, &error);
    fs::read_dir(folder).map_err(failed)?.map(|entry| Ok(entry.map_err(failed)?.file_name())).collect()
}

/// Whether a name matches, without backtracking over more than the last `*`; none where a bracket is not closed.
fn matches(pattern: &[char], name: &[char]) -> Option<bool> {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            None if n == name.len() => return Some(true),
            None => None,
            Some(_) if n == name.len() => return Some(pattern.get(p..)?.iter().all(|c| *c == '*')),
            Some('?') => Some(1),
            Some('[') => {
                let (fits, length) = set(pattern.get(p + 1..)?, *name.get(n)?)?;
                fits.then_some(length + 1)
            }
            Some(c) => (Some(c) == name.get(n)).then_some(1),
        };
        match (step, star) {
            (Some(width), _) => {
                p += width;
                n += 1;
            }
            (None, Some((behind, from))) if from < name.len() => {
                star = Some((behind, from + 1));
                (p, n) = (behind, from + 1);
            }
            (None, _) => return Some(false),
        }
    }
}

/// Whether a character is one of a set, and the set's length with its closing bracket.
fn set(pattern: &[char], c: char) -> Option<(bool, usize)> {
    let denied = matches!(pattern.first(), Some('!' | '^'));
    let start = usize::from(denied);
    let mut at = start;
    let mut fits = false;
    loop {
        match pattern.get(at)? {
            ']' if at > start => return Some((fits != denied, at + 1)),
            low => match (pattern.get(at + 1), pattern.get(at + 2)) {
                (Some('-'), Some(high)) if *high != ']' => {
                    fits |= (*low..=*high).contains(&c);
                    at += 3;
                }
                _ => {
                    fits |= *low == c;
                    at += 1;
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, name: &str) -> Option<bool> {
        matches(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>())
    }

    #[test]
    fn names_match() {
        for (pattern, name) in [
            ("*", "a"),
            ("*.jsonl", "a.b.jsonl"),
            ("a*b*c", "axxbyybc"),
            ("?.txt", "é.txt"),
            ("part-[0-9].json", "part-7.json"),
            ("[!a]b", "cb"),
            ("[]]", "]"),
            ("a**", "a"),
        ] {
            assert_eq!(fits(pattern, name), Some(true), "{pattern} {name}");
        }
        for (pattern, name) in
            [("*.json", "a.jsonl"), ("?", ""), ("?", "ab"), ("[0-9]", "x"), ("a*b", "acx"), ("", "a")]
        {
            assert_eq!(fits(pattern, name), Some(false), "{pattern} {name}");
        }
        assert_eq!(fits("[a", "a"), None);
        // Time grows with the product of the lengths at most.
        assert_eq!(fits(&"a*".repeat(200), &"a".repeat(5000)), Some(true));
        assert_eq!(fits(&format!("{}b", "a*".repeat(200)), &"a".repeat(5000)), Some(false));
    }

    #[test]
    fn files_come_sorted_by_bytes_and_folders_do_not() {
        let root = tempfile::tempdir().expect("a folder");
        for name in
            ["b.jsonl", "B.jsonl", "a.jsonl", ".c.jsonl", "x.txt", "sub/d.jsonl", "sub/deep/e.jsonl", "z.jsonl/no"]
        {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("lies in the folder")).expect("made");
            fs::write(path, "").expect("written");
        }
        let names = |pattern: &str| -> Vec<String> {
            let found = expand(&root.path().join(pattern)).unwrap_or_default();
            let name = |path: &PathBuf| path.strip_prefix(root.path()).map(|p| p.display().to_string());
            found.iter().filter_map(|path| name(path).ok()).collect()
        };
        assert_eq!(names("*.jsonl"), ["B.jsonl", "a.jsonl", "b.jsonl"]);
        assert_eq!(names("**/*.jsonl"), ["B.jsonl", "a.jsonl", "b.jsonl", "sub/d.jsonl", "sub/deep/e.jsonl"]);
        assert_eq!(names("s*/*.jsonl"), ["sub/d.jsonl"]);
        assert_eq!(names("a.jsonl"), ["a.jsonl"]);
        assert_eq!(expand(&root.path().join("*.csv")).map_err(|fault| fault.code), Err("path.no_match"));
        assert_eq!(expand(&root.path().join("[a")).map_err(|fault| fault.code), Err("path.pattern"));
    }
}
