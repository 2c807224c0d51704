//! The same model in candle's f64 operations, with candle's autograd: written from the formulas, sharing nothing with
//! the engine but the list of tensors.

use std::collections::HashMap;

use candle_core::{D, DType, Device, Tensor as T, Var};

use super::*;

type R<X> = candle_core::Result<X>;

pub struct Oracle {
    shape: Shape,
    pub vars: HashMap<String, Var>,
    scale: f64,
}

impl Oracle {
    /// Takes the values that the model holds, narrow ones as they are widened.
    pub fn of(model: &Model) -> R<Oracle> {
        let mut vars = HashMap::new();
        for (tensor, weight) in model.shape.tensors().iter().zip(&model.tensors) {
            let mut values = vec![0f32; tensor.shape.iter().product()];
            let mut buf = Heap.take("", crate::kernels::Spec::f32(&[values.len()])).expect("memory");
            weight.write(0..values.len(), buf.view_mut()).expect("values");
            values.copy_from_slice(buf.view().cpu::<f32>().expect("f32"));
            vars.insert(tensor.name.clone(), var(&values, &tensor.shape)?);
        }
        let mut scale = 0.0;
        if let Some(adapter) = &model.adapter {
            scale = adapter.settings.alpha / adapter.settings.rank as f64;
            for (name, buf) in adapter.matrices() {
                vars.insert(name, var(buf.view().cpu::<f32>().expect("f32"), buf.shape())?);
            }
        }
        Ok(Oracle { shape: model.shape.clone(), vars, scale })
    }

    fn get(&self, name: &str) -> &T {
        self.vars[name].as_tensor()
    }

    fn linear(&self, x: &T, layer: usize, proj: Proj) -> R<T> {
        let module = proj.module(layer);
        let mut y = x.matmul(&self.get(&format!("{module}.weight")).t()?)?;
        if let Some(bias) = self.vars.get(&format!("{module}.bias")) {
            y = y.broadcast_add(bias)?;
        }
        if self.vars.contains_key(&format!("{module}.lora_A.weight")) {
            let a = self.get(&format!("{module}.lora_A.weight"));
            let b = self.get(&format!("{module}.lora_B.weight"));
            y = (y + (x.matmul(&a.t()?)?.matmul(&b.t()?)? * self.scale)?)?;
        }
        Ok(y)
    }

    fn norm(&self, x: &T, name: &str) -> R<T> {
        let mean = x.sqr()?.mean_keepdim(D::Minus1)?;
        x.broadcast_div(&(mean + self.shape.norm_eps)?.sqrt()?)?.broadcast_mul(self.get(name))
    }

    /// `[t, heads · d]` to `[heads, t, d]`, turned by position.
    fn heads(&self, x: &T, heads: usize, turned: bool) -> R<T> {
        let (t, d) = (x.dim(0)?, self.shape.head_dim);
        let x = x.reshape((t, heads, d))?.transpose(0, 1)?.contiguous()?;
        if !turned {
            return Ok(x);
        }
        let steps = self.shape.rope.frequencies(d);
        let angles: Vec<f64> = (0..t).flat_map(|p| steps.iter().map(move |f| f64::from(p as f32 * f))).collect();
        let angles = T::from_vec(angles, (t, d / 2), &Device::Cpu)?;
        let (cos, sin) = (angles.cos()?, angles.sin()?);
        let (a, b) = (x.narrow(2, 0, d / 2)?, x.narrow(2, d / 2, d / 2)?);
        let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
        let second = (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?;
        T::cat(&[first, second], 2)
    }

    /// Logits of one row of tokens.
    pub fn logits(&self, ids: &[u32]) -> R<T> {
        let s = &self.shape;
        let t = ids.len();
        let mut x = self.get("model.embed_tokens.weight").index_select(&T::new(ids, &Device::Cpu)?, 0)?;
        let mask: Vec<f64> =
            (0..t).flat_map(|i| (0..t).map(move |j| if j > i { f64::NEG_INFINITY } else { 0.0 })).collect();
        let mask = T::from_vec(mask, (t, t), &Device::Cpu)?;
        for layer in 0..s.layers {
            let n = self.norm(&x, &format!("model.layers.{layer}.input_layernorm.weight"))?;
            let q = self.heads(&self.linear(&n, layer, Proj::Q)?, s.heads, true)?;
            let k = self.heads(&self.linear(&n, layer, Proj::K)?, s.kv_heads, true)?;
            let v = self.heads(&self.linear(&n, layer, Proj::V)?, s.kv_heads, false)?;
            let group = s.heads / s.kv_heads;
            let repeat = |x: T| -> R<T> {
                let (h, t, d) = x.dims3()?;
                x.unsqueeze(1)?.broadcast_as((h, group, t, d))?.contiguous()?.reshape((h * group, t, d))
            };
            let (k, v) = (repeat(k)?, repeat(v)?);
            let scores = (q.matmul(&k.transpose(1, 2)?.contiguous()?)? / (s.head_dim as f64).sqrt())?;
            let scores = scores.broadcast_add(&mask)?;
            let top = scores.max_keepdim(D::Minus1)?.detach();
            let e = scores.broadcast_sub(&top)?.exp()?;
            let p = e.broadcast_div(&e.sum_keepdim(D::Minus1)?)?;
            let o = p.matmul(&v)?.transpose(0, 1)?.contiguous()?.reshape((t, s.q_width()))?;
            x = (x + self.linear(&o, layer, Proj::O)?)?;
            let n = self.norm(&x, &format!("model.layers.{layer}.post_attention_layernorm.weight"))?;
            let gate = self.linear(&n, layer, Proj::Gate)?;
            let act = (gate.silu()? * self.linear(&n, layer, Proj::Up)?)?;
            x = (x + self.linear(&act, layer, Proj::Down)?)?;
        }
        let n = self.norm(&x, "model.norm.weight")?;
        n.matmul(&self.get(if s.tied { "model.embed_tokens.weight" } else { "lm_head.weight" }).t()?)
    }

    /// Mean loss over the counted tokens.
    pub fn loss(&self, batch: &TokenBatch<'_>) -> R<T> {
        let mut sum = T::zeros((), DType::F64, &Device::Cpu)?;
        let mut counted = 0usize;
        for row in batch.starts.windows(2) {
            let (start, end) = (row[0] as usize, row[1] as usize);
            let (at, label): (Vec<u32>, Vec<u32>) = (0u32..)
                .zip(&batch.labels[start..end])
                .filter(|(_, l)| **l != NOT_COUNTED)
                .map(|(i, l)| (i, *l))
                .unzip();
            if at.is_empty() {
                continue;
            }
            counted += at.len();
            let logits = self.logits(&batch.ids[start..end])?.index_select(&T::new(&at[..], &Device::Cpu)?, 0)?;
            let log_p = candle_nn::ops::log_softmax(&logits, D::Minus1)?;
            let picked = log_p.gather(&T::new(&label[..], &Device::Cpu)?.unsqueeze(1)?, 1)?;
            sum = (sum - picked.sum_all()?)?;
        }
        sum / counted as f64
    }
}

fn var(values: &[f32], shape: &[usize]) -> R<Var> {
    let values: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
    Var::from_tensor(&T::from_vec(values, shape, &Device::Cpu)?)
}
