//! The table of speeds: `cargo bench --bench table`.
//!
//! Every work runs in a process of its own, so that peaks of memory are its own, beside a yardstick measured in the
//! same process: the step's products of matrices alone, through the same library, in turns with the steps. Weights are
//! random, at SmolLM2-135M's shape. Ratios are worth comparing between machines; seconds are not.
//!
//! ```text
//! cargo bench --bench table                        the whole table
//! cargo bench --bench table -- lora qlora          some of it
//! cargo bench --bench table -- --rounds 9 --json   more rounds; JSON, one object a line
//! cargo bench --bench table -- --profile lora      where a step's time goes
//! ```

// A benchmark answers on stdout and needs no more care than that.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod files;
mod machine;
mod products;
mod rows;
mod steps;
mod took;
mod values;

use std::process::{Command, ExitCode};

use serde_json::{Value, json};

/// As the shipped binary has it.
#[global_allocator]
static METER: tunepipe::memory::meter::Meter = tunepipe::memory::meter::Meter;

type Outcome = Result<Vec<Value>, Box<dyn std::error::Error>>;
type Work = fn(&Wish) -> Outcome;

/// What a run of the table is asked for.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Steps that are timed; the median counts.
    pub rounds: usize,
    /// Say where a step's time goes.
    pub profile: bool,
    /// Leave the yardstick out: steps alone, for a comparison with others.
    pub alone: bool,
}

/// The works of the table, in its order.
const WORKS: &[(&str, Work)] = &[
    ("matmul", products::rates),
    ("lora", |wish| steps::run("lora", wish)),
    ("lora-recompute", |wish| steps::run("lora-recompute", wish)),
    ("lora-kept-logits", |wish| steps::run("lora-kept-logits", wish)),
    ("qlora", |wish| steps::run("qlora", wish)),
    ("full", |wish| steps::run("full", wish)),
    ("full-recompute", |wish| steps::run("full-recompute", wish)),
    ("lora-long", |wish| steps::run("lora-long", wish)),
    ("lora-long-recompute", |wish| steps::run("lora-long-recompute", wish)),
    ("growth", steps::growth),
    ("nf4", values::nf4),
    ("save", files::save),
    ("load", files::load),
    ("rows", rows::tokenise),
];

fn main() -> ExitCode {
    let mut wish = Wish { rounds: 5, profile: false, alone: false };
    let (mut one, mut as_json, mut chosen) = (None, false, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => wish.rounds = args.next().and_then(|n| n.parse().ok()).unwrap_or(wish.rounds).max(1),
            "--profile" => wish.profile = true,
            "--steps-alone" => wish.alone = true,
            "--json" => as_json = true,
            "--one" => one = args.next(),
            // cargo passes this to every benchmark.
            "--bench" => {}
            name if WORKS.iter().any(|(work, _)| *work == name) => chosen.push(name.to_owned()),
            other => {
                let names: Vec<&str> = WORKS.iter().map(|(name, _)| *name).collect();
                eprintln!("`{other}` is no work of the table; they are {}", names.join(", "));
                return ExitCode::from(2);
            }
        }
    }
    if let Some(name) = one {
        return run_one(&name, &wish);
    }
    let about = machine::about();
    if as_json {
        println!("{about}");
    } else {
        println!("{}\n", machine::text(&about));
    }
    let mut failed = false;
    for (name, _) in WORKS.iter().filter(|(name, _)| chosen.is_empty() || chosen.iter().any(|c| c == name)) {
        match in_child(name, &wish) {
            Ok(lines) => lines.iter().for_each(|line| if as_json { println!("{line}") } else { show(line) }),
            Err(why) => {
                eprintln!("{name}: {why}");
                failed = true;
            }
        }
    }
    ExitCode::from(u8::from(failed))
}

fn run_one(name: &str, wish: &Wish) -> ExitCode {
    let Some((_, work)) = WORKS.iter().find(|(work, _)| *work == name) else { return ExitCode::from(2) };
    match work(wish) {
        Ok(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The lines of one work, run in a process of its own.
fn in_child(name: &str, wish: &Wish) -> Outcome {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--one", name, "--rounds", &wish.rounds.to_string()]);
    command.args(wish.profile.then_some("--profile")).args(wish.alone.then_some("--steps-alone"));
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into());
    }
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Keys that the text has no column for.
const HIDDEN: [&str; 4] = ["work", "profile", "shape", "turned"];

/// One result a line; a profile as a table under it.
fn show(line: &Value) {
    let mut said = Vec::new();
    for (key, value) in line.as_object().into_iter().flatten().filter(|(key, _)| !HIDDEN.contains(&key.as_str())) {
        said.push(match value {
            Value::Number(n) => format!("{key} {}", short(n.as_f64().unwrap_or(0.0))),
            other => format!("{key} {}", other.as_str().map_or_else(|| other.to_string(), str::to_owned)),
        });
    }
    println!("{:<20} {}", line["work"].as_str().unwrap_or(""), said.join("  "));
    for part in line["profile"].as_array().into_iter().flatten() {
        let share = 100.0 * part["share"].as_f64().unwrap_or(0.0);
        let (what, ms) = (part["what"].as_str().unwrap_or(""), part["ms"].as_f64().unwrap_or(0.0));
        println!("  {what:<28} {ms:>9.1} ms {share:>6.1} %");
    }
}

fn short(x: f64) -> String {
    if x.fract() == 0.0 || x.abs() >= 1000.0 { format!("{x:.0}") } else { format!("{x:.3}") }
}

/// The middle of several measurements.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Seconds that `f` takes.
pub fn seconds(f: impl FnOnce() -> tunepipe::text::Result<()>) -> tunepipe::text::Result<f64> {
    let start = std::time::Instant::now();
    f()?;
    Ok(start.elapsed().as_secs_f64())
}

/// A result of the table.
pub fn line(work: &str, values: &[(&str, f64)]) -> Value {
    let mut line = json!({ "work": work });
    for (key, value) in values {
        line[*key] = json!((value * 1e4).round() / 1e4);
    }
    line
}
