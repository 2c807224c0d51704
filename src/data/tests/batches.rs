//! Which rows meet, and the tensors of a micro-batch.

use super::*;
use crate::data::tokens::{Builder, Piece};

/// Rows of these lengths, in which all but the first token counts; zero: a row in which none does.
fn set(lens: &[usize]) -> TokenSet {
    grown(lens).finish()
}

/// The same, to go on with.
fn grown(lens: &[usize]) -> Builder {
    let mut set = Builder::default();
    for (row, len) in lens.iter().enumerate() {
        let ids: Vec<u32> = (0..*len as u32).map(|i| row as u32 * 100 + i).collect();
        push(&mut set, &ids, &vec![true; *len], Origin { file: 0, line: row as u64 + 1 });
    }
    set
}

/// A row that is a window by itself.
fn push(set: &mut Builder, ids: &[u32], counted: &[bool], origin: Origin) {
    set.append(vec![(Piece::new(ids.to_vec(), counted.to_vec()), origin)], Work::default());
}

fn rows(n: u32) -> Vec<u32> {
    (0..n).collect()
}

fn micros(epoch: &Epoch) -> Vec<Vec<u32>> {
    epoch.micros().map(<[u32]>::to_vec).collect()
}

#[test]
fn unpacked_sequences_are_rows() {
    let set = set(&[3; 5]);
    let plan = BatchPlan::new(set.sizes(), &rows(5), 2, false, None, false, 0).unwrap();
    assert_eq!(micros(&plan.epoch(0)), [vec![0, 1], vec![2, 3], vec![4]]);
    assert_eq!(micros(&plan.epoch(1)), micros(&plan.epoch(0)));
}

#[test]
fn packing_fills_sequences_in_order() {
    let set = set(&[4, 3, 5, 2, 8, 1, 1]);
    let plan = |batch| BatchPlan::new(set.sizes(), &rows(7), batch, true, Some(8), false, 0).unwrap();
    assert_eq!(micros(&plan(1).epoch(0)), [vec![0, 1], vec![2, 3], vec![4], vec![5, 6]]);
    assert_eq!(micros(&plan(2).epoch(0)), [vec![0, 1, 2, 3], vec![4, 5, 6]]);
    assert_eq!(micros(&plan(9).epoch(0)).len(), 1);
}

#[test]
fn packing_needs_room() {
    let set = set(&[4, 9]);
    let fault = |max| BatchPlan::new(set.sizes(), &rows(2), 1, true, max, false, 0).unwrap_err();
    assert_eq!(fault(None).code, "data.pack");
    assert!(fault(Some(8)).message.contains("9 tokens"));
    assert_eq!(BatchPlan::new(set.sizes(), &rows(2), 0, false, None, false, 0).unwrap_err().code, "data.batch");
    assert_eq!(BatchPlan::new(set.sizes(), &[], 1, false, None, false, 0).unwrap_err().code, "data.no_rows");
    assert_eq!(BatchPlan::new(set.sizes(), &[7], 1, false, None, false, 0).unwrap_err().code, "data.no_such_row");
}

#[test]
fn every_epoch_has_every_row_once_in_another_order() {
    let set = set(&[5, 2, 7, 3, 1, 4, 6, 2, 8, 3]);
    for packed in [false, true] {
        let plan = BatchPlan::new(set.sizes(), &rows(10), 2, packed, Some(9), true, 3).unwrap();
        let again = BatchPlan::new(set.sizes(), &rows(10), 2, packed, Some(9), true, 3).unwrap();
        for e in 0..4 {
            let mut seen = micros(&plan.epoch(e)).concat();
            seen.sort_unstable();
            assert_eq!(seen, rows(10));
            assert_eq!(plan.epoch(e), again.epoch(e));
        }
        assert_ne!(plan.epoch(0), plan.epoch(1));
    }
}

#[test]
fn a_batch_keeps_rows_apart() {
    let mut set = Builder::default();
    push(&mut set, &[1, 2, 3], &[true, false, true], Origin { file: 0, line: 1 });
    push(&mut set, &[4, 5], &[true, true], Origin { file: 0, line: 2 });
    let set = set.finish();
    let mut batch = Batch::default();
    batch.fill(&set, &[1, 0]);
    let expected = Batch {
        ids: vec![4, 5, 1, 2, 3],
        starts: vec![0, 2, 5],
        labels: vec![5, IGNORED, IGNORED, 3, IGNORED],
        counted: 2,
        rows: vec![1, 0],
    };
    assert_eq!(batch, expected);
    // Filled again, nothing of before is left.
    batch.fill(&set, &[1]);
    assert_eq!((batch.ids.len(), &batch.labels[..], batch.counted), (2, &[5, IGNORED][..], 1));
}

#[test]
fn extents_are_those_of_the_real_batches() {
    let mut set = grown(&[5, 2, 7, 3, 1, 4, 6]);
    push(&mut set, &[1, 2, 3, 4], &[false, false, true, false], Origin { file: 0, line: 9 });
    let set = set.finish();
    for packed in [false, true] {
        let plan = BatchPlan::new(set.sizes(), &rows(8), 2, packed, Some(9), true, 1).unwrap();
        let mut batch = Batch::default();
        for window in plan.walk(Length::Epochs(3), 2, Cursor::default()) {
            let mut counted = 0;
            for micro in window.micros() {
                batch.fill(&set, micro);
                assert_eq!(plan.extent(micro), batch.extent());
                counted += batch.counted;
            }
            assert_eq!(window.counted, counted);
        }
    }
}

#[test]
fn a_planner_sees_every_size_that_comes() {
    let set = set(&[5, 2, 7, 3, 1, 4, 6]);
    for (batch, packed, shuffle) in [(1, false, true), (2, false, true), (2, false, false), (1, true, true)] {
        let plan = BatchPlan::new(set.sizes(), &rows(7), batch, packed, Some(9), shuffle, 5).unwrap();
        for length in [Length::Epochs(3), Length::Steps(4)] {
            let mut real = Vec::new();
            let mut full = Batch::default();
            for window in plan.walk(length, 2, Cursor::default()) {
                for micro in window.micros() {
                    full.fill(&set, micro);
                    real.push(full.extent());
                }
            }
            real.sort();
            real.dedup();
            assert_eq!(plan.extents(length, 2), real, "{batch} {packed} {shuffle} {length:?}");
        }
    }
}

#[test]
fn the_ragged_window_is_a_step_of_its_own() {
    let set = set(&[3; 7]);
    let plan = BatchPlan::new(set.sizes(), &rows(7), 1, false, None, true, 0).unwrap();
    let windows: Vec<Window> = plan.walk(Length::Epochs(2), 3, Cursor::default()).collect();
    let sizes: Vec<usize> = windows.iter().map(Window::len).collect();
    assert_eq!(sizes, [3, 3, 1, 3, 3, 1]);
    assert_eq!(windows[2].counted, 2);
    let ends: Vec<bool> = windows.iter().map(|window| window.ends_epoch).collect();
    assert_eq!(ends, [false, false, true, false, false, true]);
    assert_eq!(plan.total_steps(Length::Epochs(2), 3), 6);
}

#[test]
fn steps_go_over_as_many_epochs_as_they_need() {
    let set = set(&[3; 5]);
    let plan = BatchPlan::new(set.sizes(), &rows(5), 1, false, None, true, 0).unwrap();
    let at: Vec<Cursor> = plan.walk(Length::Steps(7), 2, Cursor::default()).map(|window| window.at).collect();
    let cursor = |epoch, window| Cursor { epoch, window };
    assert_eq!(at, [cursor(0, 0), cursor(0, 1), cursor(0, 2), cursor(1, 0), cursor(1, 1), cursor(1, 2), cursor(2, 0)]);
    assert_eq!(plan.total_steps(Length::Steps(7), 2), 7);
}

#[test]
fn iteration_goes_on_from_any_cursor() {
    let set = set(&[5, 2, 7, 3, 1, 4, 6, 2, 8, 3]);
    for (packed, length) in [(false, Length::Epochs(3)), (true, Length::Epochs(3)), (true, Length::Steps(8))] {
        let plan = BatchPlan::new(set.sizes(), &rows(10), 1, packed, Some(9), true, 3).unwrap();
        let list = |cursor| -> Vec<(Cursor, Vec<Vec<u32>>)> {
            let walk = plan.walk(length, 2, cursor);
            walk.map(|w| (w.at, w.micros().map(<[u32]>::to_vec).collect())).collect()
        };
        let whole = list(Cursor::default());
        assert_eq!(whole.len() as u64, plan.total_steps(length, 2));
        let nexts: Vec<Cursor> = plan.walk(length, 2, Cursor::default()).map(|w| w.next).collect();
        for (done, next) in nexts.into_iter().enumerate() {
            assert_eq!(list(next), whole[done + 1..]);
            assert_eq!(plan.steps_until(next, 2), done as u64 + 1);
        }
    }
}

#[test]
fn a_window_without_labels_makes_no_step() {
    // A row of one token has no label.
    let set = set(&[1, 1, 3, 3, 1, 1]);
    let plan = BatchPlan::new(set.sizes(), &rows(6), 1, false, None, false, 0).unwrap();
    assert_eq!(plan.total_steps(Length::Epochs(2), 2), 2);
    let counted: Vec<usize> = plan.walk(Length::Epochs(1), 2, Cursor::default()).map(|window| window.counted).collect();
    assert_eq!(counted, [0, 4, 0]);
    let steps = plan.walk(Length::Steps(3), 2, Cursor::default()).filter(|window| window.counted > 0).count();
    assert_eq!(steps, 3);
    let none = BatchPlan::new(set.sizes(), &[0, 1], 1, false, None, false, 0).unwrap();
    assert_eq!(none.walk(Length::Steps(3), 2, Cursor::default()).count(), 0);
}

#[test]
fn a_cursor_is_written_and_read() {
    let cursor = Cursor { epoch: 3, window: 14 };
    let text = serde_json::to_string(&cursor).unwrap();
    assert_eq!(text, r#"{"epoch":3,"window":14}"#);
    assert_eq!(serde_json::from_str::<Cursor>(&text).unwrap(), cursor);
}

#[test]
fn sizes_are_small_and_come_back() {
    let set = set(&[3, 5]);
    let text = serde_json::to_string(set.sizes()).unwrap();
    assert_eq!(&serde_json::from_str::<Sizes>(&text).unwrap(), set.sizes());
    assert_eq!(set.sizes().counted, [2, 4]);
}

#[test]
fn a_repeated_stretch_comes_as_often_and_not_side_by_side() {
    let set = set(&[3; 9]);
    let draws = [Draw { end: 4, take: None, repeat: 3 }, Draw { end: 9, take: None, repeat: 1 }];
    let plan = BatchPlan::new(set.sizes(), &rows(9), 2, false, None, true, 5).unwrap().drawn(&draws);
    for e in 0..5 {
        let order = micros(&plan.epoch(e)).concat();
        assert_eq!(order.len(), 4 * 3 + 5);
        for row in 0..9 {
            assert_eq!(order.iter().filter(|other| **other == row).count(), if row < 4 { 3 } else { 1 });
        }
        let pairs = order.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(pairs <= 4, "{order:?}");
    }
    // Without a word on shares nothing changes.
    let plain = BatchPlan::new(set.sizes(), &rows(9), 2, false, None, true, 5).unwrap();
    let drawn = plain.clone().drawn(&[Draw { end: 9, take: None, repeat: 1 }]);
    assert_eq!(micros(&plain.epoch(1)), micros(&drawn.epoch(1)));
}

#[test]
fn a_share_takes_every_row_once_before_any_again() {
    let set = set(&[3; 12]);
    let draws = [Draw { end: 10, take: Some(4), repeat: 1 }, Draw { end: 12, take: None, repeat: 1 }];
    for shuffle in [true, false] {
        let plan = BatchPlan::new(set.sizes(), &rows(12), 1, false, None, shuffle, 7).unwrap().drawn(&draws);
        let mut seen = [0usize; 12];
        for e in 0..5 {
            let order = micros(&plan.epoch(e)).concat();
            assert_eq!(order.len(), 6, "an epoch is exact");
            order.iter().for_each(|row| seen[*row as usize] += 1);
            let taken = &seen[..10];
            assert!(taken.iter().max().unwrap() - taken.iter().min().unwrap() <= 1, "{seen:?}");
        }
        // Five epochs of four are two passes over ten.
        assert_eq!(seen, [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 5, 5]);
        assert_eq!(plan.total_steps(Length::Epochs(5), 2), 15);
        assert_eq!(plan.walk(Length::Epochs(5), 2, Cursor::default()).count(), 15);
    }
}

#[test]
fn joined_sets_keep_their_rows_and_places() {
    let (a, b) = (set(&[3, 5]), set(&[4]));
    let all = TokenSet::join([(&a, 2), (&b, 1)].into_iter());
    assert_eq!((all.len(), all.report.tokens, all.report.longest), (3, 12, 5));
    assert_eq!((all.ids(1), all.ids(2)), (a.ids(1), b.ids(0)));
    assert_eq!(all.sizes().hash, [a.sizes().hash.clone(), b.sizes().hash.clone()].concat());
    assert_eq!(all.origin(2), Some(Origin { file: 2, line: 1 }));
}
