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
    assert_eq!((&*found.label, found.device.ram), ("rtx-4090", Some(32 << 30)));
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
    for wrong in ["train lora (\n", "train lora rank=8x\n", "train lora\nuse \"a\"\n"] {
        let id = sources.add("t.tp", Path::new(""), format!("{BASE}{wrong}"));
        let (file, _) = crate::syntax::parse(&sources, id);
        assert!(check(&file, &mut sources, Catalog::standard(), &Asked::default()).0.is_none(), "{wrong}");
    }
}

/// A pipeline with all that can stand beside it.
fn asked(text: &str, asked: &Asked) -> (Option<Plan>, Vec<Diagnostic>) {
    let mut sources = Sources::default();
    let id = sources.add("t.tp", Path::new("home"), text);
    check_asked(id, &mut sources, Catalog::standard(), asked)
}

#[test]
fn the_nearest_value_of_a_param_counts() {
    let text = format!(
        "{BASE}param lr = 1\nparam batch-size = 1\nparam out: Path = \"a\"\n\
                        train lora lr=lr batch=batch-size\nsave adapter \"${{out}}\"\n"
    );
    let file = "# ours\nlr = 2  # two\nbatch-size = 2\nout = \"x\"\n";
    let mut given =
        Asked { files: vec![("team.params".into(), PathBuf::from("team"), file.into())], ..Asked::default() };
    let values = |given: &Asked| {
        let (plan, diagnostics) = asked(&text, given);
        let plan = plan.unwrap_or_else(|| panic!("{diagnostics:?}"));
        (
            plan.steps[2].args.float("lr"),
            plan.steps[2].args.count("batch"),
            plan.steps[3].args.path("path"),
            plan.overrides.len(),
        )
    };
    assert_eq!(values(&Asked::default()), (1.0, 1, Some("home/a".into()), 0));
    assert_eq!(values(&given), (2.0, 2, Some("team/x".into()), 3));
    given.variables = vec![("TUNEPIPE_PARAM_BATCH_SIZE".into(), "3".into()), ("TUNEPIPE_PARAM_LR".into(), "3".into())];
    assert_eq!(values(&given), (3.0, 3, Some("team/x".into()), 3));
    given.params = vec![("lr".into(), "4".into())];
    assert_eq!(values(&given), (4.0, 3, Some("team/x".into()), 3));

    given.variables.push(("TUNEPIPE_PARAM_RL".into(), "3".into()));
    given.files[0].2 += "lr = 7\nepochs 3\nwarm = 1%\n";
    let (plan, diagnostics) = asked(&text, &given);
    assert!(plan.is_none());
    let mut codes: Vec<_> = diagnostics.iter().map(|found| (found.code, found.is_error())).collect();
    codes.sort_unstable();
    // A variable may be meant for another pipeline; what a file says twice or to nobody is a mistake.
    let wrong = [("param.line", true), ("param.twice", true), ("param.unknown", false), ("param.unknown", true)];
    assert_eq!(codes, wrong);
}

#[test]
fn set_replaces_one_argument_of_one_stage() {
    let text = format!(
        "{BASE}recipe small(model: Model<dense>, data: Data, rank: Int = 4)\n  train lora rank=rank batch=4\n\
                        train lora rank=2\nsave adapter\nload model \"m\" as m\nsmall model=m\n"
    );
    let set = |sets: &[&str]| {
        let sets = sets.iter().map(|set| (*set).to_owned()).collect();
        let (plan, diagnostics) = asked(&text, &Asked { sets, ..Asked::default() });
        let codes: Vec<_> = diagnostics.iter().filter(|found| found.is_error()).map(|found| found.code).collect();
        let trained = |plan: Plan| -> Vec<(usize, usize, bool)> {
            let trains = plan.steps.iter().filter(|step| step.stage == "train lora");
            trains
                .map(|step| (step.args.count("rank"), step.args.count("batch"), step.args.flag("recompute")))
                .collect()
        };
        (plan.map(trained).unwrap_or_default(), codes)
    };
    assert_eq!(set(&[]), (vec![(2, 1, false), (4, 4, false)], vec![]));
    let line = 1 + text.lines().position(|line| line.starts_with("train lora rank=2")).expect("stands there");
    let sets = [format!("{line}.batch=8"), format!("{line}.recompute"), "small.rank=16".into()];
    assert_eq!(set(&[&sets[0], &sets[1], &sets[2]]), (vec![(2, 8, true), (16, 4, false)], vec![]));
    for (wrong, code) in [
        ("train.batch=2", "set.several"),
        ("small.batch=2", "set.argument"),
        ("trian.batch=2", "set.stage"),
        ("batch=2", "set.form"),
        ("save.path", "arg.no_value"),
        ("small.rank=x", "name.unknown"),
        ("small.rank=0.5", "type.whole"),
    ] {
        assert_eq!(set(&[wrong]), (vec![], vec![code]), "{wrong}");
    }
    let twice = [format!("{line}.rank=8"), format!("{line}.rank=16")];
    assert_eq!(set(&[&twice[0], &twice[1]]), (vec![], vec!["arg.twice"]));
}

/// Following the help of "could be several stages" always leads to one.
#[test]
fn every_stage_can_be_set_however_deep_it_stands() {
    let text = format!(
        "{BASE}recipe twice(model: Model, data: Data)\n  train lora steps=1\n  train lora steps=2\n\
         recipe outer(model: Model, data: Data)\n  twice\n  train lora steps=3\n  twice\n\
         recipe solo(model: Model, data: Data)\n  train lora steps=5\n\n\
         outer\ntwice\ntrain lora steps=4\nsolo\nsave adapter\n"
    );
    let set = |set: &str| {
        let (plan, found) = asked(&text, &Asked { sets: vec![set.to_owned()], ..Asked::default() });
        let batches: Vec<usize> = plan
            .iter()
            .flat_map(|plan| &plan.steps)
            .filter(|step| step.stage == "train lora")
            .map(|step| step.args.count("batch"))
            .collect();
        (batches, found.into_iter().find(|one| one.is_error()))
    };
    let (_, error) = set("train.batch=7");
    let error = error.expect("nine could be meant");
    assert_eq!(error.code, "set.several");
    let help = error.help.expect("says what works");
    let given = help.split('"').nth(1).expect("in quotes").replace('…', "7");
    let (batches, error) = set(&given);
    assert!(error.is_none() && batches.iter().filter(|batch| **batch == 7).count() == 1, "{given}: {error:?}");

    // Of every stage, by the lines of its calls and its own.
    let line = |of: &str| 1 + text.lines().position(|line| line == of).expect("stands there");
    let (outer, inner, alone) = (line("outer"), line("  twice"), line("twice"));
    let (first, second, third) =
        (line("  train lora steps=1"), line("  train lora steps=2"), line("  train lora steps=3"));
    for (at, way) in [
        format!("{outer}.{inner}.{first}"),
        format!("{outer}.{inner}.{second}"),
        format!("{third}"),
        format!("{outer}.{}.{first}", inner + 2),
        format!("{outer}.{}.{second}", inner + 2),
        format!("{alone}.{first}"),
        format!("{alone}.{second}"),
        format!("{}", alone + 1),
        format!("{}.train", alone + 2),
    ]
    .iter()
    .enumerate()
    {
        let (batches, error) = set(&format!("{way}.batch=7"));
        let others = batches.iter().enumerate().all(|(other, batch)| (*batch == 7) == (other == at));
        assert!(error.is_none() && batches.len() == 9 && others, "{way}: {batches:?} {error:?}");
    }
    // A call has no such argument, and what it stands for has.
    let (_, error) = set(&format!("{alone}.batch=7"));
    let help = error.and_then(|error| error.help).unwrap_or_default();
    assert!(help.contains(&format!("{alone}.train lora.batch")), "{help}");
}

#[test]
fn texts_that_hold_one_another_end_somewhere() {
    let mut text = String::from("tunepipe 1\nlet a0 = \"xxxxxxxx\"\n");
    for at in 1..60 {
        text += &format!("let a{at} = \"${{a{0}}}${{a{0}}}\"\n", at - 1);
    }
    let (plan, diagnostics) = asked(&text, &Asked::default());
    assert!(plan.is_none());
    let wrong: Vec<_> = diagnostics.iter().filter(|found| found.is_error()).map(|found| found.code).collect();
    assert_eq!(wrong, ["text.large"]);
}
