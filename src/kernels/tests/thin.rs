use super::*;

/// Depths with and without whole lanes, rows with and without whole tiles.
const CASES: [(usize, usize, usize); 7] =
    [(1, 1, 1), (4, 16, 4), (5, 17, 3), (37, 64, 8), (130, 100, 5), (300, 192, 8), (257, 576, 16)];

#[test]
fn a_thin_product_is_the_product() {
    for (n, k, thin) in CASES {
        let (x, m) = (noise(n * k, 1), noise(thin * k, 2));
        let wanted: Vec<f64> = (0..n * thin)
            .map(|at| {
                let (x, m) = (&x[at / thin * k..][..k], &m[at % thin * k..][..k]);
                0.5 * x.iter().zip(m).map(|(x, m)| f64::from(*x) * f64::from(*m)).sum::<f64>()
            })
            .collect();
        let (x, m) = (buf(&x), buf(&m));
        let found = same_on_threads(|| {
            let mut y = junk(n * thin);
            thin_product(y.view_mut(), x.view(), m.view(), thin, 0.5).unwrap();
            values(&y)
        });
        assert_close(&found, &wanted, 1e-6);
    }
}

#[test]
fn a_thin_sum_adds_the_product_either_way_round() {
    for (n, k, thin) in CASES {
        let (l, x, before) = (noise(n * thin, 1), noise(n * k, 2), noise(thin * k, 3));
        let wanted: Vec<f64> = (0..thin * k)
            .map(|at| {
                let term = |i: usize| f64::from(l[i * thin + at / k]) * f64::from(x[i * k + at % k]);
                f64::from(before[at]) + 0.25 * (0..n).map(term).sum::<f64>()
            })
            .collect();
        let (l, x) = (buf(&l), buf(&x));
        let found = same_on_threads(|| {
            let mut g = buf(&before);
            thin_sum(g.view_mut(), l.view(), x.view(), thin, 0.25).unwrap();
            values(&g)
        });
        assert_close(&found, &wanted, 2e-6);
        let turned = same_on_threads(|| {
            let (mut g, mut back) = (junk(thin * k), junk(thin * k));
            turn(g.view_mut(), buf(&before).view(), k).unwrap();
            thin_sum_turned(g.view_mut(), l.view(), x.view(), thin, 0.25).unwrap();
            turn(back.view_mut(), g.view(), thin).unwrap();
            values(&back)
        });
        assert_eq!(found, turned, "{n} × {k} × {thin}");
    }
}

/// A row's sums do not depend on the rows beside it, so windows of rows are as good as all at once.
#[test]
fn rows_are_multiplied_each_alone() {
    let (n, k, thin) = (50, 70, 6);
    let (x, m) = (buf(&noise(n * k, 1)), buf(&noise(thin * k, 2)));
    let mut whole = junk(n * thin);
    thin_product(whole.view_mut(), x.view(), m.view(), thin, 1.0).unwrap();
    for row in 0..n {
        let mut one = junk(thin);
        thin_product(one.view_mut(), x.view().slice(row * k..(row + 1) * k), m.view(), thin, 1.0).unwrap();
        assert_eq!(values(&one), values(&whole)[row * thin..(row + 1) * thin]);
    }
}

#[test]
fn misfits_are_faults() {
    let (x, m, mut y) = (zeros(12), zeros(6), zeros(8));
    assert_wrong_shape(thin_product(y.view_mut().slice(0..7), x.view(), m.view(), 2, 1.0));
    assert_wrong_shape(thin_product(y.view_mut(), x.view().slice(0..11), m.view(), 2, 1.0));
    let mut g = zeros(6);
    assert_wrong_shape(thin_sum(g.view_mut(), y.view(), x.view().slice(0..9), 2, 1.0));
    assert_wrong_shape(thin_sum_turned(g.view_mut(), y.view(), x.view().slice(0..9), 2, 1.0));
    assert_wrong_shape(turn(g.view_mut(), x.view(), 3));
}
