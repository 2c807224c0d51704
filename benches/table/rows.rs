//! A hundred thousand short rows: read, tokenised, kept and packed; then found where they were kept, and packed.

use std::io::Write;
use std::path::Path;

use serde_json::json;
use tunepipe::data::{self, BatchPlan, Format, Heard, Settings, Source, Tokenizer};
use tunepipe::store::{Cache, ModelSource, TokenizerSource};

use crate::took::Took;
use crate::{Outcome, Wish, line, machine};

const ROWS: usize = 100_000;
/// Where `scripts/fetch-real-model` puts it.
const MODEL: &str = "models/smollm2-135m-instruct.gguf";

pub fn tokenise(_: &Wish) -> Outcome {
    let (tokenizer, tokenizer_name) = match Path::new(MODEL).exists() {
        true => (real()?, "SmolLM2's"),
        false => (Tokenizer::bytes()?, "bytes (scripts/fetch-real-model brings a real one)"),
    };
    let mut file = tempfile::NamedTempFile::with_suffix(".jsonl")?;
    let mut out = std::io::BufWriter::new(file.as_file_mut());
    let mut text = Texts(1);
    for _ in 0..ROWS {
        let row = json!({ "instruction": text.sentence(12), "input": "", "output": text.sentence(24) });
        writeln!(out, "{row}")?;
    }
    out.flush()?;
    drop(out);
    let mut settings = Settings::new(vec![file.path().to_owned()], Format::Alpaca);
    settings.max_len = Some(1024);
    settings.packed = true;
    // A file of this moment is read again whatever a cache says.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let folder = tempfile::tempdir()?;
    let cache = Cache::at(folder.path().join("cache"), 1 << 30);
    let source = Source { settings: &settings, tokenizer: &tokenizer, template: None };
    let mut lines = Vec::new();
    let cases = [("rows cold", true), ("rows warm", true), ("rows warm, to plan", false)];
    for (name, whole) in cases {
        machine::forget_peak();
        let (mut made, mut done) = (false, None);
        let took = Took::of(|| {
            let heard = &mut |heard, _, _| made |= heard == Heard::Tokenising;
            done = Some(data::tokens(source, Some(&cache), whole, heard).and_then(|tokens| {
                let all: Vec<u32> = (0..tokens.len() as u32).collect();
                let plan = BatchPlan::new(tokens.sizes(), &all, 4, true, settings.max_len, true, 1)?;
                Ok((plan.epoch(0).len(), tokens.report.tokens))
            }));
        });
        let Some((batches, tokens)) = done.transpose()? else { continue };
        if made != (name == "rows cold") {
            return Err(format!("{name}: the cache did not do its part").into());
        }
        let mut result = line(
            name,
            &[
                ("rows", ROWS as f64),
                ("seconds", took.wall),
                ("cpu_s", took.cpu),
                ("peak_mib", machine::peak_mib()),
                ("tokens", tokens as f64),
                ("micro_batches", batches as f64),
            ],
        );
        result["tokenizer"] = json!(tokenizer_name);
        lines.push(result);
    }
    Ok(lines)
}

fn real() -> Result<Tokenizer, tunepipe::text::Fault> {
    let source = ModelSource::open(Path::new(MODEL))?;
    match source.tokenizer() {
        TokenizerSource::Gguf(vocab) => Tokenizer::from_gguf(vocab),
        _ => Tokenizer::bytes(),
    }
}

/// Sentences of words that mostly come again and sometimes do not, as in real text.
struct Texts(u64);

impl Texts {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn word(&mut self) -> String {
        const SYLLABLES: [&str; 24] = [
            "ta", "re", "in", "con", "ment", "al", "ing", "de", "the", "of", "an", "tion", "er", "pro", "ly", "ver",
            "mo", "si", "ble", "quar", "um", "ster", "ight", "ous",
        ];
        // A few thousand words are common; one in eight is put together anew.
        let mut seed = if self.next(8) == 0 { self.next(1 << 30) } else { self.next(48) * self.next(48) + 7 };
        let mut word = String::new();
        for _ in 0..1 + seed % 3 {
            word.push_str(SYLLABLES[(seed % 24) as usize]);
            seed = seed / 24 * 7 + 3;
        }
        word
    }

    fn sentence(&mut self, words: usize) -> String {
        let words: Vec<String> = (0..words).map(|_| self.word()).collect();
        words.join(" ") + "."
    }
}
