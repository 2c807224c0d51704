use super::*;

#[test]
fn adamw_follows_the_formula() {
    let n = 40_001;
    let settings = AdamW { weight_decay: 0.1, ..AdamW::default() };
    let (p0, lr, clip) = (noise(n, 1), 3e-3, 0.5f32);
    let found = same_on_threads(|| {
        let (mut p, mut m, mut v) = (buf(&p0), zeros(n), zeros(n));
        for step in 1..=3 {
            let g = buf(&noise(n, 10 + step));
            adamw(p.view_mut(), m.view_mut(), v.view_mut(), g.view(), lr, step, clip, &settings).unwrap();
        }
        [values(&p), values(&m), values(&v)].concat()
    });
    let (mut p, mut m, mut v) = (wide64(&p0), vec![0.0; n], vec![0.0; n]);
    for step in 1..=3u64 {
        for (i, g) in wide64(&noise(n, 10 + step)).into_iter().enumerate() {
            let g = g * 0.5;
            p[i] *= 1.0 - lr * 0.1;
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.999 * v[i] + 0.001 * g * g;
            let (mh, vh) = (m[i] / (1.0 - 0.9f64.powi(step as i32)), v[i] / (1.0 - 0.999f64.powi(step as i32)));
            p[i] -= lr * mh / (vh.sqrt() + 1e-8);
        }
    }
    assert_close(&found[..n], &p, 3e-7);
    assert_close(&found[n..2 * n], &m, 1e-6);
    assert_close(&found[2 * n..], &v, 1e-6);
}

/// Printed by torch 2's `AdamW(lr=1e-2, weight_decay=0.01)` with gradients 0.1·(i+1), −0.2, 3e-5 over three steps.
#[test]
fn adamw_equals_torch() {
    let settings = AdamW { weight_decay: 0.01, ..AdamW::default() };
    let (mut p, mut m, mut v) = (buf(&[1.0, -2.0, 0.5]), zeros(3), zeros(3));
    for step in 1..=3u64 {
        let g = buf(&[0.1 * step as f32, -0.2, 3e-5]);
        adamw(p.view_mut(), m.view_mut(), v.view_mut(), g.view(), 1e-2, step, 1.0, &settings).unwrap();
    }
    let torch = [f32::from_bits(0x3F78_70CB), f32::from_bits(0xbffc1566), f32::from_bits(0x3ef091e2)];
    assert_eq!(values(&p), torch);
}

#[test]
fn norms_are_in_f64_and_show_what_is_not_finite() {
    let n = 200_001;
    let x = noise(n, 1);
    let wanted: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum();
    let g = buf(&x);
    let found = same_on_threads(|| {
        let bits = sum_squares(g.view()).unwrap().to_bits();
        vec![f32::from_bits(bits as u32), f32::from_bits((bits >> 32) as u32)]
    });
    let found = f64::from_bits(u64::from(found[0].to_bits()) | u64::from(found[1].to_bits()) << 32);
    assert!((found / wanted - 1.0).abs() < 1e-12, "{found} {wanted}");
    assert_eq!(sum_squares(buf(&[1e30, 1e30]).view()).unwrap() as f32, f32::INFINITY);
    assert!(sum_squares(buf(&[1e30, 1e30]).view()).unwrap().is_finite());
    assert!(sum_squares(buf(&[1.0, f32::NAN]).view()).unwrap().is_nan());
    assert_eq!(sum_squares(zeros(0).view()).unwrap(), 0.0);
}

#[test]
fn misfits_are_faults() {
    let (mut p, mut m, mut v) = (zeros(3), zeros(3), zeros(3));
    let settings = AdamW::default();
    let mut go = |g: &Buf, step| adamw(p.view_mut(), m.view_mut(), v.view_mut(), g.view(), 1e-3, step, 1.0, &settings);
    assert_wrong_shape(go(&zeros(2), 1));
    assert_wrong_shape(go(&zeros(3), 0));
    go(&zeros(3), 1).unwrap();
}
