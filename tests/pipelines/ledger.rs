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
    let mut tokenised = 0;
    for run in ["full", "lora", "again", "mixed", "mapped"] {
        let rows: Vec<Value> =
            serde_json::from_slice(&fs::read(desk.path(&format!("runs/{run}/memory.json"))).expect("memory"))
                .expect("JSON");
        for row in rows {
            let bytes = |key: &str| row[key].as_u64().expect("bytes");
            assert!(bytes("planned") >= bytes("measured"), "{run}: {row}");
            assert!(bytes("planned") > 0, "{run}: {row}");
            if row["phase"] == "tokenise" {
                assert_near(bytes("planned"), bytes("measured"), run);
                tokenised += 1;
            }
            if row["place"] == "disk" {
                assert_eq!(bytes("planned"), bytes("measured"), "{run}: {row}");
            }
            seen.insert(row["stage"].as_str().expect("a name").to_owned());
        }
    }
    assert_eq!(tokenised, 7, "a phase for each set that was read");
    for stage in STAGES.iter().map(|stage| stage.name()).filter(|name| !HOLD_NOTHING.contains(name)) {
        assert!(seen.contains(stage), "`{stage}` has no row; there are {seen:?}");
    }
}

/// Reading is planned from what was met, not to the byte: within a quarter, or 64 MiB.
#[track_caller]
fn assert_near(planned: u64, measured: u64, what: &str) {
    assert!(measured > 0, "{what}: nothing was measured");
    let most = measured + (measured / 4).max(64 << 20);
    assert!((measured..=most).contains(&planned), "{what}: planned {planned}, measured {measured}");
}

#[test]
fn tokenising_is_measured_within_its_plan_however_rows_come() {
    let desk = Desk::new();
    let words = |at: usize| format!("word{at} and more of é row {} ", at % 97).repeat(1 + at % 5);
    let lines: Vec<String> = (0..30_000).map(|at| format!("{{\"text\": \"{}\"}}", words(at))).collect();
    desk.write("lines.jsonl", &lines.join("\n"));
    desk.write("array.json", &format!("[{}]", lines.join(",\n ")));
    let prose: String = (0..6000).map(|at| format!("{}\n{}", words(at), if at % 9 == 0 { "\n" } else { "" })).collect();
    desk.write("prose.txt", &prose);
    desk.write("one.txt", &prose.replace('\n', " ")[..300_000]);
    let turn = |at: usize| {
        format!(
            "{{\"role\": \"user\", \"content\": \"{}\"}}, {{\"role\": \"assistant\", \"content\": \"{}\"}}",
            words(at),
            words(at + 1)
        )
    };
    let chats = (0..2000).map(|at| {
        let turns: Vec<String> = (0..1 + at % 6).map(|n| turn(at + n)).collect();
        format!("{{\"messages\": [{}]}}\n", turns.join(", "))
    });
    desk.write("chats.jsonl", &chats.collect::<String>());
    let cases = [
        ("lines", "lines.jsonl", "format=text"),
        ("array", "array.json", "format=text"),
        ("prose", "prose.txt", "format=text long=split"),
        ("one", "one.txt", "format=text long=split"),
        ("chats", "chats.jsonl", "format=chat"),
    ];
    let cache = desk.path("cache");
    for (name, file, how) in cases {
        let how = if how.contains("split") { how.to_owned() } else { format!("{how} long=truncate") };
        desk.write(
            &format!("{name}.tp"),
            &format!(
                "tunepipe 1\nload model \"model\" template=chatml\nload data \"{file}\" max_len=128 {how}\n\
                 train lora steps=1 batch=1\n"
            ),
        );
        let mut planned = Vec::new();
        for (run, threads) in [("cold", "1"), ("warm", "1"), ("two", "2"), ("eight", "8")] {
            let folder = format!("runs/{name}-{run}");
            let told = desk.told(&["run", "-q", &format!("{name}.tp"), "--run-dir", &folder], |command| {
                let place = if threads == "1" { cache.as_os_str() } else { std::ffi::OsStr::new("off") };
                command.env("TUNEPIPE_CACHE", place).env("RAYON_NUM_THREADS", threads);
            });
            told.ended(0);
            let rows: Vec<Value> =
                serde_json::from_slice(&fs::read(desk.path(&format!("{folder}/memory.json"))).expect("memory"))
                    .expect("JSON");
            let row = rows.iter().find(|row| row["phase"] == "tokenise").expect("a phase");
            assert_eq!(row["stage"], "load data");
            let bytes = |key: &str| row[key].as_u64().expect("bytes");
            assert_near(bytes("planned"), bytes("measured"), &format!("{name}-{run}"));
            planned.push(bytes("planned"));
        }
        assert_eq!(planned[0], planned[1], "{name}: a plan is the same whether tokens are made or found");
    }
}

/// A vocabulary of many thousand tokens, and the words that threads remember of a text, are there while rows are read.
#[test]
fn a_large_vocabulary_is_planned_while_rows_are_read() {
    let desk = Desk::new();
    super::bits::wide_model(&desk.path("wide"), 20_000);
    let small = repository().join("tests/golden/tokenizer/byte-level/tokenizer.json");
    let mut large: Value = serde_json::from_slice(&fs::read(small).expect("a tokenizer")).expect("JSON");
    let letters: Vec<String> = ('a'..='z').map(String::from).collect();
    let two: Vec<(&String, &String)> = letters.iter().flat_map(|a| letters.iter().map(move |b| (a, b))).collect();
    let pairs: Vec<String> = two.iter().map(|(a, b)| format!("{a}{b}")).collect();
    let three = pairs.iter().flat_map(|ab| letters.iter().map(move |c| (ab, c)));
    let merges: Vec<(String, String)> = two.iter().copied().chain(three).map(|(a, b)| (a.clone(), b.clone())).collect();
    let mut next = large["model"]["vocab"].as_object().expect("a vocabulary").len();
    for (a, b) in merges {
        let vocab = large["model"]["vocab"].as_object_mut().expect("a vocabulary");
        if !vocab.contains_key(&format!("{a}{b}")) {
            vocab.insert(format!("{a}{b}"), next.into());
            next += 1;
            large["model"]["merges"].as_array_mut().expect("merges").push(serde_json::json!([a, b]));
        }
    }
    assert!(next > 18_000 && next < 20_000, "{next}");
    desk.write("wide/tokenizer.json", &large.to_string());
    let word = |at: usize| -> String {
        let mut rest = at.wrapping_mul(2_654_435_761) % (1 << 32);
        let length = 4 + at % 9;
        std::iter::repeat_with(|| {
            let letter = (b'a' + (rest % 26) as u8) as char;
            rest = rest / 26 + 7 * (rest % 26);
            letter
        })
        .take(length)
        .collect()
    };
    let rows = (0..3000).map(|row| {
        let words: Vec<String> = (0..12).map(|at| word(row * 12 + at)).collect();
        format!("{{\"text\": \"{}\"}}\n", words.join(" "))
    });
    desk.write("words.jsonl", &rows.collect::<String>());
    let text = "tunepipe 1\nload model \"wide\"\nload data \"words.jsonl\" format=text max_len=64 long=truncate\n\
                train lora steps=1 batch=1\n";
    desk.write("words.tp", text);
    for threads in [1, 2, 7] {
        let run = format!("words-{threads}");
        let told = desk.told(&["run", "-q", "words.tp", "--run-dir", &format!("runs/{run}")], |command| {
            command.env("TUNEPIPE_CACHE", "off").env("RAYON_NUM_THREADS", threads.to_string());
        });
        assert!(!told.ended(0).err.contains("over the plan"), "{run}");
        let rows = fs::read(desk.path(&format!("runs/{run}/memory.json"))).expect("memory");
        let rows: Vec<Value> = serde_json::from_slice(&rows).expect("JSON");
        let row = rows.iter().find(|row| row["phase"] == "tokenise").expect("a phase");
        let bytes = |key: &str| row[key].as_u64().expect("bytes");
        assert_near(bytes("planned"), bytes("measured"), &run);
        assert!(threads > 1 || bytes("measured") > 6 << 20, "the vocabulary shows: {row}");
    }
}
