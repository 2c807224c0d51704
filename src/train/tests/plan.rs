//! Planned is taken, to the byte and by holding.

use super::*;
use crate::kernels::Spec;
use crate::model::tests::{Recorder, totals};

#[test]
fn a_trainer_takes_what_was_planned() {
    let dense = Form::dense(Float::F32);
    let forms =
        [dense, Form::dense(Float::Bf16), dense.quantised(64, true), Form::dense(Float::F16).quantised(64, false)];
    for shape in [tied(), biased()] {
        let data = ragged(shape.vocab);
        for (recompute, free_logits, offload) in
            [(false, false, false), (true, true, false), (true, false, true), (false, true, true)]
        {
            let settings = Settings { recompute, free_logits, offload, ..settings() };
            let fresh = |dropout, targets: &[Proj]| Trainable::NewLora(LoraSettings { dropout, ..lora(targets) });
            let mut cases = vec![(dense, Trainable::Full)];
            cases.extend(forms.map(|form| (form, fresh(0.0, &Proj::ALL))));
            cases.push((dense, fresh(0.1, &[Proj::Down, Proj::Q])));
            for (form, trainable) in cases {
                let model = lively(&shape, form);
                let pool = Recorder::default();
                let mut trainer =
                    Trainer::new(model, &trainable, settings.clone(), 4, data.extent(), &pool).expect("a trainer");
                let taken = pool.0.borrow().len();
                run(&mut trainer, &data);
                assert_eq!(pool.0.borrow().len(), taken, "a step takes nothing");
                let threads = rayon::current_num_threads();
                let plan = planned(&shape, form, &trainable, &settings, data.extent(), threads).expect("a plan");
                let plan = totals(plan.iter().map(|(holding, spec)| (*holding, spec)));
                assert_eq!(pool.totals(), plan);
                assert!(plan.keys().all(|holding| !grows_with(holding).is_empty()), "{plan:?}");
            }
        }
    }
}

#[test]
fn an_evaluator_takes_what_was_planned() {
    let shape = biased();
    let data = ragged(shape.vocab);
    for form in [Form::dense(Float::F32), Form::dense(Float::Bf16).quantised(64, true)] {
        let mut model = lively(&shape, form);
        model.adapter = Some(lively_adapter(&shape, lora(&[Proj::V])));
        let pool = Recorder::default();
        Evaluator::new(&model, data.extent(), &pool).expect("an evaluator");
        let threads = rayon::current_num_threads();
        let plan = evaluation(&shape, form, Some(&lora(&[Proj::V])), data.extent(), threads).expect("a plan");
        assert_eq!(pool.totals(), totals(plan.iter().map(|(holding, spec)| (*holding, spec))));
    }
}

/// What a checkpoint takes is known before there is a trainer.
#[test]
fn a_state_is_as_was_said_before() {
    for shape in [tied(), biased(), Shape { vocab: 200, ..tied() }] {
        let data = ragged(shape.vocab);
        for optim in [Optim::AdamW, Optim::AdamW8bit] {
            let settings = Settings { optim, ..settings() };
            let some = lora(&[Proj::Down, Proj::Q]);
            for trainable in [Trainable::Full, Trainable::NewLora(lora(&Proj::ALL)), Trainable::NewLora(some)] {
                let model = lively(&shape, Form::dense(Float::F32));
                let (total, extent) = (data.total_steps(), data.extent());
                let trainer = Trainer::new(model, &trainable, settings.clone(), total, extent, &Heap).expect("made");
                let said = state_specs(&shape, &trainable, optim).expect("specs");
                let is: Vec<(String, Spec)> =
                    trainer.state().into_iter().map(|(name, buf)| (name, buf.spec().clone())).collect();
                assert_eq!(said, is, "{trainable:?}");
                assert!(is.iter().any(|(name, _)| name.starts_with(PARAMETER)));
            }
        }
    }
}

#[test]
fn switches_free_what_they_promise() {
    let shape = Shape { vocab: 50000, layers: 8, ..tied() };
    let extent = Extent { tokens: 2048, counted: 2048, longest: 64 };
    let sizes = |recompute, free_logits| {
        let settings = Settings { recompute, free_logits, ..settings() };
        let plan = planned(&shape, Form::dense(Float::F32), &Trainable::Full, &settings, extent, 2).expect("a plan");
        totals(plan.iter().map(|(holding, spec)| (*holding, spec)))
    };
    let (all, few) = (sizes(false, false), sizes(true, true));
    assert_eq!(all["logits"], 2048 * 50000 * 4);
    assert!(few["logits"] <= (256 + 127) * 50000 * 4);
    assert!(few["saved activations"] + few["block activations"] < all["saved activations"] / 4);
}

/// What leaves the card is what is found in RAM, but for the blocks at hand and the inputs' third room.
#[test]
fn offloading_moves_what_it_frees() {
    let shape = Shape { layers: 20, ..tied() };
    let extent = Extent { tokens: 2048, counted: 2048, longest: 64 };
    let sizes = |offload, recompute| {
        let settings = Settings { offload, recompute, ..settings() };
        let plan = planned(&shape, Form::dense(Float::F32), &Trainable::Full, &settings, extent, 2).expect("a plan");
        totals(plan.iter().map(|(holding, spec)| (*holding, spec)))
    };
    let input = 2048 * 4 * shape.hidden as u64;
    for recompute in [false, true] {
        let (near, away) = (sizes(false, recompute), sizes(true, recompute));
        assert!(!near.contains_key(OFFLOADED));
        let saved = |sizes: &std::collections::BTreeMap<String, u64>| sizes["saved activations"];
        assert_eq!(saved(&near), saved(&away) + away[OFFLOADED], "recompute {recompute}");
        let block = (saved(&near) - 21 * input) / 20;
        assert_eq!(saved(&away), 3 * input + 2 * block);
        let rest = |mut sizes: std::collections::BTreeMap<String, u64>| {
            sizes.retain(|name, _| name != "saved activations" && name != OFFLOADED);
            sizes
        };
        assert_eq!(rest(near), rest(away));
    }
}
