use half::{bf16, f16};

use super::*;

#[test]
fn gather_and_scatter() {
    let (rows, width) = (50, 700);
    let x = noise(rows * width, 1);
    let picked: Vec<u32> = (0..rows as u32).rev().step_by(2).collect();
    let wanted: Vec<f32> = picked.iter().flat_map(|r| x[*r as usize * width..][..width].to_vec()).collect();
    let source = buf(&x);
    let gathered = same_on_threads(|| {
        let mut y = junk(picked.len() * width);
        gather_rows(y.view_mut(), source.view(), &picked, width).unwrap();
        values(&y)
    });
    assert_eq!(gathered, wanted);
    let mut back = buf(&vec![5.0; rows * width]);
    scatter_rows(back.view_mut(), buf(&gathered).view(), &picked, width).unwrap();
    let back = values(&back);
    for row in 0..rows {
        let part = &back[row * width..][..width];
        if picked.contains(&(row as u32)) {
            assert_eq!(part, &x[row * width..][..width]);
        } else {
            assert!(part.iter().all(|v| *v == 5.0));
        }
    }
}

#[test]
fn embedding_looks_up_every_type() {
    let (vocab, width) = (9, 5);
    let table: Vec<f32> = noise(vocab * width, 1).iter().map(|v| bf16::from_f32(*v).to_f32()).collect();
    let table: Vec<f32> = table.iter().map(|v| f16::from_f32(*v).to_f32()).collect();
    let ids = [8, 0, 3, 3, 1];
    let wanted: Vec<f32> = ids.iter().flat_map(|id| table[*id as usize * width..][..width].to_vec()).collect();
    let tables = [
        buf(&table),
        typed(&table.iter().map(|v| bf16::from_f32(*v)).collect::<Vec<_>>()),
        typed(&table.iter().map(|v| f16::from_f32(*v)).collect::<Vec<_>>()),
    ];
    for table in tables {
        let mut x = junk(ids.len() * width);
        embedding(x.view_mut(), table.view(), &ids, width).unwrap();
        let close = |(a, b): (&f32, &f32)| (a - b).abs() <= b.abs() / 128.0;
        assert!(values(&x).iter().zip(&wanted).all(close), "{:?}", table.dtype());
    }
}

#[test]
fn embedding_backward_adds_repeated_tokens_in_order() {
    let (vocab, width, n) = (700, 48, 500);
    let ids: Vec<u32> = (0..n as u64).map(|i| (uniform(Key::new(3), i) * 40.0) as u32 * 17).collect();
    let (dx, start) = (noise(n * width, 1), noise(vocab * width, 2));
    let mut wanted = start.clone();
    for (id, dx) in ids.iter().zip(dx.chunks(width)) {
        for (t, dx) in wanted[*id as usize * width..].iter_mut().zip(dx) {
            *t += dx;
        }
    }
    let dx = buf(&dx);
    let found = same_on_threads(|| {
        let mut dtable = buf(&start);
        embedding_backward(dtable.view_mut(), dx.view(), &ids, width).unwrap();
        values(&dtable)
    });
    assert_eq!(found, wanted);
}

#[test]
fn what_lies_beyond_is_a_fault() {
    let (mut y, x) = (zeros(4), zeros(6));
    assert_wrong_shape(gather_rows(y.view_mut(), x.view(), &[0, 3], 2));
    assert_wrong_shape(gather_rows(y.view_mut(), x.view(), &[0], 2));
    assert_wrong_shape(gather_rows(y.view_mut(), x.view(), &[0], 0));
    assert_wrong_shape(gather_rows(y.view_mut(), x.view(), &[0, 1], usize::MAX));
    assert_wrong_shape(scatter_rows(y.view_mut(), x.view(), &[0, 1, 2], 2));
    assert_wrong_shape(embedding(y.view_mut(), x.view(), &[0, 3], 2));
    assert_wrong_shape(embedding(y.view_mut(), x.view(), &[0], 2));
    assert_wrong_shape(embedding_backward(y.view_mut(), x.view(), &[0, 1, 2], 2));
    assert_code(embedding(y.view_mut(), typed(&[0u8; 6]).view(), &[0, 1], 2), "kernel.dtype");
}
