//! Memory that kernels read and write: candle's storage, owned by one holder at a time, or, to read alone, memory that
//! someone else keeps.

use std::any::Any;
use std::ops::Range;

use candle_core::{CpuStorage, DType, Device, Storage};
use half::slice::HalfBitsSliceExt;
use half::{bf16, f16};

use super::lent::Lent;
use crate::text::{Fault, Result};

/// Shape and type of a buffer before it exists: what a plan adds up and a pool hands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub shape: Vec<usize>,
    pub dtype: DType,
}

impl Spec {
    pub fn new(shape: &[usize], dtype: DType) -> Self {
        Spec { shape: shape.to_vec(), dtype }
    }

    pub fn f32(shape: &[usize]) -> Self {
        Self::new(shape, DType::F32)
    }

    pub fn elements(&self) -> Result<usize> {
        self.shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).ok_or_else(|| {
            Fault::new("size.overflow", format!("a tensor of shape {:?} is too large to address", self.shape))
        })
    }

    pub fn bytes(&self) -> Result<u64> {
        (self.elements()? as u64).checked_mul(self.dtype.size_in_bytes() as u64).ok_or_else(|| {
            Fault::new("size.overflow", format!("a tensor of shape {:?} is too large to address", self.shape))
        })
    }
}

/// A contiguous row-major tensor that one holder owns. Kernels borrow it as [`View`] or [`ViewMut`], so the borrow
/// checker keeps a buffer from being read while it is written.
pub struct Buf {
    storage: Storage,
    spec: Spec,
    /// Gives the bytes back to the ledger on drop.
    _lease: Option<Box<dyn Any + Send + Sync>>,
}

impl Buf {
    /// A zeroed buffer; `lease` is dropped with it.
    pub fn zeros(spec: Spec, device: &Device, lease: Option<Box<dyn Any + Send + Sync>>) -> Result<Self> {
        let n = spec.elements()?;
        let storage = match device {
            Device::Cpu => Storage::Cpu(match spec.dtype {
                DType::F32 => CpuStorage::F32(vec![0.0; n]),
                DType::BF16 => CpuStorage::BF16(vec![bf16::ZERO; n]),
                DType::F16 => CpuStorage::F16(vec![f16::ZERO; n]),
                DType::U8 => CpuStorage::U8(vec![0; n]),
                DType::U32 => CpuStorage::U32(vec![0; n]),
                other => return Err(Fault::new("kernel.dtype", format!("no kernel works on {other:?} buffers"))),
            }),
            _ => return Err(no_form("allocation")),
        };
        Ok(Buf { storage, spec, _lease: lease })
    }

    pub fn shape(&self) -> &[usize] {
        &self.spec.shape
    }

    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    pub fn len(&self) -> usize {
        self.spec.shape.iter().product()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn view(&self) -> View<'_> {
        View { memory: Memory::Storage(&self.storage), start: 0, len: self.len() }
    }

    pub fn view_mut(&mut self) -> ViewMut<'_> {
        let len = self.len();
        ViewMut { storage: &mut self.storage, start: 0, len }
    }

    /// Elements per index of the first dimension.
    fn row_len(&self) -> usize {
        self.spec.shape.iter().skip(1).product()
    }

    /// The rows `range` of the first dimension.
    pub fn rows(&self, range: Range<usize>) -> View<'_> {
        let row = self.row_len();
        self.view().slice(range.start * row..range.end * row)
    }

    pub fn rows_mut(&mut self, range: Range<usize>) -> ViewMut<'_> {
        let row = self.row_len();
        self.view_mut().slice(range.start * row..range.end * row)
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({:?}, {:?})", self.spec.shape, self.spec.dtype)
    }
}

/// Where the values of a view lie.
#[derive(Clone, Copy)]
enum Memory<'a> {
    Storage(&'a Storage),
    Lent(&'a [u8], DType),
}

/// A range of a buffer, to read.
#[derive(Clone, Copy)]
pub struct View<'a> {
    memory: Memory<'a>,
    start: usize,
    len: usize,
}

/// A range of a buffer, to write.
pub struct ViewMut<'a> {
    storage: &'a mut Storage,
    start: usize,
    len: usize,
}

/// Element types of buffers, each with its door into candle's CPU storage.
pub trait Element: Copy + Send + Sync + 'static {
    const DTYPE: DType;
    fn slice(storage: &CpuStorage) -> Option<&[Self]>;
    fn slice_mut(storage: &mut CpuStorage) -> Option<&mut [Self]>;
    /// Bytes as values; none where they are not aligned to the type, or end in the middle of one.
    fn of_bytes(bytes: &[u8]) -> Option<&[Self]>;
}

macro_rules! element {
    ($type:ty, $variant:ident, $of_bytes:expr) => {
        impl Element for $type {
            const DTYPE: DType = DType::$variant;
            fn slice(storage: &CpuStorage) -> Option<&[Self]> {
                if let CpuStorage::$variant(v) = storage { Some(v) } else { None }
            }
            fn slice_mut(storage: &mut CpuStorage) -> Option<&mut [Self]> {
                if let CpuStorage::$variant(v) = storage { Some(v) } else { None }
            }
            fn of_bytes(bytes: &[u8]) -> Option<&[Self]> {
                $of_bytes(bytes)
            }
        }
    };
}
element!(f32, F32, plain);
// `half` knows its types by the bits of a u16.
element!(bf16, BF16, |bytes| plain::<u16>(bytes).map(<[u16]>::reinterpret_cast));
element!(f16, F16, |bytes| plain::<u16>(bytes).map(<[u16]>::reinterpret_cast));
element!(u8, U8, plain);
element!(u32, U32, plain);

fn plain<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Option<&[T]> {
    bytemuck::try_cast_slice(bytes).ok()
}

impl<'a> View<'a> {
    /// The `len` elements of type `dtype` that `bytes` hold.
    pub(super) fn lent(bytes: &'a [u8], dtype: DType, len: usize) -> View<'a> {
        View { memory: Memory::Lent(bytes, dtype), start: 0, len }
    }

    pub fn dtype(&self) -> DType {
        match self.memory {
            Memory::Storage(storage) => storage.dtype(),
            Memory::Lent(_, dtype) => dtype,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn slice(self, range: Range<usize>) -> View<'a> {
        assert!(range.start <= range.end && range.end <= self.len, "view out of range");
        View { memory: self.memory, start: self.start + range.start, len: range.end - range.start }
    }

    /// The elements, where the buffer lies in RAM and has this type.
    pub fn cpu<T: Element>(self) -> Result<&'a [T]> {
        let all = match self.memory {
            Memory::Storage(Storage::Cpu(storage)) => T::slice(storage),
            Memory::Storage(_) => return Err(no_form("this operation")),
            Memory::Lent(bytes, dtype) => T::of_bytes(bytes).filter(|_| dtype == T::DTYPE),
        };
        all.map(|all| &all[self.start..self.start + self.len]).ok_or_else(|| wrong_type::<T>(self.dtype()))
    }
}

impl<'a> ViewMut<'a> {
    pub fn dtype(&self) -> DType {
        self.storage.dtype()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn slice(self, range: Range<usize>) -> ViewMut<'a> {
        assert!(range.start <= range.end && range.end <= self.len, "view out of range");
        ViewMut { storage: self.storage, start: self.start + range.start, len: range.end - range.start }
    }

    /// The same range, borrowed again.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        ViewMut { storage: self.storage, start: self.start, len: self.len }
    }

    pub fn as_view(&self) -> View<'_> {
        View { memory: Memory::Storage(self.storage), start: self.start, len: self.len }
    }

    pub fn cpu<T: Element>(self) -> Result<&'a mut [T]> {
        let (start, end) = (self.start, self.start + self.len);
        match self.storage {
            Storage::Cpu(storage) => {
                let name = storage.dtype_name();
                T::slice_mut(storage).map(|all| &mut all[start..end]).ok_or_else(|| wrong_type::<T>(name))
            }
            _ => Err(no_form("this operation")),
        }
    }
}

trait DtypeName {
    fn dtype_name(&self) -> DType;
}

impl DtypeName for CpuStorage {
    fn dtype_name(&self) -> DType {
        use candle_core::backend::BackendStorage;
        self.dtype()
    }
}

fn wrong_type<T: Element>(found: DType) -> Fault {
    Fault::new("kernel.dtype", format!("a kernel for {:?} was given a {found:?} buffer", T::DTYPE))
}

fn no_form(what: &str) -> Fault {
    Fault::new("kernel.no_form", format!("{what} has no form for this device in this build"))
}

/// Where buffers come from: a run's ledger, which refuses what was not declared, or plain memory in tests.
pub trait Pool {
    /// A zeroed buffer out of what the current phase declared as `holding`.
    fn take(&self, holding: &str, spec: Spec) -> Result<Buf>;

    /// Counts a tensor that lies in someone else's memory to `holding`.
    fn count(&self, _holding: &str, lent: Lent) -> Result<Lent> {
        Ok(lent)
    }
}

/// Plain memory that answers to no plan: for tests and for tools that hold nothing of size.
pub struct Heap;

impl Pool for Heap {
    fn take(&self, _holding: &str, spec: Spec) -> Result<Buf> {
        Buf::zeros(spec, &Device::Cpu, None)
    }
}
