//! `+ - * /` on numbers, sizes and quantities.

use crate::plan::{Unit, Val};
use crate::syntax::Operator;

/// Why two values cannot be computed with.
pub(super) struct Problem {
    pub code: &'static str,
    pub message: String,
    pub label: &'static str,
    pub help: Option<&'static str>,
}

/// What a value is, in words: `a size`, `steps`.
pub(super) fn kind_words(val: &Val) -> &'static str {
    match val {
        Val::None => "`none`",
        Val::Bool(_) => "a truth value",
        Val::Int(_) => "a whole number",
        Val::Float(_) => "a number with a fraction",
        Val::Bytes(_) => "a size",
        Val::Quantity(_, Unit::Percent) => "a percentage",
        Val::Quantity(_, Unit::Steps) => "a number of steps",
        Val::Quantity(_, Unit::Epochs) => "a number of epochs",
        Val::Quantity(_, Unit::Rows) => "a number of rows",
        Val::Str(_) => "a text",
        Val::Path(_) => "a path",
        Val::Symbol(_) => "a symbol",
        Val::List(_) => "a list",
    }
}

/// Whole numbers stay whole where the result is; a quotient that is not becomes a Float. Sizes are rounded down.
pub(super) fn apply(operator: Operator, left: &Val, right: &Val) -> Result<Val, Problem> {
    use Operator::{Add, Divide, Multiply, Subtract};
    let zero = match right {
        Val::Int(n) => *n == 0,
        Val::Float(x) | Val::Quantity(x, _) => *x == 0.0,
        Val::Bytes(n) => *n == 0,
        _ => false,
    };
    let numbers = |val: &Val| matches!(val, Val::Int(_) | Val::Float(_) | Val::Bytes(_) | Val::Quantity(..));
    if operator == Divide && zero && numbers(left) {
        return Err(Problem {
            code: "math.zero",
            message: "a division by zero".into(),
            label: "the divisor is 0",
            help: None,
        });
    }
    match (operator, left, right) {
        (Add, Val::Int(a), Val::Int(b)) => a.checked_add(*b).map(Val::Int).ok_or_else(overflow),
        (Subtract, Val::Int(a), Val::Int(b)) => a.checked_sub(*b).map(Val::Int).ok_or_else(overflow),
        (Multiply, Val::Int(a), Val::Int(b)) => a.checked_mul(*b).map(Val::Int).ok_or_else(overflow),
        (Divide, Val::Int(a), Val::Int(b)) => match (a.checked_rem(*b), a.checked_div(*b)) {
            (Some(0), Some(whole)) => Ok(Val::Int(whole)),
            (Some(_), _) => float(*a as f64 / *b as f64),
            _ => Err(overflow()),
        },
        (_, Val::Int(_) | Val::Float(_), Val::Int(_) | Val::Float(_)) => {
            float(compute(operator, number(left), number(right)))
        }
        (Add, Val::Bytes(a), Val::Bytes(b)) => a.checked_add(*b).map(Val::Bytes).ok_or_else(overflow),
        (Subtract, Val::Bytes(a), Val::Bytes(b)) => a
            .checked_sub(*b)
            .map(Val::Bytes)
            .ok_or_else(|| Problem { message: "the result is a negative size".into(), ..overflow() }),
        (Divide, Val::Bytes(a), Val::Bytes(b)) => float(*a as f64 / *b as f64),
        (Multiply, Val::Bytes(a), Val::Int(n)) | (Multiply, Val::Int(n), Val::Bytes(a)) => {
            u64::try_from(*n).ok().and_then(|n| a.checked_mul(n)).map(Val::Bytes).ok_or_else(overflow)
        }
        (Divide, Val::Bytes(a), Val::Int(n)) => {
            u64::try_from(*n).ok().and_then(|n| a.checked_div(n)).map(Val::Bytes).ok_or_else(overflow)
        }
        (Multiply, Val::Bytes(a), Val::Float(x)) | (Multiply, Val::Float(x), Val::Bytes(a)) => size(*a as f64 * x),
        (Divide, Val::Bytes(a), Val::Float(x)) => size(*a as f64 / x),
        (Add | Subtract, Val::Quantity(a, unit), Val::Quantity(b, same)) if unit == same => {
            quantity(compute(operator, *a, *b), *unit)
        }
        (Divide, Val::Quantity(a, unit), Val::Quantity(b, same)) if unit == same => float(a / b),
        (Multiply | Divide, Val::Quantity(a, unit), Val::Int(_) | Val::Float(_)) => {
            quantity(compute(operator, *a, number(right)), *unit)
        }
        (Multiply, Val::Int(_) | Val::Float(_), Val::Quantity(b, unit)) => quantity(number(left) * b, *unit),
        _ => Err(Problem {
            code: "math.units",
            message: format!("`{}` does not work on {} and {}", sign(operator), kind_words(left), kind_words(right)),
            label: "cannot be computed",
            help: match (left, right) {
                (Val::Str(_), _) | (_, Val::Str(_)) => Some("texts are put together in quotes: `\"${a}-${b}\"`"),
                _ => None,
            },
        }),
    }
}

fn sign(operator: Operator) -> char {
    match operator {
        Operator::Add => '+',
        Operator::Subtract => '-',
        Operator::Multiply => '*',
        Operator::Divide => '/',
    }
}

fn compute(operator: Operator, a: f64, b: f64) -> f64 {
    match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
    }
}

fn number(val: &Val) -> f64 {
    match val {
        Val::Int(n) => *n as f64,
        Val::Float(x) => *x,
        _ => 0.0,
    }
}

fn overflow() -> Problem {
    Problem { code: "math.overflow", message: "the result does not fit".into(), label: "out of range", help: None }
}

fn float(x: f64) -> Result<Val, Problem> {
    if x.is_finite() { Ok(Val::Float(x)) } else { Err(overflow()) }
}

fn quantity(x: f64, unit: Unit) -> Result<Val, Problem> {
    if x.is_finite() { Ok(Val::Quantity(x, unit)) } else { Err(overflow()) }
}

fn size(x: f64) -> Result<Val, Problem> {
    // 2^64 as a float; below it the cast is exact but for the fraction, which is dropped.
    if (0.0..18_446_744_073_709_551_616.0).contains(&x) { Ok(Val::Bytes(x as u64)) } else { Err(overflow()) }
}
