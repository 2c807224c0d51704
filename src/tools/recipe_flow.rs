//! What goes into a recipe and what comes out. A recipe's parameters do not say whether they are taken, and its makes
//! are what its body leaves, so both are found by checking calls of it: one for each sort of model it accepts.

use std::path::Path;

use crate::catalog::{AdapterPattern, Catalog, Pattern, RecipeDecl, StageDecl, WeightsPattern};
use crate::check::{check_text, sample};
use crate::plan::{Type, Weights};
use crate::text::Sources;

/// The shape that calls are checked on; no type hangs on it.
const SHAPE: &str = "tiny-llama";

/// What one call came to.
struct Call {
    /// Of each input.
    taken: Vec<bool>,
    made: Vec<Type>,
}

/// The recipe's signature with what it takes and makes, as a stage's says it; as declared where no call of it can be
/// made up from its example.
pub fn recipe_signature(recipe: &RecipeDecl) -> StageDecl {
    declared_signature(&recipe.decl, "", Path::new("no-such-folder"))
}

/// The same for a recipe of a file: `declarations` is what the file declares, `folder` what its paths are relative to.
pub fn declared_signature(recipe: &StageDecl, declarations: &str, folder: &Path) -> StageDecl {
    let mut decl = recipe.clone();
    let models = [
        Type::Model { weights: Weights::Dense, lora: false },
        Type::Model { weights: Weights::Dense, lora: true },
        Type::Model { weights: Weights::Nf4, lora: false },
        Type::Model { weights: Weights::Nf4, lora: true },
    ];
    let calls: Vec<(Type, Call)> =
        models.into_iter().filter_map(|model| Some((model, called(recipe, model, declarations, folder)?))).collect();
    let Some((_, first)) = calls.first() else { return decl };
    for (at, input) in decl.inputs.iter_mut().enumerate() {
        input.takes = calls.iter().any(|(_, call)| call.taken.get(at) == Some(&true));
    }
    decl.makes = (0..first.made.len())
        .filter_map(|at| {
            let made: Option<Vec<(Type, Type)>> =
                calls.iter().map(|(model, call)| Some((*model, *call.made.get(at)?))).collect();
            made.map(|made| pattern_of(&made))
        })
        .collect();
    decl
}

/// Checks a call that gives each input by name; none where it is refused, or where an input is no such model.
fn called(decl: &StageDecl, model: Type, declarations: &str, folder: &Path) -> Option<Call> {
    let Type::Model { weights, lora } = model else { return None };
    let mut text = format!("tunepipe 1\n{declarations}load data \"rows.jsonl\" format=alpaca as lessons\n");
    let mut call = call_of(decl);
    let name = |at: usize| format!("given-{at}");
    // The line that makes each input.
    let mut makers: Vec<usize> = Vec::new();
    for (at, input) in decl.inputs.iter().enumerate() {
        let name = name(at);
        if input.pattern == Pattern::Data {
            text += &format!("load data \"rows.jsonl\" format=alpaca as {name}\n");
        } else if input.pattern.accepts(model) {
            text += &format!("load model \"base\" shape={SHAPE} as {name}\n");
            if weights == Weights::Nf4 {
                text += &format!("quantize nf4 model={name}\n");
            }
            if lora {
                text += &format!("train lora model={name} data=lessons\n");
            }
        } else {
            return None;
        }
        call += &format!(" {}={name}", input.name);
        makers.push(text.lines().count());
    }
    let mut sources = Sources::default();
    let line = text.lines().count() + 1;
    let id = sources.add("call", folder, text + &call + "\n");
    let (plan, _) = check_text(id, &mut sources, Catalog::standard(), &[]);
    let plan = plan?;
    let before = plan.steps.iter().filter(|step| step.line < line).count();
    let taken = |line: &usize| {
        let maker = plan.steps.iter().find(|step| step.line == *line);
        let id = maker.and_then(|step| step.makes.first());
        id.is_some_and(|id| plan.value(*id).taken_by.is_some_and(|taker| taker >= before))
    };
    let names: Vec<String> = (0..decl.inputs.len()).map(name).collect();
    // What the body gave a name of its own stays inside.
    let handed_on = |known: &Option<String>| known.as_ref().is_none_or(|known| names.contains(known));
    let made = plan
        .values
        .iter()
        .filter(|value| value.made_by >= before && value.taken_by.is_none() && handed_on(&value.name))
        .map(|value| value.kind)
        .collect();
    Some(Call { taken: makers.iter().map(taken).collect(), made })
}

/// How the recipe is called: as its example does, or with a value for each argument that has to have one.
fn call_of(decl: &StageDecl) -> String {
    let calls = |example: &&String| {
        example.split_whitespace().next() == Some(&*decl.name) && example.trim_end().lines().count() == 1
    };
    if let Some(example) = decl.examples.iter().find(calls) {
        return example.trim_end().to_owned();
    }
    let needed = decl.args.iter().filter(|arg| arg.default.is_none());
    needed.fold(decl.name.clone(), |call, arg| format!("{call} {}={}", arg.name, sample(&arg.kind)))
}

/// What is made of each model, as one pattern: what is the same for all is said, what follows the model is open.
fn pattern_of(made: &[(Type, Type)]) -> Pattern {
    let kinds: Option<Vec<(Weights, bool)>> = made
        .iter()
        .map(|(_, kind)| if let Type::Model { weights, lora } = kind { Some((*weights, *lora)) } else { None })
        .collect();
    let Some((first, rest)) = kinds.as_ref().and_then(|kinds| kinds.split_first()) else { return Pattern::Data };
    let weights = match first.0 {
        _ if rest.iter().any(|other| other.0 != first.0) => WeightsPattern::Any,
        Weights::Dense => WeightsPattern::Dense,
        Weights::Nf4 => WeightsPattern::Nf4,
    };
    let adapter = match first.1 {
        _ if rest.iter().any(|other| other.1 != first.1) => AdapterPattern::Any,
        true => AdapterPattern::Lora,
        false => AdapterPattern::None,
    };
    Pattern::Model { weights, adapter }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{InputDecl, signature};
    use crate::syntax::{self, Item};

    fn flow(decl: &StageDecl) -> Vec<String> {
        let says = |input: &InputDecl| format!("{} {}", if input.takes { "takes" } else { "borrows" }, input.name);
        decl.inputs.iter().map(says).chain(decl.makes.iter().map(|made| format!("makes {made}"))).collect()
    }

    #[test]
    fn recipes_of_the_library_say_what_goes_in_and_comes_out() {
        let of = |name: &str| flow(&recipe_signature(Catalog::standard().recipe(name).expect("declared")));
        assert_eq!(of("qlora"), ["takes model", "borrows data", "borrows valid", "makes Model<nf4, lora>"]);
        assert_eq!(of("lora"), ["takes model", "borrows data", "borrows valid", "makes Model<dense, lora>"]);
        assert_eq!(of("full"), ["takes model", "borrows data", "borrows valid", "makes Model<dense>"]);
        assert_eq!(of("continue_pretraining"), ["takes model", "makes Model<dense>"]);
    }

    #[test]
    fn what_is_made_follows_what_is_given_where_it_does() {
        let made = |pairs: &[(bool, bool)]| {
            let kind = |nf4: bool| Type::Model { weights: if nf4 { Weights::Nf4 } else { Weights::Dense }, lora: true };
            pattern_of(&pairs.iter().map(|(given, made)| (kind(*given), kind(*made))).collect::<Vec<_>>()).to_string()
        };
        assert_eq!(made(&[(false, false), (true, true)]), "Model<W, lora>");
        assert_eq!(made(&[(false, true), (true, true)]), "Model<nf4, lora>");
        assert_eq!(pattern_of(&[(Type::Data, Type::Data)]), Pattern::Data);
    }

    #[test]
    fn without_an_example_nothing_is_made_up() {
        let mut sources = Sources::default();
        let text = "recipe look(model: Model)\n  sample prompt=\"Q\"\n";
        let id = sources.add("r.tp", Path::new(""), text);
        let (file, _) = syntax::parse(&sources, id);
        let [Item::Recipe(line)] = &file.items[..] else { panic!("a recipe") };
        let (decl, _) = signature(line, &mut |_, _, _| None);
        let recipe = RecipeDecl { decl, file: "r.tp", text };
        assert_eq!(flow(&recipe_signature(&recipe)), ["borrows model"]);
    }
}
