//! Every example of the catalogue checks when it stands behind what it needs.

use super::check;
use tunepipe::catalog::{AdapterPattern, Catalog, Pattern, StageDecl, WeightsPattern};
use tunepipe::text::render;

/// A pipeline's start that makes what a stage takes or borrows, out of the model and the rows that these lines load.
pub fn before(stage: &StageDecl, model: &str, rows: &str) -> String {
    let mut text = String::from("tunepipe 1\n");
    let (mut data, mut nf4, mut lora) = (false, false, false);
    for input in stage.inputs.iter().filter(|input| !input.optional) {
        match input.pattern {
            Pattern::Data => data = true,
            Pattern::Model { weights, adapter } => {
                text += model;
                nf4 |= weights == WeightsPattern::Nf4;
                lora |= adapter == AdapterPattern::Lora;
            }
        }
    }
    if data || lora {
        text += rows;
    }
    if nf4 {
        text += "quantize nf4\n";
    }
    if lora {
        text += "train lora\n";
    }
    text
}

#[test]
fn examples_of_the_catalogue_check() {
    let mut count = 0;
    let catalog = Catalog::standard();
    for stage in catalog.stages.iter().chain(catalog.recipes.iter().map(|recipe| &recipe.decl)) {
        for example in &stage.examples {
            let (model, rows) = ("load model \"base\" shape=tiny-llama\n", "load data \"rows.jsonl\" format=alpaca\n");
            let text = before(stage, model, rows) + example;
            let (sources, plan, diagnostics) = check(&stage.name, &text, &[]);
            let errors: Vec<_> = diagnostics.into_iter().filter(|diagnostic| diagnostic.is_error()).collect();
            assert!(plan.is_some() && errors.is_empty(), "{text}\n{}", render(&sources, &errors, false));
            count += 1;
        }
    }
    assert!(count >= catalog.stages.len() + catalog.recipes.len());
}

#[test]
fn pipelines_in_the_documentation_check() {
    let mut count = 0;
    for file in ["docs/language.md", "README.md"] {
        let Ok(text) = std::fs::read_to_string(file) else { continue };
        for block in text.split("```tunepipe\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            // Part of a file is shown without its first line.
            if !block.starts_with("tunepipe 1") {
                continue;
            }
            let (sources, plan, diagnostics) = check(file, block, &[]);
            assert!(plan.is_some() && diagnostics.is_empty(), "{block}\n{}", render(&sources, &diagnostics, false));
            count += 1;
        }
    }
    assert!(count >= 6, "{count} pipelines");
}
