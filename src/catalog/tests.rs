use std::path::Path;

use super::*;
use crate::plan::{Capability, Type, Unit, Weights};

#[test]
fn the_embedded_catalogue_has_no_faults() {
    let (catalog, diagnostics, sources) = load::standard();
    assert!(diagnostics.is_empty(), "{}", crate::text::render(&sources, &diagnostics, false));
    assert!(catalog.stages.len() >= 11 && catalog.devices.len() >= 15 && catalog.shapes.len() >= 9);
    for stage in catalog.stages.iter().chain(catalog.recipes.iter().map(|recipe| &recipe.decl)) {
        assert!(!stage.doc.is_empty() && !stage.examples.is_empty(), "{} lacks words or an example", stage.name);
        for arg in &stage.args {
            assert!(!arg.doc.is_empty(), "{} {} lacks words", stage.name, arg.name);
            assert!(!arg.name.starts_with("no_"), "{} {}: `no_` is how a flag is denied", stage.name, arg.name);
        }
    }
}

#[test]
fn the_longest_name_wins() {
    let catalog = Catalog::standard();
    assert_eq!(catalog.stage_at(&["train", "lora", "lora"]).map(|(n, s)| (n, &*s.name)), Some((2, "train lora")));
    assert_eq!(catalog.stage_at(&["eval", "holdout"]).map(|(n, _)| n), Some(1));
    assert!(catalog.stage_at(&["train"]).is_none() && catalog.stage_at(&[]).is_none());
}

#[test]
fn devices_and_shapes_read_as_written() {
    let catalog = Catalog::standard();
    let cuda = |name| catalog.device(name).and_then(|d| d.device.cuda);
    assert_eq!(cuda("rtx-5090"), Some(Capability(12, 0)));
    assert_eq!(cuda("colab-t4"), Some(Capability(7, 5)));
    assert_eq!(catalog.device("colab-t4").and_then(|d| d.device.gpu), Some(15_837_691_904));
    let tiny = catalog.shape("tiny-llama").expect("is declared");
    assert!(
        tiny.keys.contains(&("tied".into(), Val::Bool(true))) && tiny.keys.contains(&("ffn".into(), Val::Int(256)))
    );
}

#[test]
fn kinds_hold_values() {
    let catalog = Catalog::standard();
    let train = catalog.stage("train lora").expect("is declared");
    let fit = |name: &str, val: Val| catalog.fit(&train.arg(name).expect("is declared").kind, &val, Path::new("f"));
    assert_eq!(fit("alpha", Val::Int(16)), Ok(Val::Float(16.0)));
    assert_eq!(fit("warmup", Val::Int(50)), Err(Misfit::Unit("steps")));
    assert_eq!(fit("eval_every", Val::Quantity(0.5, Unit::Epochs)), Ok(Val::Quantity(0.5, Unit::Epochs)));
    assert_eq!(fit("eval_every", Val::Quantity(0.5, Unit::Steps)), Err(Misfit::Whole));
    assert!(matches!(fit("eval_every", Val::Quantity(0.0, Unit::Steps)), Err(Misfit::Range(_))));
    assert!(matches!(fit("rank", Val::Int(0)), Err(Misfit::Range(_))));
    assert_eq!(fit("rank", Val::Float(8.0)), Err(Misfit::Whole));
    assert_eq!(fit("targets", Val::Symbol("q_proj".into())), Err(Misfit::NotList));
    assert_eq!(fit("schedule", Val::Symbol("cosin".into())), Err(Misfit::Symbol(Some("cosine".into()))));
    assert_eq!(fit("clip", Val::None), Ok(Val::None));
    let load = catalog.stage("load data").expect("is declared");
    let path = &load.arg("path").expect("is declared").kind;
    assert_eq!(catalog.fit(path, &Val::Str("a".into()), Path::new("f")), Ok(Val::Path("f/a".into())));
    assert_eq!(catalog.fit(path, &Val::Str("a*".into()), Path::new("f")), Ok(Val::Path("f/a*".into())));
    for bad in ["", "~/a"] {
        assert!(matches!(catalog.fit(path, &Val::Str(bad.into()), Path::new("f")), Err(Misfit::Path(_))), "{bad}");
    }
}

#[test]
fn patterns_keep_weights() {
    let nf4 = Type::Model { weights: Weights::Nf4, lora: false };
    let train = Catalog::standard().stage("train lora").expect("is declared");
    assert!(train.inputs[0].pattern.accepts(nf4));
    assert_eq!(train.makes[0].made_of(Some(nf4)), Some(Type::Model { weights: Weights::Nf4, lora: true }));
    assert_eq!(train.makes[0].made_of(None), None);
}

#[test]
fn a_faulty_catalogue_is_told() {
    let text = "tunepipe 1\nstage a\n  x: Itn 1..3\n  y: Int 1..3 = 9\n  y: Bool\n  make Modl<dense>\neval\n\
                device d gpu=3\nshape s a=1 a=2\ndevice e\ndevice e\n";
    let (_, diagnostics, _) = load::read(&[("x.tp", text)]);
    let codes: Vec<_> = diagnostics.iter().map(|d| d.code).collect();
    for code in [
        "type.range",
        "type.mismatch",
        "name.twice",
        "type.unknown",
        "catalog.statement",
        "catalog.device",
        "arg.twice",
    ] {
        assert!(codes.contains(&code), "{code} is not in {codes:?}");
    }
}
