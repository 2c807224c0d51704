//! The optimizer step: gradients of a window of micro-batches, their norm, clipping, AdamW.

use serde::{Deserialize, Serialize};

use super::evaluate::{Eval, evaluate_in};
use super::moments::Pair;
use super::settings::{Optim, Settings};
use super::window::{Micro, Window};
use crate::kernels::{self, AdamW, Buf, Key, Pool, Spec, ViewMut, sum_squares};
use crate::model::{
    Adapter, Extent, Float, Form, FullGradients, Gradients, Keep, Laid, LoraSettings, Make, Model, Need, OFFLOADED,
    Pass, Planned, Proj, Shape, Weight, backward, backward_fused, forward, plan, score, score_backward, specs, take,
};
use crate::text::{Fault, Result};

/// What of a model is trained.
#[derive(Debug, Clone, PartialEq)]
pub enum Trainable {
    /// A fresh adapter.
    NewLora(LoraSettings),
    /// The adapter that the model has; it has to be the one described, but for dropout and seed.
    Lora(LoraSettings),
    /// Every weight, held in f32.
    Full,
}

impl Trainable {
    fn lora(&self) -> Option<&LoraSettings> {
        match self {
            Trainable::NewLora(lora) | Trainable::Lora(lora) => Some(lora),
            Trainable::Full => None,
        }
    }
}

/// What one optimizer step came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepReport {
    /// From 1.
    pub step: u64,
    pub epoch: f64,
    /// Mean over the window's counted tokens, in nats; 0 where none counts.
    pub loss: f64,
    pub lr: f64,
    /// Before clipping.
    pub grad_norm: f64,
    pub tokens: u64,
    pub counted: u64,
    /// Nothing was learnt and nothing changed: no token of the window counted, or loss or gradient were not finite and
    /// such steps are passed over.
    pub skipped: bool,
}

/// Where a run stands, beside its tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Optimizer steps done, skipped ones included: the index of the next window.
    pub step: u64,
    /// Updates made: AdamW's own count.
    pub updates: u64,
    /// Tokens and counted tokens seen.
    pub tokens: u64,
    pub counted: u64,
}

/// A model in training. It owns the model until [`Trainer::into_model`].
pub struct Trainer {
    model: Model,
    settings: Settings,
    total: u64,
    pass: Pass,
    grads: Gradients,
    moments: Vec<Pair>,
    cursor: Cursor,
}

fn need<'a>(trainable: &'a Trainable, settings: &Settings, extent: Extent, threads: usize) -> Need<'a> {
    Need {
        keep: if settings.recompute { Keep::Inputs } else { Keep::All },
        offload: settings.offload,
        extent,
        lora: trainable.lora(),
        keep_logits: !settings.free_logits,
        threads,
    }
}

/// Buffers like the trained parameters, in their order.
fn like_parameters<T>(
    shape: &Shape,
    trainable: &Trainable,
    holding: &'static str,
    make: Make<'_, T>,
) -> Result<Vec<T>> {
    match trainable.lora() {
        Some(lora) => {
            let pairs = Adapter::make_as(shape, lora, holding, make)?;
            Ok(pairs.into_iter().flatten().flat_map(|pair| [pair.a, pair.b]).collect())
        }
        None => shape.tensors().iter().map(|tensor| make(holding, Spec::f32(&tensor.shape))).collect(),
    }
}

fn moments<T>(shape: &Shape, trainable: &Trainable, optim: Optim, make: Make<'_, T>) -> Result<Vec<Pair<T>>> {
    let parameters = plan(|make| like_parameters(shape, trainable, "moments", make))?;
    let shapes: Vec<Vec<usize>> = parameters.into_iter().map(|(_, spec)| spec.shape).collect();
    super::moments::make(&shapes, optim, make)
}

/// The buffers of [`Gradients`], in its order.
fn gradients<T>(shape: &Shape, trainable: &Trainable, settings: &Settings, make: Make<'_, T>) -> Result<()> {
    match trainable.lora() {
        Some(lora) => Adapter::make_as(shape, lora, "gradients", make).map(drop),
        None => FullGradients::make(shape, settings.fused_step, make).map(drop),
    }
}

/// Everything that a [`Trainer`] takes beside the model it is given: adapter (where it is new), gradients, moments,
/// activations and scratch. `threads` is rayon's count where the run will be.
pub fn planned(
    shape: &Shape,
    form: Form,
    trainable: &Trainable,
    settings: &Settings,
    extent: Extent,
    threads: usize,
) -> Result<Planned> {
    let mut list = Vec::new();
    if let Trainable::NewLora(lora) = trainable {
        list.extend(Adapter::planned(shape, lora)?);
    }
    list.extend(plan(|make| gradients(shape, trainable, settings, make))?);
    list.extend(plan(|make| moments(shape, trainable, settings.optim, make))?);
    list.extend(specs(shape, form, &need(trainable, settings, extent, threads))?);
    Ok(list)
}

/// The tensors of [`Trainer::state`], by name and in its order, before there is a trainer.
pub fn state_specs(shape: &Shape, trainable: &Trainable, optim: Optim) -> Result<Vec<(String, Spec)>> {
    let make: Make<'_, Spec> = &mut |_, spec| Ok(spec);
    let params = like_parameters(shape, trainable, "parameters", make)?;
    let names: Vec<String> = match trainable.lora() {
        Some(lora) => {
            let halves = |(module, ..): (String, usize, usize)| {
                [format!("{module}.lora_A.weight"), format!("{module}.lora_B.weight")]
            };
            lora.modules(shape).into_iter().flat_map(halves).collect()
        }
        None => shape.tensors().iter().map(|tensor| tensor.name.clone()).collect(),
    };
    let pairs = moments(shape, trainable, optim, make)?;
    let mut list = Vec::with_capacity(3 * names.len());
    for ((name, param), pair) in names.iter().zip(params).zip(&pairs) {
        list.push((format!("{PARAMETER}{name}"), param));
        list.extend(pair.state(name).into_iter().map(|(name, spec)| (name, spec.clone())));
    }
    Ok(list)
}

/// How the names of parameters begin in [`Trainer::state`]: what is left of a state once training is over.
pub const PARAMETER: &str = "param.";

/// Which arguments a holding grows with, in the words of the stages.
pub fn grows_with(holding: &str) -> &'static str {
    match holding {
        "weights" | "embeddings" | "norms" => "the model",
        "adapter" => "rank, targets",
        "gradients" | "moments" => "what is trained",
        "saved activations" | OFFLOADED => "batch, max_len, layers",
        "activations" | "block activations" | "block scratch" | "activation gradients" => "batch, max_len",
        "counted rows" => "batch, max_len, what counts",
        "logits" => "batch, max_len, vocabulary",
        "kv cache" => "prompt, max_new, layers",
        "rotary tables" | "attention scratch" => "max_len",
        "weight scratch" | "read window" => "the largest layer",
        _ => "",
    }
}

impl Trainer {
    /// Takes all that training needs. `extent` covers every micro-batch of the run, and of its evaluations;
    /// `total` is the number of optimizer steps, which the schedule is laid over.
    pub fn new(
        mut model: Model,
        trainable: &Trainable,
        settings: Settings,
        total: u64,
        extent: Extent,
        pool: &dyn Pool,
    ) -> Result<Trainer> {
        settings.validate()?;
        ready(&mut model, trainable, pool)?;
        let shape = model.shape.clone();
        let grads = match trainable.lora() {
            Some(lora) => Gradients::Lora(take(pool, |make| Adapter::make_as(&shape, lora, "gradients", make))?),
            None => Gradients::Full(take(pool, |make| FullGradients::make(&shape, settings.fused_step, make))?),
        };
        let moments = take(pool, |make| moments(&shape, trainable, settings.optim, make))?;
        let need = need(trainable, &settings, extent, rayon::current_num_threads());
        let pass = Pass::take(&shape, model.form, &need, pool)?;
        let cursor = Cursor { step: 0, updates: 0, tokens: 0, counted: 0 };
        Ok(Trainer { model, settings, total, pass, grads, moments, cursor })
    }

    /// Learns from one window. Its gradient is the sum of the token losses' gradients over the number of counted
    /// tokens in the whole window, however the window is cut into micro-batches.
    pub fn step(&mut self, window: &Window) -> Result<StepReport> {
        let (tokens, counted) = (window.tokens(), window.counted());
        let step = self.cursor.step;
        let lr = self.settings.lr_at(step, self.total);
        let mut report = StepReport {
            step: step + 1,
            epoch: window.epoch,
            loss: 0.0,
            lr,
            grad_norm: 0.0,
            tokens,
            counted,
            skipped: counted == 0,
        };
        if counted > 0 {
            (report.loss, report.grad_norm) = match &self.grads {
                Gradients::Full(full) if full.is_fused() => self.learn_fused(window, counted, lr)?,
                _ => {
                    let loss = self.learn(window, counted)? / counted as f64;
                    let norm = self.norm()?;
                    if loss.is_finite() && norm.is_finite() {
                        self.update(lr, norm)?;
                    } else if self.settings.skip_not_finite {
                        report.skipped = true;
                    } else {
                        return Err(self.not_finite(loss, norm));
                    }
                    (loss, norm)
                }
            };
        }
        self.cursor.step += 1;
        self.cursor.tokens += tokens;
        self.cursor.counted += counted;
        Ok(report)
    }

    /// Fills `grads`; returns the sum of the token losses.
    fn learn(&mut self, window: &Window, counted: u64) -> Result<f64> {
        self.grads.clear()?;
        let scale = (1.0 / counted as f64) as f32;
        let mut sum = 0.0;
        for (at, micro) in (0u64..).zip(&window.micros) {
            if micro.counted() == 0 {
                continue;
            }
            let batch = Laid::scored(&micro.batch(), &self.model.shape)?;
            let key = Some(Key::new(self.settings.seed).with(self.cursor.step).with(at));
            let (model, pass, grads) = (&self.model, &mut self.pass, &mut self.grads);
            forward(model, pass, &batch, key)?;
            sum += score(model, pass, &batch, Some((&mut *grads, scale)))?;
            score_backward(model, pass, &batch, grads, scale)?;
            backward(model, pass, &batch, key, grads)?;
        }
        Ok(sum)
    }

    /// Learns from the window's one micro-batch and updates each block as soon as its gradients are whole. Returns loss and
    /// gradient norm, to the bit those of [`Trainer::learn`] and [`Trainer::update`] without clipping.
    fn learn_fused(&mut self, window: &Window, counted: u64, lr: f64) -> Result<(f64, f64)> {
        let [micro] = &window.micros[..] else {
            return Err(Fault::new("train.fused", "`fused_step` takes one batch an optimizer step"));
        };
        self.grads.clear()?;
        let batch = Laid::scored(&micro.batch(), &self.model.shape)?;
        let key = Some(Key::new(self.settings.seed).with(self.cursor.step).with(0));
        let scale = (1.0 / counted as f64) as f32;
        let step = self.cursor.updates + 1;
        let rule = AdamW { weight_decay: self.settings.weight_decay, ..AdamW::default() };
        let (model, pass, grads) = (&mut self.model, &mut self.pass, &mut self.grads);
        forward(model, pass, &batch, key)?;
        let loss = score(model, pass, &batch, Some((&mut *grads, scale)))? / counted as f64;
        if !loss.is_finite() {
            return Err(self.not_finite(loss, f64::NAN));
        }
        score_backward(model, pass, &batch, grads, scale)?;
        let (layers, per_layer, tail) = (model.shape.layers, model.shape.per_layer(), model.shape.final_norm_at());
        let mut squares = vec![0.0; self.moments.len()];
        let moments = &mut self.moments;
        let mut update = |model: &mut Model, grads: &mut Gradients, tensors: &mut dyn Iterator<Item = usize>| {
            let Gradients::Full(full) = grads else { return Ok(()) };
            for at in tensors {
                let (Some(Weight::Dense(p)), Some(pair), Some(square), Some(g)) =
                    (model.tensors.get_mut(at), moments.get_mut(at), squares.get_mut(at), full.get_mut(at))
                else {
                    return Err(Fault::new("train.fused", "a tensor has no gradient; this is a bug"));
                };
                *square = sum_squares(g.view())?;
                if !square.is_finite() {
                    return Err(Fault::new("train.not_finite", "a gradient is not finite")
                        .note("blocks above were updated already: this state is not one to go on from")
                        .help("a lower `lr=`, or a longer `warmup=`"));
                }
                pair.update(p.view_mut(), g.view(), lr, step, 1.0, &rule)?;
                kernels::fill(g.view_mut(), 0.0)?;
            }
            Ok(())
        };
        backward_fused(model, pass, &batch, key, grads, &mut |model, grads, layer| {
            let first = 1 + layer * per_layer;
            update(model, grads, &mut (first..first + per_layer))
        })?;
        debug_assert_eq!(tail, 1 + layers * per_layer);
        let outside = std::iter::once(Shape::EMBEDDING).chain(tail..model.tensors.len());
        update(model, grads, &mut outside.into_iter())?;
        self.cursor.updates = step;
        Ok((loss, squares.iter().sum::<f64>().sqrt()))
    }

    /// Euclidean norm of all gradients, summed in the order of the parameters.
    fn norm(&self) -> Result<f64> {
        let mut sum = 0.0;
        for grad in self.grads.buffers() {
            sum += sum_squares(grad.view())?;
        }
        Ok(sum.sqrt())
    }

    fn update(&mut self, lr: f64, norm: f64) -> Result<()> {
        let clip = self.settings.clip.map_or(1.0, |most| (most / (norm + 1e-6)).min(1.0)) as f32;
        let rule = AdamW { weight_decay: self.settings.weight_decay, ..AdamW::default() };
        let step = self.cursor.updates + 1;
        let grads = self.grads.buffers();
        let params = parameters_mut(&mut self.model, &self.grads);
        for ((p, moments), g) in params.into_iter().zip(&mut self.moments).zip(grads) {
            moments.update(p.view_mut(), g.view(), lr, step, clip, &rule)?;
        }
        self.cursor.updates = step;
        Ok(())
    }

    fn not_finite(&self, loss: f64, norm: f64) -> Fault {
        let fault = Fault::new(
            "train.not_finite",
            format!("step {} gives a loss of {loss} and a gradient norm of {norm}", self.cursor.step + 1),
        );
        if self.cursor.updates == 0 && !loss.is_finite() {
            return fault
                .note("nothing has been learnt yet, so it is the weights themselves that are damaged")
                .help("load the model from its source again, or in another `dtype=`");
        }
        fault
            .note("this step updated nothing; the update before it went too far, or its rows cannot be learnt from")
            .help(match self.settings.fused_step {
                true => "a lower `lr=`, or a longer `warmup=`",
                false => "a lower `lr=`, or a longer `warmup=`; `on_nan=skip` passes over such steps",
            })
    }

    /// Refuses parameters that the last update has broken.
    pub fn sound(&self) -> Result<()> {
        for (name, param) in parameters(&self.model, &self.grads) {
            if !sum_squares(param.view())?.is_finite() {
                return Err(Fault::new(
                    "train.not_finite",
                    format!("after step {} `{name}` is no longer finite", self.cursor.step),
                )
                .help("a lower `lr=`, or a longer `warmup=`"));
            }
        }
        Ok(())
    }

    /// Scores held-out rows in the trainer's own buffers.
    pub fn evaluate(&mut self, batches: &mut dyn Iterator<Item = Result<Micro>>) -> Result<Eval> {
        evaluate_in(&mut self.pass, &self.model, batches)
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Gradients of the last step by parameter, before clipping.
    pub fn gradients(&self) -> Vec<(String, &Buf)> {
        let names = parameters(&self.model, &self.grads).into_iter().map(|(name, _)| name);
        names.zip(self.grads.buffers()).collect()
    }

    /// Ends training: gradients, moments and activations are gone, the model is the caller's.
    pub fn into_model(self) -> Model {
        self.model
    }

    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Every tensor that a checkpoint has to hold, by name: `param.NAME`, `m.NAME`, `v.NAME`, in f32; of moments in 8
    /// bits the codes, u8, and beside them their scales, `m.NAME.absmax` and `v.NAME.absmax`.
    pub fn state(&self) -> Vec<(String, &Buf)> {
        let names = parameters(&self.model, &self.grads);
        let mut list = Vec::with_capacity(3 * names.len());
        for ((name, param), moments) in names.into_iter().zip(&self.moments) {
            list.push((format!("{PARAMETER}{name}"), param));
            list.extend(moments.state(&name));
        }
        list
    }

    /// Goes on where [`Trainer::state`] and [`Trainer::cursor`] were taken: `read` fills the tensor of each name.
    pub fn restore(&mut self, cursor: Cursor, read: &mut dyn FnMut(&str, ViewMut<'_>) -> Result<()>) -> Result<()> {
        let names: Vec<String> = parameters(&self.model, &self.grads).into_iter().map(|(name, _)| name).collect();
        let params = parameters_mut(&mut self.model, &self.grads);
        for ((name, p), moments) in names.iter().zip(params).zip(&mut self.moments) {
            read(&format!("{PARAMETER}{name}"), p.view_mut())?;
            for (name, buf) in moments.state_mut(name) {
                read(&name, buf.view_mut())?;
            }
        }
        self.cursor = cursor;
        Ok(())
    }

    /// Puts parameters in the place of the trainer's own, as `read` fills them by the names of [`Trainer::state`].
    pub fn replace_parameters(&mut self, read: &mut dyn FnMut(&str, ViewMut<'_>) -> Result<()>) -> Result<()> {
        let names: Vec<String> = parameters(&self.model, &self.grads).into_iter().map(|(name, _)| name).collect();
        let params = parameters_mut(&mut self.model, &self.grads);
        names.iter().zip(params).try_for_each(|(name, p)| read(&format!("{PARAMETER}{name}"), p.view_mut()))
    }
}

/// Brings the model into the state that `trainable` describes, or says why it cannot be.
fn ready(model: &mut Model, trainable: &Trainable, pool: &dyn Pool) -> Result<()> {
    match trainable {
        Trainable::Full => {
            if model.adapter.is_some() {
                return Err(Fault::new(
                    "train.adapted",
                    "full training of a model with an adapter would leave the adapter out",
                )
                .help("save merged first, and train what was saved"));
            }
            if model.tensors.iter().any(|weight| matches!(weight, Weight::Mapped(_))) {
                return Err(Fault::new(
                    "train.mapped",
                    "full training changes weights, and these lie in the model's files",
                )
                .help("leave `mapped` out of `load model`"));
            }
            if model.form != Form::dense(Float::F32) {
                return Err(Fault::new(
                    "train.needs_f32",
                    "full training updates every weight, and these are not held in f32",
                )
                .note("steps smaller than a bf16 weight's spacing would vanish")
                .help("load model … dtype=f32"));
            }
        }
        Trainable::NewLora(lora) => {
            if model.adapter.is_some() {
                return Err(Fault::new("train.adapted", "the model has an adapter already"));
            }
            model.adapter = Some(Adapter::new(&model.shape, lora.clone(), pool)?);
        }
        Trainable::Lora(lora) => {
            let Some(adapter) = &mut model.adapter else {
                return Err(Fault::new("train.no_adapter", "the model has no adapter to go on with"));
            };
            let has = &adapter.settings;
            let same_targets = Proj::ALL.iter().all(|p| has.targets.contains(p) == lora.targets.contains(p));
            if has.rank != lora.rank || !same_targets {
                let names: Vec<&str> = has.targets.iter().map(|proj| proj.name()).collect();
                let names = names.join(", ");
                return Err(Fault::new("train.other_adapter", "training asks for another adapter than the model has")
                    .note(format!("the model's has rank {} on {names}", has.rank))
                    .note("training goes on with that adapter, so rank and targets have to be its own")
                    .help(format!("rank={} targets=[{names}]", has.rank)));
            }
            adapter.settings.dropout = lora.dropout;
        }
    }
    Ok(())
}

/// The trained parameters with their names, in their order.
fn parameters<'a>(model: &'a Model, grads: &Gradients) -> Vec<(String, &'a Buf)> {
    match grads {
        Gradients::Lora(_) => model.adapter.iter().flat_map(Adapter::matrices).collect(),
        Gradients::Full(_) => {
            let dense = |weight: &'a Weight| if let Weight::Dense(buf) = weight { Some(buf) } else { None };
            model.shape.tensors().iter().map(|t| t.name.clone()).zip(model.tensors.iter().filter_map(dense)).collect()
        }
    }
}

fn parameters_mut<'a>(model: &'a mut Model, grads: &Gradients) -> Vec<&'a mut Buf> {
    match grads {
        Gradients::Lora(_) => model.adapter.iter_mut().flat_map(Adapter::matrices_mut).collect(),
        Gradients::Full(_) => {
            let dense = |weight: &'a mut Weight| if let Weight::Dense(buf) = weight { Some(buf) } else { None };
            model.tensors.iter_mut().filter_map(dense).collect()
        }
    }
}
