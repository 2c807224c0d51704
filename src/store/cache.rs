//! What commands keep for one another: entries that can be made again, found by the content that they were made of.
//!
//! An entry is a file `KEY.KIND` in one folder. It takes its name only when it is whole, its reader checks it, and one
//! that is damaged is made again; so nothing here ever stops a command. A folder that cannot be written to keeps
//! nothing.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::AtomicFile;
use super::atomic::clear_leftovers;
use crate::text::{Fault, Result};

/// Bytes of all entries together; past it the ones that were longest not used go.
pub const BOUND: u64 = 8 << 30;

/// A SHA-256.
pub type Sum = [u8; 32];

/// A folder of entries.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    bound: u64,
}

impl Cache {
    /// The user's: `TUNEPIPE_CACHE`, else `tunepipe` where the system keeps caches. None where the variable is empty or
    /// `off`, or no such place is known.
    pub fn of_user() -> Option<Self> {
        let var = |name: &str| std::env::var_os(name);
        if let Some(named) = var("TUNEPIPE_CACHE") {
            return (!named.is_empty() && named != "off").then(|| Cache::at(PathBuf::from(named), BOUND));
        }
        // The specification of XDG has relative paths ignored.
        let absolute = |name: &str| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || absolute("HOME").or_else(|| absolute("USERPROFILE"));
        let place = absolute("XDG_CACHE_HOME").or_else(|| {
            if cfg!(windows) {
                absolute("LOCALAPPDATA")
            } else if cfg!(target_os = "macos") {
                home().map(|home| home.join("Library/Caches"))
            } else {
                home().map(|home| home.join(".cache"))
            }
        })?;
        Some(Cache::at(place.join("tunepipe"), BOUND))
    }

    /// The one in a folder, which is made when something is first kept; `bound`: bytes of all entries together.
    pub fn at(folder: PathBuf, bound: u64) -> Self {
        Cache { folder, bound }
    }

    fn path(&self, kind: &str, key: &Sum) -> PathBuf {
        self.folder.join(format!("{}.{kind}", hex(key)))
    }

    /// Opens an entry, and counts that as a use of it.
    pub fn open(&self, kind: &str, key: &Sum) -> Option<File> {
        let path = self.path(kind, key);
        let file = File::open(&path).ok().filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()))?;
        // Where that is not allowed, the entry only looks older than it is.
        let _ = OpenOptions::new().append(true).open(&path).and_then(|entry| entry.set_modified(SystemTime::now()));
        Some(file)
    }

    /// Makes an entry of `bytes` bytes, in place of an older one. Whether it is kept is nobody's concern: where it is
    /// not, it is made again.
    pub fn keep(&self, kind: &str, key: &Sum, bytes: u64, fill: impl FnOnce(&mut AtomicFile) -> Result<()>) {
        if bytes > self.bound || self.make_folder().is_err() {
            return;
        }
        self.make_room(bytes);
        // What cannot be written is not kept.
        let _ = super::write(&self.path(kind, key), true, fill);
    }

    /// A folder that is made here is the user's own: rows may be private.
    fn make_folder(&self) -> std::io::Result<()> {
        if self.folder.is_dir() {
            return Ok(());
        }
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.folder)
    }

    /// Removes entries, the longest unused first, until there is room for so many bytes more, and what writers that
    /// were killed left behind. Files of other names are not touched.
    fn make_room(&self, more: u64) {
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if let Some(entry) = unfinished(&name) {
                clear_leftovers(&self.folder.join(entry));
            }
            let Ok(meta) = entry.metadata() else { continue };
            if is_entry(&name) && meta.is_file() {
                entries.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), meta.len(), entry.path()));
            }
        }
        entries.sort();
        let mut held = entries.iter().fold(more, |sum, (_, bytes, _)| sum.saturating_add(*bytes));
        for (_, bytes, path) in entries {
            if held <= self.bound {
                break;
            }
            // One that another process removed, or that cannot be removed, makes no room here.
            if fs::remove_file(path).is_ok() {
                held = held.saturating_sub(bytes);
            }
        }
    }
}

/// `64 hexadecimal digits.kind`
fn is_entry(name: &OsStr) -> bool {
    name.to_str().and_then(|name| name.split_once('.')).is_some_and(|(key, kind)| {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        key.len() == 64 && key.bytes().all(hex) && !kind.is_empty() && kind.bytes().all(|b| b.is_ascii_lowercase())
    })
}

/// The entry that a temporary file was to become.
fn unfinished(name: &OsStr) -> Option<String> {
    let (entry, _) = name.to_str()?.strip_prefix('.')?.split_once(".tmp-")?;
    is_entry(OsStr::new(entry)).then(|| entry.to_owned())
}

fn hex(sum: &Sum) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that are hashed at a time.
pub const HASH_BUFFER: usize = 1 << 18;
/// A file that changed so recently may change again without its times telling.
const SETTLED: Duration = Duration::from_secs(2);
const SUMS: &str = "sum";

/// What tells a file from a later state of it without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    path: PathBuf,
    bytes: u64,
    /// Nanoseconds since 1970 of its last change of content, and of anything.
    modified: i128,
    changed: i128,
    device: u64,
    inode: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok().map(|t| t.as_nanos() as i128);
        let modified = since(meta.modified().ok()?)?;
        #[cfg(unix)]
        let (changed, device, inode) = {
            use std::os::unix::fs::MetadataExt;
            (i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec()), meta.dev(), meta.ino())
        };
        #[cfg(not(unix))]
        let (changed, device, inode) = (modified, 0, 0);
        Some(Stamp { path: super::resolved(path), bytes: meta.len(), modified, changed, device, inode })
    }

    /// Whether its times are old enough to tell it from any later state.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_nanos() as i128);
        now.saturating_sub(self.modified.max(self.changed)) > SETTLED.as_nanos() as i128
    }

    fn key(&self) -> Sum {
        Sha256::digest(self.path.as_os_str().as_encoded_bytes()).into()
    }
}

/// A file's stamp with the SHA-256 of its content.
#[derive(Serialize, Deserialize)]
struct Known {
    stamp: Stamp,
    sum: Sum,
}

/// SHA-256 of a file's bytes. One that a cache knows, and that did not change since, is not read. `progress` hears of
/// bytes as they are read.
///
/// # Errors
/// `file.*` where the file cannot be read.
pub fn sum_of(path: &Path, cache: Option<&Cache>, progress: &mut dyn FnMut(u64)) -> Result<Sum> {
    let stamp = cache.and_then(|_| Stamp::of(path));
    if let (Some(cache), Some(stamp)) = (cache, &stamp)
        && let Some(known) = known(cache, stamp)
    {
        progress(stamp.bytes);
        return Ok(known);
    }
    let failed = |e: std::io::Error| Fault::io("read", path, &e);
    let mut file = File::open(path).map_err(failed)?;
    let mut sha = Sha256::new();
    let mut buffer = vec![0u8; HASH_BUFFER];
    loop {
        let n = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(failed(e)),
        };
        sha.update(buffer.get(..n).unwrap_or_default());
        progress(n as u64);
    }
    let sum: Sum = sha.finalize().into();
    if let (Some(cache), Some(stamp)) = (cache, stamp)
        && stamp.is_settled()
        && Stamp::of(path).is_some_and(|after| after == stamp)
        && let Ok(bytes) = serde_json::to_vec(&Known { stamp: stamp.clone(), sum })
    {
        cache.keep(SUMS, &stamp.key(), bytes.len() as u64, |file| file.put(&bytes));
    }
    Ok(sum)
}

fn known(cache: &Cache, stamp: &Stamp) -> Option<Sum> {
    /// Longer than any stamp.
    const MOST: u64 = 1 << 16;
    let mut bytes = Vec::new();
    cache.open(SUMS, &stamp.key())?.take(MOST).read_to_end(&mut bytes).ok()?;
    let known: Known = serde_json::from_slice(&bytes).ok()?;
    (known.stamp == *stamp).then_some(known.sum)
}

#[cfg(test)]
mod tests;
