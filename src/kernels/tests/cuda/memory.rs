//! What lies on a card in these tests: bytes in an allocation of exactly their number.

use candle_core::DType;
use half::{bf16, f16};

/// Values of one type.
#[derive(Clone, PartialEq, Debug)]
pub struct Memory {
    pub dtype: DType,
    bytes: Vec<u8>,
}

/// The storage types.
pub const STORAGE: [DType; 3] = [DType::F32, DType::BF16, DType::F16];

/// The first of eight bytes.
pub fn pad<const N: usize>(bytes: [u8; N]) -> u64 {
    let mut eight = [0; 8];
    eight[..N].copy_from_slice(&bytes);
    u64::from_ne_bytes(eight)
}

impl Memory {
    fn new(dtype: DType, bytes: impl Iterator<Item = u8>) -> Memory {
        let mut exact = Vec::new();
        let all: Vec<u8> = bytes.collect();
        exact.reserve_exact(all.len());
        exact.extend(all);
        Memory { dtype, bytes: exact }
    }

    /// f32 values rounded to a storage type.
    pub fn of(dtype: DType, values: &[f32]) -> Memory {
        match dtype {
            DType::BF16 => Memory::new(dtype, values.iter().flat_map(|v| bf16::from_f32(*v).to_ne_bytes())),
            DType::F16 => Memory::new(dtype, values.iter().flat_map(|v| f16::from_f32(*v).to_ne_bytes())),
            _ => Memory::new(DType::F32, values.iter().flat_map(|v| v.to_ne_bytes())),
        }
    }

    pub fn f32(values: &[f32]) -> Memory {
        Memory::of(DType::F32, values)
    }

    pub fn f64(values: &[f64]) -> Memory {
        Memory::new(DType::F64, values.iter().flat_map(|v| v.to_ne_bytes()))
    }

    pub fn u32(values: &[u32]) -> Memory {
        Memory::new(DType::U32, values.iter().flat_map(|v| v.to_ne_bytes()))
    }

    pub fn u64(values: &[u64]) -> Memory {
        Memory::new(DType::I64, values.iter().flat_map(|v| v.to_ne_bytes()))
    }

    pub fn u8(values: &[u8]) -> Memory {
        Memory::new(DType::U8, values.iter().copied())
    }

    /// `n` values that nothing should read: NaN, where the type has one.
    pub fn junk(dtype: DType, n: usize) -> Memory {
        Memory::new(dtype, std::iter::repeat_n(0xFF, n * dtype.size_in_bytes()))
    }

    pub fn address(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    pub fn address_mut(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    fn chunks<const N: usize, V>(&self, value: impl Fn([u8; N]) -> V) -> Vec<V> {
        self.bytes.as_chunks::<N>().0.iter().map(|bytes| value(*bytes)).collect()
    }

    /// The values of a storage type.
    pub fn values(&self) -> Vec<f32> {
        match self.dtype {
            DType::BF16 => self.chunks(|b| bf16::from_ne_bytes(b).to_f32()),
            DType::F16 => self.chunks(|b| f16::from_ne_bytes(b).to_f32()),
            _ => self.chunks(f32::from_ne_bytes),
        }
    }

    pub fn u32s(&self) -> Vec<u32> {
        self.chunks(u32::from_ne_bytes)
    }

    pub fn u64s(&self) -> Vec<u64> {
        self.chunks(u64::from_ne_bytes)
    }

    pub fn f64s(&self) -> Vec<f64> {
        self.chunks(f64::from_ne_bytes)
    }

    pub fn u8s(&self) -> Vec<u8> {
        self.bytes.clone()
    }

    /// Holds the values to f32 ones, rounded to the storage type, bit by bit; any NaN is like another.
    #[track_caller]
    pub fn assert_same(&self, wanted: &[f32]) {
        let (found, wanted) = (self.values(), Memory::of(self.dtype, wanted).values());
        assert_eq!(found.len(), wanted.len());
        for (i, (f, w)) in found.iter().zip(&wanted).enumerate() {
            let same = f.to_bits() == w.to_bits() || (f.is_nan() && w.is_nan());
            assert!(same, "{:?} element {i}: {f:e} where {w:e} was expected", self.dtype);
        }
    }

    /// Holds the values to f32 ones within `tolerance` of the largest, and the rounding of the storage type.
    #[track_caller]
    pub fn assert_close(&self, wanted: &[f32], tolerance: f32) {
        // Half the spacing of numbers, and the smallest number of f16.
        let (round, least) = match self.dtype {
            DType::BF16 => (1.0 / 256.0, 0.0),
            DType::F16 => (1.0 / 2048.0, 6e-8),
            _ => (0.0, 0.0),
        };
        let found = self.values();
        assert_eq!(found.len(), wanted.len());
        let size = wanted.iter().fold(1e-30f32, |top, w| top.max(w.abs()));
        for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
            let most = tolerance * size + round * w.abs() + least;
            assert!((f - w).abs() <= most, "{:?} element {i}: {f:e} where {w:e} was expected", self.dtype);
        }
    }
}
