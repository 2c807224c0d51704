//! What other tools call the same thing.

/// Arguments as transformers, PEFT, TRL, axolotl, LLaMA-Factory and torchtune name them, with the name here.
const NAMES: [(&str, &str); 50] = [
    ("r", "rank"),
    ("lora_r", "rank"),
    ("lora_rank", "rank"),
    ("lora_alpha", "alpha"),
    ("lora_dropout", "dropout"),
    ("target_modules", "targets"),
    ("lora_target_modules", "targets"),
    ("lora_target", "targets"),
    ("learning_rate", "lr"),
    ("num_train_epochs", "epochs"),
    ("num_epochs", "epochs"),
    ("n_epochs", "epochs"),
    ("max_steps", "steps"),
    ("max_steps_per_epoch", "steps"),
    ("per_device_train_batch_size", "batch"),
    ("per_device_eval_batch_size", "batch"),
    ("micro_batch_size", "batch"),
    ("batch_size", "batch"),
    ("gradient_accumulation_steps", "accum"),
    ("grad_accum", "accum"),
    ("warmup_ratio", "warmup"),
    ("warmup_steps", "warmup"),
    ("num_warmup_steps", "warmup"),
    ("lr_scheduler_type", "schedule"),
    ("lr_scheduler", "schedule"),
    ("scheduler", "schedule"),
    ("max_grad_norm", "clip"),
    ("gradient_clipping", "clip"),
    ("gradient_checkpointing", "recompute"),
    ("activation_checkpointing", "recompute"),
    ("wd", "weight_decay"),
    ("eval_steps", "eval_every"),
    ("max_seq_length", "max_len"),
    ("max_seq_len", "max_len"),
    ("max_length", "max_len"),
    ("cutoff_len", "max_len"),
    ("sequence_len", "max_len"),
    ("sample_packing", "packed"),
    ("packing", "packed"),
    ("val_set_size", "holdout"),
    ("val_size", "holdout"),
    ("torch_dtype", "dtype"),
    ("max_new_tokens", "max_new"),
    ("bnb_4bit_use_double_quant", "double_quant"),
    ("random_seed", "seed"),
    ("chat_template", "template"),
    ("out", "path"),
    ("output", "path"),
    ("save_path", "path"),
    ("file", "path"),
];

/// Symbols as other tools write them, with the symbol here.
const SYMBOLS: [(&str, &str); 32] = [
    ("float16", "f16"),
    ("fp16", "f16"),
    ("half", "f16"),
    ("bfloat16", "bf16"),
    ("float32", "f32"),
    ("fp32", "f32"),
    ("float", "f32"),
    ("all-linear", "all"),
    ("all_linear", "all"),
    ("linear_layers", "all"),
    ("sharegpt", "chat"),
    ("openai", "chat"),
    ("messages", "chat"),
    ("conversations", "chat"),
    ("conversation", "chat"),
    ("instruct", "alpaca"),
    ("instruction", "alpaca"),
    ("plain", "text"),
    ("txt", "text"),
    ("corpus", "text"),
    ("prompt_completion", "completion"),
    ("adam", "adamw"),
    ("adamw_torch", "adamw"),
    ("adamw_torch_fused", "adamw"),
    ("adamw_8bit", "adamw8bit"),
    ("adamw_bnb_8bit", "adamw8bit"),
    ("paged_adamw_8bit", "adamw8bit"),
    ("cosine_with_restarts", "cosine"),
    ("cosine_annealing", "cosine"),
    ("constant_with_warmup", "constant"),
    ("linear_with_warmup", "linear"),
    ("chat-ml", "chatml"),
];

/// The symbol here of what another tool calls `word`.
pub(super) fn symbol(word: &str) -> Option<&'static str> {
    let plain = word.to_lowercase();
    let plain = plain.trim_start_matches("torch.");
    SYMBOLS.iter().find(|(theirs, _)| *theirs == plain).map(|(_, ours)| *ours)
}

/// The name here of what another tool calls `word`.
pub(super) fn ours(word: &str) -> Option<&'static str> {
    let plain = word.to_lowercase().replace('-', "_");
    NAMES.iter().find(|(theirs, _)| *theirs == plain).map(|(_, ours)| *ours)
}

/// What stands in the place of an argument that has none of its kind here.
pub(super) fn instead(word: &str) -> Option<&'static str> {
    Some(match word {
        "load_in_4bit" | "quantization" | "quantization_bit" | "bits" => "put the stage `quantize nf4` above it",
        "load_in_8bit" => "weights are held dense or as `quantize nf4`",
        "bf16" | "fp16" | "tf32" => "say `dtype=bf16` or `dtype=f16` on `load model`",
        "optimizer" | "optim" => "the optimizer is AdamW; `lr=`, `weight_decay=` and `clip=` set it",
        "output_dir" => "name the folder on the stage that saves: `save adapter \"out/adapter\"`",
        "model_name_or_path" | "base_model" | "model_name" => "name the model on its own stage: `load model \"path\"`",
        "dataset" | "train_file" | "dataset_path" => {
            "name the rows on their own stage: `load data \"rows.jsonl\" format=alpaca`"
        }
        "logging_steps" => "every step is written to the run's metrics.jsonl",
        "device" | "device_map" => "the device is chosen by `run --device`",
        _ => return None,
    })
}

/// What to write for a statement that other languages and tools begin with this word.
pub(super) fn statement(word: &str) -> Option<&'static str> {
    Some(match word {
        "import" | "include" | "from" | "source" | "require" => "write `use \"team.tp\"` for another file's recipes",
        "for" | "while" | "foreach" | "loop" => {
            "a pipeline has no loops: `tunepipe run FILE --sweep lr=1e-4,2e-4` runs it once for each value"
        }
        "if" | "else" | "when" | "unless" => {
            "a pipeline has no conditions: give what changes as a `param`, or keep two pipelines"
        }
        "def" | "fn" | "func" | "function" | "macro" => {
            "stages with a name of their own are a `recipe name(model: Model)`"
        }
        "var" | "const" | "set" | "local" | "export" => "write `let name = value`",
        "print" | "echo" | "log" => "what happens is said by itself; `sample prompt=\"…\"` shows what a model writes",
        "merge" | "fuse" => "write `save merged \"out/merged\"`",
        "finetune" | "fine-tune" | "fit" | "sft" | "tune" => "write `train lora`, or `train full` for every weight",
        "evaluate" | "validate" | "test" | "score" | "benchmark" => "write `eval`",
        "generate" | "infer" | "predict" | "chat" | "prompt" => "write `sample prompt=\"…\"`",
        "dataset" | "data" | "rows" => "write `load data \"rows.jsonl\" format=alpaca`",
        "model" | "base_model" | "checkpoint" => "write `load model \"models/llama-3-8b\"`",
        "adapter" | "peft" => "`train lora` makes one, `load adapter \"out/adapter\"` reads one",
        "write" | "store" | "output" | "dump" => "write `save adapter`, `save merged` or `save model`",
        "memory" | "limit" | "device" | "gpu" => "write `budget gpu=24GiB`, or a device's name behind `budget`",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn every_name_leads_to_an_argument_of_some_stage() {
        let catalog = Catalog::standard();
        for (theirs, name) in NAMES {
            assert!(catalog.stages.iter().any(|stage| stage.arg(name).is_some()), "{theirs} leads to {name}");
            assert!(catalog.stages.iter().all(|stage| stage.arg(theirs).is_none()), "{theirs} is a name here");
        }
    }

    #[test]
    fn every_symbol_leads_to_one_that_some_argument_takes() {
        let args = || Catalog::standard().stages.iter().flat_map(|stage| &stage.args);
        for (theirs, ours) in SYMBOLS {
            assert!(args().any(|arg| arg.kind.has_symbol(ours)), "{theirs} leads to {ours}");
            assert!(!args().any(|arg| arg.kind.has_symbol(theirs)), "{theirs} is a symbol here");
        }
    }
}
