//! `eval`: loss, perplexity and counted tokens of rows that are not trained on.

use super::bridge::{holdings_of, packing};
use super::rows::{Rows, micro};
use super::watch::stopped;
use super::world::blame;
use super::{Body, Count, EvalSeen, Job, Lowered, Refusal, Stage, World};
use crate::memory::Phase;
use crate::model::{Extent, Way};
use crate::plan::{Step, ValueId};
use crate::text::{Diagnostic, Fault, Result};
use crate::train::{self, Evaluator};

pub struct Eval;

impl Stage for Eval {
    fn name(&self) -> &'static str {
        "eval"
    }

    fn lower(&self, step: &Step, world: &mut World<'_>) -> Result<Lowered, Refusal> {
        let model = world.model(step)?;
        let Some(id) = step.input("model") else { return Err(Vec::new()) };
        let Some(data) = world.data(step, "data")? else { return Err(Vec::new()) };
        let all = Rows::of(step, "data", &data, &model, world, step.args.count("batch"), 0)?;
        let rows = match (step.args.text("split"), all.held_out()) {
            (Some("all"), _) | (Some("auto") | None, None) => all.whole(),
            (_, Some(held)) => held,
            (_, None) => {
                return Err(vec![
                    Diagnostic::error("eval.no_holdout", "these rows have no holdout")
                        .label(step.args.span("split").unwrap_or(step.name_span), "of what?")
                        .help("on `load data`: holdout=5%, or here: split=all"),
                ]);
            }
        };
        let fail = |fault: Fault| vec![blame(step, "batch", &fault)];
        let largest = rows.largest().map_err(fail)?;
        let extent = largest.extent;
        if let Some(words) = &largest.words {
            world.remark(format!("line {}: {words}", step.line));
        }
        if extent.longest > model.shape.max_positions {
            return Err(vec![super::train::too_long(step, extent.longest, &model)]);
        }
        let threads = world.target.threads;
        let planned =
            train::evaluation(&model.shape, model.form, model.adapter.as_ref(), extent, threads).map_err(fail)?;
        let mut holdings = holdings_of(&planned, world.target.place(), "").map_err(fail)?;
        for holding in &mut holdings {
            holding.grows = train::grows_with(&holding.name);
        }
        world.target.resize(&mut holdings, model.form);
        holdings.extend(packing(&model.shape, extent, largest.window, Way::Forward, world.target));
        Ok(Lowered {
            phases: vec![Phase::new("score", holdings)],
            keeps: Vec::new(),
            body: Box::new(Score { id, rows, extent }),
        })
    }
}

/// A score that is no number.
pub(super) fn not_finite(loss: f64) -> Fault {
    Fault::new("model.not_finite", format!("the model's loss on these rows is {loss}"))
        .note("its weights are damaged, or too large for the type they are held in")
}

struct Score {
    id: ValueId,
    rows: Rows,
    extent: Extent,
}

impl Body for Score {
    fn run(self: Box<Self>, job: &mut Job<'_>) -> Result<()> {
        job.enter("score")?;
        let pool = job.pool();
        let encoded = self.rows.encoded()?;
        let batches = self.rows.epoch(&encoded)?;
        let total = batches.len() as u64;
        let (model, watch) = job.borrow_and_watch(self.id)?;
        let mut evaluator = Evaluator::new(model, self.extent, &pool)?;
        let stop = watch.stop();
        let eval = evaluator.run(
            model,
            &mut (0..batches.len()).map(|at| {
                if stop() {
                    return Err(stopped("interrupted while rows were being scored"));
                }
                watch.progress("scoring", at as u64, total, Count::Batches);
                Ok(micro(&encoded.tokens, batches.micro(at)))
            }),
        )?;
        watch.finish();
        if !eval.loss.is_finite() {
            return Err(not_finite(eval.loss));
        }
        let seen = EvalSeen { step: None, loss: eval.loss, perplexity: eval.perplexity, counted: eval.counted };
        watch.eval("eval", &seen);
        Ok(())
    }
}
