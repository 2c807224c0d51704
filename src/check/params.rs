//! `param` lines and what is given for them.

use super::Checker;
use super::given::{Layer, variable};
use super::names::{Datum, What};
use crate::catalog::{Atom, Kind, Misfit};
use crate::plan::{Override, Val};
use crate::syntax::{Expr, ExprKind, ParamLine, Range};
use crate::text::{Diagnostic, Span, nearest};

impl Checker<'_> {
    pub fn param(&mut self, line: &ParamLine) {
        let kind = match line.kind.as_ref().map(Kind::read_param) {
            Some(Ok(kind)) => Some(kind),
            Some(Err(diagnostic)) => {
                self.report(diagnostic);
                self.declare(&line.name, None);
                self.mark_given(&line.name.text);
                return;
            }
            None => None,
        };
        let default = line.default.as_ref().map(|expr| self.default(expr, kind.as_ref(), &line.name.text));
        let datum = match (self.mark_given(&line.name.text), default) {
            (Some(at), default) => {
                let kind = kind.or_else(|| default.flatten().and_then(|datum| inferred(&datum.val)));
                self.given_value(at, kind.as_ref(), &line.name.span)
            }
            (None, Some(default)) => default,
            (None, None) => {
                let name = &line.name.text;
                let sample = kind.as_ref().map_or("VALUE", sample);
                let kind = kind.as_ref().map_or(String::new(), |kind| format!(": it is {}", kind.words()));
                self.report(
                    Diagnostic::error("param.missing", format!("the param `{name}` has no value{kind}"))
                        .label(line.name.span, "has no default, so it has to be given")
                        .help(format!(
                            "put `{name}={}` on the command line, or a default here: `= {sample}`",
                            sample.trim_matches('"')
                        )),
                );
                None
            }
        };
        if let Some(datum) = &datum {
            self.params.push((line.name.text.clone(), datum.val.clone()));
        }
        self.declare(&line.name, datum);
    }

    pub fn default(&mut self, expr: &Expr, kind: Option<&Kind>, name: &str) -> Option<Datum> {
        let datum = self.eval(expr, kind)?;
        match kind {
            // `none` says that there is no value, whatever the kind.
            Some(kind) if datum.val != Val::None => self.fitted(datum, kind, name, expr, None),
            _ => Some(datum),
        }
    }

    /// Marks what is given for a name, and finds which counts: the command line goes before the environment, that
    /// before a file. Giving it twice in one place is an error.
    fn mark_given(&mut self, name: &str) -> Option<usize> {
        let variable = variable(name);
        let mut best: Option<usize> = None;
        let mut twice = None;
        for at in 0..self.given.params.len() {
            let one = &mut self.given.params[at];
            if one.name != *(if one.layer == Layer::Environment { &variable } else { name }) {
                continue;
            }
            one.used = true;
            let (layer, span) = (one.layer, one.name_span);
            match best.and_then(|best| self.given.params.get(best)) {
                Some(known) if known.layer == layer => twice = Some((span, layer)),
                Some(known) if known.layer > layer => {}
                _ => best = Some(at),
            }
        }
        if let Some((span, layer)) = twice {
            self.report(
                Diagnostic::error("param.twice", format!("`{name}` is given twice {}", layer.words()))
                    .label(span, "again")
                    .help("give it once"),
            );
        }
        best
    }

    fn given_value(&mut self, at: usize, kind: Option<&Kind>, declared: &Span) -> Option<Datum> {
        let one = self.given.params.get(at)?;
        let (name, span, value, layer) = (one.name.clone(), one.value_span, one.value.clone(), one.layer);
        let text = self.sources.slice(one.name_span.to(span)).to_owned();
        self.overrides.push(Override { what: text, from: layer.words() });
        self.outer_value(&name, span, value, kind, *declared, true)
    }

    /// A value from outside the file, held to a kind. `none` is left to the place where it is used, if `open`.
    pub fn outer_value(
        &mut self,
        name: &str,
        span: Span,
        value: Result<Expr, Vec<Diagnostic>>,
        kind: Option<&Kind>,
        declared: Span,
        open: bool,
    ) -> Option<Datum> {
        let declared = &declared;
        let raw = self.sources.slice(span).to_owned();
        let folder = self.sources.get(span.source).folder.clone();
        let bare = Datum { val: Val::Str(raw.clone()), folder, shown: None, from: None };
        let takes_text = kind.is_some_and(Kind::takes_text) && !raw.starts_with(['"', '@']);
        let expr = match value {
            Ok(expr) => expr,
            // What a shell leaves of a quoted text or path is a bare one.
            Err(_) if takes_text || (kind.is_none() && !raw.contains('"') && !raw.trim().is_empty()) => {
                let expr = Expr { kind: ExprKind::Wrong, span };
                return match kind {
                    Some(kind) => self.fitted(bare, kind, name, &expr, Some(*declared)),
                    None => Some(bare),
                };
            }
            Err(_) if raw.trim().is_empty() => {
                let diagnostic = Diagnostic::error("param.value", format!("`{name}` is given no value"));
                // Of `--set` the text is all there is; a param is declared elsewhere.
                let diagnostic = match declared.source == span.source {
                    true => diagnostic.label(*declared, "nothing stands behind its `=`"),
                    false => diagnostic.label(span, "empty").label(*declared, "declared here"),
                };
                self.report(match kind {
                    Some(kind) => diagnostic.help(format!("write `{name}={}`", sample(kind))),
                    None => diagnostic,
                });
                return None;
            }
            Err(diagnostics) => {
                self.diagnostics.extend(diagnostics);
                return None;
            }
        };
        let datum = match &expr.kind {
            ExprKind::Word(word) => Some(Datum::plain(match &**word {
                "true" => Val::Bool(true),
                "false" => Val::Bool(false),
                "none" => Val::None,
                _ => Val::Symbol(word.clone()),
            })),
            _ => self.eval(&expr, kind),
        }?;
        let Some(kind) = kind else { return Some(datum) };
        if datum.val == Val::None && open {
            return Some(datum);
        }
        let fits = self.catalog.fit(kind, &datum.val, &datum.folder).is_ok();
        let datum = if takes_text && !fits { bare } else { datum };
        self.fitted(datum, kind, name, &expr, Some(*declared))
    }

    /// Holds a value to a kind; the rest of it stays.
    fn fitted(&mut self, datum: Datum, kind: &Kind, name: &str, expr: &Expr, declared: Option<Span>) -> Option<Datum> {
        match self.catalog.fit(kind, &datum.val, &datum.folder) {
            Ok(val) => Some(Datum { val, ..datum }),
            Err(misfit) => {
                self.misfit(name, kind, &misfit, &datum.val, expr);
                if let (Some(declared), Some(last)) = (declared, self.diagnostics.last_mut()) {
                    last.labels.push(crate::text::Label { span: declared, text: "declared here".into() });
                    if misfit == Misfit::Whole {
                        last.notes.push(
                            "a param has the type of its default; write `param name: Float = …` for fractions".into(),
                        );
                    }
                }
                None
            }
        }
    }

    /// What is given and no param wants. A variable of the environment may be meant for another pipeline.
    pub fn params_left(&mut self) {
        let mut left = Vec::new();
        for one in self.given.params.iter().filter(|one| !one.used) {
            left.push((one.name.clone(), one.name_span, one.layer));
        }
        for (name, span, layer) in left {
            // An unreadable file may well declare it.
            if self.unread {
                continue;
            }
            let names: Vec<&str> = self.params.iter().map(|(name, _)| &**name).collect();
            let place = format!("given {}", layer.words());
            if layer == Layer::Environment {
                let message = format!("the pipeline has no param for `{name}`");
                let known: Vec<String> = names.iter().map(|name| variable(name)).collect();
                let diagnostic = Diagnostic::warning("param.unknown", message).label(span, place);
                let near = nearest(&name, known.iter().map(|name| &**name));
                self.report(match near {
                    Some(near) => diagnostic.help(format!("write `{near}`")),
                    None => diagnostic,
                });
                continue;
            }
            let diagnostic =
                Diagnostic::error("param.unknown", format!("the pipeline has no param `{name}`")).label(span, place);
            // An argument, a let and a named value are no params, and each has another way.
            let argument = self
                .steps
                .iter()
                .find(|step| self.catalog.stage(&step.stage).is_some_and(|decl| decl.arg(&name).is_some()))
                .map(|step| (step.stage.clone(), step.stage.split(' ').next().unwrap_or_default().to_owned()));
            let declared = self.names.get(&name).map(|named| (named.span, matches!(named.what, What::Owned(_))));
            let diagnostic = match nearest(&name, names.iter().copied()) {
                _ if declared.is_some_and(|(_, owned)| !owned) => {
                    let (span, _) = declared.unwrap_or((span, false));
                    diagnostic
                        .label(span, "a `let`, which is not given from outside")
                        .help(format!("declare it as `param {name} = …`"))
                }
                _ if argument.is_some() => {
                    let (stage, word) = argument.unwrap_or_default();
                    diagnostic
                        .note(format!("`{name}` is an argument of `{stage}`"))
                        .help(format!("write `--set {word}.{name}=…`; `--sweep {word}.{name}=…,…` tries several"))
                }
                Some(near) => diagnostic.help(format!("write `{near}=…`")),
                None if names.is_empty() => diagnostic.help(format!("declare it in the file: `param {name} = …`")),
                None => diagnostic.note(format!("its params are {}", names.join(", "))),
            };
            self.report(diagnostic);
        }
    }
}

/// The kind that a default stands for, where none is written.
fn inferred(val: &Val) -> Option<Kind> {
    let any = Range { low: None, high: None };
    let atoms = match val {
        Val::Bool(_) => vec![Atom::Bool],
        Val::Int(_) => vec![Atom::Int(any)],
        Val::Float(_) => vec![Atom::Float(any)],
        Val::Bytes(_) => vec![Atom::Bytes],
        // An argument that takes one of these as a rule takes another too, and is asked when it is used.
        Val::Quantity(..) => vec![Atom::Percent(any), Atom::Steps(any), Atom::Epochs(any), Atom::Rows(any)],
        Val::Str(_) => vec![Atom::String],
        Val::Path(_) => vec![Atom::Path],
        Val::None | Val::Symbol(_) | Val::List(_) => return None,
    };
    Some(Kind(atoms))
}

/// A value of a kind, to show how one is written.
pub fn sample(kind: &Kind) -> &str {
    match kind.0.first() {
        Some(Atom::Int(_)) => "8",
        Some(Atom::Float(_)) => "0.1",
        Some(Atom::Bool) => "true",
        Some(Atom::String) => "\"text\"",
        Some(Atom::Path) => "\"path\"",
        Some(Atom::Output) => "\"out/model\"",
        Some(Atom::Bytes) => "5GB",
        Some(Atom::Percent(_)) => "3%",
        Some(Atom::Steps(_)) => "50steps",
        Some(Atom::Epochs(_)) => "1epoch",
        Some(Atom::Rows(_)) => "500rows",
        Some(Atom::Shape) => "llama-3-8b",
        Some(Atom::Symbol(name)) => name,
        Some(Atom::None) => "none",
        Some(Atom::List(_)) => "[…]",
        None => "VALUE",
    }
}
