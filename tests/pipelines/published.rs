//! Figures that others published, beside what is planned here: `docs/published.md` holds what the plans say today.

use tunepipe::catalog::Catalog;
use tunepipe::memory::Bytes;
use tunepipe::model::{Role, Shape};

use super::*;

/// One line of the page: whose figure, the file that is planned, what is set in it, what is read off, what was published.
struct Row {
    name: &'static str,
    file: &'static str,
    set: &'static [&'static str],
    pick: Pick,
    published: &'static str,
}

enum Pick {
    /// The plan's peak on the card.
    Peak,
    /// A phase's, by its name.
    Phase(&'static str),
    /// What one holding takes at the peak, in GB as the source has it.
    Holding(&'static str),
}

const fn row(
    name: &'static str,
    file: &'static str,
    set: &'static [&'static str],
    pick: Pick,
    published: &'static str,
) -> Row {
    Row { name, file, set, pick, published }
}

const RECOMPUTE: [&str; 2] = ["train.free_logits=true", "train.recompute=true"];
const FUSED: [&str; 3] = ["train.free_logits=true", "train.recompute=true", "train.fused_step=true"];
const EIGHT: [&str; 4] =
    ["train.free_logits=true", "train.recompute=true", "train.fused_step=true", "train.optim=adamw8bit"];
const LONG: [&str; 3] = ["train.batch=1", "load-data.max_len=24576", "train.free_logits=false"];
const LONG_FREE: [&str; 2] = ["train.batch=1", "load-data.max_len=24576"];

const ROWS: [Row; 13] = [
    row("8B QLoRA, loaded", "llama-3.1-8b-qlora", &[], Pick::Phase("read and quantise"), "6.19 GiB"),
    row("8B in 16 bits, loaded", "llama-3.1-8b-lora", &[], Pick::Phase("read"), "14.41 GiB"),
    row("8B QLoRA", "llama-3.1-8b-qlora", &[], Pick::Peak, "7.4 GiB"),
    row("8B LoRA", "llama-3.1-8b-lora", &[], Pick::Peak, "16.2 GiB"),
    row("8B full", "llama-3.1-8b-full", &[], Pick::Peak, "18.9 GiB"),
    row("3B full, packed", "llama-3.2-3b-full", &[], Pick::Peak, "60.0 GiB"),
    row("3B and chunked loss", "llama-3.2-3b-full", &["train.free_logits=true"], Pick::Peak, "42.9 GiB"),
    row("3B and checkpointing", "llama-3.2-3b-full", &RECOMPUTE, Pick::Peak, "24.9 GiB"),
    row("3B and update in backward", "llama-3.2-3b-full", &FUSED, Pick::Peak, "23.1 GiB"),
    row("3B and 8-bit AdamW", "llama-3.2-3b-full", &EIGHT, Pick::Peak, "17.6 GiB"),
    row("3B LoRA", "llama-3.2-3b-lora", &[], Pick::Peak, "8.5 GiB"),
    row("3B QLoRA", "llama-3.2-3b-qlora", &[], Pick::Peak, "4.6 GiB"),
    row("24k tokens, logits kept", "llama-3.1-8b-qlora", &LONG, Pick::Holding("logits"), "13 GB"),
];

/// A fused linear loss at hidden 4096 and vocabulary 128,256: tokens, published fused and plain, in GB.
const LOSS: [(usize, &str, &str); 4] =
    [(4096, "4.2", "6.1"), (8192, "4.5", "9.2"), (16384, "4.9", "15.3"), (32768, "5.8", "27.6")];

fn plan(file: &str, set: &[&str]) -> Value {
    let path = repository().join(format!("docs/published/{file}.tp"));
    let mut arguments = vec!["plan".to_owned(), "--json".to_owned(), path.display().to_string()];
    for one in set {
        arguments.extend(["--set".to_owned(), (*one).to_owned()]);
    }
    let desk = Desk::empty();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    desk.tunepipe(&arguments).json()["targets"][0].clone()
}

fn gpu(value: &Value) -> u64 {
    value["gpu"].as_u64().expect("bytes")
}

fn holding(target: &Value, name: &str) -> u64 {
    let stages = target["stages"].as_array().expect("stages");
    let phases = stages.iter().flat_map(|stage| stage["phases"].as_array().expect("phases"));
    let holdings = phases.flat_map(|phase| phase["holdings"].as_array().expect("holdings"));
    let bytes = holdings.filter(|holding| holding["name"] == name).filter_map(|holding| holding["bytes"].as_u64());
    bytes.max().unwrap_or(0)
}

fn picked(row: &Row) -> String {
    let target = plan(row.file, row.set);
    let stages = target["stages"].as_array().expect("stages");
    let mut phases = stages.iter().flat_map(|stage| stage["phases"].as_array().expect("phases"));
    match row.pick {
        Pick::Peak => Bytes(target["peak"]["gpu"]["bytes"].as_u64().expect("bytes")).to_string(),
        Pick::Phase(name) => {
            Bytes(gpu(&phases.find(|phase| phase["name"] == name).expect("the phase")["peak"])).to_string()
        }
        Pick::Holding(name) => format!("{:.1} GB", holding(&target, name) as f64 / 1e9),
    }
}

#[test]
fn the_page_of_published_figures_says_what_is_planned() {
    let page = fs::read_to_string(repository().join("docs/published.md")).expect("the page");
    let mut lines: Vec<String> =
        ROWS.iter().map(|row| format!("| {} | {} | {} |", row.name, row.published, picked(row))).collect();
    for (tokens, fused, plain) in LOSS {
        let len = format!("load-data.max_len={tokens}");
        let of = |free: &str| {
            let free = format!("train.free_logits={free}");
            let set = ["train.batch=1", &*len, &*free];
            holding(&plan("llama-3.1-8b-qlora", &set), "logits") as f64 / 1e9
        };
        lines.push(format!("| {tokens} | {fused} | {plain} | {:.2} | {:.2} |", of("true"), of("false")));
    }
    let missing: Vec<&String> = lines.iter().filter(|line| !page.contains(line.as_str())).collect();
    assert!(missing.is_empty(), "docs/published.md lacks\n{missing:#?}");
    // What the switch saves is what it says: all logits but a window.
    let saved = holding(&plan("llama-3.1-8b-qlora", &LONG), "logits")
        - holding(&plan("llama-3.1-8b-qlora", &LONG_FREE), "logits");
    assert!(saved as f64 > 12e9 && saved as f64 <= 13e9, "{saved}");
}

#[test]
fn parameters_and_4_bit_sizes_are_the_published_ones() {
    let declared = Catalog::standard().shape("llama-3.1-8b").expect("a shape");
    let shape = Shape::from_keys(&declared.keys).expect("sizes");
    let count = |linear: bool| -> u64 {
        let of = |role: Role| matches!(role, Role::Linear(_)) == linear;
        shape.tensors().iter().filter(|t| of(t.role)).map(|t| t.shape.iter().product::<usize>() as u64).sum()
    };
    assert_eq!((count(true), count(false)), (6_979_321_856, 1_050_939_392));
    // Half a byte a value; a scale of one byte for 64 of them, and for 256 of those one of four bytes. A tensor's one
    // offset is no buffer.
    let target = plan("llama-3.1-8b-qlora", &[]);
    let linear = count(true);
    let expected = linear / 2 + linear / 64 + linear / 64 / 256 * 4;
    assert_eq!(holding(&target, "weights"), expected);
}
