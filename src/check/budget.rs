//! `budget` lines.

use std::path::Path;

use super::Checker;
use super::given::Given;
use super::library::Library;
use crate::catalog::{Atom, Catalog, Kind};
use crate::plan::{Budget, Device, Val};
use crate::syntax::{self, BudgetLine, Expr, ExprKind, Item, Part, Range, Word};
use crate::text::{Diagnostic, Sources, Span, nearest};

/// A budget as `--budget` gives it: `rtx-4090 ram=32GiB`.
pub fn budget(text: &str, sources: &mut Sources, catalog: &Catalog) -> Result<Budget, Vec<Diagnostic>> {
    let id = sources.add("<command line>", Path::new(""), format!("budget {}\n", text.replace(['\n', '\r'], " ")));
    let (file, mut diagnostics) = syntax::parse(sources, id);
    let mut budgets = Vec::new();
    if let [Item::Budget(_)] = &file.items[..] {
        let library = Library::default();
        let mut checker = Checker::new(sources, catalog, &file, Given::default(), &library);
        for item in &file.items {
            checker.item(item);
        }
        diagnostics.extend(checker.diagnostics);
        budgets = checker.budgets;
    } else if diagnostics.is_empty() {
        let span = Span::new(id, 0, sources.get(id).text.len());
        diagnostics.push(Diagnostic::error("budget.empty", "this is no budget").label(span, "cannot be read"));
    }
    match budgets.pop() {
        Some(budget) if diagnostics.is_empty() => Ok(budget),
        _ => Err(diagnostics),
    }
}

impl Checker<'_> {
    pub fn budget_line(&mut self, line: &BudgetLine) {
        let mut device: Option<Device> = None;
        let mut limits: [Option<(u64, Span)>; 4] = [None; 4];
        let mut failed = line.parts.is_empty();
        if failed {
            self.report(
                Diagnostic::error("budget.empty", "a budget needs a device or a limit")
                    .label(line.span, "says nothing")
                    .help("write `budget rtx-4090`, `budget gpu=24GiB ram=32GiB`, or both"),
            );
        }
        for (at, part) in line.parts.iter().enumerate() {
            if self.statement_in(line.parts.get(at..).unwrap_or(&[]), line.span) {
                failed = true;
                break;
            }
            let fine = match part {
                Part::Value(Expr { kind: ExprKind::Word(name), span }) if device.is_none() => {
                    device = self.device(name, *span);
                    device.is_some()
                }
                Part::Value(value) => {
                    let words = match &value.kind {
                        ExprKind::Word(_) => "a budget names one device; another device is another `budget` line",
                        _ => "a budget is a device's name and `gpu=`, `ram=` and `disk=` sizes",
                    };
                    if value.kind != ExprKind::Wrong {
                        let diagnostic =
                            Diagnostic::error("budget.part", words).label(value.span, "does not belong here");
                        let written = self.sources.slice(value.span);
                        self.report(match value.kind {
                            ExprKind::Bytes(_) => diagnostic.help(format!("say of what: `gpu={written}`")),
                            _ => diagnostic,
                        });
                    }
                    // What follows belongs to whatever this is.
                    failed = true;
                    break;
                }
                Part::Argument { name, value } => self.limit(name, value, &mut limits),
            };
            failed |= !fine;
        }
        if failed {
            return;
        }
        let mut device =
            device.unwrap_or(Device { name: None, gpu: None, ram: None, disk: None, cuda: None, threads: None });
        let [gpu, ram, disk, threads] = limits.map(|limit| limit.map(|(number, _)| number));
        device.gpu = gpu.or(device.gpu);
        device.ram = ram.or(device.ram);
        device.disk = disk.or(device.disk);
        device.threads = threads.and_then(|threads| usize::try_from(threads).ok()).or(device.threads);
        if let (Some(_), Some((_, span))) = (device.gpu, limits[3]) {
            return self.report(
                Diagnostic::error("arg.idle", "`threads` changes nothing here")
                    .label(span, "the plan of a machine with a GPU does not depend on it")
                    .help("leave `threads` out"),
            );
        }
        let said: Vec<String> = line.parts.iter().map(|part| self.said(part)).collect();
        self.budgets.push(Budget::new(device, said.join(" "), line.span));
    }

    /// A part of the line as it is written, a value on several lines in one.
    fn said(&self, part: &Part) -> String {
        let one_line = |span: Span| self.sources.slice(span).split_whitespace().collect::<Vec<_>>().join(" ");
        match part {
            Part::Value(value) => one_line(value.span),
            Part::Argument { name, value } => format!("{}={}", name.text, one_line(value.span)),
        }
    }

    fn device(&mut self, name: &str, span: Span) -> Option<Device> {
        if let Some(decl) = self.catalog.device(name) {
            return Some(decl.device.clone());
        }
        let names = self.catalog.devices.iter().map(|device| &*device.name);
        let diagnostic = Diagnostic::error("name.unknown_device", format!("there is no device `{name}`"))
            .label(span, "not in the catalogue");
        let diagnostic = match self.catalog.near_device(name) {
            Some(near) => diagnostic.help(format!("write `{near}`, or give its sizes: `gpu=24GiB`")),
            None => diagnostic
                .note(format!("devices are {}", names.collect::<Vec<_>>().join(", ")))
                .help("give its sizes instead: `budget gpu=24GiB ram=32GiB disk=60GiB`"),
        };
        self.report(diagnostic);
        None
    }

    fn limit(&mut self, name: &Word, value: &Expr, limits: &mut [Option<(u64, Span)>; 4]) -> bool {
        let at = match &*name.text {
            "gpu" => 0,
            "ram" => 1,
            "disk" => 2,
            "threads" => 3,
            other => {
                let diagnostic = Diagnostic::error("name.unknown_argument", format!("a budget has no `{other}`"))
                    .label(name.span, "unknown");
                let near = nearest(other, ["gpu", "ram", "disk", "threads"]);
                let known = "a budget limits `gpu=`, `ram=` and `disk=`, and may say `threads=`".to_owned();
                self.report(diagnostic.help(near.map_or(known, |near| format!("write `{near}=`"))));
                return false;
            }
        };
        if let Some((_, first)) = limits[at] {
            self.twice(&name.text, name.span, first);
            return false;
        }
        let kind = Kind(vec![match at {
            3 => Atom::Int(Range { low: Some(1.0), high: Some(4096.0) }),
            _ => Atom::Bytes,
        }]);
        let Some(datum) = self.eval(value, Some(&kind)) else { return false };
        match self.catalog.fit(&kind, &datum.val, &datum.folder) {
            Ok(Val::Bytes(bytes)) => {
                limits[at] = Some((bytes, name.span));
                true
            }
            Ok(Val::Int(number)) => match u64::try_from(number) {
                Ok(number) => {
                    limits[at] = Some((number, name.span));
                    true
                }
                Err(_) => false,
            },
            Ok(_) => false,
            Err(misfit) => {
                self.misfit(&name.text, &kind, &misfit, &datum.val, value);
                false
            }
        }
    }
}
