use super::*;

const SMALL: Heads = Heads { heads: 4, kv_heads: 2, head_dim: 6 };

/// o and lse of one set of heads, as the definition says, in f64.
fn reference(q: &[f64], k: &[f64], v: &[f64], h: &Heads, segs: &[Segment]) -> (Vec<f64>, Vec<f64>) {
    let (d, width, kv_width) = (h.head_dim, h.heads * h.head_dim, h.kv_heads * h.head_dim);
    let (mut o, mut lse) = (vec![0.0; q.len()], vec![0.0; q.len() / d]);
    for seg in segs {
        for head in 0..h.heads {
            let kv = head / (h.heads / h.kv_heads);
            for (i, row) in seg.q.clone().enumerate() {
                let seen = seg.k.start..seg.k.end - seg.q.len() + i + 1;
                let q = &q[row * width + head * d..][..d];
                let score = |key: usize| {
                    let k = &k[key * kv_width + kv * d..][..d];
                    q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>() / (d as f64).sqrt()
                };
                let whole = seen.clone().map(|key| score(key).exp()).sum::<f64>().ln();
                lse[row * h.heads + head] = whole;
                for key in seen {
                    let p = (score(key) - whole).exp();
                    for j in 0..d {
                        o[row * width + head * d + j] += p * v[key * kv_width + kv * d + j];
                    }
                }
            }
        }
    }
    (o, lse)
}

/// Segments of these lengths, keys as long as queries.
fn packed(lengths: &[usize]) -> Vec<Segment> {
    let mut start = 0;
    lengths
        .iter()
        .map(|len| {
            let rows = start..start + len;
            start += len;
            Segment { q: rows.clone(), k: rows }
        })
        .collect()
}

struct Case {
    h: Heads,
    segs: Vec<Segment>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    d_o: Vec<f32>,
}

impl Case {
    fn new(h: Heads, segs: Vec<Segment>) -> Case {
        let n = segs.last().map_or(0, |s| s.q.end);
        let keys = segs.iter().map(|s| s.k.end).max().unwrap_or(0);
        let (width, kv_width) = (h.heads * h.head_dim, h.kv_heads * h.head_dim);
        let [q, d_o] = [1, 2].map(|seed| noise(n * width, seed));
        let [k, v] = [3, 4].map(|seed| noise(keys * kv_width, seed));
        Case { h, segs, q, k, v, d_o }
    }

    fn scratch(&self, threads: usize) -> Buf {
        let longest = self.segs.iter().map(|s| s.k.len()).max().unwrap_or(0);
        junk(attention_scratch(&self.h, longest, threads).unwrap())
    }

    fn forward(&self) -> (Vec<f32>, Vec<f32>) {
        let (mut o, mut lse) = (junk(self.q.len()), junk(self.q.len() / self.h.head_dim));
        let (q, k, v) = (buf(&self.q), buf(&self.k), buf(&self.v));
        let mut scratch = self.scratch(rayon::current_num_threads());
        let out = (o.view_mut(), lse.view_mut());
        attention(out.0, out.1, q.view(), k.view(), v.view(), &self.h, &self.segs, scratch.view_mut()).unwrap();
        (values(&o), values(&lse))
    }

    /// dq, dk and dv.
    fn backward(&self) -> [Vec<f32>; 3] {
        let (o, lse) = self.forward();
        let (o, lse, d_o) = (buf(&o), buf(&lse), buf(&self.d_o));
        let (q, k, v) = (buf(&self.q), buf(&self.k), buf(&self.v));
        let (mut dq, mut dk, mut dv) = (junk(self.q.len()), junk(self.k.len()), junk(self.k.len()));
        let mut scratch = self.scratch(rayon::current_num_threads());
        attention_backward(
            dq.view_mut(),
            dk.view_mut(),
            dv.view_mut(),
            d_o.view(),
            o.view(),
            lse.view(),
            q.view(),
            k.view(),
            v.view(),
            &self.h,
            &self.segs,
            scratch.view_mut(),
        )
        .unwrap();
        [values(&dq), values(&dk), values(&dv)]
    }

    fn check_forward(&self) {
        let found = same_on_threads(|| {
            let (o, lse) = self.forward();
            [o, lse].concat()
        });
        let (q, k, v) = (wide64(&self.q), wide64(&self.k), wide64(&self.v));
        let (o, lse) = reference(&q, &k, &v, &self.h, &self.segs);
        assert_close(&found[..o.len()], &o, 3e-6);
        assert_close(&found[o.len()..], &lse, 1e-6);
    }

    fn check_backward_by_differences(&self) {
        let [dq, dk, dv] = self.backward();
        let (q, k, v, d_o) = (wide64(&self.q), wide64(&self.k), wide64(&self.v), wide64(&self.d_o));
        let f = |q: &[f64], k: &[f64], v: &[f64]| reference(q, k, v, &self.h, &self.segs).0;
        assert_close(&dq, &differences(&q, &d_o, |q| f(q, &k, &v)), 1e-5);
        assert_close(&dk, &differences(&k, &d_o, |k| f(&q, k, &v)), 1e-5);
        assert_close(&dv, &differences(&v, &d_o, |v| f(&q, &k, v)), 1e-5);
    }
}

#[test]
fn ragged_segments() {
    Case::new(SMALL, packed(&[5, 1, 63, 64, 65, 2, 150])).check_forward();
    Case::new(Heads { heads: 9, kv_heads: 3, head_dim: 64 }, packed(&[1, 129, 70])).check_forward();
    Case::new(Heads { heads: 1, kv_heads: 1, head_dim: 1 }, packed(&[3])).check_forward();
    Case::new(SMALL, packed(&[1])).check_forward();
}

/// Several chunks of keys, the last one whole, short and with the remainder of a chunk; long queries and single ones.
#[test]
fn chunks_of_keys_join() {
    let h = Heads { heads: 2, kv_heads: 1, head_dim: 8 };
    Case::new(h, packed(&[1024, 575, 576, 577])).check_forward();
    Case::new(h, vec![Segment { q: 0..1, k: 0..1300 }, Segment { q: 1..91, k: 0..1290 }]).check_forward();
}

/// Gradients over chunks of keys, against the definition in f64.
#[test]
fn chunks_of_keys_join_on_the_way_back() {
    let h = Heads { heads: 2, kv_heads: 1, head_dim: 4 };
    let case = Case::new(h, packed(&[1100]));
    let found = same_on_threads(|| case.backward().concat());
    let (q, k, v, d_o) = (wide64(&case.q), wide64(&case.k), wide64(&case.v), wide64(&case.d_o));
    let (n, d, scale) = (1100, 4, 0.5);
    let mut wanted = vec![0.0; 2 * n * d + 2 * n * d];
    let (dq, rest) = wanted.split_at_mut(2 * n * d);
    let (dk, dv) = rest.split_at_mut(n * d);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for row in 0..2 * n {
        let (q, d_o) = (&q[row * d..][..d], &d_o[row * d..][..d]);
        let keys = row / 2 + 1;
        let scores: Vec<f64> = (0..keys).map(|key| (scale * dot(q, &k[key * d..][..d])).exp()).collect();
        let whole: f64 = scores.iter().sum();
        let dp: Vec<f64> = (0..keys).map(|key| dot(d_o, &v[key * d..][..d])).collect();
        let mean: f64 = scores.iter().zip(&dp).map(|(p, dp)| p / whole * dp).sum();
        for key in 0..keys {
            let (p, ds) = (scores[key] / whole, scores[key] / whole * (dp[key] - mean) * scale);
            for j in 0..d {
                dq[row * d + j] += ds * k[key * d + j];
                dk[key * d + j] += ds * q[j];
                dv[key * d + j] += p * d_o[j];
            }
        }
    }
    let (nq, nk) = (case.q.len(), case.k.len());
    for part in [0..nq, nq..nq + nk, nq + nk..nq + 2 * nk] {
        assert_close(&found[part.clone()], &wanted[part], 1e-5);
    }
}

#[test]
fn cached_keys_are_seen() {
    // One new token after 80; a block of new tokens after none; and keys of other rows than the queries'.
    let segs = vec![Segment { q: 0..1, k: 3..84 }, Segment { q: 1..71, k: 90..160 }, Segment { q: 71..141, k: 0..200 }];
    Case::new(SMALL, segs).check_forward();
}

#[test]
fn gradients_by_differences() {
    Case::new(SMALL, packed(&[4, 1, 6])).check_backward_by_differences();
    let longer_keys = vec![Segment { q: 0..2, k: 0..5 }, Segment { q: 2..5, k: 5..9 }];
    Case::new(Heads { heads: 3, kv_heads: 1, head_dim: 4 }, longer_keys).check_backward_by_differences();
}

#[test]
fn gradients_agree_with_candle_over_several_blocks() {
    let h = Heads { heads: 4, kv_heads: 2, head_dim: 16 };
    let lengths = [150, 1, 64];
    let case = Case::new(h, packed(&lengths));
    let found = same_on_threads(|| case.backward().concat());
    let n = lengths.iter().sum::<usize>();
    let (q, k) = (var(&case.q, &[n, 4, 16]), var(&case.k, &[n, 2, 16]));
    let (v, d_o) = (var(&case.v, &[n, 2, 16]), var(&case.d_o, &[n, 4, 16]));
    let loss = || -> CandleResult<Tensor> {
        let mut loss = Tensor::zeros((), DType::F32, &Device::Cpu)?;
        for seg in &case.segs {
            let t = seg.q.len();
            let part = |x: &Var| x.narrow(0, seg.q.start, t)?.transpose(0, 1)?.contiguous();
            let twice = |x: Tensor| Tensor::stack(&[&x, &x], 1)?.reshape((4, t, 16));
            let (q, k, v) = (part(&q)?, twice(part(&k)?)?, twice(part(&v)?)?);
            let mask: Vec<f32> = (0..t * t).map(|i| if i % t > i / t { f32::NEG_INFINITY } else { 0.0 }).collect();
            let mask = Tensor::from_vec(mask, (1, t, t), &Device::Cpu)?;
            let scores = (q.matmul(&k.t()?)? * 0.25)?.broadcast_add(&mask)?;
            let o = candle_nn::ops::softmax(&scores, 2)?.matmul(&v)?;
            loss = (loss + (o * part(&d_o)?)?.sum_all()?)?;
        }
        Ok(loss)
    };
    let grads = loss().unwrap().backward().unwrap();
    let (nq, nk) = (case.q.len(), case.k.len());
    assert_close(&found[..nq], &flat64(grads.get(&q).unwrap()).unwrap(), 1e-5);
    assert_close(&found[nq..nq + nk], &flat64(grads.get(&k).unwrap()).unwrap(), 1e-5);
    assert_close(&found[nq + nk..], &flat64(grads.get(&v).unwrap()).unwrap(), 1e-5);
}

#[test]
fn neighbours_do_not_matter() {
    let alone = Case::new(SMALL, packed(&[70]));
    let mut pair = Case::new(SMALL, packed(&[70, 40]));
    let own = |case: &Case| {
        let (o, _) = case.forward();
        let [dq, dk, dv] = case.backward();
        let (q, k) = (alone.q.len(), alone.k.len());
        [&o[..q], &dq[..q], &dk[..k], &dv[..k]].concat()
    };
    let before = own(&pair);
    for x in pair.k[alone.k.len()..].iter_mut().chain(&mut pair.q[alone.q.len()..]) {
        *x = 100.0 - *x;
    }
    assert_eq!(before, own(&pair));
    assert_eq!(before, own(&alone));
}

#[test]
fn scratch_only_sets_the_speed() {
    let case = Case::new(SMALL, packed(&[70, 20]));
    let (o, lse) = case.forward();
    let (q, k, v) = (buf(&case.q), buf(&case.k), buf(&case.v));
    let (mut o2, mut lse2) = (junk(o.len()), junk(lse.len()));
    let mut scratch = case.scratch(1);
    let mut go = |scratch: ViewMut<'_>, segs: &[Segment]| {
        attention(o2.view_mut(), lse2.view_mut(), q.view(), k.view(), v.view(), &SMALL, segs, scratch)
    };
    go(scratch.view_mut(), &case.segs).unwrap();
    let less = scratch.len() - 1;
    assert_wrong_shape(go(scratch.view_mut().slice(0..less), &case.segs));
    assert_eq!((values(&o2), values(&lse2)), (o, lse));
}

#[test]
fn misfits_are_faults() {
    let case = Case::new(SMALL, packed(&[5, 4]));
    let (q, k, v) = (buf(&case.q), buf(&case.k), buf(&case.v));
    let (mut o, mut lse) = (zeros(q.len()), zeros(36));
    let mut scratch = zeros(attention_scratch(&SMALL, 10, 1).unwrap());
    let mut go = |h: &Heads, segs: &[Segment]| {
        attention(o.view_mut(), lse.view_mut(), q.view(), k.view(), v.view(), h, segs, scratch.view_mut())
    };
    let seg = |q, k| Segment { q, k };
    assert_wrong_shape(go(&SMALL, &packed(&[5])));
    assert_wrong_shape(go(&SMALL, &packed(&[5, 5])));
    assert_wrong_shape(go(&SMALL, &[seg(0..5, 0..5), seg(4..9, 0..5)]));
    assert_wrong_shape(go(&SMALL, &[seg(0..9, 1..9)]));
    assert_wrong_shape(go(&SMALL, &[seg(0..9, 0..10)]));
    assert_wrong_shape(go(&Heads { kv_heads: 3, ..SMALL }, &packed(&[9])));
    assert_wrong_shape(go(&Heads { kv_heads: 0, ..SMALL }, &packed(&[9])));
    assert_wrong_shape(go(&Heads { head_dim: 5, ..SMALL }, &packed(&[9])));
    assert_wrong_shape(attention_scratch(&SMALL, usize::MAX, 2).map(|_| ()));
    go(&SMALL, &packed(&[9])).unwrap();
    // On the way back, keys belong to one segment each.
    let (mut dq, mut dk, mut dv) = (zeros(q.len()), zeros(k.len()), zeros(v.len()));
    let shared = [seg(0..5, 0..9), seg(5..9, 0..9)];
    let d = (dq.view_mut(), dk.view_mut(), dv.view_mut(), scratch.view_mut());
    let (o, lse) = (o.view(), lse.view());
    assert_wrong_shape(attention_backward(
        d.0,
        d.1,
        d.2,
        o,
        o,
        lse,
        q.view(),
        k.view(),
        v.view(),
        &SMALL,
        &shared,
        d.3,
    ));
}
