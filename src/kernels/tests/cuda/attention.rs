use super::*;

const HEADS: Heads = Heads { heads: 4, kv_heads: 2, head_dim: 6 };
/// Query rows at a time: blocks begin and end within segments.
const BLOCK: usize = 16;

/// Scores and gradients as cuBLAS would make them, and what the kernels make of them, for packed rows.
struct Case {
    segs: Vec<Segment>,
    n: usize,
    from: Vec<u32>,
    to: Vec<u32>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    d_o: Vec<f32>,
}

impl Case {
    /// Segments of so many query rows and key rows each.
    fn new(lengths: &[(usize, usize)]) -> Case {
        let (mut n, mut keys) = (0, 0);
        let (mut segs, mut from, mut to) = (Vec::new(), Vec::new(), Vec::new());
        for (q, k) in lengths {
            for i in 0..*q {
                from.push(keys as u32);
                to.push((keys + k - q + i + 1) as u32);
            }
            segs.push(Segment { q: n..n + q, k: keys..keys + k });
            (n, keys) = (n + q, keys + k);
        }
        let (wide, narrow) = (HEADS.heads * HEADS.head_dim, HEADS.kv_heads * HEADS.head_dim);
        let [q, d_o] = [1, 2].map(|seed| noise(n * wide, seed));
        let [k, v] = [3, 4].map(|seed| noise(keys * narrow, seed));
        Case { segs, n, from, to, q, k, v, d_o }
    }

    /// Row `row` of head `head`, of a matrix of query rows or of key rows.
    fn query<'a>(&self, of: &'a [f32], row: usize, head: usize) -> &'a [f32] {
        &of[(row * HEADS.heads + head) * HEADS.head_dim..][..HEADS.head_dim]
    }

    fn key<'a>(&self, of: &'a [f32], row: usize, head: usize) -> &'a [f32] {
        let kv_head = head / (HEADS.heads / HEADS.kv_heads);
        &of[(row * HEADS.kv_heads + kv_head) * HEADS.head_dim..][..HEADS.head_dim]
    }

    /// `[heads, rows, keys]`: products of a block's query rows with key rows.
    fn products(&self, of: &[f32], with: &[f32], block: &Block, alpha: f64) -> Vec<f32> {
        let mut all = Vec::new();
        for (head, row, key) in block.entries() {
            let (a, b) = (self.query(of, row, head), self.key(with, key, head));
            all.push((alpha * a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()) as f32);
        }
        all
    }
}

/// Query rows and the key rows that they are multiplied with: some before and after what they see.
struct Block {
    rows: std::ops::Range<usize>,
    keys: std::ops::Range<usize>,
}

impl Block {
    fn all(case: &Case) -> impl Iterator<Item = Block> + '_ {
        let total = case.segs.last().map_or(0, |seg| seg.k.end);
        (0..case.n).step_by(BLOCK).map(move |first| {
            let rows = first..case.n.min(first + BLOCK);
            let begin = case.from[first] as usize;
            Block { keys: begin.saturating_sub(3)..total.min(case.to[rows.end - 1] as usize + 2), rows }
        })
    }

    fn entries(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let of_head = move |head| self.rows.clone().map(move |row| (head, row));
        let of_row = move |(head, row)| self.keys.clone().map(move |key| (head, row, key));
        (0..HEADS.heads).flat_map(of_head).flat_map(of_row)
    }
}

fn add_to(sum: &mut [f64], alpha: f64, x: &[f32]) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += alpha * f64::from(*x));
}

fn slot(row: usize, head: usize, heads: usize) -> std::ops::Range<usize> {
    let at = (row * heads + head) * HEADS.head_dim;
    at..at + HEADS.head_dim
}

#[test]
fn both_ways_as_on_the_processor() {
    for lengths in [&[(1, 1), (2, 5)][..], &[(3, 10), (1, 1), (40, 40), (2, 2), (17, 30)], &[(100, 100), (1, 50)]] {
        let case = Case::new(lengths);
        let (n, keys, alpha) = (case.n, case.k.len() / 12, 1.0 / (HEADS.head_dim as f64).sqrt());
        let [q, k, v, d_o] = [&case.q, &case.k, &case.v, &case.d_o].map(|x| buf(x));
        let (mut o, mut lse) = (junk(n * 24), junk(n * 4));
        let mut room = zeros(attention_scratch(&HEADS, keys, 1).unwrap());
        let (segs, scratch) = (&case.segs, &mut room);
        let out = (o.view_mut(), lse.view_mut());
        super::attention(out.0, out.1, q.view(), k.view(), v.view(), &HEADS, segs, scratch.view_mut()).unwrap();
        let (mut dq, mut dk, mut dv) = (junk(n * 24), junk(keys * 12), junk(keys * 12));
        let grads = (dq.view_mut(), dk.view_mut(), dv.view_mut());
        let known = (d_o.view(), o.view(), lse.view());
        let of = (q.view(), k.view(), v.view());
        attention_backward(
            grads.0,
            grads.1,
            grads.2,
            known.0,
            known.1,
            known.2,
            of.0,
            of.1,
            of.2,
            &HEADS,
            segs,
            scratch.view_mut(),
        )
        .unwrap();
        let (o, lse) = (values(&o), values(&lse));

        for t in STORAGE {
            // What rounding p and ds to the storage type may cost.
            let loose = match t {
                DType::BF16 => 1e-2,
                DType::F16 => 1e-3,
                _ => 2e-6,
            };
            let (from, to) = (Memory::u32(&case.from), Memory::u32(&case.to));
            let (mut found_lse, mut mean) = (Memory::junk(DType::F32, n * 4), Memory::junk(DType::F32, n * 4));
            let sides = (Memory::of(t, &case.d_o), Memory::of(t, &o));
            launch!(t, "attention_mean", [n, 4], &mut mean, &sides.0, &sides.1, n, HEADS.head_dim);
            let (a, b) = (sides.0.values(), sides.1.values());
            let dots: Vec<f32> = (0..n * 4)
                .map(|i| (0..6).map(|j| f64::from(a[i * 6 + j]) * f64::from(b[i * 6 + j])).sum::<f64>() as f32)
                .collect();
            mean.assert_close(&dots, 1e-6);

            let (mut o_sum, mut dq_sum) = (vec![0.0; n * 24], vec![0.0; n * 24]);
            let (mut dk_sum, mut dv_sum) = (vec![0.0; keys * 12], vec![0.0; keys * 12]);
            for block in Block::all(&case) {
                let (first, rows, key, wide) = (block.rows.start, block.rows.len(), block.keys.start, block.keys.len());
                let s = Memory::f32(&case.products(&case.q, &case.k, &block, alpha));
                let dp = Memory::f32(&case.products(&case.d_o, &case.v, &block, 1.0));
                let size = 4 * rows * wide;
                let mut p = Memory::junk(t, size);
                launch!(
                    t,
                    "attention_softmax",
                    [rows, 4],
                    &mut p,
                    &mut found_lse,
                    &s,
                    &from,
                    &to,
                    first,
                    rows,
                    key,
                    wide
                );
                if t == DType::F32 {
                    let mut place = s.clone();
                    launch!(
                        t,
                        "attention_softmax",
                        [rows, 4],
                        &mut place,
                        &mut found_lse,
                        host::Arg::Again(0),
                        &from,
                        &to,
                        first,
                        rows,
                        key,
                        wide,
                    );
                    assert_eq!(place, p);
                }
                let (mut again, mut ds) = (Memory::junk(t, size), Memory::junk(t, size));
                launch!(
                    t,
                    "attention_softmax_backward",
                    [rows, 4],
                    &mut again,
                    &mut ds,
                    &s,
                    &dp,
                    &found_lse,
                    &mean,
                    &from,
                    &to,
                    first,
                    rows,
                    key,
                    wide,
                );
                let exact: Vec<f32> = block
                    .entries()
                    .zip(s.values())
                    .map(|((head, row, key), s)| {
                        let seen = case.from[row] as usize <= key && key < case.to[row] as usize;
                        if seen { f64::from(s - lse[row * 4 + head]).exp() as f32 } else { 0.0 }
                    })
                    .collect();
                p.assert_close(&exact, 1e-6);
                again.assert_close(&exact, 1e-6);
                let (p, ds) = (p.values(), ds.values());
                for ((head, row, key), (p, ds)) in block.entries().zip(p.iter().zip(&ds)) {
                    let (p, ds) = (f64::from(*p), f64::from(*ds));
                    let kv = slot(key, head / 2, 2);
                    add_to(&mut o_sum[slot(row, head, 4)], p, case.key(&case.v, key, head));
                    add_to(&mut dq_sum[slot(row, head, 4)], alpha * ds, case.key(&case.k, key, head));
                    add_to(&mut dk_sum[kv.clone()], alpha * ds, case.query(&case.q, row, head));
                    add_to(&mut dv_sum[kv], p, case.query(&case.d_o, row, head));
                }
            }
            found_lse.assert_close(&lse, 1e-6);
            assert_close(&o, &o_sum, loose);
            assert_close(&values(&dq), &dq_sum, loose);
            assert_close(&values(&dk), &dk_sum, loose);
            assert_close(&values(&dv), &dv_sum, loose);
        }
    }
}

#[test]
fn a_row_that_sees_nothing_is_empty() {
    for t in STORAGE {
        let (s, list) = (Memory::f32(&[1.0; 6]), Memory::u32(&[2, 2]));
        let to = Memory::u32(&[2, 4]);
        let (mut p, mut lse) = (Memory::junk(t, 6), Memory::junk(DType::F32, 2));
        launch!(t, "attention_softmax", [2, 1], &mut p, &mut lse, &s, &list, &to, 0usize, 2usize, 1usize, 3usize);
        p.assert_same(&[0.0, 0.0, 0.0, 0.0, 0.5, 0.5]);
        lse.assert_same(&[f32::NEG_INFINITY, 1.0 + std::f32::consts::LN_2]);
        let (mut again, mut ds) = (Memory::junk(t, 6), Memory::junk(t, 6));
        let mean = Memory::f32(&[0.25, 0.25]);
        launch!(
            t,
            "attention_softmax_backward",
            [2, 1],
            &mut again,
            &mut ds,
            &s,
            &s,
            &lse,
            &mean,
            &list,
            &to,
            0usize,
            2usize,
            1usize,
            3usize,
        );
        again.assert_close(&[0.0, 0.0, 0.0, 0.0, 0.5, 0.5], 1e-6);
        ds.assert_close(&[0.0, 0.0, 0.0, 0.0, 0.375, 0.375], 1e-6);
    }
}
