//! The one door through which files are written: under a temporary name beside the destination, synced, then renamed.
//! A reader sees the old file or the whole new one; a failure or a dropped writer leaves nothing behind, and what a killed
//! one leaves the next writer of the same path clears away.

mod early;
mod leftovers;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::{TempDir, TempPath};

use crate::text::{Fault, Result};
use early::EarlySync;

pub(super) use leftovers::clear as clear_leftovers;
pub use leftovers::clear_all as clear_all_leftovers;

/// Bytes that an open [`AtomicFile`] holds back before it writes.
pub const WRITE_BUFFER: usize = 1 << 20;

/// What an output path is to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKind {
    File,
    Folder,
}

/// Writes one file atomically: `fill` writes, and only a whole file takes the name.
pub fn write(path: &Path, overwrite: bool, fill: impl FnOnce(&mut AtomicFile) -> Result<()>) -> Result<()> {
    let mut file = AtomicFile::create(path, overwrite)?;
    fill(&mut file)?;
    file.commit()
}

/// A file that exists under its name only once [`commit`](AtomicFile::commit) returns. One that was made by
/// [`AtomicFolder::file`] has its final name at once, inside a folder that has not.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    /// What is not written yet, at most [`WRITE_BUFFER`] bytes.
    held: Vec<u8>,
    /// Brings to the disk what a large file has had written, while more of it is made.
    early: Option<EarlySync>,
    /// The name a person knows it by.
    shown: PathBuf,
    written: u64,
    /// None inside an [`AtomicFolder`].
    place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    temp: TempPath,
    destination: PathBuf,
    overwrite: bool,
}

impl AtomicFile {
    /// Starts a file that will be `path`; its folder is made if need be.
    ///
    /// Errors: `output.exists` and the others of [`check_output`], `file.*`, `disk.full`.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self> {
        let destination = real_destination(path);
        leftovers::clear(&destination);
        check_shape(path, OutputKind::File, overwrite)?;
        let parent = make_parent(&destination)?;
        let temp = builder(&temp_prefix(&destination, "tmp"), 0o666)
            .tempfile_in(&parent)
            .map_err(|e| write_fault("create a file in", &parent, &e))?;
        let (file, temp) = temp.into_parts();
        // A file system without locks only means that nobody can tell a leftover.
        let _ = file.try_lock();
        let place = Some(Place { temp, destination, overwrite });
        Ok(Self::over(file, path.to_owned(), place))
    }

    fn over(file: File, shown: PathBuf, place: Option<Place>) -> Self {
        AtomicFile { file, held: Vec::with_capacity(WRITE_BUFFER), early: None, shown, written: 0, place }
    }

    /// Appends bytes. Many of them are not copied, but written at once.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() >= WRITE_BUFFER {
            let through = |file: &mut Self| {
                file.write_held()?;
                file.file.write_all(bytes)
            };
            through(self).map_err(|e| write_fault("write", &self.shown, &e))?;
            self.written += bytes.len() as u64;
            return Ok(());
        }
        for part in bytes.chunks(WRITE_BUFFER) {
            self.fill(part.len(), |room| {
                room.copy_from_slice(part);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Appends `len` bytes, at most [`WRITE_BUFFER`], that `make` writes into the room it is given.
    pub(super) fn fill(&mut self, len: usize, make: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        if len > WRITE_BUFFER {
            return Err(Fault::new("output.size", "more is written at once than is held back; this is a bug"));
        }
        if self.held.len() + len > WRITE_BUFFER {
            self.write_held().map_err(|e| write_fault("write", &self.shown, &e))?;
        }
        let start = self.held.len();
        self.held.resize(start + len, 0);
        make(self.held.get_mut(start..).unwrap_or_default())?;
        self.written += len as u64;
        Ok(())
    }

    fn write_held(&mut self) -> io::Result<()> {
        self.file.write_all(&self.held)?;
        self.held.clear();
        if self.written >= EarlySync::EVERY {
            if self.early.is_none() {
                self.early = EarlySync::start(&self.file);
            }
            if let Some(early) = &mut self.early {
                early.written(self.written);
            }
        }
        Ok(())
    }

    /// Bytes put so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The name a person knows the file by.
    pub fn path(&self) -> &Path {
        &self.shown
    }

    /// Flushes, syncs and gives the file its name.
    pub fn commit(mut self) -> Result<()> {
        let shown = self.shown.clone();
        let fault = |e: io::Error| write_fault("write", &shown, &e);
        self.write_held().map_err(fault)?;
        if let Some(early) = self.early.take() {
            early.finish().map_err(fault)?;
        }
        self.file.sync_all().map_err(fault)?;
        let Some(Place { temp, destination, overwrite }) = self.place.take() else { return Ok(()) };
        if let Some(old) = fs::metadata(&destination).ok().filter(|_| overwrite) {
            // What was private stays private.
            fs::set_permissions(&temp, old.permissions()).map_err(fault)?;
        }
        let persisted = if overwrite { temp.persist(&destination) } else { temp.persist_noclobber(&destination) };
        persisted.map_err(|e| match e.error.kind() {
            io::ErrorKind::AlreadyExists => exists_fault(&self.shown),
            _ => write_fault("write", &self.shown, &e.error),
        })?;
        sync_folder(&parent_of(&destination))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.held.len() == WRITE_BUFFER {
            self.write_held()?;
        }
        let part = bytes.get(..bytes.len().min(WRITE_BUFFER - self.held.len())).unwrap_or_default();
        self.held.extend_from_slice(part);
        self.written += part.len() as u64;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_held()
    }
}

/// What tells a file or folder from any other that bears its name later: a rename keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// None where nothing is there, or the system has no such numbers.
    pub fn of(path: &Path) -> Option<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let meta = fs::metadata(path).ok()?;
            Some(Identity { device: meta.dev(), inode: meta.ino() })
        }
        #[cfg(not(unix))]
        {
            let _ = path;
            None
        }
    }
}

/// A folder whose files are written under `.NAME.tmp-…` beside it, and which takes its name whole.
///
/// With `overwrite` an old folder stays until the new one is complete; then it is renamed aside, the new one takes
/// the name, and the old one is removed.
#[derive(Debug)]
pub struct AtomicFolder {
    temp: TempDir,
    /// Held for as long as the temporary folder is in use.
    _claim: Option<File>,
    shown: PathBuf,
    destination: PathBuf,
    overwrite: bool,
}

impl AtomicFolder {
    /// Errors: those of [`check_output`], `file.*`, `disk.full`.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self> {
        let destination = real_destination(path);
        leftovers::clear(&destination);
        check_shape(path, OutputKind::Folder, overwrite)?;
        let parent = make_parent(&destination)?;
        let temp = builder(&temp_prefix(&destination, "tmp"), 0o777)
            .tempdir_in(&parent)
            .map_err(|e| write_fault("create a folder in", &parent, &e))?;
        let claim = leftovers::claim(temp.path());
        Ok(AtomicFolder { temp, _claim: claim, shown: path.to_owned(), destination, overwrite })
    }

    /// What the folder will be known by under its name, which is what it is known by now.
    pub fn identity(&self) -> Option<Identity> {
        Identity::of(self.temp.path())
    }

    /// Starts the file `name` in the folder. `name` is a plain file name.
    pub fn file(&self, name: &str) -> Result<AtomicFile> {
        let shown = self.shown.join(name);
        if !is_plain_name(name) {
            return Err(Fault::new("output.name", format!("`{name}` is not a plain file name")).at(&shown));
        }
        let file = File::create_new(self.temp.path().join(name)).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                Fault::new("output.twice", format!("`{name}` would be written twice")).at(&shown)
            }
            _ => write_fault("create", &shown, &e),
        })?;
        Ok(AtomicFile::over(file, shown, None))
    }

    /// Writes a whole small file.
    pub fn text(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut file = self.file(name)?;
        file.put(bytes)?;
        file.commit()
    }

    /// Copies `from` into the folder as `name`, through a buffer.
    pub fn copy(&self, from: &Path, name: &str) -> Result<()> {
        let mut source = File::open(from).map_err(|e| Fault::io("read", from, &e))?;
        let mut file = self.file(name)?;
        let mut window = [0u8; super::disk::WINDOW];
        loop {
            match io::Read::read(&mut source, &mut window) {
                Ok(0) => return file.commit(),
                Ok(n) => file.put(window.get(..n).unwrap_or_default())?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Fault::io("read", from, &e)),
            }
        }
    }

    /// Gives the folder its name.
    pub fn commit(self) -> Result<()> {
        sync_folder(self.temp.path())?;
        let parent = parent_of(&self.destination);
        let fault = |e: &io::Error| write_fault("write", &self.shown, e);
        if fs::symlink_metadata(&self.destination).is_ok() {
            if !self.overwrite {
                return Err(exists_fault(&self.shown));
            }
            let old = builder(&temp_prefix(&self.destination, "old"), 0o777)
                .tempdir_in(&parent)
                .map_err(|e| write_fault("create a folder in", &parent, &e))?;
            let _claim = leftovers::claim(old.path());
            let aside = old.path().join("old");
            fs::rename(&self.destination, &aside).map_err(|e| fault(&e))?;
            if let Err(e) = fs::rename(self.temp.path(), &self.destination) {
                // The old folder goes back where it was. If even that fails it must not be removed with its holder.
                if fs::rename(&aside, &self.destination).is_err() {
                    let kept = old.keep();
                    return Err(fault(&e).note(format!("the old folder is kept as `{}`", kept.join("old").display())));
                }
                return Err(fault(&e));
            }
            sync_folder(&parent)?;
            // A leftover of the old folder is untidy but harms nobody; the new one is in place.
            drop(old);
        } else {
            fs::rename(self.temp.path(), &self.destination).map_err(|e| fault(&e))?;
            sync_folder(&parent)?;
        }
        // Nothing lies under the temporary name any more.
        let _ = self.temp.keep();
        Ok(())
    }
}

/// Tells whether `path` could be written, before hours are spent. Makes nothing that stays; only an old folder that an
/// interrupted overwrite had set aside is put back first.
///
/// Errors: `output.exists`, `output.not_a_folder`, `output.not_a_file`, `output.foreign`, `output.name`, `file.denied`,
/// `disk.full`.
pub fn check_output(path: &Path, kind: OutputKind, overwrite: bool) -> Result<()> {
    let destination = real_destination(path);
    leftovers::clear(&destination);
    check_shape(path, kind, overwrite)?;
    let mut folder = parent_of(&destination);
    while fs::symlink_metadata(&folder).is_err() {
        folder = parent_of(&folder);
    }
    if !folder.is_dir() {
        return Err(Fault::new("output.not_a_folder", format!("`{}` is a file, not a folder", folder.display()))
            .at(path)
            .help("choose a path whose parent is a folder"));
    }
    // An unnamed file asks the file system itself: permissions, read-only mounts and quotas all count.
    tempfile::tempfile_in(&folder).map(drop).map_err(|e| write_fault("write in", &folder, &e))
}

fn check_shape(path: &Path, kind: OutputKind, overwrite: bool) -> Result<()> {
    if path.file_name().is_none() {
        return Err(Fault::new("output.name", format!("`{}` cannot be the name of an output", path.display()))
            .at(path)
            .help("end the path in the name of a new file or folder"));
    }
    if let Some(long) = path.components().find(|part| part.as_os_str().len() > LONGEST_NAME) {
        let start: String = long.as_os_str().to_string_lossy().chars().take(24).collect();
        return Err(Fault::new("output.name", format!("`{start}…` is too long for a name"))
            .at(path)
            .note(format!("a name may have {LONGEST_NAME} bytes")));
    }
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !overwrite {
        return Err(exists_fault(path));
    }
    let is_folder = if found.is_symlink() { path.is_dir() } else { found.is_dir() };
    match (kind, is_folder) {
        (OutputKind::Folder, false) => {
            Err(Fault::new("output.not_a_folder", format!("`{}` is a file where a folder is to be", path.display()))
                .at(path)
                .help("choose another path, or remove the file"))
        }
        (OutputKind::File, true) => {
            Err(Fault::new("output.not_a_file", format!("`{}` is a folder where a file is to be", path.display()))
                .at(path)
                .help("choose another path"))
        }
        (OutputKind::Folder, true) => check_ours(path),
        (OutputKind::File, false) => Ok(()),
    }
}

/// Files that a saved model or adapter consists of, ours or another tool's.
const SAVED: [&str; 16] = [
    "README.md",
    "adapter_config.json",
    "adapter_model.safetensors",
    "added_tokens.json",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "manifest.json",
    "merges.txt",
    "model.safetensors",
    "model.safetensors.index.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
];

/// `model-00001-of-00003.safetensors`.
fn is_shard(name: &str) -> bool {
    let Some(middle) = name.strip_prefix("model-").and_then(|rest| rest.strip_suffix(".safetensors")) else {
        return false;
    };
    middle.split("-of-").all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

/// Replacing a folder removes all that is in it, so only one that holds a saved model or adapter and nothing else is
/// replaced.
fn check_ours(path: &Path) -> Result<()> {
    let entries = fs::read_dir(path).map_err(|e| Fault::io("read", path, &e))?;
    let mut foreign = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| Fault::io("read", path, &e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if folder || !(SAVED.contains(&&*name) || is_shard(&name)) {
            foreign.push(if folder { format!("{name}/") } else { name });
        }
    }
    foreign.sort();
    let Some(first) = foreign.first() else { return Ok(()) };
    let others = match foreign.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    Err(Fault::new("output.foreign", format!("`{}` holds other things than a saved model or adapter", path.display()))
        .at(path)
        .note(format!("`overwrite` would remove `{first}`{others} with the folder"))
        .help("choose another path, or move those away"))
}

/// The longest name that a file system takes, less the room for a temporary name beside it.
const LONGEST_NAME: usize = 255 - 24;

/// A path as the file system knows it, as far as it exists: links followed, `.` and `..` taken out. Two paths that become
/// one output are equal here.
pub fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut real = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => {
                real.pop();
            }
            Component::CurDir => {}
            part => {
                real.push(part);
                if let Ok(found) = fs::canonicalize(&real) {
                    real = found;
                }
            }
        }
    }
    real
}

fn exists_fault(path: &Path) -> Fault {
    Fault::new("output.exists", format!("`{}` exists already", path.display()))
        .at(path)
        .help("add `overwrite` to replace it (the old one stays until the new one is whole), or choose another path")
}

pub(super) fn write_fault(what: &str, path: &Path, error: &io::Error) -> Fault {
    let mut fault = Fault::io(what, path, error);
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        fault.code = "disk.full";
        fault = fault.help("free some space on this disk, or write to another one");
    }
    fault
}

/// A single normal component: no separators of any system, no `..`.
pub(super) fn is_plain_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
        && !name.contains(['/', '\\', '\0'])
        && !name.contains(':')
}

/// Where a symbolic link points, so that what it names is replaced and not the link.
fn real_destination(path: &Path) -> PathBuf {
    if path.is_symlink() { fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()) } else { path.to_owned() }
}

fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => PathBuf::from("/"),
    }
}

fn make_parent(path: &Path) -> Result<PathBuf> {
    let parent = parent_of(path);
    fs::create_dir_all(&parent).map_err(|e| write_fault("create", &parent, &e))?;
    Ok(parent)
}

fn temp_prefix(destination: &Path, word: &str) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(destination.file_name().unwrap_or_default());
    prefix.push(format!(".{word}-"));
    prefix
}

/// Temporary files with the permissions that any new file gets: what is made here stays under another name.
fn builder(prefix: &OsString, mode: u32) -> tempfile::Builder<'_, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _ = mode;
    builder
}

/// Makes a rename in `folder` survive a power cut. Other systems than Unix do not open folders, and need not.
fn sync_folder(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    File::open(folder).and_then(|f| f.sync_all()).map_err(|e| write_fault("sync", folder, &e))?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

#[cfg(test)]
mod tests;
