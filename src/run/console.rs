//! What a person sees while a run goes on: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::{Journal, signals};
use crate::memory::{Bytes, meter};
use crate::stages::{Count, Done, EvalSeen, Marks, StepSeen, Stop, Watch};
use crate::store::Identity;
use crate::text::{Fault, Result, out};

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// Errors and results only.
    Quiet,
    Normal,
}

/// Bars stay away from work shorter than this.
const PATIENCE: Duration = Duration::from_millis(700);

/// Shows a run on stderr and writes it to its journal, when it has one (`plan` and `check` have none).
pub struct Console<'a> {
    journal: Option<&'a mut Journal>,
    voice: Voice,
    terminal: bool,
    bar: Option<ProgressBar>,
    /// What the bar counts, and since when the work has been going on.
    work: Option<(String, Instant)>,
    spoke: Instant,
    /// The stage at work, with its line.
    stage: (String, usize),
    /// When training began, evaluations included, and the step before its first.
    training: Option<(Instant, u64)>,
    /// Results go to stdout as text; otherwise they are only collected.
    pub answers: bool,
    /// What `eval` and `sample` found.
    pub results: Vec<Value>,
    /// What comes was told before the run was interrupted, and stands in its records.
    again: bool,
    /// The journal's first failure: a run must not end well when its record is broken.
    pub broken: Option<Fault>,
}

impl<'a> Console<'a> {
    pub fn new(journal: Option<&'a mut Journal>, voice: Voice) -> Self {
        Console {
            journal,
            voice,
            terminal: std::io::stderr().is_terminal(),
            bar: None,
            work: None,
            spoke: Instant::now(),
            stage: (String::new(), 0),
            training: None,
            answers: true,
            results: Vec::new(),
            again: false,
            broken: None,
        }
    }

    /// Where something is written down, unless it stands there already.
    fn journal(&mut self) -> Option<&mut Journal> {
        if self.again { None } else { self.journal.as_deref_mut() }
    }

    fn keep(&mut self, result: Result<()>) {
        if let Err(fault) = result {
            self.broken.get_or_insert(fault);
        }
    }

    fn say(&self, text: &str) {
        if self.voice == Voice::Quiet {
            return;
        }
        match &self.bar {
            Some(bar) => bar.suspend(|| out::say(text)),
            None => out::say(text),
        }
    }

    /// A result that was asked for: on stdout, quiet or not.
    fn answer(&mut self, text: &str, result: Value) {
        self.results.push(result);
        if self.journal.is_none() || !self.answers {
            return;
        }
        let line = format!("{text}\n");
        match &self.bar {
            Some(bar) => bar.suspend(|| out::answer(&line)),
            None => out::answer(&line),
        }
    }

    fn draw(&mut self, style: &str, total: u64, fresh: bool) -> &ProgressBar {
        let bar =
            self.bar.get_or_insert_with(|| ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()));
        if fresh {
            bar.reset();
            bar.set_length(total);
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style.progress_chars("━━╌"));
            }
        }
        bar
    }

    /// Takes the bar off the screen.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.work = None;
    }
}

impl Watch for Console<'_> {
    fn progress(&mut self, what: &str, done: u64, total: u64, count: Count) {
        if self.voice == Voice::Quiet {
            return;
        }
        let fresh = self.work.as_ref().is_none_or(|(name, _)| name != what);
        if fresh {
            self.clear();
            self.work = Some((what.to_owned(), Instant::now()));
        }
        let Some((_, since)) = self.work else { return };
        if done >= total {
            self.clear();
            return;
        }
        if since.elapsed() < PATIENCE {
            return;
        }
        if self.terminal {
            let style = match count {
                Count::Bytes => "  {msg:<24} {bar:32.cyan/dim} {bytes} of {total_bytes}  {binary_bytes_per_sec}  {eta}",
                _ => "  {msg:<24} {bar:32.cyan/dim} {human_pos} of {human_len}  {eta}",
            };
            let first = self.bar.is_none();
            let bar = self.draw(style, total, first);
            bar.set_message(what.to_owned());
            bar.set_position(done);
        } else if self.spoke.elapsed() > Duration::from_secs(10) {
            self.spoke = Instant::now();
            let done = match count {
                Count::Bytes => format!("{} of {}", Bytes(done), Bytes(total)),
                _ => format!("{done} of {total}"),
            };
            out::say(&format!("  {what}: {done}"));
        }
    }

    fn stage(&mut self, name: &str, line: usize) {
        self.stage = (name.to_owned(), line);
        self.training = None;
        if let Some(journal) = self.journal() {
            let written = journal.event(&json!({"event": "stage", "stage": name, "line": line}));
            self.keep(written);
        }
    }

    fn step(&mut self, seen: &StepSeen) {
        if let Some(journal) = self.journal() {
            let written = journal.step(seen);
            self.keep(written);
        }
        if self.voice == Voice::Quiet {
            return;
        }
        let rate = if seen.seconds > 0.0 { seen.tokens as f64 / seen.seconds } else { 0.0 };
        let line = format!("loss {:.4}  {:.0} tokens/s  RAM {}", seen.loss, rate, Bytes(meter::live()));
        let (since, before) = *self.training.get_or_insert_with(|| {
            (Instant::now() - Duration::from_secs_f64(seen.seconds.clamp(0.0, 1e6)), seen.step.saturating_sub(1))
        });
        if self.terminal && seen.step < seen.steps {
            // A bar that counted something else gives way; one that counts steps goes on.
            let first = self.work.is_some() || self.bar.is_none();
            if first {
                self.clear();
            }
            let left = remaining(since.elapsed(), seen.step - before, seen.steps - seen.step);
            let bar = self.draw("  step {pos:>4} of {len} {bar:24.cyan/dim} {msg}", seen.steps, first);
            bar.set_message(format!("{line}  {left} left"));
            bar.set_position(seen.step);
            return;
        }
        let every = (seen.steps / 20).max(1);
        if seen.step == 1 || seen.step == seen.steps || seen.step.is_multiple_of(every) {
            self.clear();
            out::say(&format!("  step {:>4} of {}  {line}", seen.step, seen.steps));
        }
    }

    fn eval(&mut self, stage: &str, seen: &EvalSeen) {
        let line = self.stage.1;
        if let Some(journal) = self.journal() {
            let written = journal.eval(stage, line, seen);
            self.keep(written);
        }
        let score = format!("loss {:.4}  perplexity {:.2}  over {} tokens", seen.loss, seen.perplexity, seen.counted);
        match seen.step {
            Some(step) => self.say(&format!("  held out, after step {step}: {score}")),
            None => {
                let result = json!({"stage": stage, "line": line, "loss": seen.loss, "perplexity": seen.perplexity,
                                    "counted": seen.counted});
                self.answer(&format!("  eval in line {line}: {score}"), result);
            }
        }
    }

    fn sample(&mut self, prompt: &str, answer: &str) {
        if let Some(journal) = self.journal() {
            let written = journal.event(&json!({"event": "sample", "prompt": prompt, "answer": answer}));
            self.keep(written);
        }
        let result = json!({"stage": "sample", "line": self.stage.1, "prompt": prompt, "answer": answer});
        self.answer(&sampled(self.stage.1, prompt, answer), result);
    }

    fn saved(&mut self, what: &str, path: &Path, bytes: u64) {
        if let Some(journal) = self.journal() {
            let written = journal.event(&json!({"event": "saved", "what": what, "bytes": bytes}));
            self.keep(written);
        }
        self.say(&format!("  saved {what} to {} ({})", tidy(path).display(), Bytes(bytes)));
    }

    fn finish(&mut self) {
        self.clear();
    }

    fn best(&mut self, step: u64, loss: f64) {
        if let Some(journal) = self.journal() {
            let written = journal.event(&json!({"event": "best", "step": step, "loss": loss}));
            self.keep(written);
        }
        self.say(&format!("  kept the state after step {step}, with the lowest held-out loss, {loss:.4}"));
    }

    fn note(&mut self, text: &str) {
        self.say(&format!("  note: {text}"));
    }

    fn stop(&self) -> Stop {
        signals::asked
    }

    fn marks(&mut self) -> Result<Marks> {
        // Records that could not be written are no place to come back to.
        if let Some(fault) = &self.broken {
            return Err(fault.clone());
        }
        self.journal.as_deref_mut().map_or_else(|| Ok(Marks::default()), |journal| journal.marks())
    }

    fn again(&mut self, again: bool) {
        self.again = again;
    }

    fn making(&mut self, path: &Path, identity: Option<Identity>) -> Result<()> {
        self.journal.as_deref_mut().map_or(Ok(()), |journal| journal.making(path, identity))
    }

    fn done(&mut self, done: &Done<'_>) -> Result<()> {
        if let Some(fault) = &self.broken {
            return Err(fault.clone());
        }
        self.journal().map_or(Ok(()), |journal| journal.done(done))
    }
}

/// What is left at the pace so far: `45s`, `12m 5s`, `3h 20m`.
fn remaining(spent: Duration, done: u64, left: u64) -> String {
    let seconds = spent.as_secs_f64() / done.max(1) as f64 * left as f64;
    let seconds = seconds.round().clamp(0.0, 1e9) as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m {s}s"),
        (h, m, _) => format!("{h}h {m}m"),
    }
}

/// A prompt with its answer, told apart by an arrow.
fn sampled(line: usize, prompt: &str, answer: &str) -> String {
    let mut text = format!("  sample in line {line}");
    for line in prompt.trim_end().lines() {
        text.push_str("\n    ");
        text.push_str(line);
    }
    let answer = answer.trim();
    if answer.is_empty() {
        text.push_str("\n  → (nothing)");
    }
    for (at, line) in answer.lines().enumerate() {
        text.push_str(if at == 0 { "\n  → " } else { "\n    " });
        text.push_str(line);
    }
    text
}

/// A path as a person would write it: `pipelines/../out` is `out`. For show only: a linked folder's parent is another.
fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if matches!(tidy.components().next_back(), Some(Component::Normal(_))) => {
                tidy.pop();
            }
            Component::CurDir => {}
            part => tidy.push(part),
        }
    }
    tidy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shown_as_a_person_would_write_them() {
        assert_eq!(tidy(Path::new("pipelines/../out/adapter")), Path::new("out/adapter"));
        assert_eq!(tidy(Path::new("../out")), Path::new("../out"));
        assert_eq!(tidy(Path::new("/a/./b/../c")), Path::new("/a/c"));
    }

    #[test]
    fn what_is_left_follows_the_pace_so_far() {
        assert_eq!(remaining(Duration::from_secs(3), 58, 6342), "5m 28s");
        assert_eq!(remaining(Duration::from_secs(1), 1, 12_000), "3h 20m");
        assert_eq!(remaining(Duration::ZERO, 0, 4), "0s");
    }

    #[test]
    fn an_answer_stands_under_its_prompt() {
        assert_eq!(sampled(3, "Q: x?\nA:", " y\nz "), "  sample in line 3\n    Q: x?\n    A:\n  → y\n    z");
        assert_eq!(sampled(4, "x", " "), "  sample in line 4\n    x\n  → (nothing)");
    }
}
