//! Tokens that an earlier command kept: nothing that a command says or leaves tells whether there were any.

use super::*;

/// Rows of every fate: kept, cut, losing their answer, empty; warnings name lines of the file.
fn of_every_fate() -> String {
    let row = |at: usize| match at % 8 {
        6 => format!("{{\"prompt\": \"{}\", \"completion\": \"y\"}}\n", "long ".repeat(40)),
        7 => "{\"prompt\": \"x\", \"completion\": \"\"}\n".to_owned(),
        n => format!("{{\"prompt\": \"Q {at}: \", \"completion\": \"{}\"}}\n", "answer ".repeat(n * 3 + 1)),
    };
    (0..200).map(row).collect()
}

const PIPELINE: &str = "tunepipe 1\nload model \"model\"\n\
    load data \"rows.jsonl\" format=completion max_len=64 long=truncate holdout=10% as a\n\
    load data \"more.json\" format=text max_len=64 long=split as b\n\
    mix data=[a b]\nquantize nf4\ntrain lora steps=3 batch=3\nsave adapter\n";

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("rows.jsonl", &of_every_fate());
    let texts: Vec<String> = (0..30).map(|at| format!("{{\"text\": \"{}\"}}", "prose ".repeat(at))).collect();
    desk.write("more.json", &format!("[\n  {}\n]\n", texts.join(",\n  ")));
    desk.write("p.tp", PIPELINE);
    desk
}

/// Runs `arguments` without a cache, with an empty one and with a full one, and in places that take nothing.
fn thrice(desk: &Desk, arguments: &[&str]) -> Vec<Told> {
    let cache = desk.path("kept/cache");
    let _ = fs::remove_dir_all(&cache);
    let at = |place: &Path| {
        desk.told(arguments, |command| {
            command.env("TUNEPIPE_CACHE", place);
        })
    };
    let without = [Path::new("off"), Path::new(""), &desk.path("p.tp")].map(at);
    assert!(!cache.exists());
    let (cold, warm) = (at(&cache), at(&cache));
    assert!(rows_in(&cache) > 0, "{arguments:?} keeps its rows");
    without.into_iter().chain([cold, warm]).collect()
}

/// Token sets in a cache.
fn rows_in(cache: &Path) -> usize {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "rows")).count()
}

#[test]
fn plans_and_previews_are_the_same_cold_warm_and_without() {
    let desk = desk();
    for arguments in [
        &["plan", "p.tp"][..],
        &["plan", "--json", "p.tp"],
        &["check", "p.tp"],
        &["fit", "p.tp"],
        &["preview", "p.tp", "--rows", "4"],
        &["preview", "--json", "p.tp"],
        &["plan", "p.tp", "--budget", "ram=8MiB"],
    ] {
        let told = thrice(&desk, arguments);
        let free = |told: &Told| match arguments[0] {
            // What the machine has free changes from one moment to the next.
            "fit" => told.out.lines().next().map(str::to_owned).unwrap_or_default(),
            _ => told.out.clone(),
        };
        for other in &told[1..] {
            assert_eq!(
                (told[0].code, free(&told[0]), &told[0].err),
                (other.code, free(other), &other.err),
                "{arguments:?}"
            );
        }
        if arguments[0] == "plan" && arguments.len() == 2 {
            let both = format!("{}{}", told[0].out, told[0].err);
            for words in ["load data · tokenise", "rows.jsonl:7", "truncated", "are empty"] {
                assert!(both.contains(words), "{words}:\n{both}");
            }
        }
    }
}

#[test]
fn faults_are_the_same_cold_warm_and_without() {
    let desk = desk();
    desk.write("bad.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": 1}\n");
    desk.write(
        "long.tp",
        "tunepipe 1\nload model \"model\"\nload data \"rows.jsonl\" format=completion max_len=64\neval\n",
    );
    desk.write("bad.tp", "tunepipe 1\nload model \"model\"\nload data \"bad.jsonl\" format=completion\neval\n");
    let cache = desk.path("kept/cache");
    for file in ["long.tp", "bad.tp"] {
        let with = |place: &Path| {
            desk.told(&["plan", file], |command| {
                command.env("TUNEPIPE_CACHE", place);
            })
            .ended(1)
        };
        let told = [Path::new("off"), &cache, &cache].map(with);
        assert!(told.iter().all(|other| other.err == told[0].err && other.out == told[0].out), "{file}");
        assert_eq!(rows_in(&cache), 0, "{file}: a fault is not kept");
    }
}

/// Takes a key out wherever it stands.
fn forget(value: &mut Value, key: &str) {
    match value {
        Value::Object(map) => {
            map.remove(key);
            map.values_mut().for_each(|value| forget(value, key));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| forget(value, key)),
        _ => {}
    }
}

#[test]
fn a_run_leaves_the_same_cold_warm_and_without() {
    let desk = desk();
    let cache = desk.path("kept/cache");
    let leaves = |name: &str, place: &Path| {
        let folder = format!("runs/{name}");
        desk.told(&["run", "-q", "p.tp", "--run-dir", &folder], |command| {
            command.env("TUNEPIPE_CACHE", place);
        })
        .ended(0);
        let mut files = desk.files(&folder);
        files.remove("timing.jsonl").expect("timing");
        // How long the timing is by now is the clock's.
        let mut progress: Value =
            serde_json::from_slice(&files.remove("progress.json").expect("progress")).expect("JSON");
        forget(&mut progress, "timing");
        // Each run saves into its own folder.
        files.insert("progress".into(), progress.to_string().replace(&folder, "runs/any").into_bytes());
        // Measured bytes are the machine's.
        files.remove("process.json").expect("process");
        let memory: Vec<Value> = serde_json::from_slice(&files.remove("memory.json").expect("memory")).expect("JSON");
        let planned: Vec<String> =
            memory.iter().map(|row| format!("{} {} {}", row["stage"], row["phase"], row["planned"])).collect();
        assert_eq!(planned.iter().filter(|row| row.contains("tokenise")).count(), 2);
        files.insert("planned".into(), planned.join("\n").into_bytes());
        files
    };
    let without = leaves("without", Path::new("off"));
    assert!(without.keys().any(|name| name.ends_with("adapter_model.safetensors")), "{:?}", without.keys());
    same("cold", &without, &leaves("cold", &cache));
    assert_eq!(rows_in(&cache), 2);
    same("warm", &without, &leaves("warm", &cache));
    // A plan's entry serves a run.
    fs::remove_dir_all(&cache).expect("removed");
    desk.told(&["plan", "-q", "p.tp"], |command| {
        command.env("TUNEPIPE_CACHE", &cache);
    })
    .ended(0);
    same("planned before", &without, &leaves("planned", &cache));
    assert_eq!(rows_in(&cache), 2);
}

#[test]
fn the_place_follows_the_environment() {
    let desk = desk();
    let plan = |set: &dyn Fn(&mut Command)| {
        desk.told(&["plan", "-q", "p.tp"], |command| {
            for name in ["TUNEPIPE_CACHE", "XDG_CACHE_HOME", "HOME", "USERPROFILE", "LOCALAPPDATA"] {
                command.env_remove(name);
            }
            set(command);
        })
        .ended(0)
    };
    let (xdg, home, own) = (desk.path("xdg"), desk.path("home"), desk.path("own"));
    let bare = plan(&|_| {});
    plan(&|command| {
        command.env("XDG_CACHE_HOME", &xdg).env("HOME", &home);
    });
    assert_eq!((rows_in(&xdg.join("tunepipe")), home.exists()), (2, false));
    plan(&|command| {
        command.env("XDG_CACHE_HOME", "not/absolute").env("HOME", &home);
    });
    if cfg!(target_os = "linux") {
        assert_eq!(rows_in(&home.join(".cache/tunepipe")), 2);
    }
    let warm = plan(&|command| {
        command.env("TUNEPIPE_CACHE", &own).env("HOME", &home);
    });
    assert_eq!((rows_in(&own), warm.out), (2, bare.out));
    assert!(!desk.path("not").exists());
}
