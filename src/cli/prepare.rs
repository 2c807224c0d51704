//! The chain up to a schedule, as every verb needs it: text → syntax → check → plan → lower.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};

use super::asked::{asked, budgets};
use super::terminal::{stderr_columns, stderr_paper};
use super::{Exit, Pipeline};
use crate::catalog::Catalog;
use crate::check::Asked;
use crate::memory::{Profile, Schedule};
use crate::plan::Plan;
use crate::run::{Console, Voice};
use crate::stages::{Body, Facts, RunHome, Target, lower};
use crate::store::Cache;
use crate::text::{self, Diagnostic, Fault, Severity, SourceId, Sources, out};
use crate::tools::{TargetPlan, overrun, remedy};

/// A pipeline as far as it could be taken.
pub struct Prepared {
    pub sources: Sources,
    pub plan: Option<Plan>,
    pub diagnostics: Vec<Diagnostic>,
    /// Nothing will be run: outputs that exist are worth a warning, not a refusal.
    pub only_plans: bool,
    /// Where it will run; none: it is no file's.
    pub home: Option<RunHome>,
    /// What was given beside the text.
    pub asked: Asked,
}

/// One target's schedule.
pub struct Lowered {
    pub schedule: Schedule<Box<dyn Body>>,
    pub view: TargetPlan,
    pub inputs: Vec<PathBuf>,
    /// Folders that the run will make.
    pub outputs: Vec<PathBuf>,
    /// Where bytes will lie on disk that do not now.
    pub writes: Vec<(PathBuf, u64)>,
    pub not_runnable: Vec<Diagnostic>,
}

impl Prepared {
    /// Reads, parses and checks the pipeline; what cannot even be read is wrong usage.
    pub fn read(pipeline: &Pipeline) -> Result<Self, Exit> {
        let text = match source_text(&pipeline.file) {
            Ok((_, _, text)) => text,
            Err(fault) => {
                complain(&fault);
                return Err(Exit::Usage);
            }
        };
        match asked(pipeline) {
            Ok(asked) => Ok(Self::of(&pipeline.file, text, asked, &pipeline.budget)),
            Err(fault) => {
                complain(&fault);
                Err(Exit::Usage)
            }
        }
    }

    /// Parses and checks the text of a file.
    pub fn of(file: &Path, text: String, asked: Asked, budget: &[String]) -> Self {
        let (name, folder) = named(file);
        let mut sources = Sources::default();
        let id = sources.add(name, &folder, text);
        let (mut plan, mut diagnostics) = crate::check::check_asked(id, &mut sources, Catalog::standard(), &asked);
        if let Some(plan) = &mut plan
            && let Err(more) = budgets(plan, budget, &mut sources)
        {
            diagnostics.extend(more);
        }
        let home = Some(RunHome::of(&stem(file)));
        Prepared { sources, plan, diagnostics, only_plans: false, home, asked }
    }

    /// A text that was never a file.
    pub fn text(name: &str, folder: &Path, text: String) -> Self {
        let mut sources = Sources::default();
        let id = sources.add(name, folder, text);
        let (plan, diagnostics) = crate::check::check_text(id, &mut sources, Catalog::standard(), &[]);
        Prepared { sources, plan, diagnostics, only_plans: false, home: None, asked: Asked::default() }
    }

    /// Lowers for one target; none when a stage was refused, with the reasons added to the diagnostics.
    pub fn lower(&mut self, target: &Target, facts: &Facts) -> Option<Lowered> {
        let plan = self.plan.as_ref()?;
        facts.runs_at(self.home.clone());
        let lowering = lower(plan, target, facts);
        let standing = lowering.standing.into_iter().map(|mut diagnostic| {
            if self.only_plans {
                diagnostic.severity = Severity::Warning;
            }
            diagnostic
        });
        for diagnostic in lowering.diagnostics.into_iter().chain(standing) {
            // Several targets find the same faults.
            if !self.diagnostics.contains(&diagnostic) {
                self.diagnostics.push(diagnostic);
            }
        }
        let schedule = lowering.schedule.filter(|_| !self.failed())?;
        let profile = match Profile::of(&schedule) {
            Ok(profile) => profile,
            Err(fault) => {
                self.diagnostics.push(Diagnostic::error(fault.code, fault.message));
                return None;
            }
        };
        let view = TargetPlan {
            label: target.label.clone(),
            limits: target.limits,
            budget: target.budget,
            threads: (!target.gpu).then_some(target.threads),
            profile,
            remarks: lowering.remarks,
        };
        Some(Lowered {
            schedule,
            view,
            inputs: lowering.inputs,
            outputs: lowering.outputs,
            writes: lowering.writes,
            not_runnable: lowering.not_runnable,
        })
    }

    /// Lowers for every budget, or for this machine where there is none, and judges each.
    pub fn targets(&mut self, facts: &Facts) -> Vec<TargetPlan> {
        if self.plan.is_none() {
            return Vec::new();
        }
        let targets = self.budgets();
        let targets = if targets.is_empty() { vec![Target::this_machine()] } else { targets };
        let mut views = Vec::new();
        for target in &targets {
            if let Some(lowered) = self.lower(target, facts) {
                self.judge(&lowered.view, target, facts);
                views.push(lowered.view);
            }
        }
        views
    }

    /// A target for each budget line.
    pub fn budgets(&self) -> Vec<Target> {
        self.plan.iter().flat_map(|plan| &plan.budgets).map(Target::of_budget).collect()
    }

    /// Adds what is to be said of a target that the pipeline does not fit, with a change that does.
    pub fn judge(&mut self, view: &TargetPlan, target: &Target, facts: &Facts) {
        let Some(plan) = self.plan.as_ref().filter(|_| !view.fits()) else { return };
        let remedy = remedy(plan, target, facts);
        self.diagnostics.extend(overrun(plan, view, Some(&remedy)));
    }

    /// The pipeline's own name and text.
    pub fn source_name(&self) -> (&str, &str) {
        let source = self.sources.get(self.plan.as_ref().map_or(SourceId(0), |plan| plan.source));
        (&source.name, &source.text)
    }

    /// Whether an error other than an overrun was found.
    pub fn failed(&self) -> bool {
        self.diagnostics.iter().any(|d| d.is_error() && d.code != "budget.over")
    }

    pub fn over_budget(&self) -> bool {
        self.diagnostics.iter().any(|d| d.code == "budget.over")
    }

    pub fn exit(&self) -> Exit {
        if self.failed() {
            Exit::Wrong
        } else if self.over_budget() {
            Exit::OverBudget
        } else {
            Exit::Done
        }
    }

    /// Says that there is no stage, and so nothing to do, where that is so.
    pub fn empty(&self, pipeline: &Pipeline, what: &str) -> bool {
        let empty = !self.failed() && self.plan.as_ref().is_some_and(|plan| plan.steps.is_empty());
        if empty {
            if !pipeline.json {
                self.report();
            }
            let name = pipeline.file.display();
            complain(
                &usage(format!("`{name}` has no stage: there is nothing to {what}"))
                    .help("`tunepipe new` writes a pipeline"),
            );
        }
        empty
    }

    /// Diagnostics on stderr.
    pub fn report(&self) {
        show(&self.sources, &self.diagnostics);
    }

    pub fn diagnostics_json(&self) -> Value {
        text::to_json(&self.sources, &self.diagnostics)
    }
}

/// What a pipeline's runs go by under `runs/`.
pub fn stem(file: &Path) -> String {
    match file.file_stem().map(|stem| stem.to_string_lossy()) {
        Some(stem) if stem != "-" => stem.into_owned(),
        _ => "stdin".into(),
    }
}

/// What lowering finds out, with its progress shown, and token sets kept between commands.
pub fn facts(voice: Voice) -> Facts {
    Facts::new(Box::new(Console::new(None, voice))).cached(Cache::of_user())
}

/// Name and folder of a file, or of standard input.
fn named(file: &Path) -> (String, PathBuf) {
    match file == Path::new("-") {
        true => ("<stdin>".into(), PathBuf::new()),
        false => (file.display().to_string(), file.parent().map(Path::to_owned).unwrap_or_default()),
    }
}

/// Name, folder and text of a file, or of standard input.
pub fn source_text(file: &Path) -> Result<(String, PathBuf, String), Fault> {
    let (name, folder) = named(file);
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map_err(|e| Fault::io("read", Path::new("<stdin>"), &e))?;
        return Ok((name, folder, utf8(bytes, Path::new("<stdin>"))?));
    }
    let bytes = std::fs::read(file).map_err(|e| {
        let fault = Fault::io("read", file, &e);
        if file.extension().is_none() && file.with_extension("tp").is_file() {
            fault.help(format!("did you mean `{}`?", file.with_extension("tp").display()))
        } else {
            fault
        }
    })?;
    Ok((name, folder, utf8(bytes, file)?))
}

fn utf8(bytes: Vec<u8>, file: &Path) -> Result<String, Fault> {
    // Two bytes a character: marked as such, or every other one is nought.
    let wide = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    if wide || (bytes.len() > 1 && bytes.iter().filter(|byte| **byte == 0).count() * 3 >= bytes.len()) {
        return Err(Fault::new("text.encoding", format!("`{}` is UTF-16, and not UTF-8", file.display()))
            .help("save the pipeline as UTF-8"));
    }
    String::from_utf8(bytes).map_err(|e| {
        let good = e.utf8_error().valid_up_to();
        let line = e.as_bytes()[..good].iter().filter(|b| **b == b'\n').count() + 1;
        Fault::new("text.encoding", format!("`{}` is not UTF-8 in line {line}", file.display()))
            .help("save the pipeline as UTF-8")
    })
}

/// Diagnostics on stderr, in colour on a terminal.
pub fn show(sources: &Sources, diagnostics: &[Diagnostic]) {
    if diagnostics.is_empty() {
        return;
    }
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    out::tell(&text::render_in(sources, diagnostics, colour, stderr_columns()));
}

/// A command line that cannot be meant.
pub fn usage(message: impl Into<String>) -> Fault {
    Fault::new("usage", message)
}

/// What was complained of, for an answer in JSON that there was no other occasion for.
static COMPLAINTS: Mutex<Vec<Value>> = Mutex::new(Vec::new());

/// Everything that was complained of so far.
pub fn complaints() -> Vec<Value> {
    COMPLAINTS.lock().map(|all| all.clone()).unwrap_or_default()
}

/// A fault that no pipeline is to blame for.
pub fn complain(fault: &Fault) {
    if let Ok(mut all) = COMPLAINTS.lock() {
        all.push(text::fault_to_json(fault));
    }
    let paper = stderr_paper();
    out::tell(&paper.sentence("", &format!("error: {fault}")));
    for note in &fault.notes {
        out::tell(&paper.sentence("  ", &format!("note: {note}")));
    }
    if let Some(help) = &fault.help {
        out::tell(&paper.sentence("  ", &format!("help: {help}")));
    }
}

pub fn answer_json(value: &Value) {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_else(|e| json!({"error": e.to_string()}).to_string());
    text.push('\n');
    out::data(&text::escaped(&text));
}
