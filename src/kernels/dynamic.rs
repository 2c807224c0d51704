//! The 8-bit dynamic type of bitsandbytes: an exponent of base ten that takes 0 to 6 bits, and a linear fraction in what
//! is left (Dettmers, "8-bit approximations for parallelism in deep learning", 2016), beside an exact 0 and 1. Scales of
//! NF4 blocks and the moments of 8-bit AdamW are held in it.

use std::sync::OnceLock;

/// Values of the type, ascending, so that a code is a place in the list.
pub type Map = [f32; 256];

/// With a sign. Equal to bitsandbytes' `create_dynamic_map()`.
pub fn signed() -> &'static Map {
    static MAP: OnceLock<Map> = OnceLock::new();
    MAP.get_or_init(|| make(true))
}

/// Without one, and a bit more of fraction. Equal to bitsandbytes' `create_dynamic_map(signed=False)`.
pub fn unsigned() -> &'static Map {
    static MAP: OnceLock<Map> = OnceLock::new();
    MAP.get_or_init(|| make(false))
}

fn make(signed: bool) -> Map {
    let mut values = vec![0.0f32, 1.0];
    for exponent in 0..7 {
        let edges = spaced((1usize << (exponent + usize::from(!signed))) + 1);
        let power = 10f64.powi(exponent as i32 - 6) as f32;
        for pair in edges.windows(2) {
            let mean = (pair[0] + pair[1]) / 2.0;
            values.push(power * mean);
            if signed {
                values.push(-power * mean);
            }
        }
    }
    values.sort_by(f32::total_cmp);
    std::array::from_fn(|i| values.get(i).copied().unwrap_or(1.0))
}

/// `count` values from 0.1 to 1 as `torch.linspace` rounds them: the second half is counted down from the end.
fn spaced(count: usize) -> Vec<f32> {
    let (start, end) = (0.1f32, 1.0f32);
    let last = count - 1;
    let step = f64::from((end - start) / last as f32);
    let value = |i: usize| {
        if i < count / 2 { f64::from(start) + step * i as f64 } else { f64::from(end) - step * (last - i) as f64 }
    };
    (0..count).map(|i| value(i) as f32).collect()
}

/// The code of the value nearest to `v`; the lower one's at a midpoint.
pub fn nearest(map: &Map, v: f32) -> u8 {
    let right = map.partition_point(|m| *m < v).clamp(1, map.len() - 1);
    let midpoint = (map[right - 1] + map[right]) * 0.5;
    (if v > midpoint { right } else { right - 1 }) as u8
}

/// A block's codes; its largest magnitude, by which its values were divided, is returned.
pub fn quantise(map: &Map, values: &[f32], codes: &mut [u8]) -> f32 {
    let top = values.iter().fold(0.0f32, |top, v| v.abs().max(top));
    if top == 0.0 {
        codes.fill(nearest(map, 0.0));
        return 0.0;
    }
    let inverse = 1.0 / top;
    for (code, v) in codes.iter_mut().zip(values) {
        *code = nearest(map, v * inverse);
    }
    top
}

/// A block's values again.
pub fn restore(map: &Map, codes: &[u8], top: f32, values: &mut [f32]) {
    for (v, code) in values.iter_mut().zip(codes) {
        *v = map[usize::from(*code)] * top;
    }
}
