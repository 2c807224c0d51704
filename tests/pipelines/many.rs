//! `check` and `fmt` on several files, folders and standard input.

use std::io::Write;
use std::process::Stdio;

use super::{Desk, Told};

const GOOD: &str = "tunepipe 1\nload model init=random shape=tiny-llama\nload data \"rows.jsonl\" format=completion\ntrain lora\nsave adapter\n";

fn piped(desk: &Desk, arguments: &[&str], text: &str) -> Told {
    let mut child = crate::program()
        .args(arguments)
        .current_dir(desk.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Told { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn folders_files_and_standard_input_are_checked() {
    let desk = Desk::new();
    desk.write("all/good.tp", &GOOD.replace("rows.jsonl", "../rows.jsonl"));
    desk.write("all/deep/wrong.tp", &GOOD.replace("train lora", "trian lora\nsample"));
    desk.write("all/.hidden/no.tp", "nonsense");
    desk.write("all/notes.txt", "nonsense");
    desk.write("other.tp", GOOD);
    let told = desk.tunepipe(&["check", "all"]).ended(1);
    assert!(
        told.out.contains("all/good.tp: right") && told.err.contains("all/deep/wrong.tp:4"),
        "{}{}",
        told.out,
        told.err
    );
    desk.tunepipe(&["check", "all/good.tp", "other.tp"]).ended(0);
    desk.write("lib.tp", "tunepipe 1\nrecipe r(model: Model)\n  sample model=model prompt=\"x\"\n");
    assert!(desk.tunepipe(&["check", "lib.tp"]).ended(0).out.contains("has no stages of its own"));
    piped(&desk, &["check", "-"], GOOD).ended(0);

    let json = desk.tunepipe(&["check", "all", "other.tp", "--json"]).ended(1).json();
    assert_eq!((json["ok"].as_bool(), json["files"].as_array().map(Vec::len)), (Some(false), Some(3)));
    assert!(
        json["diagnostics"].as_array().is_some_and(|all| all.iter().any(|one| one["code"] == "name.unknown_stage"))
    );
    let json = desk.tunepipe(&["check", "other.tp", "--json"]).ended(0).json();
    assert_eq!((json["ok"].as_bool(), json["file"].as_str()), (Some(true), Some("other.tp")));

    let told = desk.tunepipe(&["check", "all", "--format", "github"]).ended(1);
    let line = told.out.lines().find(|line| line.contains("name.unknown_stage")).unwrap_or_default();
    assert!(line.starts_with("::error file=all/deep/wrong.tp,line=4,col=1,endLine=4,endColumn=11,"), "{}", told.out);
    desk.tunepipe(&["check", "all/deep/none.tp"]).ended(2);
    desk.tunepipe(&["check", "model"]).ended(2);
}

#[test]
fn files_are_laid_out_in_place_or_only_shown() {
    let desk = Desk::new();
    let ugly = "tunepipe 1\ntrain   lora  # why\n      rank=8\n";
    let tidy = "tunepipe 1\ntrain lora  # why\n  rank=8\n";
    desk.write("all/ugly.tp", ugly);
    desk.write("all/tidy.tp", tidy);
    let read = |name: &str| std::fs::read_to_string(desk.path(name)).expect("a file");
    let told = desk.tunepipe(&["fmt", "--check", "all"]).ended(1);
    assert_eq!(told.out, "all/ugly.tp\n");
    let told = desk.tunepipe(&["fmt", "--diff", "all"]).ended(0);
    assert!(told.out.contains("-train   lora  # why") && told.out.contains("+  rank=8"), "{}", told.out);
    assert_eq!(read("all/ugly.tp"), ugly);
    assert_eq!(desk.tunepipe(&["fmt", "all"]).ended(0).out, "all/ugly.tp\n");
    assert_eq!(read("all/ugly.tp"), tidy);
    desk.tunepipe(&["fmt", "--check", "all"]).ended(0);
    assert_eq!(piped(&desk, &["fmt", "-"], ugly).ended(0).out, tidy);
    assert_eq!(piped(&desk, &["fmt", "-", "--json"], ugly).ended(0).json()["text"], tidy);

    desk.write("all/wrong.tp", "tunepipe 1\nlet x = [\n");
    let told = desk.tunepipe(&["fmt", "all"]).ended(1);
    assert!(told.err.contains("syntax.bracket") && read("all/wrong.tp") == "tunepipe 1\nlet x = [\n", "{}", told.err);
    let json = desk.tunepipe(&["fmt", "--check", "all", "--json"]).ended(1).json();
    assert_eq!((json["files"].as_u64(), json["changed"].as_array().map(Vec::len)), (Some(3), Some(0)));
}

#[test]
fn every_target_is_judged_and_what_is_not_is_said() {
    let desk = Desk::new();
    let budgets = "tunepipe 1\nbudget colab-t4\nbudget rtx-4090 ram=8GiB\nbudget ram=64GiB\n";
    desk.write("many.tp", &GOOD.replace("tunepipe 1\n", budgets));
    let told = desk.tunepipe(&["check", "many.tp"]).ended(0);
    let lines: Vec<&str> = told.out.lines().collect();
    assert_eq!(lines.len(), 3, "{}", told.out);
    assert!(lines[0].contains("fits colab-t4") && lines[1].contains("fits rtx-4090"), "{}", told.out);
    assert!(lines[2].contains("disk") && lines[2].contains("not judged"), "{}", told.out);
    let told = desk.tunepipe(&["check", "many.tp", "--set", "load-model.dtype=bf16"]).ended(1);
    assert!(told.err.contains("device.no_bf16") && told.err.contains("dtype=f16"), "{}", told.err);
    // A card that has it is no mistake.
    let only = ["check", "many.tp", "--set", "load-model.dtype=bf16", "--budget", "rtx-4090"];
    desk.tunepipe(&only).ended(0);
}

/// Two lines for cards that no catalogue has are two targets, and each can be picked by what it says.
#[test]
fn targets_have_names_of_their_own() {
    let desk = Desk::new();
    let budgets = "tunepipe 1\nbudget gpu=24GiB\nbudget gpu=16GiB ram=8GiB  # the small one\nbudget ram=4GiB\n";
    desk.write("t.tp", &GOOD.replace("tunepipe 1\n", budgets));
    let told = desk.tunepipe(&["check", "t.tp"]).ended(0);
    for name in ["fits gpu=24GiB (", "fits gpu=16GiB ram=8GiB (", "fits cpu ("] {
        assert!(told.out.contains(name), "{name}\n{}", told.out);
    }
    let names = |arguments: &[&str]| -> Vec<String> {
        let json = desk.tunepipe(arguments).ended(0).json();
        let targets = json["targets"].as_array().expect("a list");
        targets.iter().map(|target| target["budget"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(&["plan", "t.tp", "--json"]), ["gpu=24GiB", "gpu=16GiB ram=8GiB", "cpu"]);
    assert_eq!(names(&["plan", "t.tp", "--json", "--budget", "gpu=16GiB  ram=8GiB"]), ["gpu=16GiB ram=8GiB"]);
    assert_eq!(names(&["plan", "t.tp", "--json", "--budget", "gpu"]), ["gpu=24GiB", "gpu=16GiB ram=8GiB"]);
    assert_eq!(
        names(&["plan", "t.tp", "--json", "--budget", "gpu=1GiB", "--budget", "gpu=2GiB"]),
        ["gpu=1GiB", "gpu=2GiB"]
    );
    assert_eq!(names(&["plan", "t.tp", "--json", "--budget", "cpu"]), ["cpu"]);
}

/// A line that only says how many threads there are is a target that limits nothing, and no missing line.
#[test]
fn threads_alone_are_a_target() {
    let desk = Desk::new();
    desk.write("t.tp", &GOOD.replace("tunepipe 1\n", "tunepipe 1\nbudget threads=4\n"));
    for verb in ["check", "plan"] {
        let told = desk.tunepipe(&[verb, "t.tp"]).ended(0);
        let words = "not judged, as the budget line means a processor of 4 threads, and limits nothing";
        assert!(told.out.contains(words) && !told.out.contains("no budget line"), "{}", told.out);
    }
}

/// One file that cannot be read keeps no other from being laid out or checked.
#[test]
fn what_cannot_be_read_hides_nothing() {
    let desk = Desk::new();
    let ugly = "tunepipe 1\nlet   a = 1\n";
    for name in ["a.tp", "all/b.tp", "all/z.tp"] {
        desk.write(name, ugly);
    }
    std::fs::write(desk.path("all/latin.tp"), b"# caf\xe9\n").expect("written");
    std::os::unix::fs::symlink("nowhere.tp", desk.path("all/lost.tp")).expect("linked");
    let told = desk.tunepipe(&["fmt", "none.tp", "all", "empty", "a.tp"]).ended(2);
    assert_eq!(told.out, "all/b.tp\nall/z.tp\na.tp\n");
    for name in ["none.tp", "latin.tp", "lost.tp", "empty"] {
        assert!(told.err.contains(name), "{name}\n{}", told.err);
    }
    let json = desk.tunepipe(&["fmt", "--json", "none.tp", "all"]).ended(2).json();
    assert_eq!(json["diagnostics"].as_array().map(Vec::len), Some(3), "{json}");

    let told = desk.tunepipe(&["check", "none.tp", "all", "a.tp"]).ended(2);
    assert_eq!(told.out.lines().filter(|line| line.contains(": right")).count(), 3, "{}", told.out);
    for name in ["none.tp", "latin.tp", "lost.tp"] {
        assert!(told.err.contains(name), "{name}\n{}", told.err);
    }
}

/// What a terminal obeys comes out as pictures, wherever it stands; programs get it as it is.
#[test]
fn a_terminal_is_given_nothing_to_obey() {
    let desk = Desk::new();
    let evil = "e\u{1b}[2J\u{7}\u{9b}\u{202e}\u{1b}[31m.tp";
    let text =
        "tunepipe 1\nbudget ram=1GiB\nload model \"mod\u{1b}[2Jel\" shape=tiny-llama\nsave model \"out/\u{1b}[2Jm\"\n";
    desk.write(evil, text);
    desk.write("empty-\u{1b}[2J.tp", "tunepipe 1\n");
    desk.write(
        "rows\u{1b}[2J.tp",
        "tunepipe 1\nparam a = \"x\u{1b}[2J\"\nload data \"rows\u{1b}[2J.jsonl\" format=nix\n",
    );
    let obeyed = |text: &str| text.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}');
    for arguments in [
        &["check", evil] as &[&str],
        &["check", "empty-\u{1b}[2J.tp"],
        &["check", "rows\u{1b}[2J.tp"],
        &["check", "rows\u{1b}[2J.tp", "--format", "github"],
        &["check", evil, "x=\u{1b}[2J"],
        &["check", evil, "--budget", "\u{1b}[2J"],
        &["check", "no\u{1b}[2J.tp"],
        &["check", "--\u{1b}[2J"],
        &["plan", evil],
        &["fit", evil],
        &["run", evil],
        &["fmt", evil, "no\u{1b}[2J.tp"],
        &["explain", "\u{1b}[2J"],
        &["explain", "rows\u{1b}[2J.tp"],
        &["preview", evil],
        &["new", "--model", "m\u{1b}[2J", "-o", "n.tp"],
    ] {
        let told = desk.tunepipe(arguments);
        assert!(!told.out.is_empty() || !told.err.is_empty(), "{arguments:?}");
        assert!(!obeyed(&told.out) && !obeyed(&told.err), "{arguments:?}\n{:?}\n{:?}", told.out, told.err);
    }
    let told = desk.tunepipe(&["check", "--json", evil]);
    assert!(!obeyed(&told.out), "{:?}", told.out);
    assert_eq!(told.json()["file"], evil);
    // A text that is piped on is what it was.
    assert_eq!(piped(&desk, &["fmt", "-"], text).ended(0).out, text);
}
