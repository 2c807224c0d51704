//! The plan tells the truth, at its corners: the matrix of `benches/plans` with a small model, by the same bounds.

// What the bench alone needs of them is not used here.
#[allow(dead_code)]
#[path = "../../benches/plans/case.rs"]
mod case;
#[allow(dead_code)]
#[path = "../../benches/plans/judge.rs"]
mod judge;

use tunepipe::model::{Random, Shape, WeightSource};
use tunepipe::store::{ModelPlan, ModelWriter, StoredType, TensorInfo};

use self::case::Case;
use self::judge::Ran;
use super::*;

/// A third of SmolLM2-135M, each way.
const VOCAB: u64 = 16384;

fn model(desk: &Desk) {
    let shape = Shape::from_config(&serde_json::json!({
        "model_type": "llama", "hidden_size": 192, "num_hidden_layers": 10, "num_attention_heads": 3,
        "num_key_value_heads": 1, "intermediate_size": 512, "vocab_size": VOCAB, "max_position_embeddings": 8192,
        "tie_word_embeddings": true, "rope_theta": 100000.0, "rms_norm_eps": 1e-5,
    }))
    .expect("a shape");
    let info = |t: &tunepipe::model::Tensor| TensorInfo::new(&t.name, &t.shape, StoredType::BF16);
    let plan = ModelPlan::new(shape.tensors().iter().map(info).collect(), shape.to_config("bfloat16"));
    let random = Random::new(1, &shape);
    let mut writer = ModelWriter::create(&desk.path("small"), false, &plan).expect("a folder");
    for tensor in shape.tensors().iter() {
        let (rows, cols) = tensor.dims();
        let mut values = vec![0.0; rows * cols];
        random.read(&tensor.name, 0..rows, &mut values).expect("values");
        writer.next_tensor(&tensor.name, |sink| sink.write_f32(&values)).expect("written");
    }
    writer.commit().expect("whole");
}

/// Runs a case and returns what its folder says.
fn ran(desk: &Desk, case: &Case) -> Ran {
    let _ = fs::remove_dir_all(desk.path("out"));
    case.write_rows(&desk.path("rows.jsonl"), VOCAB).expect("rows");
    let name = case.to_string().replace(' ', "-");
    let text = case.pipeline("\"small\" tokenizer=bytes", 2);
    desk.run(&name, text.strip_prefix("tunepipe 1\n").expect("an edition"));
    Ran::read(&desk.path(&format!("runs/{name}"))).expect("a run's folder")
}

#[test]
fn the_corners_of_the_matrix_are_within_their_bounds() {
    let desk = Desk::empty();
    model(&desk);
    let size = |case: &Case| matches!((case.batch, case.length), (1, 128) | (4, 512));
    let corner = |case: &Case| case.free_logits == case.recompute && size(case);
    let corners: Vec<Case> = Case::all().into_iter().filter(corner).collect();
    assert_eq!(corners.len(), 24);
    let mut wrong = Vec::new();
    for case in &corners {
        let ran = ran(&desk, case);
        assert!(ran.rows.iter().filter(|row| row.place == "ram").count() >= 6, "{case}: {:?}", ran.rows);
        wrong.extend(ran.wrong().into_iter().map(|words| format!("{case}: {words}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The plan is of the heap; the process holds little more.
#[test]
fn what_is_resident_is_little_more_than_what_was_planned() {
    let desk = Desk::empty();
    model(&desk);
    let case = Case { recipe: "lora", free_logits: false, recompute: false, batch: 4, length: 2048, packed: false };
    let ran = ran(&desk, &case);
    assert!(ran.planned > 500 << 20 && ran.resident > 500 << 20, "a case of some size: {ran:?}");
    assert!(ran.wrong().is_empty(), "{}", ran.wrong().join("\n"));
}

/// What is held at a training's fifth step is held at its five hundredth, and not a buffer more.
#[test]
fn nothing_creeps_up_in_a_long_training() {
    let desk = Desk::new();
    let row = |at: usize| {
        let ids: Vec<String> = (0..24).map(|i| ((at * 31 + i * 7) % 256).to_string()).collect();
        format!("{{\"input_ids\": [{}]}}\n", ids.join(", "))
    };
    desk.write("same.jsonl", &(0..40).map(row).collect::<String>());
    let peak = |steps: u32| {
        let name = format!("steps{steps}");
        let data = "load model \"model\"\nload data \"same.jsonl\" format=tokens holdout=4rows";
        desk.run(&name, &format!("{data}\ntrain lora batch=2 accum=2 steps={steps} eval_every=100steps dropout=0.1"));
        let text = fs::read_to_string(desk.path(&format!("runs/{name}/memory.json"))).expect("memory");
        let rows: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        let of = |phase: &str, key: &str| {
            let row = rows.iter().find(|row| row["stage"] == "train lora" && row["phase"] == phase);
            row.and_then(|row| row[key].as_u64()).expect("a row")
        };
        ["step", "evaluate"].map(|phase| (of(phase, "planned"), of(phase, "measured")))
    };
    let (short, long) = (peak(5), peak(500));
    for ((planned, measured), (planned_long, measured_long)) in short.into_iter().zip(long) {
        assert_eq!(planned, planned_long);
        // Queues of the thread pool take blocks of a KiB as it happens.
        assert!(measured_long <= measured + (8 << 10), "{measured} at step 5, {measured_long} at step 500");
    }
}

#[test]
fn a_plan_says_which_rows_make_its_peak() {
    let desk = Desk::new();
    let row = |len: usize| {
        let ids: Vec<String> = (0..len).map(|i| (i % 256).to_string()).collect();
        format!("{{\"input_ids\": [{}]}}\n", ids.join(", "))
    };
    // In file order, two at a time: lines 1 and 2, 3 and 4, and the ragged last.
    desk.write("rows.jsonl", &[20, 30, 40, 25, 90].map(row).concat());
    let notes = |data: &str, rest: &str| {
        desk.write(
            "p.tp",
            &format!(
                "tunepipe 1\nload model \"model\"\nload data \"rows.jsonl\" format=tokens shuffle=false{data}\n{rest}\n"
            ),
        );
        desk.tunepipe(&["plan", "p.tp"]).ended(0).out
    };
    let out = notes("", "train lora batch=2");
    assert!(out.contains("line 4: the largest batch, of step 3, has 90 tokens: rows.jsonl:5"), "{out}");
    let out = notes("", "train lora batch=2 steps=2");
    assert!(
        out.contains("of step 2, has 65 tokens, the longest row of any 40: rows.jsonl:3, rows.jsonl:4"),
        "a short training never meets the long row: {out}"
    );
    let out = notes("", "train lora batch=2 steps=1");
    assert!(out.contains("of step 1, has 50 tokens") && out.contains("rows.jsonl:1, rows.jsonl:2"), "{out}");
    let out = notes(" packed max_len=100", "train full steps=1");
    assert!(
        out.contains("of step 1, has 90 tokens") && out.contains("rows.jsonl:1, rows.jsonl:2, rows.jsonl:3"),
        "{out}"
    );
    let out = notes("", "eval batch=3");
    assert!(
        out.contains("the largest batch that is scored has 115 tokens") && out.contains("rows.jsonl:4, rows.jsonl:5"),
        "{out}"
    );
    let out = notes("", "train lora batch=5");
    assert!(out.contains("rows.jsonl:4 and 1 more"), "{out}");
    // Held-out rows are named where they are the larger.
    desk.write("long.jsonl", &row(300));
    let valid = "load data \"long.jsonl\" format=tokens as held\ntrain lora steps=1 valid=held";
    let out = notes("", valid);
    assert!(out.contains("has 300 tokens: long.jsonl:1"), "{out}");
    // Without rows, `max_len` stands for each, and that is said.
    fs::remove_file(desk.path("rows.jsonl")).expect("there");
    for rest in ["train lora batch=2", "train full steps=1", "eval batch=3"] {
        let out = notes(" max_len=64", rest);
        assert!(
            out.contains("planned as if every row had `max_len` tokens") && !out.contains("largest batch"),
            "{out}"
        );
    }
}

/// The tokenizer of a model that is trained on token rows is gone when training starts, unless something is written on.
#[test]
fn a_tokenizer_is_held_until_the_last_answer() {
    let desk = Desk::new();
    let held = |text: &str| -> Vec<(String, bool)> {
        let data = "load model \"model\"\nload data \"rows.jsonl\" format=completion";
        desk.write("t.tp", &format!("tunepipe 1\n{data}\n{text}\n"));
        let plan = desk.tunepipe(&["plan", "--json", "t.tp"]).ended(0).json();
        let stages = plan["targets"][0]["stages"].as_array().expect("stages").clone();
        let phases = stages.iter().flat_map(|stage| {
            let name = stage["name"].as_str().expect("a name").to_owned();
            let phases = stage["phases"].as_array().expect("phases").clone();
            phases.into_iter().map(move |phase| {
                let holdings = phase["holdings"].as_array().expect("holdings").clone();
                (name.clone(), holdings.iter().any(|holding| holding["name"] == "tokenizer"))
            })
        });
        phases.collect()
    };
    let with = |text: &str| -> Vec<String> {
        let mut names: Vec<String> = held(text).into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect();
        // A stage has several phases.
        names.dedup();
        names
    };
    assert_eq!(with("train lora steps=1\nsave merged \"out/m\""), Vec::<String>::new());
    assert_eq!(
        with("train lora steps=1\nsample prompt=\"Q: \"\nsave merged \"out/m\""),
        ["load model", "train lora", "sample"]
    );
}
