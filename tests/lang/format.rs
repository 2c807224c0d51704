//! `fmt`: the same file, laid out.

use std::fmt::Write;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use tunepipe::syntax;
use tunepipe::text::{Sources, render};

fn format(text: &str) -> Option<String> {
    let mut sources = Sources::default();
    let id = sources.add("t.tp", Path::new(""), text);
    syntax::format(&sources, id).ok()
}

/// What a file says, without the places of its words.
fn said(text: &str) -> String {
    let mut sources = Sources::default();
    let id = sources.add("t.tp", Path::new(""), text);
    let (file, diagnostics) = syntax::parse(&sources, id);
    assert!(diagnostics.is_empty(), "{text}\n{}", render(&sources, &diagnostics, false));
    let mut said = String::new();
    let all = format!("{:?}", file.items);
    let mut parts = all.split("Span {");
    said.push_str(parts.next().unwrap_or(""));
    for part in parts {
        said.push_str(part.split_once('}').map_or(part, |(_, rest)| rest));
    }
    said
}

fn comments(text: &str) -> Vec<String> {
    // No text of these tests has a `#` in quotes.
    text.lines().filter_map(|line| line.find('#').map(|at| line[at..].trim_end().to_owned())).collect()
}

#[track_caller]
fn holds(text: &str) -> String {
    let formatted = format(text).unwrap_or_else(|| panic!("cannot be read:\n{text}"));
    assert_eq!(said(&formatted), said(text), "{text}\n→\n{formatted}");
    assert_eq!(format(&formatted).as_deref(), Some(&*formatted), "twice:\n{formatted}");
    assert_eq!(comments(&formatted), comments(text), "{text}\n→\n{formatted}");
    let lines = |text: &str| text.trim_end().lines().map(|line| line.trim().is_empty()).collect::<Vec<_>>();
    assert_eq!(lines(&formatted), lines(text), "every line break stays:\n{text}\n→\n{formatted}");
    formatted
}

#[test]
fn a_file_is_laid_out() {
    let text = "tunepipe   1
param lr=3e-4     # peak
param   warm : Percent|Steps=3%# rise
let  wide =2 * ( 3+ 1 )

load model   \"a  b\"   shape=tiny-llama
      # base=x
load data [ \"a\" , \"b\"
  \"c\"
     ] format=chat as   rows   
 train lora";
    // What cannot be read is not touched.
    assert_eq!(format(text), None);
    let text = text.replace("3+ 1", "3 +  1").replace("\n train", "\ntrain");
    assert_eq!(
        holds(&text),
        "tunepipe 1
param lr = 3e-4                 # peak
param warm: Percent|Steps = 3%  # rise
let wide = 2 * (3 + 1)

load model \"a  b\" shape=tiny-llama
  # base=x
load data [\"a\", \"b\"
  \"c\"
] format=chat as rows
train lora
"
    );
}

#[test]
fn recipes_and_brackets_have_depths() {
    let text = "recipe small (model:Model<W,lora>
 data: Data   ## rows
   rank:Int 1..8=4)   # head
     quantize nf4
       # why
          double_quant
# left
     let x=1
     train lora rank=rank targets=[
  q_proj
          v_proj ]
     example
          small rank=2
            lr=3
load data \"x\" format=text
\tpacked
"
    .replace('\t', "   ");
    assert_eq!(
        holds(&text),
        "recipe small(model: Model<W, lora>
  data: Data           ## rows
  rank: Int 1..8 = 4)  # head
  quantize nf4
    # why
    double_quant
# left
  let x = 1
  train lora rank=rank targets=[
    q_proj
    v_proj]
  example
    small rank=2
      lr=3
load data \"x\" format=text
  packed
"
    );
}

#[test]
fn line_ends_stay_and_marks_go() {
    assert_eq!(format("\u{feff}tunepipe  1\r\n\r\neval\r\n\r\n").as_deref(), Some("tunepipe 1\r\n\r\neval\r\n"));
    assert_eq!(format("").as_deref(), Some(""));
    assert_eq!(format("# only").as_deref(), Some("# only\n"));
}

#[test]
fn files_of_ours_are_laid_out() {
    let mut count = 0;
    for folder in ["stdlib", "stdlib/recipes", "pipelines"] {
        for file in std::fs::read_dir(folder).expect("is there").flatten().map(|file| file.path()) {
            if file.extension().is_none_or(|e| e != "tp") {
                continue;
            }
            let text = std::fs::read_to_string(&file).expect("is text");
            assert_eq!(holds(&text), text, "{}: run `tunepipe fmt {folder}`", file.display());
            count += 1;
        }
    }
    assert!(count >= 10, "{count} files");
}

/// Statements of every kind, their words apart so that blanks can be put between.
fn statement() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::select(vec![
        vec!["tunepipe", "1"],
        vec!["param", "lr", "=", "3e-4"],
        vec!["param", "warm", ":", "Percent", "|", "Steps", "=", "3%"],
        vec!["param", "files", ":", "[", "Path", "]"],
        vec!["let", "wide", "=", "(", "2", " * ", "rank", ")", " - ", "-1"],
        vec!["let", "list", "=", "[", "a", " b", ",", "\"c  d\"", "]"],
        vec!["use", "\"team.tp\"", " as", " team"],
        vec!["budget", " rtx-4090", " ram=32GiB"],
        vec!["load", " data", " [", "\"a\"", " \"b\"", "]", " format=chat", " as", " rows"],
        vec![
            "train",
            " lora",
            " rank=8",
            " alpha=(",
            "rank",
            " + ",
            "8",
            ")",
            " free_logits",
            " targets=[",
            "q_proj",
            " v_proj",
            "]",
        ],
        vec!["sample", " prompt=@\"a b\"", " no_x"],
        vec!["shape", " s", " hidden=64", " tied"],
        vec!["device", " d", " gpu=8GiB", " cuda=7.5"],
    ])
}

/// Writes a statement with odd blanks, breaks and comments where the language allows them.
fn scattered(words: &[&str], odd: &[u8], out: &mut String) {
    let mut odd = odd.iter().cycle();
    let mut depth = 0usize;
    for (at, word) in words.iter().enumerate() {
        let tight = word.trim();
        let free = at > 0
            && (word.starts_with(' ')
                || depth > 0
                || matches!(tight, "=" | ":" | "|")
                || matches!(words[at - 1].trim(), "=" | ":" | "|"));
        let first = at > 0 && at == 1 && !word.starts_with(' ');
        match odd.next().copied().unwrap_or(0) % 6 {
            0 if free => out.push_str("   "),
            1 if free => out.push_str("\n     "),
            2 if free => out.push_str("  # why\n  "),
            3 if free => out.push_str("\n\n    # alone\n  "),
            _ if word.starts_with(' ') || first => out.push(' '),
            _ => {}
        }
        depth += tight.matches(['[', '(']).count();
        depth = depth.saturating_sub(tight.matches([']', ')']).count());
        let blank = if word.ends_with(' ') { " " } else { "" };
        out.push_str(tight);
        out.push_str(blank);
    }
    match odd.next().copied().unwrap_or(0) % 4 {
        0 => out.push_str("   \n"),
        1 => out.push_str(" # end\n"),
        2 => out.push_str("\n  # below\n\n"),
        _ => out.push('\n'),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, rng_seed: RngSeed::Fixed(11), ..ProptestConfig::default() })]

    #[test]
    fn generated_files_say_the_same(
        statements in prop::collection::vec((statement(), prop::collection::vec(any::<u8>(), 1..12)), 1..8),
        body in prop::collection::vec(prop::sample::select(vec!["quantize nf4", "train lora  rank=rank", "let  x = 2", "eval\n        batch=2", "# note"]), 1..5),
        depth in 1usize..7,
        crlf in any::<bool>(),
    ) {
        let mut text = String::new();
        for (words, odd) in &statements {
            scattered(words, odd, &mut text);
        }
        let _ = write!(text, "recipe  r(model : Model<dense>,rank: Int 1..8=4,\n data:Data)\n");
        for line in &body {
            let _ = writeln!(text, "{:depth$}{line}", "");
        }
        let _ = writeln!(text, "{:depth$}sample model=model prompt=\"p\"", "");
        if crlf {
            text = text.replace('\n', "\r\n");
        }
        holds(&text);
    }
}
