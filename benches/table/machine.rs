//! What the figures were measured on.

use serde_json::{Value, json};

pub fn about() -> Value {
    json!({
        "machine": processor(),
        "threads": rayon::current_num_threads(),
        "ram_gib": field("/proc/meminfo", "MemTotal").map(|kib| (kib as f64 / 1048576.0).round()),
        "system": std::env::consts::OS,
        "version": env!("CARGO_PKG_VERSION"),
    })
}

pub fn text(about: &Value) -> String {
    format!(
        "{}, {} threads, {} GiB RAM, tunepipe {}",
        about["machine"].as_str().unwrap_or("unknown processor"),
        about["threads"],
        about["ram_gib"],
        about["version"].as_str().unwrap_or(""),
    )
}

/// Model and the widest vectors.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let of = |key: &str| text.lines().find(|line| line.starts_with(key))?.split_once(": ").map(|(_, v)| v);
    let flags = of("flags").unwrap_or("");
    let vectors = ["avx512f", "avx2", "avx"].into_iter().find(|f| flags.split(' ').any(|has| has == *f));
    Some(format!("{} ({})", of("model name")?, vectors.unwrap_or("no wide vectors")))
}

fn field(path: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The most resident memory since the last [`forget_peak`], in MiB; 0 where the system does not tell.
pub fn peak_mib() -> f64 {
    field("/proc/self/status", "VmHWM").unwrap_or(0) as f64 / 1024.0
}

/// Starts a new peak at what is resident now.
pub fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
