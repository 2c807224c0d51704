//! The verbs that show and write: `explain`, `ls`, `plan --html`, `plan --diff`, `preview`, `new`, `completions`.

use super::*;

const TRAIN: &str = "load model \"model\"\nload data \"rows.jsonl\" format=completion holdout=4rows\ntrain lora steps=2 batch=4\nsave adapter \"out/a\"";

#[test]
fn a_stage_and_a_code_are_explained() {
    let desk = Desk::empty();
    let told = desk.tunepipe(&["explain", "train", "lora"]).ended(0);
    for words in ["Model<W, lora>", "free_logits", "rank", "saved activations", "batch, max_len", "examples"] {
        assert!(told.out.contains(words), "{words}\n{}", told.out);
    }
    // As one word, in backticks, in brackets: however it was pasted.
    assert_eq!(desk.tunepipe(&["explain", "`train lora`"]).ended(0).out, told.out);
    let json = desk.tunepipe(&["explain", "train lora", "--json"]).ended(0).json();
    assert_eq!((&json["version"], &json["stage"]), (&1.into(), &"train lora".into()));
    let rank = json["arguments"].as_array().expect("a list").iter().find(|arg| arg["name"] == "rank").expect("rank");
    assert_eq!((&rank["type"], &rank["default"]), (&"Int 1..1024".into(), &"8".into()));
    let saves = json["memory"]["effects"].as_array().expect("a list");
    let saves = saves.iter().find(|effect| effect["argument"] == "free_logits").expect("a switch");
    assert!(saves["gpu"].as_i64().is_some_and(|bytes| bytes < 0), "{saves}");

    let told = desk.tunepipe(&["explain", "[value.taken]"]).ended(0);
    assert!(told.out.contains("wrong") && told.out.contains("model=small"), "{}", told.out);
    let json = desk.tunepipe(&["explain", "value.taken", "--json"]).ended(0).json();
    assert!(json["wrong"]["whole"].as_str().is_some_and(|text| text.starts_with("tunepipe 1")), "{json}");

    for (topic, near) in [
        ("epochs", "`tunepipe explain train lora`"),
        ("trian lora", "train lora"),
        ("value.takn", "value.taken"),
        ("train", "train full"),
        ("math", "math.zero"),
    ] {
        let told = desk.tunepipe(&["explain", topic]).ended(2);
        assert!(told.err.contains(near), "{topic}: {}", told.err);
    }
    desk.tunepipe(&["explain"]).ended(2);

    // However the words are joined, and by one word where only one stage has it.
    for topic in ["train-lora", "train_lora", "Train  Lora"] {
        assert!(desk.tunepipe(&["explain", topic]).ended(0).out.starts_with("train lora\n"), "{topic}");
    }
    assert!(desk.tunepipe(&["explain", "nf4"]).ended(0).out.starts_with("quantize nf4\n"));
    assert!(desk.tunepipe(&["explain", "continue pretraining"]).ended(0).out.starts_with("continue_pretraining\n"));
    // A word that is a recipe and belongs to a stage: the recipe, and where the stage is explained.
    let told = desk.tunepipe(&["explain", "lora"]).ended(0);
    assert!(told.out.starts_with("lora\n") && told.err.contains("tunepipe explain train lora"), "{}", told.err);
}

/// A file's recipes are explained as the library's are.
#[test]
fn recipes_of_a_file_are_explained() {
    let desk = Desk::empty();
    desk.write(
        "team/recipes.tp",
        "tunepipe 1\n## Small adapters.\nrecipe small(\n  model: Model<dense>\n  data: Data\n  rank: Int 1..64 = 8  ## width\n  steps: Int\n)\n  let wide = 2 * rank\n  quantize nf4\n  train lora rank=rank alpha=wide steps=steps\nrecipe score(model: Model, data: Data)\n  eval model=model data=data\n",
    );
    desk.write(
        "t.tp",
        "tunepipe 1\nuse \"team/recipes.tp\" as team\nparam lr\nrecipe own(model: Model<dense> data: Data)\n  train full model=model data=data\nload model \"m\"\nload data \"d\" format=text\nown\nsave model \"out\"\n",
    );
    let told = desk.tunepipe(&["explain", "team/recipes.tp", "small"]).ended(0);
    for words in ["small\n  Small adapters.", "Model<nf4, lora>", "takes", "Int 1..64", "width", "recipe small("] {
        assert!(told.out.contains(words), "{words}\n{}", told.out);
    }
    assert!(!told.out.contains("recipe score"), "{}", told.out);
    // All of a file, those it uses among them and under the names it calls them by; what its params are is no matter.
    let json = desk.tunepipe(&["explain", "t.tp", "--json"]).ended(0).json();
    let found = json["recipes"].as_array().expect("recipes");
    let of = |name: &str| found.iter().find(|one| one["recipe"] == name).unwrap_or_else(|| panic!("{name}: {json}"));
    assert_eq!(found.len(), 3, "{json}");
    assert_eq!((&of("own")["inputs"][0]["takes"], &of("own")["makes"][0]), (&true.into(), &"Model<dense>".into()));
    assert_eq!(of("team.small")["makes"][0], "Model<nf4, lora>");
    assert!(of("team.score")["inputs"][0]["takes"] == false && of("team.score")["makes"] == Value::Array(vec![]));
    let told = desk.tunepipe(&["explain", "t.tp", "team.smal"]).ended(2);
    assert!(told.err.contains("did you mean `team.small`?"), "{}", told.err);
    // What is wrong with the file is said.
    desk.write("bad.tp", "tunepipe 1\nrecipe r(model: Modle)\n  sample prompt=\"Q\"\n");
    assert!(desk.tunepipe(&["explain", "bad.tp"]).ended(1).err.contains("type.unknown"));
    desk.write("none.tp", "tunepipe 1\n");
    assert!(desk.tunepipe(&["explain", "none.tp"]).ended(2).err.contains("neither declares nor uses"));
    desk.tunepipe(&["explain", "absent.tp"]).ended(2);
}

#[test]
fn what_there_is_is_listed() {
    let desk = Desk::new();
    for (what, some) in [
        ("stages", "quantize nf4"),
        ("recipes", "qlora"),
        ("shapes", "llama-3-8b"),
        ("devices", "colab-t4"),
        ("codes", "budget.over"),
    ] {
        assert!(desk.tunepipe(&["ls", what]).ended(0).out.contains(some), "{what}");
        let json = desk.tunepipe(&["ls", what, "--json"]).ended(0).json();
        assert!(json[what].as_array().is_some_and(|list| list.len() > 3), "{what}");
    }
    let devices = desk.tunepipe(&["ls", "devices", "--json"]).ended(0).json();
    let t4 =
        devices["devices"].as_array().expect("a list").iter().find(|d| d["name"] == "colab-t4").expect("a T4").clone();
    assert_eq!((&t4["bf16"], &t4["gpu"]), (&false.into(), &15_837_691_904u64.into()));

    let none = desk.tunepipe(&["ls", "runs"]).ended(0);
    assert!(none.out.is_empty() && none.err.contains("no runs"), "{}", none.err);
    desk.write("a.tp", &format!("tunepipe 1\n{TRAIN}\n"));
    desk.tunepipe(&["run", "-q", "a.tp"]).ended(0);
    let runs = desk.tunepipe(&["ls", "runs", "--json"]).ended(0).json();
    let runs = runs["runs"].as_array().expect("a list");
    assert_eq!(runs.len(), 1, "`latest` is no run of its own");
    assert_eq!((&runs[0]["steps"], &runs[0]["state"]), (&2.into(), &"ended".into()));
    assert!(desk.path(runs[0]["run"].as_str().expect("a folder")).join("manifest.json").is_file());
}

#[test]
fn a_plan_is_drawn_as_one_page() {
    let desk = Desk::new();
    desk.write("p.tp", &format!("tunepipe 1\nbudget colab-t4\nbudget cpu-16gb\n{TRAIN}\n"));
    let told = desk.tunepipe(&["plan", "p.tp", "--html", "plan.html"]).ended(0);
    assert!(told.out.contains("budget colab-t4"), "the table is shown as ever");
    let page = fs::read_to_string(desk.path("plan.html")).expect("a page");
    for words in [
        "<!doctype html>",
        "colab-t4",
        "cpu-16gb",
        "train lora",
        "width=device-width",
        "prefers-color-scheme: dark",
        ">fits<",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("http") && !page.contains("<script"), "nothing is fetched and nothing runs");
    // Over budget: the page says so, and is written all the same.
    desk.write("o.tp", &format!("tunepipe 1\nbudget ram=20MiB\n{TRAIN}\n").replace("batch=4", "batch=16"));
    desk.tunepipe(&["plan", "o.tp", "--html", "over.html"]).ended(4);
    let page = fs::read_to_string(desk.path("over.html")).expect("a page");
    assert!(page.contains("does not fit") && page.contains("budget.over"));
    // What cannot be written is found before anything is looked at, the pipeline included.
    desk.write("page", "mine");
    for (place, words) in
        [("model", "is a folder"), ("page/plan.html", "is a file"), ("rows.jsonl", "no page of a plan")]
    {
        let told = desk.tunepipe(&["plan", "absent.tp", "--html", place]).ended(2);
        assert!(told.err.contains(words) && told.out.is_empty(), "{place}: {}", told.err);
    }
    desk.tunepipe(&["plan", "p.tp", "--html", "new/folder/plan.html"]).ended(0);
}

#[test]
fn options_that_name_outputs_are_held_to_them_before_any_work() {
    let desk = Desk::new();
    desk.write("p.tp", &format!("tunepipe 1\n{TRAIN}\n"));
    desk.write("file", "mine");
    desk.write("old/metrics.jsonl", "{}\n");
    for arguments in [
        &["run", "absent.tp", "--run-dir", "file"][..],
        &["run", "absent.tp", "--run-dir", "file/run"],
        &["run", "absent.tp", "--run-dir", "old"],
        &["run", "absent.tp", "--sweep", "lr=1,2", "--run-dir", "file"],
        &["explain", "--reference", "file"],
        &["fit", "-", "--write"],
        &["new", "--model", "model", "--data", "rows.jsonl", "-o", "model"],
        &["new", "--model", "model", "--data", "rows.jsonl", "-o", "file/p.tp"],
    ] {
        let told = desk.tunepipe(arguments).ended(2);
        assert!(told.err.starts_with("error: ") && !told.err.contains("absent"), "{arguments:?}: {}", told.err);
    }
    assert_eq!(fs::read_to_string(desk.path("file")).expect("still there"), "mine");

    // A folder that is not there yet is made, and stays away where nothing came of it.
    desk.tunepipe(&["new", "--model", "model", "--data", "rows.jsonl", "-o", "team/ours/p.tp"]).ended(0);
    desk.tunepipe(&["check", "team/ours/p.tp"]).ended(0);
    let wrong = ["new", "--model", "llama-3-8b", "--data", "x.jsonl", "--goal", "full", "--card", "colab-t4"];
    desk.tunepipe(&[&wrong[..], &["-o", "gone/p.tp"]].concat()).ended(4);
    assert!(!desk.path("gone").exists());
}

#[test]
fn a_change_of_the_plan_is_told() {
    let desk = Desk::new();
    let text = format!("tunepipe 1\nbudget cpu-16gb\n{TRAIN}\n");
    desk.write("p.tp", &text);
    let old = desk.tunepipe(&["plan", "p.tp", "--json"]).ended(0).out;
    desk.write("old.json", &old);
    let same = desk.tunepipe(&["plan", "p.tp", "--diff", "old.json"]).ended(0);
    assert!(same.out.contains("fits, as before") && !same.out.contains('+'), "{}", same.out);
    desk.write("p.tp", &text.replace("batch=4", "batch=16"));
    let told = desk.tunepipe(&["plan", "p.tp", "--diff", "old.json"]).ended(0);
    assert!(
        told.out.contains("RAM peak") && told.out.contains("saved activations") && told.out.contains('+'),
        "{}",
        told.out
    );
    let json = desk.tunepipe(&["plan", "p.tp", "--diff", "old.json", "--json"]).ended(0).json();
    assert!(json["targets"][0]["peak"]["ram"]["by"].as_i64().is_some_and(|by| by > 0), "{json}");
    let new = desk.tunepipe(&["plan", "p.tp", "--json"]).ended(0).json();
    assert_eq!(json["targets"][0]["peak"]["ram"]["new"], new["targets"][0]["peak"]["ram"]["bytes"]);
    for bad in ["rows.jsonl", "model/config.json", "absent.json"] {
        desk.tunepipe(&["plan", "p.tp", "--diff", bad]).ended(2);
    }
}

#[test]
fn rows_are_shown_as_the_model_sees_them() {
    let desk = Desk::new();
    desk.write("p.tp", &format!("tunepipe 1\n{TRAIN}\n"));
    let told = desk.tunepipe(&["preview", "p.tp", "--rows", "2"]).ended(0);
    assert!(
        told.out.contains("rows.jsonl:1") && told.out.contains("rows.jsonl:2") && !told.out.contains("rows.jsonl:3")
    );
    assert!(told.out.contains("⟦ It lives in cave 0.") && told.out.contains("live?↵"), "{}", told.out);
    assert!(told.out.contains("20 to train on, 4 held out") && told.out.contains("half of them up to"), "{}", told.out);

    let json = desk.tunepipe(&["preview", "p.tp", "--rows", "1", "--json"]).ended(0).json();
    let set = &json["data"][0];
    let row = &set["rows"][0];
    let words = |key: &str| row[key].as_array().expect("a list").clone();
    let texts: String = words("texts").iter().filter_map(|text| text.as_str()).collect();
    assert!(texts.contains("Q: Where does the seal of house 0 live?\nA: It lives in cave 0."), "{texts}");
    let trained: String = words("texts")
        .iter()
        .zip(words("trained"))
        .filter(|(_, trained)| trained == &Value::Bool(true))
        .filter_map(|(text, _)| text.as_str())
        .collect();
    assert!(trained.starts_with(" It lives in cave 0.") && !trained.contains("Where"), "{trained}");
    assert_eq!(words("ids").len() as u64, row["tokens"].as_u64().expect("a count"));
    assert_eq!((&set["report"]["read"], &set["train_rows"]), (&24.into(), &20.into()));

    // What is odd is pointed out.
    let odd = |text: &str| {
        desk.write("o.tp", &format!("tunepipe 1\nload model \"model\"\n{text}\ntrain lora\nsave adapter \"out/o\"\n"));
        desk.tunepipe(&["preview", "o.tp"]).ended(0).out
    };
    assert!(odd("load data \"rows.jsonl\" format=completion no_eos").contains("no end-of-text token"));
    let cut = odd("load data \"rows.jsonl\" format=completion max_len=70 long=truncate");
    assert!(cut.contains("cut to `max_len`"), "{cut}");
    let dropped = odd("load data \"rows.jsonl\" format=completion max_len=75 long=drop");
    assert!(dropped.contains("dropped: longer than `max_len`"), "{dropped}");
    desk.write("ids.jsonl", "{\"input_ids\": [256, 256, 7, 8, 257]}\n");
    let ids = odd("load data \"ids.jsonl\" format=tokens");
    assert!(ids.contains("two beginning-of-text tokens: ids.jsonl:1"), "{ids}");
    // Nothing to show is said.
    desk.write("n.tp", "tunepipe 1\nload model \"model\"\nsample prompt=\"Q\"\n");
    assert!(desk.tunepipe(&["preview", "n.tp"]).ended(0).err.contains("no rows to show"));
}

#[test]
fn a_new_pipeline_checks_and_fits() {
    let desk = Desk::new();
    let new = |more: &[&str], code: i32| {
        let mut arguments = vec!["new"];
        arguments.extend(more);
        desk.tunepipe(&arguments).ended(code)
    };
    new(&["--model", "model", "--data", "rows.jsonl"], 0);
    let text = fs::read_to_string(desk.path("finetune.tp")).expect("a pipeline");
    assert!(text.contains("format=completion") && text.contains("train lora") && !text.contains("budget"), "{text}");
    desk.tunepipe(&["check", "finetune.tp"]).ended(0);
    desk.tunepipe(&["run", "-q", "finetune.tp"]).ended(0);
    // What the run saved stands in nobody's way.
    let told = new(&["--model", "model", "--data", "rows.jsonl", "-o", "-"], 0);
    assert!(told.out.contains("out-2/adapter"), "{}", told.out);
    // An older file is not lost.
    assert!(new(&["--model", "model", "--data", "rows.jsonl"], 2).err.contains("--overwrite"));

    // In another folder, for a card, of a model that is not there: 8 billion parameters fit a T4 in 4 bits only.
    fs::create_dir(desk.path("team")).expect("a folder");
    let told = new(
        &[
            "--model",
            "llama-3-8b",
            "--data",
            "rows.jsonl",
            "--format",
            "alpaca",
            "--card",
            "colab-t4",
            "-o",
            "team/t4.tp",
        ],
        0,
    );
    let text = fs::read_to_string(desk.path("team/t4.tp")).expect("a pipeline");
    for words in
        ["budget colab-t4", "quantize nf4", "../models/llama-3-8b", "../rows.jsonl", "shape=llama-3-8b", "out/t4/"]
    {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(told.err.contains("fits colab-t4"), "{}", told.err);
    desk.tunepipe(&["check", "team/t4.tp"]).ended(0);

    let json = new(
        &["--model", "model", "--data", "rows.jsonl", "--goal", "full", "--card", "cpu-16gb", "-o", "-", "--json"],
        0,
    )
    .json();
    assert!(json["text"].as_str().is_some_and(|text| text.contains("train full")) && json["file"].is_null());
    desk.write("long.txt", &"The seal lives in the harbour.\n\n".repeat(80));
    let told = new(&["--model", "model", "--data", "long.txt", "--goal", "pretrain", "-o", "-"], 0);
    desk.write("text.tp", &told.out);
    desk.tunepipe(&["check", "text.tp"]).ended(0);
    assert!(
        told.out.contains("format=text") && told.out.contains("packed") && told.out.contains("holdout=5%"),
        "{}",
        told.out
    );

    // Rows are no longer than the model was made for, whether it is there or only its shape is known.
    let told = new(&["--model", "tiny-llama", "--data", "absent.jsonl", "-o", "-"], 0);
    assert!(told.out.contains("shape=tiny-llama") && told.out.contains("max_len=512"), "{}", told.out);
    desk.write("words.txt", &"seal ".repeat(3000));
    for model in ["tiny-llama", "model"] {
        let told = new(&["--model", model, "--data", "words.txt", "--goal", "pretrain", "-o", "-"], 0);
        assert!(told.out.contains("max_len=512"), "{model}: {}", told.out);
    }

    // What cannot be is said, and nothing is written.
    assert!(
        new(&["--model", "llama-3-8b", "--data", "x.jsonl", "--goal", "full", "--card", "colab-t4", "-o", "no.tp"], 4)
            .err
            .contains("nothing was written")
    );
    assert!(!desk.path("no.tp").exists());
    assert!(new(&["--data", "rows.jsonl", "-o", "no.tp"], 2).err.contains("--model"));
    assert!(new(&["--model", "modle", "--data", "rows.jsonl", "-o", "no.tp"], 2).err.contains("no model at"));
    assert!(
        new(&["--model", "model", "--data", "rows.jsonl", "--card", "colab-t5", "-o", "no.tp"], 2)
            .err
            .contains("colab-t4")
    );
}

#[test]
fn a_new_pipeline_for_conversations_brings_a_template() {
    let desk = Desk::new();
    let turns = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}, {\"role\": \"assistant\", \"content\": \"Yes.\"}]}\n";
    desk.write("talk.jsonl", turns);
    let told = desk.tunepipe(&["new", "--model", "model", "--data", "talk.jsonl", "-o", "-"]).ended(0);
    assert!(told.out.contains("format=chat") && told.out.contains("template=chatml"), "{}", told.out);
    desk.write("talk.tp", &told.out);
    let json = desk.tunepipe(&["preview", "talk.tp", "--json"]).ended(0).json();
    assert!(json["data"][0]["template"].as_str().is_some_and(|words| words.contains("chatml")), "{json}");
}

#[test]
fn shells_get_their_completions() {
    let desk = Desk::empty();
    let told = desk.tunepipe(&["completions", "bash"]).ended(0);
    assert!(told.out.contains("complete -F") && told.out.contains("colab-t4"));
    // The shell itself reads it, where it is at hand.
    for (shell, dry) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let told = desk.tunepipe(&["completions", shell]).ended(0);
        desk.write("script", &told.out);
        match Command::new(shell).arg(dry).arg(desk.path("script")).output() {
            Ok(read) => {
                let said = String::from_utf8_lossy(&read.stderr);
                assert!(read.status.success() && said.is_empty(), "{shell}: {said}");
            }
            Err(_) => println!("no {shell} here: its script was not read"),
        }
    }
    desk.tunepipe(&["completions", "tcsh"]).ended(2);
}

/// Who asks for JSON gets JSON, with what went wrong in it, on every verb and whatever it is.
#[test]
fn an_answer_in_json_is_json_whatever_goes_wrong() {
    let desk = Desk::new();
    desk.write("ok.tp", &format!("tunepipe 1\n{TRAIN}\n"));
    desk.write("bad.tp", "tunepipe 1\nload model \"modle\"\nsample prompt=\"Q\"\n");
    desk.write("big.tp", &format!("tunepipe 1\nbudget ram=1MiB\n{TRAIN}\n"));
    let fine = ["--model", "model", "--data", "rows.jsonl", "-o", "-"];
    for (arguments, code) in [
        (&["check", "ok.tp"][..], 0),
        (&["check", "bad.tp"], 1),
        (&["check", "none.tp"], 2),
        (&["check", "ok.tp", "none.tp"], 2),
        (&["check", "big.tp"], 4),
        (&["plan", "ok.tp"], 0),
        (&["plan", "bad.tp"], 1),
        (&["plan", "none.tp"], 2),
        (&["plan", "ok.tp", "--html", "model"], 2),
        (&["plan", "ok.tp", "--diff", "rows.jsonl"], 2),
        (&["fit", "ok.tp"], 0),
        (&["fit", "bad.tp"], 1),
        (&["fit", "big.tp"], 4),
        (&["preview", "bad.tp"], 1),
        (&["preview", "none.tp"], 2),
        (&["run", "bad.tp"], 1),
        (&["run", "none.tp"], 2),
        (&["run", "big.tp"], 4),
        (&["run", "ok.tp", "--run-dir", "rows.jsonl"], 2),
        (&["run", "ok.tp", "x"], 2),
        (&["run", "ok.tp", "--sweep", "train.lr=1,1"], 2),
        (&["run", "ok.tp", "--sweep", "train.lr=1,a"], 1),
        (&["run", "ok.tp", "--sweep", "train.lr=0.1,1e-1"], 1),
        (&["fmt", "--check", "ok.tp"], 0),
        (&["fmt", "none.tp"], 2),
        (&[&["new"][..], &fine].concat(), 0),
        (&["new", "--model", "modle", "--data", "rows.jsonl", "-o", "-"], 2),
        (&["explain", "nothing"], 2),
        (&["check", "ok.tp", "--epochs=3"], 2),
        (&["plan"], 2),
        (&["ls", "stage"], 2),
        (&["chekc", "ok.tp"], 2),
        (&["ls", "runs"], 0),
    ] {
        let told = desk.tunepipe(&[arguments, &["--json"]].concat()).ended(code);
        let json = told.json();
        let found = json["diagnostics"].as_array().unwrap_or_else(|| panic!("{arguments:?}: {json}"));
        assert_eq!(json["version"], 1, "{arguments:?}");
        let unfit = code == 4 && json["fits"] == false;
        assert!(code == 0 || unfit || found.iter().any(|one| one["severity"] == "error"), "{arguments:?}: {json}");
        assert!(code == 0 || json["ok"] != true, "{arguments:?}: {json}");
    }
}

/// What threads hold is planned for the machine that is meant, not for the one that plans.
#[test]
fn a_machine_without_a_card_may_say_its_threads() {
    const LEARN: &str = "load model \"model\"\nload data \"rows.jsonl\" format=completion\ntrain lora steps=2\n";
    let desk = Desk::new();
    let slabs = |threads: Option<usize>, budget: &str| -> (u64, String) {
        desk.write("t.tp", &format!("tunepipe 1\nbudget ram=8GiB{budget}\n{LEARN}"));
        let told = desk.with_threads(threads, &["plan", "--json", "t.tp"]).ended(0).json();
        let target = &told["targets"][0];
        let holdings = target["stages"][0]["phases"][0]["holdings"].as_array().expect("holdings").clone();
        let slabs = holdings.iter().find(|holding| holding["name"] == "matmul slabs").expect("slabs");
        (slabs["bytes"].as_u64().expect("bytes"), target.to_string())
    };
    let (two, _) = slabs(Some(2), "");
    let (here, notes) = slabs(Some(2), " threads=2");
    assert!(two == here && !notes.contains("planned for a machine"), "{notes}");
    // A slab a thread, and the calling one's.
    let (many, notes) = slabs(Some(2), " threads=11");
    assert_eq!(many, two / 3 * 12);
    assert!(notes.contains("planned for a machine with 11 threads"), "{notes}");
    assert_eq!(slabs(Some(3), " threads=11").0, many, "whatever plans it");
    let told = desk.with_threads(Some(2), &["run", "t.tp"]).ended(0);
    assert!(told.err.contains("the budget is for 11 threads, and this run has 2"), "{}", told.err);
    let told = desk.with_threads(Some(11), &["run", "t.tp"]).ended(0);
    assert!(!told.err.contains("the budget is for"), "{}", told.err);

    let code = |budget: &str| {
        desk.write("w.tp", &format!("tunepipe 1\nbudget {budget}\n{LEARN}"));
        let told = desk.tunepipe(&["check", "w.tp", "--json"]).ended(1).json();
        told["diagnostics"][0]["code"].as_str().expect("a code").to_owned()
    };
    assert_eq!(code("gpu=8GiB threads=4"), "arg.idle");
    assert_eq!(code("ram=8GiB threads=0"), "type.range");
    assert_eq!(code("ram=8GiB threads=2 threads=2"), "arg.twice");
    assert_eq!(code("ram=8GiB threads=many"), "name.unknown");
}
