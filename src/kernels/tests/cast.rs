use half::{bf16, f16};

use super::*;

/// Every class of number, and as many patterns of bits as make sure that ties and carries are among them.
fn samples() -> Vec<f32> {
    let mut x: Vec<f32> = (0..=u32::MAX).step_by(65_521).map(f32::from_bits).collect();
    x.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE, 1e-40, 65_504.0, 65_520.0]);
    x.extend([f32::NAN, f32::from_bits(0x7F80_0001), f32::from_bits(0xFFFF_FFFF), 1.003_906_2, 1.011_718_8]);
    x
}

#[test]
fn narrow_rounds_like_half_and_widen_is_exact() {
    let x = samples();
    let source = buf(&x);
    let n = x.len();
    let mut b = typed(&vec![bf16::ZERO; n]);
    let mut h = typed(&vec![f16::ZERO; n]);
    narrow(b.view_mut(), source.view()).unwrap();
    narrow(h.view_mut(), source.view()).unwrap();
    for (i, x) in x.iter().enumerate() {
        let (b, h) = (b.view().cpu::<bf16>().unwrap()[i], h.view().cpu::<f16>().unwrap()[i]);
        if x.is_nan() {
            assert!(b.is_nan() && h.is_nan());
        } else {
            assert_eq!((b, h), (bf16::from_f32(*x), f16::from_f32(*x)), "{x}");
        }
    }
    let mut wide = junk(n);
    widen(wide.view_mut(), b.view()).unwrap();
    let exact: Vec<u32> = b.view().cpu::<bf16>().unwrap().iter().map(|b| b.to_f32().to_bits()).collect();
    let same = |(w, e): (&f32, &u32)| w.to_bits() == *e || w.is_nan() && f32::from_bits(*e).is_nan();
    assert!(values(&wide).iter().zip(&exact).all(same));
    widen(wide.view_mut(), h.view()).unwrap();
    let exact: Vec<u32> = h.view().cpu::<f16>().unwrap().iter().map(|h| h.to_f32().to_bits()).collect();
    assert!(values(&wide).iter().zip(&exact).all(same));
    widen(wide.view_mut(), source.view()).unwrap();
    assert!(values(&wide).iter().zip(&x).all(|(a, b)| a.to_bits() == b.to_bits()));
}

#[test]
fn misfits_are_faults() {
    let mut b = typed(&[bf16::ZERO; 3]);
    assert_wrong_shape(narrow(b.view_mut(), zeros(2).view()));
    assert_wrong_shape(widen(zeros(2).view_mut(), b.view()));
    assert_code(widen(zeros(2).view_mut(), typed(&[0u8; 2]).view()), "kernel.dtype");
    assert_code(narrow(typed(&[0u8; 2]).view_mut(), zeros(2).view()), "kernel.dtype");
}
