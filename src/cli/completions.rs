//! `tunepipe completions`: for the shell to know verbs, flags, stages, codes and devices.

use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::{Cli, Exit};
use crate::catalog::{Catalog, codes};
use crate::text::out;

pub fn completions(shell: Shell) -> Exit {
    out::data(&script(shell));
    Exit::Done
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "tunepipe", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == Shell::Fish {
        script.push_str(&standing_alone());
    }
    script
}

/// What fish's script lacks: the values that stand without a flag, as `ls stages`.
fn standing_alone() -> String {
    let mut out = String::new();
    for verb in command().get_subcommands() {
        for arg in verb.get_positionals() {
            let values = arg.get_possible_values();
            let names: Vec<&str> = values.iter().filter(|value| !value.is_hide_set()).map(|v| v.get_name()).collect();
            if !names.is_empty() {
                let name = verb.get_name();
                let names = names.join(" ");
                out +=
                    &format!("complete -c tunepipe -n \"__fish_tunepipe_using_subcommand {name}\" -f -a '{names}'\n");
            }
        }
    }
    out
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
            let script = script(shell);
            assert!(script.contains("preview"), "{shell}");
            // Values are completed by three shells.
            if matches!(shell, Shell::Bash | Shell::Fish | Shell::Zsh) {
                assert!(script.contains("colab-t4") && script.contains("shapes"), "{shell}");
                assert!(script.contains("value.taken") && script.contains("lora"), "{shell}");
            }
        }
    }

    /// What a quote, a bracket or a comment of a shell's script is still open for at its end.
    fn left_open(script: &str, shell: Shell) -> Option<String> {
        let mut open: Vec<char> = Vec::new();
        let mut chars = script.chars().peekable();
        let mut before = '\n';
        while let Some(c) = chars.next() {
            match (open.last(), c) {
                // In single quotes a backslash is one, but for fish.
                (Some('\''), '\\') if shell == Shell::Fish => drop(chars.next()),
                (Some('\''), '\'') | (Some('"'), '"') => drop(open.pop()),
                (Some('\''), _) => {}
                (_, '\\') => drop(chars.next()),
                (Some('"'), _) => {}
                (_, '\'' | '"') => open.push(c),
                (_, '#') if before.is_whitespace() => while chars.next_if(|c| *c != '\n').is_some() {},
                (_, '{') => open.push('{'),
                (Some('{'), '}') => drop(open.pop()),
                (_, '}') => return Some("a `}` closes nothing".into()),
                _ => {}
            }
            before = c;
        }
        (!open.is_empty()).then(|| format!("{open:?}"))
    }

    #[test]
    fn scripts_are_whole_and_name_every_verb_and_flag() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            assert_eq!(left_open(&script, shell), None, "{shell}");
            for verb in Cli::command().get_subcommands() {
                assert!(script.contains(verb.get_name()), "{shell}: {}", verb.get_name());
                for flag in verb.get_arguments().filter_map(|arg| arg.get_long()) {
                    let written = if shell == Shell::Fish { format!("-l {flag}") } else { format!("--{flag}") };
                    assert!(script.contains(&written), "{shell}: {} {written}", verb.get_name());
                }
            }
        }
        // The check itself finds what is open.
        assert!(left_open("complete -d 'Don't'\n", Shell::Fish).is_some());
        assert!(left_open("f() {\n", Shell::Zsh).is_some() && left_open("}", Shell::Zsh).is_some());
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
