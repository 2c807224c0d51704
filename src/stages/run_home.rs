//! Where the run will write its own folder, so that no save is planned into it, around it, or into another run's.

use std::path::{Path, PathBuf};

use crate::store;
use crate::text::Fault;

/// What a run writes in its folder beside what stages save there.
const OWN: [&str; 7] =
    ["checkpoints", "manifest.json", "memory.json", "metrics.jsonl", "process.json", "progress.json", "timing.jsonl"];

/// The folder of this run, as far as it is known before it starts.
#[derive(Debug, Clone)]
pub struct RunHome {
    /// With links followed.
    folder: PathBuf,
    /// It is the run's folder itself; else runs get folders by the time in it, and `latest` points at the newest.
    exact: bool,
    /// What an earlier process of the run made, with links followed; none: there was no earlier one.
    made: Option<Vec<PathBuf>>,
}

impl RunHome {
    /// `runs/<stem>`, below which each run has a folder by its time.
    pub fn of(stem: &str) -> Self {
        RunHome { folder: store::resolved(&Path::new("runs").join(stem)), exact: false, made: None }
    }

    /// `--run-dir`
    pub fn exactly(folder: &Path) -> Self {
        RunHome { folder: store::resolved(folder), exact: true, made: None }
    }

    /// The folder of a run that is taken up again, with the folders that it has made.
    pub fn of_earlier(folder: &Path, made: &[PathBuf]) -> Self {
        let made = made.iter().map(|path| store::resolved(path)).collect();
        RunHome { made: Some(made), ..Self::exactly(folder) }
    }

    /// Whether a run is taken up again.
    pub fn is_earlier(&self) -> bool {
        self.made.is_some()
    }

    /// Whether an earlier process of this run made what lies at `path`.
    pub fn made(&self, path: &Path) -> bool {
        let real = store::resolved(path);
        self.made.iter().flatten().any(|known| *known == real)
    }

    /// The run's folder, or the one that it will lie in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A place in the run's folder, where that has a name already.
    pub fn place(&self, name: &Path) -> Option<PathBuf> {
        self.exact.then(|| self.folder.join(name))
    }

    /// Why `path`, with its links followed `real`, cannot be written by this run.
    pub fn refuses(&self, path: &Path, real: &Path) -> Option<Fault> {
        let shown = path.display();
        let refused = |message: String| {
            Some(
                Fault::new("output.run", message)
                    .at(path)
                    .help("save to a folder of its own, for example \"out/adapter\"; `save adapter` without a path saves into the run's folder"),
            )
        };
        if self.folder.starts_with(real) {
            return refused(format!("`{shown}` is where the run makes its own folder"));
        }
        let inside = real.strip_prefix(&self.folder).ok().and_then(|rest| rest.iter().next());
        match inside.map(|first| first.to_string_lossy()) {
            Some(first) if self.exact && OWN.contains(&&*first) => {
                return refused(format!("`{shown}` is a file that the run writes itself"));
            }
            Some(first) if !self.exact && first == "latest" => {
                return refused(format!("`{shown}` lies in `latest`, which points at another run by then"));
            }
            _ => {}
        }
        let older = real.ancestors().find(|folder| **folder != self.folder && is_run(folder))?;
        refused(format!("`{shown}` lies in the folder of another run, `{}`", older.display()))
    }
}

/// Whether a run wrote into the folder; a saved model may have a manifest too, and has no metrics.
fn is_run(folder: &Path) -> bool {
    folder.join("manifest.json").is_file() && folder.join("metrics.jsonl").is_file()
}
