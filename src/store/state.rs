//! A state that a run can be taken up from: tensors bit by bit in `state.safetensors`, and beside them a note, in JSON,
//! of where the run stood. A folder that takes its name whole; it says itself whether it is still what was written.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::atomic::{AtomicFile, AtomicFolder};
use super::disk::DiskFile;
use super::safetensors::{TensorFile, TensorRecord, header_bytes};
use super::types::{StoredType, TensorInfo};
use crate::text::{Fault, Result};

const TENSORS: &str = "state.safetensors";
const NOTE: &str = "cursor.json";

/// Bytes of the note's file, whatever stands in it: a plan knows what a state takes before there is one.
const NOTE_BYTES: usize = 4096;

/// Bytes that are written, and hashed meanwhile, at a time.
const PIECE: usize = 8 << 20;

const METADATA: [(&str, &str); 1] = [("format", "tunepipe state 1")];

/// What a tensor of a state holds: its bits are kept, not its values.
#[derive(Debug, Clone, Copy)]
pub enum Bits<'a> {
    F32(&'a [f32]),
    U8(&'a [u8]),
}

/// The same, to be filled.
#[derive(Debug)]
pub enum BitsMut<'a> {
    F32(&'a mut [f32]),
    U8(&'a mut [u8]),
}

/// Bytes of a state's folder with these tensors.
///
/// Errors: `size.overflow`; those of the header.
pub fn state_bytes(tensors: &[TensorInfo]) -> Result<u64> {
    let mut total = header_bytes(tensors, &METADATA)?.len() as u64 + NOTE_BYTES as u64;
    for tensor in tensors {
        total = total
            .checked_add(tensor.bytes()?)
            .ok_or_else(|| Fault::new("size.overflow", "a checkpoint is too large to address"))?;
    }
    Ok(total)
}

/// A state that is being written. Dropped before [`commit`](StateWriter::commit) it leaves nothing.
#[derive(Debug)]
pub struct StateWriter {
    folder: AtomicFolder,
    file: AtomicFile,
    left: VecDeque<TensorInfo>,
    sha: Sha256,
}

impl StateWriter {
    /// Starts the folder `path`, which must not exist, with these tensors in this order.
    ///
    /// Errors: those of [`AtomicFolder::create`], `disk.full`, `size.overflow`.
    pub fn create(path: &Path, tensors: &[TensorInfo]) -> Result<Self> {
        let folder = AtomicFolder::create(path, false)?;
        let mut file = folder.file(TENSORS)?;
        let header = header_bytes(tensors, &METADATA)?;
        file.put(&header)?;
        let sha = Sha256::new().chain_update(&header);
        Ok(StateWriter { folder, file, left: tensors.iter().cloned().collect(), sha })
    }

    /// Writes the tensor that comes next, which has to be `name`. Nothing is copied.
    ///
    /// Errors: `output.order`, `output.size`, `disk.full`, `file.*`.
    pub fn tensor(&mut self, name: &str, bits: Bits<'_>) -> Result<()> {
        let Some(info) = self.left.pop_front().filter(|info| info.name == name) else {
            return Err(Fault::new("output.order", format!("`{name}` is not the tensor to be written now")));
        };
        let (dtype, count) = match bits {
            Bits::F32(values) => (StoredType::F32, values.len()),
            Bits::U8(values) => (StoredType::U8, values.len()),
        };
        if info.dtype != dtype || info.elements()? != count as u64 {
            return Err(Fault::new(
                "output.size",
                format!("`{name}` was not given as many values, or of another type"),
            ));
        }
        match bits {
            Bits::U8(values) => self.bytes(values),
            Bits::F32(values) if cfg!(target_endian = "little") => self.bytes(bytemuck::cast_slice(values)),
            Bits::F32(values) => values.iter().try_for_each(|value| self.bytes(&value.to_le_bytes())),
        }
    }

    /// A piece is hashed while it is on its way to the disk.
    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let (file, sha) = (&mut self.file, &mut self.sha);
        for piece in bytes.chunks(PIECE) {
            rayon::join(|| file.put(piece), || sha.update(piece)).0?;
        }
        Ok(())
    }

    /// Adds the note, and gives the folder its name.
    ///
    /// Errors: `output.order` while tensors are missing, and those of writing.
    pub fn commit(self, note: Map<String, Value>) -> Result<()> {
        if let Some(missing) = self.left.front() {
            return Err(Fault::new("output.order", format!("`{}` was not written", missing.name)));
        }
        self.file.commit()?;
        let state = hex(&self.sha.finalize());
        let note = Value::Object(note);
        let seal = seal(&note, &state);
        let mut text = serde_json::json!({"seal": seal, "state": state, "note": note}).to_string().into_bytes();
        if text.len() >= NOTE_BYTES {
            return Err(Fault::new("output.size", "a checkpoint's note is larger than was planned; this is a bug"));
        }
        text.resize(NOTE_BYTES - 1, b' ');
        text.push(b'\n');
        self.folder.text(NOTE, &text)?;
        self.folder.commit()
    }
}

/// What a note and the hash of its tensors are known by.
fn seal(note: &Value, state: &str) -> String {
    hex(&Sha256::new().chain_update(note.to_string()).chain_update(state).finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A state's folder, opened.
#[derive(Debug)]
pub struct State {
    path: PathBuf,
    /// What was noted with it.
    pub note: Value,
    sha: String,
    tensors: BTreeMap<String, TensorRecord>,
    file: DiskFile,
}

impl State {
    /// Opens a folder and reads its note.
    ///
    /// Errors: `state.damaged`, `file.*`, `safetensors.*`.
    pub fn open(path: &Path) -> Result<Self> {
        let (file, note) = (path.join(TENSORS), path.join(NOTE));
        let text = fs::read(&note).map_err(|e| Fault::io("read", &note, &e))?;
        let damaged = || damaged(path, "its note is not what was written");
        let whole: Value = serde_json::from_slice(&text).map_err(|_| damaged())?;
        let (note, sha) = (whole["note"].clone(), whole["state"].as_str().unwrap_or_default().to_owned());
        if whole["seal"] != seal(&note, &sha).as_str() {
            return Err(damaged());
        }
        let opened = TensorFile::open(&file)?;
        let tensors = opened.tensors().iter().map(|tensor| (tensor.name.clone(), tensor.clone())).collect();
        Ok(State { path: path.to_owned(), note, sha, tensors, file: opened.into_disk() })
    }

    /// Reads all of it, and holds it to what was written.
    ///
    /// Errors: `state.damaged`, `file.*`.
    pub fn verify(&self) -> Result<()> {
        let sum = super::sum_of(self.file.path(), None, &mut |_| {})?;
        if hex(&sum) == self.sha { Ok(()) } else { Err(damaged(&self.path, "its tensors are not what was written")) }
    }

    /// Fills `out` with the bits of a tensor.
    ///
    /// Errors: `state.damaged` where there is no such tensor, or of another size or type; `file.*`.
    pub fn read(&self, name: &str, out: BitsMut<'_>) -> Result<()> {
        let stranger = || damaged(&self.path, &format!("it has no such `{name}` as this training"));
        let found = self.tensors.get(name).ok_or_else(stranger)?;
        let (dtype, bytes) = match &out {
            BitsMut::F32(values) => (StoredType::F32, size_of_val(*values)),
            BitsMut::U8(values) => (StoredType::U8, values.len()),
        };
        if found.dtype != dtype || found.bytes != bytes as u64 {
            return Err(stranger());
        }
        match out {
            BitsMut::U8(values) => self.file.read_at(found.offset, values),
            BitsMut::F32(values) => {
                self.file.read_at(found.offset, bytemuck::cast_slice_mut(values))?;
                if cfg!(target_endian = "big") {
                    values.iter_mut().for_each(|value| *value = f32::from_le_bytes(value.to_ne_bytes()));
                }
                Ok(())
            }
        }
    }
}

fn damaged(path: &Path, what: &str) -> Fault {
    Fault::new("state.damaged", what).at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infos() -> Vec<TensorInfo> {
        vec![TensorInfo::new("a", &[2, 3], StoredType::F32), TensorInfo::new("b", &[4], StoredType::U8)]
    }

    /// Bits that values would not survive with: a NaN with a payload, a negative zero.
    fn values() -> [f32; 6] {
        [1.5, -0.0, f32::from_bits(0x7fc0_1234), f32::MIN_POSITIVE / 4.0, f32::INFINITY, -2.0]
    }

    fn written(path: &Path) {
        let mut writer = StateWriter::create(path, &infos()).expect("created");
        writer.tensor("a", Bits::F32(&values())).expect("written");
        writer.tensor("b", Bits::U8(&[0, 1, 254, 255])).expect("written");
        writer.commit(Map::from_iter([("step".to_owned(), 7.into())])).expect("committed");
    }

    #[test]
    fn bits_come_back_and_sizes_are_as_planned() {
        let desk = tempfile::tempdir().expect("a folder");
        let path = desk.path().join("s");
        written(&path);
        let bytes: u64 =
            fs::read_dir(&path).expect("read").map(|e| e.expect("an entry").metadata().expect("meta").len()).sum();
        assert_eq!(bytes, state_bytes(&infos()).expect("a size"));
        let state = State::open(&path).expect("opened");
        state.verify().expect("whole");
        assert_eq!(state.note["step"], 7);
        let (mut a, mut b) = ([0.0; 6], [9; 4]);
        state.read("a", BitsMut::F32(&mut a)).expect("read");
        state.read("b", BitsMut::U8(&mut b)).expect("read");
        assert_eq!((a.map(f32::to_bits), b), (values().map(f32::to_bits), [0, 1, 254, 255]));
        for (name, out) in
            [("a", BitsMut::U8(&mut [0; 24])), ("c", BitsMut::U8(&mut [0; 4])), ("b", BitsMut::U8(&mut [0; 3]))]
        {
            assert_eq!(state.read(name, out).expect_err("no such").code, "state.damaged");
        }
    }

    #[test]
    fn every_byte_that_changes_shows() {
        let desk = tempfile::tempdir().expect("a folder");
        let path = desk.path().join("s");
        written(&path);
        for (file, at) in [(TENSORS, -3i64), (TENSORS, -20), (NOTE, 90), (NOTE, 180)] {
            let name = path.join(file);
            let whole = fs::read(&name).expect("a file");
            let mut bytes = whole.clone();
            let at = usize::try_from(at.rem_euclid(bytes.len() as i64)).expect("a place");
            bytes[at] ^= 1;
            fs::write(&name, &bytes).expect("written");
            let found = State::open(&path).and_then(|state| state.verify());
            assert!(found.is_err(), "{file} {at}");
            fs::write(&name, &whole).expect("written");
        }
        State::open(&path).and_then(|state| state.verify()).expect("whole again");
    }

    #[test]
    fn what_is_not_whole_takes_no_name() {
        let desk = tempfile::tempdir().expect("a folder");
        let path = desk.path().join("s");
        for (name, bits, code) in [("b", Bits::U8(&[0; 4]), "output.order"), ("a", Bits::F32(&[0.0; 5]), "output.size")]
        {
            let mut writer = StateWriter::create(&path, &infos()).expect("created");
            assert_eq!(writer.tensor(name, bits).expect_err("refused").code, code);
        }
        let writer = StateWriter::create(&path, &infos()).expect("created");
        assert_eq!(writer.commit(Map::new()).expect_err("nothing written").code, "output.order");
        assert_eq!(fs::read_dir(desk.path()).expect("read").count(), 0);
    }
}
