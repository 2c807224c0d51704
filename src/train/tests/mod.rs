//! Training runs on small models.

mod bits;
mod plan;
mod steps;

use super::*;
use crate::kernels::{Buf, Heap, ViewMut};
use crate::model::tests::{Rows, biased, lively, lively_adapter, lora, tied};
use crate::model::*;

/// A run's micro-batches: for each step the row lengths of each micro-batch.
struct Fixed {
    steps: Vec<Vec<Vec<usize>>>,
    vocab: usize,
}

impl Windows for Fixed {
    fn total_steps(&self) -> u64 {
        self.steps.len() as u64
    }

    fn window(&self, step: u64) -> crate::text::Result<Window> {
        let micro = |(at, lengths): (usize, &Vec<usize>)| {
            let rows = Rows::new(1000 * step + at as u64, lengths, self.vocab);
            Micro { ids: rows.ids, starts: rows.starts, labels: rows.labels, rows: vec![step as u32, at as u32] }
        };
        let micros = self.steps[step as usize].iter().enumerate().map(micro).collect();
        Ok(Window { micros, epoch: step as f64 / 2.0 })
    }

    fn extent(&self) -> Extent {
        let of =
            |window: Window| window.micros.iter().map(|m| Extent::of(&m.batch())).fold(Extent::default(), Extent::max);
        (0..self.total_steps()).map(|s| of(self.window(s).expect("a window"))).fold(Extent::default(), Extent::max)
    }
}

/// Four ragged steps, the largest micro-batch neither first nor last.
fn ragged(vocab: usize) -> Fixed {
    let steps = vec![
        vec![vec![9, 4], vec![6]],
        vec![vec![17, 12, 3], vec![5, 5]],
        vec![vec![2, 8]],
        vec![vec![11], vec![13, 2], vec![7]],
    ];
    Fixed { steps, vocab }
}

impl Fixed {
    /// The first micro-batch of each step alone.
    fn one_batch_a_step(mut self) -> Fixed {
        self.steps.iter_mut().for_each(|micros| micros.truncate(1));
        self
    }
}

fn settings() -> Settings {
    Settings { lr: 1e-2, warmup: Warmup::Steps(1), clip: Some(0.5), weight_decay: 0.05, ..Settings::default() }
}

/// What is trained, and on what.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Lora,
    Qlora,
    Full,
}

fn trainer(kind: Kind, shape: &Shape, dropout: f32, settings: Settings, data: &Fixed) -> Trainer {
    let dense = Form::dense(Float::F32);
    let (form, trainable) = match kind {
        Kind::Full => (dense, Trainable::Full),
        Kind::Lora => (dense, Trainable::Lora(LoraSettings { dropout, ..lora(&Proj::ALL) })),
        Kind::Qlora => (dense.quantised(64, true), Trainable::Lora(LoraSettings { dropout, ..lora(&Proj::ALL) })),
    };
    let mut model = lively(shape, form);
    if kind != Kind::Full {
        model.adapter = Some(lively_adapter(shape, lora(&Proj::ALL)));
    }
    Trainer::new(model, &trainable, settings, data.total_steps(), data.extent(), &Heap).expect("a trainer")
}

/// Values of any type, widened.
fn values(buf: &Buf) -> Vec<f32> {
    match buf.view().cpu::<f32>() {
        Ok(values) => values.to_vec(),
        Err(_) => buf.view().cpu::<u8>().expect("u8").iter().map(|code| f32::from(*code)).collect(),
    }
}

/// Puts values back that [`values`] took.
fn put(mut to: ViewMut<'_>, values: &[f32]) {
    match to.reborrow().cpu::<f32>() {
        Ok(out) => out.copy_from_slice(values),
        Err(_) => {
            for (code, value) in to.cpu::<u8>().expect("u8").iter_mut().zip(values) {
                *code = *value as u8;
            }
        }
    }
}

/// Everything a checkpoint would hold.
fn state(trainer: &Trainer) -> Vec<(String, Vec<f32>)> {
    trainer.state().into_iter().map(|(name, buf)| (name, values(buf))).collect()
}

fn run(trainer: &mut Trainer, data: &Fixed) -> Vec<StepReport> {
    let from = trainer.cursor().step;
    (from..data.total_steps()).map(|s| trainer.step(&data.window(s).expect("a window")).expect("a step")).collect()
}
