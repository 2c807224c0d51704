//! First and second moments of every trained parameter: in f32, or in 8 bits a value.

use super::settings::Optim;
use crate::kernels::{AdamW, Buf, FEWEST_IN_8_BITS, MOMENT_BLOCK, Moment8, Spec, View, ViewMut, adamw, adamw8};
use crate::model::Make;
use crate::text::Result;

const HOLDING: &str = "moments";

/// Both moments of one parameter.
pub(super) enum Pair<T = Buf> {
    Wide { m: T, v: T },
    Eight { m: Eight<T>, v: Eight<T> },
}

/// A moment in 8 bits; see [`Moment8`].
pub(super) struct Eight<T> {
    codes: T,
    absmax: T,
}

impl Eight<Buf> {
    fn view_mut(&mut self) -> Moment8<'_> {
        Moment8 { codes: self.codes.view_mut(), absmax: self.absmax.view_mut() }
    }
}

/// The moments of parameters of these shapes, in their order.
pub(super) fn make<T>(shapes: &[Vec<usize>], optim: Optim, make: Make<'_, T>) -> Result<Vec<Pair<T>>> {
    let mut pairs = Vec::with_capacity(shapes.len());
    for shape in shapes {
        let values: usize = shape.iter().product();
        let mut eight = || -> Result<Eight<T>> {
            Ok(Eight {
                codes: make(HOLDING, Spec::new(&[values], candle_core::DType::U8))?,
                absmax: make(HOLDING, Spec::f32(&[values.div_ceil(MOMENT_BLOCK)]))?,
            })
        };
        pairs.push(match optim {
            Optim::AdamW8bit if values >= FEWEST_IN_8_BITS => Pair::Eight { m: eight()?, v: eight()? },
            _ => Pair::Wide { m: make(HOLDING, Spec::f32(shape))?, v: make(HOLDING, Spec::f32(shape))? },
        });
    }
    Ok(pairs)
}

impl<T> Pair<T> {
    /// What a checkpoint has to hold of it, under `m.NAME` and `v.NAME`; scales end in `.absmax`.
    pub fn state(&self, name: &str) -> Vec<(String, &T)> {
        match self {
            Pair::Wide { m, v } => vec![(format!("m.{name}"), m), (format!("v.{name}"), v)],
            Pair::Eight { m, v } => vec![
                (format!("m.{name}"), &m.codes),
                (format!("m.{name}.absmax"), &m.absmax),
                (format!("v.{name}"), &v.codes),
                (format!("v.{name}.absmax"), &v.absmax),
            ],
        }
    }
}

impl Pair {
    /// One AdamW step of the parameter `p`, whose gradient is `g`.
    pub fn update(&mut self, p: ViewMut<'_>, g: View<'_>, lr: f64, step: u64, clip: f32, rule: &AdamW) -> Result<()> {
        match self {
            Pair::Wide { m, v } => adamw(p, m.view_mut(), v.view_mut(), g, lr, step, clip, rule),
            Pair::Eight { m, v } => adamw8(p, m.view_mut(), v.view_mut(), g, lr, step, clip, rule),
        }
    }

    /// The same, to be filled.
    pub fn state_mut(&mut self, name: &str) -> Vec<(String, &mut Buf)> {
        match self {
            Pair::Wide { m, v } => vec![(format!("m.{name}"), m), (format!("v.{name}"), v)],
            Pair::Eight { m, v } => vec![
                (format!("m.{name}"), &mut m.codes),
                (format!("m.{name}.absmax"), &mut m.absmax),
                (format!("v.{name}"), &mut v.codes),
                (format!("v.{name}.absmax"), &mut v.absmax),
            ],
        }
    }
}
