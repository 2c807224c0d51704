//! Targets a pipeline is held to.

use crate::text::Span;

/// CUDA compute capability: 7.5 is `Capability(7, 5)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability(pub u8, pub u8);

impl Capability {
    /// bf16 arithmetic came with Ampere (8.0).
    pub fn has_bf16(self) -> bool {
        self >= Capability(8, 0)
    }
}

/// A device the catalogue knows, or one made of a budget line's own keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// `colab-t4`; none where the line names no device.
    pub name: Option<String>,
    /// GPU memory in bytes; none: no GPU, the CPU's rules decide the bytes.
    pub gpu: Option<u64>,
    pub ram: Option<u64>,
    pub disk: Option<u64>,
    pub cuda: Option<Capability>,
    /// Threads of a machine without a GPU; none: as many as the machine that plans computes with.
    pub threads: Option<usize>,
}

/// One `budget` line: a limit for each place that is judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    pub device: Device,
    /// What the line says, its device and sizes as they are written: `rtx-4090 ram=32GiB`.
    pub said: String,
    /// How a person knows this target among the others of its pipeline: [`Budget::short`] where no other goes by that,
    /// else what the line says.
    pub label: String,
    pub span: Span,
}

impl Budget {
    pub fn new(device: Device, said: String, span: Span) -> Self {
        let mut budget = Budget { device, said, label: String::new(), span };
        budget.label = budget.short().to_owned();
        budget
    }

    /// The device's name, else `gpu` or `cpu`.
    pub fn short(&self) -> &str {
        match &self.device.name {
            Some(name) => name,
            None if self.device.gpu.is_some() => "gpu",
            None => "cpu",
        }
    }
}

/// Gives each of a pipeline's targets a name of its own; `line` says where a budget stands, for those that say the same.
pub fn tell_apart(budgets: &mut [Budget], line: impl Fn(&Budget) -> usize) {
    let labels: Vec<String> = budgets
        .iter()
        .map(|one| {
            let alike = |other: &&Budget| other.span != one.span && other.short() == one.short();
            let others: Vec<&Budget> = budgets.iter().filter(alike).collect();
            match others.iter().any(|other| other.said == one.said) {
                _ if others.is_empty() => one.short().to_owned(),
                false => one.said.clone(),
                true => format!("{} (line {})", one.said, line(one)),
            }
        })
        .collect();
    for (budget, label) in budgets.iter_mut().zip(labels) {
        budget.label = label;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::SourceId;

    #[test]
    fn targets_of_one_pipeline_have_names_of_their_own() {
        let bare = Device { name: None, gpu: None, ram: None, disk: None, cuda: None, threads: None };
        let card = Device { gpu: Some(1), ..bare.clone() };
        let known = Device { name: Some("l4".into()), ..card.clone() };
        let lines = [
            (&card, "gpu=24GiB"),
            (&card, "gpu=16GiB"),
            (&bare, "ram=8GiB"),
            (&known, "l4"),
            (&known, "l4 ram=32GiB"),
            (&card, "gpu=16GiB"),
        ];
        let at = |n: usize| Span::new(SourceId(0), n, n + 1);
        let mut budgets: Vec<Budget> = lines
            .iter()
            .enumerate()
            .map(|(n, (device, said))| Budget::new((*device).clone(), (*said).into(), at(n)))
            .collect();
        tell_apart(&mut budgets, |budget| budget.span.start as usize);
        let labels: Vec<&str> = budgets.iter().map(|budget| &*budget.label).collect();
        assert_eq!(labels, ["gpu=24GiB", "gpu=16GiB (line 1)", "cpu", "l4", "l4 ram=32GiB", "gpu=16GiB (line 5)"]);
    }
}
