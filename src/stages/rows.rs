//! A data set in a stage's hands: tokenised by its model's tokenizer where the files are there, else only a length.

use std::sync::Arc;

use super::facts::Encoded;
use super::world::{DataDesc, ModelDesc};
use super::{Refusal, World};
use crate::data::{self, Batch, BatchPlan, Cursor, Epoch, Length, Report, Settings, TokenSet, Tokenizer};
use crate::memory::{Holding, Place};
use crate::model::{Extent, logits_window, logits_window_up_to};
use crate::plan::Step;
use crate::text::{Diagnostic, Fault, Result};
use crate::train::Micro;

/// Which rows of a set are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Train,
    Held,
    All,
}

/// Rows, how they are cut into micro-batches, and what they take.
#[derive(Clone)]
pub struct Rows {
    settings: Arc<Settings>,
    /// None where the files or the tokenizer are not there: planned from `max_len`.
    encoded: Option<Arc<Encoded>>,
    part: Part,
    batch: usize,
    seed: u64,
    vocab: usize,
}

/// Rows that are named of a batch.
const NAMED: usize = 4;

/// The largest micro-batch, in each respect, and in words what makes it; none where the rows are not at hand.
pub struct Largest {
    pub extent: Extent,
    /// Rows of the largest window of logits: not that of the largest micro-batch, which may leave less for its last.
    pub window: usize,
    pub words: Option<String>,
}

/// The first micro-batch with the most tokens.
#[derive(Default)]
struct Top {
    tokens: usize,
    /// Optimizer step, from 1; none in a score.
    step: Option<u64>,
    rows: Vec<u32>,
}

impl Top {
    fn see(&mut self, tokens: usize, step: Option<u64>, rows: &[u32]) {
        if tokens > self.tokens {
            (self.tokens, self.step) = (tokens, step);
            self.rows.clear();
            self.rows.extend_from_slice(rows);
        }
    }
}

/// Simulating more windows than this takes longer than a person waits; past it the largest rows are taken together.
const WALKED: u64 = 200_000;

impl Rows {
    /// Tokenises the data of an input. What was found out about the rows becomes remarks, or a refusal.
    pub fn of(
        step: &Step,
        input: &str,
        desc: &DataDesc,
        model: &ModelDesc,
        world: &mut World<'_>,
        batch: usize,
        seed: u64,
    ) -> Result<Self, Refusal> {
        let vocab = model.shape.vocab;
        let rows = |encoded| Rows { settings: desc.settings.clone(), encoded, part: Part::Train, batch, seed, vocab };
        let Some(tokenizer) = model.tokenizer.as_ref().filter(|_| desc.present) else {
            return absent(step, desc, model, world).map(|()| rows(None));
        };
        let mut parts = Vec::new();
        for set in desc.sets() {
            parts.push((encode(step, input, set, model, tokenizer, world)?, set.settings.paths.len()));
        }
        let encoded = match &parts[..] {
            [(only, _)] => only.clone(),
            parts => world.facts.mix(parts),
        };
        world.resident(Arc::as_ptr(&encoded) as usize, held(&encoded));
        Ok(rows(Some(encoded)))
    }

    fn with(&self, part: Part) -> Self {
        Rows { part, ..self.clone() }
    }

    pub fn to_train(&self) -> Self {
        self.with(Part::Train)
    }

    pub fn whole(&self) -> Self {
        self.with(Part::All)
    }

    /// The rows kept from training, where there are any.
    pub fn held_out(&self) -> Option<Self> {
        match &self.encoded {
            Some(encoded) => (!encoded.held.is_empty()).then(|| self.with(Part::Held)),
            None => self.settings.holdout.is_some().then(|| self.with(Part::Held)),
        }
    }

    /// The rows with their tokens, for a body.
    pub fn encoded(&self) -> Result<Arc<Encoded>> {
        let held = self.encoded.clone().filter(|encoded| encoded.tokens.holds_tokens());
        held.ok_or_else(|| Fault::new("data.absent", "the rows are not there"))
    }

    /// The micro-batches of every epoch.
    pub fn batches<'a>(&self, encoded: &'a Encoded) -> Result<BatchPlan<'a>> {
        let all: Vec<u32>;
        let rows = match self.part {
            Part::Train => &encoded.train,
            Part::Held => &encoded.held,
            Part::All => {
                all = (0..encoded.tokens.len() as u32).collect();
                &all
            }
        };
        let settings = &self.settings;
        // Only training has an order of its own; scores are taken in file order.
        let shuffle = settings.shuffle && self.part == Part::Train;
        let (sizes, packed, max_len) = (encoded.tokens.sizes(), settings.packed, settings.max_len);
        let plan = BatchPlan::new(sizes, rows, self.batch, packed, max_len, shuffle, self.seed)?;
        Ok(if self.part == Part::Train { plan.drawn(&encoded.draws) } else { plan })
    }

    /// One pass in file order, for scores.
    pub fn epoch(&self, encoded: &Encoded) -> Result<Epoch> {
        Ok(self.batches(encoded)?.epoch(0))
    }

    /// Optimizer steps of a training over these rows; without the rows, what `steps=` says or one.
    pub fn total_steps(&self, length: Length, accum: usize) -> u64 {
        match (&self.encoded, length) {
            (None, Length::Steps(steps)) => steps,
            (None, Length::Epochs(epochs)) => epochs,
            (Some(encoded), _) => self.batches(encoded).map_or(0, |plan| plan.total_steps(length, accum)),
        }
    }

    /// Passes over these rows in a training; without the rows, what `epochs=` says, or one.
    pub fn epochs(&self, length: Length, accum: usize) -> f64 {
        match (length, &self.encoded) {
            (Length::Epochs(epochs), _) => epochs as f64,
            (Length::Steps(_), None) => 1.0,
            (Length::Steps(steps), Some(_)) => steps as f64 / self.total_steps(Length::Epochs(1), accum).max(1) as f64,
        }
    }

    /// The largest micro-batch that the run will see, in each respect: the ragged last ones and a short `steps=` count.
    pub fn largest_of_run(&self, length: Length, accum: usize) -> Result<Largest> {
        let Some(encoded) = &self.encoded else { return Ok(self.up_to(self.assumed(), None)) };
        let plan = self.batches(encoded)?;
        let (mut extent, mut widest) = (Extent::default(), 0);
        let mut top = Top::default();
        let mut step = 0u64;
        for (walked, window) in (0u64..).zip(plan.walk(length, accum, Cursor::default())) {
            if walked >= WALKED {
                let extent = extent.max(self.bound(encoded));
                let words = "more batches than are gone through: planned as if the longest rows met in one".to_owned();
                return Ok(self.up_to(extent, Some(words)));
            }
            step += u64::from(window.counted > 0);
            for micro in window.micros() {
                let of = plan.extent(micro);
                extent = extent.max(self::extent(of));
                widest = widest.max(logits_window(of.counted, self.vocab));
                top.see(of.tokens, Some(step), micro);
            }
        }
        Ok(Largest { extent, window: widest, words: self.words(encoded, &extent, &top) })
    }

    /// The largest micro-batch of one pass in file order.
    pub fn largest(&self) -> Result<Largest> {
        let Some(encoded) = &self.encoded else { return Ok(self.up_to(self.assumed(), None)) };
        let plan = self.batches(encoded)?;
        let epoch = plan.epoch(0);
        let (mut extent, mut widest) = (Extent::default(), 0);
        let mut top = Top::default();
        for micro in epoch.micros() {
            let of = plan.extent(micro);
            extent = extent.max(self::extent(of));
            widest = widest.max(logits_window(of.counted, self.vocab));
            top.see(of.tokens, None, micro);
        }
        Ok(Largest { extent, window: widest, words: self.words(encoded, &extent, &top) })
    }

    /// `the largest batch, of step 3, has 812 tokens: rows.jsonl:4, rows.jsonl:9`.
    fn words(&self, encoded: &Encoded, extent: &Extent, top: &Top) -> Option<String> {
        if top.rows.is_empty() {
            return None;
        }
        let of = match (top.step, self.part) {
            (Some(step), _) => format!(", of step {step},"),
            (None, Part::Held) => " that is scored, of held-out rows,".to_owned(),
            (None, _) => " that is scored".to_owned(),
        };
        let places = self.places(encoded, &top.rows, NAMED);
        let more = match top.rows.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let longest = match top.rows.len() {
            1 => String::new(),
            _ => format!(", the longest row of any {}", extent.longest),
        };
        let tokens = extent.tokens;
        Some(format!("the largest batch{of} has {tokens} tokens{longest}: {}{more}", places.join(", ")))
    }

    /// Files and lines of the first rows of several.
    fn places(&self, encoded: &Encoded, rows: &[u32], most: usize) -> Vec<String> {
        let origins = rows.iter().filter_map(|row| encoded.tokens.origin(*row)).take(most);
        origins.map(|origin| self.settings.place(origin)).collect()
    }

    /// Micro-batches of which no more is known than what they are at most.
    fn up_to(&self, extent: Extent, words: Option<String>) -> Largest {
        Largest { extent, window: logits_window_up_to(extent.counted, self.vocab), words }
    }

    /// Every row as long as it may be.
    fn assumed(&self) -> Extent {
        let longest = self.settings.max_len.unwrap_or(0);
        let tokens = longest.saturating_mul(self.batch);
        Extent { tokens, counted: longest.saturating_sub(1).saturating_mul(self.batch), longest }
    }

    /// The longest rows in one micro-batch: no order can make a larger one.
    fn bound(&self, encoded: &Encoded) -> Extent {
        let sizes = encoded.tokens.sizes();
        // A row that comes several times an epoch may meet itself; of a share, where one pass ends and the next begins.
        let copies = encoded.draws.iter().map(|draw| draw.repeat.max(1 + u32::from(draw.take.is_some())));
        let copies = copies.max().unwrap_or(1) as usize;
        let most = |lengths: &[u32]| {
            let mut sorted = lengths.to_vec();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            let sorted = sorted.iter().flat_map(|n| std::iter::repeat_n(*n as usize, copies));
            sorted.take(self.batch).sum::<usize>()
        };
        let longest = sizes.len.iter().max().map_or(0, |n| *n as usize);
        if self.settings.packed {
            self.assumed()
        } else {
            Extent { tokens: most(&sizes.len), counted: most(&sizes.counted), longest }
        }
    }

    /// Adds to a fault of a step which rows it met.
    pub fn name_rows(&self, encoded: &Encoded, rows: &[u32], fault: Fault) -> Fault {
        match self.named(encoded, rows) {
            None => fault,
            Some(places) => fault.note(format!("the step learnt from {places}")),
        }
    }

    /// Files and lines of the first of some rows; none where no row is known.
    pub fn named(&self, encoded: &Encoded, rows: &[u32]) -> Option<String> {
        let places = self.places(encoded, rows, NAMED);
        (!places.is_empty()).then(|| places.join(", "))
    }
}

fn extent(of: data::Extent) -> Extent {
    Extent { tokens: of.tokens, counted: of.counted, longest: of.longest }
}

/// What stays of a data set once it is tokenised.
fn held(encoded: &Encoded) -> Holding {
    Holding::new("tokens", Place::Ram, bytes_of(encoded), "")
}

/// A token set, its split, the order of an epoch and a window on its way through the model.
fn bytes_of(encoded: &Encoded) -> u64 {
    let rows = encoded.tokens.len() as u64;
    let mut order = rows.saturating_mul(44);
    let mut start = 0;
    for draw in &encoded.draws {
        let stretch = (draw.end.saturating_sub(start)) as u64;
        start = draw.end;
        // Rows with the numbers of their copies, the keys they are sorted by, and a pass to take from.
        if draw.take.is_some() || draw.repeat > 1 {
            order = order.saturating_add(stretch.saturating_mul(u64::from(draw.repeat) + 1).saturating_mul(56));
        }
    }
    encoded.tokens.bytes().saturating_add(order).saturating_add(64 << 10)
}

/// A micro-batch as the trainer takes it.
pub fn micro(tokens: &TokenSet, rows: &[u32]) -> Micro {
    let mut batch = Batch::default();
    batch.fill(tokens, rows);
    Micro { ids: batch.ids, starts: batch.starts, labels: batch.labels, rows: batch.rows }
}

/// Tokenises one set, and says or refuses what is wrong with it.
fn encode(
    step: &Step,
    input: &str,
    desc: &DataDesc,
    model: &ModelDesc,
    tokenizer: &Arc<Tokenizer>,
    world: &mut World<'_>,
) -> Result<Arc<Encoded>, Refusal> {
    let encoded = world.facts.encode(&desc.settings, tokenizer, model.template.as_deref()).map_err(|fault| {
        // The rows' own statement is to blame; the stage that met them is where it shows.
        let words = if fault.code.starts_with("template.") || fault.code == "data.no_template" {
            "these rows are conversations"
        } else {
            "these rows"
        };
        vec![Diagnostic::from_fault(&fault, desc.span, words).label(step.name_span, "read for this stage")]
    })?;
    world.tokenised(desc, &encoded, tokenizer, held(&encoded));
    let report = &encoded.tokens.report;
    remark(report, encoded.held.len(), desc, world);
    if report.highest_id as usize >= model.shape.vocab {
        // Only now are the tokens themselves looked at.
        let whole = world.facts.encode_whole(&desc.settings, tokenizer, model.template.as_deref());
        let tokens = &whole.as_ref().unwrap_or(&encoded).tokens;
        let stranger = |row: &u32| tokens.ids(*row).iter().any(|id| *id as usize >= model.shape.vocab);
        let place = (0..tokens.len() as u32).find(stranger).and_then(|row| tokens.origin(row));
        let place = place.map(|origin| format!("first in {}", desc.settings.place(origin)));
        let mut refused = Diagnostic::error(
            "data.unknown_token",
            format!("a row has token {}, and the model knows ids up to {}", report.highest_id, model.shape.vocab - 1),
        )
        .label(desc.span, "these rows")
        .help("the rows, or the tokenizer, belong to another model");
        if let Some(place) = place {
            refused = refused.note(place);
        }
        return Err(vec![refused]);
    }
    if report.counted == 0 {
        return Err(vec![
            Diagnostic::error("data.zero_counted", "no token of these rows counts in the loss")
                .label(desc.span, "every label is masked")
                .label(step.name_span, format!("`{input}` has nothing to learn from"))
                .help("train_on=all"),
        ]);
    }
    Ok(encoded)
}

/// Planning goes on without rows when their longest is known; a run does not.
fn absent(step: &Step, desc: &DataDesc, model: &ModelDesc, world: &mut World<'_>) -> Result<(), Refusal> {
    if desc.present && !matches!(model.origin, super::Origin::Absent) {
        return Err(vec![
            Diagnostic::error("tokenizer.missing", "rows cannot be read without a tokenizer")
                .label(desc.span, "these rows")
                .label(step.name_span, "needs their tokens")
                .help("name one on `load model`: `tokenizer=\"path/to/tokenizer.json\"`"),
        ]);
    }
    if desc.settings.max_len.is_none() {
        return Err(vec![
            Diagnostic::error("data.unknown_length", "how long the rows are cannot be known here")
                .label(desc.span, "has no `max_len`")
                .label(step.name_span, "is planned from it")
                .help("add `max_len=1024`"),
        ]);
    }
    world.remark("rows not at hand: planned as if every row had `max_len` tokens");
    Ok(())
}

/// What a person should know of the rows.
fn remark(report: &Report, held: usize, desc: &DataDesc, world: &mut World<'_>) {
    let mut said = Vec::new();
    let mut count = |n: usize, what: &str| {
        if n > 0 {
            said.push(format!("{n} {what}"));
        }
    };
    count(report.dropped_long, "longer than max_len dropped");
    count(report.truncated, "truncated");
    count(report.split, "longer than max_len, cut into several");
    count(report.dropped_empty, "empty dropped");
    count(report.zero_counted, "without a counted token dropped");
    count(report.duplicate_bos, "with a second beginning-of-text token, taken out");
    let held = if held > 0 { format!(" ({held} held out)") } else { String::new() };
    let of = format!(
        "line {}: {} rows{held}, {} tokens, {} counted, longest {}",
        desc.line, report.rows, report.tokens, report.counted, report.longest
    );
    world.remark(if said.is_empty() { of } else { format!("{of}; {}", said.join(", ")) });
    let mut warn = |code, count: usize, words: &str| {
        if count > 0 {
            let warning = Diagnostic::warning(code, format!("{count} of {} rows {words}", report.read));
            let warning = warning.label(desc.span, "these rows");
            if !world.warnings.contains(&warning) {
                world.warnings.push(warning);
            }
        }
    };
    warn("data.empty_rows", report.dropped_empty, "are empty, and are left out");
    warn("data.unwritten", report.unwritten, "have an answer that the chat template does not write: it is not learnt");
    warn("data.tools", report.tools_unread, "have tools or tool calls, which the chat template does not write");
    if report.zero_counted > 0 {
        let mut warning = Diagnostic::warning(
            "data.no_answer",
            format!("{} of {} rows have no token that counts in the loss", report.zero_counted, report.read),
        )
        .label(desc.span, "left out");
        if report.answer_cut > 0 {
            warning = warning.note(format!("{} of them lost their whole answer to `max_len`", report.answer_cut));
        }
        if !report.zero_places.is_empty() {
            let places: Vec<String> = report.zero_places.iter().map(|place| desc.settings.place(*place)).collect();
            warning = warning.note(format!("first of them: {}", places.join(", ")));
        }
        if !world.warnings.contains(&warning) {
            world.warnings.push(warning);
        }
    }
    if report.no_eos && desc.settings.eos {
        world.remark("the tokenizer has no end-of-text token, so rows do not end with one");
    }
}
