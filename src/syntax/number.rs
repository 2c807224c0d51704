//! Numbers with their units.

use super::ast::{ExprKind, Unit};

/// What is wrong with a number.
pub(super) enum Bad {
    /// It does not fit; what the limit is.
    Large(&'static str),
    /// It is not nought, and nothing else can be made of it.
    Small(&'static str),
    /// No such unit; the nearest one that is.
    Unit(Option<&'static str>),
    /// This unit does not take such a number.
    Form(&'static str),
}

/// Units of sizes in bytes.
const SIZES: [(&str, u64); 9] = [
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const COUNTS: [(&str, Unit); 7] = [
    ("%", Unit::Percent),
    ("step", Unit::Steps),
    ("steps", Unit::Steps),
    ("epoch", Unit::Epochs),
    ("epochs", Unit::Epochs),
    ("row", Unit::Rows),
    ("rows", Unit::Rows),
];

/// Whether a word is a unit: somebody wrote a space before it.
pub(super) fn is_unit(word: &str) -> bool {
    SIZES.iter().any(|(name, _)| *name == word) || COUNTS.iter().any(|(name, _)| *name == word)
}

/// A number as it is written, its unit apart.
pub(super) fn read(mantissa: &str, unit: Option<&str>) -> Result<ExprKind, Bad> {
    let Some(unit) = unit else {
        return if mantissa.contains(['.', 'e', 'E']) {
            Ok(ExprKind::Float(float(mantissa)?))
        } else {
            mantissa.parse().map(ExprKind::Int).map_err(|_| Bad::Large("a whole number lies within ±9.2e18"))
        };
    };
    if let Some((_, size)) = SIZES.iter().find(|(name, _)| *name == unit) {
        return bytes(mantissa, *size).map(ExprKind::Bytes);
    }
    match COUNTS.iter().find(|(name, _)| *name == unit) {
        Some((_, unit)) => Ok(ExprKind::Quantity(float(mantissa)?, *unit)),
        None => Err(Bad::Unit(nearest(unit))),
    }
}

fn float(mantissa: &str) -> Result<f64, Bad> {
    match mantissa.parse::<f64>() {
        Ok(0.0)
            if mantissa
                .split(['e', 'E'])
                .next()
                .is_some_and(|digits| digits.contains(|c| ('1'..='9').contains(&c))) =>
        {
            Err(Bad::Small("a number that is not 0 lies beyond ±4.9e-324"))
        }
        Ok(x) if x.is_finite() => Ok(x),
        _ => Err(Bad::Large("a number lies within ±1.8e308")),
    }
}

/// Computed from the decimal digits, so that `14.7GB` is not a rounding away from what it says; parts of a byte
/// are dropped.
fn bytes(mantissa: &str, size: u64) -> Result<u64, Bad> {
    const LARGE: Bad = Bad::Large("a size lies below 16 EiB");
    if mantissa.starts_with('-') {
        return Err(Bad::Form("a size is not negative"));
    }
    if mantissa.contains(['e', 'E']) {
        return Err(Bad::Form("write a size without an exponent"));
    }
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    // Digits beyond these are parts of a byte.
    let part = part.get(..part.len().min(18)).unwrap_or("");
    let digits: u128 = format!("{whole}{part}").parse().map_err(|_| LARGE)?;
    let scale = 10u128.checked_pow(u32::try_from(part.len()).map_err(|_| LARGE)?).ok_or(LARGE)?;
    let bytes = digits.checked_mul(u128::from(size)).ok_or(LARGE)? / scale;
    u64::try_from(bytes).map_err(|_| LARGE)
}

fn nearest(unit: &str) -> Option<&'static str> {
    let names = || SIZES.iter().map(|(name, _)| *name).chain(COUNTS.iter().map(|(name, _)| *name));
    let short = match unit {
        "K" | "k" => "KiB",
        "M" | "m" => "MiB",
        "G" | "g" | "Gi" => "GiB",
        "T" | "Ti" => "TiB",
        "percent" | "pct" => "%",
        "ep" | "e" => "epochs",
        "s" | "st" | "it" | "iters" | "iterations" => "steps",
        "r" | "samples" | "examples" | "lines" => "rows",
        _ => "",
    };
    if !short.is_empty() {
        return names().find(|name| *name == short);
    }
    names().find(|name| name.eq_ignore_ascii_case(unit)).or_else(|| {
        let mut close: Vec<_> = names().map(|name| (strsim::osa_distance(name, unit), name)).collect();
        close.sort_by_key(|(distance, _)| *distance);
        close.first().filter(|(distance, name)| *distance <= name.len() / 3).map(|(_, name)| *name)
    })
}
