//! Token sets that are found again are the ones that were made.

use std::fs;

use super::super::kept::{Heard, Source, tokens};
use super::*;
use crate::store::Cache;

/// A data set with a cache of its own.
struct Shelf {
    folder: tempfile::TempDir,
    cache: Cache,
    settings: Settings,
    tokenizer: Tokenizer,
}

impl Shelf {
    fn new(name: &str, text: &str, settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let cache = Cache::at(folder.path().join("cache"), 1 << 30);
        Shelf { folder, cache, settings: Settings { paths: vec![path], ..settings }, tokenizer: chatml() }
    }

    /// The set, and whether rows were tokenised for it.
    fn get(&self, settings: &Settings, whole: bool) -> Result<(TokenSet, bool)> {
        self.get_with(settings, &self.tokenizer, None, whole)
    }

    fn get_with(
        &self,
        settings: &Settings,
        tokenizer: &Tokenizer,
        template: Option<&str>,
        whole: bool,
    ) -> Result<(TokenSet, bool)> {
        let mut made = false;
        let source = Source { settings, tokenizer, template };
        let set = tokens(source, Some(&self.cache), whole, &mut |heard, _, _| made |= heard == Heard::Tokenising)?;
        Ok((set, made))
    }

    fn entries(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(self.folder.path().join("cache")).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| path.extension().is_some_and(|kind| kind == "rows")).collect()
    }
}

#[track_caller]
fn same(one: &TokenSet, other: &TokenSet) {
    assert_eq!((one.sizes(), &one.report, one.work), (other.sizes(), &other.report, other.work));
    for row in 0..one.len() as u32 {
        assert_eq!((one.ids(row), one.counted(row)), (other.ids(row), other.counted(row)), "row {row}");
        assert_eq!(one.origin(row), other.origin(row), "row {row}");
    }
}

/// Rows of every fate: kept, cut, without a word that counts, empty.
fn mixed() -> (String, Settings) {
    let mut lines = String::new();
    for at in 0..5000 {
        let row = match at % 7 {
            5 => json!({"prompt": "x".repeat(80), "completion": "y"}),
            6 => json!({"prompt": "x", "completion": ""}),
            n => json!({"prompt": format!("row {at}"), "completion": "é ".repeat(n * 9 + 1)}),
        };
        lines += &format!("{row}\n");
    }
    (lines, Settings { max_len: Some(40), long: Long::Truncate, ..settings(Format::Completion) })
}

#[test]
fn a_set_is_found_as_it_was_made() {
    let (lines, settings) = mixed();
    let shelf = Shelf::new("rows.jsonl", &lines, settings);
    let (made, anew) = shelf.get(&shelf.settings, true).unwrap();
    let report = &made.report;
    assert!(anew && report.truncated > 0 && report.dropped_empty > 0 && report.zero_places.len() == 5, "{report:?}");
    let (found, anew) = shelf.get(&shelf.settings, true).unwrap();
    assert!(!anew);
    same(&made, &found);
    // A planner gets the lengths alone.
    let (lengths, anew) = shelf.get(&shelf.settings, false).unwrap();
    assert!(!anew && !lengths.holds_tokens() && lengths.ids(0).is_empty());
    assert_eq!((lengths.sizes(), &lengths.report, lengths.bytes()), (made.sizes(), &made.report, made.bytes()));
    // Without a cache it is the same set.
    let source = Source { settings: &shelf.settings, tokenizer: &shelf.tokenizer, template: None };
    same(&made, &tokens(source, None, true, &mut |_, _, _| {}).unwrap());
}

#[test]
fn whatever_changes_rows_makes_another_set_and_nothing_else_does() {
    let (lines, settings) = mixed();
    let shelf = Shelf::new("rows.jsonl", &lines, settings);
    let anew = |settings: &Settings| shelf.get(settings, true).unwrap().1;
    assert!(anew(&shelf.settings) && !anew(&shelf.settings));
    let same = [
        Settings { holdout: Some(Holdout::Rows(5)), ..shelf.settings.clone() },
        Settings { packed: true, shuffle: false, repeat: 3, take: Some(Take::Rows(2)), ..shelf.settings.clone() },
    ];
    assert!(same.iter().all(|settings| !anew(settings)));
    let base = || shelf.settings.clone();
    let other = [
        Settings { max_len: Some(41), ..base() },
        Settings { long: Long::Drop, ..base() },
        Settings { long: Long::Split, ..base() },
        Settings { train_on: TrainOn::All, ..base() },
        Settings { eos: false, ..base() },
        Settings { prompt: "completion".into(), completion: "prompt".into(), ..base() },
        Settings { format: Format::Text, text: "prompt".into(), ..base() },
        Settings { paths: [base().paths, base().paths].concat(), ..base() },
    ];
    for settings in &other {
        assert!(anew(settings) && !anew(settings), "{settings:?}");
    }
    let with = |template| shelf.get_with(&shelf.settings, &shelf.tokenizer, template, true).unwrap().1;
    assert!(with(Some("chatml")) && with(Some("llama3")) && !with(Some("chatml")));
    let bytes = Tokenizer::bytes().unwrap();
    assert!(shelf.get_with(&shelf.settings, &bytes, None, true).unwrap().1);
    // The same rows under another name of the same kind are the same rows; as prose they are not.
    let moved = shelf.folder.path().join("moved.jsonl");
    fs::copy(&shelf.settings.paths[0], &moved).unwrap();
    let (set, again) = shelf.get(&Settings { paths: vec![moved.clone()], ..base() }, true).unwrap();
    assert!(!again && set.len() > 1000);
    let prose = shelf.folder.path().join("rows.txt");
    fs::rename(&moved, &prose).unwrap();
    let text = Settings { paths: vec![prose], format: Format::Text, max_len: None, ..base() };
    let (prose, again) = shelf.get(&text, true).unwrap();
    assert!(again && prose.len() == 1);
    // Other content, other rows.
    fs::write(&shelf.settings.paths[0], lines.replace("row 1", "row 9")).unwrap();
    assert!(anew(&shelf.settings));
}

#[test]
fn damage_is_made_good_without_a_word() {
    let (lines, settings) = mixed();
    let shelf = Shelf::new("rows.jsonl", &lines, settings);
    let (made, _) = shelf.get(&shelf.settings, true).unwrap();
    let entry = shelf.entries().pop().unwrap();
    let good = fs::read(&entry).unwrap();
    let half = good.len() / 2;
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let longer = [&good[..], b"x"].concat();
    let mut huge = good.clone();
    huge[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    let damaged = [
        Vec::new(),
        good[..10].to_vec(),
        good[..half].to_vec(),
        good[..good.len() - 1].to_vec(),
        longer,
        huge,
        b"something else".to_vec(),
        flipped(0),
        flipped(20),
        flipped(30),
        flipped(good.len() / 8),
        flipped(half),
        flipped(good.len() - 40),
        flipped(good.len() - 1),
    ];
    for bytes in damaged {
        fs::write(&entry, bytes).unwrap();
        let (again, anew) = shelf.get(&shelf.settings, true).unwrap();
        assert!(anew);
        same(&made, &again);
        assert_eq!(fs::read(&entry).unwrap(), good);
    }
    // A folder in its place is left alone.
    fs::remove_file(&entry).unwrap();
    fs::create_dir(&entry).unwrap();
    assert!(shelf.get(&shelf.settings, true).unwrap().1);
    assert!(entry.is_dir());
}

#[test]
fn what_is_wrong_is_said_as_without_a_cache() {
    let shelf = Shelf::new("rows.jsonl", "{\"text\": \"a\"}\n{\"text\": 7}\n", settings(Format::Text));
    for _ in 0..2 {
        assert_eq!(spot(&shelf.get(&shelf.settings, true).unwrap_err()), ("data.bad_row", Some(2), Some(2)));
    }
    let gone = Settings { paths: vec![shelf.folder.path().join("gone.jsonl")], ..shelf.settings.clone() };
    assert_eq!(shelf.get(&gone, true).unwrap_err().code, "file.missing");
    let folder = Settings { paths: vec![shelf.folder.path().to_owned()], ..shelf.settings.clone() };
    assert_eq!(shelf.get(&folder, true).unwrap_err().code, "data.unknown_file");
    let long = Settings { max_len: Some(2), ..settings(Format::Text) };
    let shelf = Shelf::new("rows.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"abcd\"}\n", long);
    for _ in 0..2 {
        let fault = shelf.get(&shelf.settings, true).unwrap_err();
        assert_eq!(spot(&fault), ("data.long_row", Some(1), None));
        assert_eq!(fault.notes, ["2 of 2 rows are longer; the longest has 5 tokens"]);
    }
}

#[test]
fn several_at_once_agree() {
    let (lines, settings) = mixed();
    let shelf = Shelf::new("rows.jsonl", &lines, settings);
    let (made, _) = shelf.get(&shelf.settings, true).unwrap();
    fs::remove_file(shelf.entries().pop().unwrap()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| same(&made, &shelf.get(&shelf.settings, true).unwrap().0));
        }
    });
    assert!(!shelf.get(&shelf.settings, true).unwrap().1);
    assert_eq!(fs::read_dir(shelf.folder.path().join("cache")).unwrap().count(), 1, "nothing else is left");
}
