//! Sizes as people read them.

use std::fmt;

/// A number of bytes that prints as `537.9 MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let mut size = self.0 as f64 / 1024.0;
        let mut unit = 0;
        // 1023.96 KiB would round to a four-digit 1024.0.
        while size >= 1023.95 && unit + 1 < UNITS.len() {
            size /= 1024.0;
            unit += 1;
        }
        let digits = if size < 10.0 { 2 } else { 1 };
        f.pad(&format!("{size:.digits$} {}", UNITS[unit]))
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn reads_like_a_person_would_say_it() {
        let said = |n: u64| Bytes(n).to_string();
        assert_eq!(said(0), "0 B");
        assert_eq!(said(1023), "1023 B");
        assert_eq!(said(1024), "1.00 KiB");
        assert_eq!(said(564_000_000), "537.9 MiB");
        assert_eq!(said((1 << 30) - 1), "1.00 GiB");
        assert_eq!(said(15 << 30), "15.0 GiB");
        assert_eq!(format!("{:>9}", Bytes(1)), "      1 B");
    }
}
