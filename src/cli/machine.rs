//! What the machine at hand has free.

use std::path::Path;

use crate::memory::Limits;

/// Free RAM and the free space of the disk that `folder` lies on; what cannot be found out is not judged.
pub fn free(folder: &Path) -> Limits {
    Limits { gpu: None, ram: free_ram(), disk: free_disk(folder) }
}

/// `MemAvailable`: what can be had without swapping.
fn free_ram() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn free_disk(folder: &Path) -> Option<u64> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let stat = rustix::fs::statvfs(folder).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_machine_has_something_free() {
        let free = super::free(std::path::Path::new(""));
        assert!(free.disk.is_some_and(|bytes| bytes > 0));
        if cfg!(target_os = "linux") {
            assert!(free.ram.is_some_and(|bytes| bytes > 1 << 20));
        }
    }
}
