//! `load data`: rows to train or to evaluate on. Reads nothing itself: whoever uses the rows tokenises them with its
//! own model's tokenizer. That is done before any stage begins, since no plan is made without lengths, and its phase
//! stands with the statement ([`tokenising`]); the tokens stay until the last stage that uses them.

use std::collections::HashSet;
use std::path::PathBuf;

use super::facts::Encoded;
use super::world::{DataDesc, blame, idle, none_idle};
use super::{Body, Desc, Job, Lowered, Refusal, Stage, World};
use crate::data::{Format, Holdout, Long, Settings, Take, Tokenizer, TrainOn};
use crate::memory::{Early, Holding, Phase, Place};
use crate::plan::{Args, Step, Unit, Val};
use crate::store;
use crate::text::{Diagnostic, Fault, Result};

pub struct LoadData;

impl Stage for LoadData {
    fn name(&self) -> &'static str {
        "load data"
    }

    fn lower(&self, step: &Step, world: &mut World<'_>) -> Result<Lowered, Refusal> {
        let mut settings = settings(step)?;
        settings.paths = expand(step, settings.paths)?;
        let missing: Vec<Diagnostic> = settings
            .paths
            .iter()
            .filter(|path| !path.exists())
            .map(|path| {
                let message = match store::is_pattern(path) {
                    true => format!("no file matches `{}`", path.display()),
                    false => format!("there is no `{}`", path.display()),
                };
                let mut fault = Fault::new("file.missing", message).at(path);
                if let Some(near) = store::near_path(path).filter(|near| near.is_file() && !store::is_pattern(path)) {
                    fault = fault.help(format!("did you mean `{}`?", near.display()));
                }
                blame(step, "path", &fault)
            })
            .collect();
        let present = missing.is_empty();
        if !present {
            // Planned from max_len; only a run needs the rows.
            if settings.max_len.is_none() {
                return Err(missing
                    .into_iter()
                    .map(|d| match d.help {
                        Some(_) => d.note("`max_len=` would plan without the rows"),
                        None => d.help("check the path, or say `max_len=` to plan without the rows"),
                    })
                    .collect());
            }
            world.warnings.extend(missing.iter().cloned().map(|mut d| {
                d.severity = crate::text::Severity::Warning;
                d.note("planned from `max_len`, as if every row were that long")
            }));
            world.not_runnable.extend(missing);
        }
        for path in &settings.paths {
            if path.is_file() {
                world.input_file(path.clone());
            }
        }
        let settings = world.facts.settings(settings);
        let (span, line) = (step.span, step.line);
        let desc = DataDesc { settings, present, index: world.index, span, line, parts: Vec::new() };
        if let Some(id) = step.makes.first() {
            world.describe(*id, Desc::Data(desc));
        }
        Ok(Lowered { phases: Vec::new(), keeps: Vec::new(), body: Box::new(Nothing) })
    }
}

/// Patterns give way to the files that they match. Without a match the pattern stays, and is missing as a file is.
fn expand(step: &Step, paths: Vec<PathBuf>) -> Result<Vec<PathBuf>, Refusal> {
    let mut files: Vec<PathBuf> = Vec::new();
    for path in paths {
        let found = match store::is_pattern(&path) {
            true => store::expand(&path),
            false => Ok(vec![path.clone()]),
        };
        match found {
            Ok(found) => files.extend(found),
            Err(fault) if fault.code == "path.no_match" => files.push(path),
            Err(fault) => return Err(vec![blame(step, "path", &fault)]),
        }
    }
    let mut seen = HashSet::new();
    if let Some(twice) = files.iter().find(|file| !seen.insert(*file)) {
        let fault = Fault::new("data.twice", format!("`{}` is read twice", twice.display()))
            .help("list it once; to have rows twice in an epoch, write `repeat=2`");
        return Err(vec![blame(step, "path", &fault)]);
    }
    Ok(files)
}

/// The phase in which a set's rows are read and tokenised, or found where an earlier command kept them, which takes no
/// more. `before`: what is there when it begins.
pub(super) fn tokenising(encoded: &Encoded, tokenizer: &Tokenizer, before: Vec<Holding>, threads: usize) -> Phase {
    let tokens = &encoded.tokens;
    let costs = tokens.work.costs(tokens.report.tokens, tokens.len() as u64, threads);
    let ram = |name, bytes, grows| Holding::new(name, Place::Ram, bytes, grows);
    let mut holdings = vec![
        ram("token data", costs.tokens, "rows"),
        ram("rows at work", costs.at_work, "longest row, threads"),
        ram("file buffers", costs.buffers, ""),
    ];
    if !tokenizer.is_tiny() {
        holdings.push(ram("words met", tokens.work.words(threads), "rows, threads"));
    }
    Phase { early: Some(Early { before, measured: encoded.measured }), ..Phase::new("tokenise", holdings) }
}

pub(super) struct Nothing;

impl Body for Nothing {
    fn run(self: Box<Self>, _job: &mut Job<'_>) -> Result<()> {
        Ok(())
    }
}

fn settings(step: &Step) -> Result<Settings, Refusal> {
    let args = &step.args;
    let format = args.text("format").and_then(Format::from_name).ok_or_else(Vec::new)?;
    let mut settings = Settings::new(args.paths("path"), format);
    let only = |wanted: bool, argument: &str, why: &str| if wanted { None } else { idle(step, argument, why) };
    none_idle([
        only(format == Format::Text, "text", "names the column of `format=text`"),
        only(format == Format::Completion, "prompt", "names a column of `format=completion`"),
        only(format == Format::Completion, "completion", "names a column of `format=completion`"),
        only(format != Format::Tokens, "eos", "rows of tokens are taken as they are"),
        only(format != Format::Tokens, "bos", "rows of tokens are taken as they are"),
    ])?;
    let text = |name: &str| args.text(name).unwrap_or(name).to_owned();
    settings.text = text("text");
    settings.prompt = text("prompt");
    settings.completion = text("completion");
    settings.train_on = if args.text("train_on") == Some("all") { TrainOn::All } else { TrainOn::Answers };
    settings.max_len = (!args.is_none("max_len")).then(|| args.count("max_len"));
    settings.long = match args.text("long") {
        Some("drop") => Long::Drop,
        Some("truncate") => Long::Truncate,
        Some("split") => Long::Split,
        _ => Long::Error,
    };
    settings.holdout = holdout(args);
    if settings.holdout == Some(Holdout::Rows(0)) {
        none_idle([idle(step, "holdout", "no row is held out")])?;
    }
    settings.take = match args.val("take") {
        Val::Quantity(share, Unit::Percent) => Some(Take::Percent(*share)),
        Val::Quantity(rows, Unit::Rows) => Some(Take::Rows(*rows as usize)),
        _ => None,
    };
    settings.repeat = u32::try_from(args.count("repeat")).unwrap_or(1).max(1);
    if args.given("take") && args.given("repeat") {
        return Err(vec![
            Diagnostic::error("data.share", "an epoch takes a part of the rows or repeats all of them, not both")
                .label(args.span("take").unwrap_or(step.name_span), "a part")
                .label(args.span("repeat").unwrap_or(step.name_span), "all, several times")
                .help("leave one of them out"),
        ]);
    }
    settings.packed = args.flag("packed");
    settings.shuffle = args.flag("shuffle");
    settings.eos = args.flag("eos");
    settings.bos = args.flag("bos");
    if settings.packed && settings.max_len.is_none() {
        let span = args.span("packed").unwrap_or(step.name_span);
        return Err(vec![
            Diagnostic::error("data.pack", "`packed` needs to know how long a sequence may be")
                .label(span, "rows are joined up to `max_len`")
                .help("add `max_len=1024`"),
        ]);
    }
    if args.given("long") && settings.long != Long::Error && settings.max_len.is_none() {
        let span = args.span("long").unwrap_or(step.name_span);
        return Err(vec![
            Diagnostic::error(
                "data.long",
                "`long` says what happens to rows over `max_len`, and there is no `max_len`",
            )
            .label(span, "longer than what?")
            .help("add `max_len=1024`"),
        ]);
    }
    Ok(settings)
}

fn holdout(args: &Args) -> Option<Holdout> {
    match args.val("holdout") {
        Val::Quantity(share, Unit::Percent) => Some(Holdout::Percent(*share)),
        Val::Quantity(rows, Unit::Rows) => Some(Holdout::Rows(*rows as usize)),
        _ => None,
    }
}
