//! What a kernel says about operands that do not fit together.

use crate::text::{Fault, Result};

pub(super) fn wrong(message: String) -> Fault {
    Fault::new("kernel.shape", message)
}

/// Holds an operand to the number of elements the others imply.
pub(super) fn expect(operand: &str, found: usize, wanted: usize) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(wrong(format!("`{operand}` has {found} elements where {wanted} are needed")))
}

/// The number of rows of `width` elements an operand is made of.
pub(super) fn rows(operand: &str, len: usize, width: usize) -> Result<usize> {
    if width == 0 || !len.is_multiple_of(width) {
        return Err(wrong(format!("`{operand}` has {len} elements, which are no whole rows of {width}")));
    }
    Ok(len / width)
}

/// `a · b`, where a product too large to address is a wrong shape.
pub(super) fn product(operand: &str, a: usize, b: usize) -> Result<usize> {
    a.checked_mul(b).ok_or_else(|| wrong(format!("`{operand}` of {a} × {b} elements is too large to address")))
}
