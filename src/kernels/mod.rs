//! Each numeric operation once, writing into buffers it is given.

mod buffer;

pub use buffer::{Buf, Element, Heap, Pool, Spec, View, ViewMut};
