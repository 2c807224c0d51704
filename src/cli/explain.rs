//! `tunepipe explain`: what a stage or recipe takes, makes and holds; what a diagnostic's code means.

use std::path::Path;

use serde_json::{Value, json};

use super::prepare::{answer_json, complain, show, source_text};
use super::terminal::paper;
use super::{Exit, outputs};
use crate::catalog::{Catalog, RecipeDecl, StageDecl, codes};
use crate::check;
use crate::text::{self, Fault, Sources, nearest, out};
use crate::tools::{
    code_json, code_page, declared_json, declared_page, declared_signature, recipe_json, recipe_page, reference,
    stage_json, stage_page,
};

pub fn explain(topic: &[String], json: bool) -> Exit {
    let catalog = Catalog::standard();
    if let Some(at) = topic.iter().position(|word| is_pipeline(word)) {
        let names: Vec<&str> = topic.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, word)| &**word).collect();
        return of_file(Path::new(&topic[at]), &names, json);
    }
    // Pasted out of a pipeline or a diagnostic, a topic may come as one word or several, in quotes or brackets.
    let topic = topic.join(" ");
    let topic = topic.split_whitespace().collect::<Vec<_>>().join(" ");
    let topic = topic.trim_matches(|c: char| "`'\"[]".contains(c)).to_lowercase();
    if let Some(stage) = stage_meant(catalog, &topic) {
        if json {
            answer_json(&stage_json(stage))
        } else {
            out::answer(&stage_page(stage, paper()))
        }
        return Exit::Done;
    }
    if let Some(recipe) = recipe_meant(catalog, &topic) {
        if json {
            answer_json(&recipe_json(recipe))
        } else {
            out::answer(&recipe_page(recipe, paper()));
            // `lora` is a recipe, and a word of a stage's name.
            let others = family(catalog, &topic);
            if !others.is_empty() {
                let others: Vec<String> = others.iter().map(|name| format!("`tunepipe explain {name}`")).collect();
                out::say(&format!("note: the stage of that name is another page: {}", others.join(", ")));
            }
        }
        return Exit::Done;
    }
    if let Some(code) = codes::find(&topic) {
        if json {
            answer_json(&code_json(code, &topic))
        } else {
            out::answer(&code_page(code, &topic, paper()))
        }
        return Exit::Done;
    }
    complain(&unknown(catalog, &topic));
    Exit::Usage
}

/// A name of a file and not of a stage, recipe or code.
fn is_pipeline(word: &str) -> bool {
    word.ends_with(".tp") || (word.contains('/') && Path::new(word).is_file())
}

/// The recipes that a file declares or uses, or those of them that are named.
fn of_file(file: &Path, names: &[&str], json: bool) -> Exit {
    let (shown, folder, text) = match source_text(file) {
        Ok(found) => found,
        Err(fault) => {
            complain(&fault);
            return Exit::Usage;
        }
    };
    let mut sources = Sources::default();
    let id = sources.add(shown.clone(), &folder, text);
    let (all, diagnostics) = check::recipes(id, &mut sources, Catalog::standard());
    let known: Vec<&str> = all.iter().map(|one| &*one.decl.name).collect();
    let unknown = names.iter().find(|name| !known.contains(name));
    if let Some(name) = unknown.filter(|_| diagnostics.is_empty()) {
        let fault = Fault::new("usage.topic", format!("`{shown}` has no recipe `{name}`"));
        complain(&match nearest(name, known.iter().copied()) {
            Some(near) => fault.help(format!("did you mean `{near}`?")),
            None if known.is_empty() => fault,
            None => fault.help(format!("its recipes are {}", known.join(", "))),
        });
        return Exit::Usage;
    }
    if all.is_empty() && diagnostics.is_empty() {
        complain(
            &Fault::new("usage.topic", format!("`{shown}` neither declares nor uses a recipe")).help(format!(
                "`tunepipe plan {shown}` says what it holds, `tunepipe explain STAGE` what a stage does"
            )),
        );
        return Exit::Usage;
    }
    let declarations = check::declarations(id, &sources);
    let wanted = all.iter().filter(|one| names.is_empty() || names.contains(&&*one.decl.name));
    let pages = wanted.map(|one| {
        let home = sources.get(one.span.source).name.clone();
        (declared_signature(&one.decl, &declarations, &folder), home, sources.slice(one.span))
    });
    if json {
        let recipes: Vec<Value> = pages.map(|(decl, home, text)| declared_json(&decl, &home, text)).collect();
        let diagnostics = text::to_json(&sources, &diagnostics);
        answer_json(&json!({"version": 1, "file": shown, "recipes": recipes, "diagnostics": diagnostics}));
    } else {
        let pages: Vec<String> = pages.map(|(decl, home, text)| declared_page(&decl, &home, text, paper())).collect();
        if !pages.is_empty() {
            out::answer(&pages.join("\n"));
        }
        show(&sources, &diagnostics);
    }
    if diagnostics.is_empty() { Exit::Done } else { Exit::Wrong }
}

/// Words with `-` and `_` read as spaces: `train-lora` and `train_lora` are `train lora`.
fn apart(name: &str) -> String {
    name.replace(['-', '_'], " ")
}

/// The stage of a name, however its words are joined; or the only one that has the word in its name, where no recipe
/// goes by it.
fn stage_meant(catalog: &'static Catalog, topic: &str) -> Option<&'static StageDecl> {
    let spelt = catalog.stages.iter().find(|stage| apart(&stage.name) == apart(topic));
    spelt.or_else(|| match family(catalog, topic)[..] {
        [only] if recipe_meant(catalog, topic).is_none() => catalog.stage(only),
        _ => None,
    })
}

fn recipe_meant(catalog: &'static Catalog, topic: &str) -> Option<&'static RecipeDecl> {
    catalog.recipes.iter().find(|recipe| apart(&recipe.decl.name) == apart(topic))
}

/// Stages whose names have the word.
fn family(catalog: &'static Catalog, word: &str) -> Vec<&'static str> {
    let names = catalog.stages.iter().map(|stage| &*stage.name);
    names.filter(|name| name.split(' ').any(|part| part == word)).collect()
}

fn unknown(catalog: &'static Catalog, topic: &str) -> Fault {
    let fault = Fault::new("usage.topic", format!("there is no stage, recipe or code called `{topic}`"));
    let family = family(catalog, topic);
    if !family.is_empty() {
        return fault.help(format!("did you mean {}?", words(&family)));
    }
    let group: Vec<&str> = codes::all().filter(|code| code.split('.').next() == Some(topic)).collect();
    if !group.is_empty() {
        return fault.help(format!("did you mean {}?", words(&group)));
    }
    let argument = topic.trim_end_matches('=');
    let takers: Vec<String> = catalog
        .stages
        .iter()
        .filter(|stage| stage.args.iter().any(|arg| arg.name == argument))
        .map(|stage| format!("`tunepipe explain {}`", stage.name))
        .collect();
    if !takers.is_empty() {
        return fault.help(format!("`{argument}` is an argument, explained with its stage: {}", takers.join(", ")));
    }
    let recipes = catalog.recipes.iter().map(|recipe| &*recipe.decl.name);
    let names = catalog.stages.iter().map(|stage| &*stage.name).chain(recipes).chain(codes::all());
    match nearest(topic, names) {
        Some(near) => fault.help(format!("did you mean `{near}`?")),
        // `team.small` is a file's.
        None if topic.contains('.') => {
            fault.help("of a recipe that a file declares or uses: `tunepipe explain FILE.tp NAME`")
        }
        None => fault.help("`tunepipe ls stages` and `tunepipe ls codes` list what can be explained"),
    }
}

fn words(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// Writes the pages of the reference into a folder.
pub fn write_reference(folder: &Path) -> Exit {
    if let Err(fault) = outputs::folder("--reference", folder) {
        complain(&fault);
        return Exit::Usage;
    }
    for (name, text) in reference(Catalog::standard()) {
        let path = folder.join(name);
        let made = path
            .parent()
            .map_or(Ok(()), |parent| std::fs::create_dir_all(parent).map_err(|e| Fault::io("make", parent, &e)));
        if let Err(fault) = made.and_then(|()| crate::store::write(&path, true, |out| out.put(text.as_bytes()))) {
            complain(&fault);
            return Exit::Failed;
        }
    }
    Exit::Done
}
