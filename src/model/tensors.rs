//! The one list of a model's tensors: it sizes, loads, trains and saves.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use super::shape::Shape;
use crate::text::{Fault, Result};

/// A linear layer of a decoder block, in the order in which everything here goes through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Proj {
    Q,
    K,
    V,
    O,
    Gate,
    Up,
    Down,
}

impl Proj {
    pub const ALL: [Proj; 7] = [Proj::Q, Proj::K, Proj::V, Proj::O, Proj::Gate, Proj::Up, Proj::Down];

    pub fn name(self) -> &'static str {
        match self {
            Proj::Q => "q_proj",
            Proj::K => "k_proj",
            Proj::V => "v_proj",
            Proj::O => "o_proj",
            Proj::Gate => "gate_proj",
            Proj::Up => "up_proj",
            Proj::Down => "down_proj",
        }
    }

    pub fn from_name(name: &str) -> Option<Proj> {
        Proj::ALL.into_iter().find(|proj| proj.name() == name)
    }

    /// Module path in transformers: `model.layers.3.self_attn.q_proj`.
    pub fn module(self, layer: usize) -> String {
        let part = if self.in_attention() { "self_attn" } else { "mlp" };
        format!("model.layers.{layer}.{part}.{}", self.name())
    }

    /// Layer and projection of a module path.
    pub fn from_module(path: &str) -> Option<(usize, Proj)> {
        let rest = path.strip_prefix("model.layers.")?;
        let (layer, _) = rest.split_once('.')?;
        let (_, name) = rest.rsplit_once('.')?;
        let (layer, proj) = (layer.parse().ok()?, Proj::from_name(name)?);
        (proj.module(layer) == path).then_some((layer, proj))
    }

    /// Rows and columns of the weight: `(out, in)`.
    pub fn dims(self, shape: &Shape) -> (usize, usize) {
        match self {
            Proj::Q => (shape.q_width(), shape.hidden),
            Proj::K | Proj::V => (shape.kv_width(), shape.hidden),
            Proj::O => (shape.hidden, shape.q_width()),
            Proj::Gate | Proj::Up => (shape.ffn, shape.hidden),
            Proj::Down => (shape.hidden, shape.ffn),
        }
    }

    fn in_attention(self) -> bool {
        self <= Proj::O
    }

    fn has_bias(self, shape: &Shape) -> bool {
        match self {
            Proj::O => shape.attention_bias && shape.family.output_bias(),
            Proj::Q | Proj::K | Proj::V => shape.attention_bias,
            Proj::Gate | Proj::Up | Proj::Down => shape.mlp_bias,
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// What a tensor is to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Embedding,
    Norm,
    Linear(Proj),
    Bias(Proj),
    Head,
}

/// One tensor of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Name in transformers: `model.layers.0.mlp.up_proj.weight`.
    pub name: String,
    /// Rows first; a vector has one dimension.
    pub shape: Vec<usize>,
    pub role: Role,
    /// None outside the blocks.
    pub layer: Option<usize>,
}

impl Tensor {
    /// Rows and columns; a vector has a row for each element.
    pub fn dims(&self) -> (usize, usize) {
        match self.shape[..] {
            [rows, cols] => (rows, cols),
            _ => (self.shape.iter().product(), 1),
        }
    }
}

impl Shape {
    /// Every tensor, in the order of the forward pass. A tied head is not listed: it is the embedding.
    ///
    /// A plan asks for the list some times a stage, so the lists of the last few shapes are kept.
    pub fn tensors(&self) -> Arc<[Tensor]> {
        const KEPT: usize = 4;
        thread_local! {
            static LISTS: RefCell<VecDeque<(Shape, Arc<[Tensor]>)>> = const { RefCell::new(VecDeque::new()) };
        }
        LISTS.with_borrow_mut(|lists| {
            if let Some((_, list)) = lists.iter().find(|(shape, _)| shape == self) {
                return list.clone();
            }
            let list: Arc<[Tensor]> = self.list().into();
            if lists.len() == KEPT {
                lists.pop_front();
            }
            lists.push_back((self.clone(), list.clone()));
            list
        })
    }

    fn list(&self) -> Vec<Tensor> {
        let mut list = Vec::with_capacity(3 + self.layers * self.per_layer());
        let mut put = |name: String, shape: &[usize], role, layer| {
            list.push(Tensor { name, shape: shape.to_vec(), role, layer });
        };
        put("model.embed_tokens.weight".into(), &[self.vocab, self.hidden], Role::Embedding, None);
        for layer in 0..self.layers {
            let norms = |before: Option<Proj>| {
                self.family.norms().iter().filter(move |norm| norm.before == before).map(move |norm| {
                    let width = if norm.of_head { self.head_dim } else { self.hidden };
                    (format!("model.layers.{layer}.{}.weight", norm.name), [width])
                })
            };
            for proj in Proj::ALL {
                for (name, shape) in norms(Some(proj)) {
                    put(name, &shape, Role::Norm, Some(layer));
                }
                let (module, (out, into)) = (proj.module(layer), proj.dims(self));
                put(format!("{module}.weight"), &[out, into], Role::Linear(proj), Some(layer));
                if proj.has_bias(self) {
                    put(format!("{module}.bias"), &[out], Role::Bias(proj), Some(layer));
                }
            }
            for (name, shape) in norms(None) {
                put(name, &shape, Role::Norm, Some(layer));
            }
        }
        put("model.norm.weight".into(), &[self.hidden], Role::Norm, None);
        if !self.tied {
            put("lm_head.weight".into(), &[self.vocab, self.hidden], Role::Head, None);
        }
        list
    }

    /// Number of parameters; a tied head counts once.
    pub fn parameters(&self) -> u64 {
        self.tensors().iter().map(|t| t.shape.iter().map(|d| *d as u64).product::<u64>()).sum()
    }

    /// Tensors of a block.
    pub(crate) fn per_layer(&self) -> usize {
        Proj::ALL.len() + self.biases(true) + self.biases(false) + self.family.norms().len()
    }

    /// Biases of a block's attention, or of its feed-forward part.
    fn biases(&self, attention: bool) -> usize {
        Proj::ALL.iter().filter(|proj| proj.in_attention() == attention && proj.has_bias(self)).count()
    }

    pub(crate) const EMBEDDING: usize = 0;

    // Places in the list, of families that run.

    pub(crate) fn attention_norm_at(&self, layer: usize) -> usize {
        1 + layer * self.per_layer()
    }

    pub(crate) fn mlp_norm_at(&self, layer: usize) -> usize {
        self.attention_norm_at(layer) + 5 + self.biases(true)
    }

    pub(crate) fn linear_at(&self, layer: usize, proj: Proj) -> usize {
        if proj.in_attention() {
            // The output projection comes last: whether it has a bias moves nothing.
            self.attention_norm_at(layer) + 1 + proj.index() * (1 + usize::from(self.attention_bias))
        } else {
            let from_gate = proj.index() - Proj::Gate.index();
            self.mlp_norm_at(layer) + 1 + from_gate * (1 + usize::from(self.mlp_bias))
        }
    }

    pub(crate) fn bias_at(&self, layer: usize, proj: Proj) -> Option<usize> {
        proj.has_bias(self).then(|| self.linear_at(layer, proj) + 1)
    }

    pub(crate) fn final_norm_at(&self) -> usize {
        1 + self.layers * self.per_layer()
    }

    /// The output head: the embedding where they are tied.
    pub(crate) fn head_at(&self) -> usize {
        if self.tied { Self::EMBEDDING } else { self.final_norm_at() + 1 }
    }

    /// Holds a file's tensors (name and shape) against the list: none missing, none left over, none of another shape.
    /// Rotary tables that old checkpoints carry are passed over, and so is a stored head where the head is tied.
    pub fn check_names(&self, given: &[(&str, &[usize])]) -> Result<()> {
        let wanted = self.tensors();
        let names: std::collections::HashMap<&str, &[usize]> = given.iter().copied().collect();
        let missing: Vec<&str> =
            wanted.iter().filter(|t| !names.contains_key(t.name.as_str())).map(|t| t.name.as_str()).collect();
        if let Some(first) = missing.first() {
            return Err(Fault::new(
                "model.missing_tensor",
                format!("the model's files lack {}", counted(first, missing.len())),
            )
            .note(format!("a model of this config has {} tensors", wanted.len())));
        }
        for tensor in wanted.iter() {
            if let Some(found) = names.get(tensor.name.as_str())
                && *found != tensor.shape
            {
                return Err(Fault::new(
                    "model.tensor_shape",
                    format!("`{}` is {}, and the config makes it {}", tensor.name, by(found), by(&tensor.shape)),
                ));
            }
        }
        let known: std::collections::HashSet<&str> = wanted.iter().map(|t| t.name.as_str()).collect();
        let ignored = |name: &str| {
            name.ends_with("rotary_emb.inv_freq") || (self.tied && name == "lm_head.weight") || known.contains(name)
        };
        let extra: Vec<&str> = given.iter().map(|(name, _)| *name).filter(|name| !ignored(name)).collect();
        if let Some(first) = extra.first() {
            return Err(Fault::new(
                "model.extra_tensor",
                format!("the model's files hold {}, which its config has no place for", counted(first, extra.len())),
            )
            .note("a tensor that is left out would change what the model computes"));
        }
        Ok(())
    }
}

/// `` `first` `` or `` `first` and 3 more tensors ``.
fn counted(first: &str, count: usize) -> String {
    match count {
        0 | 1 => format!("the tensor `{first}`"),
        2 => format!("`{first}` and one more tensor"),
        more => format!("`{first}` and {} more tensors", more - 1),
    }
}

/// `96×384`.
fn by(shape: &[usize]) -> String {
    if shape.is_empty() {
        return "a single number".into();
    }
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join("×")
}
