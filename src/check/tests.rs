use std::path::{Path, PathBuf};

use super::*;
use crate::plan::{Capability, Type, Unit, Val, Weights};

fn run(text: &str, params: &[(&str, &str)]) -> (Option<Plan>, Vec<Diagnostic>) {
    let mut sources = Sources::default();
    let id = sources.add("t.tp", Path::new("home"), text);
    let params: Vec<_> = params.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    check_text(id, &mut sources, Catalog::standard(), &params)
}

fn plan(text: &str, params: &[(&str, &str)]) -> Plan {
    let (plan, diagnostics) = run(text, params);
    plan.unwrap_or_else(|| panic!("{diagnostics:?}"))
}

const BASE: &str = "tunepipe 1\nload model \"m\"\nload data \"d\" format=text\n";

#[test]
fn the_design_example_becomes_a_plan() {
    let plan = plan(
        "tunepipe 1\nbudget colab-t4 disk=60GiB\nbudget ram=8GiB\nparam epochs = 8\n\
         load model \"models/llama\" shape=llama-3-8b\nload data \"a.jsonl\" format=alpaca\n  max_len=1024 holdout=500rows\n\
         quantize nf4\ntrain lora rank=8 alpha=16\n  epochs=epochs warmup=3% free_logits\nsave adapter \"out/a\"\n\
         save merged \"out/m\" low_ram\n",
        &[],
    );
    assert_eq!(plan.steps.iter().map(|step| step.line).collect::<Vec<_>>(), [5, 6, 8, 9, 11, 12]);
    let load = &plan.steps[0].args;
    assert_eq!(load.path("path"), Some(PathBuf::from("home/models/llama")));
    assert_eq!(*load.val("shape"), Val::Symbol("llama-3-8b".into()));
    assert!(load.given("path") && !load.given("seed") && load.is_none("tokenizer"));
    let train = &plan.steps[3];
    assert_eq!(train.stage, "train lora");
    assert_eq!(*train.args.val("alpha"), Val::Float(16.0));
    assert_eq!(
        (train.args.count("epochs"), train.args.flag("free_logits"), train.args.flag("recompute")),
        (8, true, false)
    );
    assert_eq!(*train.args.val("warmup"), Val::Quantity(3.0, Unit::Percent));
    let decl = Catalog::standard().stage("train lora").expect("is declared");
    let names = |args: &crate::plan::Args| args.0.iter().map(|arg| arg.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&train.args), decl.args.iter().map(|arg| arg.name.clone()).collect::<Vec<_>>());
    let (t4, own) = (&plan.budgets[0].device, &plan.budgets[1].device);
    assert_eq!((t4.name.as_deref(), t4.cuda, t4.disk), (Some("colab-t4"), Some(Capability(7, 5)), Some(60 << 30)));
    assert_eq!((own.name.as_deref(), own.gpu, own.ram), (None, None, Some(8 << 30)));
    assert_eq!(plan.params, [("epochs".to_owned(), Val::Int(8))]);
}

#[test]
fn values_know_their_makers_takers_and_last_uses() {
    let plan = plan(&format!("{BASE}quantize nf4\ntrain lora\neval\nsave adapter\n"), &[]);
    let model = |weights, lora| Type::Model { weights, lora };
    let all: Vec<_> = plan.values.iter().map(|v| (v.kind, v.made_by, v.taken_by, v.last_use)).collect();
    assert_eq!(
        all,
        [
            (model(Weights::Dense, false), 0, Some(2), 2),
            (Type::Data, 1, None, 4),
            (model(Weights::Nf4, false), 2, Some(3), 3),
            (model(Weights::Nf4, true), 3, None, 5),
        ]
    );
    assert_eq!(plan.steps[3].inputs.len(), 2);
    assert_eq!(plan.steps[3].makes, [plan.steps[5].input("model").expect("is given")]);
}

#[test]
fn names_pass_on() {
    let plan = plan(
        "tunepipe 1\nload model \"m\" as base\nload data \"d\" format=text as rows\ntrain lora model=base data=rows\n\
         train lora model=base data=rows valid=rows as done\nsave adapter model=done\n",
        &[],
    );
    let names: Vec<_> = plan.values.iter().map(|value| value.name.as_deref()).collect();
    assert_eq!(names, [Some("base"), Some("rows"), Some("base"), Some("done")]);
    assert_eq!(plan.steps[3].input("valid"), plan.steps[3].input("data"));
}

#[test]
fn the_command_line_gives_params() {
    let text = "tunepipe 1\nparam rows: Path\nparam out = \"out\"\nparam rate: Float = 1\nparam many = 3\nparam clip = none\n\
                param template: String|chatml = none\n\
                load model \"m\" template=template\nload data rows format=text\n\
                train lora lr=rate epochs=many clip=clip\nsave adapter \"${out}/a-${rate}\"\nsave merged out\n";
    let given =
        [("rows", "data/x.jsonl"), ("rate", "3e-4"), ("many", "5"), ("clip", "0.5"), ("template", "my template")];
    let plan = plan(text, &given);
    // A path of the command line is relative to the working directory, one of the file to the file's folder.
    assert_eq!(plan.steps[1].args.path("path"), Some(PathBuf::from("data/x.jsonl")));
    assert_eq!(plan.steps[0].args.text("template"), Some("my template"));
    assert_eq!(plan.steps[3].args.path("path"), Some(PathBuf::from("home/out/a-3e-4")));
    assert_eq!(plan.steps[4].args.path("path"), Some(PathBuf::from("home/out")));
    assert_eq!((plan.steps[2].args.float("lr"), plan.steps[2].args.count("epochs")), (3e-4, 5));
    let given = [("rows", "\"a b\""), ("out", "runs/x"), ("template", "chatml")];
    let plan = super::tests::plan(text, &given);
    assert_eq!(plan.steps[1].args.path("path"), Some(PathBuf::from("a b")));
    assert_eq!(plan.steps[3].args.path("path"), Some(PathBuf::from("runs/x/a-1")));
    assert_eq!(*plan.steps[0].args.val("template"), Val::Symbol("chatml".into()));
}

#[test]
fn wrong_command_lines_are_told() {
    let text = format!("{BASE}param e = 1\ntrain lora epochs=e\nsave adapter\n");
    for (value, code) in [
        ("2.5", "type.whole"),
        ("", "param.value"),
        ("(1 +", "syntax.expected"),
        ("99999999999999999999", "syntax.number"),
        ("3steps", "type.mismatch"),
        ("(1 / 0)", "math.zero"),
    ] {
        let (plan, diagnostics) = run(&text, &[("e", value)]);
        assert!(plan.is_none(), "{value}");
        assert_eq!(diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), [code], "{value}");
    }
    assert_eq!(plan(&text, &[("e", "(1 + 1)")]).steps[2].args.count("epochs"), 2);
}

#[test]
fn budgets_come_from_the_command_line_too() {
    let mut sources = Sources::default();
    let catalog = Catalog::standard();
    let found = budget("rtx-4090 ram=32GiB", &mut sources, catalog).expect("is a budget");
    assert_eq!((found.label(), found.device.ram), ("rtx-4090".into(), Some(32 << 30)));
    for (text, code) in [
        ("rtx-4900", "name.unknown_device"),
        ("", "budget.empty"),
        ("gpu=24", "type.unit"),
        ("l4\nl4", "budget.part"),
        ("gpu=[", "syntax.bracket"),
        ("\"", "syntax.quote"),
    ] {
        let diagnostics = budget(text, &mut sources, catalog).expect_err(text);
        assert_eq!(diagnostics.first().map(|d| d.code), Some(code), "{text}");
    }
}

#[test]
fn an_unreadable_file_makes_no_plan_even_from_its_ast() {
    let mut sources = Sources::default();
    let id = sources.add("t.tp", Path::new(""), format!("{BASE}train lora (\n"));
    let (file, _) = crate::syntax::parse(&sources, id);
    assert!(check(&file, &mut sources, Catalog::standard(), &[]).0.is_none());
}
