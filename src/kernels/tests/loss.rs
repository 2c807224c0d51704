use super::*;

fn reference(logits: &[f64], labels: &[u32], vocab: usize) -> (Vec<f64>, Vec<f64>) {
    logits
        .chunks(vocab)
        .zip(labels)
        .map(|(row, label)| {
            let lse = row.iter().map(|x| x.exp()).sum::<f64>().ln();
            (row.get(*label as usize).map_or(0.0, |x| lse - x), lse)
        })
        .unzip()
}

fn cross(logits: &[f32], labels: &[u32], vocab: usize) -> (Vec<f32>, Vec<f32>) {
    let (mut loss, mut lse) = (junk(labels.len()), junk(labels.len()));
    cross_entropy(loss.view_mut(), lse.view_mut(), buf(logits).view(), labels, vocab).unwrap();
    (values(&loss), values(&lse))
}

fn gradient(logits: &[f32], labels: &[u32], scale: f32, vocab: usize) -> Vec<f32> {
    let (_, lse) = cross(logits, labels, vocab);
    let mut d = buf(logits);
    cross_entropy_gradient(d.view_mut(), buf(&lse).view(), labels, scale, vocab).unwrap();
    values(&d)
}

#[test]
fn losses_to_rounding_even_of_a_large_vocabulary() {
    for (n, vocab) in [(3, 2), (7, 10), (5, 49_152)] {
        let logits: Vec<f32> = noise(n * vocab, 1).iter().map(|x| x * 4.0).collect();
        let labels: Vec<u32> = (0..n).map(|i| (i * 31 % vocab) as u32).collect();
        let (loss, lse) = reference(&wide64(&logits), &labels, vocab);
        let found = same_on_threads(|| {
            let (loss, lse) = cross(&logits, &labels, vocab);
            [loss, lse].concat()
        });
        assert_close(&found[..n], &loss, 2e-7);
        assert_close(&found[n..], &lse, 2e-7);
    }
}

#[test]
fn the_only_token_costs_nothing() {
    assert_eq!(cross(&[3.0, -1e6], &[0, 0], 1), (vec![0.0, 0.0], vec![3.0, -1e6]));
    assert_eq!(gradient(&[3.0], &[0], 1.0, 1), [0.0]);
}

#[test]
fn large_logits_do_not_overflow() {
    let (loss, _) = cross(&[1e4, 1e4 - 1.0, -1e4], &[1], 3);
    assert!((f64::from(loss[0]) - (1.0 + 1.0f64.exp()).ln()).abs() < 1e-5, "{loss:?}");
}

#[test]
fn gradient_is_the_gradient() {
    let (n, vocab) = (4, 11);
    let logits = noise(n * vocab, 1);
    let labels = [0, 10, UNCOUNTED, 5];
    let weight = vec![0.25; n];
    let wanted = differences(&wide64(&logits), &weight, |x| reference(x, &labels, vocab).0);
    let found = gradient(&logits, &labels, 0.25, vocab);
    assert_close(&found, &wanted, 1e-6);
    assert!(found[2 * vocab..3 * vocab].iter().all(|d| *d == 0.0));
}

#[test]
fn gradient_agrees_with_candle_on_any_threads() {
    let (n, vocab) = (60, 1000);
    let logits = noise(n * vocab, 1);
    let labels: Vec<u32> = (0..n as u32).map(|i| i * 16).collect();
    let v = var(&logits, &[n, vocab]);
    let targets = Tensor::from_slice(&labels, n, &Device::Cpu).unwrap();
    let grads = candle_nn::loss::cross_entropy(&v, &targets).unwrap().backward().unwrap();
    let found = same_on_threads(|| gradient(&logits, &labels, 1.0 / n as f32, vocab));
    assert_close(&found, &flat64(grads.get(&v).unwrap()).unwrap(), 1e-6);
}

#[test]
fn a_sure_prediction_keeps_its_small_gradient() {
    // 1 − p is 4.5e-5 here, of which a subtraction in f32 would leave three digits.
    let logits = [10.0, 0.0];
    let found = gradient(&logits, &[0], 1.0 / 3.0, 2);
    let rest = 1.0 / (1.0 + 10f64.exp());
    assert!((f64::from(found[0]) / (-rest / 3.0) - 1.0).abs() < 2e-6);
    assert!((f64::from(found[1]) / (rest / 3.0) - 1.0).abs() < 2e-6);
}

#[test]
fn a_nan_shows() {
    let mut logits = vec![0.0; 70];
    logits[40] = f32::NAN;
    let (loss, lse) = cross(&logits, &[1], 70);
    assert!(loss[0].is_nan() && lse[0].is_nan());
}

#[test]
fn misfits_are_faults() {
    let (mut loss, mut lse, logits) = (zeros(2), zeros(2), zeros(6));
    let mut go = |labels: &[u32], vocab| cross_entropy(loss.view_mut(), lse.view_mut(), logits.view(), labels, vocab);
    assert_wrong_shape(go(&[0, 3], 3));
    assert_wrong_shape(go(&[0, 1], 4));
    assert_wrong_shape(go(&[0, 1, 2], 2));
    assert_wrong_shape(go(&[], 0));
    let mut d = zeros(6);
    assert_wrong_shape(cross_entropy_gradient(d.view_mut(), zeros(2).view(), &[0, 3], 1.0, 3));
    assert_wrong_shape(cross_entropy_gradient(d.view_mut(), zeros(1).view(), &[0, 1], 1.0, 3));
}
