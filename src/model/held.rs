//! A model in memory: read tensor by tensor, quantised tensor by tensor.

use super::adapter::Adapter;
use super::mapping::{MAPPED, Mapping};
use super::parts::Planned;
use super::shape::Shape;
use super::source::WeightSource;
use super::tensors::{Proj, Role, Tensor};
use super::weight::{Float, Form, Held, Weight, float_of, held_specs, scratch_elements};
use super::windows::{largest_window, rows_per_block_window, rows_per_window, windows};
use crate::kernels::{self, Buf, Nf4, Nf4Layout, Pool, Spec, View};
use crate::text::{Fault, Result};

/// A decoder whose weights are resident, with the adapter that was trained or loaded onto it.
pub struct Model {
    pub shape: Shape,
    pub form: Form,
    /// In the order of [`Shape::tensors`].
    pub(crate) tensors: Vec<Weight>,
    pub adapter: Option<Adapter>,
}

/// Told after each window of a tensor: the tensor's name and the values done since the last call.
pub type Progress<'a> = &'a mut dyn FnMut(&str, u64);

impl Model {
    /// Reads every tensor from `source` into the form. Beyond the model itself one window of a tensor is held.
    pub fn read(
        shape: &Shape,
        source: &dyn WeightSource,
        form: Form,
        pool: &dyn Pool,
        progress: Progress<'_>,
    ) -> Result<Model> {
        Self::read_mapped(shape, source, form, &Mapping::default(), pool, progress)
    }

    /// [`Model::read`], but for the tensors that `mapping` leaves where they lie.
    pub fn read_mapped(
        shape: &Shape,
        source: &dyn WeightSource,
        form: Form,
        mapping: &Mapping,
        pool: &dyn Pool,
        progress: Progress<'_>,
    ) -> Result<Model> {
        shape.validate()?;
        let mut window = take_window(reading_elements(shape, form, mapping), pool)?;
        let mut tensors = Vec::new();
        for (at, tensor) in shape.tensors().iter().enumerate() {
            tensors.push(match float_of(tensor.role, form).filter(|_| mapping.has(at)) {
                Some(float) => map_tensor(tensor, source, float, pool, progress)?,
                None => read_tensor(at, tensor, source, form, pool, &mut window, progress)?,
            });
        }
        Ok(Model { shape: shape.clone(), form, tensors, adapter: None })
    }

    /// The same model with its linear layers in NF4. Each dense tensor is gone before the next is begun.
    pub fn quantise(self, block: usize, double: bool, pool: &dyn Pool, progress: Progress<'_>) -> Result<Model> {
        if self.adapter.is_some() {
            return Err(Fault::new(
                "model.adapted",
                "a model with an adapter is not quantised: the adapter was trained on its weights",
            )
            .help("quantize first, then train lora"));
        }
        if let Held::Nf4 { .. } = self.form.weights {
            return Err(Fault::new("model.quantised", "the model's linear layers are in 4 bits already"));
        }
        let form = self.form.quantised(block, double);
        let list = self.shape.tensors();
        let mut window = take_window(quantising_elements(&self.shape, self.form, block), pool)?;
        let mut tensors = Vec::with_capacity(list.len());
        for (tensor, weight) in list.iter().zip(self.tensors) {
            let Role::Linear(_) = tensor.role else {
                tensors.push(weight);
                continue;
            };
            let (rows, cols) = tensor.dims();
            let layout = Nf4Layout::new(rows * cols, block, double)?;
            let mut writer = Nf4::writer(layout, pool, "weights", SCALES)?;
            for range in windows(rows, rows_per_block_window(cols, block)) {
                let elements = range.start * cols..range.end * cols;
                let values = elements.len() as u64;
                writer
                    .push(weight.expand(elements, &mut window)?.cpu::<f32>()?)
                    .map_err(|f| in_tensor(&tensor.name, f))?;
                progress(&tensor.name, values);
            }
            let quantised = writer.finish(pool, "weights")?;
            tensors.push(Weight::Nf4(quantised));
        }
        Ok(Model { shape: self.shape, form, tensors, adapter: None })
    }

    /// A norm or a bias.
    pub(crate) fn vector(&self, at: usize) -> Result<View<'_>> {
        self.tensors
            .get(at)
            .and_then(Weight::wide)
            .ok_or_else(|| Fault::new("model.form", "a norm or bias is not held in f32; this is a bug"))
    }

    pub(crate) fn linear(&self, layer: usize, proj: Proj) -> &Weight {
        &self.tensors[self.shape.linear_at(layer, proj)]
    }

    pub(crate) fn head(&self) -> &Weight {
        &self.tensors[self.shape.head_at()]
    }

    /// The embedding table in the type it is held in.
    pub(crate) fn table(&self) -> Result<View<'_>> {
        match &self.tensors[Shape::EMBEDDING] {
            Weight::Dense(buf) | Weight::Half(buf) => Ok(buf.view()),
            Weight::Mapped(lent) => Ok(lent.view()),
            Weight::Nf4(_) => Err(Fault::new("model.form", "the embedding is held in 4 bits; this is a bug")),
        }
    }

    /// A tensor's index and its place in the list.
    pub(crate) fn find(&self, name: &str) -> Result<(usize, Tensor)> {
        self.shape
            .tensors()
            .iter()
            .cloned()
            .enumerate()
            .find(|(_, tensor)| tensor.name == name)
            .ok_or_else(|| Fault::new("model.missing_tensor", format!("a model of this shape has no tensor `{name}`")))
    }
}

/// The buffers of the tensor at a place in the list, by the holding they belong to.
pub(super) fn tensor_specs(
    at: usize,
    tensor: &Tensor,
    form: Form,
    mapping: &Mapping,
) -> Result<(&'static str, Vec<Spec>)> {
    if let Some(float) = float_of(tensor.role, form).filter(|_| mapping.has(at)) {
        return Ok((MAPPED, vec![Spec::new(&tensor.shape, float.dtype())]));
    }
    Ok(match tensor.role {
        Role::Embedding | Role::Head => ("embeddings", vec![Spec::new(&tensor.shape, form.embeddings.dtype())]),
        Role::Norm | Role::Bias(_) => ("norms", vec![Spec::f32(&tensor.shape)]),
        Role::Linear(_) => {
            let (rows, cols) = tensor.dims();
            ("weights", held_specs(rows, cols, form.weights)?)
        }
    })
}

/// What a model of this shape and form holds: `weights` (linear layers), `embeddings` (table and head), `norms`
/// (norms and biases), and under [`MAPPED`] what of them stays in its files.
pub fn holdings(shape: &Shape, form: Form, mapping: &Mapping) -> Result<Planned> {
    let mut list = Vec::new();
    for (at, tensor) in shape.tensors().iter().enumerate() {
        let (holding, specs) = tensor_specs(at, tensor, form, mapping)?;
        list.extend(specs.into_iter().map(|spec| (holding, spec)));
    }
    Ok(list)
}

/// What reading takes beside the model, and gives back: one window of a tensor, under `read window`, and for doubled
/// scales a tensor's plain ones, under `block scales`.
pub fn reading(shape: &Shape, form: Form, mapping: &Mapping) -> Result<Planned> {
    let mut list: Planned = window_spec(reading_elements(shape, form, mapping)).into_iter().collect();
    list.extend(scales_spec(shape, form)?);
    Ok(list)
}

/// What quantising a resident model held as `form` takes beside both, and gives back; holdings as in [`reading`].
pub fn quantising(shape: &Shape, form: Form, block: usize, double: bool) -> Result<Planned> {
    let mut list: Planned = window_spec(quantising_elements(shape, form, block)).into_iter().collect();
    list.extend(scales_spec(shape, form.quantised(block, double))?);
    Ok(list)
}

/// The most bytes that blocks take beyond what their dense tensors have given back, tensor by tensor, when a resident
/// model held as `form` is quantised. A tensor in a mapped file gives nothing back.
pub fn growth(shape: &Shape, form: Form, block: usize, double: bool, mapping: &Mapping) -> Result<u64> {
    let sum =
        |specs: Vec<Spec>| specs.iter().try_fold(0i128, |sum, spec| Ok::<_, Fault>(sum + i128::from(spec.bytes()?)));
    let (mut now, mut most) = (0i128, 0i128);
    for (at, tensor) in shape.tensors().iter().enumerate() {
        let Role::Linear(_) = tensor.role else { continue };
        now += sum(tensor_specs(at, tensor, form.quantised(block, double), mapping)?.1)?;
        most = most.max(now);
        if !mapping.has(at) {
            now -= sum(tensor_specs(at, tensor, form, mapping)?.1)?;
        }
    }
    Ok(u64::try_from(most).unwrap_or(0))
}

/// The holding of one tensor's scales before they are doubled.
const SCALES: &str = "block scales";

/// The largest such scales; tensors are quantised one at a time.
fn scales_spec(shape: &Shape, form: Form) -> Result<Option<(&'static str, Spec)>> {
    let Held::Nf4 { block, double } = form.weights else { return Ok(None) };
    let values = Proj::ALL.iter().map(|proj| proj.dims(shape)).map(|(rows, cols)| rows * cols).max().unwrap_or(0);
    Ok(Nf4Layout::new(values, block, double)?.scratch().map(|spec| (SCALES, spec)))
}

fn window_spec(elements: usize) -> Option<(&'static str, Spec)> {
    (elements > 0).then(|| ("read window", Spec::f32(&[elements])))
}

fn take_window(elements: usize, pool: &dyn Pool) -> Result<Option<Buf>> {
    window_spec(elements).map(|(holding, spec)| pool.take(holding, spec)).transpose()
}

/// f32 values that reading stages: none for what is held in f32 or stays where it lies, else the largest window.
fn reading_elements(shape: &Shape, form: Form, mapping: &Mapping) -> usize {
    let staged = |(at, tensor): (usize, &Tensor)| {
        let (rows, cols) = tensor.dims();
        match (float_of(tensor.role, form), form.weights) {
            (None, Held::Nf4 { block, .. }) => block_window(rows, cols, block),
            (None | Some(Float::F32), _) => 0,
            (Some(_), _) if mapping.has(at) => 0,
            (Some(_), _) => scratch_elements(rows, cols),
        }
    };
    shape.tensors().iter().enumerate().map(staged).max().unwrap_or(0)
}

fn quantising_elements(shape: &Shape, form: Form, block: usize) -> usize {
    if form.weights == Held::Float(Float::F32) {
        return 0;
    }
    Proj::ALL.iter().map(|proj| proj.dims(shape)).map(|(rows, cols)| block_window(rows, cols, block)).max().unwrap_or(0)
}

fn block_window(rows: usize, cols: usize, block: usize) -> usize {
    largest_window(rows, rows_per_block_window(cols, block)) * cols
}

/// The tensor where it lies in its source.
fn map_tensor(
    tensor: &Tensor,
    source: &dyn WeightSource,
    float: Float,
    pool: &dyn Pool,
    progress: Progress<'_>,
) -> Result<Weight> {
    let lent = source.lend(&tensor.name, float, &tensor.shape)?.ok_or_else(|| {
        Fault::new("model.form", format!("`{}` was planned to stay in its file and cannot; this is a bug", tensor.name))
    })?;
    let lent = pool.count(MAPPED, lent)?;
    progress(&tensor.name, lent.view().len() as u64);
    Ok(Weight::Mapped(lent))
}

fn read_tensor(
    at: usize,
    tensor: &Tensor,
    source: &dyn WeightSource,
    form: Form,
    pool: &dyn Pool,
    window: &mut Option<Buf>,
    progress: Progress<'_>,
) -> Result<Weight> {
    let (holding, specs) = tensor_specs(at, tensor, form, &Mapping::default())?;
    let (rows, cols) = tensor.dims();
    if let (Role::Linear(_), Held::Nf4 { block, double }) = (tensor.role, form.weights) {
        let layout = Nf4Layout::new(rows * cols, block, double)?;
        let mut writer = Nf4::writer(layout, pool, holding, SCALES)?;
        for range in windows(rows, rows_per_block_window(cols, block)) {
            let values = range.len() * cols;
            let staged = window.as_mut().filter(|room| room.len() >= values).ok_or_else(no_window)?;
            source.read(&tensor.name, range, staged.view_mut().slice(0..values).cpu::<f32>()?)?;
            writer.push(staged.view().slice(0..values).cpu::<f32>()?).map_err(|f| in_tensor(&tensor.name, f))?;
            progress(&tensor.name, values as u64);
        }
        return Ok(Weight::Nf4(writer.finish(pool, holding)?));
    }
    let per = rows_per_window(cols);
    let spec = specs.into_iter().next().ok_or_else(no_window)?;
    let wide = spec.dtype == candle_core::DType::F32;
    let mut buf = pool.take(holding, spec)?;
    for range in windows(rows, per) {
        let elements = range.start * cols..range.end * cols;
        let done = elements.len();
        if wide {
            source.read(&tensor.name, range, buf.view_mut().slice(elements).cpu::<f32>()?)?;
        } else if !source.copy(&tensor.name, range.clone(), buf.view_mut().slice(elements.clone()))? {
            let staged = window.as_mut().filter(|room| room.len() >= done).ok_or_else(no_window)?;
            source.read(&tensor.name, range, staged.view_mut().slice(0..done).cpu::<f32>()?)?;
            kernels::narrow(buf.view_mut().slice(elements), staged.view().slice(0..done))?;
        }
        progress(&tensor.name, done as u64);
    }
    Ok(if wide { Weight::Dense(buf) } else { Weight::Half(buf) })
}

/// A quantiser's fault, with the tensor it met.
fn in_tensor(name: &str, mut fault: Fault) -> Fault {
    fault.message = format!("`{name}` cannot be quantised: {}", fault.message);
    fault
}

fn no_window() -> Fault {
    Fault::new("model.scratch", "a tensor was read without room to stage it; this is a bug")
}
