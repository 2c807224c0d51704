//! The arithmetic around the gradients: schedules, windows, clipping, bad input.

use super::*;

#[test]
fn learning_rates_follow_the_formula() {
    let with = |schedule, warmup| Settings { lr: 2.0, schedule, warmup, ..Settings::default() };
    let cosine = with(Schedule::Cosine, Warmup::Steps(3));
    let rates: Vec<f64> = (0..10).map(|s| cosine.lr_at(s, 10)).collect();
    assert_eq!(rates[0], 0.0);
    assert!((rates[1] - 2.0 / 3.0).abs() < 1e-15);
    assert_eq!(rates[3], 2.0);
    assert!((rates[6] - (1.0 + (std::f64::consts::PI * 3.0 / 7.0).cos())).abs() < 1e-15);
    let linear = with(Schedule::Linear, Warmup::Steps(0));
    assert_eq!((linear.lr_at(0, 4), linear.lr_at(3, 4), linear.lr_at(9, 4)), (2.0, 0.5, 0.0));
    let percent = with(Schedule::Constant, Warmup::Percent(3.0));
    assert_eq!((percent.warmup_steps(101), percent.lr_at(4, 101), percent.lr_at(100, 101)), (4, 2.0, 2.0));
    assert_eq!(percent.lr_at(2, 101), 1.0);
}

/// Eight micro-batches of one row, or one of eight rows of unequal length and unequal counts.
#[test]
fn how_a_window_is_cut_hardly_shows() {
    for kind in [Kind::Lora, Kind::Full] {
        let shape = biased();
        let lengths = [9usize, 3, 14, 6, 2, 11, 8, 5];
        let apart: Vec<Micro> = (0u64..)
            .zip(lengths)
            .map(|(at, length)| {
                let rows = Rows::new(at, &[length], shape.vocab);
                Micro { ids: rows.ids, starts: rows.starts, labels: rows.labels, rows: vec![at as u32] }
            })
            .collect();
        let mut joined = Micro { starts: vec![0], ..Micro::default() };
        for micro in &apart {
            joined.ids.extend(&micro.ids);
            joined.labels.extend(&micro.labels);
            joined.starts.push(joined.ids.len() as u32);
        }
        let data = Fixed { steps: vec![vec![lengths.to_vec()]; 3], vocab: shape.vocab };
        let go = |micros: Vec<Micro>| {
            let mut trainer = trainer(kind, &shape, 0.0, settings(), &data);
            let window = Window { micros, epoch: 0.0 };
            let reports: Vec<StepReport> = (0..3).map(|_| trainer.step(&window).expect("a step")).collect();
            (reports, state(&trainer))
        };
        let (one, two) = (go(apart), go(vec![joined]));
        for (a, b) in one.0.iter().zip(&two.0) {
            assert!((a.loss - b.loss).abs() < 1e-5 && (a.grad_norm - b.grad_norm).abs() < 1e-5 * a.grad_norm);
            assert_eq!((a.tokens, a.counted), (b.tokens, b.counted));
        }
        for (at, ((name, a), (_, b))) in one.1.iter().zip(&two.1).enumerate() {
            // AdamW divides a gradient by its own size, so a parameter whose gradients are far below the largest of its
            // tensor, and have that many digits less, moves by as much as any other.
            let moments = &one.1[if name.starts_with("param.") { at + 1 } else { at }].1;
            let largest = moments.iter().fold(0.0f32, |top, m| m.abs().max(top));
            let digits = |m: f32| (0.1 * largest / m.abs()).max(1.0);
            let apart = a.iter().zip(b).zip(moments).filter(|((a, b), m)| (*a - *b).abs() >= 1e-5 * digits(**m));
            let apart: Vec<_> = apart.collect();
            assert!(apart.is_empty(), "{name}: {apart:?} of {largest}");
        }
    }
}

#[test]
fn losses_fall() {
    for kind in [Kind::Lora, Kind::Qlora, Kind::Full] {
        let shape = tied();
        let data = Fixed { steps: vec![vec![vec![12, 9, 15]]; 30], vocab: shape.vocab };
        let settings = Settings { lr: 1e-2, ..Settings::default() };
        let mut trainer = trainer(kind, &shape, 0.0, settings, &data);
        let window = data.window(0).expect("a window");
        let losses: Vec<f64> = (0..30).map(|_| trainer.step(&window).expect("a step").loss).collect();
        assert!(losses[29] < 0.6 * losses[0], "{kind:?}: {losses:?}");
        let held = trainer.evaluate(&mut window.micros.iter().map(|m| Ok(m.clone()))).expect("an evaluation");
        let mut alone = Evaluator::new(trainer.model(), data.extent(), &Heap).expect("an evaluator");
        let again =
            alone.run(trainer.model(), &mut window.micros.iter().map(|m| Ok(m.clone()))).expect("an evaluation");
        assert_eq!(held, again);
        assert!(held.loss < losses[29] && held.perplexity == held.loss.exp());
    }
}

#[test]
fn a_window_that_counts_nothing_changes_nothing() {
    let shape = tied();
    let data = ragged(shape.vocab);
    let mut trainer = trainer(Kind::Lora, &shape, 0.0, settings(), &data);
    let before = state(&trainer);
    let mut window = data.window(0).expect("a window");
    for micro in &mut window.micros {
        micro.labels.fill(NOT_COUNTED);
    }
    let report = trainer.step(&window).expect("a step");
    assert!(report.skipped && report.loss == 0.0 && report.step == 1);
    assert!(before == state(&trainer));
    assert_eq!((trainer.cursor().step, trainer.cursor().updates), (1, 0));
    let nothing = trainer.evaluate(&mut window.micros.into_iter().map(Ok)).expect_err("a fault");
    assert_eq!(nothing.code, "eval.nothing");
}

#[test]
fn what_is_not_finite_stops_before_the_update() {
    let shape = tied();
    let data = ragged(shape.vocab);
    let mut trainer = trainer(Kind::Lora, &shape, 0.0, settings(), &data);
    let saved = state(&trainer);
    let poison = &mut |name: &str, mut out: ViewMut<'_>| {
        put(out.reborrow(), &saved.iter().find(|(n, _)| n == name).expect("a tensor").1);
        if name == "param.model.layers.1.mlp.up_proj.lora_B.weight" {
            out.cpu::<f32>().expect("f32")[0] = f32::NAN;
        }
        Ok(())
    };
    trainer.restore(trainer.cursor(), poison).expect("restored");
    let fault = trainer.step(&data.window(1).expect("a window")).expect_err("a fault");
    assert_eq!(fault.code, "train.not_finite");
    assert!(fault.notes[0].contains("weights themselves"), "{:?}", fault.notes);
    assert_eq!(trainer.cursor().updates, 0);
}

#[test]
fn wrong_batches_and_models_are_refused() {
    let shape = tied();
    let data = ragged(shape.vocab);
    let mut trainer = trainer(Kind::Lora, &shape, 0.0, settings(), &data);
    let mut refused = |change: &dyn Fn(&mut Micro)| {
        let mut window = data.window(0).expect("a window");
        change(&mut window.micros[0]);
        trainer.step(&window).expect_err("a fault").code
    };
    assert_eq!(refused(&|m| m.ids[2] = 40), "data.unknown_token");
    assert_eq!(refused(&|m| m.labels[2] = 40), "data.unknown_token");
    assert_eq!(refused(&|m| m.labels.truncate(12)), "batch.labels");
    assert_eq!(refused(&|m| m.starts[1] = 13), "batch.starts");
    assert_eq!(refused(&|m| m.starts[1] = 0), "batch.starts");
    assert_eq!(refused(&|m| m.starts.truncate(2)), "batch.starts");
    assert_eq!(refused(&|m| *m.starts.last_mut().expect("an end") = 99), "batch.starts");
    let long = |m: &mut Micro| {
        let rows = Rows::new(0, &[18], 40);
        (m.ids, m.starts, m.labels) = (rows.ids, rows.starts, rows.labels);
    };
    assert_eq!(refused(&long), "train.extent");

    let new = |form: Form, adapted: bool, trainable: Trainable, settings: Settings, extent: Extent| {
        let mut model = lively(&shape, form);
        if adapted {
            model.adapter = Some(lively_adapter(&shape, lora(&Proj::ALL)));
        }
        Trainer::new(model, &trainable, settings, 4, extent, &Heap).err().expect("a fault").code
    };
    let (dense, all, extent) = (Form::dense(Float::F32), lora(&Proj::ALL), data.extent());
    assert_eq!(new(dense, true, Trainable::Full, settings(), extent), "train.adapted");
    assert_eq!(new(Form::dense(Float::Bf16), false, Trainable::Full, settings(), extent), "train.needs_f32");
    assert_eq!(new(dense, true, Trainable::NewLora(all.clone()), settings(), extent), "train.adapted");
    assert_eq!(new(dense, false, Trainable::Lora(all.clone()), settings(), extent), "train.no_adapter");
    let other = LoraSettings { rank: 4, ..all.clone() };
    assert_eq!(new(dense, true, Trainable::Lora(other), settings(), extent), "train.other_adapter");
    let whole = LoraSettings { dropout: 1.0, ..all.clone() };
    assert_eq!(new(dense, false, Trainable::NewLora(whole), settings(), extent), "adapter.dropout");
    let nan = Settings { lr: f64::NAN, ..settings() };
    assert_eq!(new(dense, false, Trainable::NewLora(all.clone()), nan, extent), "train.bad_value");
    let far = Extent { longest: 65, ..extent };
    assert_eq!(new(dense, false, Trainable::NewLora(all.clone()), settings(), far), "model.too_long");
    let none = Extent { counted: 0, ..extent };
    assert_eq!(new(dense, false, Trainable::NewLora(all), settings(), none), "train.nothing");
}
