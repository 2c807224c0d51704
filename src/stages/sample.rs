//! `sample`: writes on from a prompt, so that a person sees what changed.

use super::bridge::{holdings_of, packing};
use super::watch::stopped;
use super::world::{blame, idle, none_idle};
use super::{Body, Job, Lowered, Refusal, Stage, World};
use crate::data::{ChatTemplate, Decoder, PromptStyle, render_prompt};
use crate::memory::{Holding, Phase, Place};
use crate::model::{self, Extent, Sampling, Way};
use crate::plan::{Step, ValueId};
use crate::text::{Diagnostic, Fault, Result};

pub struct Sample;

impl Stage for Sample {
    fn name(&self) -> &'static str {
        "sample"
    }

    fn lower(&self, step: &Step, world: &mut World<'_>) -> Result<Lowered, Refusal> {
        let model = world.model(step)?;
        let Some(id) = step.input("model") else { return Err(Vec::new()) };
        if step.args.float("temperature") == 0.0 {
            let why = "at temperature 0 the likeliest token is taken, and nothing is drawn";
            none_idle([idle(step, "top_p", why), idle(step, "seed", why)])?;
        }
        let prompt = step.args.text("prompt").unwrap_or_default().to_owned();
        let settings = Sampling {
            max_new: step.args.count("max_new"),
            temperature: step.args.float("temperature"),
            top_p: step.args.float("top_p"),
            seed: super::train::seed(step),
            stop: model.tokenizer.as_ref().map_or_else(Vec::new, |t| t.stop_ids().to_vec()),
        };
        let Some(tokenizer) = model.tokenizer.clone() else {
            if matches!(model.origin, super::Origin::Absent) {
                // Planned from the shape: a prompt of that many bytes has no more tokens.
                return planned(step, world, &model, id, prompt.len() + 64, settings, None);
            }
            return Err(vec![
                Diagnostic::error("tokenizer.missing", "a prompt cannot be read without a tokenizer")
                    .label(step.name_span, "needs one")
                    .help("name one on `load model`: `tokenizer=\"path/to/tokenizer.json\"`"),
            ]);
        };
        let fail = |fault: Fault| vec![blame(step, "prompt", &fault)];
        let template = ChatTemplate::choose(model.template.as_deref(), &tokenizer).map_err(fail)?;
        let style = match step.args.text("format") {
            Some("raw") => PromptStyle::Raw,
            Some("chat") => PromptStyle::Chat,
            Some("alpaca") => PromptStyle::Alpaca,
            _ => PromptStyle::Auto,
        };
        let ids = render_prompt(&prompt, style, &tokenizer, template.as_ref()).map_err(fail)?;
        if ids.is_empty() {
            return Err(vec![
                Diagnostic::error("sample.empty", "an empty prompt gives the model nothing to write on from")
                    .label(step.args.span("prompt").unwrap_or(step.name_span), "no token in here"),
            ]);
        }
        let decoder = tokenizer.decoder();
        // Until the last answer is written out; what else there is of the tokenizer goes before the run.
        world.resident(decoder.address(), Holding::new("tokenizer", Place::Ram, decoder.bytes(), ""));
        planned(step, world, &model, id, ids.len(), settings, Some(Written { prompt, ids, decoder }))
    }
}

/// A prompt, and what writes its answer out.
struct Written {
    prompt: String,
    ids: Vec<u32>,
    decoder: Decoder,
}

/// The stage with a prompt of so many tokens; `written` where it could be read.
fn planned(
    step: &Step,
    world: &mut World<'_>,
    model: &super::ModelDesc,
    id: ValueId,
    prompt_tokens: usize,
    settings: Sampling,
    written: Option<Written>,
) -> Result<Lowered, Refusal> {
    if prompt_tokens >= model.shape.max_positions {
        let most = model.shape.max_positions;
        return Err(vec![
            Diagnostic::error(
                "sample.too_long",
                format!("the prompt has {prompt_tokens} tokens, and the model was made for {most}"),
            )
            .label(step.args.span("prompt").unwrap_or(step.name_span), "leaves no room to write on")
            .help("shorten the prompt"),
        ]);
    }
    let fail = |fault: Fault| vec![blame(step, "max_new", &fault)];
    let planned = model::generation(
        &model.shape,
        model.form,
        model.adapter.as_ref(),
        prompt_tokens,
        settings.max_new,
        world.target.threads,
    )
    .map_err(fail)?;
    let mut holdings = holdings_of(&planned, world.target.place(), "prompt max_new").map_err(fail)?;
    world.target.resize(&mut holdings, model.form);
    let extent = Extent { tokens: prompt_tokens, counted: 1, longest: prompt_tokens };
    holdings.extend(packing(&model.shape, extent, extent.counted, Way::Forward, world.target));
    Ok(Lowered {
        phases: vec![Phase::new("write on", holdings)],
        keeps: Vec::new(),
        body: Box::new(WriteOn { id, settings, written }),
    })
}

struct WriteOn {
    id: ValueId,
    settings: Sampling,
    written: Option<Written>,
}

impl Body for WriteOn {
    fn run(self: Box<Self>, job: &mut Job<'_>) -> Result<()> {
        job.enter("write on")?;
        let Some(Written { prompt, ids, decoder }) = self.written else {
            return Err(Fault::new("tokenizer.missing", "a prompt cannot be read without a tokenizer"));
        };
        let pool = job.pool();
        let model = job.borrow(self.id)?;
        let stop = job.stop();
        let answer = model::generate(model, &ids, &self.settings, &pool, &mut |_| !stop())?;
        if stop() {
            return Err(stopped("interrupted while an answer was being written"));
        }
        let text = decoder.decode(&answer)?;
        job.watch.sample(&prompt, &text);
        Ok(())
    }
}
