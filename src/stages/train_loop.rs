//! The loop around the trainer: windows, scores, checkpoints, and where an interrupted training is taken up.

use std::time::Instant;

use super::checkpoint::{Best, Checkpoints, Every, Keeping, Sizes, Stand};
use super::rows::micro;
use super::train::Data;
use super::watch::{STOPPED, stopped};
use super::{Body, Count, EvalSeen, Job, StepSeen};
use crate::data::{self, BatchPlan, Length};
use crate::model::Extent;
use crate::plan::ValueId;
use crate::text::{Fault, Result};
use crate::train::{self, Settings, Trainable, Trainer};

/// A training, lowered.
pub(super) struct Loop {
    pub stage: String,
    pub input: ValueId,
    pub output: ValueId,
    pub trainable: Trainable,
    pub settings: Settings,
    pub length: Length,
    pub total: u64,
    pub extent: Extent,
    pub every: Every,
    pub keeping: Keeping,
    /// None: no checkpoint is made.
    pub sizes: Option<Sizes>,
    pub data: Data,
}

impl Body for Loop {
    fn run(self: Box<Self>, job: &mut Job<'_>) -> Result<()> {
        let mut course = Course::begin(&self, job)?;
        if !course.over {
            course.go_on(job)?;
        }
        job.put(self.output, course.trainer.into_model());
        Ok(())
    }
}

/// A training under way.
struct Course<'l> {
    of: &'l Loop,
    trainer: Trainer,
    stand: Stand,
    checkpoints: Option<Checkpoints>,
    /// Taken up at its end: there is nothing more to learn.
    over: bool,
}

impl<'l> Course<'l> {
    /// From the start, or from where an earlier process left off.
    fn begin(of: &'l Loop, job: &mut Job<'_>) -> Result<Self> {
        let found = job.found();
        let mut checkpoints =
            of.sizes.clone().map(|sizes| Checkpoints::new(job.run_dir, job.index(), sizes, of.keeping));
        if let (Some(checkpoints), Some(found)) = (&mut checkpoints, &found) {
            checkpoints.settle(found)?;
            job.on_disk(checkpoints.bytes(found.done), 0);
        }
        job.enter("step")?;
        let pool = job.pool();
        let model = job.take(of.input)?;
        let mut trainer = Trainer::new(model, &of.trainable, of.settings.clone(), of.total, of.extent, &pool)?;
        let mut over = false;
        let stand = match found {
            None => Stand::start(trainer.cursor()),
            Some(found) => {
                found.restore(&mut trainer)?;
                over = found.done;
                found.stand
            }
        };
        Ok(Course { of, trainer, stand, checkpoints, over })
    }

    fn go_on(&mut self, job: &mut Job<'_>) -> Result<()> {
        let of = self.of;
        if self.stand.trainer.step == 0 {
            self.score(job, 0)?;
        }
        let mut stop = match self.stand.owes_score {
            true => self.owed(job)?,
            false => self.is_past_patience(),
        };
        let encoded = of.data.train.encoded()?;
        let plan = of.data.train.batches(&encoded)?;
        let accum = of.settings.accum;
        let mut passes = Passes::new(&plan, accum);
        let mut done = passes.before(self.stand.data);
        for window in plan.walk(of.length, accum, self.stand.data) {
            if stop {
                break;
            }
            let before = done;
            done = passes.after(window.at);
            self.stand.data = window.next;
            if window.counted == 0 {
                self.stand.passed_over += 1;
                continue;
            }
            let started = Instant::now();
            let learnt = train::Window {
                micros: window.micros().map(|rows| micro(&encoded.tokens, rows)).collect(),
                epoch: done,
            };
            let named = |fault| of.data.train.name_rows(&encoded, &learnt.rows(), fault);
            let report = self.trainer.step(&learnt).map_err(|fault| self.left(job, named(fault)))?;
            self.stand.trainer = self.trainer.cursor();
            job.watch.step(&StepSeen {
                step: report.step,
                steps: of.total,
                epoch: report.epoch,
                loss: report.loss,
                lr: report.lr,
                grad_norm: report.grad_norm,
                tokens: report.tokens,
                counted: report.counted,
                seconds: started.elapsed().as_secs_f64(),
                skipped: report.skipped,
            });
            if report.skipped {
                self.stand.skipped += 1;
                let rows = of.data.train.named(&encoded, &learnt.rows()).unwrap_or_default();
                let step = report.step;
                job.watch.note(&format!("step {step} made no update: its loss or gradient is not finite ({rows})"));
            }
            self.stand.owes_score = of.data.held.is_some() && of.every.due(report.step, before, done);
            if self.stand.owes_score {
                stop = self.owed(job)?;
            }
            let last = report.step == of.total;
            if of.keeping.due(report.step, before, done) && !last {
                self.checkpoint(job)?;
            }
            if job.stop()() && !(last || stop) {
                return Err(self.suspended(job));
            }
        }
        self.end(job)
    }

    /// What there is to do after the last step.
    fn end(&mut self, job: &mut Job<'_>) -> Result<()> {
        self.trainer.sound().map_err(|fault| self.left(job, fault))?;
        let step = self.trainer.cursor().step;
        if self.stand.skipped > 0 && self.trainer.cursor().updates == 0 {
            return Err(Fault::new("train.not_finite", "no step could be made: every loss or gradient is not finite")
                .note("nothing has been learnt, so it is the weights themselves that are damaged, or the rows")
                .help("leave `on_nan=skip` out to see the first of them"));
        }
        if self.stand.scored_at != step && self.of.data.held.is_some() {
            self.stand.owes_score = true;
            self.owed(job)?;
        }
        if self.stand.passed_over > 0 {
            let windows = self.stand.passed_over;
            job.watch.note(&format!("{windows} windows had no token that counts, and made no step"));
        }
        if self.stand.skipped > 0 {
            let skipped = self.stand.skipped;
            job.watch.note(&format!("{skipped} of {step} steps made no update: loss or gradient were not finite"));
        }
        if let (Some(best), Some(checkpoints)) = (self.stand.best.filter(|_| self.of.keeping.best), &self.checkpoints) {
            if best.step != step {
                checkpoints.best(best)?.replace_parameters(&mut self.trainer)?;
            }
            job.watch.best(best.step, best.loss());
        }
        let Some(checkpoints) = &mut self.checkpoints else { return Ok(()) };
        job.enter("checkpoint")?;
        let marks = job.watch.marks()?;
        checkpoints.finish(&self.trainer, &self.stand, marks, &mut |came, went| job.on_disk(came, went))
    }

    /// Takes the score that is owed, and sees what follows of it: whether this is the best state so far, and whether it is
    /// time to end, which is returned. An interruption leaves the score owed.
    fn owed(&mut self, job: &mut Job<'_>) -> Result<bool> {
        let step = self.trainer.cursor().step;
        let loss = match self.score(job, step) {
            Err(fault) if fault.code == STOPPED => return Err(self.suspended(job)),
            other => other.map_err(|fault| self.left(job, fault))?,
        };
        self.stand.owes_score = false;
        self.stand.scored_at = step;
        let Some(loss) = loss.filter(|_| self.of.keeping.best) else { return Ok(false) };
        if self.stand.best.is_none_or(|best| loss < best.loss()) {
            self.stand.best = Some(Best::new(step, loss));
            self.stand.worse = 0;
            self.checkpoint(job)?;
            return Ok(false);
        }
        self.stand.worse += 1;
        let ends = self.is_past_patience();
        if ends && step < self.of.total {
            let worse = self.stand.worse;
            job.watch.note(&format!("training ends after step {step}: {worse} scores in a row were no better"));
        }
        Ok(ends)
    }

    fn is_past_patience(&self) -> bool {
        self.of.keeping.patience.is_some_and(|patience| self.stand.worse >= patience)
    }

    fn checkpoint(&mut self, job: &mut Job<'_>) -> Result<()> {
        let step = self.stand.trainer.step;
        if self.checkpoints.as_ref().is_some_and(|known| known.last_step() == Some(step)) {
            return Ok(());
        }
        // What cannot be gone on from is not kept.
        self.trainer.sound().map_err(|fault| self.left(job, fault))?;
        let Some(checkpoints) = &mut self.checkpoints else { return Ok(()) };
        job.enter(checkpoints.phase())?;
        let marks = job.watch.marks()?;
        let path = checkpoints.write(&self.trainer, &self.stand, marks, &mut |came, went| job.on_disk(came, went))?;
        job.watch.checkpoint(step, &path);
        job.enter("step")
    }

    /// Ends because that was asked for, with a checkpoint.
    fn suspended(&mut self, job: &mut Job<'_>) -> Fault {
        let (step, total) = (self.trainer.cursor().step, self.of.total);
        match self.checkpoint(job) {
            Err(fault) => fault,
            Ok(()) if self.checkpoints.is_some() => stopped(format!("interrupted after step {step} of {total}")),
            Ok(()) => stopped(format!(
                "interrupted after step {step} of {total}; with `save_every=none` the training begins anew"
            )),
        }
    }

    /// A failure of a step, with what is left of the steps before.
    fn left(&self, job: &Job<'_>, fault: Fault) -> Fault {
        if !matches!(fault.code, "train.not_finite" | "model.not_finite") {
            return fault;
        }
        match self.checkpoints.as_ref().and_then(Checkpoints::last_step) {
            Some(step) => fault.note(format!(
                "the state after step {step} is kept: `tunepipe resume {}` goes on from there, and meets the same \
                 numbers unless it was the machine that failed",
                job.run_dir.display()
            )),
            None => fault,
        }
    }

    /// The held-out rows' loss, where there are any.
    fn score(&mut self, job: &mut Job<'_>, step: u64) -> Result<Option<f64>> {
        let Some(held) = &self.of.data.held else { return Ok(None) };
        job.enter("evaluate")?;
        let encoded = held.encoded()?;
        let batches = held.epoch(&encoded)?;
        let total = batches.len() as u64;
        let stop = job.stop();
        let watch = &mut job.watch;
        let eval = self.trainer.evaluate(&mut (0..batches.len()).map(|at| {
            if stop() {
                return Err(stopped("interrupted while rows were being scored"));
            }
            watch.progress("scoring", at as u64, total, Count::Batches);
            Ok(micro(&encoded.tokens, batches.micro(at)))
        }))?;
        watch.finish();
        if !eval.loss.is_finite() {
            return Err(match step {
                0 => super::eval::not_finite(eval.loss),
                _ => super::eval::not_finite(eval.loss).help("a lower `lr=`, or a longer `warmup=`"),
            });
        }
        let seen = EvalSeen { step: Some(step), loss: eval.loss, perplexity: eval.perplexity, counted: eval.counted };
        job.watch.eval(&self.of.stage, &seen);
        job.enter("step")?;
        Ok(Some(eval.loss))
    }
}

/// Passes over the data, as windows end: 1.5 is half way through the second.
struct Passes<'a> {
    plan: &'a BatchPlan<'a>,
    accum: u64,
    /// An epoch and its windows.
    known: (u64, u64),
}

impl<'a> Passes<'a> {
    fn new(plan: &'a BatchPlan<'a>, accum: usize) -> Self {
        Passes { plan, accum: accum as u64, known: (u64::MAX, 1) }
    }

    fn windows(&mut self, epoch: u64) -> u64 {
        if self.known.0 != epoch {
            self.known = (epoch, (self.plan.epoch(epoch).len() as u64).div_ceil(self.accum).max(1));
        }
        self.known.1
    }

    /// When the window there is done.
    fn after(&mut self, at: data::Cursor) -> f64 {
        at.epoch as f64 + (at.window + 1) as f64 / self.windows(at.epoch) as f64
    }

    /// When the window there comes next.
    fn before(&mut self, at: data::Cursor) -> f64 {
        match at.window.checked_sub(1) {
            None => at.epoch as f64,
            Some(window) => self.after(data::Cursor { window, ..at }),
        }
    }
}
