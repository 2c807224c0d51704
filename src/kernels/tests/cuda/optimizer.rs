use super::*;
use crate::kernels::cuda::step::{FACTOR, FINITE, NORM, WORDS};
use crate::kernels::dynamic;
use crate::kernels::optimizer::Rates;

const RULE: AdamW = AdamW { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.1 };

/// sum_squares and begin_step of one gradient: the step's words, and updates counted after it. None is skipped.
fn begin(g: &Memory, updates: u64, lr: f64, most: f64, loss_scale: Option<f32>) -> Option<(Vec<f32>, u64)> {
    let n = g.values().len();
    let count = n.div_ceil(1 << 16);
    let mut parts = Memory::junk(DType::F64, count);
    if !host::launched(g.dtype, "sum_squares", &[n], &mut [(&mut parts).into(), g.into(), n.into()]) {
        return None;
    }
    let (mut step, mut updates) = (Memory::junk(DType::F32, WORDS), Memory::u64(&[updates]));
    let scale = loss_scale.map(|scale| Memory::f32(&[scale]));
    let mut args = [
        (&mut step).into(),
        (&mut updates).into(),
        (&parts).into(),
        count.into(),
        scale.as_ref().map_or(host::Arg::Null, host::Arg::Read),
        lr.into(),
        RULE.beta1.into(),
        RULE.beta2.into(),
        RULE.eps.into(),
        RULE.weight_decay.into(),
        most.into(),
    ];
    host::launched(DType::F32, "begin_step", &[count], &mut args);
    Some((step.values(), updates.u64s()[0]))
}

#[test]
fn steps_begin_as_on_the_processor() {
    for (n, updates, most, scale) in
        [(1, 0, 0.0, None), (300, 1, 1.0, None), (70_000, 9, 5.0, Some(65536.0f32)), (140_000, 1000, 1e9, None)]
    {
        let x = noise(n, 3);
        let scaled: Vec<f32> = x.iter().map(|v| v * scale.unwrap_or(1.0)).collect();
        let Some((step, counted)) = begin(&Memory::f32(&scaled), updates, 3e-4, most, scale) else { return };
        assert_eq!(counted, updates + 1);
        let rates = RULE.rates(3e-4, counted).unwrap();
        let Rates { keep, beta1, toward, beta2, square, correction, eps, size } = rates;
        assert_eq!(step[..8], [keep, beta1, toward, beta2, square, correction, eps, size]);
        let norm = sum_squares(buf(&x).view()).unwrap().sqrt();
        let clip = if most > 0.0 { (most / (norm + 1e-6)).min(1.0) } else { 1.0 };
        let close = |a: f32, b: f64| assert!((f64::from(a) / b - 1.0).abs() < 1e-7, "{a} {b}");
        close(step[FACTOR], clip / f64::from(scale.unwrap_or(1.0)));
        close(step[NORM], norm);
        assert_eq!(step[FINITE], 1.0);
    }
}

#[test]
fn squares_of_every_type() {
    for (n, t) in [1, 1000, 65_536, 65_537, 150_001].iter().flat_map(|n| STORAGE.map(|t| (*n, t))) {
        let (g, wide) = noise_in(t, n, 1);
        let mut parts = Memory::junk(DType::F64, n.div_ceil(1 << 16));
        launch!(t, "sum_squares", [n], &mut parts, &g, n);
        let (found, wanted) = (parts.f64s().iter().sum::<f64>(), sum_squares(wide.view()).unwrap());
        assert!((found / wanted - 1.0).abs() < 1e-13, "{found} {wanted}");
    }
}

#[test]
fn updates_to_the_bit() {
    for (n, t) in [1, 255, 1000].iter().flat_map(|n| STORAGE.map(|t| (*n, t))) {
        let mut p = Memory::of(t, &noise(n, 1));
        let (mut m, mut v) = (Memory::f32(&vec![0.0; n]), Memory::f32(&vec![0.0; n]));
        let (mut cpu_m, mut cpu_v) = (zeros(n), zeros(n));
        for updates in 0..3 {
            let g = noise(n, 10 + updates);
            let Some((step, _)) = begin(&Memory::f32(&g), updates, 3e-3, 1.0, None) else { return };
            let mut wanted = buf(&p.values());
            let moments = (cpu_m.view_mut(), cpu_v.view_mut());
            let (g_buf, count) = (buf(&g), updates + 1);
            adamw(wanted.view_mut(), moments.0, moments.1, g_buf.view(), 3e-3, count, step[FACTOR], &RULE).unwrap();
            launch!(t, "adamw", [n], &mut p, &mut m, &mut v, &Memory::f32(&g), &Memory::f32(&step), n);
            p.assert_same(&values(&wanted));
            m.assert_same(&values(&cpu_m));
            v.assert_same(&values(&cpu_v));
        }
    }
}

#[test]
fn updates_in_8_bits_to_the_bit() {
    let maps = [dynamic::signed(), dynamic::unsigned()].map(|map| Memory::f32(map));
    for (n, t) in [1usize, 256, 700].iter().flat_map(|n| STORAGE.map(|t| (*n, t))) {
        let blocks = n.div_ceil(MOMENT_BLOCK);
        let mut p = Memory::of(t, &noise(n, 1));
        let new = || (Memory::u8(&vec![0; n]), Memory::f32(&vec![0.0; blocks]));
        let ((mut mc, mut ms), (mut vc, mut vs)) = (new(), new());
        let on_cpu = || (Heap.take("test", Spec::new(&[n], DType::U8)).unwrap(), zeros(blocks));
        let (mut m, mut v) = (on_cpu(), on_cpu());
        for updates in 0..4 {
            // One block without any gradient at first.
            let quiet = |i: usize| if updates == 0 && i / 256 == 1 { 0.0 } else { 1.0 };
            let g: Vec<f32> = noise(n, 10 + updates).iter().enumerate().map(|(i, v)| v * quiet(i)).collect();
            let Some((step, _)) = begin(&Memory::f32(&g), updates, 3e-3, 1.0, None) else { return };
            let mut wanted = buf(&p.values());
            let first = Moment8 { codes: m.0.view_mut(), absmax: m.1.view_mut() };
            let second = Moment8 { codes: v.0.view_mut(), absmax: v.1.view_mut() };
            let g_buf = buf(&g);
            adamw8(wanted.view_mut(), first, second, g_buf.view(), 3e-3, updates + 1, step[FACTOR], &RULE).unwrap();
            launch!(
                t,
                "adamw8",
                [n],
                &mut p,
                &mut mc,
                &mut ms,
                &mut vc,
                &mut vs,
                &Memory::f32(&g),
                &Memory::f32(&step),
                &maps[0],
                &maps[1],
                n,
            );
            p.assert_same(&values(&wanted));
            assert_eq!(mc.u8s(), m.0.view().cpu::<u8>().unwrap());
            assert_eq!(vc.u8s(), v.0.view().cpu::<u8>().unwrap());
            ms.assert_same(&values(&m.1));
            vs.assert_same(&values(&v.1));
        }
    }
}

#[test]
fn a_step_that_is_not_finite_changes_nothing() {
    for bad in [f32::NAN, f32::INFINITY] {
        let n = 300;
        let mut g = noise(n, 1);
        g[299] = bad;
        let g = Memory::f32(&g);
        let Some((step, updates)) = begin(&g, 4, 1e-3, 1.0, None) else { return };
        assert_eq!((step[FINITE], updates), (0.0, 4));
        let step = Memory::f32(&step);
        for t in STORAGE {
            let before = [Memory::of(t, &noise(n, 2)), Memory::f32(&noise(n, 3)), Memory::f32(&noise(n, 4))];
            let [mut p, mut m, mut v] = before.clone();
            launch!(t, "adamw", [n], &mut p, &mut m, &mut v, &g, &step, n);
            assert_eq!([p, m, v], before);
            let moment = || (Memory::u8(&vec![9; n]), Memory::f32(&[1.0, 2.0]));
            let (mut p, (mut mc, mut ms), (mut vc, mut vs)) = (before[0].clone(), moment(), moment());
            let map = Memory::f32(dynamic::signed());
            launch!(t, "adamw8", [n], &mut p, &mut mc, &mut ms, &mut vc, &mut vs, &g, &step, &map, &map, n);
            assert_eq!((p, (mc, ms), (vc, vs)), (before[0].clone(), moment(), moment()));
        }
    }
}

#[test]
fn loss_scales_fall_at_once_and_rise_slowly() {
    let (mut scale, mut good) = (Memory::f32(&[1024.0]), Memory::u32(&[0]));
    let mut step = vec![0.0; WORDS];
    let mut seen = Vec::new();
    for finite in [1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0] {
        step[FINITE] = finite;
        let words = Memory::f32(&step);
        launch!(DType::F32, "loss_scale", [1], &mut scale, &mut good, &words, 2.0f32, 0.5f32, 3u32);
        seen.push(scale.values()[0]);
    }
    assert_eq!(seen, [1024.0, 1024.0, 2048.0, 1024.0, 1024.0, 1024.0, 2048.0]);
}

#[test]
fn gradients_come_back_from_the_loss_scale() {
    for (n, t) in [1, 300].iter().flat_map(|n| STORAGE.map(|t| (*n, t))) {
        let (x, wide) = noise_in(t, n, 1);
        let (mut g, mut bad) = (x.clone(), Memory::u32(&[0]));
        launch!(t, "unscale", [n], &mut g, &mut bad, &Memory::f32(&[8.0]), n);
        g.assert_same(&values(&wide).iter().map(|v| v / 8.0).collect::<Vec<_>>());
        assert_eq!(bad.u32s(), [0]);
        let mut g = x.values();
        g[n - 1] = f32::INFINITY;
        let mut g = Memory::of(t, &g);
        launch!(t, "unscale", [n], &mut g, &mut bad, &Memory::f32(&[8.0]), n);
        assert_eq!(bad.u32s(), [1]);
    }
}
