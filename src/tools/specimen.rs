//! What a stage takes, found out by planning it: the same lowering as any pipeline's, on a model that people know.

use crate::catalog::{AdapterPattern, Atom, Catalog, Pattern, StageDecl, WeightsPattern};
use crate::check::check_text;
use crate::memory::{PerPlace, Place, Profile};
use crate::plan::{Capability, Plan, Val};
use crate::stages::{Facts, Silent, Target, lower};
use crate::text::Sources;

/// The model that figures are for.
pub const SHAPE: &str = "llama-3-8b";
/// The longest row of the data that figures are for.
pub const MAX_LEN: usize = 1024;

/// A pipeline's start that makes what a stage takes or borrows, on the shape named.
pub fn before(stage: &StageDecl, shape: &str) -> String {
    let mut text = String::from("tunepipe 1\n");
    let (mut data, mut nf4, mut lora) = (false, false, false);
    for input in stage.inputs.iter().filter(|input| !input.optional) {
        match input.pattern {
            Pattern::Data => data = true,
            Pattern::Model { weights, adapter } => {
                text += &format!("load model \"base\" shape={shape}\n");
                nf4 |= weights == WeightsPattern::Nf4;
                lora |= adapter == AdapterPattern::Lora;
            }
        }
    }
    if data || lora {
        text += &format!("load data \"rows.jsonl\" format=alpaca max_len={MAX_LEN} long=truncate\n");
    }
    if nf4 {
        text += "quantize nf4\n";
    }
    if lora {
        text += "train lora\n";
    }
    text
}

/// A holding of a stage's own phases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub phase: &'static str,
    pub name: String,
    pub place: Place,
    pub grows: &'static str,
}

/// What one change of an argument does to the stage's peak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    pub argument: String,
    /// As it is typed: `free_logits`, `batch=2`.
    pub change: String,
    /// Bytes more, or fewer, in each place where it is not nothing.
    pub bytes: Vec<(Place, i128)>,
}

/// A stage, planned on a card.
#[derive(Debug, Clone, Default)]
pub struct Specimen {
    pub held: Vec<Held>,
    pub effects: Vec<Effect>,
}

/// Plans the stage with its defaults, then with each flag turned, each count doubled and each choice that is off made. Empty where it cannot be
/// planned without files.
pub fn specimen(stage: &StageDecl) -> Specimen {
    let Some(statement) = stage.examples.first() else { return Specimen::default() };
    let bare = format!("{}{statement}\n", before(stage, SHAPE));
    let mut sources = Sources::default();
    let id = sources.add("example", std::path::Path::new("no-such-folder"), bare);
    let (Some(mut plan), _) = check_text(id, &mut sources, Catalog::standard(), &[]) else {
        return Specimen::default();
    };
    defaults(stage, &mut plan);
    let facts = Facts::new(Box::new(Silent));
    // The pages of the manual are the same wherever they are written.
    let target = Target {
        label: "a card".into(),
        gpu: true,
        capability: Some(Capability(8, 9)),
        threads: 8,
        ..Target::this_machine()
    };
    let Some((held, base)) = planned(&plan, &target, &facts) else { return Specimen::default() };
    let mut effects = Vec::new();
    for (name, val, change) in changes(stage, &plan) {
        let mut changed = plan.clone();
        let arg = changed.steps.last_mut().and_then(|step| step.args.0.iter_mut().find(|arg| arg.name == name));
        let Some(arg) = arg else { continue };
        arg.val = val;
        let Some((_, peak)) = planned(&changed, &target, &facts) else { continue };
        let bytes: Vec<(Place, i128)> = Place::ALL
            .into_iter()
            .map(|place| (place, i128::from(peak[place]) - i128::from(base[place])))
            .filter(|(_, bytes)| *bytes != 0)
            .collect();
        if !bytes.is_empty() {
            effects.push(Effect { argument: name, change, bytes });
        }
    }
    Specimen { held, effects }
}

/// The example's own choices would hide what the defaults do.
fn defaults(stage: &StageDecl, plan: &mut Plan) {
    let Some(step) = plan.steps.last_mut() else { return };
    for arg in &mut step.args.0 {
        let declared = stage.arg(&arg.name);
        if let Some(default) = declared.filter(|a| !a.kind.takes_path()).and_then(|a| a.default.clone()) {
            arg.val = default;
        }
    }
}

fn changes(stage: &StageDecl, plan: &Plan) -> Vec<(String, Val, String)> {
    let Some(step) = plan.steps.last() else { return Vec::new() };
    stage
        .args
        .iter()
        .filter_map(|arg| {
            let name = arg.name.clone();
            match step.args.val(&name) {
                Val::Bool(on) if arg.kind.is_flag() => {
                    let written = if *on { format!("no_{name}") } else { name.clone() };
                    Some((name, Val::Bool(!on), written))
                }
                Val::Int(n) if *n > 0 && arg.kind.0.iter().any(|atom| matches!(atom, Atom::Int(_))) => {
                    let twice = n.checked_mul(2)?;
                    Some((name.clone(), Val::Int(twice), format!("{name}={twice}")))
                }
                Val::None => {
                    let symbol = arg.kind.symbols().next()?.to_owned();
                    Some((name.clone(), Val::Symbol(symbol.clone()), format!("{name}={symbol}")))
                }
                _ => None,
            }
        })
        .collect()
}

/// The last stage's own holdings, and the most it reaches.
fn planned(plan: &Plan, target: &Target, facts: &Facts) -> Option<(Vec<Held>, PerPlace)> {
    let schedule = lower(plan, target, facts).schedule?;
    let mut held: Vec<Held> = Vec::new();
    for phase in &schedule.stages.last()?.phases {
        for holding in phase.holdings.iter().filter(|holding| holding.bytes > 0) {
            held.push(Held {
                phase: phase.name,
                name: holding.name.clone(),
                place: holding.place,
                grows: holding.grows,
            });
        }
    }
    let peak = Profile::of(&schedule).ok()?.stages.last()?.peak();
    Some((held, peak))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_says_what_its_switches_save() {
        let stage = Catalog::standard().stage("train lora").expect("declared");
        let specimen = specimen(stage);
        let effect = |name: &str| specimen.effects.iter().find(|e| e.argument == name).map(|e| e.bytes.clone());
        for saves in ["free_logits", "recompute"] {
            let bytes = effect(saves).unwrap_or_default();
            assert!(bytes.iter().any(|(place, bytes)| *place == Place::Gpu && *bytes < 0), "{saves}: {bytes:?}");
        }
        let offload = effect("offload").unwrap_or_default();
        let by = |of| offload.iter().find(|(place, _)| *place == of).map_or(0, |(_, bytes)| *bytes);
        assert!(by(Place::Gpu) < 0 && by(Place::Ram) > 0, "{offload:?}");
        let batch = effect("batch").unwrap_or_default();
        assert!(batch.iter().any(|(place, bytes)| *place == Place::Gpu && *bytes > 0), "{batch:?}");
        assert!(effect("lr").is_none());
        // A longer training keeps more checkpoints, and takes nothing else.
        let epochs = effect("epochs").unwrap_or_default();
        assert!(epochs.iter().all(|(place, _)| *place == Place::Disk), "{epochs:?}");
        assert!(specimen.held.iter().any(|held| held.name == "saved activations" && held.grows.contains("batch")));
    }
}
