//! The names that somebody may have meant.

use std::path::{Path, PathBuf};

/// The path that lies beside `path` and resembles it the most.
pub fn near_path(path: &Path) -> Option<PathBuf> {
    let parent = path.parent().unwrap_or(Path::new(""));
    let folder = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let near = near_names(folder, path.file_name()?.to_str()?);
    near.first().map(|near| parent.join(near))
}

/// Names in `folder` that resemble `name`, the likeliest first; at most three.
pub(super) fn near_names(folder: &Path, name: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let wanted = name.to_lowercase();
    // Two letters changed places in a short name, or one wrong in every three of a long one.
    let limit = (wanted.chars().count() / 3).max(if wanted.chars().count() > 3 { 2 } else { 1 });
    let mut found: Vec<(usize, String)> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|found| !found.starts_with('.'))
        .filter_map(|found| {
            let lower = found.to_lowercase();
            let far = distance(&wanted, &lower);
            let like = far <= limit || lower.starts_with(&wanted);
            like.then_some((far, found))
        })
        .collect();
    found.sort();
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Insertions, deletions and replacements from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        for (y, pair) in b.iter().zip(row.windows(2)) {
            let (replaced, deleted) = (pair.first().copied().unwrap_or(0), pair.get(1).copied().unwrap_or(0));
            let inserted = next.last().copied().unwrap_or(0);
            next.push((replaced + usize::from(x != *y)).min(deleted + 1).min(inserted + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
