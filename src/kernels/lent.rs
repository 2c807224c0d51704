//! Tensors to read where they lie.

use std::any::Any;

use candle_core::DType;

use super::{Spec, View};
use crate::text::{Fault, Result};

/// A contiguous row-major tensor in memory that someone else keeps, such as a mapped file: kernels can read it, and
/// there is no way to write it.
pub struct Lent {
    bytes: Box<dyn AsRef<[u8]> + Send + Sync>,
    spec: Spec,
    _lease: Option<Box<dyn Any + Send + Sync>>,
}

impl Lent {
    /// `bytes` hold exactly the tensor's values as this machine reads them, aligned to their type.
    pub fn new(bytes: Box<dyn AsRef<[u8]> + Send + Sync>, spec: Spec) -> Result<Self> {
        let size = spec.dtype.size_in_bytes();
        let found: &[u8] = (*bytes).as_ref();
        if found.len() as u64 != spec.bytes()? || found.as_ptr().align_offset(size) != 0 {
            return Err(Fault::new(
                "kernel.shape",
                format!("{} bytes were lent for a tensor of shape {:?}, or are not aligned", found.len(), spec.shape),
            ));
        }
        Ok(Lent { bytes, spec, _lease: None })
    }

    /// With something that is dropped with it.
    pub fn with_lease(self, lease: Box<dyn Any + Send + Sync>) -> Self {
        Lent { _lease: Some(lease), ..self }
    }

    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    pub fn view(&self) -> View<'_> {
        View::lent((*self.bytes).as_ref(), self.spec.dtype, self.spec.shape.iter().product())
    }
}

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lent({:?}, {:?})", self.spec.shape, self.spec.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    /// Bytes whose first lies at a multiple of 8, and those from `skip` on.
    struct Aligned(Vec<u64>, usize);

    impl AsRef<[u8]> for Aligned {
        fn as_ref(&self) -> &[u8] {
            &bytemuck::cast_slice(&self.0)[self.1..]
        }
    }

    fn lent(skip: usize, shape: &[usize], dtype: DType) -> Result<Lent> {
        // 1.0f32 and 2.0f32, or four bf16.
        Lent::new(Box::new(Aligned(vec![0x4000_0000_3f80_0000], skip)), Spec::new(shape, dtype))
    }

    #[test]
    fn values_are_read_in_their_own_type_alone() {
        let floats = lent(0, &[2], DType::F32).expect("aligned");
        assert_eq!(floats.view().cpu::<f32>().expect("f32"), [1.0, 2.0]);
        assert_eq!(floats.view().slice(1..2).cpu::<f32>().expect("f32"), [2.0]);
        assert_eq!(floats.view().cpu::<u32>().expect_err("another type").code, "kernel.dtype");
        let halves = lent(0, &[2, 2], DType::BF16).expect("aligned");
        let wanted = [0.0, 1.0, 0.0, 2.0].map(bf16::from_f32);
        assert_eq!(halves.view().cpu::<bf16>().expect("bf16"), wanted);
        assert_eq!(halves.view().cpu::<half::f16>().expect_err("another type").code, "kernel.dtype");
    }

    #[test]
    fn what_does_not_fit_or_is_not_aligned_is_refused() {
        assert_eq!(lent(0, &[3], DType::F32).expect_err("too short").code, "kernel.shape");
        assert_eq!(lent(0, &[1], DType::F32).expect_err("too long").code, "kernel.shape");
        assert!(lent(4, &[1], DType::F32).is_ok());
        assert_eq!(lent(2, &[3], DType::BF16).expect("aligned to 2").view().len(), 3);
        assert_eq!(lent(6, &[1], DType::BF16).expect("aligned to 2").view().len(), 1);
        assert_eq!(lent(1, &[7], DType::U8).expect("bytes").view().len(), 7);
        let odd = lent(5, &[1], DType::U8).map(|_| ()).and(lent(1, &[7], DType::BF16).map(|_| ()));
        assert_eq!(odd.expect_err("odd").code, "kernel.shape");
    }
}
