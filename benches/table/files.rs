//! Saving and loading, beside what the disk does alone.

use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::Path;

use half::slice::HalfFloatSliceExt;
use rustix::fs::{Advice, fadvise};
use tunepipe::kernels::{Heap, ViewMut};
use tunepipe::memory::meter;
use tunepipe::model::{Adapter, Base, Float, Form, LoraSettings, Model, Proj, Random, Shape, merged};
use tunepipe::stages::{FileWeights, Windows, pour};
use tunepipe::store::{ModelPlan, ModelSource, ModelWriter, StoredType, TensorInfo};

use crate::{Outcome, Wish, line, median, products, seconds};

/// A folder beside the build, on a real disk, gone at the end.
fn folder() -> std::io::Result<tempfile::TempDir> {
    let target = std::env::current_exe()?;
    tempfile::tempdir_in(target.parent().unwrap_or(Path::new(".")))
}

fn plan(shape: &Shape) -> ModelPlan {
    let info = |t: &tunepipe::model::Tensor| TensorInfo::new(&t.name, &t.shape, StoredType::BF16);
    ModelPlan::new(shape.tensors().iter().map(info).collect(), shape.to_config("bfloat16"))
}

/// `save merged low_ram` of a quantised model, against a plain sequential write with a sync of as many bytes.
pub fn save(wish: &Wish) -> Outcome {
    let shape = products::shape()?;
    let lora =
        LoraSettings { rank: 8, alpha: 16.0, dropout: 0.0, targets: Proj::ALL.to_vec(), root_scale: false, seed: 1 };
    let form = Form::dense(Float::F32).quantised(64, true);
    let mut model = Model::read(&shape, &Random::new(1, &shape), form, &Heap, &mut |_, _| {})?;
    model.adapter = Some(Adapter::new(&shape, lora, &Heap)?);
    let (folder, plan) = (folder()?, plan(&shape));
    let bytes = plan.planned_bytes()?;
    let (mut saves, mut plain, mut peak) = (Vec::new(), Vec::new(), 0);
    for round in 0..wish.rounds {
        let path = folder.path().join(format!("out{round}"));
        let before = meter::live();
        meter::mark();
        saves.push(seconds(|| write(&model, &path, &plan))?);
        peak = peak.max(meter::peak() - before);
        std::fs::remove_dir_all(&path)?;
        let path = folder.path().join("plain");
        plain.push(write_alone(&path, bytes)?);
        std::fs::remove_file(&path)?;
    }
    let ratio = median(saves.iter().zip(&plain).map(|(save, plain)| plain / save).collect());
    let rate = |times: Vec<f64>| bytes as f64 / median(times) / 1e6;
    Ok(vec![line(
        "save merged",
        &[
            ("mb_per_s", rate(saves)),
            ("disk_mb_per_s", rate(plain)),
            ("ratio", ratio),
            ("peak_mib", peak as f64 / 1048576.0),
        ],
    )])
}

fn write(model: &Model, path: &Path, plan: &ModelPlan) -> tunepipe::text::Result<()> {
    let tensors = model.shape.tensors();
    let windows = Windows::take("", &tensors, Float::Bf16, &Heap)?;
    let mut writer = ModelWriter::create(path, false, plan)?;
    let make =
        |at: usize, rows: Range<usize>, out: ViewMut<'_>| merged(model, Base::Held, &tensors[at].name, rows, out);
    pour(&tensors, &mut writer, windows, &make, &mut |_| {})?;
    writer.commit()
}

/// Seconds of `dd` into a new file: mebibytes one after the other, and a sync.
fn write_alone(path: &Path, bytes: u64) -> std::io::Result<f64> {
    let block = vec![7u8; 1 << 20];
    let start = std::time::Instant::now();
    let mut file = File::create(path)?;
    let mut left = bytes;
    while left > 0 {
        let part = left.min(block.len() as u64) as usize;
        file.write_all(&block[..part])?;
        left -= part as u64;
    }
    file.sync_all()?;
    Ok(start.elapsed().as_secs_f64())
}

/// A bf16 model of 2 GB, files to weights, against reading the file alone; from the disk and from the system's cache.
pub fn load(wish: &Wish) -> Outcome {
    let shape = Shape { hidden: 2048, layers: 12, heads: 32, kv_heads: 32, ffn: 8192, ..products::shape()? };
    let (folder, plan) = (folder()?, plan(&shape));
    let path = folder.path().join("model");
    let noise: Vec<half::bf16> = (0..1 << 16).map(|i| half::bf16::from_f32((i % 251) as f32 / 251.0)).collect();
    let mut writer = ModelWriter::create(&path, false, &plan)?;
    for tensor in &plan.tensors {
        writer.next_tensor(&tensor.name, |sink| {
            let mut left = tensor.elements()? as usize;
            while left > 0 {
                let part = left.min(noise.len());
                sink.write_16(StoredType::BF16, noise[..part].reinterpret_cast())?;
                left -= part;
            }
            Ok(())
        })?;
    }
    writer.commit()?;
    let file = path.join("model.safetensors");
    let bytes = std::fs::metadata(&file)?.len();
    let mut lines = Vec::new();
    for (form, name) in [(Float::F32, "f32"), (Float::Bf16, "bf16")] {
        for cold in [true, false] {
            let (mut loads, mut plain, mut above) = (Vec::new(), Vec::new(), 0);
            for _ in 0..wish.rounds.div_ceil(2) {
                forget(&file, cold)?;
                meter::mark();
                let start = std::time::Instant::now();
                let source = ModelSource::open(&path)?;
                let model = Model::read(&shape, &FileWeights(&source), Form::dense(form), &Heap, &mut |_, _| {})?;
                loads.push(start.elapsed().as_secs_f64());
                above = above.max(meter::peak() - meter::live());
                drop(model);
                forget(&file, cold)?;
                plain.push(read_alone(&file)?);
            }
            let ratio = median(loads.iter().zip(&plain).map(|(load, plain)| plain / load).collect());
            let rate = |times: Vec<f64>| bytes as f64 / median(times) / 1e6;
            let from = if cold { "disk" } else { "cache" };
            lines.push(line(
                &format!("load to {name} from {from}"),
                &[
                    ("mb_per_s", rate(loads)),
                    ("read_mb_per_s", rate(plain)),
                    ("ratio", ratio),
                    ("peak_above_resident_mib", above as f64 / 1048576.0),
                ],
            ));
        }
    }
    Ok(lines)
}

/// Puts the file out of the system's cache, or into it.
fn forget(path: &Path, cold: bool) -> std::io::Result<()> {
    if cold {
        fadvise(File::open(path)?, 0, None, Advice::DontNeed)?;
    } else {
        read_alone(path)?;
    }
    Ok(())
}

fn read_alone(path: &Path) -> std::io::Result<f64> {
    let mut block = vec![0u8; 1 << 20];
    let mut file = File::open(path)?;
    let start = std::time::Instant::now();
    while file.read(&mut block)? > 0 {}
    Ok(start.elapsed().as_secs_f64())
}
