//! The rows of a pipeline as its models will see them, for a person to look at.

use std::sync::Arc;

use super::facts::Encoded;
use super::lower::lower_watched;
use super::{Facts, Target};
use crate::data::{Settings, Tokenizer};
use crate::plan::Plan;
use crate::text::Diagnostic;

/// One data set, tokenised for the stage that uses it.
pub struct Preview {
    /// Line of its `load data`.
    pub line: usize,
    /// Who uses it: `train lora` in line 12.
    pub stage: String,
    pub stage_line: usize,
    pub settings: Arc<Settings>,
    pub tokenizer: Arc<Tokenizer>,
    /// The chat template that the pipeline or the model names.
    pub template: Option<String>,
    pub encoded: Arc<Encoded>,
}

/// Every data set of the plan with each tokenizer and template that it meets, in the order of use, and what was found
/// wrong on the way. A set whose files or tokenizer are absent has none.
pub fn previews(plan: &Plan, target: &Target, facts: &Facts) -> (Vec<Preview>, Vec<Diagnostic>) {
    let mut seen: Vec<Preview> = Vec::new();
    let lowering = lower_watched(plan, target, facts, &mut |step, world| {
        let Ok(model) = world.model(step) else { return };
        let Some(tokenizer) = &model.tokenizer else { return };
        for (input, _) in &step.inputs {
            let Ok(Some(data)) = world.data(step, input) else { continue };
            let known = |other: &Preview| {
                other.line == data.line && Arc::ptr_eq(&other.tokenizer, tokenizer) && other.template == model.template
            };
            if !data.present || seen.iter().any(known) {
                continue;
            }
            // A fault of the rows is said by the stage that meets it.
            if let Ok(encoded) = facts.encode_whole(&data.settings, tokenizer, model.template.as_deref()) {
                seen.push(Preview {
                    line: data.line,
                    stage: step.stage.clone(),
                    stage_line: step.line,
                    settings: data.settings.clone(),
                    tokenizer: tokenizer.clone(),
                    template: model.template.clone(),
                    encoded,
                });
            }
        }
    });
    (seen, lowering.diagnostics)
}

/// Tokens of the longest row that every model of the plan was made for; none where no model's sizes are known.
pub fn positions(plan: &Plan, target: &Target, facts: &Facts) -> Option<usize> {
    let mut least: Option<usize> = None;
    lower_watched(plan, target, facts, &mut |step, world| {
        if let Ok(model) = world.model(step) {
            let most = model.shape.max_positions;
            least = Some(least.map_or(most, |least| least.min(most)));
        }
    });
    least
}
