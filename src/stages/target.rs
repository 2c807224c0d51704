//! The machine a schedule is made for: it decides the bytes.

use crate::kernels::Processor;
use crate::memory::{Holding, Limits, Place};
use crate::model::{Float, Form};
use crate::plan::{Budget, Capability};
use crate::text::Span;

/// A machine to plan for: a budget's, or the one at hand.
#[derive(Debug, Clone)]
pub struct Target {
    /// `colab-t4`, `cpu`, `this machine`.
    pub label: String,
    /// Whether CUDA's rules decide.
    pub gpu: bool,
    pub capability: Option<Capability>,
    pub limits: Limits,
    /// The budget line that set the limits; none: what is free.
    pub budget: Option<Span>,
    /// Threads that kernels use: their scratch counts.
    pub threads: usize,
    /// Its instruction set: that of the machine at hand, unless the budget says its threads and so means another.
    pub processor: Processor,
}

impl Target {
    /// The processor of the machine at hand, with no limit.
    pub fn this_machine() -> Self {
        Target {
            label: "this machine".into(),
            gpu: false,
            capability: None,
            limits: Limits::default(),
            budget: None,
            threads: rayon::current_num_threads(),
            processor: Processor::Here,
        }
    }

    pub fn of_budget(budget: &Budget) -> Self {
        let device = &budget.device;
        Target {
            label: budget.label.clone(),
            gpu: device.gpu.is_some(),
            capability: device.cuda,
            limits: Limits { gpu: device.gpu, ram: device.ram, disk: device.disk },
            budget: Some(budget.span),
            threads: device.threads.unwrap_or_else(rayon::current_num_threads),
            processor: if device.threads.is_some() { Processor::Another } else { Processor::Here },
        }
    }

    /// Where weights and everything that kernels touch lie.
    pub fn place(&self) -> Place {
        if self.gpu { Place::Gpu } else { Place::Ram }
    }

    /// The type that weights are held in unless the pipeline says otherwise.
    pub fn natural_float(&self) -> Float {
        match (self.gpu, self.capability) {
            (false, _) => Float::F32,
            (true, Some(capability)) if !capability.has_bf16() => Float::F16,
            (true, _) => Float::Bf16,
        }
    }

    /// Activations follow the weights' width on a GPU; what accumulates (gradients, moments, adapters, logits) is f32.
    pub fn resize(&self, holdings: &mut [Holding], form: Form) {
        if !self.gpu || form.embeddings == Float::F32 {
            return;
        }
        for holding in holdings {
            if holding.name.contains("activations") || holding.name.contains("scratch") || holding.name == "kv cache" {
                holding.bytes = holding.bytes.div_ceil(2);
            }
        }
    }
}
