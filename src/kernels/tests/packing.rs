//! What products are planned to pack, against what `gemm` takes from the heap: on one thread, which takes it itself.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use super::*;

/// Counts what the calling thread alone has in use, so that tests beside this one do not show.
struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends gives blocks back after its counters are gone.
    let _ = NOW.try_with(|now| {
        now.set(now.get() + bytes);
        MOST.try_with(|most| most.set(most.get().max(now.get())))
    });
}

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: blocks are the system's own; counting takes none.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

/// What this thread takes at once while it does something, beside what it has.
fn taken(work: impl FnOnce()) -> u64 {
    let before = NOW.get();
    MOST.set(before);
    work();
    (MOST.get() - before).unsigned_abs() as u64
}

fn measured(product: Product) -> u64 {
    let Product { m, n, k, a_turned, b_turned, .. } = product;
    let (a, b, mut c) = (zeros(m * k), zeros(k * n), zeros(m * n));
    let mut multiply = || {
        let a = if a_turned { Mat::new(a.view(), k, m).t() } else { Mat::new(a.view(), m, k) };
        let b = if b_turned { Mat::new(b.view(), n, k).t() } else { Mat::new(b.view(), k, n) };
        matmul(MatMut::new(c.view_mut(), m, n), a, b, 1.0, 0.0).unwrap();
    };
    // The first takes the thread's slab as well.
    multiply();
    taken(multiply)
}

fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(work)
}

/// Of products and gradients as a model has them: never less than what is taken, and little more.
#[test]
fn what_products_pack_is_planned() {
    alone(|| {
        let mut packs = 0;
        for (m, n, k) in
            [(1024, 576, 576), (1024, 576, 1536), (512, 1536, 576), (300, 192, 512), (100, 1000, 640), (40, 40, 700)]
        {
            for (a_turned, b_turned) in [(false, true), (false, false), (true, false)] {
                let product = Product { m, n, k, a_turned, b_turned, ragged: false };
                let (planned, measured) = (packing(&[product], 1, Processor::Here), measured(product));
                // What a part takes beside: the list of parts, what of the right factor is packed.
                assert!(planned + 4096 >= measured, "{product:?}: planned {planned}, measured {measured}");
                // A batch of few rows packs more where it is not cut.
                let few = measured_whole(product);
                assert!(planned <= measured.max(few) + 4096, "{product:?}: planned {planned}, measured {measured}");
                assert!(packing(&[product], 1, Processor::Another) >= planned, "{product:?}");
                packs += usize::from(measured > 64 << 10);
            }
        }
        assert!(packs > 6, "{packs} products packed anything");
    });
}

/// The same product with so few rows that it is not cut.
fn measured_whole(product: Product) -> u64 {
    measured(Product { m: product.m.min(127), ..product })
}

/// A shorter batch may be cut into deeper parts: what is planned for the longest holds for each.
#[test]
fn gradients_of_shorter_batches_pack_no_more_than_was_planned() {
    alone(|| {
        let longest = Product { m: 576, n: 192, k: 1100, a_turned: true, b_turned: false, ragged: true };
        let planned = packing(&[longest], 1, Processor::Here);
        for k in [3, 60, 511, 512, 513, 600, 1000, 1024, 1025, 1100] {
            let measured = measured(Product { k, ..longest });
            assert!(planned + 4096 >= measured, "{k}: planned {planned}, measured {measured}");
        }
    });
}
