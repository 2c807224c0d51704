use super::*;

const LENGTHS: &[usize] = &[1, 3, 4, 255, 1025];

#[test]
fn uniform_numbers_to_the_bit() {
    for (&n, t) in LENGTHS.iter().flat_map(|n| STORAGE.map(|t| (n, t))) {
        let key = Key::new(7).with(3);
        let (mut found, mut wanted) = (Memory::junk(t, n), junk(n));
        fill_uniform(wanted.view_mut(), -0.3, 0.2, key).unwrap();
        launch!(t, "fill_uniform", [n.div_ceil(4)], &mut found, -0.3f32, 0.2f32, key.bits(), n);
        found.assert_same(&values(&wanted));
    }
}

#[test]
fn normal_numbers_within_rounding() {
    for (&n, t) in LENGTHS.iter().flat_map(|n| STORAGE.map(|t| (n, t))) {
        let key = Key::new(1 << 40);
        let (mut found, mut wanted) = (Memory::junk(t, n), junk(n));
        fill_normal(wanted.view_mut(), 0.02, key).unwrap();
        launch!(t, "fill_normal", [n.div_ceil(4)], &mut found, 0.02f32, key.bits(), n);
        found.assert_close(&values(&wanted), 1e-7);
    }
}

#[test]
fn the_same_values_are_dropped() {
    for (&n, t) in LENGTHS.iter().flat_map(|n| STORAGE.map(|t| (n, t))) {
        let (key, p) = (Key::new(5).with(u64::MAX), 0.3f32);
        let ((x, wide), (y, mut sum)) = (noise_in(t, n, 1), noise_in(t, n, 2));
        let (mut found, mut wanted) = (Memory::junk(t, n), junk(n));
        dropout(wanted.view_mut(), wide.view(), p, key).unwrap();
        launch!(t, "dropout", [n.div_ceil(4)], &mut found, &x, p, key.bits(), n);
        found.assert_same(&values(&wanted));
        let mut place = x.clone();
        launch!(t, "dropout", [n.div_ceil(4)], &mut place, host::Arg::Again(0), p, key.bits(), n);
        assert_eq!(place, found);

        let mut found = y.clone();
        dropout_add(sum.view_mut(), wide.view(), p, key).unwrap();
        launch!(t, "dropout_add", [n.div_ceil(4)], &mut found, &x, p, key.bits(), n);
        found.assert_same(&values(&sum));
    }
}
