use super::*;

/// What the host hands to the kernel: distinct ids, where the places of each begin, and the places.
fn sorted(ids: &[u32]) -> [Vec<u32>; 3] {
    let mut order: Vec<u32> = (0..ids.len() as u32).collect();
    order.sort_by_key(|i| ids[*i as usize]);
    let (mut known, mut starts) = (Vec::new(), Vec::new());
    for (at, i) in order.iter().enumerate() {
        let id = ids[*i as usize];
        if known.last() != Some(&id) {
            known.push(id);
            starts.push(at as u32);
        }
    }
    starts.push(ids.len() as u32);
    [known, starts, order]
}

fn ids(n: usize, vocab: usize) -> Vec<u32> {
    (0..n).map(|i| (i * i * 13 % vocab.min(17)) as u32).collect()
}

#[test]
fn tokens_are_looked_up() {
    for ((n, width), t) in shapes(21).into_iter().flat_map(|s| STORAGE.map(|t| (s, t))) {
        let (ids, vocab) = (ids(n, 20), 20);
        let ((table, wide), (full, full_wide)) =
            (noise_in(t, vocab * width, 1), noise_in(DType::F32, vocab * width, 2));
        let list = Memory::u32(&ids);
        let mut wanted = junk(n * width);
        embedding(wanted.view_mut(), wide.view(), &ids, width).unwrap();
        let mut found = Memory::junk(t, n * width);
        launch!(t, "embedding", [n], &mut found, &table, &list, width);
        found.assert_same(&values(&wanted));
        let mut found = Memory::junk(DType::F32, n * width);
        launch!(t, "embedding_widen", [n], &mut found, &table, &list, width);
        found.assert_same(&values(&wanted));
        embedding(wanted.view_mut(), full_wide.view(), &ids, width).unwrap();
        let mut found = Memory::junk(t, n * width);
        launch!(t, "embedding_narrow", [n], &mut found, &full, &list, width);
        found.assert_same(&values(&wanted));
    }
}

#[test]
fn token_gradients_are_added_in_order() {
    for ((n, width), t) in shapes(22).into_iter().flat_map(|s| STORAGE.map(|t| (s, t))) {
        let ids = ids(n, 20);
        let (dx, wide) = noise_in(t, n * width, 1);
        let table = noise(20 * width, 2);
        let (mut found, mut wanted) = (Memory::f32(&table), buf(&table));
        embedding_backward(wanted.view_mut(), wide.view(), &ids, width).unwrap();
        let [known, starts, order] = sorted(&ids).map(|list| (list.len(), Memory::u32(&list)));
        launch!(t, "embedding_backward", [known.0], &mut found, &dx, &known.1, &starts.1, &order.1, width);
        found.assert_same(&values(&wanted));
    }
}

#[test]
fn rows_are_picked_and_put_back() {
    for ((n, width), t) in shapes(23).into_iter().flat_map(|s| STORAGE.map(|t| (s, t))) {
        let total = 2 * n + 1;
        // Distinct, and not in order.
        let rows: Vec<u32> = (0..n as u32).map(|i| (n as u32 - 1 - i) * 2 + 1).collect();
        let list = Memory::u32(&rows);
        let ((x, wide), (part, wide_part)) = (noise_in(t, total * width, 1), noise_in(t, n * width, 2));
        let (mut found, mut wanted) = (Memory::junk(t, n * width), junk(n * width));
        gather_rows(wanted.view_mut(), wide.view(), &rows, width).unwrap();
        launch!(t, "gather_rows", [n], &mut found, &x, &list, width);
        found.assert_same(&values(&wanted));
        let (mut found, mut wanted) = (x.clone(), buf(&values(&wide)));
        scatter_rows(wanted.view_mut(), wide_part.view(), &rows, width).unwrap();
        launch!(t, "scatter_rows", [n], &mut found, &part, &list, width);
        found.assert_same(&values(&wanted));
    }
}
