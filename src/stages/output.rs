//! A Hugging Face folder as a stage's output: what will lie in it, and the values that go there.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::bridge::{FileWeights, holdings_of};
use super::pour::{Windows, pour};
use super::swallowed::Swallowed;
use super::watch::stopped;
use super::world::{ModelDesc, Origin, blame};
use super::{Body, Count, Job, Lowered, Refusal, World};
use crate::data::ChatTemplate;
use crate::kernels::{self, Buf, Pool, Spec, ViewMut};
use crate::memory::{Holding, Kept, Phase, Place};
use crate::model::{Base, Float, Model, Random, Tensor, merge_windows, merged};
use crate::plan::{Step, Val, ValueId};
use crate::store::{ModelPlan, ModelWriter, StoredType, TensorInfo, WRITE_BUFFER};
use crate::text::{Fault, Result};

/// `dtype=` of a save; auto is the source's own.
pub fn saved_type(argument: Option<&str>, own: StoredType) -> StoredType {
    match argument {
        Some("f32") => StoredType::F32,
        Some("bf16") => StoredType::BF16,
        Some("f16") => StoredType::F16,
        _ => own,
    }
}

/// The type as `config.json` names it.
fn long_name(dtype: StoredType) -> &'static str {
    match dtype {
        StoredType::BF16 => "bfloat16",
        StoredType::F16 => "float16",
        _ => "float32",
    }
}

pub fn float_of(dtype: StoredType) -> Float {
    match dtype {
        StoredType::BF16 => Float::Bf16,
        StoredType::F16 => Float::F16,
        _ => Float::F32,
    }
}

/// Everything that a saved model's folder holds: weights in the shape's order, the config with its type and tying as
/// they are now, tokenizer, template and generation files carried over.
pub fn folder_plan(model: &ModelDesc, dtype: StoredType, max_shard: u64) -> Result<ModelPlan> {
    let tensors =
        model.shape.tensors().iter().map(|tensor| TensorInfo::new(&tensor.name, &tensor.shape, dtype)).collect();
    let mut plan = ModelPlan::new(tensors, config(model, dtype)?);
    plan.max_shard = max_shard;
    let carried = match &model.origin {
        Origin::Files(files) => files.source.carried_files(),
        _ => &[],
    };
    let own = match (&model.origin, &model.tokenizer) {
        (Origin::Files(files), Some(used)) => files.tokenizer.as_ref().is_ok_and(|own| Arc::ptr_eq(own, used)),
        _ => false,
    };
    if own && !carried.is_empty() {
        plan.carried = carried.to_vec();
    } else {
        // The tokenizer that trained the model is the one to save; another's files would mislead.
        let generation = |path: &&PathBuf| path.file_name().is_some_and(|name| name == "generation_config.json");
        plan.carried = carried.iter().filter(generation).cloned().collect();
        if let Some(tokenizer) = &model.tokenizer {
            plan.texts.push(("tokenizer.json".into(), tokenizer.to_json()));
            plan.texts.push(("tokenizer_config.json".into(), pretty(&tokenizer.to_config_json())?));
        }
    }
    if let Some(template) = &model.template {
        let text = ChatTemplate::builtin(template).unwrap_or(template);
        plan.texts.push(("chat_template.jinja".into(), text.as_bytes().to_vec()));
    }
    Ok(plan)
}

fn config(model: &ModelDesc, dtype: StoredType) -> Result<Value> {
    let fresh = model.shape.to_config(long_name(dtype));
    let Origin::Files(files) = &model.origin else { return Ok(fresh) };
    // The source's own keys stay; what describes the tensors follows the tensors.
    let mut config = files.source.config().clone();
    if let (Some(own), Some(fresh)) = (config.as_object_mut(), fresh.as_object()) {
        own.remove("torch_dtype");
        own.remove("quantization_config");
        for key in ["dtype", "torch_dtype", "tie_word_embeddings", "architectures", "model_type"] {
            if let Some(value) = fresh.get(key) {
                own.insert(key.to_owned(), value.clone());
            }
        }
        for (key, value) in fresh {
            own.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    Ok(config)
}

fn pretty(value: &Value) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(value)
        .map_err(|e| Fault::new("json", format!("cannot write the tokenizer's config: {e}")))
}

/// Where a save goes, and all that will lie there.
pub struct Destination {
    pub path: PathBuf,
    pub overwrite: bool,
    pub dtype: StoredType,
    pub folder: ModelPlan,
    /// Of the whole folder.
    pub bytes: u64,
}

impl Destination {
    /// Refused where the output exists, cannot be made, or is made twice.
    pub fn of(step: &Step, world: &mut World<'_>, model: &ModelDesc, dtype: StoredType) -> Result<Self, Refusal> {
        let Some(path) = step.args.path("path") else { return Err(Vec::new()) };
        let overwrite = world.may_replace(step, Some(&path), "");
        world.output(step, &path, overwrite)?;
        let Val::Bytes(max_shard) = *step.args.val("max_shard") else { return Err(Vec::new()) };
        if max_shard == 0 {
            let fault = Fault::new("save.shard", "a shard of no bytes holds nothing").help("max_shard=5GB");
            return Err(vec![blame(step, "max_shard", &fault)]);
        }
        let fail = |fault: Fault| vec![blame(step, "path", &fault)];
        let folder = folder_plan(model, dtype, max_shard).map_err(fail)?;
        let bytes = folder.planned_bytes().map_err(fail)?;
        world.writes(Some(&path), bytes);
        // Made here, before the run, and needed when the folder is.
        for (_, text) in &folder.texts {
            world.resident(text.as_ptr() as usize, Holding::new("texts to save", Place::Ram, text.len() as u64, ""));
        }
        Ok(Destination { path, overwrite, dtype, folder, bytes })
    }
}

/// A save, lowered: streamed a window at a time, or made whole in RAM first.
pub fn write(
    what: &'static str,
    id: ValueId,
    model: &ModelDesc,
    destination: Destination,
    streamed: bool,
    base: Option<Origin>,
    world: &World<'_>,
) -> Result<Lowered> {
    let dtype = destination.dtype;
    let learnt = match (&model.adapter, model.retrained) {
        (Some(_), _) => Some(Learnt::Adapter),
        (None, Some(_)) if matches!(model.origin, Origin::Files(_)) => Some(Learnt::Weights(model.origin.weights())),
        (None, _) => None,
    };
    let file = Holding::new("saved files", Place::Disk, destination.bytes, "dtype");
    let mut holdings =
        vec![file.clone(), Holding::new("write buffer", Place::Ram, WRITE_BUFFER as u64 + (256 << 10), "")];
    let place = world.target.place();
    let windows =
        Windows::specs(&model.shape.tensors(), float_of(dtype)).into_iter().map(|spec| ("write window", spec));
    let looked_at = learnt.as_ref().and_then(|_| Swallowed::spec(&model.shape.tensors(), float_of(dtype)));
    let windows = windows.chain(looked_at.map(|spec| ("write window", spec)));
    holdings.extend(holdings_of(&windows.collect::<Vec<_>>(), place, "")?);
    let mut phases = Vec::new();
    if !streamed {
        let whole: Vec<_> = model
            .shape
            .tensors()
            .iter()
            .map(|tensor| ("merged weights", Spec::new(&tensor.shape, float_of(dtype).dtype())))
            .collect();
        holdings.extend(holdings_of(&whole, Place::Ram, "the model, without low_ram")?);
    }
    phases.push(Phase::new("write", holdings));
    let body = Write { what, id, destination, streamed, base, learnt, float: float_of(dtype) };
    Ok(Lowered { phases, keeps: vec![Kept { holdings: vec![file], until: usize::MAX }], body: Box::new(body) })
}

/// What training changed.
enum Learnt {
    Adapter,
    /// The weights themselves, which were these.
    Weights(Origin),
}

struct Write {
    what: &'static str,
    id: ValueId,
    destination: Destination,
    streamed: bool,
    base: Option<Origin>,
    learnt: Option<Learnt>,
    float: Float,
}

impl Body for Write {
    fn run(self: Box<Self>, job: &mut Job<'_>) -> Result<()> {
        job.enter("write")?;
        let pool = job.pool();
        let Destination { path, overwrite, folder, dtype, .. } = self.destination;
        let (model, watch) = job.borrow_and_watch(self.id)?;
        let tensors = model.shape.tensors();
        let files;
        let random;
        let base = match &self.base {
            None => Base::Held,
            Some(Origin::Files(found)) => {
                files = FileWeights(&found.source);
                Base::Source(&files)
            }
            Some(Origin::Random { seed }) => {
                random = Random::new(*seed, &model.shape);
                Base::Source(&random)
            }
            Some(Origin::Absent) => return Err(Fault::new("model.absent", "the model's files are not there")),
        };
        let source;
        let before = match &self.learnt {
            Some(Learnt::Adapter) => Some(base),
            Some(Learnt::Weights(Origin::Files(found))) => {
                source = FileWeights(&found.source);
                Some(Base::Source(&source))
            }
            Some(Learnt::Weights(_)) | None => None,
        };
        let mut windows = Windows::take("write window", &tensors, self.float, &pool)?;
        let look = |before| Swallowed::take("write window", model, before, &tensors, self.float, &pool);
        let look = before.map(look).transpose()?.flatten();
        let whole = match self.streamed {
            true => None,
            false => Some(merge_all(model, base, &tensors, self.float, windows.values(), look.as_ref(), &pool)?),
        };
        let mut writer = ModelWriter::create(&path, overwrite, &folder)?;
        watch.making(&path, writer.identity())?;
        let stop = watch.stop();
        let total = model.shape.parameters();
        let make = |at: usize, rows: Range<usize>, out: ViewMut<'_>| match &whole {
            _ if stop() => Err(stopped("interrupted while a model was being written; nothing of it is left")),
            None => {
                let mut out = out;
                merged(model, base, &tensors[at].name, rows.clone(), out.reborrow())?;
                look.as_ref().map_or(Ok(()), |look| look.see(&tensors[at], rows, out))
            }
            Some(whole) => {
                let columns = tensors[at].dims().1;
                kernels::widen(out, whole[at].view().slice(rows.start * columns..rows.end * columns))
            }
        };
        let mut progress = |done| watch.progress("writing", done, total, Count::Values);
        pour(&tensors, &mut writer, windows, &make, &mut progress)?;
        writer.commit()?;
        watch.finish();
        let swallowed = look.and_then(|look| look.words(dtype, matches!(self.learnt, Some(Learnt::Adapter))));
        let bytes = job.wrote(&path)?;
        job.watch.saved(self.what, &path, bytes);
        if let Some(words) = swallowed {
            job.watch.note(&words);
        }
        Ok(())
    }
}

/// The whole merged model, in the type it will be saved in.
fn merge_all(
    model: &Model,
    base: Base<'_>,
    tensors: &[Tensor],
    float: Float,
    window: &mut Buf,
    look: Option<&Swallowed<'_>>,
    pool: &dyn Pool,
) -> Result<Vec<Buf>> {
    tensors
        .iter()
        .map(|tensor| {
            let mut whole = pool.take("merged weights", Spec::new(&tensor.shape, float.dtype()))?;
            let columns = tensor.dims().1;
            for rows in merge_windows(tensor) {
                let elements = rows.start * columns..rows.end * columns;
                let mut part = window.view_mut().slice(0..elements.len());
                merged(model, base, &tensor.name, rows.clone(), part.reborrow())?;
                look.map_or(Ok(()), |look| look.see(tensor, rows, part.reborrow()))?;
                let to = whole.view_mut().slice(elements);
                match float {
                    Float::F32 => kernels::copy(to, part.as_view())?,
                    _ => kernels::narrow(to, part.as_view())?,
                }
            }
            Ok(whole)
        })
        .collect()
}
