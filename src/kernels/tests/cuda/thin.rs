use super::*;

/// n, k and thin.
const CASES: &[(usize, usize, usize)] =
    &[(1, 1, 1), (5, 33, 3), (9, 64, 8), (66, 100, 9), (130, 257, 16), (40, 31, 32)];

#[test]
fn products_with_a_thin_matrix() {
    for (&(n, k, thin), t) in CASES.iter().flat_map(|s| STORAGE.map(|t| (s, t))) {
        let ((x, wide), m) = (noise_in(t, n * k, 1), noise(thin * k, 2));
        let (mut found, mut wanted) = (Memory::junk(DType::F32, n * thin), junk(n * thin));
        thin_product(wanted.view_mut(), wide.view(), buf(&m).view(), thin, 0.7).unwrap();
        launch!(t, "thin_product", [n], &mut found, &x, &Memory::f32(&m), n, k, thin, 0.7f32);
        found.assert_close(&values(&wanted), 2e-6);
    }
}

#[test]
fn thin_products_are_added() {
    for (&(n, k, thin), t) in CASES.iter().flat_map(|s| STORAGE.map(|t| (s, t))) {
        let (low, m) = (noise(n * thin, 1), noise(k * thin, 2));
        let turned: Vec<f32> = (0..thin * k).map(|i| m[i % k * thin + i / k]).collect();
        let (y, wide) = noise_in(t, n * k, 3);
        let wide = values(&wide);
        let wanted: Vec<f32> = (0..n * k)
            .map(|i| {
                let (low, m) = (&low[i / k * thin..][..thin], &m[i % k * thin..][..thin]);
                let sum: f64 = low.iter().zip(m).map(|(l, m)| f64::from(*l) * f64::from(*m)).sum();
                (f64::from(wide[i]) + 0.7 * sum) as f32
            })
            .collect();
        let low = Memory::f32(&low);
        let mut found = y.clone();
        launch!(t, "thin_add", [k, n], &mut found, &low, &Memory::f32(&m), n, k, thin, thin, 1usize, 0.7f32);
        found.assert_close(&wanted, 1e-6);
        let mut other = y.clone();
        launch!(t, "thin_add", [k, n], &mut other, &low, &Memory::f32(&turned), n, k, thin, 1usize, k, 0.7f32);
        assert_eq!(other, found);
    }
}

#[test]
fn thin_sums_in_the_same_order() {
    for (&(n, k, thin), t) in CASES.iter().chain(&[(1100, 33, 9)]).flat_map(|s| STORAGE.map(|t| (s, t))) {
        let (l, (x, wide)) = (noise(n * thin, 1), noise_in(t, n * k, 2));
        let g = noise(thin * k, 3);
        let l_buf = buf(&l);
        let l = Memory::f32(&l);
        let (mut found, mut wanted) = (Memory::f32(&g), buf(&g));
        thin_sum(wanted.view_mut(), l_buf.view(), wide.view(), thin, 0.7).unwrap();
        launch!(t, "thin_sum", [k, thin], &mut found, &l, &x, n, k, thin, 0.7f32);
        found.assert_same(&values(&wanted));
        let (mut found, mut wanted) = (Memory::f32(&g), buf(&g));
        thin_sum_turned(wanted.view_mut(), l_buf.view(), wide.view(), thin, 0.7).unwrap();
        launch!(t, "thin_sum_turned", [k, thin], &mut found, &l, &x, n, k, thin, 0.7f32);
        found.assert_same(&values(&wanted));
    }
}

#[test]
fn matrices_turn() {
    for (rows, cols) in [(1, 1), (3, 70), (257, 8)] {
        let x = noise(rows * cols, 1);
        let (mut found, mut wanted) = (Memory::junk(DType::F32, rows * cols), junk(rows * cols));
        turn(wanted.view_mut(), buf(&x).view(), cols).unwrap();
        launch!(DType::F32, "turn", [rows * cols], &mut found, &Memory::f32(&x), rows, cols);
        found.assert_same(&values(&wanted));
    }
}
