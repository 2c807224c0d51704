//! Losses and every gradient against candle's autograd in f64 and against finite differences.

use super::oracle::Oracle;
use super::*;
use crate::kernels::Buf;

/// Loss, and gradients by name.
type Learnt = (f64, Vec<(String, Vec<f32>)>);

/// Loss and gradients of one micro-batch, as the engine makes them.
fn engine(model: &Model, rows: &Rows, keep: Keep, keep_logits: bool) -> Learnt {
    dropping(model, rows, keep, keep_logits, None)
}

fn dropping(model: &Model, rows: &Rows, keep: Keep, keep_logits: bool, key: Option<Key>) -> Learnt {
    let batch = Laid::scored(&rows.batch(), &model.shape).expect("a batch");
    let lora = model.adapter.as_ref().map(|adapter| &adapter.settings);
    let need = Need { keep, offload: false, extent: batch.extent(), lora, keep_logits, threads: 2 };
    let mut pass = Pass::take(&model.shape, model.form, &need, &Heap).expect("buffers");
    let mut grads = match lora {
        Some(lora) => {
            Gradients::Lora(take(&Heap, |make| Adapter::make_as(&model.shape, lora, "", make)).expect("buffers"))
        }
        None => Gradients::Full(take(&Heap, |make| FullGradients::make(&model.shape, false, make)).expect("memory")),
    };
    let scale = 1.0 / batch.counted() as f32;
    let learn = || -> crate::text::Result<f64> {
        forward(model, &mut pass, &batch, key)?;
        let loss = score(model, &mut pass, &batch, Some((&mut grads, scale)))?;
        score_backward(model, &mut pass, &batch, &mut grads, scale)?;
        backward(model, &mut pass, &batch, key, &mut grads)?;
        Ok(loss)
    };
    let loss = { learn }().expect("a pass") / batch.counted() as f64;
    let names: Vec<String> = match &model.adapter {
        Some(adapter) => adapter.matrices().into_iter().map(|(name, _)| name).collect(),
        None => model.shape.tensors().iter().map(|t| t.name.clone()).collect(),
    };
    let values = |buf: &Buf| buf.view().cpu::<f32>().expect("f32").to_vec();
    (loss, names.into_iter().zip(grads.buffers().into_iter().map(values)).collect())
}

fn against_oracle(model: &Model, rows: &Rows) {
    let (loss, grads) = engine(model, rows, Keep::All, true);
    let oracle = Oracle::of(model).expect("the oracle");
    let expected = oracle.loss(&rows.batch()).expect("its loss");
    let store = expected.backward().expect("its gradients");
    let expected = expected.to_scalar::<f64>().expect("a number");
    assert!((loss - expected).abs() < 2e-6 * expected, "loss {loss}, oracle {expected}");
    for (name, grad) in grads {
        let want = store.get(&oracle.vars[&name]).unwrap_or_else(|| panic!("no gradient for {name}"));
        let want: Vec<f64> = want.flatten_all().and_then(|t| t.to_vec1()).expect("values");
        let top = want.iter().fold(0f64, |m, x| m.max(x.abs()));
        assert!(top > 1e-7, "{name} gets no gradient");
        for (i, (got, want)) in grad.iter().zip(&want).enumerate() {
            let off = (f64::from(*got) - want).abs();
            assert!(off <= 2e-5 * top, "{name}[{i}]: {got}, oracle {want}, largest {top}");
        }
    }
}

fn rows(shape: &Shape) -> Rows {
    // A row of one token counts nothing and still has a place.
    Rows::new(11, &[7, 12, 1, 5], shape.vocab)
}

#[test]
fn full_gradients_are_autograds() {
    for shape in [tied(), biased(), qwen()] {
        against_oracle(&lively(&shape, Form::dense(Float::F32)), &rows(&shape));
    }
}

#[test]
fn adapter_gradients_are_autograds() {
    for shape in [tied(), biased(), qwen()] {
        let dense = Form::dense(Float::F32);
        for form in [dense, dense.quantised(64, false), dense.quantised(64, true), Form::dense(Float::Bf16)] {
            for targets in [&Proj::ALL[..], &[Proj::Q, Proj::V], &[Proj::Down]] {
                let mut model = lively(&shape, form);
                model.adapter = Some(lively_adapter(&shape, lora(targets)));
                against_oracle(&model, &rows(&shape));
            }
        }
    }
}

/// The values of a trained parameter.
fn parameter(model: &mut Model, at: usize) -> &mut [f32] {
    let buf = match (&mut model.adapter, &mut model.tensors[at]) {
        (Some(adapter), _) => adapter.matrices_mut().swap_remove(at),
        (None, Weight::Dense(buf)) => buf,
        _ => panic!("not dense"),
    };
    buf.view_mut().cpu::<f32>().expect("f32")
}

fn against_slopes(mut model: Model, key: Option<Key>) {
    let rows = rows(&model.shape);
    let (_, grads) = dropping(&model, &rows, Keep::All, true, key);
    // The steepest element of each tensor: elsewhere f32 rounding drowns the difference.
    for (at, (name, grad)) in grads.iter().enumerate() {
        let i = (0..grad.len()).max_by(|a, b| grad[*a].abs().total_cmp(&grad[*b].abs())).expect("an element");
        let step = 1e-2;
        let mut shifted = |by: f32| {
            parameter(&mut model, at)[i] += by;
            let loss = dropping(&model, &rows, Keep::All, true, key).0;
            parameter(&mut model, at)[i] -= by;
            loss
        };
        let slope = (shifted(step) - shifted(-step)) / (2.0 * f64::from(step));
        let grad = f64::from(grad[i]);
        assert!((slope - grad).abs() <= 0.02 * grad.abs() + 2e-4, "{name}[{i}]: slope {slope}, gradient {grad}");
    }
}

#[test]
fn gradients_are_slopes() {
    against_slopes(lively(&biased(), Form::dense(Float::F32)), None);
}

/// Dropout has no counterpart in the oracle: its numbers are our own.
#[test]
fn gradients_through_dropout_are_slopes() {
    let mut model = lively(&biased(), Form::dense(Float::F32));
    let (few, all) = (LoraSettings { dropout: 0.4, ..lora(&Proj::ALL) }, lora(&Proj::ALL));
    model.adapter = Some(lively_adapter(&biased(), few));
    let rows = rows(&model.shape);
    let key = Some(Key::new(77));
    let dropped = dropping(&model, &rows, Keep::All, true, key);
    assert!(dropped == dropping(&model, &rows, Keep::Inputs, false, key));
    let mut plain = lively(&biased(), Form::dense(Float::F32));
    plain.adapter = Some(lively_adapter(&biased(), all));
    assert_ne!(dropped.0, engine(&plain, &rows, Keep::All, true).0);
    against_slopes(model, key);
}

#[test]
fn what_is_kept_does_not_show() {
    for shape in [tied(), biased(), qwen()] {
        for adapted in [true, false] {
            let mut model = lively(&shape, Form::dense(Float::F32));
            if adapted {
                model.adapter = Some(lively_adapter(&shape, lora(&Proj::ALL)));
            }
            let first = engine(&model, &rows(&shape), Keep::All, true);
            for (keep, logits) in [(Keep::All, false), (Keep::Inputs, true), (Keep::Inputs, false)] {
                assert!(first == engine(&model, &rows(&shape), keep, logits), "{keep:?}, logits kept: {logits}");
            }
        }
    }
}

/// More counted tokens than a window has, so that logits are really cut; against two batches of one window each.
#[test]
fn windows_of_logits_do_not_show() {
    let small = Shape { hidden: 8, heads: 2, kv_heads: 1, head_dim: 4, ffn: 8, layers: 1, ..tied() };
    let shape = Shape { vocab: 140_000, max_positions: 1024, ..small };
    let (one, two) = (Rows::new(2, &[190], shape.vocab), Rows::new(3, &[210], shape.vocab));
    let mut both = Rows { ids: one.ids.clone(), starts: vec![0, 190, 400], labels: one.labels.clone() };
    both.ids.extend(&two.ids);
    both.labels.extend(&two.labels);
    let model = lively(&shape, Form::dense(Float::F32));
    let counted = |rows: &Rows| Extent::of(&rows.batch()).counted as f64;
    assert!(counted(&one) < 255.0 && counted(&both) >= 256.0);
    let whole = engine(&model, &both, Keep::All, false);
    assert!(whole == engine(&model, &both, Keep::All, true));
    let parts = [
        (counted(&one), engine(&model, &one, Keep::All, false)),
        (counted(&two), engine(&model, &two, Keep::All, false)),
    ];
    let mean = |of: &dyn Fn(&Learnt) -> f64| parts.iter().map(|(n, part)| n * of(part)).sum::<f64>() / counted(&both);
    assert!((whole.0 - mean(&|part| part.0)).abs() < 1e-5);
    for (at, (name, grad)) in whole.1.iter().enumerate() {
        let top = grad.iter().fold(0f32, |m, x| m.max(x.abs()));
        for (i, got) in grad.iter().enumerate() {
            let want = mean(&|part| f64::from(part.1[at].1[i]));
            assert!((f64::from(*got) - want).abs() < 1e-5 * f64::from(top), "{name}[{i}]");
        }
    }
}

#[test]
fn neighbours_do_not_see_each_other() {
    let shape = biased();
    let model = lively(&shape, Form::dense(Float::F32));
    let losses = |rows: &Rows| {
        let batch = Laid::scored(&rows.batch(), &shape).expect("a batch");
        let need = Need {
            keep: Keep::Nothing,
            offload: false,
            extent: batch.extent(),
            lora: None,
            keep_logits: false,
            threads: 2,
        };
        let mut pass = Pass::take(&shape, model.form, &need, &Heap).expect("buffers");
        forward(&model, &mut pass, &batch, None).expect("a pass");
        score(&model, &mut pass, &batch, None).expect("a loss");
        let per_row = pass.set.top.loss.view().slice(0..batch.counted()).cpu::<f32>().expect("f32").to_vec();
        batch.rows.iter().zip(per_row).filter(|(row, _)| (5..14).contains(*row)).map(|(_, l)| l).collect::<Vec<_>>()
    };
    let mut rows = Rows::new(4, &[5, 9, 6], shape.vocab);
    let before = losses(&rows);
    assert!(before.len() > 3);
    for at in (0..5).chain(14..20) {
        rows.ids[at] = (rows.ids[at] + 7) % shape.vocab as u32;
    }
    assert_eq!(before, losses(&rows));
}
