//! What others need to know of shapes and adapters in words and lists.

use super::adapter::LoraSettings;
use super::shape::Shape;
use super::tensors::Proj;

impl LoraSettings {
    /// Every module that gets an adapter: its path, outputs and inputs, in the adapter's order.
    pub fn modules(&self, shape: &Shape) -> Vec<(String, usize, usize)> {
        (0..shape.layers)
            .flat_map(|layer| Proj::ALL.into_iter().map(move |proj| (layer, proj)))
            .filter(|(_, proj)| self.targets.contains(proj))
            .map(|(layer, proj)| {
                let (outputs, inputs) = proj.dims(shape);
                (proj.module(layer), outputs, inputs)
            })
            .collect()
    }
}

impl Shape {
    /// The first size in which `other` is not this shape, in words; none where every tensor has the same dimensions.
    /// Positions and frequencies may differ: they change no tensor.
    pub fn difference(&self, other: &Shape) -> Option<String> {
        if self.family != other.family {
            return Some(format!("its family is {}, not {}", other.family.name(), self.family.name()));
        }
        let sizes = |s: &Shape| {
            [
                ("hidden", s.hidden),
                ("layers", s.layers),
                ("heads", s.heads),
                ("kv_heads", s.kv_heads),
                ("head_dim", s.head_dim),
                ("ffn", s.ffn),
                ("vocab", s.vocab),
                ("tied", usize::from(s.tied)),
                ("attention_bias", usize::from(s.attention_bias)),
                ("mlp_bias", usize::from(s.mlp_bias)),
            ]
        };
        sizes(self)
            .into_iter()
            .zip(sizes(other))
            .find(|(wanted, found)| wanted.1 != found.1)
            .map(|((name, wanted), (_, found))| format!("{name} is {found}, not {wanted}"))
    }
}
