//! What a plan itself takes, as a whole process with a warm cache, and how that grows with stages.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Prints the table; wall of the fastest and of the middle of several starts.
pub fn table(program: &Path) -> ExitCode {
    match lines(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn lines(program: &Path) -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    println!("{:<44} fastest ms  median ms", "");
    let version = ["--version".to_owned()];
    print(program, "start and --version", 0, &version, folder.path())?;
    for stages in [10, 100, 1000] {
        let file = format!("{stages}.tp");
        std::fs::write(folder.path().join(&file), pipeline(stages, "smollm2-135m"))?;
        print(program, &format!("check, {stages} stages"), 0, &["check".to_owned(), file], folder.path())?;
    }
    // Over budget at every training, and every switch still to be found.
    for stages in [10, 100, 1000] {
        let file = format!("over-{stages}.tp");
        let text = pipeline(stages, "smollm2-135m").replace("ram=2TiB", "ram=1GiB").replace("gpu=2TiB ", "");
        let text = text.replace("batch=2 free_logits recompute", "batch=8").replace(" low_ram", "");
        std::fs::write(folder.path().join(&file), text)?;
        print(program, &format!("check, {stages} stages, over budget"), 4, &["check".to_owned(), file], folder.path())?;
    }
    std::fs::write(folder.path().join("405b.tp"), pipeline(5, "llama-3.1-405b"))?;
    print(program, "plan of a 405B QLoRA", 0, &["plan".to_owned(), "405b.tp".to_owned()], folder.path())
}

/// So many stages: models that are loaded, quantised, trained, sampled from and saved, one after the other.
fn pipeline(stages: usize, shape: &str) -> String {
    let mut text = "tunepipe 1\nbudget gpu=2TiB ram=2TiB disk=10TiB\n".to_owned();
    text.push_str("load data \"rows.jsonl\" format=tokens max_len=512 as rows\n");
    for at in 0..stages {
        let model = at / 5;
        let _ = match at % 5 {
            0 => writeln!(text, "load model \"models/m{model}\" shape={shape} as m{model}"),
            1 => writeln!(text, "quantize nf4 model=m{model}"),
            2 => writeln!(text, "train lora model=m{model} data=rows rank=16 batch=2 free_logits recompute"),
            3 => writeln!(text, "sample model=m{model} prompt=\"Who are you?\""),
            _ => writeln!(text, "save merged \"out/{model}\" model=m{model} low_ram"),
        };
    }
    text
}

/// Times a command that ends with `code`.
fn print(program: &Path, name: &str, code: i32, arguments: &[String], folder: &Path) -> std::io::Result<()> {
    let mut times = Vec::new();
    for _ in 0..21 {
        let start = Instant::now();
        let status = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        if status.code() != Some(code) {
            return Err(std::io::Error::other(format!("{name}: {status}")));
        }
    }
    times.sort_by(f64::total_cmp);
    println!("{name:<44} {:>10.1} {:>10.1}", times[0], times[times.len() / 2]);
    Ok(())
}
