//! `tunepipe completions`: for the shell to know verbs, flags, stages, codes and devices.

use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::{Cli, Exit};
use crate::catalog::{Catalog, codes};
use crate::text::out;

pub fn completions(shell: Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "tunepipe", &mut script);
    out::data(&String::from_utf8_lossy(&script));
    Exit::Done
}

/// The command line with the catalogue's names where they can stand. Only the scripts know them: the verbs themselves
/// answer a wrong name with the nearest.
fn command() -> Command {
    let catalog = Catalog::standard();
    let recipes = catalog.recipes.iter().map(|recipe| recipe.decl.name.as_str());
    let mut topics: Vec<&str> =
        catalog.stages.iter().flat_map(|stage| stage.name.split(' ')).chain(recipes).chain(codes::all()).collect();
    topics.sort_unstable();
    topics.dedup();
    let devices: Vec<&str> = catalog.devices.iter().map(|device| device.name.as_str()).collect();
    let with_budgets = ["run", "plan", "fit", "check", "preview"].into_iter().fold(Cli::command(), |command, verb| {
        command.mut_subcommand(verb, |verb| {
            verb.mut_arg("budget", |arg| arg.value_parser(PossibleValuesParser::new(&devices)))
        })
    });
    with_budgets
        .mut_subcommand("explain", |verb| {
            verb.mut_arg("topic", |arg| arg.value_parser(PossibleValuesParser::new(topics)))
        })
        .mut_subcommand("new", |verb| verb.mut_arg("card", |arg| arg.value_parser(PossibleValuesParser::new(devices))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_has_a_script_that_knows_the_catalogue() {
        for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "tunepipe", &mut script);
            let script = String::from_utf8(script).expect("text");
            assert!(script.contains("preview"), "{shell}");
            // Values are completed after flags by three shells, and where they stand alone by two.
            if matches!(shell, Shell::Bash | Shell::Fish | Shell::Zsh) {
                assert!(script.contains("colab-t4"), "{shell}");
            }
            if matches!(shell, Shell::Bash | Shell::Zsh) {
                assert!(script.contains("value.taken") && script.contains("lora"), "{shell}");
            }
        }
    }

    #[test]
    fn every_verb_says_what_it_does_and_shows_an_example() {
        for verb in Cli::command().get_subcommands() {
            let name = verb.get_name();
            assert!(verb.get_about().is_some(), "{name} lacks words");
            let after = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains(&format!("tunepipe {name}")), "{name} lacks an example");
            for arg in verb.get_arguments().filter(|arg| arg.get_id() != "help") {
                assert!(arg.get_help().is_some(), "{name} {} lacks words", arg.get_id());
            }
        }
        Cli::command().debug_assert();
    }
}
