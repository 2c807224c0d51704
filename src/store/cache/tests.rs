use super::*;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn put(cache: &Cache, key: u8, bytes: usize) {
    cache.keep("rows", &[key; 32], bytes as u64, |file| file.put(&vec![key; bytes]));
}

fn has(cache: &Cache, key: u8) -> bool {
    cache.open("rows", &[key; 32]).is_some()
}

/// As if nobody had used it for so many seconds.
fn age(cache: &Cache, key: u8, seconds: u64) {
    let file = OpenOptions::new().append(true).open(cache.path("rows", &[key; 32])).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}

#[test]
fn the_longest_unused_go_first_and_strangers_stay() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("made"), 100);
    put(&cache, 1, 40);
    put(&cache, 2, 40);
    fs::write(folder.path().join("made/notes.txt"), [0; 500]).unwrap();
    age(&cache, 1, 90);
    age(&cache, 2, 60);
    // A use makes it young again.
    assert!(has(&cache, 1));
    put(&cache, 3, 40);
    assert!(has(&cache, 1) && !has(&cache, 2) && has(&cache, 3));
    // What would not fit at all throws nothing out.
    put(&cache, 4, 101);
    assert!(has(&cache, 1) && has(&cache, 3) && !has(&cache, 4));
    assert!(folder.path().join("made/notes.txt").exists());
}

#[cfg(unix)]
#[test]
fn what_is_kept_is_the_users_own() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("made"), 100);
    put(&cache, 1, 4);
    assert_eq!(fs::metadata(folder.path().join("made")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_place_that_takes_nothing_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let cache = Cache::at(file.join("below"), 100);
    put(&cache, 1, 4);
    assert!(!has(&cache, 1));
    assert_eq!(sum_of(&file, Some(&cache), &mut |_| {}).unwrap(), <Sum>::from(Sha256::digest("x")));
}

#[test]
fn what_a_killed_writer_left_is_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().to_owned(), 100);
    let leftover = format!(".{}.rows.tmp-abcdef", hex(&[7; 32]));
    fs::write(folder.path().join(&leftover), [0; 50]).unwrap();
    fs::write(folder.path().join(".other.tmp-abcdef"), [0; 50]).unwrap();
    put(&cache, 1, 40);
    assert_eq!(names(folder.path()), [".other.tmp-abcdef".to_owned(), format!("{}.rows", hex(&[1; 32]))]);
}

#[test]
fn a_settled_file_is_read_once_and_a_changed_one_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("cache"), 1 << 20);
    let path = folder.path().join("rows.jsonl");
    fs::write(&path, "one").unwrap();
    let sum = |text: &str| <Sum>::from(Sha256::digest(text));
    let found = || sum_of(&path, Some(&cache), &mut |_| {}).unwrap();
    assert_eq!(found(), sum("one"));
    assert!(!folder.path().join("cache").exists(), "a file of this moment is not believed to stay as it is");
    std::thread::sleep(SETTLED + Duration::from_millis(50));
    assert_eq!(found(), sum("one"));
    // What is known is believed: the entry says another sum, and the file is not read.
    let stamp = Stamp::of(&path).unwrap();
    let other = serde_json::to_vec(&Known { stamp: stamp.clone(), sum: [9; 32] }).unwrap();
    fs::write(cache.path(SUMS, &stamp.key()), other).unwrap();
    assert_eq!(found(), [9; 32]);
    // Nonsense is not.
    fs::write(cache.path(SUMS, &stamp.key()), "{\"stamp\": 1}").unwrap();
    assert_eq!(found(), sum("one"));
    // The same length, and times set back: it is another file all the same.
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, "two").unwrap();
    OpenOptions::new().append(true).open(&path).unwrap().set_modified(before).unwrap();
    assert_eq!(found(), sum("two"));
}
