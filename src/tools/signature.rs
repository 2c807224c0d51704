//! Signatures and values as they are written in the language.

use crate::catalog::{AdapterPattern, ArgDecl, Pattern, StageDecl, WeightsPattern};
use crate::plan::{Unit, Val};

/// A value as a person would type it: `2e-4`, `5GB`, `1epoch`.
pub fn written(val: &Val) -> String {
    match val {
        Val::None => "none".into(),
        Val::Bool(b) => b.to_string(),
        Val::Int(n) => n.to_string(),
        Val::Float(x) if *x != 0.0 && x.abs() < 1e-2 => format!("{x:e}"),
        Val::Float(x) => x.to_string(),
        Val::Bytes(n) => bytes(*n),
        Val::Quantity(x, Unit::Percent) => format!("{x}%"),
        Val::Quantity(x, Unit::Steps) => format!("{x}steps"),
        Val::Quantity(x, Unit::Rows) => format!("{x}rows"),
        Val::Quantity(x, Unit::Epochs) => format!("{x}epoch{}", if *x == 1.0 { "" } else { "s" }),
        Val::Str(text) => quoted(text),
        Val::Path(path) => quoted(&path.display().to_string()),
        Val::Symbol(name) => name.clone(),
        Val::List(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(" ")),
    }
}

/// A text between quotes, with what would end or change it escaped.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '$' => out.push_str("\\$"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// In the largest unit that needs no more than two decimals: sizes of cards are written with a fraction, `14.75GiB`.
fn bytes(n: u64) -> String {
    let large = [("TB", 1_000_000_000_000), ("TiB", 1 << 40), ("GB", 1_000_000_000), ("GiB", 1 << 30)];
    let small = [("MB", 1_000_000), ("MiB", 1 << 20), ("KB", 1000), ("KiB", 1 << 10)];
    let mut units = large.into_iter().chain(small).filter(|(_, size)| n >= *size);
    match units.find(|(_, size)| (u128::from(n) * 100).is_multiple_of(u128::from(*size))) {
        Some((unit, size)) => format!("{}{unit}", n as f64 / size as f64),
        None => format!("{n}B"),
    }
}

/// `Model<W, lora>`, as the catalogue has it.
pub fn pattern(pattern: Pattern) -> String {
    let Pattern::Model { weights, adapter } = pattern else { return "Data".into() };
    let weights = match weights {
        WeightsPattern::Dense => "dense",
        WeightsPattern::Nf4 => "nf4",
        WeightsPattern::Any => "W",
    };
    match adapter {
        AdapterPattern::None => format!("Model<{weights}>"),
        AdapterPattern::Lora => format!("Model<{weights}, lora>"),
        AdapterPattern::Any => format!("Model<{weights}, any>"),
    }
}

/// An argument's default; a flag's is left unsaid, and what has to be given says so.
pub fn default(arg: &ArgDecl) -> String {
    match &arg.default {
        None => "required".into(),
        Some(Val::Bool(false)) if arg.kind.is_flag() => "off".into(),
        Some(Val::Bool(true)) if arg.kind.is_flag() => "on".into(),
        Some(val) => written(val),
    }
}

/// An argument's type: a flag is called one.
pub fn kind(arg: &ArgDecl) -> String {
    if arg.kind.is_flag() { "flag".into() } else { arg.kind.to_string() }
}

/// The stage in one line: `Model<dense> → quantize nf4 → Model<nf4>`.
pub fn flow(stage: &StageDecl) -> String {
    let inputs: Vec<String> = stage
        .inputs
        .iter()
        .map(|input| {
            let mark = if input.takes { "" } else { "&" };
            let optional = if input.optional { "?" } else { "" };
            format!("{mark}{}{optional}", pattern(input.pattern))
        })
        .collect();
    let makes: Vec<String> = stage.makes.iter().map(|made| pattern(*made)).collect();
    match (inputs.is_empty(), makes.is_empty()) {
        (true, _) => makes.join(", "),
        (false, true) => inputs.join(", "),
        (false, false) => format!("{} → {}", inputs.join(", "), makes.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_they_are_typed() {
        let said = |val: Val| written(&val);
        assert_eq!(said(Val::Float(2e-4)), "2e-4");
        assert_eq!(said(Val::Float(0.01)), "0.01");
        assert_eq!(said(Val::Bytes(5_000_000_000)), "5GB");
        assert_eq!(said(Val::Bytes(15 << 30)), "15GiB");
        assert_eq!(said(Val::Bytes(15_837_691_904)), "14.75GiB");
        assert_eq!(said(Val::Bytes(500_000_000)), "500MB");
        assert_eq!(said(Val::Bytes(1234567)), "1234567B");
        assert_eq!(said(Val::Quantity(1.0, Unit::Epochs)), "1epoch");
        assert_eq!(said(Val::Quantity(2.0, Unit::Epochs)), "2epochs");
        assert_eq!(said(Val::Str("a\"b\n${x}".into())), r#""a\"b\n\${x}""#);
    }
}
