use super::*;

/// Lengths and blocks: shorter than a block, whole blocks, odd ends.
const CASES: &[(usize, usize)] = &[(1, 64), (63, 64), (64, 64), (401, 64), (1000, 128), (9001, 4096)];

/// Magnitudes that differ from block to block, a block of zeros, and one too small to divide by.
fn weights(n: usize) -> Vec<f32> {
    let size = |i: usize| match i / 64 {
        1 => 0.0,
        2 => 1e-39,
        block => (1 + block % 7) as f32,
    };
    noise(n, 1).iter().enumerate().map(|(i, v)| v * size(i)).collect()
}

fn bytes(buf: &Buf) -> Vec<u8> {
    buf.view().cpu::<u8>().unwrap().to_vec()
}

#[test]
fn codes_and_scales_to_the_bit() {
    for (&(n, block), t) in CASES.iter().flat_map(|s| STORAGE.map(|t| (s, t))) {
        let x = Memory::of(t, &weights(n));
        let layout = Nf4Layout::new(n, block, false).unwrap();
        let tensor = Nf4::quantise(&x.values(), layout, &Heap, "test", "test").unwrap();
        let Scales::Plain(scales) = &tensor.absmax else { panic!("plain scales were asked for") };
        let (mut codes, mut absmax) =
            (Memory::junk(DType::U8, n.div_ceil(2)), Memory::junk(DType::F32, layout.blocks()));
        let mut bad = Memory::u32(&[0]);
        launch!(t, "nf4_quantise", [layout.blocks()], &mut codes, &mut absmax, &mut bad, &x, n, block);
        assert_eq!(codes.u8s(), bytes(&tensor.codes));
        absmax.assert_same(&values(scales));
        assert_eq!(bad.u32s(), [0]);

        for (start, end) in [(0, n), (n / 16 * 8, n), (n / 3, n - n / 5), (n - 1, n)] {
            let (mut found, mut wanted) = (Memory::junk(t, end - start), junk(end - start));
            tensor.dequantise(wanted.view_mut(), start..end).unwrap();
            let (eights, shift) = ((end - start).div_ceil(8) + 1, block.trailing_zeros());
            launch!(t, "nf4_dequantise", [eights], &mut found, &codes, &absmax, start, end - start, shift);
            found.assert_same(&values(&wanted));
        }
    }
}

#[test]
fn doubled_scales_to_the_bit() {
    let map = Memory::f32(&dynamic_map());
    for n in [1, 64 * 3, 64 * 300 + 37, 64 * 512] {
        let x = weights(n);
        let layout = Nf4Layout::new(n, 64, true).unwrap();
        let tensor = Nf4::quantise(&x, layout, &Heap, "test", "test").unwrap();
        let Scales::Double { codes, absmax, offset } = &tensor.absmax else { panic!("doubled scales were asked for") };
        let plain: Vec<f32> = x.chunks(64).map(|block| block.iter().fold(0.0, |top, v| v.abs().max(top))).collect();
        let (plain, blocks) = (Memory::f32(&plain), layout.blocks());

        let mut mean = Memory::junk(DType::F32, 1);
        launch!(DType::F32, "nf4_offset", [blocks], &mut mean, &plain, blocks);
        mean.assert_same(&[*offset]);
        let mut found = Memory::junk(DType::U8, blocks);
        let mut scales = Memory::junk(DType::F32, blocks.div_ceil(256));
        launch!(DType::F32, "nf4_double", [blocks], &mut found, &mut scales, &plain, &map, &mean, blocks);
        assert_eq!(found.u8s(), bytes(codes));
        scales.assert_same(&values(absmax));

        let weights = Memory::u8(&bytes(&tensor.codes));
        for (t, (start, end)) in STORAGE.iter().flat_map(|t| [(0, n), (n / 3, n - n / 5)].map(|r| (*t, r))) {
            let (mut y, mut wanted) = (Memory::junk(t, end - start), junk(end - start));
            tensor.dequantise(wanted.view_mut(), start..end).unwrap();
            launch!(
                t,
                "nf4_dequantise_double",
                [(end - start).div_ceil(8) + 1],
                &mut y,
                &weights,
                &found,
                &scales,
                &map,
                *offset,
                start,
                end - start,
                6u32,
            );
            y.assert_same(&values(&wanted));
        }
    }
}

/// Every threshold, and its neighbours on both sides.
#[test]
fn codes_at_the_thresholds() {
    let layout = |n| Nf4Layout::new(n, 64, false).unwrap();
    let mut near = Vec::new();
    let halfway: Vec<f32> = (0..600).map(|i| -1.0 + i as f32 / 300.0).collect();
    let restored = Nf4::quantise(&halfway, layout(600), &Heap, "test", "test").unwrap();
    let mut y = junk(600);
    restored.dequantise(y.view_mut(), 0..600).unwrap();
    let mut levels = values(&y);
    levels.sort_by(f32::total_cmp);
    levels.dedup();
    for pair in levels.windows(2) {
        let middle = (pair[0] + pair[1]) / 2.0;
        near.extend((-2..=2).map(|step| f32::from_bits(middle.to_bits().wrapping_add_signed(step))));
    }
    // Each block needs its own 1 to be divided by.
    let x: Vec<f32> = near.chunks(63).flat_map(|part| [&[1.0], part].concat()).collect();
    let tensor = Nf4::quantise(&x, layout(x.len()), &Heap, "test", "test").unwrap();
    let (mut codes, mut absmax) =
        (Memory::junk(DType::U8, x.len().div_ceil(2)), Memory::junk(DType::F32, x.len().div_ceil(64)));
    let (mut bad, memory, blocks) = (Memory::u32(&[0]), Memory::f32(&x), x.len().div_ceil(64));
    launch!(DType::F32, "nf4_quantise", [blocks], &mut codes, &mut absmax, &mut bad, &memory, x.len(), 64usize);
    assert_eq!(codes.u8s(), bytes(&tensor.codes));
}

#[test]
fn what_is_not_finite_shows() {
    for (t, v) in STORAGE.iter().flat_map(|t| [(*t, f32::NAN), (*t, f32::INFINITY)]) {
        let mut x = noise(130, 1);
        x[129] = v;
        let (mut codes, mut absmax) = (Memory::junk(DType::U8, 65), Memory::junk(DType::F32, 3));
        let mut bad = Memory::u32(&[0]);
        launch!(t, "nf4_quantise", [3], &mut codes, &mut absmax, &mut bad, &Memory::of(t, &x), 130usize, 64usize);
        assert_eq!(bad.u32s(), [1]);
    }
}
