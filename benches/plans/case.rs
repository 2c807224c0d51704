//! The cases of the matrix, each a pipeline.

use std::fmt::Write;
use std::path::Path;

/// One pipeline of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    pub recipe: &'static str,
    pub free_logits: bool,
    pub recompute: bool,
    pub batch: usize,
    pub length: usize,
    pub packed: bool,
}

impl Case {
    pub fn all() -> Vec<Case> {
        let mut all = Vec::new();
        for recipe in ["lora", "qlora", "full"] {
            for (batch, length) in [(1, 128), (4, 128), (1, 512), (4, 512), (1, 2048), (4, 2048)] {
                for (free_logits, recompute) in [(true, true), (true, false), (false, true), (false, false)] {
                    for packed in [true, false] {
                        all.push(Case { recipe, free_logits, recompute, batch, length, packed });
                    }
                }
            }
        }
        all
    }

    /// What it is called and chosen by.
    pub fn words(&self) -> [String; 5] {
        let switch = |on: bool, yes: &str, no: &str| if on { yes.to_owned() } else { no.to_owned() };
        [
            self.recipe.to_owned(),
            format!("{}x{}", self.batch, self.length),
            switch(self.free_logits, "free_logits", "kept_logits"),
            switch(self.recompute, "recompute", "no_recompute"),
            switch(self.packed, "packed", "padded"),
        ]
    }

    /// All memory switches on or all off, the smallest and the largest rows.
    pub fn is_corner(&self) -> bool {
        self.free_logits == self.recompute && matches!((self.batch, self.length), (1, 128) | (4, 2048))
    }

    /// The pipeline, over `rows.jsonl` and a model that `load` names.
    pub fn pipeline(&self, load: &str, steps: usize) -> String {
        let Case { recipe, batch, length, .. } = *self;
        let packed = if self.packed { " packed" } else { "" };
        let mut text = format!(
            "tunepipe 1\nload model {load}\nload data \"rows.jsonl\" format=tokens max_len={length}{packed} holdout=1rows\n"
        );
        if recipe == "qlora" {
            text.push_str("quantize nf4\n");
        }
        let stage = if recipe == "full" { "train full" } else { "train lora rank=8" };
        let _ = write!(text, "{stage} batch={batch} steps={steps} lr=1e-5");
        for (on, word) in [(self.free_logits, " free_logits"), (self.recompute, " recompute")] {
            text.push_str(if on { word } else { "" });
        }
        let _ = write!(text, "\neval batch={batch}\nsample prompt=\"What is held, and when?\" max_new=4\n");
        text.push_str(match recipe {
            "full" => "save model \"out/model\"\n",
            _ => "save adapter \"out/adapter\"\nsave merged \"out/low\" low_ram\nsave merged \"out/whole\"\n",
        });
        text
    }

    /// Rows of tokens: of unequal lengths up to the longest, or, to be packed, of about a third of it.
    pub fn write_rows(&self, path: &Path, vocab: u64) -> std::io::Result<()> {
        let count = if self.packed { 3 * (2 * self.batch + 1) } else { 2 * self.batch + 3 };
        let mut text = String::new();
        let mut id = 1u64;
        for row in 0..count {
            let len = match (self.packed, row % 3) {
                (true, at) => self.length / 3 - at * self.length / 40,
                (false, 0) => self.length,
                (false, at) => self.length - at * self.length / 8,
            };
            let ids: Vec<String> = (0..len)
                .map(|_| {
                    id = id.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    ((id >> 33) % vocab).to_string()
                })
                .collect();
            let _ = writeln!(text, "{{\"input_ids\": [{}]}}", ids.join(", "));
        }
        std::fs::write(path, text)
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words().join(" "))
    }
}
