//! What `train lora` and `train full` share: settings, data, what is held, the loop.

use std::time::Instant;

use super::bridge::{holdings_of, packing};
use super::rows::{Rows, micro};
use super::world::{ModelDesc, blame, idle};
use super::{Body, Count, Desc, EvalSeen, Job, Lowered, Refusal, StepSeen, World};
use crate::data::Length;
use crate::memory::Phase;
use crate::model::{self, Extent, Way};
use crate::plan::{Step, Unit, Val, ValueId};
use crate::text::{Diagnostic, Fault, Result, Severity};
use crate::train::{self, Optim, Schedule, Settings, Trainable, Trainer, Warmup};

/// How often held-out rows are scored.
#[derive(Debug, Clone, Copy)]
enum Every {
    Steps(u64),
    Epochs(f64),
}

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
    let way = if trainable == Trainable::Full { Way::Weights } else { Way::Inputs };
    let mut learning = holdings.clone();
    learning.extend(packing(&model.shape, extent, learnt.window, way, world.target));
    let mut phases = vec![Phase::new("step", learning)];
    if let Some(scored) = &scored {
        // The trainer's buffers stay; its products do not come in a score.
        holdings.extend(packing(&model.shape, scored.extent, scored.window, Way::Forward, world.target));
        phases.push(Phase::new("evaluate", holdings));
    }
    match &trainable {
        Trainable::NewLora(lora) | Trainable::Lora(lora) => model.adapter = Some(lora.clone()),
        Trainable::Full => model.retrained = Some(step.line),
    }
    model.holdings.extend(adapter);
    let keeps = vec![world.kept(output, model.holdings.clone())];
    world.describe(output, Desc::Model(Box::new(model)));
    let body =
        Loop { stage: step.stage.clone(), input, output, trainable, settings, length, total, extent, every, data };
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
struct Data {
    train: Rows,
    held: Option<Rows>,
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
    let every = match args.val("eval_every") {
        Val::Quantity(steps, Unit::Steps) => Every::Steps((*steps as u64).max(1)),
        Val::Quantity(epochs, _) if *epochs > 0.0 => Every::Epochs(*epochs),
        _ => Every::Epochs(1.0),
    };
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
        eval_every: None,
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

/// The loop around the trainer.
struct Loop {
    stage: String,
    input: ValueId,
    output: ValueId,
    trainable: Trainable,
    settings: Settings,
    length: Length,
    total: u64,
    extent: Extent,
    every: Every,
    data: Data,
}

impl Body for Loop {
    fn run(self: Box<Self>, job: &mut Job<'_>) -> Result<()> {
        job.enter("step")?;
        let pool = job.pool();
        let model = job.take(self.input)?;
        let accum = self.settings.accum;
        let mut trainer = Trainer::new(model, &self.trainable, self.settings.clone(), self.total, self.extent, &pool)?;
        self.score(&mut trainer, job, 0)?;

        let encoded = self.data.train.encoded()?;
        let plan = self.data.train.batches(&encoded)?;
        let mut windows_of = (u64::MAX, 1u64);
        let mut done = 0.0f64;
        let mut scored_at = 0;
        let mut passed_over = 0u64;
        for window in plan.walk(self.length, accum, crate::data::Cursor::default()) {
            if windows_of.0 != window.at.epoch {
                windows_of =
                    (window.at.epoch, (plan.epoch(window.at.epoch).len() as u64).div_ceil(accum as u64).max(1));
            }
            let before = done;
            done = window.at.epoch as f64 + (window.at.window + 1) as f64 / windows_of.1 as f64;
            if window.counted == 0 {
                passed_over += 1;
                continue;
            }
            let started = Instant::now();
            let learnt = train::Window {
                micros: window.micros().map(|rows| micro(&encoded.tokens, rows)).collect(),
                epoch: done,
            };
            let report =
                trainer.step(&learnt).map_err(|fault| self.data.train.name_rows(&encoded, &learnt.rows(), fault))?;
            job.watch.step(&StepSeen {
                step: report.step,
                steps: self.total,
                epoch: report.epoch,
                loss: report.loss,
                lr: report.lr,
                grad_norm: report.grad_norm,
                tokens: report.tokens,
                counted: report.counted,
                seconds: started.elapsed().as_secs_f64(),
            });
            if self.due(report.step, before, done) {
                self.score(&mut trainer, job, report.step)?;
                scored_at = report.step;
            }
        }
        trainer.sound()?;
        let steps = trainer.cursor().step;
        if scored_at != steps {
            self.score(&mut trainer, job, steps)?;
        }
        if passed_over > 0 {
            job.watch.note(&format!("{passed_over} windows had no token that counts, and made no step"));
        }
        job.put(self.output, trainer.into_model());
        Ok(())
    }
}

impl Loop {
    /// Whether held-out rows are scored after this step.
    fn due(&self, step: u64, before: f64, after: f64) -> bool {
        match self.every {
            Every::Steps(n) => step.is_multiple_of(n),
            // A quarter epoch is never exactly a quarter in floating point.
            Every::Epochs(epochs) => ((after + 1e-9) / epochs).floor() > ((before + 1e-9) / epochs).floor(),
        }
    }

    fn score(&self, trainer: &mut Trainer, job: &mut Job<'_>, step: u64) -> Result<()> {
        let Some(held) = &self.data.held else { return Ok(()) };
        job.enter("evaluate")?;
        let encoded = held.encoded()?;
        let batches = held.epoch(&encoded)?;
        let total = batches.len() as u64;
        let watch = &mut job.watch;
        let eval = trainer.evaluate(&mut (0..batches.len()).map(|at| {
            watch.progress("scoring", at as u64, total, Count::Batches);
            Ok(micro(&encoded.tokens, batches.micro(at)))
        }))?;
        watch.finish();
        if !eval.loss.is_finite() {
            return Err(match step {
                0 => super::eval::not_finite(eval.loss),
                _ => super::eval::not_finite(eval.loss).help("a lower `lr=`, or a longer `warmup=`"),
            });
        }
        let seen = EvalSeen { step: Some(step), loss: eval.loss, perplexity: eval.perplexity, counted: eval.counted };
        job.watch.eval(&self.stage, &seen);
        job.enter("step")
    }
}
