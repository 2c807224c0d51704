//! Loss and perplexity of rows that are not trained on.

use super::window::Micro;
use crate::kernels::Pool;
use crate::model::{
    Extent, Form, Keep, Laid, LoraSettings, Model, Need, Pass, Planned, Shape, forward_only, score, specs,
};
use crate::text::{Fault, Result};

/// How well a model foretells held-out rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Eval {
    /// Mean over all counted tokens, in nats.
    pub loss: f64,
    /// e to the loss.
    pub perplexity: f64,
    pub counted: u64,
}

/// Buffers to evaluate with.
pub struct Evaluator {
    pass: Pass,
}

fn need(lora: Option<&LoraSettings>, extent: Extent, threads: usize) -> Need<'_> {
    Need { keep: Keep::Nothing, offload: false, extent, lora, keep_logits: false, threads }
}

/// What an [`Evaluator`] takes, by holding.
pub fn evaluation(
    shape: &Shape,
    form: Form,
    lora: Option<&LoraSettings>,
    extent: Extent,
    threads: usize,
) -> Result<Planned> {
    specs(shape, form, &need(lora, extent, threads))
}

impl Evaluator {
    /// Takes buffers for batches up to `extent`.
    pub fn new(model: &Model, extent: Extent, pool: &dyn Pool) -> Result<Evaluator> {
        let lora = model.adapter.as_ref().map(|adapter| &adapter.settings);
        let need = need(lora, extent, rayon::current_num_threads());
        Ok(Evaluator { pass: Pass::take(&model.shape, model.form, &need, pool)? })
    }

    pub fn run(&mut self, model: &Model, batches: &mut dyn Iterator<Item = Result<Micro>>) -> Result<Eval> {
        evaluate_in(&mut self.pass, model, batches)
    }
}

/// Evaluates in given buffers: the trainer's own serve, too.
pub(crate) fn evaluate_in(
    pass: &mut Pass,
    model: &Model,
    batches: &mut dyn Iterator<Item = Result<Micro>>,
) -> Result<Eval> {
    let (mut sum, mut counted) = (0.0, 0u64);
    for micro in batches {
        let micro = micro?;
        let batch = Laid::scored(&micro.batch(), &model.shape)?;
        if batch.counted() == 0 {
            continue;
        }
        forward_only(model, pass, &batch)?;
        sum += score(model, pass, &batch, None)?;
        counted += batch.counted() as u64;
    }
    if counted == 0 {
        return Err(Fault::new("eval.nothing", "no token of these rows counts in the loss")
            .note("every label is masked, so there is nothing to score")
            .help("train_on=all"));
    }
    let loss = sum / counted as f64;
    Ok(Eval { loss, perplexity: loss.exp(), counted })
}
