//! `load model`: a model from its files, or a new one from a shape.
//!
//! Where the very next use of the model is `quantize`, nothing is read here: the quantiser reads tensor by tensor, so
//! that no full-width model is ever held.

use std::sync::Arc;

use super::bridge::{FileWeights, Stoppable, holdings_of};
use super::mapped::mapping;
use super::world::{ModelDesc, Origin, blame, idle, none_idle};
use super::{Body, Count, Desc, Job, Lowered, Refusal, Stage, World};
use crate::catalog::Catalog;
use crate::data::{ChatTemplate, Tokenizer};
use crate::memory::Phase;
use crate::model::{self, Family, Float, Form, Mapping, Model, Random, Shape};
use crate::plan::{Step, ValueId};
use crate::store::StoredType;
use crate::text::{Diagnostic, Fault, Result};

pub struct LoadModel;

impl Stage for LoadModel {
    fn name(&self) -> &'static str {
        "load model"
    }

    fn lower(&self, step: &Step, world: &mut World<'_>) -> Result<Lowered, Refusal> {
        let Some(id) = step.makes.first().copied() else { return Err(Vec::new()) };
        if step.args.text("init") != Some("random") {
            none_idle([idle(step, "seed", "only `init=random` draws weights")])?;
        }
        let named = named_shape(step)?;
        let (origin, shape) = origin(step, named, world)?;
        sized_only(step, &shape, world);
        let tokenizer = tokenizer(step, &origin, &shape, world)?;
        if let Some(tokenizer) = &tokenizer {
            world.reads_with(tokenizer);
        }
        if let (Some(template), Some(tokenizer)) = (step.args.text("template"), &tokenizer) {
            ChatTemplate::choose(Some(template), tokenizer).map_err(|f| vec![blame(step, "template", &f)])?;
        }
        foreign_template(step, tokenizer.as_deref(), world);
        let float = dtype(step, world)?;
        let form = Form::dense(float);
        let taker = quantiser(world, id);
        let resident = taker.is_none();
        // A quantiser that reads for itself leaves what it does not quantise where it lies.
        let read_as = taker.map_or(form, |taker| form.quantised(taker.args.count("block"), false));
        let mapping = Arc::new(mapping(step, world, &origin, &shape, read_as)?);
        let place = world.target.place();
        let holdings = holdings_of(
            &model::holdings(&shape, form, &mapping).map_err(|f| vec![blame(step, "path", &f)])?,
            place,
            "",
        )
        .map_err(|f| vec![blame(step, "path", &f)])?;

        let save_as = match &origin {
            Origin::Files(files) => files.source.save_dtype(),
            _ => StoredType::BF16,
        };
        let template = step.args.text("template").map(str::to_owned);
        let base_name = step.args.path("path").map_or_else(|| "random".to_owned(), |p| p.display().to_string());
        let desc = ModelDesc {
            origin: origin.clone(),
            shape: shape.clone(),
            tokenizer,
            template,
            form,
            mapping: mapping.clone(),
            mapped_by: (!mapping.is_empty()).then(|| step.args.span("mapped").unwrap_or(step.name_span)),
            resident,
            adapter: None,
            retrained: None,
            save_as,
            base_name,
            holdings: if resident { holdings.clone() } else { Vec::new() },
        };
        world.describe(id, Desc::Model(Box::new(desc)));

        let mut phases = Vec::new();
        let mut keeps = Vec::new();
        let mut body: Box<dyn Body> = Box::new(Open);
        if resident {
            let mut reading = holdings.clone();
            let window = model::reading(&shape, form, &mapping).and_then(|planned| holdings_of(&planned, place, ""));
            reading.extend(window.map_err(|f| vec![blame(step, "path", &f)])?);
            phases.push(Phase::new("read", reading));
            keeps.push(world.kept(id, holdings));
            body = Box::new(Read { id, origin: origin.weights(), shape, form, mapping });
        } else {
            phases.push(Phase::new("open", Vec::new()));
        }
        Ok(Lowered { phases, keeps, body })
    }
}

/// A family whose arithmetic is not here can still be planned.
fn sized_only(step: &Step, shape: &Shape, world: &mut World<'_>) {
    if shape.family.runs() {
        return;
    }
    let name = shape.family.name();
    world.remark(format!(
        "the family `{name}` is sized, not runnable: its activations are planned as a llama's of these sizes"
    ));
    let fault = Fault::new("model.family", format!("models of the family `{name}` cannot be trained here"))
        .note(format!("families that can: {}", Family::runnable()));
    world.not_runnable.push(blame(step, "shape", &fault));
}

/// Reads the weights.
struct Read {
    id: ValueId,
    origin: Origin,
    shape: Arc<Shape>,
    form: Form,
    mapping: Arc<Mapping>,
}

impl Body for Read {
    fn run(self: Box<Self>, job: &mut Job<'_>) -> Result<()> {
        job.enter("read")?;
        let pool = job.pool();
        let model = read_model(&self.origin, &self.shape, self.form, &self.mapping, &pool, job, "reading weights")?;
        job.put(self.id, model);
        Ok(())
    }
}

/// Reads a model in the form asked for, with progress.
pub(super) fn read_model(
    origin: &Origin,
    shape: &Shape,
    form: Form,
    mapping: &Mapping,
    pool: &dyn crate::kernels::Pool,
    job: &mut Job<'_>,
    what: &str,
) -> Result<Model> {
    let total: u64 = shape.parameters();
    let mut done = 0u64;
    let stop = job.stop();
    let watch = &mut job.watch;
    let mut progress = |_: &str, values: u64| {
        done += values;
        watch.progress(what, done, total, Count::Values);
    };
    match origin {
        Origin::Files(files) => {
            let source = Stoppable { of: &FileWeights(&files.source), stop };
            Model::read_mapped(shape, &source, form, mapping, pool, &mut progress)
        }
        Origin::Random { seed } => {
            let source = Stoppable { of: &Random::new(*seed, shape), stop };
            Model::read(shape, &source, form, pool, &mut progress)
        }
        Origin::Absent => Err(Fault::new("model.absent", "the model's files are not there")),
    }
}

/// Nothing to read yet.
struct Open;

impl Body for Open {
    fn run(self: Box<Self>, job: &mut Job<'_>) -> Result<()> {
        job.enter("open")
    }
}

/// The `quantize` that takes the model, where it is the first that needs its weights.
fn quantiser<'a>(world: &World<'a>, id: ValueId) -> Option<&'a Step> {
    let value = world.plan.value(id);
    let taker = value.taken_by?;
    let step = world.plan.steps.get(taker).filter(|step| step.stage == "quantize nf4")?;
    let borrowed = world.plan.steps[value.made_by + 1..taker].iter().any(|s| s.inputs.iter().any(|(_, i)| *i == id));
    (!borrowed).then_some(step)
}

fn named_shape(step: &Step) -> Result<Option<Shape>, Refusal> {
    let Some(name) = step.args.text("shape") else { return Ok(None) };
    let Some(declared) = Catalog::standard().shape(name) else { return Err(Vec::new()) };
    let shape = Shape::from_keys(&declared.keys).map_err(|fault| vec![blame(step, "shape", &fault)])?;
    Ok(Some(shape))
}

fn origin(step: &Step, named: Option<Shape>, world: &mut World<'_>) -> Result<(Origin, Arc<Shape>), Refusal> {
    let path = step.args.path("path");
    let random = step.args.text("init") == Some("random");
    match (path, random, named) {
        (None, true, Some(shape)) => {
            let seed = u64::try_from(step.args.int("seed").unwrap_or(0)).unwrap_or(0);
            Ok((Origin::Random { seed }, Arc::new(shape)))
        }
        (Some(_), true, _) => Err(vec![
            Diagnostic::error("model.init", "`init=random` starts from nothing, so there is no path to load")
                .label(step.args.span("path").unwrap_or(step.name_span), "not read with `init=random`")
                .help("leave the path out, or leave `init=random` out"),
        ]),
        (None, true, None) => Err(vec![
            Diagnostic::error("model.init", "`init=random` needs to know what model to make")
                .label(step.args.span("init").unwrap_or(step.name_span), "of which shape?")
                .help("add `shape=tiny-llama`, or another shape of the catalogue"),
        ]),
        (None, false, _) => Err(vec![
            Diagnostic::error("arg.missing", "`load model` needs the path of a model")
                .label(step.name_span, "which model?")
                .help("load model \"models/llama-3-8b\""),
        ]),
        (Some(path), false, named) => {
            if !path.exists()
                && let Some(shape) = named
            {
                world.remark(format!("`{}` is not there: planned from the catalogue's shape alone", path.display()));
                let missing =
                    Fault::new("file.missing", format!("there is no model at `{}`", path.display())).at(&path);
                world.not_runnable.push(blame(step, "path", &missing));
                return Ok((Origin::Absent, Arc::new(shape)));
            }
            let files = world.facts.model(&path).map_err(|fault| {
                let fault = match fault.code {
                    "file.missing" if fault.help.is_none() => {
                        fault.help("check the path, or say `shape=` to plan without the model (`tunepipe ls shapes`)")
                    }
                    _ => fault,
                };
                vec![blame(step, "path", &fault)]
            })?;
            if let Some(shape) = named
                && let Some(difference) = shape.difference(&files.shape)
            {
                return Err(vec![
                    Diagnostic::error("model.shape", format!("the model is not what `shape=` says: {difference}"))
                        .label(step.args.span("shape").unwrap_or(step.name_span), "planned as this")
                        .help("leave `shape=` out: the model's own config decides"),
                ]);
            }
            for input in files.source.inputs() {
                world.input_file(input.clone());
            }
            let shape = files.shape.clone();
            Ok((Origin::Files(files), shape))
        }
    }
}

fn tokenizer(
    step: &Step,
    origin: &Origin,
    shape: &Shape,
    world: &mut World<'_>,
) -> Result<Option<Arc<Tokenizer>>, Refusal> {
    let args = &step.args;
    let from_path = args.path("tokenizer");
    let tokenizer = match (from_path, args.text("tokenizer"), origin) {
        (Some(path), _, _) => {
            let read = world.facts.tokenizer(&path).map_err(|f| vec![blame(step, "tokenizer", &f)])?;
            world.input_file(if path.is_dir() { path.join("tokenizer.json") } else { path });
            Some(read)
        }
        (None, Some("bytes"), _) | (None, None, Origin::Random { .. }) => {
            Some(world.facts.byte_tokenizer().map_err(|f| vec![blame(step, "tokenizer", &f)])?)
        }
        (None, _, Origin::Files(files)) => match &files.tokenizer {
            Ok(tokenizer) => Some(tokenizer.clone()),
            Err(words) => {
                world.warnings.push(
                    Diagnostic::warning("tokenizer.missing", "this model has no tokenizer that can be read")
                        .label(args.span("path").unwrap_or(step.name_span), "this model")
                        .note(words.clone())
                        .help("name one with `tokenizer=\"path/to/tokenizer.json\"`"),
                );
                None
            }
        },
        (None, _, _) => None,
    };
    if let Some(tokenizer) = &tokenizer {
        let needs = tokenizer.vocab_size();
        if needs > shape.vocab {
            let fault = Fault::new(
                "tokenizer.too_large",
                format!("the tokenizer has ids up to {}, and the model knows {}", needs - 1, shape.vocab),
            )
            .note("a token without a row in the embedding cannot be trained or read")
            .help("use the tokenizer that belongs to the model");
            return Err(vec![blame(step, if args.given("tokenizer") { "tokenizer" } else { "path" }, &fault)]);
        }
        for note in tokenizer.notes() {
            world.remark(note.clone());
        }
    }
    Ok(tokenizer)
}

/// A template that was named, over a vocabulary that lacks its tokens.
fn foreign_template(step: &Step, tokenizer: Option<&Tokenizer>, world: &mut World<'_>) {
    let (Some(template), Some(tokenizer)) = (step.args.text("template"), tokenizer) else { return };
    let source = ChatTemplate::builtin(template).unwrap_or(template);
    let foreign = ChatTemplate::foreign_tokens(source, tokenizer);
    let Some(span) = step.args.span("template").filter(|_| !foreign.is_empty()) else { return };
    world.warnings.push(
        Diagnostic::warning("template.foreign", "this template marks turns with tokens that the model does not have")
            .label(span, "written for another vocabulary")
            .note(format!("spelt out in pieces: {}", foreign.join(", ")))
            .help("leave `template=` out where the model has its own, or name the template it was trained with"),
    );
}

/// The type frozen weights are held in.
fn dtype(step: &Step, world: &World<'_>) -> Result<Float, Refusal> {
    let chosen = match step.args.text("dtype") {
        Some("f32") => Float::F32,
        Some("bf16") => Float::Bf16,
        Some("f16") => Float::F16,
        _ => world.target.natural_float(),
    };
    if chosen == Float::Bf16 && world.target.capability.is_some_and(|c| !c.has_bf16()) {
        return Err(vec![
            Diagnostic::error("device.no_bf16", format!("{} cannot compute in bf16", world.target.label))
                .label(step.args.span("dtype").unwrap_or(step.name_span), "not on this card")
                .help("dtype=f16, or dtype=f32"),
        ]);
    }
    Ok(chosen)
}
