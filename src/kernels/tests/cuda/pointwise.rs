use super::*;

const LENGTHS: &[usize] = &[1, 5, 255, 256, 1000];

#[test]
fn element_by_element() {
    for (&n, t) in LENGTHS.iter().flat_map(|n| STORAGE.map(|t| (n, t))) {
        let ((x, wide_x), (y, wide_y)) = (noise_in(t, n, 1), noise_in(t, n, 2));

        let (mut found, mut wanted) = (y.clone(), buf(&values(&wide_y)));
        launch!(t, "add", [n], &mut found, &x, n);
        add(wanted.view_mut(), wide_x.view()).unwrap();
        found.assert_same(&values(&wanted));

        let (mut found, mut wanted) = (y.clone(), buf(&values(&wide_y)));
        launch!(t, "scale", [n], &mut found, 0.3f32, n);
        scale(wanted.view_mut(), 0.3).unwrap();
        found.assert_same(&values(&wanted));

        let mut found = Memory::junk(t, n);
        launch!(t, "fill", [n], &mut found, -0.7f32, n);
        found.assert_same(&vec![-0.7; n]);

        let mut found = Memory::junk(t, n);
        launch!(t, "copy", [n], &mut found, &x, n);
        assert_eq!(found, x);
    }
}

#[test]
fn biases() {
    for ((n, width), t) in shapes(1).into_iter().flat_map(|s| STORAGE.map(|t| (s, t))) {
        let b = noise(width, 3);
        let (y, mut wanted) = noise_in(t, n * width, 1);
        let mut found = y.clone();
        launch!(t, "add_bias", [n], &mut found, &Memory::f32(&b), width);
        add_bias(wanted.view_mut(), buf(&b).view()).unwrap();
        found.assert_same(&values(&wanted));
    }
}

#[test]
fn bias_gradients_are_summed_in_the_same_order() {
    for ((n, width), t) in shapes(2).into_iter().chain([(1100, 33)]).flat_map(|s| STORAGE.map(|t| (s, t))) {
        let (dy, wide) = noise_in(t, n * width, 1);
        let db = noise(width, 2);
        let (mut found, mut wanted) = (Memory::f32(&db), buf(&db));
        launch!(t, "bias_backward", [width], &mut found, &dy, n, width);
        bias_backward(wanted.view_mut(), wide.view()).unwrap();
        found.assert_same(&values(&wanted));
    }
}

#[test]
fn gates() {
    for (&n, t) in LENGTHS.iter().flat_map(|n| STORAGE.map(|t| (n, t))) {
        let extreme = |v: Vec<f32>| v.into_iter().map(|v| v * 30.0).collect::<Vec<_>>();
        let g = Memory::of(t, &extreme(noise(n, 1)));
        let wide_g = buf(&g.values());
        let ((u, wide_u), (da, wide_da)) = (noise_in(t, n, 2), noise_in(t, n, 3));

        let (mut found, mut wanted) = (Memory::junk(t, n), junk(n));
        launch!(t, "swiglu", [n], &mut found, &g, &u, n);
        swiglu(wanted.view_mut(), wide_g.view(), wide_u.view()).unwrap();
        found.assert_same(&values(&wanted));
        let mut place = g.clone();
        launch!(t, "swiglu", [n], &mut place, host::Arg::Again(0), &u, n);
        assert_eq!(place, found);

        let (mut dg, mut du) = (Memory::junk(t, n), Memory::junk(t, n));
        launch!(t, "swiglu_backward", [n], &mut dg, &mut du, &da, &g, &u, n);
        let (mut wanted_dg, mut wanted_du) = (junk(n), junk(n));
        let outputs = (wanted_dg.view_mut(), wanted_du.view_mut());
        swiglu_backward(outputs.0, outputs.1, wide_da.view(), wide_g.view(), wide_u.view()).unwrap();
        dg.assert_same(&values(&wanted_dg));
        du.assert_same(&values(&wanted_du));
    }
}

/// Every number of 16 bits, and f32s at and around the midpoints between them.
#[test]
fn casts_to_the_bit() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    for t in [DType::BF16, DType::F16] {
        let halves = |bits: &[u16]| match t {
            DType::BF16 => bits.iter().map(|b| half::bf16::from_bits(*b).to_f32()).collect::<Vec<_>>(),
            _ => bits.iter().map(|b| half::f16::from_bits(*b).to_f32()).collect(),
        };
        let wide = halves(&all);
        let x = Memory::of(t, &wide);
        let mut found = Memory::junk(DType::F32, all.len());
        launch!(t, "widen_all", [all.len()], &mut found, &x, all.len());
        found.assert_same(&wide);

        let mut near = Vec::new();
        for pair in wide.windows(2) {
            let middle = (pair[0] + pair[1]) / 2.0;
            near.extend([
                middle,
                f32::from_bits(middle.to_bits() ^ 1),
                f32::from_bits(middle.to_bits().wrapping_add(2)),
            ]);
        }
        near.extend([f32::MAX, f32::MIN, 65519.99, 65520.0, 1e-45, -1e-45, 2.9802322e-8, 2.980233e-8]);
        let mut found = Memory::junk(t, near.len());
        launch!(t, "narrow_all", [near.len()], &mut found, &Memory::f32(&near), near.len());
        found.assert_same(&near);
    }
    let x = noise(100, 1);
    let mut found = Memory::junk(DType::F32, 100);
    launch!(DType::F32, "narrow_all", [100], &mut found, &Memory::f32(&x), 100usize);
    found.assert_same(&x);
}
