use super::*;

/// The values that were also given to bitsandbytes: even steps of [−½, ½), in blocks of 64 of seven magnitudes.
fn sample(len: usize) -> Vec<f32> {
    let value = |i: u64| {
        let step = (i.wrapping_mul(2_654_435_761) as u32) >> 8;
        (step as f32 / 16_777_216.0 - 0.5) * (1 + i / 64 % 7) as f32
    };
    (0..len as u64).map(value).collect()
}

/// FNV-1a, by which 10,000 bytes of another program are told to be the same.
fn digest(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xCBF2_9CE4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3))
}

fn digest_u8(buf: &Buf) -> u64 {
    digest(buf.view().cpu::<u8>().unwrap().iter().copied())
}

fn digest_f32(values: &[f32]) -> u64 {
    digest(values.iter().flat_map(|v| v.to_le_bytes()))
}

fn quantise(values: &[f32], block: usize, double: bool) -> Nf4 {
    let layout = Nf4Layout::new(values.len(), block, double).unwrap();
    Nf4::quantise(values, layout, &Heap, "weights", "scales").unwrap()
}

fn restore(tensor: &Nf4) -> Vec<f32> {
    let n = tensor.layout.values;
    let mut y = junk(n);
    tensor.dequantise(y.view_mut(), 0..n).unwrap();
    values(&y)
}

fn plain(tensor: &Nf4) -> Vec<f32> {
    match &tensor.absmax {
        Scales::Plain(absmax) => values(absmax),
        Scales::Double { .. } => panic!("doubled"),
    }
}

/// 300 blocks, the second all zero, and a short one of odd length: digests of what bitsandbytes 0.50 makes of it. (Other
/// cases are held to files of bitsandbytes' in `golden`.)
#[test]
fn codes_and_scales_equal_bitsandbytes() {
    let mut x = sample(64 * 300 + 37);
    x[64..128].fill(0.0);
    let tensor = quantise(&x, 64, false);
    assert_eq!(digest_u8(&tensor.codes), 0x309C_3F87_F021_30FB);
    assert_eq!(digest_f32(&plain(&tensor)), 0xF904_1F2D_8795_96A9);

    let tensor = quantise(&x, 64, true);
    assert_eq!(digest_u8(&tensor.codes), 0x309C_3F87_F021_30FB);
    let Scales::Double { codes, absmax, offset } = &tensor.absmax else { panic!("plain") };
    assert_eq!(offset.to_bits(), 0x3FFD_619C);
    assert_eq!(codes.view().cpu::<u8>().unwrap()[..8], [17, 0, 53, 152, 201, 220, 236, 17]);
    assert_eq!(digest_u8(codes), 0xDE94_BFD7_0333_3680);
    assert_eq!(digest_f32(&values(absmax)), 0x0668_ECBD_102F_84F3);
    assert_eq!(digest_f32(&restore(&tensor)), 0xE3A0_B0EC_BE6E_6BE0);
}

#[test]
fn other_blocks_equal_bitsandbytes() {
    for (block, codes, scales) in
        [(128, 0x9D4B_0F01_D2ED_9471, 0x85C7_C86E_D5F4_5720), (4096, 0xB4E6_39DA_B82B_3B5D, 0xEAE3_955A_20D0_D553)]
    {
        let tensor = quantise(&sample(10_000), block, false);
        assert_eq!(digest_u8(&tensor.codes), codes);
        assert_eq!(digest_f32(&plain(&tensor)), scales);
    }
}

#[test]
fn zero_blocks_stay_zero() {
    let tensor = quantise(&[0.0; 65], 64, false);
    assert_eq!(tensor.codes.view().cpu::<u8>().unwrap(), [0x77; 33]);
    assert_eq!(plain(&tensor), [0.0, 0.0]);
    assert_eq!(restore(&tensor), [0.0; 65]);
    // Scales that are all the same leave nothing to double.
    let tensor = quantise(&sample(64).repeat(3), 64, true);
    assert_eq!(restore(&tensor), restore(&quantise(&sample(64).repeat(3), 64, false)));
}

#[test]
fn scales_without_a_reciprocal_do_no_harm() {
    let tensor = quantise(&[1e-45, -1e-45, 0.0, 2e-39], 64, false);
    assert!(restore(&tensor).iter().all(|v| v.abs() <= 2e-39));
}

#[test]
fn dynamic_map_equals_bitsandbytes() {
    let map = dynamic_map();
    assert_eq!(digest_f32(&map), 0xD677_F22A_9666_5BC4);
    assert!(map.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn values_on_a_threshold_take_the_lower_code() {
    // Behind a 1 that makes the scale 1; −0.0455250181 is the threshold between −0.091 and 0.
    let threshold = -0.045_525_018_f32;
    let above = f32::from_bits(threshold.to_bits() - 1);
    let mut x = [0.0f32; 64];
    x[..4].copy_from_slice(&[1.0, threshold, above, -1.0]);
    let tensor = quantise(&x, 64, false);
    assert_eq!(tensor.codes.view().cpu::<u8>().unwrap()[..2], [0xF6, 0x70]);
}

#[test]
fn restored_values_are_as_near_as_four_bits_allow() {
    let x = noise(64 * 40 + 7, 1);
    for double in [false, true] {
        let tensor = quantise(&x, 64, double);
        let y = restore(&tensor);
        for (x, y) in x.chunks(64).zip(y.chunks(64)) {
            let top = x.iter().fold(0.0f32, |top, x| top.max(x.abs()));
            assert!(x.iter().zip(y).all(|(x, y)| (x - y).abs() <= 0.17 * top));
        }
    }
}

#[test]
fn windows_make_the_same_tensor() {
    let x = sample(64 * 50 + 3);
    for double in [false, true] {
        let whole = quantise(&x, 64, double);
        let mut writer = Nf4::writer(whole.layout, &Heap, "weights", "scales").unwrap();
        for window in x.chunks(64 * 7) {
            writer.push(window).unwrap();
        }
        let parts = writer.finish(&Heap, "weights").unwrap();
        assert_eq!(digest_u8(&parts.codes), digest_u8(&whole.codes));
        assert_eq!(restore(&parts), restore(&whole));
    }
}

#[test]
fn any_range_restores_the_same_values() {
    let x = sample(64 * 900 + 3);
    for double in [false, true] {
        let tensor = quantise(&x, 64, double);
        let whole = same_on_threads(|| restore(&tensor));
        let end = x.len();
        for range in [0..0, 0..1, 1..2, 1..64, 63..66, 64..128, 5..end, end - 1..end, end - 4..end, 7..40_000] {
            let mut y = junk(range.len());
            tensor.dequantise(y.view_mut(), range.clone()).unwrap();
            assert_eq!(values(&y), whole[range.clone()], "{range:?}");
        }
    }
}

#[test]
fn quantising_does_not_depend_on_threads() {
    let x = noise(64 * 2000, 1);
    same_on_threads(|| restore(&quantise(&x, 64, true)));
}

#[test]
fn the_plan_knows_what_is_held() {
    let layout = Nf4Layout::new(64 * 300 + 37, 64, true).unwrap();
    let specs = layout.specs();
    let tensor = quantise(&sample(layout.values), 64, true);
    let Scales::Double { codes, absmax, .. } = &tensor.absmax else { panic!("plain") };
    assert_eq!(specs, [tensor.codes.spec().clone(), codes.spec().clone(), absmax.spec().clone()]);
    assert_eq!(layout.scratch(), Some(Spec::f32(&[301])));
    let plain = Nf4Layout { double: false, ..layout };
    assert_eq!(plain.specs(), [specs[0].clone(), Spec::f32(&[301])]);
    assert_eq!(plain.scratch(), None);
}

#[test]
fn parts_of_another_tensor_are_refused() {
    let tensor = quantise(&sample(1000), 64, false);
    let Nf4 { layout, codes, absmax } = tensor;
    let tensor = Nf4::from_parts(layout, codes, absmax).unwrap();
    let other = Nf4Layout::new(1100, 64, false).unwrap();
    let (codes, absmax) = (tensor.codes, tensor.absmax);
    assert_wrong_shape(Nf4::from_parts(other, codes, absmax).map(|_| ()));
}

/// Every tensor of `tests/golden/nf4`, made by bitsandbytes.
#[test]
fn golden() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/nf4/");
    let bytes = std::fs::read(format!("{folder}expected.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let cases = std::fs::read_to_string(format!("{folder}expected.json")).unwrap();
    let cases: serde_json::Value = serde_json::from_str(&cases).unwrap();
    let f32s = |name: &str| -> Vec<f32> {
        let data = file.tensor(name).unwrap().data().to_vec();
        data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    let u8s = |name: &str| file.tensor(name).unwrap().data().to_vec();
    assert_eq!(dynamic_map(), f32s("map8")[..]);
    let mut doubled = 0;
    for (name, case) in cases.as_object().unwrap() {
        let x = f32s(&format!("{}.values", name.rsplit_once('.').unwrap().0));
        let block = case["block"].as_u64().unwrap() as usize;
        let tensor = quantise(&x, block, false);
        assert_eq!(tensor.codes.view().cpu::<u8>().unwrap(), u8s(&format!("{name}.codes")), "{name}");
        assert_eq!(plain(&tensor), f32s(&format!("{name}.absmax")), "{name}");
        assert_eq!(restore(&tensor), f32s(&format!("{name}.dequantised")), "{name}");
        if file.tensor(&format!("{name}.double.offset")).is_err() {
            continue;
        }
        doubled += 1;
        let mut tensor = quantise(&x, block, true);
        let Scales::Double { codes, absmax, offset } = &mut tensor.absmax else { panic!("plain") };
        let theirs = f32s(&format!("{name}.double.offset"))[0];
        assert!(offset.to_bits().abs_diff(theirs.to_bits()) <= 1, "{name}: offset {offset} where {theirs} is theirs");
        *offset = theirs;
        if file.tensor(&format!("{name}.double.codes8")).is_ok() {
            assert_eq!(codes.view().cpu::<u8>().unwrap(), u8s(&format!("{name}.double.codes8")), "{name}");
        }
        let absmax2 = wide64(&f32s(&format!("{name}.double.absmax2")));
        assert_close(&values(absmax), &absmax2, 1e-5);
        // Only the offset's last bits may show in what comes back.
        assert_close(&restore(&tensor), &wide64(&f32s(&format!("{name}.double.dequantised"))), 1e-6);
    }
    assert!(doubled >= 6, "{doubled} doubled cases");
}

#[test]
fn misfits_are_faults() {
    assert_code(Nf4Layout::new(10, 63, false), "nf4.block");
    assert_code(Nf4Layout::new(10, 0, false), "nf4.block");
    let layout = Nf4Layout::new(200, 64, false).unwrap();
    let writer = || Nf4::writer(layout, &Heap, "weights", "scales").unwrap();
    assert_wrong_shape(writer().push(&[0.0; 65]));
    assert_wrong_shape(writer().push(&[0.0; 201]));
    assert_wrong_shape(writer().finish(&Heap, "weights").map(|_| ()));
    let tensor = quantise(&sample(200), 64, false);
    assert_wrong_shape(tensor.dequantise(zeros(2).view_mut(), 0..3));
    assert_wrong_shape(tensor.dequantise(zeros(2).view_mut(), 199..201));
    let mut bad = sample(200);
    bad[130] = f32::NAN;
    let fault = assert_code(writer().push(&bad), "nf4.not_finite");
    assert_eq!(fault.message, "element 130 is NaN");
    bad[130] = f32::NEG_INFINITY;
    assert_code(writer().push(&bad), "nf4.not_finite");
}
