//! Which rows are kept from training.

use super::{Holdout, Sizes};
use crate::text::{Fault, Result};

/// Rows to train on and rows held out, each in file order.
///
/// A row's place follows from its ids alone: `Percent(5)` holds out a row whose hash lies in the lowest 5 % of 64-bit
/// numbers, so rows added later do not move the others, and equal rows never stand on both sides. `Rows(500)` holds out
/// the 500 smallest hashes. A percentage that catches no row holds out the one with the smallest hash.
///
/// # Errors
/// `data.holdout` where nothing would be left to train on, or where the share is no percentage.
pub fn split(sizes: &Sizes, holdout: Option<Holdout>) -> Result<(Vec<u32>, Vec<u32>)> {
    let rows = u32::try_from(sizes.rows())
        .map_err(|_| Fault::new("data.too_many_rows", "a data set may have at most 4294967295 rows"))?;
    let all = || (0..rows).collect::<Vec<u32>>();
    let Some(holdout) = holdout else { return Ok((all(), Vec::new())) };
    let by_hash = || {
        let mut order = all();
        order.sort_by_key(|row| (sizes.hash.get(*row as usize).copied(), *row));
        order
    };
    let mut held = match holdout {
        Holdout::Percent(percent) => {
            if !(percent > 0.0 && percent < 100.0) {
                return Err(Fault::new("data.holdout", format!("`holdout={percent}%` is no share of the rows"))
                    .help("a percentage above 0 % and below 100 %: `holdout=5%`"));
            }
            let limit = (percent / 100.0 * 2f64.powi(64)) as u64;
            let mut held = all();
            held.retain(|row| sizes.hash.get(*row as usize).is_some_and(|hash| *hash < limit));
            if held.is_empty() { by_hash().into_iter().take(1).collect() } else { held }
        }
        Holdout::Rows(n) => by_hash().into_iter().take(n).collect(),
    };
    held.sort_unstable();
    if held.len() >= rows as usize {
        let fault =
            Fault::new("data.holdout", format!("the holdout would take all {rows} rows; none is left to train on"));
        return Err(fault.help("a smaller `holdout=`, or more rows"));
    }
    let mut train = all();
    train.retain(|row| held.binary_search(row).is_err());
    Ok((train, held))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(hashes: &[u64]) -> Sizes {
        Sizes { len: vec![4; hashes.len()], counted: vec![3; hashes.len()], hash: hashes.to_vec() }
    }

    #[test]
    fn a_percentage_is_a_share_of_the_hash_space() {
        let tenth = u64::MAX / 10;
        let (train, held) = split(&sizes(&[tenth * 9, tenth / 2, tenth * 2, 3]), Some(Holdout::Percent(10.0))).unwrap();
        assert_eq!((train, held), (vec![0, 2], vec![1, 3]));
    }

    #[test]
    fn rows_are_the_smallest_hashes() {
        let (train, held) = split(&sizes(&[50, 10, 40, 20, 30]), Some(Holdout::Rows(2))).unwrap();
        assert_eq!((train, held), (vec![0, 2, 4], vec![1, 3]));
    }

    #[test]
    fn a_share_that_catches_nothing_holds_one_row() {
        let (train, held) = split(&sizes(&[u64::MAX, u64::MAX - 1]), Some(Holdout::Percent(1.0))).unwrap();
        assert_eq!((train, held), (vec![0], vec![1]));
    }

    #[test]
    fn training_never_loses_every_row() {
        for holdout in [Holdout::Rows(2), Holdout::Rows(9), Holdout::Percent(99.0)] {
            let fault = split(&sizes(&[1, 2]), Some(holdout)).unwrap_err();
            assert_eq!(fault.code, "data.holdout", "{holdout:?}");
        }
        assert_eq!(split(&sizes(&[1, 2]), Some(Holdout::Percent(100.0))).unwrap_err().code, "data.holdout");
        assert_eq!(split(&sizes(&[1, 2]), Some(Holdout::Percent(f64::NAN))).unwrap_err().code, "data.holdout");
    }

    #[test]
    fn no_holdout_holds_nothing() {
        assert_eq!(split(&sizes(&[1, 2]), None).unwrap(), (vec![0, 1], vec![]));
        assert_eq!(split(&sizes(&[1, 2]), Some(Holdout::Rows(0))).unwrap(), (vec![0, 1], vec![]));
    }
}
