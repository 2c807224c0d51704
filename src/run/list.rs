//! What was run: the folders under `runs/`, the newest first.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::progress::Progress;
use crate::text::{Fault, Result};
use crate::tools::{Align, Listing};

/// Every folder `runs/<stem>/<time>` with a manifest, read back. No such folder at all is an empty list.
pub fn list(root: &Path) -> Result<Listing> {
    let mut found: Vec<(String, String, Value)> = Vec::new();
    for (stem, folder) in folders(root)? {
        for (time, run) in folders(&folder)? {
            // `latest` points at a run that is listed by its own name.
            if run.is_symlink() || time.starts_with('.') {
                continue;
            }
            if let Some(manifest) = read(&run.join("manifest.json")) {
                found.push((time, stem.clone(), summary(&run, &manifest)));
            }
        }
    }
    found.sort_by(|a, b| (&b.0, &b.1).cmp(&(&a.0, &a.1)));
    let mut list = Listing::new(&[
        ("run", Align::Left),
        ("steps", Align::Right),
        ("loss", Align::Right),
        ("held-out loss", Align::Right),
        ("time", Align::Right),
        ("state", Align::Left),
        ("params", Align::Left),
    ]);
    for (_, _, run) in found {
        let number = |key: &str| run[key].as_f64().map_or_else(|| "–".to_owned(), |x| format!("{x:.4}"));
        let params = run["params"].as_object().map_or_else(String::new, |params| {
            let words: Vec<String> = params.iter().map(|(name, val)| format!("{name}={}", plain(val))).collect();
            words.join(" ")
        });
        let steps = run["steps"].as_u64().unwrap_or(0);
        let row = vec![
            run["run"].as_str().unwrap_or_default().to_owned(),
            if steps == 0 { "–".into() } else { steps.to_string() },
            number("loss"),
            number("eval_loss"),
            run["seconds"].as_f64().map_or_else(|| "–".into(), duration),
            run["state"].as_str().unwrap_or_default().to_owned(),
            params,
        ];
        list.push(row, run);
    }
    Ok(list)
}

/// The newest run under `root`: none where there is no run.
pub fn newest_run(root: &Path) -> Result<Option<PathBuf>> {
    let mut newest: Option<(String, PathBuf)> = None;
    for (_, folder) in folders(root)? {
        for (time, run) in folders(&folder)? {
            let counts = !run.is_symlink() && run.join("manifest.json").is_file();
            if counts && newest.as_ref().is_none_or(|(known, _)| *known < time) {
                newest = Some((time, run));
            }
        }
    }
    Ok(newest.map(|(_, run)| run))
}

/// Folders in a folder, by name.
fn folders(parent: &Path) -> Result<Vec<(String, PathBuf)>> {
    let entries = match fs::read_dir(parent) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Fault::io("read", parent, &e)),
    };
    let paths = entries.flatten().map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
    Ok(paths.filter(|(_, path)| path.is_dir()).collect())
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// A run whose record lacks its closing table was cut off, or still goes on.
fn summary(run: &Path, manifest: &Value) -> Value {
    let (mut steps, mut loss, mut eval) = (0u64, Value::Null, Value::Null);
    for row in rows(&run.join("metrics.jsonl")) {
        if row["event"] == "eval" {
            eval = row["loss"].clone();
        } else if row["event"].is_null() && !row["step"].is_null() {
            steps = steps.saturating_add(1);
            loss = row["loss"].clone();
        }
    }
    let seconds: f64 = rows(&run.join("timing.jsonl")).iter().filter_map(|row| row["seconds"].as_f64()).sum();
    let state = match Progress::read(run) {
        Ok(Some(progress)) => progress.outcome.word(),
        // Runs that are older than that record.
        _ if run.join("memory.json").exists() => "ended",
        _ => "unfinished",
    };
    json!({"run": run.display().to_string(), "pipeline": manifest["pipeline"]["file"], "steps": steps, "loss": loss,
           "eval_loss": eval, "seconds": if steps == 0 { Value::Null } else { seconds.into() }, "state": state,
           "params": manifest["params"]})
}

/// The lines of a `.jsonl` that can be read; a last one cut short is none.
fn rows(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn plain(val: &Value) -> String {
    match val {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `8 s`, `3 min 20 s`, `2 h 05 min`.
fn duration(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_back_newest_first() {
        let root = tempfile::tempdir().expect("a folder");
        for (name, loss) in [("2026-01-01T00-00-00Z", 2.0), ("2026-01-02T00-00-00Z", 1.0)] {
            let run = root.path().join("a").join(name);
            fs::create_dir_all(&run).expect("made");
            let write = |file: &str, text: &str| fs::write(run.join(file), text).expect("written");
            write("manifest.json", r#"{"pipeline": {"file": "a.tp"}, "params": {"epochs": 3}}"#);
            write(
                "metrics.jsonl",
                &format!(
                    "{{\"step\":1,\"loss\":9.0}}\n{{\"step\":2,\"loss\":{loss}}}\n{{\"event\":\"eval\",\"loss\":0.5}}\n{{\"st"
                ),
            );
            write("timing.jsonl", "{\"step\":1,\"seconds\":2.0}\n{\"step\":2,\"seconds\":3.0}\n");
        }
        fs::write(root.path().join("a/2026-01-01T00-00-00Z/memory.json"), "[]").expect("written");
        fs::create_dir_all(root.path().join("a/empty")).expect("made");
        let list = list(root.path()).expect("read");
        assert_eq!(list.rows.len(), 2);
        assert_eq!((list.json[0]["loss"].as_f64(), &list.json[0]["state"]), (Some(1.0), &"unfinished".into()));
        assert_eq!(list.json[1]["state"], "ended");
        assert_eq!(list.rows[0][1..], ["2", "1.0000", "0.5000", "5.0 s", "unfinished", "epochs=3"].map(str::to_owned));
        assert!(super::list(&root.path().join("none")).expect("no folder is no fault").rows.is_empty());
    }
}
