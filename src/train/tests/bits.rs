//! What must not show in the results: memory switches, threads, interruption.

use super::*;

fn on_threads<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool").install(f)
}

#[test]
fn switches_and_threads_do_not_show() {
    for kind in [Kind::Lora, Kind::Qlora, Kind::Full] {
        for shape in [tied(), biased()] {
            let data = ragged(shape.vocab);
            let dropout = if kind == Kind::Full { 0.0 } else { 0.2 };
            let go = |recompute, free_logits| {
                let settings = Settings { recompute, free_logits, ..settings() };
                let mut trainer = trainer(kind, &shape, dropout, settings, &data);
                let reports = run(&mut trainer, &data);
                (reports, state(&trainer))
            };
            let first = on_threads(1, || go(false, false));
            assert!(first.0.iter().all(|r| r.loss.is_finite() && r.grad_norm > 0.0));
            for (threads, recompute, free_logits) in
                [(2, false, false), (3, false, true), (2, true, false), (1, true, true), (3, true, true)]
            {
                let again = on_threads(threads, || go(recompute, free_logits));
                assert!(
                    first == again,
                    "{kind:?}: {threads} threads, recompute {recompute}, free_logits {free_logits}"
                );
            }
        }
    }
}

/// Deep enough that blocks wait, with more of them than rooms to take turns in.
fn deep(shape: Shape) -> Shape {
    Shape { layers: 7, ..shape }
}

#[test]
fn where_activations_wait_does_not_show() {
    for kind in [Kind::Lora, Kind::Qlora, Kind::Full] {
        for shape in [tied(), biased(), deep(tied()), deep(biased())] {
            let data = ragged(shape.vocab);
            let dropout = if kind == Kind::Full { 0.0 } else { 0.2 };
            let go = |offload, recompute, free_logits| {
                let settings = Settings { offload, recompute, free_logits, ..settings() };
                let mut trainer = trainer(kind, &shape, dropout, settings, &data);
                // Scoring between steps uses the same rooms, and must leave nothing behind that is learnt from.
                let mut reports = Vec::new();
                for step in 0..data.total_steps() {
                    let window = data.window(step).expect("a window");
                    let micro = window.micros[0].clone();
                    reports.push(trainer.step(&window).expect("a step"));
                    let eval = trainer.evaluate(&mut std::iter::once(Ok(micro))).expect("a score");
                    assert!(eval.loss.is_finite());
                }
                (reports, state(&trainer))
            };
            let first = on_threads(1, || go(false, false, false));
            for (threads, recompute, free_logits) in [(1, false, false), (3, true, false), (2, false, true)] {
                let again = on_threads(threads, || go(true, recompute, free_logits));
                assert!(first == again, "{kind:?}, {} layers, recompute {recompute}", shape.layers);
            }
        }
    }
}

/// Wide enough that products and reductions are really split over threads.
#[test]
fn threads_do_not_show_on_larger_models() {
    let shape =
        Shape { hidden: 192, heads: 6, kv_heads: 3, head_dim: 32, ffn: 512, vocab: 1000, max_positions: 512, ..tied() };
    let data = Fixed { steps: vec![vec![vec![200, 90, 33]], vec![vec![301]]], vocab: shape.vocab };
    for kind in [Kind::Lora, Kind::Full] {
        let go = |recompute, free_logits| {
            let mut trainer = trainer(kind, &shape, 0.0, Settings { recompute, free_logits, ..settings() }, &data);
            (run(&mut trainer, &data), state(&trainer))
        };
        let first = on_threads(1, || go(false, false));
        for (threads, recompute) in [(2, false), (3, true)] {
            assert!(first == on_threads(threads, || go(recompute, true)), "{kind:?}: {threads} threads");
        }
    }
}

#[test]
fn an_interrupted_run_goes_on_as_if_it_had_not_been() {
    let eight = Settings { optim: Optim::AdamW8bit, ..settings() };
    let cases = [(Kind::Lora, settings()), (Kind::Qlora, settings()), (Kind::Full, settings()), (Kind::Full, eight)];
    for (kind, settings) in cases {
        // A table that is wide enough to have its moments in 8 bits, where they are asked for.
        let shape = Shape { vocab: 200, ..tied() };
        let settings = || settings.clone();
        let data = ragged(shape.vocab);
        let dropout = if kind == Kind::Full { 0.0 } else { 0.2 };
        let mut whole = trainer(kind, &shape, dropout, settings(), &data);
        let reports = run(&mut whole, &data);
        let mut first = trainer(kind, &shape, dropout, settings(), &data);
        for step in 0..2 {
            first.step(&data.window(step).expect("a window")).expect("a step");
        }
        let (cursor, saved) = (first.cursor(), state(&first));
        let text = serde_json::to_string(&cursor).expect("a text");
        let mut second = trainer(kind, &shape, dropout, settings(), &data);
        let read = &mut |name: &str, out: ViewMut<'_>| {
            put(out, &saved.iter().find(|(n, _)| n == name).expect("a tensor").1);
            Ok(())
        };
        second.restore(serde_json::from_str(&text).expect("a cursor"), read).expect("restored");
        assert_eq!(run(&mut second, &data), reports[2..]);
        assert!(state(&second) == state(&whole), "{kind:?}");
        assert_eq!(second.cursor(), whole.cursor());
    }
}

#[test]
fn updating_in_the_backward_pass_changes_no_bit() {
    for shape in [tied(), biased()] {
        let data = ragged(shape.vocab).one_batch_a_step();
        let plain = Settings { clip: None, accum: 1, ..settings() };
        let go = |settings: Settings| {
            let mut trainer = trainer(Kind::Full, &shape, 0.0, settings, &data);
            (run(&mut trainer, &data), state(&trainer))
        };
        let whole = go(plain.clone());
        for (recompute, free_logits, offload) in
            [(false, false, false), (true, true, false), (false, false, true), (true, false, true)]
        {
            let fused = go(Settings { fused_step: true, recompute, free_logits, offload, ..plain.clone() });
            assert!(fused == whole, "{recompute} {offload}");
        }
    }
}
