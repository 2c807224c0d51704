//! Logits against the oracle; generation with a cache against running the whole text again.

use super::oracle::Oracle;
use super::*;

fn greedy(max_new: usize) -> Sampling {
    Sampling { max_new, temperature: 0.0, top_p: 1.0, seed: 0, stop: vec![] }
}

#[test]
fn logits_are_the_oracles() {
    for shape in [tied(), biased(), qwen()] {
        let mut model = lively(&shape, Form::dense(Float::F32));
        model.adapter = Some(lively_adapter(&shape, lora(&Proj::ALL)));
        let ids = Rows::new(9, &[21], shape.vocab).ids;
        let got = logits(&model, &ids, &Heap).expect("logits");
        let want = Oracle::of(&model).and_then(|o| o.logits(&ids)?.flatten_all()?.to_vec1::<f64>()).expect("logits");
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(&want) {
            assert!((f64::from(*got) - want).abs() < 1e-4, "{got}, oracle {want}");
        }
    }
}

#[test]
fn the_cache_does_not_change_the_text() {
    for shape in [tied(), biased(), qwen()] {
        let model = lively(&shape, Form::dense(Float::F32));
        let prompt = [3, 1, 4, 1, 5];
        let mut seen = Vec::new();
        let written = generate(&model, &prompt, &greedy(12), &Heap, &mut |token| {
            seen.push(token);
            true
        })
        .expect("a text");
        assert_eq!((written.len(), &written), (12, &seen));
        let mut text = prompt.to_vec();
        for token in written {
            let all = logits(&model, &text, &Heap).expect("logits");
            let last = &all[all.len() - shape.vocab..];
            let best = (0..last.len()).max_by(|a, b| last[*a].total_cmp(&last[*b])).expect("a token");
            assert_eq!(token as usize, best);
            text.push(token);
        }
    }
}

#[test]
fn a_text_ends_at_stops_positions_and_by_wish() {
    let shape = Shape { max_positions: 10, ..tied() };
    let model = lively(&shape, Form::dense(Float::F32));
    let whole = generate(&model, &[1, 2], &greedy(50), &Heap, &mut |_| true).expect("a text");
    // Nine tokens were read for the last one, which is written and not read: the tenth position.
    assert_eq!(whole.len(), 9);
    let stop = Sampling { stop: vec![whole[3]], ..greedy(50) };
    let first = whole.iter().position(|t| *t == whole[3]).expect("the token");
    assert_eq!(generate(&model, &[1, 2], &stop, &Heap, &mut |_| true).expect("a text"), whole[..first]);
    assert_eq!(generate(&model, &[1, 2], &greedy(50), &Heap, &mut |_| false).expect("a text"), whole[..1]);
    assert_eq!(
        generate(&model, &[0; 10], &greedy(1), &Heap, &mut |_| true).expect_err("a fault").code,
        "model.too_long"
    );
    assert_eq!(generate(&model, &[], &greedy(1), &Heap, &mut |_| true).expect_err("a fault").code, "batch.empty");
    assert_eq!(
        generate(&model, &[40], &greedy(1), &Heap, &mut |_| true).expect_err("a fault").code,
        "data.unknown_token"
    );
}

#[test]
fn draws_follow_the_seed() {
    let shape = tied();
    let model = lively(&shape, Form::dense(Float::F32));
    let text = |seed, top_p| {
        let sampling = Sampling { max_new: 20, temperature: 1.5, top_p, seed, stop: vec![] };
        generate(&model, &[1], &sampling, &Heap, &mut |_| true).expect("a text")
    };
    assert_eq!(text(1, 0.9), text(1, 0.9));
    assert_ne!(text(1, 0.9), text(2, 0.9));
    // A set too small for two tokens leaves the likeliest.
    assert_eq!(text(1, 0.0), generate(&model, &[1], &greedy(20), &Heap, &mut |_| true).expect("a text"));
}

#[test]
fn generation_takes_what_was_planned() {
    let shape = biased();
    for form in [Form::dense(Float::F32), Form::dense(Float::Bf16).quantised(64, true)] {
        let mut model = lively(&shape, form);
        let settings = lora(&[Proj::Q, Proj::Up]);
        model.adapter = Some(lively_adapter(&shape, settings.clone()));
        let pool = super::held::Recorder::default();
        generate(&model, &[1, 2, 3], &greedy(7), &pool, &mut |_| true).expect("a text");
        let plan = generation(&shape, form, Some(&settings), 3, 7, rayon::current_num_threads()).expect("a plan");
        assert_eq!(pool.totals(), super::held::totals(plan.iter().map(|(holding, spec)| (*holding, spec))));
    }
}
