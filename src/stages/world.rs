//! What lowering knows: the target, the facts, and a description of every value that stages have made so far.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::facts::{Encoded, Facts, ModelFiles};
use super::load_data::tokenising;
use super::target::Target;
use crate::data::{Settings, Tokenizer};
use crate::memory::{Holding, Kept, Phase, Place};
use crate::model::{Form, LoraSettings, Mapping, Shape};
use crate::plan::{Plan, Step, ValueId};
use crate::store::{self, OutputKind, StoredType};
use crate::text::{Diagnostic, Fault, Span};

/// Where a model's values come from.
#[derive(Clone)]
pub enum Origin {
    Files(Arc<ModelFiles>),
    Random {
        seed: u64,
    },
    /// A shape with no files: can be planned, not run.
    Absent,
}

impl Origin {
    /// What a body needs of it: the tokenizer goes when lowering has ended, unless a stage says that it holds one.
    pub fn weights(&self) -> Origin {
        match self {
            Origin::Files(files) => Origin::Files(Arc::new(files.for_weights())),
            Origin::Random { seed } => Origin::Random { seed: *seed },
            Origin::Absent => Origin::Absent,
        }
    }
}

/// A model as the planner sees it.
#[derive(Clone)]
pub struct ModelDesc {
    pub origin: Origin,
    pub shape: Arc<Shape>,
    pub tokenizer: Option<Arc<crate::data::Tokenizer>>,
    /// The chat template, the model's own or the pipeline's.
    pub template: Option<String>,
    /// How the weights are, or will be, held.
    pub form: Form,
    /// Which weights are used where they lie.
    pub mapping: Arc<Mapping>,
    /// What asked for that, where something did.
    pub mapped_by: Option<Span>,
    /// False while the weights are still in their files, to be read by the stage that takes the model.
    pub resident: bool,
    pub adapter: Option<LoraSettings>,
    /// The line that trained the weights themselves, so that they are no longer the source's.
    pub retrained: Option<usize>,
    /// What `dtype=auto` saves as.
    pub save_as: StoredType,
    /// What an adapter's config names as its base.
    pub base_name: String,
    /// What the model holds while it lives.
    pub holdings: Vec<Holding>,
}

/// A data set as the planner sees it: rows and settings; whoever uses it tokenises with its own model.
#[derive(Clone)]
pub struct DataDesc {
    pub settings: Arc<Settings>,
    /// Whether every file is there.
    pub present: bool,
    /// Index of the step that named it.
    pub index: usize,
    /// The statement, for errors that only show once rows are tokenised.
    pub span: Span,
    pub line: usize,
    /// The sets that it is mixed of, in order; empty: one set by itself.
    pub parts: Vec<DataDesc>,
}

impl DataDesc {
    /// Sets that are read: itself, or those it is mixed of.
    pub fn sets(&self) -> &[DataDesc] {
        if self.parts.is_empty() { std::slice::from_ref(self) } else { &self.parts }
    }
}

#[derive(Clone)]
pub enum Desc {
    Model(Box<ModelDesc>),
    Data(DataDesc),
}

/// A stage, lowered: what it holds and the body that does it.
pub struct Lowered {
    pub phases: Vec<Phase>,
    pub keeps: Vec<Kept>,
    pub body: Box<dyn super::Body>,
}

/// A folder that a stage will make.
struct Output {
    path: PathBuf,
    /// The path with links followed.
    real: PathBuf,
    line: usize,
    span: Span,
}

/// The state of lowering one plan for one target.
pub struct World<'a> {
    pub plan: &'a Plan,
    pub target: &'a Target,
    pub facts: &'a Facts,
    /// Index of the step being lowered.
    pub index: usize,
    values: BTreeMap<ValueId, Desc>,
    /// Folders that stages so far will make.
    outputs: Vec<Output>,
    /// Where bytes will lie on disk that do not now.
    pub writes: Vec<(PathBuf, u64)>,
    /// Warnings of any stage.
    pub warnings: Vec<Diagnostic>,
    /// What a reader of the plan must know of how it was made.
    pub remarks: Vec<String>,
    /// What lowering itself has made and the run will hold from its first phase on: tokenizers and token sets.
    resident: Vec<(usize, Holding, usize)>,
    /// Token sets that lowering has made, in that order, by their addresses.
    tokenised: Vec<(usize, Holding)>,
    /// Tokenizers that lowering holds while it reads rows, by their addresses.
    tokenizers: Vec<(usize, Holding)>,
    /// What was done for that, by the step that it belongs to.
    early: Vec<(usize, Phase)>,
    /// Every file that decides the result.
    pub inputs: Vec<PathBuf>,
    /// Why this schedule can be planned but not run.
    pub not_runnable: Vec<Diagnostic>,
    /// Outputs that exist: no plan changes for them, and no run starts.
    pub standing: Vec<Diagnostic>,
}

/// Stands for the run's folder while it has no name.
pub const RUN_FOLDER: &str = "<the run's folder>";

/// Diagnostics of a stage that cannot be lowered; empty when an earlier one is to blame.
pub type Refusal = Vec<Diagnostic>;

impl<'a> World<'a> {
    pub fn new(plan: &'a Plan, target: &'a Target, facts: &'a Facts) -> Self {
        World {
            plan,
            target,
            facts,
            index: 0,
            values: BTreeMap::new(),
            outputs: Vec::new(),
            writes: Vec::new(),
            warnings: Vec::new(),
            remarks: Vec::new(),
            resident: Vec::new(),
            tokenised: Vec::new(),
            tokenizers: Vec::new(),
            early: Vec::new(),
            inputs: Vec::new(),
            not_runnable: Vec::new(),
            standing: Vec::new(),
        }
    }

    pub fn describe(&mut self, id: ValueId, desc: Desc) {
        self.values.insert(id, desc);
    }

    /// The model a step takes or borrows as `model`. Missing only when the stage that makes it was refused.
    pub fn model(&self, step: &Step) -> Result<ModelDesc, Refusal> {
        match step.input("model").and_then(|id| self.values.get(&id)) {
            Some(Desc::Model(model)) => Ok((**model).clone()),
            _ => Err(Vec::new()),
        }
    }

    /// The data of an input; none where an optional input was left out.
    pub fn data(&self, step: &Step, input: &str) -> Result<Option<DataDesc>, Refusal> {
        match step.input(input).map(|id| self.values.get(&id)) {
            None => Ok(None),
            Some(Some(Desc::Data(data))) => Ok(Some(data.clone())),
            Some(_) => Err(Vec::new()),
        }
    }

    /// The data of an input that is several.
    pub fn all_data(&self, step: &Step, input: &str) -> Result<Vec<DataDesc>, Refusal> {
        let ids = step.inputs.iter().filter(|(name, _)| name == input).map(|(_, id)| id);
        ids.map(|id| match self.values.get(id) {
            Some(Desc::Data(data)) => Ok(data.clone()),
            _ => Err(Vec::new()),
        })
        .collect()
    }

    /// How long a value that this step makes lives.
    pub fn kept(&self, id: ValueId, holdings: Vec<Holding>) -> Kept {
        Kept { holdings, until: self.plan.value(id).last_use }
    }

    /// Holds a folder that the step wants to make: refused where it cannot be made, or is made twice; noted where it
    /// exists.
    pub fn output(&mut self, step: &Step, path: &Path, overwrite: bool) -> Result<(), Refusal> {
        let real = store::resolved(path);
        let refused = self.facts.run_home().and_then(|home| home.refuses(path, &real));
        if let Some(fault) = refused {
            return Err(vec![blame(step, "path", &fault)]);
        }
        self.claim(step, path, real)?;
        self.writable(step, path, overwrite)
    }

    /// The same for a folder in the run's own.
    pub fn output_in_run(&mut self, step: &Step, name: &str, overwrite: bool) -> Result<(), Refusal> {
        let path = Path::new(RUN_FOLDER).join(name);
        match self.facts.run_home().and_then(|home| home.place(Path::new(name))) {
            Some(place) => {
                self.claim(step, &path, place.clone())?;
                self.writable(step, &place, overwrite)
            }
            None => self.claim(step, &path, store::resolved(&path)),
        }
    }

    /// A folder of so many bytes will be written; no path: in the run's own.
    pub fn writes(&mut self, path: Option<&Path>, bytes: u64) {
        let path = path.map(Path::to_owned).or_else(|| Some(self.facts.run_home()?.folder().to_owned()));
        self.writes.push((path.unwrap_or_default(), bytes));
    }

    /// Whether a folder that stands there may give way to what a save makes: it says so, or an earlier process of the
    /// same run made it.
    pub fn may_replace(&self, step: &Step, path: Option<&Path>, name: &str) -> bool {
        let home = self.facts.run_home();
        let place = path.map(Path::to_owned).or_else(|| home.as_ref()?.place(Path::new(name)));
        step.args.flag("overwrite") || home.zip(place).is_some_and(|(home, place)| home.made(&place))
    }

    fn writable(&mut self, step: &Step, path: &Path, overwrite: bool) -> Result<(), Refusal> {
        match store::check_output(path, OutputKind::Folder, overwrite) {
            Err(fault) if fault.code == "output.exists" => {
                self.standing.push(blame(step, "path", &fault));
                Ok(())
            }
            other => other.map_err(|fault| vec![blame(step, "path", &fault)]),
        }
    }

    /// Every save has a folder of its own, none inside another.
    fn claim(&mut self, step: &Step, path: &Path, real: PathBuf) -> Result<(), Refusal> {
        let span = step.args.span("path").unwrap_or(step.name_span);
        let clash = self.outputs.iter().find(|o| o.real.starts_with(&real) || real.starts_with(&o.real));
        if let Some(other) = clash {
            let words = if other.real == real {
                format!("line {} makes it already", other.line)
            } else {
                format!("one of it and `{}` of line {} lies inside the other", other.path.display(), other.line)
            };
            return Err(vec![
                Diagnostic::error("output.twice", format!("`{}` would be written by two saves", path.display()))
                    .label(span, words)
                    .help("give each save a folder of its own"),
            ]);
        }
        self.outputs.push(Output { path: path.to_owned(), real, line: step.line, span });
        Ok(())
    }

    /// Outputs that would replace what the pipeline itself reads: the last stage would then read what the first wrote,
    /// and a model that others need would be gone.
    pub fn outputs_over_inputs(&self) -> Vec<Diagnostic> {
        let inputs: Vec<PathBuf> = self.inputs.iter().map(|input| store::resolved(input)).collect();
        let over = self.outputs.iter().filter_map(|output| {
            let input = inputs.iter().find(|input| input.starts_with(&output.real))?;
            let name = input.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Some(
                Diagnostic::error(
                    "output.input",
                    format!("`{}` is what this pipeline reads from", output.path.display()),
                )
                .label(output.span, format!("would replace `{name}`, an input"))
                .help("save to another folder, and replace the old one when the new one has proved itself"),
            )
        });
        over.collect()
    }

    /// Folders that the pipeline will make outside its run's own.
    pub fn outputs(&self) -> Vec<PathBuf> {
        self.outputs.iter().map(|output| output.path.clone()).filter(|path| !path.starts_with(RUN_FOLDER)).collect()
    }

    /// Something that is in memory before the run's first phase and stays until the last stage that says so; `address`
    /// tells one from another.
    pub fn resident(&mut self, address: usize, holding: Holding) {
        match self.resident.iter_mut().find(|(known, ..)| *known == address) {
            Some((_, _, until)) => *until = (*until).max(self.index),
            None => self.resident.push((address, holding, self.index)),
        }
    }

    /// As [`World::resident`], to the run's end.
    pub fn resident_throughout(&mut self, address: usize, holding: Holding) {
        if !self.resident.iter().any(|(known, ..)| *known == address) {
            self.resident.push((address, holding, usize::MAX));
        }
    }

    /// A tokenizer was read, and is there for all rows that are read from now on.
    pub fn reads_with(&mut self, tokenizer: &Tokenizer) {
        if !self.tokenizers.iter().any(|(known, _)| *known == tokenizer.address()) {
            let holding = Holding::new("whole tokenizer", Place::Ram, tokenizer.held(), "vocabulary");
            self.tokenizers.push((tokenizer.address(), holding));
        }
    }

    /// A set's rows were tokenised: a phase of the step that named them. `holding`: what stays of it.
    pub fn tokenised(&mut self, desc: &DataDesc, encoded: &Arc<Encoded>, tokenizer: &Tokenizer, holding: Holding) {
        let address = Arc::as_ptr(encoded) as usize;
        if self.tokenised.iter().any(|(known, _)| *known == address) {
            return;
        }
        // What a stage keeps of a tokenizer is a part of the whole.
        let others = self.resident.iter().filter(|(at, other, _)| {
            other.name != holding.name && !self.tokenizers.iter().any(|(known, _)| known == at)
        });
        let others = others.map(|(_, holding, _)| holding);
        let sets = [&self.tokenizers, &self.tokenised].into_iter().flatten().map(|(_, holding)| holding);
        let before = [super::lower::program(self.target)].iter().chain(others).chain(sets).cloned().collect();
        self.early.push((desc.index, tokenising(encoded, tokenizer, before, self.target.threads)));
        self.tokenised.push((address, holding));
    }

    /// Phases that are over before any stage begins, by the step that each belongs to.
    pub fn early(&mut self) -> Vec<(usize, Phase)> {
        std::mem::take(&mut self.early)
    }

    /// All that is resident.
    pub fn residents(&self) -> Vec<Kept> {
        let kept =
            |(_, holding, until): &(usize, Holding, usize)| Kept { holdings: vec![holding.clone()], until: *until };
        self.resident.iter().map(kept).collect()
    }

    pub fn remark(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.remarks.contains(&text) {
            self.remarks.push(text);
        }
    }

    pub fn input_file(&mut self, path: PathBuf) {
        if !self.inputs.contains(&path) {
            self.inputs.push(path);
        }
    }
}

/// An error for an argument that was written and would change nothing: nothing that a user wrote is ignored. What a
/// recipe hands on by its own default nobody wrote.
pub fn idle(step: &Step, argument: &str, why: &str) -> Option<Diagnostic> {
    let span = step.args.span(argument).filter(|_| step.args.given(argument))?;
    Some(
        Diagnostic::error("arg.idle", format!("`{argument}` changes nothing here"))
            .label(span, why)
            .help(format!("leave `{argument}` out")),
    )
}

/// Refuses idle arguments.
pub fn none_idle(idle: impl IntoIterator<Item = Option<Diagnostic>>) -> Result<(), Refusal> {
    let found: Vec<Diagnostic> = idle.into_iter().flatten().collect();
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// A fault blamed on an argument of a step, or on its name when the argument was not written.
pub fn blame(step: &Step, argument: &str, fault: &Fault) -> Diagnostic {
    let span = step.args.span(argument).unwrap_or(step.name_span);
    Diagnostic::from_fault(fault, span, words(fault))
}

fn words(fault: &Fault) -> &'static str {
    match fault.code {
        "file.missing" => "named here",
        "output.exists" => "is there already",
        code if code.starts_with("data.") => "these rows",
        code if code.starts_with("model.") || code.starts_with("config.") => "this model",
        _ => "asked for here",
    }
}
