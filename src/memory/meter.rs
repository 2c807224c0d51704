//! Counts what the heap really holds, so that every plan can be held against it.
//!
//! The binary installs [`Meter`] as its global allocator; large blocks are maps of their own (`memory::pages`). It sees the heap
//! only: mapped files and thread stacks are declared elsewhere. Cost: a relaxed atomic operation and a look an allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::pages;

/// A count on a line of the processor's cache by itself: one that is only read stays in every core's.
#[repr(align(128))]
struct Count(AtomicU64);

static LIVE: Count = Count(AtomicU64::new(0));
static PEAK: Count = Count(AtomicU64::new(0));

/// The system's allocator, large blocks apart, with a count of live and peak bytes.
pub struct Meter;

fn grew(bytes: usize) {
    let live = LIVE.0.fetch_add(bytes as u64, Relaxed) + bytes as u64;
    // Cores that all allocate would take the line from one another for nothing.
    if live > PEAK.0.load(Relaxed) {
        PEAK.0.fetch_max(live, Relaxed);
    }
}

fn shrank(bytes: usize) {
    LIVE.0.fetch_sub(bytes as u64, Relaxed);
}

// SAFETY: every call is passed on unchanged to the system's allocator, or, for large blocks, which are told by their
// layout alone, to maps of their own; sizes are counted beside it.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = match pages::are(layout) {
            true => pages::take(layout.size()),
            // SAFETY: the caller's contract is the system allocator's own.
            false => unsafe { System.alloc(layout) },
        };
        if !block.is_null() {
            grew(layout.size());
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = match pages::are(layout) {
            true => pages::take(layout.size()),
            // SAFETY: as above.
            false => unsafe { System.alloc_zeroed(layout) },
        };
        if !block.is_null() {
            grew(layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match pages::are(layout) {
            // SAFETY: a block of this layout came from `pages`.
            true => unsafe { pages::release(block, layout.size()) },
            // SAFETY: as above.
            false => unsafe { System.dealloc(block, layout) },
        }
        shrank(layout.size());
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that `size`, rounded up to the alignment, does not overflow.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if pages::are(layout) && pages::are(wanted) {
            // SAFETY: both are large, and the block came from `pages`.
            let moved = unsafe { pages::resize(block, layout.size(), size) };
            if !moved.is_null() {
                grew(size);
                shrank(layout.size());
            }
            return moved;
        }
        if pages::are(layout) || pages::are(wanted) {
            // SAFETY: a new block, and a copy of what fits, between blocks that do not overlap.
            unsafe {
                let moved = self.alloc(wanted);
                if !moved.is_null() {
                    std::ptr::copy_nonoverlapping(block, moved, size.min(layout.size()));
                    self.dealloc(block, layout);
                }
                return moved;
            }
        }
        // SAFETY: as above.
        let moved = unsafe { System.realloc(block, layout, size) };
        if !moved.is_null() {
            // Old and new may both exist while the system copies.
            grew(size);
            shrank(layout.size());
        }
        moved
    }
}

/// Heap bytes in use now; 0 where the meter is not the global allocator.
pub fn live() -> u64 {
    LIVE.0.load(Relaxed)
}

/// The most heap bytes in use at once since the last [`mark`].
pub fn peak() -> u64 {
    PEAK.0.load(Relaxed)
}

/// Starts a new peak at what is in use now.
pub fn mark() {
    PEAK.0.store(LIVE.0.load(Relaxed), Relaxed);
}
