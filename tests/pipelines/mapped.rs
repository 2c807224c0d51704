//! `mapped`: weights used where they lie in the model's files. No bit differs, the heap lacks them, and the plan says so.

use super::bits::{leaves, wide_model};
use super::*;

const DATA: &str = "load data \"rows.jsonl\" format=completion holdout=4rows\n";

/// Runs `text` with and without `mapped` in the place of `HOW`, on several threads: every file is the same.
fn the_same(desk: &Desk, text: &str) {
    let copied = leaves(desk, "copied", 2, &text.replace("HOW", ""));
    for (name, threads) in [("mapped", 2), ("one", 1)] {
        same(name, &copied, &leaves(desk, name, threads, &text.replace("HOW", "mapped")));
    }
    let (copied, mapped) = (memory(desk, "copied"), memory(desk, "mapped"));
    assert!(copied.iter().all(|row| row.place != "mapped"));
    let stays: Vec<&Row> = mapped.iter().filter(|row| row.place == "mapped").collect();
    assert!(!stays.is_empty() && stays.iter().all(|row| row.planned == row.measured && row.planned > 0), "{stays:?}");
}

#[derive(Debug)]
struct Row {
    stage: String,
    place: String,
    planned: u64,
    measured: u64,
}

/// Planned and measured of a run, each within its plan.
fn memory(desk: &Desk, run: &str) -> Vec<Row> {
    let text = fs::read(desk.path(&format!("runs/{run}/memory.json"))).expect("memory");
    let rows: Vec<Value> = serde_json::from_slice(&text).expect("JSON");
    let word = |row: &Value, key: &str| row[key].as_str().expect("a word").to_owned();
    let rows = rows.iter().map(|row| Row {
        stage: word(row, "stage"),
        place: word(row, "place"),
        planned: row["planned"].as_u64().expect("bytes"),
        measured: row["measured"].as_u64().expect("bytes"),
    });
    rows.inspect(|row| assert!(row.measured <= row.planned, "{run}: {row:?}")).collect()
}

#[test]
fn an_adapter_over_halves_in_the_file() {
    the_same(
        &Desk::new(),
        &format!(
            "load model \"model\" dtype=bf16 HOW\n{DATA}train lora rank=4 epochs=2 batch=3 accum=2 lr=2e-3 dropout=0.1\n\
             save adapter \"OUT/adapter\"\nsave merged \"OUT/merged\"\nsave merged \"OUT/low\" low_ram base=original\neval"
        ),
    );
}

#[test]
fn an_adapter_over_floats_in_the_file() {
    let desk = Desk::new();
    desk.run("widen", "load model \"model\"\nsave model \"wide\" dtype=f32");
    the_same(
        &desk,
        &format!(
            "load model \"wide\" HOW\n{DATA}train lora rank=4 steps=6 batch=3 lr=2e-3 recompute free_logits\n\
             save adapter \"OUT/adapter\"\nsave merged \"OUT/merged\" low_ram"
        ),
    );
}

/// The quantiser reads linear layers in windows, and leaves the rest where it lies.
#[test]
fn what_is_not_quantised_stays_in_the_file() {
    the_same(
        &Desk::new(),
        &format!(
            "load model \"model\" dtype=bf16 HOW\n{DATA}quantize nf4 double_quant\ntrain lora rank=4 steps=6 batch=3\n\
             save adapter \"OUT/adapter\"\nsave merged \"OUT/merged\" low_ram"
        ),
    );
}

#[test]
fn a_mapped_model_that_was_used_gives_way_to_its_blocks() {
    the_same(
        &Desk::new(),
        &format!(
            "load model \"model\" dtype=bf16 HOW\n{DATA}eval\nquantize nf4\ntrain lora rank=4 steps=6 batch=3\n\
             save adapter \"OUT/adapter\"\nsave merged \"OUT/merged\""
        ),
    );
}

#[test]
fn the_heap_lacks_what_is_mapped() {
    let desk = Desk::new();
    wide_model(&desk.path("wide"), 500_000);
    let text = "load model \"wide\" tokenizer=bytes HOW\nload data \"rows.jsonl\" format=completion\n\
                train lora rank=2 steps=2 batch=2 free_logits\nsave adapter \"OUT/adapter\"";
    the_same(&desk, text);
    // Table and head are one tensor of 500 000 × 8 floats.
    let table = 500_000 * 8 * 4;
    let ram = |run: &str, of: fn(&Row) -> u64| {
        let rows = memory(&desk, run).into_iter().filter(|row| row.stage == "load model" && row.place == "ram");
        rows.map(|row| of(&row)).max().expect("a row")
    };
    let planned = |row: &Row| row.planned;
    let measured = |row: &Row| row.measured;
    // What is measured of two processes differs by when their threads took their queues.
    let queues = 16 << 10;
    for (of, least) in [(planned as fn(&Row) -> u64, table), (measured, table - queues)] {
        let (copied, mapped) = (ram("copied", of), ram("mapped", of));
        assert!(copied >= mapped + least && copied < mapped + table + (1 << 20), "{copied} and {mapped}");
    }
}

#[test]
fn a_plan_shows_what_stays_apart_from_what_a_budget_has() {
    let desk = Desk::empty();
    let text = |how: &str, budget: &str| {
        format!(
            "tunepipe 1\n{budget}\nload model \"absent\" shape=smollm2-135m dtype=bf16 {how}\n\
             load data \"absent.jsonl\" format=alpaca max_len=256 long=truncate\ntrain lora\nsave adapter \"a\"\n"
        )
    };
    let plan = |how: &str| {
        desk.write("a.tp", &text(how, ""));
        desk.tunepipe(&["plan", "--json", "a.tp"]).ended(0).json()["targets"][0].clone()
    };
    let (copied, mapped) = (plan(""), plan("mapped"));
    let peak = |plan: &Value, place: &str| plan["peak"][place]["bytes"].as_u64();
    // 135 M parameters of 16 bits, but for the norms, which are computed with in f32.
    let stays = 2 * (134_515_008 - 61 * 576);
    assert_eq!((peak(&copied, "mapped"), peak(&mapped, "mapped")), (None, Some(stays)));
    let ram = |plan: &Value| peak(plan, "ram").expect("bytes");
    assert_eq!(ram(&copied) - ram(&mapped), stays);
    assert!(mapped["limits"]["mapped"].is_null());

    // A budget between the two: refused without, right with it.
    let budget = format!("budget ram={}B", (ram(&copied) + ram(&mapped)) / 2);
    desk.write("b.tp", &text("", &budget));
    desk.tunepipe(&["check", "b.tp"]).ended(4);
    desk.write("c.tp", &text("mapped", &budget));
    let told = desk.tunepipe(&["check", "c.tp"]).ended(0);
    assert!(told.out.contains("mapped 256.5 MiB"), "{}", told.out);
    let table = desk.tunepipe(&["plan", "c.tp"]).ended(0).out;
    assert!(table.contains("mapped: 256.5 MiB of the model are read where they lie"), "{table}");
}

#[test]
fn what_cannot_be_mapped_is_said() {
    let desk = Desk::new();
    let refused = |text: &str, code: &str, says: &str| {
        desk.write("wrong.tp", &format!("tunepipe 1\n{text}\n"));
        let told = desk.tunepipe(&["check", "wrong.tp", "--json"]).ended(1);
        let found = told.json();
        assert_eq!(found["diagnostics"][0]["code"], code, "{found}");
        assert!(told.out.contains(says), "{}", told.out);
    };
    // The model lies in bf16, and the processor computes in f32.
    refused("load model \"model\" mapped\nsample prompt=\"x\"", "arg.idle", "dtype=bf16");
    refused("load model \"model\" dtype=f16 mapped\nsample prompt=\"x\"", "arg.idle", "dtype=bf16");
    refused("load model init=random shape=tiny-llama mapped\nsample prompt=\"x\"", "arg.idle", "random");
    refused("budget gpu=8GiB\nload model \"model\" mapped\nsample prompt=\"x\"", "arg.idle", "card");
    desk.run("widen", "load model \"model\"\nsave model \"wide\" dtype=f32");
    refused(
        &format!("load model \"wide\" mapped\n{DATA}train full\nsave model \"m\""),
        "train.mapped",
        "leave `mapped` out",
    );
    // One of two targets is a processor: there it has its use.
    desk.write(
        "both.tp",
        "tunepipe 1\nbudget gpu=8GiB\nbudget ram=8GiB\nload model \"wide\" mapped\nsample prompt=\"x\"\n",
    );
    desk.tunepipe(&["check", "both.tp"]).ended(0);
}

#[test]
fn fit_offers_it_where_the_files_allow_it() {
    let desk = Desk::new();
    wide_model(&desk.path("wide"), 500_000);
    let text = |budget: &str, how: &str| {
        format!(
            "tunepipe 1\n{budget}load model \"wide\" tokenizer=bytes {how}\nload data \"rows.jsonl\" format=completion\n\
             train lora rank=2 steps=2 batch=2 free_logits\nsave adapter \"a\"\n"
        )
    };
    let peak = |how: &str| {
        desk.write("plan.tp", &text("", how));
        let plan = desk.tunepipe(&["plan", "--json", "plan.tp"]).ended(0).json();
        plan["targets"][0]["peak"]["ram"]["bytes"].as_u64().expect("bytes")
    };
    let budget = format!("budget ram={}B\n", peak("mapped"));
    desk.write("tight.tp", &text(&budget, ""));
    let told = desk.tunepipe(&["fit", "--json", "tight.tp", "--write"]).ended(0).json();
    assert_eq!(told["change"], "`mapped` on `load model` in line 3", "{told}");
    desk.tunepipe(&["check", "tight.tp"]).ended(0);
    // In another type the files are of no use as they lie, and it is not offered.
    desk.write("tight.tp", &text(&budget, "dtype=f16"));
    let told = desk.tunepipe(&["fit", "--json", "tight.tp"]);
    assert!(!told.out.contains("mapped"), "{}", told.out);
}
