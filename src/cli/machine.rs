//! What the machine at hand has free.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::memory::Limits;

/// Free RAM, and room for what will be written, so many bytes to each path: where paths lie on several disks, all of it
/// up to the point at which the first of them is full. What cannot be found out is not judged.
pub fn free(writes: &[(PathBuf, u64)]) -> Limits {
    Limits { gpu: None, ram: free_ram(), disk: room(writes) }
}

/// What the system can give without swapping, and what a container's limits leave of it.
fn free_ram() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok();
    let system = text.and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    [system, left_by_groups(&own, Path::new("/sys/fs/cgroup"))].into_iter().flatten().min()
}

/// Names of a control group's files: limit, usage, and what of the usage is pages of files, which go when room is wanted.
struct Names {
    limit: &'static str,
    usage: &'static str,
    files: [&'static str; 2],
}

const FIRST: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    files: ["total_inactive_file", "total_active_file"],
};
const SECOND: Names = Names { limit: "memory.max", usage: "memory.current", files: ["inactive_file", "active_file"] };

/// The least that the control groups of a process leave it: `own` as `/proc/self/cgroup` lists them, `root` where they are
/// mounted. A group's parents count; inside a container its own group may be the root.
fn left_by_groups(own: &str, root: &Path) -> Option<u64> {
    let groups = own.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        match controllers {
            "" => Some((root.to_owned(), path, SECOND)),
            list if list.split(',').any(|one| one == "memory") => Some((root.join("memory"), path, FIRST)),
            _ => None,
        }
    });
    let left = groups.flat_map(|(root, path, names)| {
        let folders = Path::new(path.trim_start_matches('/')).ancestors().map(move |folder| root.join(folder));
        folders.filter_map(move |folder| left(&folder, &names)).collect::<Vec<u64>>()
    });
    left.min()
}

/// What one control group leaves; none where it has no limit.
fn left(folder: &Path, names: &Names) -> Option<u64> {
    let number = |name: &str| std::fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    let limit = number(names.limit)?;
    let usage = number(names.usage).unwrap_or(0);
    let stat = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let files = stat.lines().filter_map(|line| line.split_once(' ')).filter(|(name, _)| names.files.contains(name));
    let files: u64 = files.filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok()).sum();
    Some(limit.saturating_sub(usage.saturating_sub(files)))
}

/// Room for all that is written, by the disk that lacks it first.
fn room(writes: &[(PathBuf, u64)]) -> Option<u64> {
    let here = [(PathBuf::from("."), 0)];
    let writes = if writes.is_empty() { &here[..] } else { writes };
    // Disk, free on it, written to it.
    let mut disks: Vec<(u64, u64, u64)> = Vec::new();
    for (path, bytes) in writes {
        let Some((disk, free)) = disk(path) else { continue };
        match disks.iter_mut().find(|(known, ..)| *known == disk) {
            Some((.., written)) => *written = written.saturating_add(*bytes),
            None => disks.push((disk, free, *bytes)),
        }
    }
    let all = writes.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    fits(all, &disks)
}

/// `all`, and what the tightest of the disks `(_, free, written)` has over, or less what it lacks.
fn fits(all: u64, disks: &[(u64, u64, u64)]) -> Option<u64> {
    let over = disks.iter().map(|(_, free, written)| i128::from(*free) - i128::from(*written)).min()?;
    Some(u64::try_from((i128::from(all) + over).max(0)).unwrap_or(u64::MAX))
}

/// The disk that a path lies on, or will once it is made, and what is free there.
fn disk(path: &Path) -> Option<(u64, u64)> {
    let there =
        path.ancestors().map(|a| if a.as_os_str().is_empty() { Path::new(".") } else { a }).find(|a| a.exists())?;
    let free = rustix::fs::statvfs(there).ok()?;
    let device = std::fs::metadata(there).ok()?.dev();
    Some((device, free.f_bavail.checked_mul(free.f_frsize)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_something_free() {
        let free = free(&[(PathBuf::from("no/such/folder/yet"), 1)]);
        assert!(free.disk.is_some_and(|bytes| bytes > 0));
        if cfg!(target_os = "linux") {
            assert!(free.ram.is_some_and(|bytes| bytes > 1 << 20));
        }
    }

    #[test]
    fn each_disk_takes_what_is_written_to_it() {
        // A large model where there is room, an adapter where there is little.
        assert_eq!(fits(1010, &[(1, 5000, 1000), (2, 30, 10)]), Some(1030));
        // Ten bytes too many for the second.
        assert_eq!(fits(1010, &[(1, 5000, 970), (2, 30, 40)]), Some(1000));
        assert_eq!(fits(10, &[(1, 500, 10)]), Some(500));
        assert_eq!(fits(10, &[]), None);
    }

    #[test]
    fn a_container_has_what_its_limits_leave() {
        let desk = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = desk.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        let own = "12:pids:/x\n4:cpu,memory:/pod/one\n0::/slice/unit\n";
        assert_eq!(left_by_groups(own, desk.path()), None);
        write("slice/unit/memory.max", "max\n");
        assert_eq!(left_by_groups(own, desk.path()), None);
        write("slice/memory.max", "1000\n");
        write("slice/memory.current", "700\n");
        write("slice/memory.stat", "anon 400\ninactive_file 200\nactive_file 50\n");
        assert_eq!(left_by_groups(own, desk.path()), Some(550));
        // Inside a container the group's own folder is the mount's root.
        write("memory/memory.limit_in_bytes", "600\n");
        write("memory/memory.usage_in_bytes", "500\n");
        write("memory/memory.stat", "inactive_file 7\ntotal_inactive_file 100\n");
        assert_eq!(left_by_groups(own, desk.path()), Some(200));
    }
}
