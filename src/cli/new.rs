//! `tunepipe new`: writes a pipeline that checks and fits, from a model, rows, a card and a goal.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::fit::{here, patched};
use super::prepare::{Prepared, answer_json, complain, facts};
use super::{Exit, outputs};
use crate::catalog::Catalog;
use crate::data::{Format, Guess, guess};
use crate::run::Voice;
use crate::stages::{Facts, Preview, Target, positions, previews};
use crate::text::{Fault, Result, nearest, out};
use crate::tools::{Fit, Goal, Wish, edits, fit, in_words, needs, scaffold};

#[derive(Debug, Args)]
pub struct New {
    /// A model's folder or .gguf file, or a shape of the catalogue
    #[arg(long, value_name = "PATH")]
    model: Option<String>,
    /// A file of rows
    #[arg(long, value_name = "PATH")]
    data: Option<String>,
    /// What its rows hold, where it is not there to look at
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// A device to fit into (`tunepipe ls devices`); none: whatever runs it
    #[arg(long, value_name = "DEVICE")]
    card: Option<String>,
    /// What the training is for
    #[arg(long, value_enum)]
    goal: Option<GoalChoice>,
    /// The file to write; - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "finetune.tp")]
    output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    overwrite: bool,
    /// Answer as JSON on stdout
    #[arg(long)]
    json: bool,
}

impl New {
    pub fn json(&self) -> bool {
        self.json
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GoalChoice {
    /// Teach the model with rows, by a small adapter
    Adapter,
    /// Train every weight
    Full,
    /// Go on with pretraining, on running text
    Pretrain,
}

/// Rows longer than this are cut in a first pipeline.
const LONGEST: usize = 2048;
/// Where nothing is known of the rows.
const USUAL: usize = 1024;
/// Fewer rows than this are all trained on.
const FEW: usize = 60;

pub fn new(wanted: &New) -> Exit {
    match written(wanted) {
        Ok(exit) => exit,
        Err(fault) => {
            complain(&fault);
            Exit::Usage
        }
    }
}

fn written(wanted: &New) -> Result<Exit> {
    let to_stdout = wanted.output == Path::new("-");
    if !to_stdout {
        outputs::file("--output", &wanted.output, None, "finetune.tp")?;
    }
    if !to_stdout && !wanted.overwrite && wanted.output.exists() {
        return Err(Fault::new("output.exists", format!("`{}` exists already", wanted.output.display()))
            .help("name another file with `--output`, or add `--overwrite`"));
    }
    let pipeline = wanted.output.extension().is_some_and(|end| end == "tp");
    if !to_stdout && wanted.output.exists() && !pipeline {
        return Err(Fault::new("output.foreign", format!("`{}` is there and is no pipeline", wanted.output.display()))
            .help("name a file that ends in `.tp`"));
    }
    let asker = Asker { terminal: std::io::stdin().is_terminal() };
    let question = Question {
        flag: "--model",
        words: "Model (a folder, a .gguf file, or a shape of `tunepipe ls shapes`)",
        default: None,
    };
    let (model, shape) = asker.answer(wanted.model.as_deref(), &question, model_of)?;
    let question = Question { flag: "--data", words: "Rows (a .jsonl, .json or .txt file)", default: None };
    let data = asker.answer(wanted.data.as_deref(), &question, |data| Ok(data.to_owned()))?;
    let question = Question { flag: "--card", words: "Card (of `tunepipe ls devices`)", default: Some("none") };
    let card = asker.answer(wanted.card.as_deref(), &question, known_card)?;
    let goal = match wanted.goal {
        Some(goal) => goal,
        None => {
            let words = "Goal (adapter, full or pretrain)";
            let question = Question { flag: "--goal", words, default: Some("adapter") };
            asker.answer(None, &question, |word| {
                GoalChoice::from_str(word, true).map_err(|_| {
                    Fault::new("usage.new", format!("there is no goal `{word}`"))
                        .help("`adapter`, `full` or `pretrain`")
                })
            })?
        }
    };
    let goal = match goal {
        GoalChoice::Adapter => Goal::Adapter,
        GoalChoice::Full => Goal::Full,
        GoalChoice::Pretrain => Goal::Pretrain,
    };
    let guess = guess_of(&data, wanted.format.as_deref(), goal)?;
    let folder =
        if to_stdout { PathBuf::new() } else { wanted.output.parent().map(Path::to_owned).unwrap_or_default() };
    let from = |path: &str| seen_from(&folder, path);
    let stem = wanted.output.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let out = if to_stdout || stem == "finetune" { "out".to_owned() } else { format!("out/{stem}") };
    let out = free(&folder, out, goal);
    let mut wish = Wish {
        model: from(&model),
        shape,
        data: from(&data),
        guess,
        max_len: None,
        holdout: true,
        template: None,
        card,
        goal,
        quantize: false,
        out,
    };
    // Paths that lead out of a folder lead nowhere while it is not there.
    let made = outputs::Made::folders(&folder)?;
    let facts = facts(Voice::Normal);
    look(&mut wish, &folder, &facts)?;
    let found = fitted(&mut wish, &folder, &facts)?;
    facts.quiet_down();
    let exit = finish(wanted, &wish, found)?;
    drop(made);
    if exit == Exit::Done && !wanted.json {
        absent(&wish, &model, &data);
    }
    Ok(exit)
}

/// Says what was only supposed, since it is not there to look at.
fn absent(wish: &Wish, model: &str, data: &str) {
    if let Some(shape) = &wish.shape {
        out::say(&format!("note: `{model}` is not there: planned from the shape `{shape}`"));
    }
    if !Path::new(data).exists() {
        let (format, max_len) = (wish.guess.format.name(), wish.max_len.unwrap_or(USUAL));
        out::say(&format!("note: `{data}` is not there: taken for {format} rows of up to {max_len} tokens"));
    }
}

/// Asks on a terminal; elsewhere what is missing is said.
struct Asker {
    terminal: bool,
}

/// What is asked for, as a flag and in words.
struct Question {
    flag: &'static str,
    words: &'static str,
    default: Option<&'static str>,
}

impl Asker {
    /// What is given, or what a person answers, held to `read`. A person who answers what cannot be is asked again.
    fn answer<T>(&self, given: Option<&str>, question: &Question, read: impl Fn(&str) -> Result<T>) -> Result<T> {
        if let Some(given) = given {
            return read(given);
        }
        if !self.terminal {
            let flag = question.flag;
            return question.default.map(read).unwrap_or_else(|| {
                Err(Fault::new("usage.new", format!("`tunepipe new` needs `{flag}` where nobody can be asked")).help(
                    "tunepipe new --model models/llama-3-8b --data data/alpaca.jsonl --card colab-t4 --goal adapter",
                ))
            });
        }
        let hint = question.default.map_or_else(String::new, |default| format!(" [{default}]"));
        loop {
            out::tell(&format!("{}{hint}: ", question.words));
            let mut line = String::new();
            let ended = std::io::stdin()
                .lock()
                .read_line(&mut line)
                .map_err(|e| Fault::io("read", Path::new("<stdin>"), &e))?
                == 0;
            let word = match (line.trim(), question.default) {
                ("", Some(default)) => default,
                ("", None) if ended => return Err(Fault::new("usage.new", "nothing was answered")),
                ("", None) => continue,
                (word, _) => word,
            };
            match read(word) {
                Err(fault) if !ended => complain(&fault),
                answer => return answer,
            }
        }
    }
}

/// The folder, or the first of `out-2`, `out-3`, … that holds no output yet.
fn free(folder: &Path, out: String, goal: Goal) -> String {
    let output = if goal == Goal::Adapter { "adapter" } else { "model" };
    let taken = |out: &String| folder.join(out).join(output).exists();
    let others = (2..1000).map(|n| format!("{out}-{n}"));
    std::iter::once(out.clone()).chain(others).find(|out| !taken(out)).unwrap_or(out)
}

/// A device of the catalogue; `none` is none.
fn known_card(card: &str) -> Result<Option<String>> {
    let catalog = Catalog::standard();
    if card == "none" {
        return Ok(None);
    }
    if catalog.device(card).is_some() {
        return Ok(Some(card.to_owned()));
    }
    let fault = Fault::new("name.unknown_device", format!("there is no device `{card}`"));
    Err(match catalog.near_device(card) {
        Some(near) => fault.help(format!("write `--card {near}`")),
        None => fault.help("`tunepipe ls devices` lists them"),
    })
}

/// A path, or a shape whose files will lie in `models/`.
fn model_of(model: &str) -> Result<(String, Option<String>)> {
    let catalog = Catalog::standard();
    if Path::new(model).exists() {
        return Ok((model.to_owned(), None));
    }
    let name = model.trim_end_matches('/').rsplit('/').next().unwrap_or(model).to_lowercase();
    if let Some(shape) = catalog.shape(&name) {
        let path = if model.contains('/') { model.to_owned() } else { format!("models/{name}") };
        return Ok((path, Some(shape.name.clone())));
    }
    let fault = Fault::new("file.missing", format!("there is no model at `{model}`, and no shape of that name"));
    Err(match nearest(&name, catalog.shapes.iter().map(|shape| &*shape.name)) {
        Some(near) => fault.help(format!("did you mean the shape `{near}`?")),
        None => fault
            .help("name a model's folder or .gguf file, or a shape of `tunepipe ls shapes` to plan before it is there"),
    })
}

fn guess_of(data: &str, format: Option<&str>, goal: Goal) -> Result<Guess> {
    if let Some(name) = format {
        let format = Format::from_name(name).ok_or_else(|| {
            let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            Fault::new("usage.new", format!("there is no format `{name}`")).help(names.join(", "))
        })?;
        return Ok(Guess { format, columns: Vec::new() });
    }
    let path = Path::new(data);
    if !path.exists() {
        let format = if goal == Goal::Pretrain { Format::Text } else { Format::Alpaca };
        return Ok(Guess { format, columns: Vec::new() });
    }
    guess(path)?.ok_or_else(|| {
        Fault::new("data.unknown_file", format!("what the rows of `{data}` hold cannot be told"))
            .at(path)
            .help("say it with `--format`: text, alpaca, chat, completion or tokens")
    })
}

/// The path as a file in `folder` writes it.
fn seen_from(folder: &Path, path: &str) -> String {
    let plain = |c: std::path::Component<'_>| matches!(c, std::path::Component::Normal(_));
    if Path::new(path).is_absolute() || folder.as_os_str().is_empty() || folder == Path::new(".") {
        return path.to_owned();
    }
    if !folder.components().all(plain) {
        return std::path::absolute(path).map_or_else(|_| path.to_owned(), |whole| whole.display().to_string());
    }
    format!("{}{path}", "../".repeat(folder.components().count()))
}

/// Looks at the rows where they are there: how long they are, how many, whether they need a template.
fn look(wish: &mut Wish, folder: &Path, facts: &Facts) -> Result<()> {
    let most = made_for(wish, folder, facts).unwrap_or(usize::MAX);
    let mut found = rows(wish, folder, facts);
    if let Err(code) = &found
        && code == "data.no_template"
    {
        wish.template = Some("chatml");
        found = rows(wish, folder, facts);
    }
    match found {
        Ok(Some((longest, count))) => {
            wish.max_len = Some(longest.min(LONGEST).next_multiple_of(64).min(most));
            wish.holdout = count >= FEW;
        }
        _ => wish.max_len = Some(USUAL.min(most)),
    }
    Ok(())
}

/// Tokens that the model was made for.
fn made_for(wish: &Wish, folder: &Path, facts: &Facts) -> Option<usize> {
    let plain = Wish { card: None, holdout: false, max_len: None, ..wish.clone() };
    let prepared = Prepared::text("finetune.tp", folder, scaffold(&plain));
    positions(prepared.plan.as_ref()?, &Target::this_machine(), facts)
}

/// The longest row and how many there are; none where rows or model are absent. Errors: a code of what is wrong.
fn rows(wish: &Wish, folder: &Path, facts: &Facts) -> Result<Option<(usize, usize)>, String> {
    let plain = Wish { card: None, holdout: false, max_len: None, ..wish.clone() };
    let prepared = Prepared::text("finetune.tp", folder, scaffold(&plain));
    let Some(plan) = &prepared.plan else { return Ok(None) };
    let (seen, said) = previews(plan, &Target::this_machine(), facts);
    if let Some(error) = said.iter().find(|one| one.code == "data.no_template") {
        return Err(error.code.to_owned());
    }
    let longest = |seen: &Preview| (seen.encoded.tokens.report.longest_read, seen.encoded.tokens.len());
    Ok(seen.first().map(longest))
}

/// What came of the search for a pipeline that fits.
struct Found {
    text: String,
    /// The change that made it fit, in words.
    change: Option<String>,
    takes: String,
    prepared: Prepared,
    fits: bool,
}

/// Tries dense weights first, then 4 bits where the goal is an adapter; each as it is, then with `fit`'s change.
fn fitted(wish: &mut Wish, folder: &Path, facts: &Facts) -> Result<Found> {
    let tries: &[bool] = if wish.goal == Goal::Adapter { &[false, true] } else { &[false] };
    let mut last = None;
    for quantize in tries {
        wish.quantize = *quantize;
        let found = attempt(scaffold(wish), folder, facts);
        if found.fits || found.prepared.failed() {
            return Ok(found);
        }
        last = Some(found);
    }
    last.ok_or_else(|| Fault::new("usage.new", "there is nothing to try"))
}

fn attempt(text: String, folder: &Path, facts: &Facts) -> Found {
    let mut prepared = Prepared::text("finetune.tp", folder, text.clone());
    let targets = prepared.budgets();
    let target = targets.into_iter().next().unwrap_or_else(here);
    // What lowering finds wrong is said; a stage that was refused has no profile.
    let view = prepared.lower(&target, facts).map(|lowered| lowered.view);
    let (Some(plan), Some(view)) = (&prepared.plan, view) else {
        return Found { text, change: None, takes: String::new(), prepared, fits: false };
    };
    match fit(plan, std::slice::from_ref(&target), facts) {
        Fit::Already => Found { takes: needs(&view.profile, &target), text, change: None, prepared, fits: true },
        Fit::Change { change, after } => {
            let takes = after.first().map_or_else(String::new, |profile| needs(profile, &target));
            // What `new` writes has no recipe, so that every change has its place.
            let edits = edits(plan, &change).unwrap_or_default();
            let (better, words) = (patched(&text, &edits), in_words(plan, &change));
            Found { text: better, change: Some(words), takes, prepared, fits: true }
        }
        Fit::None { needs: least } => {
            let takes = least.first().map_or_else(String::new, |profile| needs(profile, &target));
            Found { text, change: None, takes, prepared, fits: false }
        }
    }
}

fn finish(wanted: &New, wish: &Wish, found: Found) -> Result<Exit> {
    if found.prepared.failed() {
        if wanted.json {
            answer_json(&json!({"version": 1, "ok": false, "diagnostics": found.prepared.diagnostics_json()}));
        } else {
            found.prepared.report();
        }
        return Ok(Exit::Wrong);
    }
    if !found.fits {
        let card = wish.card.as_deref().unwrap_or("this machine");
        complain(
            &Fault::new("budget.over", format!("nothing was written: no such pipeline fits {card}"))
                .note(format!("the least it takes is {}", found.takes))
                .help("a smaller model, a larger card, or `--goal adapter`"),
        );
        return Ok(Exit::OverBudget);
    }
    let to_stdout = wanted.output == Path::new("-");
    if !to_stdout {
        crate::store::write(&wanted.output, wanted.overwrite, |file| file.put(found.text.as_bytes()))?;
    }
    let file = wanted.output.display();
    if wanted.json {
        answer_json(&json!({"version": 1, "file": if to_stdout { None } else { Some(file.to_string()) },
                            "text": found.text, "change": found.change, "takes": found.takes,
                            "diagnostics": found.prepared.diagnostics_json()}));
        return Ok(Exit::Done);
    }
    out::data(&found.text);
    if to_stdout {
        return Ok(Exit::Done);
    }
    out::say(&format!("\nwrote {file}"));
    if let Some(card) = &wish.card {
        out::say(&format!("  fits {card}: {}", found.takes));
    }
    out::say(&format!("  next: tunepipe preview {file}, tunepipe plan {file}, tunepipe run {file}"));
    Ok(Exit::Done)
}
