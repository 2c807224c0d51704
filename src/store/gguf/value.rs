//! Metadata values.

use super::bytes::Bytes;
use crate::text::Result;

/// A metadata value. The widths of numbers carry no meaning and are not kept.
#[derive(Debug, Clone, PartialEq)]
pub enum GgufValue {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Array(Vec<GgufValue>),
}

use GgufValue::*;

/// Arrays in arrays in arrays are nobody's metadata.
const MAX_DEPTH: usize = 4;

/// Elements of one array: more than any vocabulary, less than what would fill the memory.
const MAX_ELEMENTS: u64 = 1 << 24;

const TEXT: u32 = 8;
const ARRAY: u32 = 9;

impl GgufValue {
    pub(super) fn read(bytes: &mut Bytes<'_>, kind: u32, key: &str, depth: usize) -> Result<Self> {
        let what = key;
        Ok(match kind {
            0 => Unsigned(u64::from(u8::from_le_bytes(bytes.array(what)?))),
            1 => Signed(i64::from(i8::from_le_bytes(bytes.array(what)?))),
            2 => Unsigned(u64::from(u16::from_le_bytes(bytes.array(what)?))),
            3 => Signed(i64::from(i16::from_le_bytes(bytes.array(what)?))),
            4 => Unsigned(u64::from(bytes.u32(what)?)),
            5 => Signed(i64::from(i32::from_le_bytes(bytes.array(what)?))),
            6 => Float(f64::from(f32::from_le_bytes(bytes.array(what)?))),
            7 => match bytes.array::<1>(what)? {
                [0] => Bool(false),
                [1] => Bool(true),
                [other] => {
                    let what = format!("`{key}` should be true or false and is {other}");
                    return Err(bytes.broken("gguf.value", &what));
                }
            },
            TEXT => Text(bytes.string(what)?),
            ARRAY => Self::read_array(bytes, key, depth)?,
            10 => Unsigned(bytes.u64(what)?),
            11 => Signed(i64::from_le_bytes(bytes.array(what)?)),
            12 => Float(f64::from_le_bytes(bytes.array(what)?)),
            other => return Err(bytes.broken("gguf.value", &format!("`{key}` has the unknown kind {other}"))),
        })
    }

    fn read_array(bytes: &mut Bytes<'_>, key: &str, depth: usize) -> Result<Self> {
        if depth >= MAX_DEPTH {
            return Err(bytes.broken("gguf.value", &format!("`{key}` nests arrays more than {MAX_DEPTH} deep")));
        }
        let kind = bytes.u32(key)?;
        let n = bytes.u64(key)?;
        if n > MAX_ELEMENTS {
            return Err(bytes
                .broken("gguf.value", &format!("`{key}` has {n} elements"))
                .note(format!("at most {MAX_ELEMENTS} are read")));
        }
        if n.saturating_mul(least_bytes(kind)) > bytes.left() {
            return Err(bytes.cut(key));
        }
        let mut items = Vec::with_capacity(n as usize);
        for _ in 0..n {
            items.push(Self::read(bytes, kind, key, depth + 1)?);
        }
        Ok(Array(items))
    }

    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Unsigned(n) => Some(*n),
            Signed(n) => u64::try_from(*n).ok(),
            _ => None,
        }
    }

    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Float(x) => Some(*x),
            Unsigned(n) => Some(*n as f64),
            Signed(n) => Some(*n as f64),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Bool(b) = self { Some(*b) } else { None }
    }

    pub fn as_str(&self) -> Option<&str> {
        if let Text(s) = self { Some(s) } else { None }
    }

    pub fn as_array(&self) -> Option<&[GgufValue]> {
        if let Array(items) = self { Some(items) } else { None }
    }
}

/// The fewest bytes that an element of a kind takes, to hold an array's length against what is left of the file.
fn least_bytes(kind: u32) -> u64 {
    match kind {
        2 | 3 => 2,
        4..=6 => 4,
        TEXT | 10..=12 => 8,
        ARRAY => 12,
        _ => 1,
    }
}
