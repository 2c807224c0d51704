//! The name that somebody probably meant.

/// The name nearest to `word`, where one is near enough to be a slip of the hand; the first of equals.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let lower = word.to_lowercase();
    let mut best: Option<(usize, &str)> = None;
    for name in names {
        let other = name.chars().count();
        let allowed = (length.max(other) / 3).max(1);
        if length.abs_diff(other) > allowed {
            continue;
        }
        let distance = strsim::osa_distance(&lower, name);
        if distance <= allowed && distance < length.max(other) && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, name));
        }
    }
    // `lora` for `train lora` is handled by the caller; here `h100` for `h100-80gb` and `llama-3` for `llama-3-8b` are
    // not slips, so they are not proposed.
    best.map(|(_, name)| name)
}
