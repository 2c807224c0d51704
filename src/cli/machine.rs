//! What the machine at hand has free.

use std::path::{Path, PathBuf};

use crate::memory::Limits;

/// Free RAM, and free space where the outputs will lie: of the fullest disk where they lie on several. What cannot be
/// found out is not judged.
pub fn free(outputs: &[PathBuf]) -> Limits {
    let here = PathBuf::from(".");
    let places = if outputs.is_empty() { std::slice::from_ref(&here) } else { outputs };
    Limits { gpu: None, ram: free_ram(), disk: places.iter().filter_map(|folder| free_disk(folder)).min() }
}

/// `MemAvailable`: what can be had without swapping.
fn free_ram() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Of the disk that a folder lies on, or will once it is made.
fn free_disk(folder: &Path) -> Option<u64> {
    let there =
        folder.ancestors().map(|a| if a.as_os_str().is_empty() { Path::new(".") } else { a }).find(|a| a.exists())?;
    let stat = rustix::fs::statvfs(there).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_something_free() {
        let free = free(&[PathBuf::from("no/such/folder/yet")]);
        assert!(free.disk.is_some_and(|bytes| bytes > 0));
        if cfg!(target_os = "linux") {
            assert!(free.ram.is_some_and(|bytes| bytes > 1 << 20));
        }
    }
}
