//! What `train lora` and `train full` share: settings, data, what is held.

use super::bridge::{holdings_of, packing};
use super::checkpoint::{self, Every, Keeping, Sizes};
use super::rows::Rows;
use super::train_loop::Loop;
use super::world::{ModelDesc, blame, idle};
use super::{Desc, Lowered, Refusal, World};
use crate::data::Length;
use crate::memory::{Kept, Phase};
use crate::model::{self, Way};
use crate::plan::{Step, Unit, Val};
use crate::text::{Diagnostic, Fault, Severity};
use crate::train::{self, Optim, Schedule, Settings, Trainable, Warmup};

/// Lowers a training stage whose trainable part is known.
pub fn lower(
    step: &Step,
    world: &mut World<'_>,
    mut model: ModelDesc,
    trainable: Trainable,
) -> Result<Lowered, Refusal> {
    let (Some(input), Some(output)) = (step.input("model"), step.makes.first().copied()) else {
        return Err(Vec::new());
    };
    let (mut settings, length, every) = settings(step)?;
    settings.validate().map_err(|fault| vec![blame(step, argument_of(&fault), &fault)])?;
    settings.offload = offloads(step, world, &model)?;
    let data = Data::find(step, world, &model, &settings)?;
    if data.held.is_none() {
        let idle = idle(step, "eval_every", "no row is held out to be scored: `holdout=` on `load data`, or `valid=`");
        world.warnings.extend(idle.map(|mut idle| {
            idle.severity = Severity::Warning;
            idle
        }));
    }
    let keeping = Keeping::of(step, data.held.is_some())?;
    let total = data.train.total_steps(length, settings.accum);
    if total == 0 {
        return Err(vec![
            Diagnostic::error("train.no_step", "there is no optimizer step to make")
                .label(step.name_span, "no window of the data has a token that counts"),
        ]);
    }
    if settings.warmup_steps(total) >= total {
        world.warnings.push(
            Diagnostic::warning("train.warmup", "the learning rate never reaches its peak")
                .label(step.args.span("warmup").unwrap_or(step.name_span), format!("training has {total} steps")),
        );
    }
    let fail = |fault: Fault| vec![blame(step, "batch", &fault)];
    let learnt = data.train.largest_of_run(length, settings.accum).map_err(fail)?;
    let scored = data.held.as_ref().map(Rows::largest).transpose().map_err(fail)?;
    let extent = scored.as_ref().map_or(learnt.extent, |scored| learnt.extent.max(scored.extent));
    let by = match &scored {
        Some(scored) if scored.extent.tokens > learnt.extent.tokens => scored.words.as_deref(),
        _ => learnt.words.as_deref(),
    };
    if let Some(words) = by {
        world.remark(format!("line {}: {words}", step.line));
    }
    if extent.longest > model.shape.max_positions {
        return Err(vec![too_long(step, extent.longest, &model)]);
    }
    let place = world.target.place();
    let planned =
        train::planned(&model.shape, model.form, &trainable, &settings, extent, world.target.threads).map_err(fail)?;
    let mut holdings = holdings_of(&planned, place, "").map_err(fail)?;
    for holding in &mut holdings {
        holding.grows = train::grows_with(&holding.name);
    }
    world.target.resize(&mut holdings, model.form);
    let adapter: Vec<_> = holdings.iter().filter(|holding| holding.name == "adapter").cloned().collect();
    let fail = |fault: Fault| vec![blame(step, "keep_last", &fault)];
    let sizes = match keeping.every {
        None => None,
        Some(_) => {
            let state = train::state_specs(&model.shape, &trainable, settings.optim).map_err(fail)?;
            let stopped = world.facts.run_home().is_some_and(|home| home.is_earlier());
            let sizes = Sizes::of(state, &keeping, total, data.train.epochs(length, settings.accum), stopped);
            Some(sizes.map_err(fail)?)
        }
    };
    let beside = sizes.as_ref().and_then(Sizes::beside_steps);
    let way = if trainable == Trainable::Full { Way::Weights } else { Way::Inputs };
    let mut learning = holdings.clone();
    learning.extend(packing(&model.shape, extent, learnt.window, way, world.target));
    learning.extend(beside.clone());
    let mut phases = vec![Phase::new("step", learning)];
    if let Some(scored) = &scored {
        // The trainer's buffers stay; its products do not come in a score.
        let mut scoring = holdings.clone();
        scoring.extend(packing(&model.shape, scored.extent, scored.window, Way::Forward, world.target));
        scoring.extend(beside);
        phases.push(Phase::new("evaluate", scoring));
    }
    if let Some(sizes) = &sizes {
        phases.extend(sizes.phases(&holdings));
        checkpoint::writes(world, sizes);
    }
    match &trainable {
        Trainable::NewLora(lora) | Trainable::Lora(lora) => model.adapter = Some(lora.clone()),
        Trainable::Full => model.retrained = Some(step.line),
    }
    model.holdings.extend(adapter);
    let mut keeps = vec![world.kept(output, model.holdings.clone())];
    keeps.extend(sizes.as_ref().and_then(Sizes::after).map(|left| Kept { holdings: vec![left], until: usize::MAX }));
    world.describe(output, Desc::Model(Box::new(model)));
    let body = Loop {
        stage: step.stage.clone(),
        input,
        output,
        trainable,
        settings,
        length,
        total,
        extent,
        every,
        keeping,
        sizes,
        data,
    };
    Ok(Lowered { phases, keeps, body: Box::new(body) })
}

/// Whether saved activations wait in RAM on this target. Asked for where that would change nothing on any target, it is
/// an error.
fn offloads(step: &Step, world: &mut World<'_>, model: &ModelDesc) -> Result<bool, Refusal> {
    if step.args.is_none("offload") {
        return Ok(false);
    }
    let at = step.args.span("offload").unwrap_or(step.name_span);
    let idle = |why: String, help: &str| {
        vec![Diagnostic::error("arg.idle", "`offload` changes nothing here").label(at, why).help(help)]
    };
    let layers = model.shape.layers;
    if model::waiting(layers) == 0 {
        let why = format!("a card holds two blocks anyway, and the model has {layers}");
        return Err(idle(why, "leave `offload` out"));
    }
    if world.target.gpu {
        return Ok(true);
    }
    if world.plan.budgets.iter().any(|budget| budget.device.gpu.is_some()) {
        world.remark("on a processor activations lie in RAM already: `offload` is for the card");
        return Ok(false);
    }
    let why = "activations lie in RAM already: there is no card".to_owned();
    Err(idle(why, "`recompute` instead, which keeps block inputs only; or a `budget` line with a card"))
}

/// The rows that training sees, and those it is scored on.
pub(super) struct Data {
    pub train: Rows,
    pub held: Option<Rows>,
}

impl Data {
    fn find(step: &Step, world: &mut World<'_>, model: &ModelDesc, settings: &Settings) -> Result<Self, Refusal> {
        let Some(desc) = world.data(step, "data")? else { return Err(Vec::new()) };
        let train = Rows::of(step, "data", &desc, model, world, settings.batch, settings.seed)?;
        let held = match world.data(step, "valid")? {
            Some(valid) => Some(Rows::of(step, "valid", &valid, model, world, settings.batch, settings.seed)?.whole()),
            None => train.held_out(),
        };
        Ok(Data { train: train.to_train(), held })
    }
}

fn settings(step: &Step) -> Result<(Settings, Length, Every), Refusal> {
    let args = &step.args;
    if args.given("steps") && args.given("epochs") {
        return Err(vec![
            Diagnostic::error("train.length", "a training is so many steps or so many epochs long, not both")
                .label(args.span("steps").unwrap_or(step.name_span), "steps")
                .label(args.span("epochs").unwrap_or(step.name_span), "epochs")
                .help("leave one of them out"),
        ]);
    }
    let length = match args.is_none("steps") {
        true => Length::Epochs(args.count("epochs") as u64),
        false => Length::Steps(args.count("steps") as u64),
    };
    let warmup = match args.val("warmup") {
        Val::Quantity(steps, Unit::Steps) => Warmup::Steps(*steps as u64),
        Val::Quantity(percent, _) => Warmup::Percent(*percent),
        _ => Warmup::Steps(0),
    };
    let every = Every::of(args.val("eval_every")).unwrap_or(Every::Epochs(1.0));
    let settings = Settings {
        length: match length {
            Length::Epochs(epochs) => train::Length::Epochs(epochs),
            Length::Steps(steps) => train::Length::Steps(steps),
        },
        batch: args.count("batch"),
        accum: args.count("accum"),
        lr: args.float("lr"),
        schedule: match args.text("schedule") {
            Some("constant") => Schedule::Constant,
            Some("linear") => Schedule::Linear,
            _ => Schedule::Cosine,
        },
        warmup,
        weight_decay: args.float("weight_decay"),
        optim: match args.text("optim") {
            Some("adamw8bit") => Optim::AdamW8bit,
            _ => Optim::AdamW,
        },
        clip: (!args.is_none("clip")).then(|| args.float("clip")),
        seed: seed(step),
        recompute: args.flag("recompute"),
        offload: false,
        free_logits: args.flag("free_logits"),
        fused_step: args.get("fused_step").is_some() && args.flag("fused_step"),
        skip_not_finite: args.text("on_nan") == Some("skip"),
    };
    Ok((settings, length, every))
}

pub fn seed(step: &Step) -> u64 {
    step.args.int("seed").and_then(|seed| u64::try_from(seed).ok()).unwrap_or(0)
}

/// Which argument a fault of the settings is about.
fn argument_of(fault: &Fault) -> &'static str {
    ["clip", "warmup", "weight decay", "learning rate"].into_iter().find(|word| fault.message.contains(word)).map_or(
        "lr",
        |word| match word {
            "weight decay" => "weight_decay",
            "learning rate" => "lr",
            other => other,
        },
    )
}

pub fn too_long(step: &Step, longest: usize, model: &ModelDesc) -> Diagnostic {
    let most = model.shape.max_positions;
    Diagnostic::error(
        "data.too_long",
        format!("the longest row has {longest} tokens, and the model was made for {most}"),
    )
    .label(step.name_span, "meets that row here")
    .help(format!("on `load data`: max_len={most} long=truncate, long=split or long=drop"))
}
