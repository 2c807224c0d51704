//! Orders that follow from a seed alone.

/// One round of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words that scatters its input.
fn scatter(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Sorts rows by a key that is a function of (seed, epoch, row) and of nothing else: no generator is stepped, so an
/// epoch's order can be made at any time, in any thread, and adding rows leaves the relative order of the others.
pub(super) fn shuffle(rows: &mut [u32], seed: u64, epoch: u64) {
    let stream = scatter(scatter(seed) ^ epoch);
    rows.sort_by_cached_key(|row| (scatter(stream ^ u64::from(*row)), *row));
}

/// The same for rows that come several times, each with the number of its copy: the first goes where [`shuffle`] puts
/// it, the others go where chance takes them.
pub(super) fn shuffle_copies(rows: &mut [(u32, u32)], seed: u64, epoch: u64) {
    let stream = scatter(scatter(seed) ^ epoch);
    rows.sort_by_cached_key(|(row, copy)| {
        let key = scatter(stream ^ u64::from(*row));
        (if *copy == 0 { key } else { scatter(key.wrapping_add(u64::from(*copy))) }, *row, *copy)
    });
}

/// A pass over rows from which epochs take their share: another order than any epoch's own.
pub(super) fn pass(rows: &mut [u32], seed: u64, pass: u64) {
    shuffle(rows, scatter(seed ^ 0x7061_7373), pass);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(seed: u64, epoch: u64) -> Vec<u32> {
        let mut rows: Vec<u32> = (0..100).collect();
        shuffle(&mut rows, seed, epoch);
        rows
    }

    #[test]
    fn an_order_is_a_permutation_and_repeats() {
        let mut sorted = order(7, 3);
        assert_eq!(sorted, order(7, 3));
        assert_ne!(sorted, (0..100).collect::<Vec<_>>());
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn seed_and_epoch_change_it() {
        assert_ne!(order(7, 3), order(7, 4));
        assert_ne!(order(7, 3), order(8, 3));
        // Swapped roles of the two numbers must not give the same order.
        assert_ne!(order(1, 2), order(2, 1));
    }

    #[test]
    fn a_row_less_keeps_the_others_in_place() {
        let mut fewer: Vec<u32> = (0..100).filter(|row| *row != 42).collect();
        shuffle(&mut fewer, 7, 0);
        let kept: Vec<u32> = order(7, 0).into_iter().filter(|row| *row != 42).collect();
        assert_eq!(fewer, kept);
    }

    /// The order is part of what a run's manifest promises: a change of it must be seen.
    #[test]
    fn the_order_is_pinned() {
        let mut rows: Vec<u32> = (0..8).collect();
        shuffle(&mut rows, 0, 0);
        assert_eq!(rows, PINNED);
    }
    /// Computed by another program from the definition above.
    const PINNED: [u32; 8] = [0, 1, 6, 3, 5, 4, 2, 7];
}
