//! The model without training: logits of a text, and writing on from a prompt with a cache of keys and values.

use super::activations::{Keep, Need, Pass, specs};
use super::adapter::LoraSettings;
use super::batch::{Extent, Laid};
use super::forward::forward;
use super::held::Model;
use super::parts::Planned;
use super::shape::Shape;
use super::top::logits_of;
use super::weight::Form;
use crate::kernels::{Key, Pool, uniform};
use crate::text::{Fault, Result};

/// How the next token is chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Tokens to write at most.
    pub max_new: usize,
    /// 0: always the likeliest token, the lowest id among equals.
    pub temperature: f64,
    /// Only the smallest set of tokens with this probability is drawn from.
    pub top_p: f64,
    /// Of the draws: the same prompt, settings and seed give the same text.
    pub seed: u64,
    /// Tokens that end the text; they are not handed out.
    pub stop: Vec<u32>,
}

/// What [`generate`] takes, by holding.
pub fn generation(
    shape: &Shape,
    form: Form,
    lora: Option<&LoraSettings>,
    prompt: usize,
    max_new: usize,
    threads: usize,
) -> Result<Planned> {
    specs(shape, form, &generation_need(shape, lora, prompt, max_new, threads))
}

fn generation_need<'a>(
    shape: &Shape,
    lora: Option<&'a LoraSettings>,
    prompt: usize,
    max_new: usize,
    threads: usize,
) -> Need<'a> {
    let positions = prompt.saturating_add(max_new).min(shape.max_positions);
    Need {
        keep: Keep::Cache { positions },
        offload: false,
        extent: Extent { tokens: prompt, counted: 1, longest: positions },
        lora,
        keep_logits: false,
        threads,
    }
}

/// Writes on from `prompt` and returns the new tokens. `on_token` sees each as it comes and ends the text with
/// `false`; it also ends at a stop token, and at the end of the model's positions.
pub fn generate(
    model: &Model,
    prompt: &[u32],
    sampling: &Sampling,
    pool: &dyn Pool,
    on_token: &mut dyn FnMut(u32) -> bool,
) -> Result<Vec<u32>> {
    if prompt.is_empty() {
        return Err(Fault::new("batch.empty", "there is no token to write on from").help("give a prompt"));
    }
    let most = model.shape.max_positions;
    if prompt.len() >= most {
        return Err(Fault::new(
            "model.too_long",
            format!("the prompt has {} tokens, and the model was made for {most}", prompt.len()),
        )
        .help("shorten the prompt"));
    }
    let lora = model.adapter.as_ref().map(|adapter| &adapter.settings);
    let need = generation_need(&model.shape, lora, prompt.len(), sampling.max_new, rayon::current_num_threads());
    let mut pass = Pass::take(&model.shape, model.form, &need, pool)?;
    let Extent { longest: positions, .. } = need.extent;
    let mut written: Vec<u32> = Vec::new();
    let mut past = 0;
    let mut next = prompt.to_vec();
    while written.len() < sampling.max_new && past + next.len() <= positions {
        let last = u32::try_from(next.len() - 1).unwrap_or(u32::MAX);
        let batch = Laid::continued(&next, past, vec![last], &model.shape)?;
        forward(model, &mut pass, &batch, None)?;
        let mut token = 0;
        logits_of(model, &mut pass, &batch, &mut |_, logits| {
            token = choose(logits.cpu::<f32>()?, sampling, written.len() as u64)?;
            Ok(())
        })?;
        past += next.len();
        if sampling.stop.contains(&token) {
            break;
        }
        written.push(token);
        if !on_token(token) {
            break;
        }
        next = vec![token];
    }
    Ok(written)
}

/// The token for one row of logits; `draw` counts the draws of this text.
fn choose(logits: &[f32], sampling: &Sampling, draw: u64) -> Result<u32> {
    if logits.iter().any(|x| x.is_nan()) {
        return Err(Fault::new("model.not_finite", "the model computes NaN for the next token")
            .note("its weights are damaged, or training has diverged"));
    }
    let best = logits.iter().enumerate().fold(0, |best, (i, x)| if *x > logits[best] { i } else { best });
    if sampling.temperature <= 0.0 {
        return Ok(best as u32);
    }
    let top = f64::from(logits[best]);
    let mut mass: Vec<(u32, f64)> =
        (0u32..).zip(logits).map(|(id, x)| (id, ((f64::from(*x) - top) / sampling.temperature).exp())).collect();
    // Likeliest first, ids among equals, so that the set and the draw are well defined.
    mass.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let all: f64 = mass.iter().map(|(_, p)| p).sum();
    let mut kept = 0;
    let mut sum = 0.0;
    for (_, p) in &mass {
        sum += p;
        kept += 1;
        if sum >= sampling.top_p * all {
            break;
        }
    }
    let mut point = f64::from(uniform(Key::new(sampling.seed), draw)) * sum;
    for (id, p) in &mass[..kept] {
        point -= p;
        if point < 0.0 {
            return Ok(*id);
        }
    }
    Ok(mass[kept - 1].0)
}

/// Logits of every position of one text, `[ids, vocab]` row-major: for tests and for comparing with other programs.
pub fn logits(model: &Model, ids: &[u32], pool: &dyn Pool) -> Result<Vec<f32>> {
    let rows: Vec<u32> = (0u32..).take(ids.len()).collect();
    let batch = Laid::continued(ids, 0, rows, &model.shape)?;
    let need = Need {
        keep: Keep::Nothing,
        offload: false,
        extent: batch.extent(),
        lora: model.adapter.as_ref().map(|adapter| &adapter.settings),
        keep_logits: false,
        threads: rayon::current_num_threads(),
    };
    let mut pass = Pass::take(&model.shape, model.form, &need, pool)?;
    forward(model, &mut pass, &batch, None)?;
    let mut all = Vec::with_capacity(ids.len() * model.shape.vocab);
    logits_of(model, &mut pass, &batch, &mut |_, logits| {
        all.extend_from_slice(logits.cpu::<f32>()?);
        Ok(())
    })?;
    Ok(all)
}
