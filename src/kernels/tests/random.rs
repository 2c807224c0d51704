use super::*;

#[test]
fn bulk_and_single_numbers_agree() {
    let key = Key::new(7).with(3);
    let found = same_on_threads(|| {
        let (mut u, mut z) = (zeros(40_003), zeros(40_003));
        fill_uniform(u.view_mut(), -2.0, 3.0, key).unwrap();
        fill_normal(z.view_mut(), 0.02, key).unwrap();
        [values(&u), values(&z)].concat()
    });
    for i in (0..40_003).step_by(97) {
        assert_eq!(found[i], -2.0 + 5.0 * uniform(key, i as u64));
        assert_eq!(found[40_003 + i], 0.02 * normal(key, i as u64));
        assert_eq!(normal4(key, i as u64 / 4)[i % 4], normal(key, i as u64));
    }
}

#[test]
fn numbers_are_spread_as_they_should_be() {
    let n = 200_000u64;
    let moments = |f: fn(Key, u64) -> f32| {
        let x: Vec<f64> = (0..n).map(|i| f64::from(f(Key::new(1), i))).collect();
        let mean = x.iter().sum::<f64>() / n as f64;
        (mean, x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64)
    };
    let (mean, variance) = moments(uniform);
    assert!((mean - 0.5).abs() < 0.003 && (variance - 1.0 / 12.0).abs() < 0.001, "{mean} {variance}");
    let (mean, variance) = moments(normal);
    assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    assert!((0..n).all(|i| (0.0..1.0).contains(&uniform(Key::new(2), i))));
}

#[test]
fn streams_differ() {
    let key = Key::new(1);
    let keys =
        [key, Key::new(2), key.with(0), key.with(1), key.with(1 << 32), key.with(0).with(1), key.with(1).with(0)];
    for (i, a) in keys.iter().enumerate() {
        for b in &keys[..i] {
            assert_ne!(a, b);
            let equal = (0..100).filter(|i| uniform(*a, *i) == uniform(*b, *i)).count();
            assert!(equal < 3);
        }
    }
}

#[test]
fn dropout_keeps_the_mean_and_repeats_its_mask() {
    let n = 50_001;
    let (x, key) = (buf(&vec![1.0; n]), Key::new(5));
    let found = same_on_threads(|| {
        let mut y = junk(n);
        dropout(y.view_mut(), x.view(), 0.25, key).unwrap();
        values(&y)
    });
    let scale = 1.0 / 0.75f32;
    for (i, y) in found.iter().enumerate() {
        assert_eq!(*y, if uniform(key, i as u64) >= 0.25 { scale } else { 0.0 });
    }
    let kept = found.iter().filter(|y| **y != 0.0).count() as f64 / n as f64;
    assert!((kept - 0.75).abs() < 0.01, "{kept}");
    let mut sum = buf(&vec![2.0; n]);
    dropout_add(sum.view_mut(), x.view(), 0.25, key).unwrap();
    assert!(values(&sum).iter().zip(&found).all(|(s, y)| *s == 2.0 + y));
    let mut y = junk(n);
    dropout(y.view_mut(), x.view(), 0.0, key).unwrap();
    assert!(values(&y).iter().all(|y| *y == 1.0));
}

#[test]
fn impossible_probabilities_are_faults() {
    let (mut y, x) = (zeros(2), zeros(2));
    for p in [-0.1, 1.0, f32::NAN] {
        assert_wrong_shape(dropout(y.view_mut(), x.view(), p, Key::new(0)));
    }
    assert_wrong_shape(dropout(y.view_mut(), zeros(3).view(), 0.1, Key::new(0)));
}
