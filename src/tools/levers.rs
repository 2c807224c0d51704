//! What can be changed in a pipeline to make it smaller, in the order of what it costs.
//!
//! First switches that keep every bit and take no time, then `mapped`, which takes none while the files stay in the
//! system's cache; then those that keep every bit and take time, then a smaller batch at an equal number of tokens a step,
//! then what changes what is learnt: moments in 8 bits, shorter rows, a narrower adapter.
//!
//! `recompute` comes before `offload`. It costs one more forward pass on any machine. Offloading costs what of two
//! transfers of the saved activations does not hide behind the computing, which hangs on the card's bus: of a Llama block
//! about `hidden` operations are made for each byte that is moved, so that 16 GB/s keep up with 65 TFLOP/s at a width of
//! 4096, and with 9 at 576. And it takes RAM, which a cheap machine has little of.

use crate::catalog::{Atom, Catalog};
use crate::plan::{Plan, Step, Val};
use crate::text::Span;

/// One argument of one step, changed.
#[derive(Debug, Clone)]
pub struct Lever {
    /// Index of the step.
    pub step: usize,
    /// The statement that says the argument: the step's own, or the call that hands it on. Steps that share it change
    /// together.
    pub at: Span,
    pub argument: &'static str,
    pub val: Val,
    /// As it is written: `free_logits`, `batch=2`.
    pub written: String,
}

impl Lever {
    /// Whether one makes no sense without the other: `accum` keeps the tokens of a smaller `batch`, `long` lets rows be
    /// shortened, and one statement of a recipe is several steps. The two of a step may be said in two statements.
    pub fn belongs_to(&self, other: &Lever) -> bool {
        let kind = |lever: &Lever| match lever.argument {
            "accum" => "batch",
            "long" => "max_len",
            argument => argument,
        };
        kind(self) == kind(other) && (self.at == other.at || self.step == other.step)
    }
}

/// Levers that are pulled together.
pub type Change = Vec<Lever>;

/// The plan with the change in it.
pub fn changed(plan: &Plan, change: &Change) -> Plan {
    let mut plan = plan.clone();
    for lever in change {
        let args = plan.steps.get_mut(lever.step).map(|step| &mut step.args.0);
        if let Some(arg) = args.into_iter().flatten().find(|arg| arg.name == lever.argument) {
            arg.val = lever.val.clone();
        }
    }
    plan
}

/// Where the change goes in the pipeline's own file: spans to replace, an empty one to insert at. None where it cannot
/// be written there: a recipe does not hand the argument on, or two stages want different values of one that it does.
pub fn edits(plan: &Plan, change: &Change) -> Option<Vec<(Span, String)>> {
    let mut edits: Vec<(Span, String)> = Vec::new();
    for lever in change {
        let step = plan.steps.get(lever.step)?;
        let arg = step.args.get(lever.argument)?;
        let (span, statement, written) = match &arg.from {
            Some(from) => (from.span, from.call, renamed(lever, from.name.as_deref()?)),
            None => (arg.span, step.span, lever.written.clone()),
        };
        // A recipe of another file is not this one's to change; one of this file changes wherever it is called.
        if statement.source != plan.source || (arg.from.is_none() && !changes_every_use(plan, change, lever)) {
            return None;
        }
        // What the command line sets is not the file's to change.
        if span.is_some_and(|span| span.source != plan.source) {
            return None;
        }
        match span {
            Some(span) => match edits.iter().find(|(other, _)| *other == span) {
                Some((_, same)) if *same == written => {}
                Some(_) => return None,
                None => edits.push((span, written)),
            },
            None => {
                let end = statement.end as usize;
                let at = Span::new(statement.source, end, end);
                match edits.iter_mut().find(|(span, _)| *span == at) {
                    Some((_, text)) if text.split(' ').any(|word| word == written) => {}
                    Some((_, text)) => {
                        text.push(' ');
                        text.push_str(&written);
                    }
                    None => edits.push((at, format!(" {written}"))),
                }
            }
        }
    }
    edits.sort_by_key(|(span, _)| span.start);
    Some(edits)
}

/// Whether each step that comes of the lever's statement is changed alike.
fn changes_every_use(plan: &Plan, change: &Change, lever: &Lever) -> bool {
    let same = |other: &Lever| other.argument == lever.argument && other.written == lever.written;
    let mut uses = plan.steps.iter().enumerate().filter(|(_, step)| step.span == lever.at);
    uses.all(|(at, _)| change.iter().any(|other| other.step == at && same(other)))
}

/// A lever as it is written where the argument goes by another name.
fn renamed(lever: &Lever, name: &str) -> String {
    match lever.written.split_once('=') {
        Some((_, value)) => format!("{name}={value}"),
        None => name.to_owned(),
    }
}

/// `free_logits batch=2` on `train lora` in line 12.
pub fn in_words(plan: &Plan, change: &Change) -> String {
    let mut parts = Vec::new();
    for (at, step) in plan.steps.iter().enumerate() {
        let name = |lever: &Lever| match step.args.get(lever.argument).and_then(|arg| arg.from.as_ref()) {
            Some(from) => renamed(lever, from.name.as_deref().unwrap_or(lever.argument)),
            None => lever.written.clone(),
        };
        let words: Vec<String> = change.iter().filter(|lever| lever.step == at).map(name).collect();
        if !words.is_empty() {
            // What a recipe's body says is said once, at its own line.
            let inside = !step.calls.is_empty() && change.iter().any(|lever| lever.step == at && lever.at == step.span);
            let place = match inside {
                true => format!("in the recipe that line {} calls", step.line),
                false => format!("in line {}", step.line),
            };
            let part = format!("`{}` on `{}`", words.join(" "), step.stage);
            match inside
                && parts.iter().any(|(other, same): &(Span, String)| *other == step.span && same.starts_with(&part))
            {
                true => {}
                false => parts.push((step.span, format!("{part} {place}"))),
            }
        }
    }
    let parts: Vec<String> = parts.into_iter().map(|(_, part)| part).collect();
    parts.join(" and ")
}

/// What stands in the way of a plan with a change: steps that are refused, or whatever else.
pub enum Obstacle {
    Steps(Vec<usize>),
    Other,
}

/// The levers that can be pulled at all: not every file can be mapped, and a processor has nowhere to offload to. All are
/// tried at once, and those that are refused left out, so that it takes a plan or two however many there are.
fn working(mut change: Change, tried: &dyn Fn(&Change) -> Option<Obstacle>) -> Change {
    while !change.is_empty() {
        let many = change.len();
        match tried(&change) {
            None => break,
            Some(Obstacle::Steps(refused)) => change.retain(|lever| !refused.contains(&lever.step)),
            Some(Obstacle::Other) => {}
        }
        if change.len() == many {
            // None of them is refused for itself: halves, down to the one that something else is refused for.
            let rest = change.split_off(many / 2);
            return match many {
                1 => Change::new(),
                _ => [working(change, tried), working(rest, tried)].concat(),
            };
        }
    }
    change
}

/// Every change worth planning, the cheapest first; the last is every lever pulled as far as it goes. Not each can be written
/// ([`edits`]). `tried` says what stands in the way of a plan with a change.
pub fn candidates(plan: &Plan, tried: &dyn Fn(&Change) -> Option<Obstacle>) -> Vec<Change> {
    let working = |change| working(change, tried);
    let free = [switches(plan, "low_ram"), switches(plan, "free_logits")];
    let (mapped, recompute) = (working(switches(plan, "mapped")), switches(plan, "recompute"));
    let offload = working(trains(plan).filter_map(|(at, step)| offloaded(plan, at, step)).collect());
    let mut list = vec![free[0].clone(), free[1].clone(), free.concat()];
    // Each alone too, without the switches that it may not need.
    for slow in [mapped.clone(), recompute.clone(), offload.clone(), [recompute.clone(), offload.clone()].concat()] {
        list.extend([slow.clone(), [free.concat(), slow].concat()]);
    }
    let free = [free.concat(), mapped];
    let slow = recompute;
    list.push([free.concat(), slow.clone()].concat());
    list.push([free.concat(), slow.clone(), offload.clone()].concat());
    let mut smallest = Change::new();
    for most in batches(plan) {
        let smaller: Change = trains(plan).flat_map(|(at, step)| smaller_batch(plan, at, step, most)).collect();
        list.push([free.concat(), smaller.clone()].concat());
        list.push([free.concat(), slow.clone(), smaller.clone()].concat());
        list.push([free.concat(), slow.clone(), offload.clone(), smaller.clone()].concat());
        smallest = smaller;
    }
    let eight: Change = trains(plan).filter_map(|(at, step)| eight_bit(plan, at, step)).collect();
    list.push([free.concat(), slow.clone(), smallest.clone(), eight.clone()].concat());
    let slow = [slow, offload].concat();
    let base = [free.concat(), slow, smallest, eight].concat();
    list.push(base.clone());
    // Rows and adapters a step at a time, and on to the least of both.
    let (lengths, ranks) = (lengths(plan), ranks(plan));
    for step in 0..lengths.len().max(ranks.len()) {
        let shorter: Change = match lengths.get(step).or(lengths.last()) {
            Some(most) => shorter_rows(plan, *most),
            None => Change::new(),
        };
        let narrower: Change = match ranks.get(step).or(ranks.last()) {
            Some(most) => trains(plan).filter_map(|(at, step)| narrower_rank(plan, at, step, *most)).collect(),
            None => Change::new(),
        };
        list.push([base.clone(), shorter.clone()].concat());
        list.push([base.clone(), shorter, narrower].concat());
    }
    let mut seen = Vec::new();
    list.retain(|change| {
        let words: Vec<(usize, String)> = change.iter().map(|lever| (lever.step, lever.written.clone())).collect();
        let new = !change.is_empty() && !seen.contains(&words);
        seen.push(words);
        new
    });
    list
}

/// Whether the pipeline's own file can say an argument: it stands there, or a recipe hands it on to its call.
fn reaches(plan: &Plan, step: &Step, argument: &str) -> bool {
    let Some(arg) = step.args.get(argument) else { return false };
    match &arg.from {
        Some(from) => from.name.is_some() && from.span.is_none_or(|span| span.source == plan.source),
        None => step.span.source == plan.source && arg.span.is_none_or(|span| span.source == plan.source),
    }
}

/// The statement that a lever of this argument changes.
fn statement(step: &Step, argument: &str) -> Span {
    step.args.get(argument).and_then(|arg| arg.from.as_ref()).map_or(step.span, |from| from.call)
}

/// Steps that train.
fn trains(plan: &Plan) -> impl Iterator<Item = (usize, &Step)> {
    plan.steps.iter().enumerate().filter(|(_, step)| step.args.get("recompute").is_some())
}

/// Saved activations in RAM.
fn offloaded(plan: &Plan, at: usize, step: &Step) -> Option<Lever> {
    let off = *step.args.val("offload") == Val::None && reaches(plan, step, "offload");
    let val = Val::Symbol("activations".into());
    let said = statement(step, "offload");
    off.then(|| Lever { step: at, at: said, argument: "offload", val, written: "offload=activations".into() })
}

/// Moments in 8 bits.
fn eight_bit(plan: &Plan, at: usize, step: &Step) -> Option<Lever> {
    let wide = step.args.text("optim") == Some("adamw") && reaches(plan, step, "optim");
    let val = Val::Symbol("adamw8bit".into());
    let said = statement(step, "optim");
    wide.then(|| Lever { step: at, at: said, argument: "optim", val, written: "optim=adamw8bit".into() })
}

/// A flag, on in every step that has it and has it off.
fn switches(plan: &Plan, flag: &'static str) -> Change {
    let off = plan.steps.iter().enumerate().filter(|(_, step)| *step.args.val(flag) == Val::Bool(false));
    let off = off.filter(|(_, step)| reaches(plan, step, flag));
    let lever = |(at, step): (usize, &Step)| Lever {
        step: at,
        at: statement(step, flag),
        argument: flag,
        val: Val::Bool(true),
        written: flag.to_owned(),
    };
    off.map(lever).collect()
}

/// A whole number for an argument; none where the stage does not take it.
fn number(at: usize, step: &Step, argument: &'static str, n: usize) -> Option<Lever> {
    let declared = Catalog::standard().stage(&step.stage)?.arg(argument)?;
    let takes = |atom: &Atom| match atom {
        Atom::Int(range) => {
            range.low.is_none_or(|low| n as f64 >= low) && range.high.is_none_or(|high| n as f64 <= high)
        }
        _ => false,
    };
    let val = Val::Int(i64::try_from(n).ok()?);
    let written = format!("{argument}={n}");
    declared.kind.0.iter().any(takes).then(|| Lever { step: at, at: statement(step, argument), argument, val, written })
}

/// Bounds on batches, the largest first: a batch takes its largest divisor within a bound, so that the tokens of an
/// optimizer step stay as many, and the smallest bound is one row.
fn batches(plan: &Plan) -> Vec<usize> {
    let sizes = trains(plan).filter(|(_, step)| takes_batch(plan, step)).map(|(_, step)| step.args.count("batch"));
    let mut bounds: Vec<usize> = sizes.flat_map(|size| divisors(size).filter(move |n| *n < size)).collect();
    bounds.sort_unstable_by(|a, b| b.cmp(a));
    bounds.dedup();
    bounds
}

fn divisors(n: usize) -> impl Iterator<Item = usize> {
    (1..=n.isqrt()).filter(move |d| n.is_multiple_of(*d)).flat_map(move |d| [d, n / d])
}

/// Whether a batch may become a smaller one and more of them: an update in backward has no step to gather several in.
fn takes_batch(plan: &Plan, step: &Step) -> bool {
    let fused = step.args.get("fused_step").is_some() && step.args.flag("fused_step");
    !fused && reaches(plan, step, "batch") && reaches(plan, step, "accum")
}

fn smaller_batch(plan: &Plan, at: usize, step: &Step, most: usize) -> Change {
    let (batch, accum) = (step.args.count("batch"), step.args.count("accum"));
    let smaller = divisors(batch).filter(|n| *n <= most).max();
    let Some(smaller) = smaller.filter(|n| *n < batch && takes_batch(plan, step)) else { return Change::new() };
    let accum = number(at, step, "accum", accum.saturating_mul(batch / smaller));
    number(at, step, "batch", smaller).zip(accum).map_or_else(Change::new, |(batch, accum)| vec![batch, accum])
}

/// Tokens that rows are not cut below.
const SHORTEST: usize = 64;
/// Where rows of any length begin to be cut.
const LONG: usize = 16384;

/// Bounds on rows, the longest first.
fn lengths(plan: &Plan) -> Vec<usize> {
    let sets = plan.steps.iter().filter(|step| cuts_rows(plan, step));
    let longest = sets.map(|step| if step.args.is_none("max_len") { LONG * 2 } else { step.args.count("max_len") });
    let mut bounds: Vec<usize> = longest.flat_map(|longest| halves(longest, SHORTEST)).collect();
    bounds.sort_unstable_by(|a, b| b.cmp(a));
    bounds.dedup();
    bounds
}

/// Half of a number, a quarter and so on, and last what it may not fall below.
fn halves(number: usize, least: usize) -> impl Iterator<Item = usize> {
    let next = move |n: usize| (n > least).then(|| (n / 2).max(least));
    std::iter::successors(next(number), move |n| next(*n))
}

fn cuts_rows(plan: &Plan, step: &Step) -> bool {
    step.stage == "load data" && reaches(plan, step, "max_len") && reaches(plan, step, "long")
}

/// Rows of no more than so many tokens, cut where they are longer.
fn shorter_rows(plan: &Plan, most: usize) -> Change {
    let mut change = Vec::new();
    for (at, step) in plan.steps.iter().enumerate() {
        let longer = step.args.is_none("max_len") || step.args.count("max_len") > most;
        let Some(shorter) = number(at, step, "max_len", most).filter(|_| longer && cuts_rows(plan, step)) else {
            continue;
        };
        change.push(shorter);
        if step.args.text("long") == Some("error") {
            let val = Val::Symbol("truncate".into());
            let said = statement(step, "long");
            change.push(Lever { step: at, at: said, argument: "long", val, written: "long=truncate".into() });
        }
    }
    change
}

/// The narrowest adapter that is offered.
const NARROWEST: usize = 2;

/// Bounds on ranks, the widest first.
fn ranks(plan: &Plan) -> Vec<usize> {
    let ranks = trains(plan).filter(|(_, step)| reaches(plan, step, "rank")).map(|(_, step)| step.args.count("rank"));
    let mut bounds: Vec<usize> = ranks.flat_map(|rank| halves(rank, NARROWEST)).collect();
    bounds.sort_unstable_by(|a, b| b.cmp(a));
    bounds.dedup();
    bounds
}

fn narrower_rank(plan: &Plan, at: usize, step: &Step, most: usize) -> Option<Lever> {
    let wider = reaches(plan, step, "rank") && step.args.count("rank") > most;
    wider.then(|| number(at, step, "rank", most)).flatten()
}
