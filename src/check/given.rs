//! What is given beside the pipeline's own text: values of params, from a file, the environment and the command line,
//! and arguments that `--set` replaces.

use std::path::{Path, PathBuf};

use crate::syntax::{self, Expr};
use crate::text::{Diagnostic, SourceId, Sources, Span};

/// The prefix of environment variables that give params: `TUNEPIPE_PARAM_LR=1e-4`.
pub const VARIABLE: &str = "TUNEPIPE_PARAM_";

/// Values that stand beside a pipeline. A later one of these goes before an earlier: the param's default, the file, the
/// environment, the command line.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Files of `name = value` lines: name, folder and text of each.
    pub files: Vec<(String, PathBuf, String)>,
    /// Environment variables that begin with [`VARIABLE`].
    pub variables: Vec<(String, String)>,
    /// `name=value` of the command line.
    pub params: Vec<(String, String)>,
    /// `stage.argument=value` of `--set`.
    pub sets: Vec<String>,
}

impl Asked {
    /// The file or the variable that gives a param, the nearest: what the command line gives goes before it.
    pub fn beside(&self, param: &str) -> Option<String> {
        let wanted = variable(param);
        if self.variables.iter().any(|(name, _)| *name == wanted) {
            return Some(format!("the environment's `{wanted}`"));
        }
        let gives = |text: &str| text.lines().any(|line| line.split_once('=').is_some_and(|(n, _)| n.trim() == param));
        self.files.iter().find(|(_, _, text)| gives(text)).map(|(name, ..)| format!("`{name}`"))
    }
}

/// Where a param's value comes from, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    File,
    Environment,
    CommandLine,
}

impl Layer {
    pub fn words(self) -> &'static str {
        match self {
            Layer::File => "in a file of params",
            Layer::Environment => "in the environment",
            Layer::CommandLine => "on the command line",
        }
    }
}

/// One value that is given for a param, in a source of its own so that a mistake in it can be pointed at.
pub(super) struct One {
    pub name: String,
    pub name_span: Span,
    pub value_span: Span,
    pub value: Result<Expr, Vec<Diagnostic>>,
    pub layer: Layer,
    pub used: bool,
}

/// One `--set`.
pub(super) struct Set {
    /// What stands before the last dot: a stage's words or a line's number.
    pub stage: String,
    pub argument: String,
    pub span: Span,
    /// The value; none where the argument stands alone, as a flag.
    pub value: Option<(Span, Result<Expr, Vec<Diagnostic>>)>,
    /// Statements that it names, and whether they have the argument.
    pub hits: Vec<(super::sets::Place, bool)>,
}

#[derive(Default)]
pub(super) struct Given {
    pub params: Vec<One>,
    pub sets: Vec<Set>,
    /// What cannot even be read.
    pub diagnostics: Vec<Diagnostic>,
}

impl Given {
    pub fn read(asked: &Asked, sources: &mut Sources) -> Given {
        let mut given = Given::default();
        for (name, folder, text) in &asked.files {
            let id = sources.add(name.clone(), folder, text.clone());
            given.file(id, sources);
        }
        for (name, value) in &asked.variables {
            given.one("<environment>", name, value, Layer::Environment, sources);
        }
        for (name, value) in &asked.params {
            given.one("<command line>", name, value, Layer::CommandLine, sources);
        }
        for text in &asked.sets {
            given.set(text, sources);
        }
        given
    }

    /// Paths of the command line and the environment are relative to the working directory.
    fn one(&mut self, source: &str, name: &str, value: &str, layer: Layer, sources: &mut Sources) {
        let text = format!("{name}={value}");
        let length = text.len();
        let id = sources.add(source, Path::new(""), text);
        let value_span = Span::new(id, name.len() + 1, length);
        let value = syntax::parse_value(sources, value_span);
        let name_span = Span::new(id, 0, name.len());
        self.params.push(One { name: name.to_owned(), name_span, value_span, value, layer, used: false });
    }

    /// `name = value` lines with comments; paths are relative to the file.
    fn file(&mut self, id: SourceId, sources: &Sources) {
        let text = sources.get(id).text.clone();
        let mut at = 0;
        for raw in text.split_inclusive('\n') {
            let (start, line) = (at, raw.trim_end());
            at += raw.len();
            let code = line.trim_start_matches(['\u{feff}', ' ']);
            let start = start + (line.len() - code.len());
            if code.is_empty() || code.starts_with('#') {
                continue;
            }
            let Some((name, value)) = code.split_once('=') else {
                self.diagnostics.push(
                    Diagnostic::error("param.line", "a file of params has lines `name = value`")
                        .label(Span::new(id, start, start + code.len()), "has no `=`")
                        .help("for example `lr = 3e-4`; a comment begins with `#`"),
                );
                continue;
            };
            let name_span = Span::new(id, start, start + name.trim_end().len());
            let value_start = start + name.len() + 1 + (value.len() - value.trim_start().len());
            let value_span = Span::new(id, value_start, start + code.len());
            let value = syntax::parse_value(sources, value_span);
            let name = name.trim_end().to_owned();
            self.params.push(One { name, name_span, value_span, value, layer: Layer::File, used: false });
        }
    }

    fn set(&mut self, text: &str, sources: &mut Sources) {
        let id = sources.add("<command line>", Path::new(""), text.to_owned());
        let key = text.split('=').next().unwrap_or("");
        let span = Span::new(id, 0, key.len());
        let Some((stage, argument)) =
            key.rsplit_once('.').filter(|(stage, argument)| !stage.is_empty() && !argument.is_empty())
        else {
            self.diagnostics.push(
                Diagnostic::error("set.form", "`--set` takes `stage.argument=value`")
                    .label(span, "names no stage")
                    .help("for example `--set train.batch=1`, or with a line's number `--set 12.batch=1`"),
            );
            return;
        };
        let value = (key.len() < text.len()).then(|| {
            let span = Span::new(id, key.len() + 1, text.len());
            (span, syntax::parse_value(sources, span))
        });
        let (stage, argument) = (stage.trim().to_owned(), argument.trim().to_owned());
        self.sets.push(Set { stage, argument, span, value, hits: Vec::new() });
    }
}

/// The environment variable that gives a param: `warm-up` is `TUNEPIPE_PARAM_WARM_UP`.
pub(super) fn variable(param: &str) -> String {
    let letter = |c: char| if matches!(c, '-' | '.') { '_' } else { c.to_ascii_uppercase() };
    format!("{VARIABLE}{}", param.chars().map(letter).collect::<String>())
}
