//! Plans held against runs, over the whole matrix: `cargo bench --bench plans`.
//!
//! Recipe, memory switches, batch, length and packing, at SmolLM2-135M's shape with random weights. Every case is a
//! pipeline that the shipped program runs in a process of its own; what it planned and what it measured stand in its
//! run's folder.
//!
//! ```text
//! cargo bench --bench plans                           all 144 cases
//! cargo bench --bench plans -- corners                all switches on or off, smallest and largest rows
//! cargo bench --bench plans -- qlora 4x512 packed     those with all of these words
//! cargo bench --bench plans -- --list lora            their names
//! cargo bench --bench plans -- --steps 1 --json       one step each; JSON, an object a case
//! cargo bench --bench plans -- --read a.json b.json   the summary of what `--json` wrote before
//! cargo bench --bench plans -- planning               how planning's time grows with stages
//! cargo bench --bench plans -- --program PATH lora    another build of the program
//! ```

// A benchmark answers on stdout and needs no more care than that.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod case;
mod judge;
mod planning;
mod summary;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::json;

use case::Case;
use judge::Ran;
use summary::Summary;

/// The program under test, unless another is named.
const TUNEPIPE: &str = env!("CARGO_BIN_EXE_tunepipe");
const MODEL: &str = "init=random shape=smollm2-135m seed=1";
const VOCAB: u64 = 49152;

fn main() -> ExitCode {
    let (mut steps, mut as_json, mut list, mut planning, mut words) = (2, false, false, false, Vec::new());
    let mut program = PathBuf::from(TUNEPIPE);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--steps" => steps = args.next().and_then(|n| n.parse().ok()).unwrap_or(steps).max(1),
            "--json" => as_json = true,
            "--list" => list = true,
            // cargo passes this to every benchmark.
            "--bench" => {}
            "--program" => program = args.next().map_or(program, PathBuf::from),
            "planning" => planning = true,
            "--read" => return again(args),
            word => words.push(word.to_owned()),
        }
    }
    if planning {
        return planning::table(&program);
    }
    let chosen = match choose(&words) {
        Ok(chosen) => chosen,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    if list {
        chosen.iter().for_each(|case| println!("{case}"));
        return ExitCode::SUCCESS;
    }
    let mut summary = Summary::default();
    for case in &chosen {
        let ran = run(&program, case, steps);
        if as_json {
            println!("{}", line(case, &ran));
        } else {
            summary::show(case, &ran);
        }
        summary.add(case, ran);
    }
    if !as_json {
        summary.print();
    }
    ExitCode::from(u8::from(summary.failed()))
}

/// The summary of cases that were run before, in parts.
fn again(files: impl Iterator<Item = String>) -> ExitCode {
    let mut summary = Summary::default();
    for file in files {
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(why) => {
                eprintln!("{file}: {why}");
                return ExitCode::from(2);
            }
        };
        for told in text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()) {
            let case = Case::all().into_iter().find(|case| told["case"] == case.to_string());
            if let Some(case) = case {
                summary.add(&case, Ran::of(&told["rows"], &told));
            }
        }
    }
    summary.print();
    ExitCode::from(u8::from(summary.failed()))
}

/// The cases that have every word; a word that no case has is a mistake.
fn choose(words: &[String]) -> Result<Vec<Case>, String> {
    let all = Case::all();
    let has = |case: &Case, word: &String| word == "corners" && case.is_corner() || case.words().contains(word);
    if let Some(word) = words.iter().find(|word| !all.iter().any(|case| has(case, word))) {
        return Err(format!("no case of the matrix is `{word}`; a case is named like `{}`", all[0]));
    }
    Ok(all.into_iter().filter(|case| words.iter().all(|word| has(case, word))).collect())
}

/// Runs one case in a folder beside the build, on a real disk.
fn run(program: &Path, case: &Case, steps: usize) -> Result<Ran, String> {
    let target = Path::new(TUNEPIPE).parent().unwrap_or(Path::new("."));
    let folder = tempfile::tempdir_in(target).map_err(|e| e.to_string())?;
    let file = folder.path().join("case.tp");
    case.write_rows(&folder.path().join("rows.jsonl"), VOCAB).map_err(|e| e.to_string())?;
    std::fs::write(&file, case.pipeline(MODEL, steps)).map_err(|e| e.to_string())?;
    let output = Command::new(program)
        .args(["run", "-q", "case.tp", "--run-dir", "run"])
        .current_dir(folder.path())
        .output()
        .map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ran::read(&folder.path().join("run"))
}

fn line(case: &Case, ran: &Result<Ran, String>) -> serde_json::Value {
    match ran {
        Err(why) => json!({"case": case.to_string(), "ok": false, "error": why}),
        Ok(ran) => {
            let rows: Vec<_> = ran
                .rows
                .iter()
                .map(|row| {
                    json!({"stage": row.stage, "phase": row.phase, "place": row.place, "planned": row.planned,
                           "measured": row.measured, "holds": row.holds()})
                })
                .collect();
            json!({"case": case.to_string(), "ok": ran.wrong().is_empty(), "rows": rows, "planned_ram": ran.planned,
                   "peak_resident": ran.resident})
        }
    }
}
