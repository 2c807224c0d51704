//! The plan as programs read it. The shape is part of the interface: a change raises `version`.

use serde_json::{Map, Value, json};

use super::TargetPlan;
use crate::memory::{PerPlace, Place};

fn places(bytes: PerPlace) -> Value {
    let mut map = Map::new();
    for place in said(bytes) {
        map.insert(place.key().into(), bytes[place].into());
    }
    Value::Object(map)
}

/// Every place that a budget can have, and mapped files where there are some.
fn said(bytes: PerPlace) -> impl Iterator<Item = Place> {
    Place::ALL.into_iter().filter(move |place| *place != Place::Mapped || bytes[*place] > 0)
}

/// One target of `plan --json`.
pub fn target_json(plan: &TargetPlan) -> Value {
    let total = plan.profile.peak();
    let mut limits = Map::new();
    let mut peak = Map::new();
    for place in said(total) {
        if let Some(limit) = plan.limits.get(place) {
            limits.insert(place.key().into(), limit.into());
        }
        let at = plan.profile.summit(place);
        peak.insert(
            place.key().into(),
            json!({
                "bytes": total[place],
                "stage": at.map(|(stage, _)| stage.name.clone()),
                "phase": at.map(|(_, phase)| phase.name),
            }),
        );
    }
    let stages: Vec<Value> = plan
        .profile
        .stages
        .iter()
        .map(|stage| {
            let phases: Vec<Value> = stage
                .phases
                .iter()
                .map(|phase| {
                    let holdings: Vec<Value> = phase
                        .holdings
                        .iter()
                        .map(|h| json!({"name": h.name, "place": h.place.key(), "bytes": h.bytes, "grows_with": h.grows}))
                        .collect();
                    json!({"name": phase.name, "peak": places(phase.peak), "holdings": holdings})
                })
                .collect();
            json!({"name": stage.name, "line": stage.line, "phases": phases})
        })
        .collect();
    json!({
        "budget": plan.label,
        "device": if total[Place::Gpu] > 0 { "cuda" } else { "cpu" },
        "fits": plan.fits(),
        "limits": limits,
        "peak": peak,
        "stages": stages,
        "remarks": plan.remarks,
    })
}

/// The whole answer of `plan --json`.
pub fn plan_json(targets: &[TargetPlan], diagnostics: Value) -> Value {
    json!({
        "version": 1,
        "targets": targets.iter().map(target_json).collect::<Vec<_>>(),
        "diagnostics": diagnostics,
    })
}
