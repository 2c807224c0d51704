//! The yardstick: a step's products of matrices and nothing else, through the same library into kept outputs.

use gemm::Parallelism;
use rayon::prelude::*;
use serde_json::Value;
use tunepipe::kernels::{Heap, Key, Mat, MatMut, Pool, Spec, fill_normal, matmul};
use tunepipe::model::{Proj, Shape};

use crate::took::Took;
use crate::{Outcome, Wish, line, median, seconds};

/// One product c = a·b as the engine lays it out: m × k times k × n.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Product {
    pub m: usize,
    pub k: usize,
    pub n: usize,
    pub layout: Layout,
    /// How often in a step.
    pub times: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Layout {
    /// x · Wᵀ with W as it is stored, `[out, in]`.
    Forward,
    /// dy · W.
    Backward,
    /// dyᵀ · x, added to what is there.
    Gradient,
}

/// What decides on a step's products.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub rows: usize,
    pub length: usize,
    /// Rank of adapters on every linear layer; none: full training.
    pub rank: Option<usize>,
    pub recompute: bool,
}

impl Step {
    pub fn tokens(&self) -> usize {
        self.rows * self.length
    }

    /// Tokens that count in the loss: all but each row's last.
    pub fn counted(&self) -> usize {
        self.rows * (self.length - 1)
    }
}

/// Every product with weights and adapters of one step.
pub fn of_step(shape: &Shape, step: &Step) -> Vec<Product> {
    use Layout::{Backward, Forward, Gradient};
    let (n, layers) = (step.tokens(), shape.layers);
    let mut list = Vec::new();
    for proj in Proj::ALL {
        let (out, into) = proj.dims(shape);
        // The first block's input needs no gradient beside adapters; what recompute makes again is all but the last
        // block and every block's output.
        let first = usize::from(step.rank.is_some() && matches!(proj, Proj::Q | Proj::K | Proj::V));
        let again = if step.recompute && proj != Proj::Down { layers - 1 } else { 0 };
        let again_low = if step.recompute { layers - 1 } else { 0 };
        let mut add = |m, k, n, layout, times| list.push(Product { m, k, n, layout, times });
        add(n, into, out, Forward, layers + again);
        add(n, out, into, Backward, layers - first);
        match step.rank {
            None => add(out, n, into, Gradient, layers),
            Some(rank) => {
                add(n, into, rank, Forward, layers + again_low);
                add(n, rank, out, Forward, layers + again);
                add(n, out, rank, Backward, layers);
                add(n, rank, into, Backward, layers - first);
                add(out, n, rank, Gradient, layers);
                add(rank, n, into, Gradient, layers);
            }
        }
    }
    let mut left = step.counted();
    while left > 0 {
        // Windows of the head, as the engine cuts them.
        let per = ((64 << 20) / 4 / shape.vocab / 128 * 128).max(128);
        let m = if left - per.min(left) < 128 { left } else { per };
        list.push(Product { m, k: shape.hidden, n: shape.vocab, layout: Forward, times: 1 });
        list.push(Product { m, k: shape.vocab, n: shape.hidden, layout: Backward, times: 1 });
        if step.rank.is_none() {
            list.push(Product { m: shape.vocab, k: m, n: shape.hidden, layout: Gradient, times: 1 });
        }
        left -= m;
    }
    let mut merged: Vec<Product> = Vec::new();
    for product in list.into_iter().filter(|p| p.times > 0) {
        let same = |p: &&mut Product| (p.m, p.k, p.n, p.layout) == (product.m, product.k, product.n, product.layout);
        match merged.iter_mut().find(same) {
            Some(known) => known.times += product.times,
            None => merged.push(product),
        }
    }
    merged
}

/// Room for the operands of any product of a list.
pub struct Yardstick {
    products: Vec<Product>,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
    attention: Attention,
}

/// The products inside attention, as a task a head would do them: blocks of 64 queries against the keys they see.
#[derive(Debug, Clone, Copy)]
struct Attention {
    heads: usize,
    head_dim: usize,
    rows: usize,
    length: usize,
    /// Times in a step forward, and backward.
    forward: usize,
    backward: usize,
}

impl Yardstick {
    pub fn new(shape: &Shape, step: &Step) -> Yardstick {
        let products = of_step(shape, step);
        let most = |f: fn(&Product) -> usize| products.iter().map(f).max().unwrap_or(0);
        let noise = |n: usize| (0..n).map(|i| (i % 251) as f32 / 251.0 - 0.5).collect();
        let attention = Attention {
            heads: shape.heads,
            head_dim: shape.head_dim,
            rows: step.rows,
            length: step.length,
            forward: shape.layers + if step.recompute { shape.layers - 1 } else { 0 },
            backward: shape.layers,
        };
        let wide = shape.q_width() * step.tokens();
        Yardstick {
            a: noise(most(|p| p.m * p.k).max(wide)),
            b: noise(most(|p| p.k * p.n).max(wide)),
            c: vec![0.0; most(|p| p.m * p.n).max(wide)],
            products,
            attention,
        }
    }

    /// What all products of a step take: each is timed a few times in turn with the others and counted as often as it
    /// comes.
    pub fn time(&mut self) -> Took {
        let mut sum = Took::default();
        for i in 0..self.products.len() {
            let product = self.products[i];
            let times = product.times.min(3);
            let took = Took::of(|| (0..times).for_each(|_| self.run(&product)));
            sum = sum + took * (product.times as f64 / times as f64);
        }
        sum + Took::of(|| self.attention()) * self.attention_share()
    }

    /// A pass of [`Self::attention`] is forward's two products; backward has five.
    fn attention_share(&self) -> f64 {
        self.attention.forward as f64 + 2.5 * self.attention.backward as f64
    }

    fn run(&mut self, product: &Product) {
        let Product { m, k, n, layout, .. } = *product;
        // (column stride, row stride) of each factor.
        let (a, b) = match layout {
            Layout::Forward => ((1, k), (k, 1)),
            Layout::Backward => ((1, k), (1, n)),
            Layout::Gradient => ((m, 1), (1, n)),
        };
        let add = layout == Layout::Gradient;
        multiply(&mut self.c, &self.a, a, &self.b, b, (m, k, n), add, Parallelism::Rayon(0));
    }

    fn attention(&mut self) {
        let Attention { heads, head_dim, rows, length, .. } = self.attention;
        let width = heads * head_dim;
        let (q, k) = (&self.a, &self.b);
        (0..rows * heads).into_par_iter().for_each_init(
            || (vec![0.0f32; 64 * length], vec![0.0f32; 64 * head_dim]),
            |(scores, out), task| {
                let at = task / heads * length * width + task % heads * head_dim;
                for start in (0..length).step_by(64) {
                    let (n, keys) = (64.min(length - start), (start + 64).min(length));
                    let q = &q[at + start * width..];
                    let dims = (n, head_dim, keys);
                    multiply(scores, q, (1, width), &k[at..], (width, 1), dims, false, Parallelism::None);
                    let dims = (n, keys, head_dim);
                    multiply(out, scores, (1, keys), &k[at..], (1, width), dims, false, Parallelism::None);
                }
            },
        );
    }
}

#[allow(clippy::too_many_arguments, reason = "the operands of a product")]
fn multiply(
    c: &mut [f32],
    a: &[f32],
    (a_col, a_row): (usize, usize),
    b: &[f32],
    (b_col, b_row): (usize, usize),
    (m, k, n): (usize, usize, usize),
    add: bool,
    threads: Parallelism,
) {
    let reach = |rows: usize, cols: usize, row: usize, col: usize| (rows - 1) * row + (cols - 1) * col;
    assert!(reach(m, k, a_row, a_col) < a.len() && reach(k, n, b_row, b_col) < b.len() && m * n <= c.len());
    let beta = if add { 1.0 } else { 0.0 };
    // SAFETY: both factors and the product lie inside their slices, as was just checked; `c` is borrowed mutably.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            n as isize,
            add,
            a.as_ptr(),
            a_col as isize,
            a_row as isize,
            b.as_ptr(),
            b_col as isize,
            b_row as isize,
            beta,
            1.0,
            false,
            false,
            false,
            threads,
        );
    }
}

/// SmolLM2-135M.
pub fn shape() -> Result<Shape, tunepipe::text::Fault> {
    Shape::from_config(&serde_json::json!({
        "model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "intermediate_size": 1536, "vocab_size": 49152, "max_position_embeddings": 8192,
        "tie_word_embeddings": true, "rope_theta": 100000.0, "rms_norm_eps": 1e-5,
    }))
}

/// GFLOP/s of the larger products of a LoRA step, as the engine makes them.
pub fn rates(wish: &Wish) -> Outcome {
    let step = Step { rows: 4, length: 256, rank: Some(8), recompute: false };
    let products = of_step(&shape()?, &step).into_iter().filter(|p| p.m.min(p.k).min(p.n) > 64);
    let mut lines: Vec<Value> = Vec::new();
    for Product { m, k, n, layout, .. } in products {
        let noise = |len: usize, seed| {
            let mut buf = Heap.take("", Spec::f32(&[len]))?;
            fill_normal(buf.view_mut(), 1.0, Key::new(seed))?;
            Ok::<_, tunepipe::text::Fault>(buf)
        };
        let (a, b, mut c) = (noise(m * k, 1)?, noise(k * n, 2)?, noise(m * n, 3)?);
        let mut times = Vec::new();
        for round in 0..wish.rounds.max(5) + 1 {
            let (a, b) = match layout {
                Layout::Forward => (Mat::new(a.view(), m, k), Mat::new(b.view(), n, k).t()),
                Layout::Backward => (Mat::new(a.view(), m, k), Mat::new(b.view(), k, n)),
                Layout::Gradient => (Mat::new(a.view(), k, m).t(), Mat::new(b.view(), k, n)),
            };
            let took = seconds(|| matmul(MatMut::new(c.view_mut(), m, n), a, b, 1.0, 0.0))?;
            if round > 0 {
                times.push(took);
            }
        }
        let rate = 2.0 * (m * k * n) as f64 / median(times) / 1e9;
        let mut line = line(&format!("matmul {m}x{k}x{n} {layout:?}"), &[("gflops", rate)]);
        line["shape"] = serde_json::json!([m, k, n]);
        line["turned"] = serde_json::json!(layout == Layout::Forward);
        lines.push(line);
    }
    Ok(lines)
}
