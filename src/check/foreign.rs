//! What other tools call the same thing.

/// Arguments as transformers, PEFT, TRL, axolotl, LLaMA-Factory and torchtune name them, with the name here.
const NAMES: [(&str, &str); 46] = [
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
];

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
}
