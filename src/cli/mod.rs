//! The command line. The one room that knows clap.

mod check;
mod fit;
mod machine;
mod plan;
mod prepare;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

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
    after_help = "Exit codes: 0 done · 1 the pipeline is wrong · 2 wrong usage · 3 the run failed · 4 over budget"
)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Do what the pipeline says
    #[command(after_help = "Example:\n  tunepipe run pipelines/quickstart.tp\n  tunepipe run finetune.tp epochs=3")]
    Run {
        #[command(flatten)]
        pipeline: Pipeline,
        /// Write the run's folder here instead of runs/<file>/<time>
        #[arg(long, value_name = "DIR")]
        run_dir: Option<PathBuf>,
        /// Device to run on
        #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
        device: DeviceChoice,
    },
    /// Show where every byte would go, without reading a weight
    #[command(
        after_help = "Example:\n  tunepipe plan finetune.tp\n  tunepipe plan finetune.tp --json | jq '.targets[0].peak'"
    )]
    Plan {
        #[command(flatten)]
        pipeline: Pipeline,
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
    #[command(after_help = "Example:\n  tunepipe check finetune.tp")]
    Check {
        #[command(flatten)]
        pipeline: Pipeline,
    },
}

/// What every verb on a pipeline takes.
#[derive(Debug, Args)]
pub struct Pipeline {
    /// The pipeline file, or - for standard input
    file: PathBuf,
    /// Values for the pipeline's params
    #[arg(value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// Answer as JSON on stdout
    #[arg(long)]
    json: bool,
    /// Say only what went wrong, and results
    #[arg(short, long)]
    quiet: bool,
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
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    match cli.verb {
        Verb::Run { pipeline, run_dir, device } => run::run(&pipeline, run_dir.as_deref(), device),
        Verb::Plan { pipeline } => plan::plan(&pipeline),
        Verb::Fit { pipeline, write } => fit::fit(&pipeline, write),
        Verb::Check { pipeline } => check::check(&pipeline),
    }
    .into()
}
