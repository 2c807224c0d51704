//! The text of a new pipeline, from what a person wants.

use std::fmt::Write;

use super::signature::quoted;
use crate::data::{Format, Guess};

/// What the training is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Teach the model with rows, by an adapter on frozen weights.
    Adapter,
    /// Train every weight.
    Full,
    /// Go on with pretraining, on running text.
    Pretrain,
}

/// Everything that decides the text. Paths are as the file will write them.
#[derive(Debug, Clone)]
pub struct Wish {
    pub model: String,
    /// A shape of the catalogue, for a model that is not on disk.
    pub shape: Option<String>,
    pub data: String,
    pub guess: Guess,
    pub max_len: Option<usize>,
    pub holdout: bool,
    /// A built-in chat template, where rows are conversations and the model has none.
    pub template: Option<&'static str>,
    /// A device of the catalogue to hold the pipeline to.
    pub card: Option<String>,
    pub goal: Goal,
    /// Hold the frozen weights in 4 bits.
    pub quantize: bool,
    /// Folder for what is saved.
    pub out: String,
}

/// The pipeline, formatted.
pub fn scaffold(wish: &Wish) -> String {
    let mut out = String::from("tunepipe 1\n");
    let what = match (wish.goal, wish.quantize) {
        (Goal::Adapter, true) => "QLoRA",
        (Goal::Adapter, false) => "LoRA",
        (Goal::Full, _) => "Full fine-tuning",
        (Goal::Pretrain, _) => "Continued pretraining",
    };
    let model = wish.shape.as_deref().unwrap_or_else(|| last(&wish.model));
    let _ = writeln!(out, "## {what} of {model} on {}.", last(&wish.data));
    if let Some(card) = &wish.card {
        let _ = writeln!(out, "budget {card}");
    }
    out.push_str("\nparam epochs = ");
    out.push_str(if wish.goal == Goal::Adapter { "3\n\n" } else { "1\n\n" });
    let _ = write!(out, "load model {}", quoted(&wish.model));
    if let Some(shape) = &wish.shape {
        let _ = write!(out, " shape={shape}");
    }
    if let Some(template) = wish.template {
        let _ = write!(out, " template={template}");
    }
    let _ = write!(out, "\nload data {} format={}", quoted(&wish.data), wish.guess.format.name());
    for (key, column) in &wish.guess.columns {
        let _ = write!(out, " {key}={}", quoted(column));
    }
    let mut more = Vec::new();
    if let Some(max_len) = wish.max_len {
        more.push(format!("max_len={max_len} long=truncate"));
    }
    if wish.holdout {
        more.push("holdout=5%".to_owned());
    }
    if wish.goal == Goal::Pretrain && wish.guess.format == Format::Text && wish.max_len.is_some() {
        more.push("packed".to_owned());
    }
    if !more.is_empty() {
        let _ = write!(out, "\n  {}", more.join(" "));
    }
    out.push('\n');
    if wish.quantize {
        out.push_str("quantize nf4 double_quant\n");
    }
    let (stage, rate) = match wish.goal {
        Goal::Adapter => ("train lora rank=16 alpha=32", "2e-4"),
        Goal::Full => ("train full", "2e-5"),
        Goal::Pretrain => ("train full", "1e-5"),
    };
    let _ =
        write!(out, "{stage}\n  epochs=epochs batch=8 accum=2\n  lr={rate} schedule=cosine warmup=3%\n  free_logits\n");
    match wish.goal {
        Goal::Adapter => {
            let _ = writeln!(out, "save adapter {}", quoted(&format!("{}/adapter", wish.out)));
            let _ = writeln!(out, "# save merged {} low_ram", quoted(&format!("{}/merged", wish.out)));
        }
        Goal::Full | Goal::Pretrain => {
            let _ = writeln!(out, "save model {}", quoted(&format!("{}/model", wish.out)));
        }
    }
    out
}

fn last(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::catalog::Catalog;
    use crate::check::check_text;
    use crate::text::{Sources, render};

    #[test]
    fn every_wish_checks() {
        for goal in [Goal::Adapter, Goal::Full, Goal::Pretrain] {
            for (quantize, card, shape) in
                [(false, None, None), (goal == Goal::Adapter, Some("l4"), Some("llama-3-8b"))]
            {
                let wish = Wish {
                    model: "models/a \"b\"".into(),
                    shape: shape.map(str::to_owned),
                    data: "data/${x}.jsonl".into(),
                    guess: Guess { format: Format::Completion, columns: vec![("prompt", "q".into())] },
                    max_len: card.map(|_| 512),
                    holdout: quantize,
                    template: card.map(|_| "chatml"),
                    card: card.map(str::to_owned),
                    goal,
                    quantize,
                    out: "out/x".into(),
                };
                let text = scaffold(&wish);
                let mut sources = Sources::default();
                let id = sources.add("new.tp", Path::new(""), text.clone());
                let (plan, said) = check_text(id, &mut sources, Catalog::standard(), &[]);
                assert!(plan.is_some() && said.is_empty(), "{text}\n{}", render(&sources, &said, false));
            }
        }
    }
}
