//! Large blocks straight from the system: given back the moment they are dropped, on large pages where there are any.
//!
//! The C library keeps freed blocks of up to 32 MiB for itself, so a process's resident set would stay above what the
//! plan says is in use. And a step of training walks through more than a gigabyte: with pages of 4 KiB the processor
//! spends much of it on looking addresses up, and the system on handing pages out one by one.

use std::alloc::Layout;

#[cfg(target_os = "linux")]
pub(super) use maps::{release, resize, take};
#[cfg(not(target_os = "linux"))]
pub(super) use none::{release, resize, take};

/// Blocks from this size on are maps of their own.
const LARGE: usize = 1 << 20;

/// The least page there is: every map begins at one.
const SMALL_PAGE: usize = 4096;

/// Whether a block of this layout is a map; the same for its allocation and its release.
pub(super) fn are(layout: Layout) -> bool {
    cfg!(target_os = "linux") && layout.size() >= LARGE && layout.align() <= SMALL_PAGE
}

#[cfg(target_os = "linux")]
mod maps {
    use std::ffi::c_void;
    use std::ptr;

    use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mremap, munmap};

    /// A large page on every processor this runs on.
    pub const PAGE: usize = 2 << 20;

    /// A whole number of pages, of whatever size the system's are.
    const PAGES: usize = 64 << 10;

    /// A zeroed block; null where the system has none.
    pub fn take(size: usize) -> *mut u8 {
        map(size).map_or(ptr::null_mut(), |at| at.cast())
    }

    fn map(size: usize) -> Option<*mut c_void> {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private map at an address of the system's choice touches nothing that exists.
        let get = |len| unsafe { mmap_anonymous(ptr::null_mut(), len, flags, MapFlags::PRIVATE) }.ok();
        if size < PAGE {
            return get(size);
        }
        // One large page more than asked for, so that an aligned block lies within; what is left over goes back.
        let len = size.checked_next_multiple_of(PAGES)?;
        let start = get(len.checked_add(PAGE)?)?;
        let before = start.align_offset(PAGE);
        let after = PAGE.checked_sub(before)?;
        // SAFETY: the two ends lie inside the map made above, which nobody else knows of, and hold whole pages.
        unsafe {
            let at = start.byte_add(before);
            if before > 0 {
                munmap(start, before).ok()?;
            }
            if after > 0 {
                munmap(at.byte_add(len), after).ok()?;
            }
            // Advice that is not taken costs speed alone.
            let _ = madvise(at, len, Advice::LinuxHugepage);
            Some(at)
        }
    }

    /// Gives a block back to the system.
    ///
    /// # Safety
    /// `at` came from [`take`] or [`resize`] with this size, and is not used afterwards.
    pub unsafe fn release(at: *mut u8, size: usize) {
        // SAFETY: the caller's promise: the block is a map of this length. A map that the system refuses to take back is
        // lost, which harms nobody.
        let _ = unsafe { munmap(at.cast(), size) };
    }

    /// A block of another size with the same content, at another place perhaps; null where the system has none.
    ///
    /// # Safety
    /// As [`release`]; both sizes are large.
    pub unsafe fn resize(at: *mut u8, old: usize, new: usize) -> *mut u8 {
        // SAFETY: the caller's promise; the system moves page tables, not bytes.
        unsafe { mremap(at.cast(), old, new, MremapFlags::MAYMOVE) }.map_or(ptr::null_mut(), |at| at.cast())
    }
}

/// Elsewhere no block is a map, so none of these is called.
#[cfg(not(target_os = "linux"))]
mod none {
    pub fn take(_: usize) -> *mut u8 {
        std::ptr::null_mut()
    }

    pub unsafe fn release(_: *mut u8, _: usize) {}

    pub unsafe fn resize(_: *mut u8, _: usize, _: usize) -> *mut u8 {
        std::ptr::null_mut()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::maps::PAGE;
    use super::*;

    /// A block that gives itself back.
    struct Block(*mut u8, usize);

    impl Block {
        fn new(size: usize) -> Block {
            let at = take(size);
            assert!(!at.is_null(), "no block of {size}");
            Block(at, size)
        }

        fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: the block is this long, zeroed at first, and borrowed as long as the slice.
            unsafe { std::slice::from_raw_parts_mut(self.0, self.1) }
        }
    }

    impl Drop for Block {
        fn drop(&mut self) {
            // SAFETY: the block came from `take` or `resize` with this size.
            unsafe { release(self.0, self.1) }
        }
    }

    #[test]
    fn a_block_is_zeroed_aligned_and_all_there() {
        for size in [LARGE, LARGE + 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE + 4097] {
            let mut block = Block::new(size);
            assert!(size < PAGE || (block.0 as usize).is_multiple_of(PAGE), "{size}");
            assert!(block.bytes().iter().all(|byte| *byte == 0), "{size}");
            block.bytes().fill(7);
        }
    }

    #[test]
    fn content_survives_another_size() {
        let mut block = Block::new(LARGE);
        block.bytes().fill(7);
        for size in [5 * PAGE + 3, LARGE] {
            // SAFETY: the block is a map of its size, and the old address is forgotten.
            block.0 = unsafe { resize(block.0, block.1, size) };
            block.1 = size;
            assert!(block.bytes()[..LARGE].iter().all(|byte| *byte == 7), "{size}");
        }
    }

    #[test]
    fn a_size_that_no_machine_has_is_null() {
        for size in [usize::MAX, usize::MAX - PAGE, isize::MAX as usize] {
            assert!(take(size).is_null());
        }
    }
}
