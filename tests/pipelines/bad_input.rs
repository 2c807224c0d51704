//! Bad input of every kind: a clear error at the right line, before anything is done, and nothing left behind.

use super::*;

/// A pipeline that cannot work.
struct Bad {
    name: &'static str,
    /// Makes the desk bad.
    prepare: fn(&Desk),
    /// After `tunepipe 1`, so that its first line is line 2.
    text: &'static str,
    /// What is said, on which line of the pipeline.
    code: &'static str,
    line: u64,
    /// Words that the message, a note or the help must have.
    words: &'static [&'static str],
}

const GOOD: &str = "load model \"model\"\nload data \"rows.jsonl\" format=completion\ntrain lora steps=1\nsave adapter \"out/adapter\"";

fn nothing(_: &Desk) {}

fn edit(desk: &Desk, name: &str, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(desk.path(name)).expect("a file")).expect("JSON");
    change(&mut value);
    desk.write(name, &value.to_string());
}

fn without(desk: &Desk, name: &str, key: &str) {
    edit(desk, name, |value| {
        value.as_object_mut().expect("an object").remove(key).expect("the key was there");
    });
}

fn cut(desk: &Desk, name: &str, keep: usize) {
    let bytes = fs::read(desk.path(name)).expect("a file");
    fs::write(desk.path(name), &bytes[..keep.min(bytes.len())]).expect("written");
}

fn middle(desk: &Desk, bad: &str) {
    let text = rows(6);
    let mut lines: Vec<&str> = text.lines().collect();
    lines[3] = bad;
    desk.write("rows.jsonl", &lines.join("\n"));
}

/// An adapter of another model's shape, in the folder `other`.
fn foreign_adapter(desk: &Desk) {
    edit(desk, "model/config.json", |config| config["intermediate_size"] = 64.into());
    desk.run(
        "foreign",
        "load model init=random shape=tiny-llama\nload data \"rows.jsonl\" format=completion\n\
         train lora rank=2 steps=1 targets=[q_proj]\nsave adapter \"other\"",
    );
    fs::remove_dir_all(desk.path("model")).expect("gone");
    copy(&repository().join("tests/golden/forward-gqa-tied/model"), &desk.path("model"));
    fs::remove_dir_all(desk.path("runs")).expect("gone");
    fs::remove_file(desk.path("foreign.tp")).expect("gone");
}

const TABLE: &[Bad] = &[
    Bad {
        name: "no such model",
        prepare: |desk| fs::remove_dir_all(desk.path("model")).expect("gone"),
        text: GOOD,
        code: "file.missing",
        line: 2,
        words: &["model"],
    },
    Bad {
        name: "weights cut short",
        prepare: |desk| cut(desk, "model/model.safetensors", 300_000),
        text: GOOD,
        code: "safetensors.",
        line: 2,
        words: &["model.safetensors"],
    },
    Bad {
        name: "weights cut in their header",
        prepare: |desk| cut(desk, "model/model.safetensors", 100),
        text: GOOD,
        code: "safetensors.",
        line: 2,
        words: &["model.safetensors"],
    },
    Bad {
        name: "empty weights",
        prepare: |desk| cut(desk, "model/model.safetensors", 0),
        text: GOOD,
        code: "safetensors.",
        line: 2,
        words: &["model.safetensors"],
    },
    Bad {
        name: "no weights",
        prepare: |desk| fs::remove_file(desk.path("model/model.safetensors")).expect("gone"),
        text: GOOD,
        code: "model.no_weights",
        line: 2,
        words: &["safetensors"],
    },
    Bad {
        name: "no config",
        prepare: |desk| fs::remove_file(desk.path("model/config.json")).expect("gone"),
        text: GOOD,
        code: "",
        line: 2,
        words: &["config.json"],
    },
    Bad {
        name: "a config that lacks a key",
        prepare: |desk| without(desk, "model/config.json", "hidden_size"),
        text: GOOD,
        code: "config.missing_key",
        line: 2,
        words: &["hidden_size"],
    },
    Bad {
        name: "a config that is no JSON",
        prepare: |desk| desk.write("model/config.json", "{\"hidden_size\": 96,,}"),
        text: GOOD,
        code: "json.",
        line: 2,
        words: &["config.json"],
    },
    Bad {
        name: "a config that contradicts the weights",
        prepare: |desk| edit(desk, "model/config.json", |config| config["intermediate_size"] = 300.into()),
        text: GOOD,
        code: "model.",
        line: 2,
        words: &["256", "300"],
    },
    Bad {
        name: "a config with more layers than the weights",
        prepare: |desk| edit(desk, "model/config.json", |config| config["num_hidden_layers"] = 4.into()),
        text: GOOD,
        code: "model.missing_tensor",
        line: 2,
        words: &["layers.3"],
    },
    Bad {
        name: "absurd sizes",
        prepare: |desk| edit(desk, "model/config.json", |config| config["hidden_size"] = u64::MAX.into()),
        text: GOOD,
        code: "",
        line: 2,
        words: &["hidden_size"],
    },
    Bad {
        name: "an unknown family",
        prepare: |desk| {
            edit(desk, "model/config.json", |config| {
                config["model_type"] = "mamba".into();
                config["architectures"] = serde_json::json!(["MambaForCausalLM"]);
            })
        },
        text: GOOD,
        code: "model.family",
        line: 2,
        words: &["mamba", "llama"],
    },
    Bad {
        name: "a tokenizer larger than the vocabulary",
        prepare: |desk| {
            fs::remove_dir_all(desk.path("model")).expect("gone");
            copy(&repository().join("tests/golden/forward-gqa-tied/model"), &desk.path("model"));
        },
        text: "load model \"model\" tokenizer=bytes\nload data \"rows.jsonl\" format=completion\ntrain lora steps=1",
        code: "tokenizer.too_large",
        line: 2,
        words: &["tokenizer"],
    },
    Bad {
        name: "a damaged tokenizer",
        prepare: |desk| cut(desk, "model/tokenizer.json", 500),
        text: GOOD,
        code: "",
        line: 2,
        words: &["tokenizer.json"],
    },
    Bad {
        name: "no tokenizer",
        prepare: |desk| fs::remove_file(desk.path("model/tokenizer.json")).expect("gone"),
        text: GOOD,
        code: "tokenizer.missing",
        line: 3,
        words: &["tokenizer"],
    },
    Bad {
        name: "no such rows",
        prepare: |desk| fs::remove_file(desk.path("rows.jsonl")).expect("gone"),
        text: GOOD,
        code: "file.missing",
        line: 3,
        words: &["rows.jsonl"],
    },
    Bad {
        name: "no such rows, planned by max_len",
        prepare: |desk| fs::remove_file(desk.path("rows.jsonl")).expect("gone"),
        text: "load model \"model\"\nload data \"rows.jsonl\" format=completion max_len=64\ntrain lora steps=1",
        code: "file.missing",
        line: 3,
        words: &["rows.jsonl"],
    },
    Bad {
        name: "an empty file",
        prepare: |desk| desk.write("rows.jsonl", ""),
        text: GOOD,
        code: "data.",
        line: 3,
        words: &["rows.jsonl"],
    },
    Bad {
        name: "a bad line in the middle",
        prepare: |desk| middle(desk, "{\"prompt\": \"Q\", \"completion\": }"),
        text: GOOD,
        code: "data.bad_json",
        line: 3,
        words: &["rows.jsonl:4:31"],
    },
    Bad {
        name: "a line without the column",
        prepare: |desk| middle(desk, "{\"prompt\": \"Q\", \"answer\": \"A\"}"),
        text: GOOD,
        code: "data.",
        line: 3,
        words: &["rows.jsonl:4", "completion", "answer"],
    },
    Bad {
        name: "a number for a text",
        prepare: |desk| middle(desk, "{\"prompt\": 7, \"completion\": \"A\"}"),
        text: GOOD,
        code: "data.",
        line: 3,
        words: &["rows.jsonl:4", "prompt"],
    },
    Bad {
        name: "no row that can be used",
        prepare: nothing,
        text: "load model \"model\"\nload data \"rows.jsonl\" format=completion max_len=2 long=drop\ntrain lora steps=1",
        code: "data.",
        line: 3,
        words: &["max_len"],
    },
    Bad {
        name: "a row longer than max_len",
        prepare: nothing,
        text: "load model \"model\"\nload data \"rows.jsonl\" format=completion max_len=20\ntrain lora steps=1",
        code: "data.",
        line: 3,
        words: &["max_len", "long=truncate"],
    },
    Bad {
        name: "a row longer than the model's positions",
        prepare: |desk| {
            desk.write("rows.jsonl", &format!("{{\"prompt\": \"Q\", \"completion\": \"{}\"}}\n", "long ".repeat(200)))
        },
        text: GOOD,
        code: "data.too_long",
        line: 4,
        words: &["512"],
    },
    Bad {
        name: "every label masked",
        prepare: |desk| desk.write("rows.jsonl", "{\"input_ids\": [5, 6, 7], \"labels\": [-100, -100, -100]}\n"),
        text: "load model \"model\"\nload data \"rows.jsonl\" format=tokens\ntrain lora steps=1",
        code: "data.",
        line: 3,
        words: &["counts"],
    },
    Bad {
        name: "a token that the model does not know",
        prepare: |desk| desk.write("rows.jsonl", "{\"input_ids\": [5, 6, 384]}\n"),
        text: "load model \"model\"\nload data \"rows.jsonl\" format=tokens\ntrain lora steps=1",
        code: "data.unknown_token",
        line: 3,
        words: &["384"],
    },
    Bad {
        name: "a holdout of everything",
        prepare: nothing,
        text: "load model \"model\"\nload data \"rows.jsonl\" format=completion holdout=24rows\ntrain lora steps=1",
        code: "data.holdout",
        line: 3,
        words: &["24"],
    },
    Bad {
        name: "an output under a file",
        prepare: |desk| desk.write("out", "a file"),
        text: GOOD,
        code: "output.",
        line: 5,
        words: &["out"],
    },
    Bad {
        name: "an output that is a file",
        prepare: |desk| desk.write("out/adapter", "a file"),
        text: "load model \"model\"\nload data \"rows.jsonl\" format=completion\ntrain lora steps=1\nsave adapter \"out/adapter\" overwrite",
        code: "output.",
        line: 5,
        words: &["out/adapter"],
    },
    Bad {
        name: "an output over a folder of other things",
        prepare: |desk| desk.write("thesis/chapter.txt", "years of work"),
        text: "load model \"model\"\nload data \"rows.jsonl\" format=completion\ntrain lora steps=1\nsave merged \"thesis\" overwrite",
        code: "output.foreign",
        line: 5,
        words: &["thesis"],
    },
    Bad {
        name: "an adapter of another shape",
        prepare: foreign_adapter,
        text: "load model \"model\"\nload adapter \"other\"\nsave merged \"out\"",
        code: "adapter.",
        line: 3,
        words: &["adapter"],
    },
    Bad {
        name: "a folder that is no adapter",
        prepare: nothing,
        text: "load model \"model\"\nload adapter \"model\"\nsave merged \"out\"",
        code: "peft.no_adapter",
        line: 3,
        words: &["adapter_config.json"],
    },
    Bad {
        name: "quantised twice",
        prepare: nothing,
        text: "load model \"model\"\nquantize nf4\nquantize nf4\nload data \"rows.jsonl\" format=completion\ntrain lora steps=1",
        code: "value.",
        line: 4,
        words: &["nf4"],
    },
    Bad {
        name: "an output inside another",
        prepare: nothing,
        text: "load model \"model\"\nload data \"rows.jsonl\" format=completion\ntrain lora steps=1\nsave merged \"out\"\nsave adapter \"out/adapter\"",
        code: "output.twice",
        line: 6,
        words: &["out/adapter"],
    },
    Bad {
        name: "an adapter on no layer",
        prepare: nothing,
        text: "load model \"model\"\nload data \"rows.jsonl\" format=completion\ntrain lora steps=1 targets=[]",
        code: "adapter.empty",
        line: 4,
        words: &["q_proj"],
    },
    Bad {
        name: "a prompt longer than the model's positions",
        prepare: |desk| desk.write("long.txt", &"long ".repeat(200)),
        text: "load model \"model\"\nsample prompt=@\"long.txt\"",
        code: "sample.too_long",
        line: 3,
        words: &["512"],
    },
    Bad {
        name: "a training of two lengths",
        prepare: nothing,
        text: "load model \"model\"\nload data \"rows.jsonl\" format=completion\ntrain lora steps=2 epochs=3",
        code: "train.length",
        line: 4,
        words: &["steps"],
    },
];

#[test]
fn bad_input_is_refused_at_its_line_and_leaves_nothing() {
    let mut wrong = Vec::new();
    for bad in TABLE {
        let desk = Desk::new();
        (bad.prepare)(&desk);
        desk.write("bad.tp", &format!("tunepipe 1\n{}\n", bad.text));
        let before = desk.files("");
        let told = desk.tunepipe(&["run", "--json", "bad.tp"]);
        let mut complain = |what: &str| wrong.push(format!("{}: {what}\n{}{}", bad.name, told.out, told.err));
        if told.code != Some(1) {
            complain(&format!("ended with {:?}", told.code));
            continue;
        }
        let answer = told.json();
        let list = answer["diagnostics"].as_array().expect("a list");
        let blamed = list
            .iter()
            .find(|d| d["severity"] == "error" && d["code"].as_str().is_some_and(|c| c.starts_with(bad.code)));
        let Some(blamed) = blamed else {
            complain(&format!("no `{}`", bad.code));
            continue;
        };
        if blamed["line"] != bad.line {
            complain(&format!("line {} instead of {}", blamed["line"], bad.line));
        }
        let said = format!("{} {} {}", blamed["message"], blamed["notes"], blamed["help"]).replace("\\\"", "\"");
        if let Some(word) = bad.words.iter().find(|word| !said.contains(**word)) {
            complain(&format!("does not say `{word}`"));
        }
        if list.iter().filter(|d| d["severity"] == "error").count() > 1 {
            complain("one mistake, several errors");
        }
        // What people see: the same, drawn at the place, and never a Rust value.
        let drawn = desk.tunepipe(&["run", "bad.tp"]);
        let place = format!("bad.tp:{}:", bad.line);
        if drawn.code != Some(1) || !drawn.err.contains(&place) || !drawn.out.is_empty() {
            complain(&format!("drawn without `{place}`, or with an answer:\n{}{}", drawn.out, drawn.err));
        }
        if ["panicked", "Some(", "Err(", "Os {"].iter().any(|rust| drawn.err.contains(rust)) {
            complain(&format!("speaks Rust:\n{}", drawn.err));
        }
        if desk.files("") != before || desk.path("runs").exists() {
            complain(&format!("leaves files: {:?}", desk.files("").keys()));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n\n{}", wrong.len(), TABLE.len(), wrong.join("\n\n"));
}

/// The good pipeline of the table is good, so each row fails for its own reason.
#[test]
fn what_the_table_breaks_works_unbroken() {
    let desk = Desk::new();
    desk.run("good", GOOD);
    assert!(desk.path("out/adapter/adapter_model.safetensors").is_file());
}

/// However long a line is and however much is wrong in it, what is said of it can be read, and comes soon.
#[test]
fn lines_without_end_are_answered_in_short() {
    let desk = Desk::new();
    let mut names = String::new();
    (0..100_000).for_each(|at| names += &format!(" a{at}={at}"));
    for (line, code) in [
        (format!("sample prompt=\"{}\" max_nwe=1", "é".repeat(500_000)), "name.unknown_argument"),
        ("x".repeat(1_000_000), "name.unknown_stage"),
        (format!("sample prompt=\"Q\"{names}"), "name.unknown_argument"),
        (format!("sample prompt=\"{}\"", "a${x}".repeat(200_000)), "name.unknown"),
        (format!("let x = \"{}\"", "a${x}".repeat(200_000)), "name.later"),
        (format!("sample prompt=\"Q\" seed={}1", "(".repeat(500_000)), "syntax.deep"),
    ] {
        desk.write("t.tp", &format!("tunepipe 1\nload model \"model\"\n{line}\n"));
        let begun = std::time::Instant::now();
        let told = desk.tunepipe(&["check", "t.tp"]).ended(1);
        let errors = told.err.matches(code).count();
        assert!(errors > 0 && told.err.len() < 3000 * errors + 3000, "{code}: {} bytes of {errors}", told.err.len());
        assert!(begun.elapsed().as_secs() < 20, "{code}: {:?}", begun.elapsed());
    }
}

/// There is no line to blame.
#[test]
fn a_pipeline_that_is_no_text_is_wrong_usage() {
    let desk = Desk::empty();
    fs::write(desk.path("bad.tp"), b"tunepipe 1\nload \xff\xfe\n").expect("written");
    let told = desk.tunepipe(&["check", "bad.tp"]).ended(2);
    assert!(told.err.contains("UTF-8") && told.err.contains("line 2"), "{}", told.err);
    // Two bytes a character, as some editors save; with a mark and without.
    for mark in ["\u{feff}", ""] {
        let wide: Vec<u8> = format!("{mark}tunepipe 1\n").encode_utf16().flat_map(u16::to_le_bytes).collect();
        fs::write(desk.path("wide.tp"), wide).expect("written");
        let told = desk.tunepipe(&["check", "wide.tp"]).ended(2);
        assert!(told.err.contains("UTF-16"), "{}", told.err);
    }
    // Without a stage there is nothing to do, and no folder is made for it.
    for (name, text) in [("empty.tp", ""), ("lets.tp", "tunepipe 1\nlet x = 1\n")] {
        desk.write(name, text);
        desk.tunepipe(&["check", name]).ended(0);
        for verb in ["run", "plan"] {
            let told = desk.tunepipe(&[verb, name]).ended(2);
            assert!(told.err.contains(&format!("nothing to {verb}")), "{}", told.err);
        }
    }
    assert!(!desk.path("runs").exists());
    fs::create_dir(desk.path("folder.tp")).expect("a folder");
    desk.tunepipe(&["check", "folder.tp"]).ended(2);
}
