//! A cursor over a file's head that never reads past the end and never believes a length before the bytes are there.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use crate::store::disk::DiskFile;
use crate::text::{Fault, Result};

pub(super) struct Bytes<'a> {
    reader: BufReader<&'a File>,
    path: PathBuf,
    at: u64,
    len: u64,
}

impl<'a> Bytes<'a> {
    /// Starts where the file's own cursor is: at its beginning, if nothing else moved it.
    pub fn new(file: &'a DiskFile) -> Self {
        let reader = BufReader::with_capacity(1 << 16, file.as_file());
        Bytes { reader, path: file.path().to_owned(), at: 0, len: file.len() }
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Bytes that are left.
    pub fn left(&self) -> u64 {
        self.len.saturating_sub(self.at)
    }

    fn fill(&mut self, out: &mut [u8], what: &str) -> Result<()> {
        if out.len() as u64 > self.left() {
            return Err(self.cut(what));
        }
        self.reader.read_exact(out).map_err(|e| Fault::io("read", &self.path, &e))?;
        self.at += out.len() as u64;
        Ok(())
    }

    pub fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut out = [0u8; N];
        self.fill(&mut out, what)?;
        Ok(out)
    }

    pub fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A string with its length before it. Tokens need not be UTF-8: what is not is replaced.
    pub fn string(&mut self, what: &str) -> Result<String> {
        let n = self.u64(what)?;
        if n > self.left() {
            return Err(self.cut(what));
        }
        let mut out = vec![0u8; n as usize];
        self.fill(&mut out, what)?;
        Ok(match String::from_utf8(out) {
            Ok(text) => text,
            Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
        })
    }

    /// The file ends inside `what`.
    pub fn cut(&self, what: &str) -> Fault {
        broken(&self.path, "gguf.truncated", &format!("it ends inside {what}"))
            .note(format!("at byte {} of {}", self.at, self.len))
            .help("copy or download the file again")
    }

    pub fn broken(&self, code: &'static str, what: &str) -> Fault {
        broken(&self.path, code, what)
    }
}

pub(super) fn broken(path: &Path, code: &'static str, what: &str) -> Fault {
    Fault::new(code, format!("`{}` is not a GGUF file that can be read: {what}", path.display())).at(path)
}
