//! `docs/reference/`: a page a stage, and one each for devices and shapes, written from the catalogue and the planner.

use std::fmt::Write;

use super::code_page::command;
use super::listing;
use super::recipe_flow::recipe_signature;
use super::signature::{default, flow, kind, pattern};
use super::specimen::{MAX_LEN, SHAPE, specimen};
use super::stage_page::{body, difference};
use crate::catalog::{Catalog, RecipeDecl, StageDecl, codes};

const MADE: &str =
    "<!-- Written by `tunepipe explain --reference docs/reference`; a test holds it to `stdlib/`. -->\n\n";

/// Every page by its file name.
pub fn reference(catalog: &Catalog) -> Vec<(String, String)> {
    let mut pages = vec![("README.md".to_owned(), index(catalog))];
    pages.extend(catalog.stages.iter().map(|stage| (file(stage), page(stage))));
    pages.extend(catalog.recipes.iter().map(|recipe| (recipe_file(recipe), recipe_text(recipe))));
    pages.push(("devices.md".to_owned(), devices(catalog)));
    pages.push(("shapes.md".to_owned(), shapes(catalog)));
    pages.push(("codes.md".to_owned(), codes()));
    pages
}

fn file(stage: &StageDecl) -> String {
    format!("{}.md", stage.name.replace(' ', "-"))
}

fn recipe_file(recipe: &RecipeDecl) -> String {
    format!("recipe-{}.md", recipe.decl.name)
}

/// The page of the stage it stands for, with its text below.
fn recipe_text(recipe: &RecipeDecl) -> String {
    let lines: Vec<&str> = body(recipe).collect();
    format!("{}\n## What it is\n\n```\n{}\n```\n", page(&recipe_signature(recipe)), lines.join("\n").trim_end())
}

fn index(catalog: &Catalog) -> String {
    let mut out = format!("# Reference\n\n{MADE}");
    out.push_str("The same is on the command line: `tunepipe explain train lora`, `tunepipe ls devices`.\n\n");
    out.push_str("| stage | values | what it does |\n|---|---|---|\n");
    for stage in &catalog.stages {
        let summary = stage.doc.lines().next().unwrap_or("");
        let _ = writeln!(out, "| [{}]({}) | `{}` | {} |", stage.name, file(stage), flow(stage), cell(summary));
    }
    out.push_str("\n| recipe | what it does |\n|---|---|\n");
    for recipe in &catalog.recipes {
        let summary = recipe.decl.doc.lines().next().unwrap_or("");
        let _ = writeln!(out, "| [{}]({}) | {} |", recipe.decl.name, recipe_file(recipe), cell(summary));
    }
    out.push_str("\nA `&` marks what is borrowed, a `?` what may be left out. ");
    out.push_str("Also: [devices](devices.md) for `budget`, [shapes](shapes.md) for `shape=`, [codes](codes.md) of\ndiagnostics.\n\n");
    out.push_str(COMMON);
    out
}

const COMMON: &str = "\
## Memory

What is held is listed by holding, as `tunepipe plan` names it. Weights and whatever kernels touch lie in RAM on a
processor and in GPU memory on a card; tokens, tokenizers, read buffers and write buffers always lie in RAM. A model's
holdings live until its last use, saved files to the end. Four holdings are common: `weights` (linear layers),
`embeddings` (table and head), `norms` (norms and biases, always f32), `adapter` (f32). A window is a range of a
tensor's rows: a multiple of 128, about 64 MiB of f32 at most unless 128 rows are more.
";

fn page(stage: &StageDecl) -> String {
    let mut out = format!("# {}\n\n{MADE}{}\n", stage.name, stage.doc);
    if !stage.inputs.is_empty() || !stage.makes.is_empty() {
        out.push('\n');
    }
    for input in &stage.inputs {
        let verb = if input.takes { "takes" } else { "borrows" };
        let optional = if input.optional { " (only by name)" } else { "" };
        let of = input.pattern.words();
        let _ = writeln!(out, "- {verb} `{}=`: `{}`, {of}{optional}", input.name, pattern(input.pattern));
    }
    for made in &stage.makes {
        let _ = writeln!(out, "- makes `{}`", pattern(*made));
    }
    if !stage.args.is_empty() {
        out.push_str("\n| argument | type | default | meaning |\n|---|---|---|---|\n");
    }
    for arg in &stage.args {
        let name = if arg.positional { format!("{} (without its name)", arg.name) } else { format!("`{}`", arg.name) };
        let (kind, default) = (code(&kind(arg)), code(&default(arg)));
        let _ = writeln!(out, "| {name} | {kind} | {default} | {} |", cell(&arg.doc));
    }
    for example in &stage.examples {
        let _ = write!(out, "\n```\n{}\n```\n", example.trim_end());
    }
    memory(&mut out, stage);
    out
}

fn memory(out: &mut String, stage: &StageDecl) {
    let found = specimen(stage);
    if found.held.is_empty() {
        return;
    }
    out.push_str("\n## Memory\n\nOn a card, beside what the values that are alive hold:\n\n");
    out.push_str("| phase | holding | place | grows with |\n|---|---|---|---|\n");
    for held in &found.held {
        let _ = writeln!(out, "| {} | {} | {} | {} |", held.phase, held.name, held.place, held.grows);
    }
    if found.effects.is_empty() {
        return;
    }
    let _ = write!(out, "\nWhat arguments change, on `{SHAPE}` with rows of {MAX_LEN} tokens:\n\n");
    out.push_str("| argument | the stage's peak |\n|---|---|\n");
    for effect in &found.effects {
        let _ = writeln!(out, "| `{}` | {} |", effect.change, difference(effect));
    }
}

fn devices(catalog: &Catalog) -> String {
    let mut out = format!("# Devices\n\n{MADE}For `budget` lines. What is not stated is not judged.\n\n");
    markdown(&mut out, &listing::devices(catalog));
    out
}

fn shapes(catalog: &Catalog) -> String {
    let mut out = format!("# Shapes\n\n{MADE}For `shape=`: a model can be planned before its weights are on disk.\n\n");
    markdown(&mut out, &listing::shapes(catalog));
    out
}

/// Every page of a code, in one file: a reader searches it for the code.
fn codes() -> String {
    let mut out = format!("# Codes\n\n{MADE}What `tunepipe explain CODE` says.\n");
    for page in codes::pages() {
        let names: Vec<String> = page.codes.iter().map(|name| format!("`{name}`")).collect();
        let _ = write!(out, "\n## {}\n\n{}\n", names.join(", "), page.title);
        if !page.doc.is_empty() {
            let _ = write!(out, "\n{}\n", page.doc);
        }
        if let Some(picture) = &page.shown {
            let _ = write!(out, "\nAs it is printed:\n\n```\n{picture}```\n");
        }
        for (side, example) in [("Wrong", &page.wrong), ("Right", &page.right)] {
            let Some(example) = example else { continue };
            let _ = writeln!(out, "\n{side}:");
            for (name, text) in &example.files {
                let _ = write!(out, "\n`{name}`\n\n```\n{text}```\n");
            }
            if !example.params.is_empty() {
                let _ = write!(out, "\n```\n{}\n```\n", command(example));
            }
            let _ = write!(out, "\n```\n{}```\n", example.text);
        }
    }
    out
}

fn markdown(out: &mut String, list: &listing::Listing) {
    let _ = writeln!(out, "| {} |", list.head.join(" | "));
    let _ = writeln!(out, "|{}", "---|".repeat(list.head.len()));
    for row in &list.rows {
        let cells: Vec<String> = row.iter().map(|text| cell(text)).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
}

fn code(text: &str) -> String {
    format!("`{}`", cell(text))
}

/// A bar would end a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
