//! One mistake gives one error: mistakes are planted in right pipelines, one at a time, and what is reported is counted.

use super::check;
use tunepipe::text::render;

const CORPUS: [(&str, &str); 5] = [
    ("qlora", super::fuzz::PIPELINE),
    (
        "named",
        "tunepipe 1
load model init=random shape=tiny-llama as base
load data \"rows.jsonl\" format=chat as rows
load data \"held.jsonl\" format=chat as held
train full model=base data=rows valid=held steps=40
  batch=4 lr=1e-3 clip=0.5 recompute
eval model=base data=held split=all
sample model=base prompt=\"What is a tide?\" max_new=16 temperature=0.7
save model model=base \"out/tiny\" max_shard=1GB
",
    ),
    (
        "recipe",
        "tunepipe 1
recipe small(model: Model<dense>, data: Data, rank: Int 1..64 = 8, lr: Float = 1e-4)
  quantize nf4 double_quant
  train lora rank=rank lr=lr seed=3

load model \"m\" shape=tiny-llama
load data [\"a.jsonl\" \"b.jsonl\"] format=text train_on=all packed max_len=512
small rank=16
save adapter \"out/a\"
",
    ),
    (
        "standard",
        "tunepipe 1
budget ram=16GiB disk=20GiB
param lr: Float = 2e-4
load model \"m\" shape=llama-3.2-1b dtype=bf16
load data \"chats.jsonl\" format=chat take=1000rows
load data \"rows.jsonl\" format=alpaca repeat=2
mix
qlora epochs=2 lr=lr rank=32
save adapter \"out/lr${lr}\" overwrite
",
    ),
    (
        "adapter",
        "tunepipe 1
load model \"m\" shape=tiny-llama
load adapter \"out/old\"
load data \"new.jsonl\" format=completion prompt=\"q\" completion=\"a\"
train lora epochs=1 lr=5e-5 eval_every=50steps
eval batch=4
save adapter \"out/new\"
save merged \"out/merged\" base=original dtype=f16
",
    ),
];

/// A way to plant a mistake: every text that it makes of a right one.
type Way = (&'static str, fn(&str) -> Vec<String>);

fn replaced(text: &str, from: &str, to: &str) -> Vec<String> {
    text.match_indices(from).map(|(at, _)| format!("{}{to}{}", &text[..at], &text[at + from.len()..])).collect()
}

/// Words of statements: byte ranges of runs of letters, digits and `_.-`, outside comments and quotes.
fn words(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let (mut quoted, mut comment, mut start) = (false, false, None);
    for (at, c) in text.char_indices() {
        let inside = !quoted && !comment && (c.is_alphanumeric() || "_.-".contains(c));
        match (start, inside) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                found.push((from, at));
                start = None;
            }
            _ => {}
        }
        match c {
            '"' if !comment => quoted = !quoted,
            '#' if !quoted => comment = true,
            '\n' => (quoted, comment) = (false, false),
            _ => {}
        }
    }
    found
}

/// Swaps two letters in the middle of each longer word.
fn swapped(text: &str) -> Vec<String> {
    let long = words(text).into_iter().filter(|(from, to)| to - from >= 4 && text[*from..*to].is_ascii());
    long.filter_map(|(from, to)| {
        let mut bytes = text.as_bytes().to_vec();
        let middle = (from + to) / 2;
        bytes.swap(middle - 1, middle);
        String::from_utf8(bytes).ok().filter(|new| new != text)
    })
    .collect()
}

/// Leaves a letter out of each longer word.
fn shortened(text: &str) -> Vec<String> {
    let long = words(text).into_iter().filter(|(from, to)| to - from >= 5);
    long.map(|(from, _)| format!("{}{}", &text[..from + 2], &text[from + 3..])).collect()
}

/// A comment of another language behind every line, above every line and in the middle of it.
fn commented(text: &str, open: &str, close: &str) -> Vec<String> {
    let comment = format!("{open} 3 words, \"here{close}");
    let mut texts = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let (before, after) = (&text[..at], &text[at + line.len()..]);
        let code = line.trim_end();
        let indent = &code[..code.len() - code.trim_start().len()];
        at += line.len();
        if code.starts_with('#') {
            continue;
        }
        texts.push(format!("{before}{indent}{comment}\n{line}{after}"));
        if !code.is_empty() && !code.contains('#') {
            texts.push(format!("{before}{code} {comment}\n{after}"));
        }
        if let (false, Some((left, right))) =
            (close.is_empty(), code.split_once(' ').filter(|(left, _)| !left.is_empty()))
            && !left.contains('#')
        {
            texts.push(format!("{before}{left} {comment} {right}\n{after}"));
            texts.push(format!("{before}{indent}{open} 3\n{indent}words{close}\n{line}{after}"));
        }
    }
    texts
}

fn without_line(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    (1..lines.len())
        .map(|out| lines.iter().enumerate().filter(|(at, _)| *at != out).map(|(_, line)| format!("{line}\n")).collect())
        .collect()
}

const WAYS: [Way; 30] = [
    ("a comment with //", |text| commented(text, "//", "")),
    ("a comment with --", |text| commented(text, "--", "")),
    ("a comment with ;", |text| commented(text, ";", "")),
    ("a comment in /* */", |text| commented(text, "/*", " */")),
    ("two letters swapped", swapped),
    ("a letter left out", shortened),
    ("a line left out", without_line),
    ("= left out", |text| replaced(text, "=", "")),
    ("= doubled", |text| replaced(text, "=", "==")),
    ("a colon for =", |text| replaced(text, "=", ":")),
    ("a colon and a blank for =", |text| replaced(text, "=", ": ")),
    ("blanks around =", |text| replaced(text, "=", " = ")),
    ("a closing quote left out", |text| replaced(text, "\" ", " ")),
    ("an opening quote left out", |text| replaced(text, " \"", " ")),
    ("single quotes", |text| {
        text.lines()
            .filter(|line| line.matches('"').count() == 2)
            .map(|line| text.replacen(line, &line.replace('"', "'"), 1))
            .collect()
    }),
    ("a bracket left open", |text| replaced(text, "]", "")),
    ("a bracket never opened", |text| replaced(text, "[", "")),
    ("a group left open", |text| replaced(text, ")", "")),
    ("a stray bracket", |text| replaced(text, "\nload", "\n] load")),
    ("a line break lost", |text| replaced(text, "\nsave", " save")),
    ("a comma between arguments", |text| replaced(text, " lr=", ", lr=")),
    ("dashes in front", |text| replaced(text, " lr=", " --lr=")),
    ("an argument twice", |text| replaced(text, " lr=", " lr=1 lr=")),
    ("no unit", |text| [replaced(text, "GiB", ""), replaced(text, "3%", "3"), replaced(text, "rows ", " ")].concat()),
    ("another unit", |text| [replaced(text, "GiB", "steps"), replaced(text, "rows\n", "%%\n")].concat()),
    ("a text for a number", |text| replaced(text, "rank=8", "rank=\"8\"")),
    ("a fraction for a whole", |text| {
        [replaced(text, "epochs=2", "epochs=2.5"), replaced(text, "batch=4", "batch=0.5")].concat()
    }),
    ("out of range", |text| [replaced(text, "rank=8", "rank=0"), replaced(text, "batch=4", "batch=0")].concat()),
    ("a tab", |text| replaced(text, "\n  ", "\n\t")),
    ("upper case", |text| {
        [replaced(text, "\nload", "\nLoad"), replaced(text, "lora", "LoRA"), replaced(text, " lr=", " LR=")].concat()
    }),
];

/// A comment in another language's way is one error and nothing else, wherever it stands.
#[test]
fn other_languages_comments_are_one_error_each() {
    let mut planted = 0;
    for (open, close) in [("//", ""), ("--", ""), (";", ""), ("/*", " */")] {
        for (name, text) in CORPUS {
            for mutant in commented(text, open, close) {
                let (sources, _, found) = check(name, &mutant, &[]);
                let errors: Vec<_> = found.into_iter().filter(|one| one.is_error()).collect();
                let shown = render(&sources, &errors, false);
                assert!(matches!(&errors[..], [only] if only.code == "syntax.comment"), "{mutant}\n{shown}");
                planted += 1;
            }
        }
    }
    assert!(planted > 400, "{planted}");
}

#[test]
fn one_mistake_is_one_error() {
    let (mut planted, mut reported) = (0usize, 0usize);
    let mut worst: Vec<(usize, String)> = Vec::new();
    let mut table = String::new();
    for (name, text) in CORPUS {
        let (sources, _, found) = check(name, text, &[]);
        let errors: Vec<_> = found.into_iter().filter(|one| one.is_error()).collect();
        assert!(errors.is_empty(), "{}", render(&sources, &errors, false));
    }
    for (way, plant) in WAYS {
        let (mut these, mut said) = (0usize, 0usize);
        for (name, text) in CORPUS {
            for mutant in plant(text) {
                let (sources, _, found) = check(name, &mutant, &[]);
                let errors: Vec<_> = found.into_iter().filter(|one| one.is_error()).collect();
                // Some slips leave a right pipeline: another name for a file, a line that was not needed.
                if errors.is_empty() {
                    continue;
                }
                these += 1;
                said += errors.len();
                if errors.len() > 1 {
                    worst.push((errors.len(), format!("{way} in {name}\n{}", render(&sources, &errors, false))));
                }
            }
        }
        table += &format!("{way}: {said} for {these}\n");
        planted += these;
        reported += said;
    }
    worst.sort_by_key(|(errors, _)| std::cmp::Reverse(*errors));
    let mean = reported as f64 / planted as f64;
    eprintln!("{table}{reported} errors for {planted} mistakes, {mean:.3} for one");
    if std::env::var_os("SHOW").is_some() {
        worst.iter().for_each(|(_, shown)| eprintln!("{shown}\n────"));
    }
    assert!(planted >= 500, "{planted}");
    assert!(
        mean <= 1.2,
        "{mean}\n{table}\n{}",
        worst.iter().take(5).map(|(_, shown)| shown.clone()).collect::<String>()
    );
}
