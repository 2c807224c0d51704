use super::*;

#[test]
fn heads_turn_as_on_the_processor() {
    for (n, heads, dim) in [(1, 1, 2), (5, 3, 6), (9, 2, 64), (3, 5, 128)] {
        let half = dim / 2;
        let freq: Vec<f32> = (0..half).map(|i| 10_000f32.powf(-(i as f32) / half as f32)).collect();
        let table = rope_tables(&freq, 1.0, 40, &Heap, "test").unwrap();
        let positions: Vec<u32> = (0..n as u32).map(|i| i * 7 % 40).collect();
        let (cos, sin) = (Memory::f32(&values(&table.cos)), Memory::f32(&values(&table.sin)));
        for (t, inverse) in STORAGE.into_iter().flat_map(|t| [(t, false), (t, true)]) {
            let (mut x, mut wanted) = noise_in(t, n * heads * dim, 1);
            rope(wanted.view_mut(), &table, &positions, heads, dim, inverse).unwrap();
            let sign = if inverse { -1.0f32 } else { 1.0 };
            let places = Memory::u32(&positions);
            launch!(t, "rope", [n], &mut x, &cos, &sin, &places, heads as i32, half as i32, sign);
            x.assert_same(&values(&wanted));
        }
    }
}
