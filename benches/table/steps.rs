//! Whole optimizer steps, beside their products alone.

use serde_json::{Value, json};
use tunepipe::kernels::{Heap, clock_start, clock_stop};
use tunepipe::model::{Extent, Form, LoraSettings, Model, NOT_COUNTED, Proj, Random};
use tunepipe::train::{Micro, Settings, Trainable, Trainer, Window};

use crate::products::{Step, Yardstick, shape};
use crate::took::Took;
use crate::{Outcome, Wish, line, machine, median};

const RANK: usize = 8;

pub fn run(name: &str, wish: &Wish) -> Outcome {
    let long = name.contains("long");
    let rounds = if long { wish.rounds.div_ceil(2) } else { wish.rounds };
    let (rows, length) = if long { (1, 4096) } else { (4, 256) };
    Ok(vec![timed(name, rows, length, &Wish { rounds, ..*wish })?])
}

/// LoRA steps of one to eight rows of 256 tokens: what a token takes, against the smallest step's.
pub fn growth(wish: &Wish) -> Outcome {
    let mut lines: Vec<Value> = Vec::new();
    for rows in [1, 2, 4, 8] {
        let name = format!("lora {rows}x256");
        let mut line = timed(&name, rows, 256, &Wish { alone: true, profile: false, ..*wish })?;
        let rate = |line: &Value| line["tokens_per_s"].as_f64().unwrap_or(f64::NAN);
        line["a_token_takes_times"] = json!(rate(lines.first().unwrap_or(&line)) / rate(&line));
        lines.push(line);
    }
    Ok(lines)
}

/// Steps of `rows` rows of `length` tokens.
fn timed(name: &str, rows: usize, length: usize, wish: &Wish) -> Result<Value, Box<dyn std::error::Error>> {
    let full = name.starts_with("full");
    let recompute = name.contains("recompute");
    let step = Step { rows, length, rank: (!full).then_some(RANK), recompute };

    let shape = shape()?;
    let mut model =
        Model::read(&shape, &Random::new(1, &shape), Form::dense(tunepipe::model::Float::F32), &Heap, &mut |_, _| {})?;
    if name.starts_with("qlora") {
        model = model.quantise(64, true, &Heap, &mut |_, _| {})?;
        // The dense model is not part of what training holds.
        machine::forget_peak();
    }
    let lora =
        LoraSettings { rank: RANK, alpha: 16.0, dropout: 0.0, targets: Proj::ALL.to_vec(), root_scale: false, seed: 1 };
    let trainable = if full { Trainable::Full } else { Trainable::NewLora(lora) };
    let settings = Settings { batch: rows, recompute, free_logits: !name.contains("kept"), ..Settings::default() };
    let window = window(rows, length, shape.vocab);
    let extent = window.micros.iter().map(|m| Extent::of(&m.batch())).fold(Extent::default(), Extent::max);
    let mut trainer = Trainer::new(model, &trainable, settings, 1000, extent, &Heap)?;
    trainer.step(&window)?;
    let mut yardstick: Option<Yardstick> = None;
    let mut peak = machine::peak_mib();
    let (mut steps, mut alone) = (Vec::new(), Vec::new());
    clock_start();
    for _ in 0..wish.rounds {
        let mut learnt = Ok(());
        steps.push(Took::of(|| learnt = trainer.step(&window).map(|_| ())));
        learnt?;
        if yardstick.is_none() {
            peak = peak.max(machine::peak_mib());
        }
        if !wish.profile && !wish.alone {
            alone.push(yardstick.get_or_insert_with(|| Yardstick::new(&shape, &step)).time());
        }
    }
    let clock = clock_stop();
    let of = |list: &[Took], f: fn(&Took) -> f64| median(list.iter().map(f).collect());
    let ratio =
        |f: fn(&Took) -> f64| median(steps.iter().zip(&alone).map(|(step, alone)| f(step) / f(alone)).collect());
    let wall = |took: &Took| took.wall;
    let cpu = |took: &Took| took.cpu;
    let whole: f64 = steps.iter().map(wall).sum();
    let mut values = vec![
        ("tokens_per_s", step.tokens() as f64 / of(&steps, wall)),
        ("step_s", of(&steps, wall)),
        ("step_cpu_s", of(&steps, cpu)),
        ("peak_mib", peak.round()),
    ];
    if !alone.is_empty() {
        values.extend([("over_products", ratio(wall)), ("over_products_cpu", ratio(cpu))]);
    }
    let mut result = line(name, &values);
    if wish.profile {
        let counted: f64 = clock.iter().map(|(_, time)| time.as_secs_f64()).sum();
        let parts = clock.iter().map(|(work, time)| (work.name(), time.as_secs_f64()));
        let parts = parts.chain([("between kernels", whole - counted)]);
        let part =
            |(what, s): (&str, f64)| json!({ "what": what, "ms": s / wish.rounds as f64 * 1e3, "share": s / whole });
        result["profile"] = parts.filter(|(_, s)| *s > 0.0).map(part).collect();
    }
    Ok(result)
}

/// Rows of one length whose tokens all count.
fn window(rows: usize, length: usize, vocab: usize) -> Window {
    let id = |i: usize| ((i as u64).wrapping_mul(2_654_435_761) % vocab as u64) as u32;
    let ids: Vec<u32> = (0..rows * length).map(id).collect();
    let labels = (0..ids.len()).map(|i| if (i + 1) % length == 0 { NOT_COUNTED } else { ids[i + 1] }).collect();
    let starts = (0..=rows).map(|row| (row * length) as u32).collect();
    let micro = Micro { ids, starts, labels, rows: (0..rows as u32).collect() };
    Window { micros: vec![micro], epoch: 0.0 }
}
