//! The name that somebody probably meant.

/// The name nearest to `word`, where one is near enough to be a slip of the hand (of equals the first in the alphabet), or the only
/// one that `word` is the start of.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let length = lower.chars().count();
    let mut best: Option<(usize, &str)> = None;
    let (mut longer, mut only_one) = (None, true);
    for name in names {
        let plain = name.to_lowercase();
        if length >= 3 && plain.starts_with(&lower) {
            only_one = longer.is_none();
            longer = Some(name);
        }
        let other = plain.chars().count();
        let allowed = (length.max(other) / 3).max(1);
        if length.abs_diff(other) > allowed {
            continue;
        }
        let distance = strsim::osa_distance(&lower, &plain);
        let close = distance <= allowed && distance < length.min(other);
        if close && best.is_none_or(|best| (distance, name) < best) {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name).or(longer.filter(|_| only_one))
}
