//! Every registered stage is measured against its plan.

use std::collections::BTreeSet;

use tunepipe::stages::STAGES;

use super::*;

/// Stages that only say what is meant; whoever uses it holds it.
const HOLD_NOTHING: [&str; 2] = ["load data", "mix"];

#[test]
fn every_stage_is_measured_within_its_plan() {
    let desk = Desk::new();
    let data = "load data \"rows.jsonl\" format=completion holdout=4rows\n";
    desk.run("full", &format!("load model \"model\"\n{data}train full steps=3 batch=4\nsave model \"out/model\"\nsave model \"out/f32\" dtype=f32"));
    desk.run(
        "lora",
        &format!(
            "load model \"out/model\"\n{data}quantize nf4 double_quant\ntrain lora steps=3 batch=4 recompute free_logits\neval batch=3\n\
             sample prompt=\"Q: Where\" max_new=8\nsave adapter \"out/adapter\"\nsave merged \"out/merged\"\n\
             save merged \"out/low\" low_ram base=original"
        ),
    );
    desk.run(
        "again",
        &format!("load model \"out/model\" dtype=bf16\n{data}sample prompt=\"Q: \" max_new=4\nquantize nf4\nload adapter \"out/adapter\"\ntrain lora steps=2 batch=24\nsave adapter"),
    );
    desk.run(
        "mixed",
        &format!(
            "load model \"out/model\"\n{data}load data \"rows.jsonl\" format=completion repeat=3\n\
                  load data \"rows.jsonl\" format=completion take=5rows\nmix\ntrain lora epochs=3 batch=4\nsave adapter"
        ),
    );
    desk.run(
        "mapped",
        &format!(
            "load model \"model\" dtype=bf16 mapped\n{data}eval\nquantize nf4\ntrain lora steps=2 batch=4 free_logits\n\
             sample prompt=\"Q: \" max_new=4\nsave merged \"out/mapped\" low_ram"
        ),
    );
    let mut seen = BTreeSet::new();
    for run in ["full", "lora", "again", "mixed", "mapped"] {
        let rows: Vec<Value> =
            serde_json::from_slice(&fs::read(desk.path(&format!("runs/{run}/memory.json"))).expect("memory"))
                .expect("JSON");
        for row in rows {
            let bytes = |key: &str| row[key].as_u64().expect("bytes");
            assert!(bytes("planned") >= bytes("measured"), "{run}: {row}");
            assert!(bytes("planned") > 0, "{run}: {row}");
            if row["place"] == "disk" {
                assert_eq!(bytes("planned"), bytes("measured"), "{run}: {row}");
            }
            seen.insert(row["stage"].as_str().expect("a name").to_owned());
        }
    }
    for stage in STAGES.iter().map(|stage| stage.name()).filter(|name| !HOLD_NOTHING.contains(name)) {
        assert!(seen.contains(stage), "`{stage}` has no row; there are {seen:?}");
    }
}
