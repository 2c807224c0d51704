use super::*;

const EPS: f32 = 1e-5;

fn reference(x: &[f64], w: &[f64]) -> Vec<f64> {
    x.chunks(w.len())
        .flat_map(|row| {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / w.len() as f64;
            let rstd = 1.0 / (mean + f64::from(EPS)).sqrt();
            row.iter().zip(w).map(move |(x, w)| w * x * rstd).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn forward_and_again() {
    for (n, width) in [(1, 1), (3, 5), (70, 576), (1, 4096)] {
        let (x, w) = (noise(n * width, 1), noise(width, 2));
        let wanted = reference(&wide64(&x), &wide64(&w));
        let (x, w) = (buf(&x), buf(&w));
        let y = same_on_threads(|| {
            let (mut y, mut rstd, mut again) = (junk(n * width), junk(n), junk(n * width));
            rms_norm(y.view_mut(), rstd.view_mut(), x.view(), w.view(), EPS).unwrap();
            rms_norm_apply(again.view_mut(), x.view(), rstd.view(), w.view()).unwrap();
            assert_eq!(values(&y), values(&again));
            values(&y)
        });
        assert_close(&y, &wanted, 1e-6);
    }
}

#[test]
fn backward_adds_the_gradients() {
    let (n, width) = (6, 37);
    let (x, w, dy) = (noise(n * width, 1), noise(width, 2), noise(n * width, 3));
    let (x64, w64, dy64) = (wide64(&x), wide64(&w), wide64(&dy));
    let dx_wanted = differences(&x64, &dy64, |x| reference(x, &w64));
    let dw_wanted = differences(&w64, &dy64, |w| reference(&x64, w));
    let (x, w, dy) = (buf(&x), buf(&w), buf(&dy));
    let (mut y, mut rstd) = (zeros(n * width), zeros(n));
    rms_norm(y.view_mut(), rstd.view_mut(), x.view(), w.view(), EPS).unwrap();
    let (mut dx, mut dw) = (buf(&vec![1.0; n * width]), buf(&vec![-1.0; width]));
    let d = (dx.view_mut(), Some(dw.view_mut()));
    rms_norm_backward(d.0, d.1, dy.view(), x.view(), rstd.view(), w.view()).unwrap();
    assert_close(&values(&dx), &dx_wanted.iter().map(|d| d + 1.0).collect::<Vec<_>>(), 1e-5);
    assert_close(&values(&dw), &dw_wanted.iter().map(|d| d - 1.0).collect::<Vec<_>>(), 1e-5);
}

#[test]
fn backward_agrees_with_candle_on_any_threads() {
    let (n, width) = (200, 300);
    let (x, w, dy) = (noise(n * width, 1), noise(width, 2), noise(n * width, 3));
    let (vx, vw, vdy) = (var(&x, &[n, width]), var(&w, &[width]), var(&dy, &[n, width]));
    let y = candle_nn::ops::rms_norm_slow(&vx, &vw, EPS).unwrap();
    let grads = (y * vdy.as_tensor()).unwrap().sum_all().unwrap().backward().unwrap();
    let (x, w, dy) = (buf(&x), buf(&w), buf(&dy));
    let found = same_on_threads(|| {
        let (mut y, mut rstd) = (zeros(n * width), zeros(n));
        rms_norm(y.view_mut(), rstd.view_mut(), x.view(), w.view(), EPS).unwrap();
        let (mut dx, mut dw) = (zeros(n * width), zeros(width));
        let d = (dx.view_mut(), Some(dw.view_mut()));
        rms_norm_backward(d.0, d.1, dy.view(), x.view(), rstd.view(), w.view()).unwrap();
        [values(&dx), values(&dw)].concat()
    });
    assert_close(&found[..n * width], &flat64(grads.get(&vx).unwrap()).unwrap(), 1e-5);
    assert_close(&found[n * width..], &flat64(grads.get(&vw).unwrap()).unwrap(), 1e-5);
}

#[test]
fn misfits_are_faults() {
    let (x, w, none) = (zeros(6), zeros(4), zeros(0));
    let (mut y, mut rstd) = (zeros(6), zeros(2));
    assert_wrong_shape(rms_norm(y.view_mut(), rstd.view_mut(), x.view(), w.view(), EPS));
    assert_wrong_shape(rms_norm(y.view_mut(), rstd.view_mut(), x.view(), none.view(), EPS));
    let w = zeros(2);
    assert_wrong_shape(rms_norm(y.view_mut(), rstd.view_mut(), x.view(), w.view(), EPS));
    let mut y = zeros(4);
    let rstd = zeros(3);
    assert_wrong_shape(rms_norm_apply(y.view_mut(), x.view(), rstd.view(), w.view()));
    assert_wrong_shape(rms_norm_backward(y.view_mut(), None, x.view(), x.view(), rstd.view(), w.view()));
}
