//! The program at a terminal: it asks, and keeps to the terminal's width.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::Desk;

/// Longer than this nothing takes; a question that nobody answers would wait for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// Both ends of a terminal; none where the system has none to give.
fn terminal(columns: u16) -> Option<(File, File)> {
    let ours: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).ok()?;
    grantpt(&ours).ok()?;
    unlockpt(&ours).ok()?;
    let name = ptsname(&ours, Vec::new()).ok()?.into_string().ok()?;
    let theirs = OpenOptions::new().read(true).write(true).open(name).ok()?;
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&theirs, size).ok()?;
    Some((File::from(ours), theirs))
}

/// Runs the program at a terminal with `typed` on its keyboard: how it ended, and all that the screen showed, colours
/// taken out. None where there is no terminal to be had.
fn at_terminal(desk: &Desk, columns: u16, arguments: &[&str], typed: &str) -> Option<(Option<i32>, String)> {
    let Some((mut ours, theirs)) = terminal(columns) else {
        println!("no terminal to be had: not tried");
        return None;
    };
    let end = || Stdio::from(theirs.try_clone().expect("another end"));
    let mut command = crate::program();
    command.args(arguments).current_dir(desk.path("")).env_remove("NO_COLOR").env("TERM", "xterm-256color");
    let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("the program starts");
    drop((command, theirs));
    ours.write_all(typed.as_bytes()).expect("typed");
    let mut screen = ours.try_clone().expect("a screen");
    let reader = thread::spawn(move || {
        let (mut seen, mut some) = (Vec::new(), [0; 4096]);
        // An error is the other end's having gone.
        while let Ok(count @ 1..) = screen.read(&mut some) {
            seen.extend(some.iter().take(count));
        }
        String::from_utf8_lossy(&seen).replace("\r\n", "\n")
    });
    let begun = Instant::now();
    let code = loop {
        match child.try_wait().expect("a child") {
            Some(status) => break status.code(),
            None if begun.elapsed() > PATIENCE => {
                child.kill().expect("killed");
                child.wait().expect("ended");
                panic!("{arguments:?} waits:\n{}", reader.join().expect("a screen"));
            }
            None => thread::sleep(Duration::from_millis(10)),
        }
    };
    Some((code, uncoloured(&reader.join().expect("a screen"))))
}

fn uncoloured(text: &str) -> String {
    let mut pieces = text.split("\u{1b}[");
    let first = pieces.next().unwrap_or("").to_owned();
    pieces.fold(first, |shown, piece| {
        let end = piece.find(|c: char| c.is_ascii_alphabetic()).map_or(piece.len(), |at| at + 1);
        shown + &piece[end..]
    })
}

#[test]
fn a_new_pipeline_is_asked_for() {
    let desk = Desk::new();
    // What cannot be is asked again; an empty line takes what is proposed.
    let typed = "modle\nmodel\nrows.jsonl\ncpu-16g\ncpu-16gb\nfulll\n\n";
    let Some((code, screen)) = at_terminal(&desk, 100, &["new"], typed) else { return };
    assert_eq!(code, Some(0), "{screen}");
    for words in [
        "Model (a folder",
        "no model at `modle`",
        "Rows (a .jsonl",
        "Card (of `tunepipe ls devices`) [none]",
        "write `--card cpu-16gb`",
        "Goal (adapter, full or pretrain) [adapter]",
        "there is no goal `fulll`",
        "wrote finetune.tp",
    ] {
        assert!(screen.contains(words), "{words}\n{screen}");
    }
    let text = std::fs::read_to_string(desk.path("finetune.tp")).expect("a pipeline");
    assert!(text.contains("budget cpu-16gb") && text.contains("train lora"), "{text}");
    desk.tunepipe(&["check", "finetune.tp"]).ended(0);

    // Who leaves is let go, and nothing is written.
    let Some((code, screen)) = at_terminal(&desk, 100, &["new", "-o", "no.tp"], "model\n\u{4}") else { return };
    assert!(code == Some(2) && screen.contains("nothing was answered"), "{screen}");
    assert!(!desk.path("no.tp").exists());
}

#[test]
fn sentences_keep_to_a_narrow_terminal() {
    let desk = Desk::new();
    desk.write(
        "t.tp",
        "tunepipe 1\nbudget ram=1GiB\nload model \"model\"\nload data \"rows.jsonl\" format=completion max_len=60 long=truncate no_eos\ntrain lora steps=2\nsave adapter\n",
    );
    let Some((code, screen)) = at_terminal(&desk, 40, &["preview", "t.tp", "--rows", "0"], "") else { return };
    assert_eq!(code, Some(0), "{screen}");
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("24 rows read, 24 kept: 24 to train on, 0 held out;"), "{screen}");
    assert!(words.contains("cut to `max_len`") && words.contains("do not teach the model where to stop"), "{screen}");
    let narrow = |screen: &str| {
        for line in screen.lines() {
            assert!(line.chars().count() <= 40, "{line}\n{screen}");
        }
    };
    narrow(&screen);
    // So does what is said of a mistake.
    desk.write("w.tp", "tunepipe 1\nload model \"model\"\nquantize 8bit\nmystery\n");
    let Some((code, screen)) = at_terminal(&desk, 40, &["check", "w.tp"], "") else { return };
    assert_eq!(code, Some(1), "{screen}");
    assert!(screen.contains("stages are load model") && screen.contains("units are B"), "{screen}");
    narrow(&screen);
}

#[test]
fn tables_keep_to_a_narrow_terminal() {
    let desk = Desk::new();
    let text = "tunepipe 1\nbudget ram=1GiB\nbudget colab-t4\nload model \"model\"\nload data \"rows.jsonl\" format=completion max_len=120 holdout=4rows\nquantize nf4\ntrain lora steps=2\nsave adapter\nsave merged \"out/m\" low_ram overwrite\n";
    desk.write("t.tp", text);
    let plan = desk.tunepipe(&["plan", "t.tp", "--json"]).ended(0);
    desk.write("old.json", &plan.out);
    for columns in [40, 60, 80] {
        for arguments in [
            &["plan", "t.tp"] as &[&str],
            &["plan", "t.tp", "--diff", "old.json", "--set", "train.batch=2"],
            &["check", "t.tp"],
            &["run", "t.tp", "--budget", "ram=1GiB"],
            &["check", "no-such-file-of-this-name-is-there.tp", "t.tp", "no-such-file-of-another-name.tp"],
            &["ls", "stages"],
            &["ls", "recipes"],
            &["ls", "shapes"],
            &["ls", "devices"],
            &["ls", "codes"],
            &["ls", "runs"],
            &["explain", "train", "lora"],
            &["explain", "load", "data"],
            &["explain", "qlora"],
        ] {
            let Some((code, screen)) = at_terminal(&desk, columns, arguments, "") else { return };
            let missing = arguments.iter().any(|word| word.starts_with("no-such"));
            assert_eq!(code, Some(if missing { 2 } else { 0 }), "{screen}");
            // Text of a pipeline is shown as it is typed.
            let table = screen.split("examples\n").next().unwrap_or("").split("what it is").next().unwrap_or("");
            // What a run tells of its steps is no table.
            let told = ["  held out", "  saved", "  step"];
            for line in table.lines().filter(|line| !line.contains('\r') && !told.iter().any(|t| line.starts_with(t))) {
                let unbroken = line.split_whitespace().count() == 1;
                assert!(
                    line.chars().count() <= usize::from(columns) || unbroken,
                    "{arguments:?} at {columns}: {line}\n{screen}"
                );
            }
        }
    }
    // Nothing is left out: every figure of the wide table stands in the narrow one.
    let figures = |columns: u16, arguments: &[&str]| -> Option<Vec<String>> {
        let (_, screen) = at_terminal(&desk, columns, arguments, "")?;
        let mut words: Vec<String> = screen.split_whitespace().map(str::to_owned).collect();
        words.retain(|word| word.contains(|c: char| c.is_ascii_digit()));
        words.sort_unstable();
        words.dedup();
        Some(words)
    };
    for arguments in [&["plan", "t.tp"] as &[&str], &["ls", "devices"], &["ls", "shapes"], &["ls", "runs"]] {
        let (Some(wide), Some(narrow)) = (figures(120, arguments), figures(40, arguments)) else { return };
        let lost: Vec<&String> = wide.iter().filter(|word| !narrow.contains(word)).collect();
        assert!(lost.is_empty(), "{arguments:?}: {lost:?}");
    }
    let Some((_, screen)) = at_terminal(&desk, 40, &["ls", "codes"], "") else { return };
    assert!(!screen.contains('…'), "{screen}");
}
