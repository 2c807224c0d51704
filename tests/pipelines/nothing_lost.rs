//! What a user has stays: other files, inputs, results behind a pipe that broke.

use std::process::Stdio;

use super::*;

const TRAIN: &str = "load model \"model\"\nload data \"rows.jsonl\" format=completion\ntrain lora steps=2";

/// The first diagnostic's code and line, of a pipeline that must not run.
fn refused(desk: &Desk, text: &str) -> (String, u64) {
    desk.write("no.tp", &format!("tunepipe 1\n{text}\n"));
    let told = desk.tunepipe(&["check", "--json", "no.tp"]).ended(1).json();
    let first = &told["diagnostics"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|d| d["severity"] == "error")
        .expect("an error")
        .clone();
    desk.tunepipe(&["run", "-q", "no.tp"]).ended(1);
    (first["code"].as_str().expect("a code").to_owned(), first["line"].as_u64().expect("a line"))
}

#[test]
fn overwrite_replaces_saved_models_and_nothing_else() {
    let desk = Desk::new();
    desk.run("first", &format!("{TRAIN}\nsave adapter \"out/a\"\nsave merged \"out/m\""));
    let again = format!("{TRAIN}\nsave adapter \"out/a\" overwrite\nsave merged \"out/m\" overwrite");
    desk.run("again", &again);
    for (folder, line) in [("a", 5), ("m", 6)] {
        for foreign in ["thesis.txt", "rows.jsonl", ".git/HEAD", "checkpoints/step-3/x"] {
            desk.write(&format!("out/{folder}/{foreign}"), "mine");
            assert_eq!(refused(&desk, &again), ("output.foreign".into(), line), "{foreign}");
            assert!(desk.path(&format!("out/{folder}/{foreign}")).exists());
            let top = foreign.split('/').next().expect("a name");
            let top = desk.path(&format!("out/{folder}/{top}"));
            if top.is_dir() { fs::remove_dir_all(top) } else { fs::remove_file(top) }.expect("removed");
        }
    }
    desk.run("third", &again);
}

#[test]
fn no_output_replaces_an_input() {
    let desk = Desk::new();
    desk.run("first", &format!("{TRAIN}\nsave adapter \"a\""));
    for (stage, from) in [("save adapter", "model"), ("save merged", "model"), ("save merged", "./x/../model")] {
        assert_eq!(refused(&desk, &format!("{TRAIN}\n{stage} \"{from}\" overwrite")), ("output.input".into(), 5));
    }
    let over = "load model \"model\"\nload adapter \"a\"\nload data \"rows.jsonl\" format=completion\n\
                train lora steps=1\nsave adapter \"a\" overwrite";
    assert_eq!(refused(&desk, over), ("output.input".into(), 6));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("model", desk.path("link")).expect("a link");
        assert_eq!(refused(&desk, &format!("{TRAIN}\nsave model \"link\" overwrite")).1, 5);
        assert_eq!(refused(&desk, &format!("{TRAIN}\nsave merged \"link\" overwrite")), ("output.input".into(), 5));
    }
}

#[test]
fn two_names_of_one_place_are_one_output() {
    let desk = Desk::new();
    let two = |a: &str, b: &str| format!("{TRAIN}\nsave adapter \"{a}\"\nsave merged \"{b}\"");
    assert_eq!(refused(&desk, &two("o/z", "o/../o/z")), ("output.twice".into(), 6));
    assert_eq!(refused(&desk, &two("o/z", "./o/z/inner")), ("output.twice".into(), 6));
    let long = "n".repeat(250);
    assert_eq!(refused(&desk, &format!("{TRAIN}\nsave adapter \"{long}\"")), ("output.name".into(), 5));
}

#[test]
fn what_changes_nothing_is_said() {
    let desk = Desk::new();
    let idle = |text: &str| refused(&desk, text).0;
    let data = "load data \"rows.jsonl\" format=completion";
    assert_eq!(idle("load model \"model\" seed=5\nsample prompt=\"x\""), "arg.idle");
    assert_eq!(idle(&format!("load model \"model\"\n{data} text=\"y\"\neval")), "arg.idle");
    assert_eq!(idle(&format!("load model \"model\"\n{data} holdout=0rows\neval")), "arg.idle");
    assert_eq!(idle("load model \"model\"\nsample prompt=\"x\" top_p=0.5"), "arg.idle");
    assert_eq!(idle("load model \"model\"\nsample prompt=\"x\" seed=3"), "arg.idle");
    assert_eq!(
        idle(&format!("load model \"model\"\n{data}\ntrain lora targets=[q_proj q_proj]\nsave adapter \"o\"")),
        "arg.twice"
    );
    assert_eq!(idle("load model \"model\"\nsave model \"o\" max_shard=0B"), "save.shard");
    desk.write(
        "w.tp",
        &format!("tunepipe 1\n{}\nsave adapter \"o\"\n", TRAIN.replace("steps=2", "steps=2 eval_every=1epochs")),
    );
    let told = desk.tunepipe(&["check", "--json", "w.tp"]).ended(0).json();
    assert_eq!(
        (&told["diagnostics"][0]["code"], &told["diagnostics"][0]["severity"]),
        (&"arg.idle".into(), &"warning".into())
    );
}

#[test]
fn what_is_not_finite_is_not_saved() {
    let desk = Desk::new();
    let run = |name: &str, text: &str| {
        desk.write(&format!("{name}.tp"), &format!("tunepipe 1\n{text}\n"));
        let told = desk.tunepipe(&["run", "-q", &format!("{name}.tp")]).ended(3);
        assert!(!desk.path("o").exists(), "{name} left something");
        told.err
    };
    let data = "load model \"model\" dtype=f32\nload data \"rows.jsonl\" format=completion";
    let last = run("last", &format!("{data}\ntrain lora lr=1e300 steps=1 weight_decay=1\nsave merged \"o\""));
    assert!(last.contains("no longer finite") && last.contains("last.tp:4"), "{last}");
    let held = run("held", &format!("{data}\ntrain full lr=1e30 steps=1\nsave model \"o\" dtype=f16"));
    assert!(held.contains("f16 cannot") || held.contains("finite"), "{held}");
    let wide = run("wide", &format!("{data}\ntrain full lr=1e7 steps=1\nsave model \"o\" dtype=f16"));
    assert!(wide.contains("f16 cannot") && wide.contains("wide.tp:5"), "{wide}");
}

#[test]
fn a_reader_that_goes_away_ends_no_run() {
    let desk = Desk::new();
    desk.write("long.tp", &format!("tunepipe 1\n{}\nsave adapter \"o\"\n", TRAIN.replace("steps=2", "steps=60")));
    let mut child = crate::program()
        .args(["run", "long.tp"])
        .current_dir(desk.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // Both ends closed at once: every later line meets a broken pipe.
    drop(child.stdout.take());
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("an end").code(), Some(0));
    assert!(desk.path("o/adapter_model.safetensors").is_file());
    #[cfg(target_os = "linux")]
    if let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") {
        let told = crate::program()
            .args(["plan", "long.tp"])
            .current_dir(desk.path(""))
            .stdout(full)
            .output()
            .expect("the program starts");
        assert_eq!(told.status.code(), Some(3), "{}", String::from_utf8_lossy(&told.stderr));
    }
}

#[test]
fn results_are_answers_and_the_rest_is_told() {
    let desk = Desk::new();
    desk.write("ask.tp", "tunepipe 1\nload model \"model\"\nload data \"rows.jsonl\" format=completion\neval\nsample prompt=\"Q\" max_new=4\n");
    let told = desk.tunepipe(&["run", "-q", "ask.tp"]).ended(0);
    assert!(told.out.contains("eval in line 4: loss") && told.out.contains("sample in line 5"), "{}", told.out);
    let told = desk.tunepipe(&["run", "--json", "ask.tp"]).ended(0).json();
    assert_eq!((&told["results"][0]["line"], &told["results"][1]["prompt"]), (&4.into(), &"Q".into()), "{told}");
}

#[test]
fn a_page_replaces_a_page_and_a_new_pipeline_a_pipeline() {
    let desk = Desk::new();
    let text = format!("tunepipe 1\n{TRAIN}\nsave adapter \"o\"\n");
    desk.write("p.tp", &text);
    for precious in ["p.tp", "rows.jsonl"] {
        let before = fs::read(desk.path(precious)).expect("a file");
        let told = desk.tunepipe(&["plan", "p.tp", "--html", precious]).ended(2);
        assert!(told.err.contains("no page of a plan"), "{}", told.err);
        assert_eq!(fs::read(desk.path(precious)).expect("a file"), before);
    }
    for _ in 0..2 {
        desk.tunepipe(&["plan", "p.tp", "--html", "plan.html"]).ended(0);
    }
    let before = fs::read(desk.path("rows.jsonl")).expect("a file");
    let new =
        ["new", "--model", "model", "--data", "rows.jsonl", "--goal", "adapter", "--overwrite", "-o", "rows.jsonl"];
    desk.tunepipe(&new).ended(2);
    assert_eq!(fs::read(desk.path("rows.jsonl")).expect("a file"), before);
}
