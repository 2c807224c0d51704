use super::*;

fn silu(g: f64) -> f64 {
    g / (1.0 + (-g).exp())
}

/// Long enough to be cut into blocks, and not a whole number of them.
const LONG: usize = 40_001;

#[test]
fn swiglu_forward() {
    let (mut g, u) = (noise(LONG, 1), noise(LONG, 2));
    g[..4].copy_from_slice(&[0.0, 100.0, -100.0, -1e30]);
    let wanted: Vec<f64> = g.iter().zip(&u).map(|(g, u)| silu(f64::from(*g)) * f64::from(*u)).collect();
    let (g, u) = (buf(&g), buf(&u));
    let found = same_on_threads(|| {
        let mut a = junk(LONG);
        swiglu(a.view_mut(), g.view(), u.view()).unwrap();
        values(&a)
    });
    assert_close(&found, &wanted, 1e-6);
}

#[test]
fn swiglu_backward_is_the_gradient() {
    let (g, u, da) = (noise(50, 1), noise(50, 2), noise(50, 3));
    let (g64, u64, da64) = (wide64(&g), wide64(&u), wide64(&da));
    let f = |g: &[f64], u: &[f64]| g.iter().zip(u).map(|(g, u)| silu(*g) * u).collect::<Vec<_>>();
    let (mut dg, mut du) = (junk(50), junk(50));
    swiglu_backward(dg.view_mut(), du.view_mut(), buf(&da).view(), buf(&g).view(), buf(&u).view()).unwrap();
    assert_close(&values(&dg), &differences(&g64, &da64, |g| f(g, &u64)), 1e-6);
    assert_close(&values(&du), &differences(&u64, &da64, |u| f(&g64, u)), 1e-6);
}

#[test]
fn swiglu_backward_agrees_with_candle_on_any_threads() {
    let (g, u, da) = (noise(LONG, 1), noise(LONG, 2), noise(LONG, 3));
    let (vg, vu, vda) = (var(&g, &[LONG]), var(&u, &[LONG]), var(&da, &[LONG]));
    let a = (candle_nn::ops::silu(&vg).unwrap() * vu.as_tensor()).unwrap();
    let grads = (a * vda.as_tensor()).unwrap().sum_all().unwrap().backward().unwrap();
    let (g, u, da) = (buf(&g), buf(&u), buf(&da));
    let found = same_on_threads(|| {
        let (mut dg, mut du) = (junk(LONG), junk(LONG));
        swiglu_backward(dg.view_mut(), du.view_mut(), da.view(), g.view(), u.view()).unwrap();
        [values(&dg), values(&du)].concat()
    });
    assert_close(&found[..LONG], &flat64(grads.get(&vg).unwrap()).unwrap(), 1e-6);
    assert_close(&found[LONG..], &flat64(grads.get(&vu).unwrap()).unwrap(), 1e-6);
}

#[test]
fn elementwise() {
    let (a, b) = (noise(LONG, 1), noise(LONG, 2));
    let x = buf(&b);
    let found = same_on_threads(|| {
        let mut y = buf(&a);
        add(y.view_mut(), x.view()).unwrap();
        scale(y.view_mut(), -0.5).unwrap();
        values(&y)
    });
    let wanted: Vec<f32> = a.iter().zip(&b).map(|(a, b)| (a + b) * -0.5).collect();
    assert_eq!(found, wanted);
    let mut y = junk(LONG);
    copy(y.view_mut(), x.view()).unwrap();
    assert_eq!(values(&y), b);
    fill(y.view_mut().slice(1..LONG), 2.0).unwrap();
    assert_eq!(values(&y)[..3], [b[0], 2.0, 2.0]);
    assert!(values(&y)[1..].iter().all(|y| *y == 2.0));
    let mut bytes = typed(&[0u8; 3]);
    copy(bytes.view_mut(), typed(&[7u8, 8, 9]).view()).unwrap();
    assert_eq!(bytes.view().cpu::<u8>().unwrap(), [7, 8, 9]);
}

#[test]
fn bias_and_its_gradient() {
    let (n, width) = (150, 200);
    let (y, b) = (noise(n * width, 1), noise(width, 2));
    let (wanted_y, wanted_db): (Vec<f32>, Vec<f64>) = (
        y.iter().enumerate().map(|(i, y)| y + b[i % width]).collect(),
        (0..width).map(|j| 1.0 + (0..n).map(|i| f64::from(y[i * width + j])).sum::<f64>()).collect(),
    );
    let (dy, bias) = (buf(&y), buf(&b));
    let found = same_on_threads(|| {
        let (mut out, mut db) = (buf(&y), buf(&vec![1.0; width]));
        add_bias(out.view_mut(), bias.view()).unwrap();
        bias_backward(db.view_mut(), dy.view()).unwrap();
        [values(&out), values(&db)].concat()
    });
    assert_eq!(found[..n * width], wanted_y);
    assert_close(&found[n * width..], &wanted_db, 1e-6);
}

#[test]
fn misfits_are_faults() {
    let (mut y, x) = (zeros(4), zeros(3));
    assert_wrong_shape(add(y.view_mut(), x.view()));
    assert_wrong_shape(copy(y.view_mut(), x.view()));
    assert_wrong_shape(add_bias(y.view_mut(), x.view()));
    assert_wrong_shape(bias_backward(y.view_mut(), x.view()));
    assert_wrong_shape(swiglu(y.view_mut(), x.view(), x.view()));
    assert_wrong_shape(swiglu_backward(y.view_mut(), zeros(4).view_mut(), x.view(), x.view(), x.view()));
    assert_wrong_shape(add_bias(y.view_mut(), zeros(0).view()));
    assert_code(copy(y.view_mut(), typed(&[0u8; 4]).view()), "kernel.dtype");
}
