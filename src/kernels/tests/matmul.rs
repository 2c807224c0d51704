use super::*;

/// a·b for row-major operands, in f64.
fn reference(a: &[f32], b: &[f32], m: usize, k: usize, n: usize) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for l in 0..k {
            for j in 0..n {
                c[i * n + j] += f64::from(a[i * k + l]) * f64::from(b[l * n + j]);
            }
        }
    }
    c
}

fn transposed(x: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    (0..rows * cols).map(|i| x[i % rows * cols + i / rows]).collect()
}

#[test]
fn every_layout_gives_the_product() {
    for (m, k, n) in [(1, 1, 1), (1, 64, 33), (3, 2, 5), (7, 65, 1), (17, 31, 19), (70, 130, 66)] {
        let (a, b) = (noise(m * k, 1), noise(k * n, 2));
        let wanted = reference(&a, &b, m, k, n);
        let (a_t, b_t) = (buf(&transposed(&a, m, k)), buf(&transposed(&b, k, n)));
        let (a, b) = (buf(&a), buf(&b));
        let a_forms = [Mat::new(a.view(), m, k), Mat::new(a_t.view(), k, m).t()];
        let b_forms = [Mat::new(b.view(), k, n), Mat::new(b_t.view(), n, k).t()];
        for a in a_forms {
            for b in b_forms {
                // With beta 0 the output is not read, so NaN there does no harm.
                let mut c = junk(m * n);
                matmul(MatMut::new(c.view_mut(), m, n), a, b, 1.0, 0.0).unwrap();
                assert_close(&values(&c), &wanted, 1e-5);
                let mut c_t = junk(m * n);
                matmul(MatMut::new(c_t.view_mut(), n, m).t(), a, b, 1.0, 0.0).unwrap();
                assert_close(&transposed(&values(&c_t), n, m), &wanted, 1e-5);
            }
        }
    }
}

#[test]
fn alpha_scales_and_beta_accumulates() {
    let (a, b, before) = (noise(6, 1), noise(6, 2), noise(4, 3));
    let product = reference(&a, &b, 2, 3, 2);
    let mut c = buf(&before);
    let (a, b) = (buf(&a), buf(&b));
    matmul(MatMut::new(c.view_mut(), 2, 2), Mat::new(a.view(), 2, 3), Mat::new(b.view(), 3, 2), 0.5, 2.0).unwrap();
    let wanted: Vec<f64> = product.iter().zip(&before).map(|(p, c)| 0.5 * p + 2.0 * f64::from(*c)).collect();
    assert_close(&values(&c), &wanted, 1e-6);
}

#[test]
fn strided_parts_leave_their_surroundings() {
    // The middle two columns of a 3 × 4 matrix become a product.
    let mut c = buf(&[9.0; 12]);
    let (a, b) = (buf(&noise(6, 1)), buf(&noise(4, 2)));
    let part = MatMut::strided(c.view_mut().slice(1..12), 3, 2, 4, 1);
    matmul(part, Mat::new(a.view(), 3, 2), Mat::new(b.view(), 2, 2), 1.0, 0.0).unwrap();
    let wanted = reference(&values(&a), &values(&b), 3, 2, 2);
    let found = values(&c);
    for row in 0..3 {
        assert_eq!((found[row * 4], found[row * 4 + 3]), (9.0, 9.0));
        assert_close(&found[row * 4 + 1..row * 4 + 3], &wanted[row * 2..row * 2 + 2], 1e-5);
    }
}

#[test]
fn an_empty_sum_is_zero() {
    let mut c = junk(6);
    let empty = zeros(0);
    let (a, b) = (Mat::new(empty.view(), 2, 0), Mat::new(empty.view(), 0, 3));
    matmul(MatMut::new(c.view_mut(), 2, 3), a, b, 1.0, 0.0).unwrap();
    assert_eq!(values(&c), [0.0; 6]);
}

#[test]
fn misfits_are_faults() {
    let (a, b, mut c) = (zeros(6), zeros(6), zeros(4));
    let (a, b) = (a.view(), b.view());
    let mut go = |m, n, a: Mat<'_>, b: Mat<'_>| matmul(MatMut::new(c.view_mut(), m, n), a, b, 1.0, 0.0);
    assert_wrong_shape(go(2, 2, Mat::new(a, 2, 3), Mat::new(b, 2, 3)));
    assert_wrong_shape(go(3, 3, Mat::new(a, 3, 2), Mat::new(b, 2, 3)));
    assert_wrong_shape(go(2, 2, Mat::new(a, 2, 4), Mat::new(b, 4, 2)));
    assert_wrong_shape(go(2, 2, Mat::strided(a, 2, usize::MAX, usize::MAX, 2), Mat::new(b, usize::MAX, 2)));
    let mut c = zeros(4);
    let overlapping = MatMut::strided(c.view_mut(), 2, 2, 1, 1);
    assert_wrong_shape(matmul(overlapping, Mat::new(a, 2, 3), Mat::new(b, 3, 2), 1.0, 0.0));
    let narrow = typed(&[half::bf16::ONE; 6]);
    let result = matmul(MatMut::new(c.view_mut(), 2, 2), Mat::new(narrow.view(), 2, 3), Mat::new(b, 3, 2), 1.0, 0.0);
    assert_code(result, "kernel.dtype");
}

#[test]
fn threads_do_not_show() {
    for n in [1, 2, 3, 7, 8, 9, 16, 17, 33, 64, 65, 127, 128, 129, 200, 299, 300] {
        for (k, out) in [(3, 40), (65, 131), (576, 192), (192, 576)] {
            let (x, w) = (noise(n * k, 1), noise(k * out, 2));
            let (x, w, dy) = (buf(&x), buf(&w), buf(&noise(n * out, 3)));
            same_on_threads(|| {
                let (mut y, mut dx, mut dw) = (zeros(n * out), zeros(n * k), zeros(k * out));
                let (x, dy) = (Mat::new(x.view(), n, k), Mat::new(dy.view(), n, out));
                let w = Mat::new(w.view(), out, k);
                matmul(MatMut::new(y.view_mut(), n, out), x, w.t(), 1.0, 0.0).unwrap();
                matmul(MatMut::new(dx.view_mut(), n, k), dy, w, 1.0, 0.0).unwrap();
                matmul(MatMut::new(dw.view_mut(), out, k), dy.t(), x, 1.0, 1.0).unwrap();
                [values(&y), values(&dx), values(&dw)].concat()
            });
        }
    }
}

/// Products large enough to be cut, in each layout, on numbers of threads that cut them differently: the same bits as
/// one call of `gemm` over the whole, which one row less than a cut's least gives.
#[test]
fn cuts_do_not_show() {
    for (n, out, k) in [(128, 96, 5), (129, 97, 64), (301, 145, 65), (1024, 576, 3), (1030, 1009, 70), (4096, 192, 2)] {
        let (x, w, dy) = (buf(&noise(n * k, 1)), buf(&noise(k * out, 2)), buf(&noise(n * out, 3)));
        let run = || {
            let (mut y, mut y_turned, mut dx) = (zeros(n * out), zeros(n * out), zeros(n * k));
            let (x, dy, w) = (Mat::new(x.view(), n, k), Mat::new(dy.view(), n, out), Mat::new(w.view(), out, k));
            matmul(MatMut::new(y.view_mut(), n, out), x, w.t(), 0.5, 0.0).unwrap();
            // As `gemm` has it, uncut: the output lies the other way.
            matmul(MatMut::new(y_turned.view_mut(), out, n).t(), x, w.t(), 0.5, 0.0).unwrap();
            matmul(MatMut::new(dx.view_mut(), n, k), dy, w, 1.0, 0.0).unwrap();
            [values(&y), values(&dx), transposed(&values(&y_turned), out, n)].concat()
        };
        let one = same_on_threads(run);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(16).build().unwrap();
        assert!(one == pool.install(run), "{n} × {out} × {k}");
        let close = one[..n * out].iter().zip(&one[n * out + n * k..]).all(|(a, b)| (a - b).abs() < 1e-4);
        assert!(close, "{n} × {out} × {k}");
    }
}

#[test]
fn a_sum_of_two_products_is_one_after_the_other() {
    for (n, out, k, rank) in [(3, 5, 7, 2), (1024, 576, 70, 8), (300, 200, 65, 1), (257, 1000, 33, 2)] {
        let (x, w, low, b) =
            (buf(&noise(n * k, 1)), buf(&noise(k * out, 2)), buf(&noise(n * rank, 3)), buf(&noise(out * rank, 4)));
        let (x, w) = (Mat::new(x.view(), n, k), Mat::new(w.view(), out, k).t());
        let (low, b) = (Mat::new(low.view(), n, rank), Mat::new(b.view(), out, rank).t());
        let before = buf(&noise(n * out, 5));
        same_on_threads(|| {
            let (mut one, mut two) = (buf(&values(&before)), buf(&values(&before)));
            matmul(MatMut::new(one.view_mut(), n, out), x, w, 1.0, 0.5).unwrap();
            matmul(MatMut::new(one.view_mut(), n, out), low, b, 2.0, 1.0).unwrap();
            let second = Some(Term { a: low, b, alpha: 2.0 });
            matmul_sum(MatMut::new(two.view_mut(), n, out), 0.5, Term { a: x, b: w, alpha: 1.0 }, second).unwrap();
            assert!(values(&one) == values(&two), "{n} × {out}");
            values(&two)
        });
        let mut c = zeros(n * out);
        let misfit = Some(Term { a: low, b: b.t(), alpha: 1.0 });
        if out != rank {
            assert_wrong_shape(matmul_sum(
                MatMut::new(c.view_mut(), n, out),
                0.0,
                Term { a: x, b: w, alpha: 1.0 },
                misfit,
            ));
        }
    }
}
