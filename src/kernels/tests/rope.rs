use super::*;

fn frequencies(head_dim: usize) -> Vec<f32> {
    (0..head_dim / 2).map(|j| 10_000f32.powf(-2.0 * j as f32 / head_dim as f32)).collect()
}

fn reference(x: &[f32], freqs: &[f32], scale: f64, positions: &[u32], heads: usize) -> Vec<f64> {
    let half = freqs.len();
    let mut y = wide64(x);
    for (row, position) in positions.iter().enumerate() {
        for head in 0..heads {
            let at = (row * heads + head) * 2 * half;
            for j in 0..half {
                let (sin, cos) = f64::from(*position as f32 * freqs[j]).sin_cos();
                let (a, b) = (y[at + j], y[at + half + j]);
                y[at + j] = (a * cos - b * sin) * scale;
                y[at + half + j] = (b * cos + a * sin) * scale;
            }
        }
    }
    y
}

#[test]
fn turns_and_turns_back() {
    for (n, heads, head_dim) in [(1, 1, 2), (5, 3, 6), (90, 9, 64)] {
        let freqs = frequencies(head_dim);
        let table = rope_tables(&freqs, 1.0, 200, &Heap, "tables").unwrap();
        let positions: Vec<u32> = (0..n as u32).map(|i| i * 2 % 200).collect();
        let x = noise(n * heads * head_dim, 1);
        let turned = same_on_threads(|| {
            let mut y = buf(&x);
            rope(y.view_mut(), &table, &positions, heads, head_dim, false).unwrap();
            values(&y)
        });
        assert_close(&turned, &reference(&x, &freqs, 1.0, &positions, heads), 1e-6);
        // Rotations keep lengths, so the inverse is the transpose: the gradient's way.
        let mut y = buf(&turned);
        rope(y.view_mut(), &table, &positions, heads, head_dim, true).unwrap();
        assert_close(&values(&y), &wide64(&x), 1e-6);
    }
}

#[test]
fn agrees_with_candle() {
    let (n, heads, head_dim) = (7, 2, 8);
    let x = noise(n * heads * head_dim, 1);
    let table = rope_tables(&frequencies(head_dim), 1.0, n, &Heap, "tables").unwrap();
    let tensor = |x: &[f32], shape: &[usize]| Tensor::from_slice(x, shape, &Device::Cpu).unwrap();
    let (cos, sin) = (tensor(&values(&table.cos), &[n, 4]), tensor(&values(&table.sin), &[n, 4]));
    let wanted = candle_nn::rotary_emb::rope_slow(
        &tensor(&x, &[1, n, heads, head_dim]).transpose(1, 2).unwrap().contiguous().unwrap(),
        &cos,
        &sin,
    )
    .unwrap();
    let wanted = flat64(&wanted.transpose(1, 2).unwrap().contiguous().unwrap()).unwrap();
    let mut y = buf(&x);
    let positions: Vec<u32> = (0..n as u32).collect();
    rope(y.view_mut(), &table, &positions, heads, head_dim, false).unwrap();
    assert_close(&values(&y), &wanted, 1e-6);
}

#[test]
fn scale_tempers_both_tables() {
    let freqs = frequencies(4);
    let table = rope_tables(&freqs, 0.5, 3, &Heap, "tables").unwrap();
    let x = noise(8, 1);
    let mut y = buf(&x);
    rope(y.view_mut(), &table, &[2, 0], 1, 4, false).unwrap();
    assert_close(&values(&y), &reference(&x, &freqs, 0.5, &[2, 0], 1), 1e-6);
}

#[test]
fn misfits_are_faults() {
    let table = rope_tables(&frequencies(4), 1.0, 3, &Heap, "tables").unwrap();
    let mut x = zeros(8);
    assert_wrong_shape(rope(x.view_mut(), &table, &[0, 3], 1, 4, false));
    assert_wrong_shape(rope(x.view_mut(), &table, &[0], 1, 4, false));
    assert_wrong_shape(rope(x.view_mut(), &table, &[0, 1, 2, 0], 1, 2, false));
    assert_wrong_shape(rope(x.view_mut(), &table, &[], 1, 5, false));
    assert_wrong_shape(rope_tables(&[], 1.0, 3, &Heap, "tables").map(|_| ()));
}
