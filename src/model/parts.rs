//! One description of a set of buffers serves the plan and the run: a set is generic over what a buffer is, and is
//! made through a closure that either takes the buffer from a pool or notes what it would take.

use crate::kernels::{Buf, Pool, Spec};
use crate::text::Result;

/// Buffers by the holding they belong to.
pub type Planned = Vec<(&'static str, Spec)>;

/// Makes one buffer of a holding, or only notes it.
pub(crate) type Make<'a, T> = &'a mut dyn FnMut(&'static str, Spec) -> Result<T>;

/// What `make` would take.
pub(crate) fn plan<R>(make: impl FnOnce(Make<'_, ()>) -> Result<R>) -> Result<Planned> {
    let mut list = Vec::new();
    make(&mut |holding, spec| {
        list.push((holding, spec));
        Ok(())
    })?;
    Ok(list)
}

/// What `make` takes out of a pool.
pub(crate) fn take<R>(pool: &dyn Pool, make: impl FnOnce(Make<'_, Buf>) -> Result<R>) -> Result<R> {
    make(&mut |holding, spec| pool.take(holding, spec))
}
