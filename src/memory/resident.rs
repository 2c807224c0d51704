//! What the system says the process holds: everything that lies in RAM, the plan's floor and what no plan counts (code,
//! stacks, pages that the allocator keeps).

/// The most bytes that were resident at once since the process began; none where the system does not tell.
pub fn peak_resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::peak_resident;

    #[test]
    fn a_page_that_was_touched_is_counted() {
        let Some(before) = peak_resident() else { return };
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = peak_resident().expect("told before");
        assert!(after >= before && after >= block.len() as u64, "{before} {after}");
    }
}
