//! The command line. The one room that knows clap.

mod asked;
mod check;
mod completions;
mod explain;
mod files;
mod fit;
mod fmt;
mod ls;
mod machine;
mod misused;
mod new;
mod outputs;
mod plan;
mod prepare;
mod preview;
mod resume;
mod run;
mod sweep;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::json;

use crate::text::out;

/// How a command ended, as the shell sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    /// The pipeline is wrong.
    Wrong = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The run failed.
    Failed = 3,
    /// The pipeline is right, but over budget.
    OverBudget = 4,
    /// Interrupted by SIGINT, and can be resumed.
    Interrupted = 130,
    /// The same by SIGTERM.
    Terminated = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Fine-tunes language models from a short pipeline file, and says before it starts where every byte goes.
#[derive(Debug, Parser)]
#[command(name = "tunepipe", version, max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 done · 1 the pipeline is wrong · 2 wrong usage · 3 the run failed · 4 over budget · 130, 143 interrupted, `resume` goes on"
)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Do what the pipeline says
    #[command(
        after_help = "Example:\n  tunepipe run pipelines/quickstart.tp\n  tunepipe run finetune.tp epochs=3 --set train.batch=1\n  tunepipe run finetune.tp --sweep lr=1e-4,2e-4,4e-4"
    )]
    Run {
        #[command(flatten)]
        pipeline: Pipeline,
        /// Write the run's folder here instead of runs/<file>/<time>
        #[arg(long, value_name = "DIR")]
        run_dir: Option<PathBuf>,
        /// Device to run on
        #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
        device: DeviceChoice,
        /// Run once for each of these values, and rank the runs; several make a grid
        #[arg(long, value_name = "NAME=A,B,…")]
        sweep: Vec<String>,
    },
    /// Go on with a run that was interrupted, to the same bits as if it had not been
    #[command(after_help = "Examples:\n  tunepipe resume latest\n  tunepipe resume runs/finetune/2026-01-31T12-00-00Z")]
    Resume {
        /// The run's folder, or `latest` for the newest under runs/
        run: PathBuf,
        /// Answer as JSON on stdout
        #[arg(long)]
        json: bool,
        /// Say only what went wrong, and results
        #[arg(short, long)]
        quiet: bool,
    },
    /// Show where every byte would go, without reading a weight
    #[command(
        after_help = "Example:\n  tunepipe plan finetune.tp\n  tunepipe plan finetune.tp --html plan.html\n  tunepipe plan finetune.tp --json > plan.json\n  tunepipe plan finetune.tp --diff plan.json"
    )]
    Plan {
        #[command(flatten)]
        pipeline: Pipeline,
        #[command(flatten)]
        shown: plan::Shown,
    },
    /// Find the change that costs least and makes a pipeline fit its budgets
    #[command(after_help = "Example:\n  tunepipe fit finetune.tp\n  tunepipe fit finetune.tp --write")]
    Fit {
        #[command(flatten)]
        pipeline: Pipeline,
        /// Apply the change to the file, comments and layout kept
        #[arg(long)]
        write: bool,
    },
    /// Type a pipeline, against its budgets too
    #[command(
        after_help = "Words without `=` are further files or folders.\n\nExample:\n  tunepipe check finetune.tp\n  tunepipe check pipelines/ --format github"
    )]
    Check {
        #[command(flatten)]
        pipeline: Pipeline,
        /// How findings are written
        #[arg(long, value_enum, default_value_t = check::Form::Text)]
        format: check::Form,
    },
    /// Lay pipelines out: regular indentation and spaces, every line and comment kept
    #[command(
        after_help = "Example:\n  tunepipe fmt finetune.tp\n  tunepipe fmt --check pipelines/\n  tunepipe fmt - < draft.tp"
    )]
    Fmt {
        /// Files, folders of .tp files, or - for standard input
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// Write nothing, name the files that would change, and end with 1 if there are any
        #[arg(long)]
        check: bool,
        /// Write nothing, show what would change
        #[arg(long)]
        diff: bool,
        /// Answer as JSON on stdout
        #[arg(long)]
        json: bool,
        /// Say only what went wrong
        #[arg(short, long)]
        quiet: bool,
    },
    /// Write a pipeline that checks and fits, from a model, rows, a card and a goal
    #[command(
        after_help = "Asks for what is not given.\n\nExample:\n  tunepipe new --model models/llama-3-8b --data data/alpaca.jsonl --card colab-t4 --goal adapter"
    )]
    New(new::New),
    /// Show the first rows as a model sees them, and how long all of them are
    #[command(after_help = "Examples:\n  tunepipe preview finetune.tp\n  tunepipe preview finetune.tp --rows 1 --json")]
    Preview {
        #[command(flatten)]
        pipeline: Pipeline,
        /// Rows to show of each data set
        #[arg(long, default_value_t = 3)]
        rows: usize,
    },
    /// Say what a stage or a recipe takes and holds, or what a diagnostic's code means
    #[command(
        after_help = "Examples:\n  tunepipe explain train lora\n  tunepipe explain qlora\n  tunepipe explain value.taken\n  tunepipe explain quantize nf4 --json\n  tunepipe explain finetune.tp small"
    )]
    Explain {
        /// The name of a stage or recipe, or a code; a file for the recipes it declares or uses
        #[arg(required_unless_present = "reference")]
        topic: Vec<String>,
        /// Answer as JSON on stdout
        #[arg(long)]
        json: bool,
        /// Write every page as Markdown into a folder
        #[arg(long, value_name = "DIR", conflicts_with_all = ["topic", "json"])]
        reference: Option<PathBuf>,
    },
    /// Print a shell's completion script
    #[command(
        after_help = "Examples:\n  source <(tunepipe completions bash)\n  tunepipe completions fish > ~/.config/fish/completions/tunepipe.fish"
    )]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// List what there is: stages, recipes, shapes, devices, runs, codes
    #[command(after_help = "Examples:\n  tunepipe ls stages\n  tunepipe ls runs --json")]
    Ls {
        /// Of what kind
        #[arg(value_enum)]
        what: ls::What,
        /// Answer as JSON on stdout
        #[arg(long)]
        json: bool,
    },
}

/// What every verb on a pipeline takes.
#[derive(Debug, Clone, Args)]
pub struct Pipeline {
    /// The pipeline file, or - for standard input
    file: PathBuf,
    /// Values for the pipeline's params
    #[arg(value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// Read params from a file of `name = value` lines
    #[arg(long = "params", value_name = "FILE")]
    params_file: Vec<PathBuf>,
    /// Replace one argument of one stage, named by its words or its line
    #[arg(long, value_name = "STAGE.ARG=VALUE")]
    set: Vec<String>,
    /// Judge by this budget: a line of the file by its device, or a device and sizes
    #[arg(long, value_name = "DEVICE|KEY=SIZE…")]
    budget: Vec<String>,
    /// Answer as JSON on stdout
    #[arg(long)]
    json: bool,
    /// Say only what went wrong, and results
    #[arg(short, long)]
    quiet: bool,
    /// One of several runs: without the tables around it.
    #[arg(skip)]
    brief: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeviceChoice {
    Auto,
    Cpu,
    Cuda,
}

/// Parses the command line and does what it says.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let exit = misused::told(&error);
            if exit == Exit::Usage && misused::wants_json() {
                answer_failure(exit);
            }
            return exit.into();
        }
    };
    // A panic is a defect of ours, and is told as one.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(String::new, |at| format!(" at {}:{}", at.file(), at.line()));
        let words = panic.payload();
        let words = words.downcast_ref::<&str>().copied().or_else(|| words.downcast_ref::<String>().map(|s| &**s));
        let words = words.unwrap_or("something that was thought impossible");
        out::say(&format!(
            "error: tunepipe has a defect{place}: {words}\n  note: nothing half-written is left under a final name\n  help: please report this, with the pipeline"
        ));
    }));
    let json = cli.verb.json();
    let exit = std::panic::catch_unwind(|| cli.verb.run()).unwrap_or(Exit::Failed);
    // Whoever reads JSON gets some, whatever went wrong.
    if json && !out::answered() {
        answer_failure(exit);
    }
    if out::lost() {
        out::say("error: the answer could not be written: stdout takes no more");
        return Exit::Failed.into();
    }
    exit.into()
}

/// What was complained of, as JSON, where there was no other answer.
fn answer_failure(exit: Exit) {
    prepare::answer_json(&json!({"version": 1, "ok": exit == Exit::Done, "diagnostics": prepare::complaints()}));
}

impl Verb {
    /// Whether the answer is to be JSON.
    fn json(&self) -> bool {
        match self {
            Verb::Run { pipeline, .. }
            | Verb::Plan { pipeline, .. }
            | Verb::Fit { pipeline, .. }
            | Verb::Check { pipeline, .. }
            | Verb::Preview { pipeline, .. } => pipeline.json,
            Verb::Resume { json, .. } | Verb::Fmt { json, .. } | Verb::Explain { json, .. } | Verb::Ls { json, .. } => {
                *json
            }
            Verb::New(wanted) => wanted.json(),
            Verb::Completions { .. } => false,
        }
    }

    fn run(self) -> Exit {
        match self {
            Verb::Run { pipeline, run_dir, device, sweep } if sweep.is_empty() => {
                run::run(&pipeline, run_dir.as_deref(), device)
            }
            Verb::Run { pipeline, run_dir, device, sweep } => {
                sweep::sweep(&pipeline, run_dir.as_deref(), device, &sweep)
            }
            Verb::Resume { run, json, quiet } => resume::resume(&run, json, quiet),
            Verb::Plan { pipeline, shown } => plan::plan(&pipeline, &shown),
            Verb::Fit { pipeline, write } => fit::fit(&pipeline, write),
            Verb::Check { pipeline, format } => check::check(&pipeline, format),
            Verb::Fmt { paths, check, diff, json, quiet } => fmt::fmt(&paths, &fmt::Mode { check, diff, json, quiet }),
            Verb::New(wanted) => new::new(&wanted),
            Verb::Preview { pipeline, rows } => preview::preview(&pipeline, rows),
            Verb::Explain { reference: Some(folder), .. } => explain::write_reference(&folder),
            Verb::Explain { topic, json, reference: None } => explain::explain(&topic, json),
            Verb::Completions { shell } => completions::completions(shell),
            Verb::Ls { what, json } => ls::ls(what, json),
        }
    }
}
