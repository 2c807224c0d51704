//! `train lora`: low-rank adapters on the linear layers of a frozen model.

use super::train::{self, seed};
use super::{Lowered, Refusal, Stage, World};
use crate::model::{LoraSettings, Proj};
use crate::plan::Step;
use crate::text::Diagnostic;
use crate::train::Trainable;

pub struct TrainLora;

impl Stage for TrainLora {
    fn name(&self) -> &'static str {
        "train lora"
    }

    fn learns(&self) -> bool {
        true
    }

    fn lower(&self, step: &Step, world: &mut World<'_>) -> Result<Lowered, Refusal> {
        let model = world.model(step)?;
        let asked = asked(step)?;
        let trainable = match &model.adapter {
            None => Trainable::NewLora(asked),
            Some(own) => Trainable::Lora(go_on(step, own, asked)?),
        };
        train::lower(step, world, model, trainable)
    }
}

fn asked(step: &Step) -> Result<LoraSettings, Refusal> {
    let args = &step.args;
    if args.given("targets") && args.text("targets").is_none() && args.texts("targets").is_empty() {
        return Err(no_target(step));
    }
    let named: Vec<Proj> = args.texts("targets").iter().filter_map(|name| Proj::from_name(name)).collect();
    let mut targets = if named.is_empty() { Proj::ALL.to_vec() } else { named };
    targets.sort();
    if let Some(pair) = targets.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(vec![
            Diagnostic::error("arg.twice", format!("`{}` is named twice", pair[0].name()))
                .label(step.args.span("targets").unwrap_or(step.name_span), "each layer takes one adapter")
                .help("name it once"),
        ]);
    }
    if args.float("dropout") >= 1.0 {
        return Err(vec![
            Diagnostic::error("adapter.dropout", "a dropout of 1 leaves nothing of the adapter's input")
                .label(step.args.span("dropout").unwrap_or(step.name_span), "drops everything")
                .help("dropout=0.05"),
        ]);
    }
    Ok(LoraSettings {
        rank: args.count("rank"),
        alpha: args.float("alpha"),
        dropout: args.float("dropout") as f32,
        targets,
        root_scale: false,
        seed: seed(step),
    })
}

fn no_target(step: &Step) -> Refusal {
    vec![
        Diagnostic::error("adapter.empty", "an adapter on no layer has nothing to train")
            .label(step.args.span("targets").unwrap_or(step.name_span), "names no layer")
            .help("targets=[q_proj v_proj], or leave it out for all linear layers"),
    ]
}

/// Training goes on with the adapter there is: what it is made of stays, and contradicting it is an error.
fn go_on(step: &Step, own: &LoraSettings, asked: LoraSettings) -> Result<LoraSettings, Refusal> {
    let mut wrong = Vec::new();
    let mut contradict = |argument: &str, differs: bool, has: String| {
        if differs && let Some(span) = step.args.span(argument) {
            wrong.push(
                Diagnostic::error("train.other_adapter", format!("the model's adapter has {has}"))
                    .label(span, "training goes on with that adapter")
                    .help(format!("leave `{argument}` out")),
            );
        }
    };
    contradict("rank", asked.rank != own.rank, format!("rank {}", own.rank));
    contradict("alpha", asked.alpha != own.alpha, format!("alpha {}", own.alpha));
    let names: Vec<&str> = own.targets.iter().map(|proj| proj.name()).collect();
    contradict("targets", asked.targets != own.targets, format!("the targets {}", names.join(", ")));
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let dropout = if step.args.given("dropout") { asked.dropout } else { own.dropout };
    Ok(LoraSettings { dropout, seed: asked.seed, ..own.clone() })
}
