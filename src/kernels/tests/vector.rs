use std::hint::black_box;

use crate::kernels::vector::{dot, dot3, exp, exp_in_place, exp_sum, max, sum_squares, wide};

#[test]
fn exp_is_within_two_ulp_everywhere() {
    let mut worst = 0.0f64;
    for bits in (0..=u32::MAX).step_by(2053) {
        let x = f32::from_bits(bits);
        let (found, exact) = (exp(x), f64::from(x).exp());
        if x.is_nan() {
            assert!(found.is_nan());
        } else if exact > f64::from(f32::MAX) {
            // Values that round to f32::MAX lie this side of infinity.
            assert!(found == f32::INFINITY || exact < 3.402_823_6e38, "exp({x}) = {found}");
        } else {
            let nearest = exact as f32;
            let ulp = f64::from(f32::from_bits(nearest.to_bits() + 1)) - f64::from(nearest);
            worst = worst.max((f64::from(found) - exact).abs() / ulp);
            if nearest.is_normal() {
                assert!((f64::from(found) / exact - 1.0).abs() < 2.5e-7, "exp({x}) = {found}");
            }
        }
    }
    assert!(worst <= 2.0, "{worst} ulp");
    assert_eq!(exp(0.0), 1.0);
    assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    assert_eq!(exp(f32::INFINITY), f32::INFINITY);
}

#[test]
fn vector_width_does_not_show() {
    let x: Vec<f32> = (0..1003).map(|i| (i as f32 * 0.37).sin() * 20.0).collect();
    let y: Vec<f32> = (0..1003).map(|i| (i as f32 * 0.11).cos()).collect();
    let one_by_one: Vec<u32> = x.iter().map(|x| exp(black_box(*x)).to_bits()).collect();
    let together: Vec<u32> = wide!(x.iter().map(|x| exp(*x).to_bits()).collect());
    assert_eq!(one_by_one, together);
    assert_eq!(wide!(dot(&x, &y)).to_bits(), dot(&x, &y).to_bits());
    assert_eq!(wide!(dot3(&x, &y, &x)).to_bits(), dot3(&x, &y, &x).to_bits());
    assert_eq!(wide!(exp_sum(&x, 3.0)).to_bits(), exp_sum(&x, 3.0).to_bits());
    assert_eq!(wide!(sum_squares(&x)).to_bits(), sum_squares(&x).to_bits());
    let (mut a, mut b) = (x.clone(), x.clone());
    assert_eq!(wide!(exp_in_place(&mut a, 20.0)).to_bits(), exp_in_place(&mut b, 20.0).to_bits());
    assert_eq!(a, b);
}

#[test]
fn reductions_take_every_element() {
    for len in [0, 1, 31, 32, 33, 64, 100, 2048, 2100] {
        let x: Vec<f32> = (0..len).map(|i| (i % 7) as f32 - 3.0).collect();
        let sum: f64 = x.iter().map(|x| f64::from(x * x)).sum();
        assert_eq!(f64::from(dot(&x, &x)), sum);
        assert_eq!(f64::from(dot3(&x, &x, &vec![1.0; len])), sum);
        assert_eq!(sum_squares(&x), sum);
        assert_eq!(max(&x), x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        assert_eq!(exp_sum(&vec![1.0; len], 1.0), len as f64);
        assert_eq!(exp_in_place(&mut vec![2.0; len], 2.0), len as f32);
    }
}
