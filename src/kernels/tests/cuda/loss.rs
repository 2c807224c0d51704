use super::*;

/// Rows, some uncounted, of vocabularies within a piece and over several.
const CASES: &[(usize, usize)] = &[(1, 1), (3, 2), (5, 33), (4, 2048), (3, 2049), (2, 9001)];

fn labels(n: usize, vocab: usize) -> Vec<u32> {
    (0..n).map(|i| if i % 3 == 1 { UNCOUNTED } else { (i * 31 % vocab) as u32 }).collect()
}

fn logits(t: DType, n: usize, vocab: usize) -> (Memory, Buf) {
    let large: Vec<f32> = noise(n * vocab, 1).iter().map(|v| v * 4.0).collect();
    let memory = Memory::of(t, &large);
    let wide = buf(&memory.values());
    (memory, wide)
}

#[test]
fn losses_as_on_the_processor() {
    for (&(n, vocab), t) in CASES.iter().flat_map(|s| STORAGE.map(|t| (s, t))) {
        let (x, wide) = logits(t, n, vocab);
        let labels = labels(n, vocab);
        let (mut loss, mut lse) = (junk(n), junk(n));
        cross_entropy(loss.view_mut(), lse.view_mut(), wide.view(), &labels, vocab).unwrap();
        let (mut found, mut found_lse) = (Memory::junk(DType::F32, n), Memory::junk(DType::F32, n));
        let labels = Memory::u32(&labels);
        launch!(t, "cross_entropy", [n, vocab], &mut found, &mut found_lse, &x, &labels, vocab);
        found.assert_same(&values(&loss));
        found_lse.assert_same(&values(&lse));
    }
}

#[test]
fn gradients_as_on_the_processor() {
    for (&(n, vocab), t) in CASES.iter().flat_map(|s| STORAGE.map(|t| (s, t))) {
        let (x, wide) = logits(t, n, vocab);
        let labels = labels(n, vocab);
        let (mut loss, mut lse) = (junk(n), junk(n));
        cross_entropy(loss.view_mut(), lse.view_mut(), wide.view(), &labels, vocab).unwrap();
        let lse = values(&lse);
        for loss_scale in [None, Some(1024.0f32)] {
            let mut wanted = buf(&values(&wide));
            let scale = 0.125f32;
            let whole = scale * loss_scale.unwrap_or(1.0);
            cross_entropy_gradient(wanted.view_mut(), buf(&lse).view(), &labels, whole, vocab).unwrap();
            let (mut found, device) = (x.clone(), loss_scale.map(|scale| Memory::f32(&[scale])));
            let pointer = device.as_ref().map_or(host::Arg::Null, host::Arg::Read);
            let (lse, labels) = (Memory::f32(&lse), Memory::u32(&labels));
            launch!(t, "cross_entropy_gradient", [n, vocab], &mut found, &lse, &labels, scale, pointer, vocab);
            found.assert_same(&values(&wanted));
        }
    }
}

#[test]
fn a_nan_shows() {
    for t in STORAGE {
        let mut row = vec![0.0; 70];
        row[40] = f32::NAN;
        let (mut loss, mut lse) = (Memory::junk(DType::F32, 1), Memory::f32(&[0.0]));
        launch!(t, "cross_entropy", [1, 70], &mut loss, &mut lse, &Memory::of(t, &row), &Memory::u32(&[1]), 70usize);
        assert!(lse.values()[0].is_nan());
    }
}

#[test]
fn sums_of_losses() {
    for n in [0, 1, 513, 3000] {
        let x = noise(n, 1);
        let mut sum = Memory::f64(&[2.0]);
        launch!(DType::F32, "add_losses", [n], &mut sum, &Memory::f32(&x), n);
        let wanted = x.iter().fold(2.0, |sum, v| sum + f64::from(*v));
        assert!((sum.f64s()[0] - wanted).abs() < 1e-9, "{:?}, not {wanted}", sum.f64s());
    }
}
