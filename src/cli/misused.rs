//! A command line that cannot be read: what is wrong with it, and how it is said here.

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use super::prepare::{complain, usage};
use super::{Cli, Exit};
use crate::text::{Fault, out};

/// Shows what was asked for (`--help`, `--version`), or complains of what was written.
pub fn told(error: &Error) -> Exit {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return match error.print() {
            _ if error.use_stderr() => Exit::Usage,
            Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
                out::say("error: the answer could not be written: stdout takes no more");
                Exit::Failed
            }
            _ => Exit::Done,
        };
    }
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    complain(&fault(error, &words));
    Exit::Usage
}

/// Whether an answer in JSON was asked for, as far as that can be told.
pub fn wants_json() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}

/// `words` are those of the command line, behind the program's name.
fn fault(error: &Error, words: &[String]) -> Fault {
    let one = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(all)) if !all.is_empty() => Some(all.join(", ")),
        _ => None,
    };
    let cli = Cli::command();
    let verb = words.iter().find(|word| cli.find_subcommand(word).is_some());
    let command = verb.map_or_else(|| "tunepipe".to_owned(), |verb| format!("tunepipe {verb}"));
    let more = format!("`{command} --help` lists what it takes");
    let given = one(ContextKind::InvalidArg).unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument if given.starts_with('-') => {
            let fault = usage(format!("`{command}` has no option `{given}`"));
            let whole = words.iter().find(|word| word.starts_with(&given)).map_or(&*given, |word| word);
            match one(ContextKind::SuggestedArg) {
                Some(near) => fault.help(format!("write `{near}`")),
                None if whole.ends_with(".tp") => {
                    fault.help(format!("a file whose name begins with `-` is written `./{whole}`"))
                }
                None => match as_param(whole, words).filter(|_| takes_params(verb)) {
                    Some((name, value)) => {
                        let plain = format!("a param goes without dashes, behind the file: `{name}={value}`");
                        fault.help(format!("{plain}; an argument of a stage is `--set train.{name}={value}`"))
                    }
                    None => fault.help(more),
                },
            }
        }
        ErrorKind::UnknownArgument => usage(format!("`{command}` has no use for `{given}`")).help(more),
        ErrorKind::InvalidSubcommand => {
            let first = one(ContextKind::InvalidSubcommand).unwrap_or_default();
            let fault = usage(format!("there is no command `{first}`"));
            match one(ContextKind::SuggestedSubcommand) {
                // `tunepipe finetune.tp`
                _ if first.ends_with(".tp") => {
                    fault.help(format!("say what to do with it: `tunepipe check {first}`, then `tunepipe run {first}`"))
                }
                Some(near) => fault.help(format!("write `tunepipe {}`", near.replace(", ", "`, or `tunepipe "))),
                None => fault.help(more),
            }
        }
        ErrorKind::MissingRequiredArgument => {
            let fault = usage(format!("`{command}` needs {}", given.replace("...", "")));
            match one(ContextKind::InvalidArg).is_some_and(|missing| missing.contains("FILE")) {
                true => fault.help(format!("for example `{command} finetune.tp`; `-` is standard input")),
                false => fault.help(more),
            }
        }
        ErrorKind::InvalidValue => {
            let value = one(ContextKind::InvalidValue).unwrap_or_default();
            let fault = match value.is_empty() {
                true => usage(format!("`{given}` needs a value")),
                false => usage(format!("`{value}` is no value of `{given}`")),
            };
            match (one(ContextKind::SuggestedValue), one(ContextKind::ValidValue)) {
                (Some(near), _) => fault.help(format!("write `{near}`")),
                (None, Some(all)) => fault.help(format!("it takes {all}")),
                (None, None) => fault.help(more),
            }
        }
        // The rest in clap's own words: a sentence, then paragraphs on usage.
        _ => {
            let text = error.render().to_string();
            let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
            usage(first.split_whitespace().collect::<Vec<_>>().join(" ")).help(more)
        }
    }
}

/// `--epochs=3` and `--epochs 3` as a name and a value.
fn as_param(option: &str, words: &[String]) -> Option<(String, String)> {
    let name = option.strip_prefix("--")?;
    let (name, value) = match name.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        None => {
            let behind = words.iter().position(|word| word == option).and_then(|at| words.get(at + 1));
            (name, behind.filter(|next| !next.starts_with('-')).cloned().unwrap_or_else(|| "…".into()))
        }
    };
    (!name.is_empty()).then(|| (name.replace('-', "_"), value))
}

/// Whether a verb is given a pipeline with params.
fn takes_params(verb: Option<&String>) -> bool {
    verb.is_some_and(|verb| matches!(&**verb, "run" | "plan" | "check" | "fit" | "preview"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn what_cannot_be_read_is_told_with_what_to_write() {
        for (line, message, help) in [
            ("check t.tp --epochs=3", "`tunepipe check` has no option `--epochs`", "behind the file: `epochs=3`;"),
            ("run t.tp --max-len 64", "has no option `--max-len`", "`--set train.max_len=64`"),
            ("plan t.tp --budgt x", "has no option `--budgt`", "write `--budget`"),
            ("fmt t.tp --chekc", "has no option `--chekc`", "write `--check`"),
            ("ls stages --bogus=1", "`tunepipe ls` has no option `--bogus`", "`tunepipe ls --help`"),
            ("check -dash.tp", "has no option `-d`", "`./-dash.tp`"),
            ("finetune.tp", "there is no command `finetune.tp`", "`tunepipe run finetune.tp`"),
            ("chekc t.tp", "there is no command `chekc`", "write `tunepipe check`"),
            ("check", "`tunepipe check` needs <FILE>", "`tunepipe check finetune.tp`"),
            ("ls stage", "`stage` is no value of `<WHAT>`", "write `stages`"),
            ("run t.tp --device x", "`x` is no value of `--device <DEVICE>`", "auto, cpu, cuda"),
            ("plan t.tp --diff", "`--diff <OLD.json>` needs a value", "`tunepipe plan --help`"),
            ("preview t.tp --rows x", "invalid value 'x'", "`tunepipe preview --help`"),
            ("run t.tp --run-dir a --run-dir b", "cannot be used multiple times", "`tunepipe run --help`"),
            ("explain", "`tunepipe explain` needs <TOPIC>", "`tunepipe explain --help`"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let error = Cli::try_parse_from(std::iter::once("tunepipe".to_owned()).chain(words.clone()))
                .expect_err("cannot be read");
            let fault = fault(&error, &words);
            assert!(fault.message.contains(message), "{line}: {fault:?}");
            assert!(fault.help.as_deref().is_some_and(|words| words.contains(help)), "{line}: {fault:?}");
        }
    }
}
