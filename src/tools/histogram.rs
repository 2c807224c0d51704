//! How long rows are, drawn in characters.

use super::paper::{Ink, Paper, prose};

/// Lengths in bins of equal, round width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// First length of the first bin.
    pub from: u32,
    /// Lengths a bin holds.
    pub step: u32,
    pub counts: Vec<u64>,
    /// Half of the rows, nine tenths, 99 of a hundred, and all are at most so long.
    pub quantiles: [u32; 4],
}

/// Bins to draw, about.
const BINS: u32 = 12;

impl Histogram {
    /// None where there is no row.
    pub fn of(lengths: &[u32]) -> Option<Self> {
        let mut sorted = lengths.to_vec();
        sorted.sort_unstable();
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let step = round_up((most - least) / BINS + 1);
        let from = least - least % step;
        let mut counts = vec![0u64; ((most - from) / step + 1) as usize];
        for length in &sorted {
            if let Some(count) = counts.get_mut(((length - from) / step) as usize) {
                *count += 1;
            }
        }
        let at = |share: usize| {
            // The smallest length that so many hundredths of the rows do not exceed.
            let rank = (sorted.len() * share).div_ceil(100).max(1) - 1;
            sorted.get(rank).copied().unwrap_or(most)
        };
        Some(Histogram { from, step, counts, quantiles: [at(50), at(90), at(99), most] })
    }

    /// A line a bin, and one of quantiles.
    pub fn render(&self, paper: Paper, indent: &str) -> String {
        let most = self.counts.iter().copied().max().unwrap_or(1).max(1);
        let label = |bin: u32| {
            let low = self.from + bin * self.step;
            if self.step == 1 { low.to_string() } else { format!("{low}–{}", low + self.step - 1) }
        };
        let bins = self.counts.len() as u32;
        let wide = (0..bins).map(|bin| label(bin).chars().count()).max().unwrap_or(1);
        let digits = most.to_string().len();
        let room = paper.width.saturating_sub(indent.len() + wide + digits + 6).clamp(8, 48);
        let mut out = String::new();
        for (bin, count) in (0..bins).zip(&self.counts) {
            let eighths = (*count as f64 / most as f64 * room as f64 * 8.0).round() as usize;
            let mut bar = "█".repeat(eighths / 8);
            match eighths % 8 {
                0 if *count > 0 && bar.is_empty() => bar.push('▏'),
                0 => {}
                part => bar.extend(char::from_u32(0x2590 - part as u32)),
            }
            let line = format!("{indent}{:>wide$}  {count:>digits$}  {}", label(bin), paper.ink(Ink::Name, &bar));
            out.push_str(line.trim_end());
            out.push('\n');
        }
        let [half, nine, ninety_nine, all] = self.quantiles;
        let words =
            format!("half of them up to {half} tokens, 90 % up to {nine}, 99 % up to {ninety_nine}, all up to {all}");
        prose(&mut out, paper, Ink::Faint, &words, indent);
        out
    }
}

/// The next of 1, 2, 5, 10, 20, 50, …
fn round_up(n: u32) -> u32 {
    let mut unit = 1u32;
    loop {
        for step in [1, 2, 5] {
            let step = unit.saturating_mul(step);
            if step >= n || step == u32::MAX {
                return step;
            }
        }
        unit = unit.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_round_and_hold_every_row() {
        let lengths: Vec<u32> = (3..=123).collect();
        let drawn = Histogram::of(&lengths).expect("rows");
        assert_eq!((drawn.from, drawn.step, drawn.counts.iter().sum::<u64>()), (0, 20, 121));
        assert_eq!(drawn.counts, [17, 20, 20, 20, 20, 20, 4]);
        assert_eq!(drawn.quantiles, [63, 111, 122, 123]);
        let one = Histogram::of(&[7]).expect("a row");
        assert_eq!((one.from, one.step, &one.counts[..], one.quantiles), (7, 1, &[1][..], [7; 4]));
        assert!(Histogram::of(&[]).is_none());
        assert!(Histogram::of(&[0, u32::MAX]).is_some());
    }

    #[test]
    fn bars_are_as_long_as_their_counts() {
        let drawn = Histogram { from: 0, step: 10, counts: vec![8, 4, 0, 1], quantiles: [5, 15, 35, 35] };
        let said = drawn.render(Paper { width: 40, colour: false, screen: false }, "  ");
        let blocks: Vec<usize> = said.lines().take(4).map(|line| line.matches('█').count()).collect();
        assert_eq!(blocks[0], 2 * blocks[1]);
        assert_eq!(blocks[2], 0);
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("30–39  1") && words.contains("90 % up to 15"), "{said}");
        assert!(said.lines().all(|line| line.chars().count() <= 40), "{said}");
    }
}
