use std::fs;
use std::path::Path;

use tempfile::tempdir;

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_appears_whole_and_alone() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("new/deep/file.txt");
    write(&path, false, |f| {
        f.put(b"one ")?;
        assert!(!path.exists());
        f.put(b"two")
    })
    .unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"one two");
    assert_eq!(names(path.parent().unwrap()), ["file.txt"]);
}

#[cfg(unix)]
#[test]
fn what_was_private_stays_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempdir().unwrap();
    let path = dir.path().join("file.txt");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    write(&path, true, |f| f.put(b"new")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_failing_closure_leaves_nothing() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("file.txt");
    fs::write(&path, "old").unwrap();
    let fault = write(&path, true, |f| {
        f.put(&[7; 3 << 20])?;
        Err(Fault::new("test", "no"))
    })
    .unwrap_err();
    assert_eq!(fault.code, "test");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names(dir.path()), ["file.txt"]);
}

#[test]
fn an_existing_file_is_kept_unless_told() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("file.txt");
    fs::write(&path, "old").unwrap();
    let fault = write(&path, false, |f| f.put(b"new")).unwrap_err();
    assert_eq!(fault.code, "output.exists");
    assert!(fault.help.unwrap().contains("`overwrite`"));
    write(&path, true, |f| f.put(b"new")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn a_file_that_appears_meanwhile_is_not_overwritten() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("file.txt");
    let fault = write(&path, false, |f| {
        fs::write(&path, "theirs").unwrap();
        f.put(b"ours")
    })
    .unwrap_err();
    assert_eq!(fault.code, "output.exists");
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
    assert_eq!(names(dir.path()), ["file.txt"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut file = AtomicFile::over(full, "out.bin".into(), None);
    let fault = file.put(&[1; 2 << 20]).unwrap_err();
    assert_eq!(fault.code, "disk.full");
    assert!(fault.help.is_some());
    // What is still in the buffer must not be believed written either.
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut file = AtomicFile::over(full, "out.bin".into(), None);
    file.put(b"small").unwrap();
    assert_eq!(file.commit().unwrap_err().code, "disk.full");
}

#[test]
fn a_folder_takes_its_name_whole() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("out/model");
    let folder = AtomicFolder::create(&path, false).unwrap();
    folder.text("config.json", b"{}").unwrap();
    assert!(!path.exists());
    folder.commit().unwrap();
    assert_eq!(names(&path), ["config.json"]);
    assert_eq!(names(&dir.path().join("out")), ["model"]);
}

#[test]
fn a_dropped_folder_leaves_nothing() {
    let dir = tempdir().unwrap();
    let folder = AtomicFolder::create(&dir.path().join("model"), false).unwrap();
    folder.text("a", b"1").unwrap();
    drop(folder);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn overwriting_replaces_the_whole_folder_and_only_at_the_end() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("model");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("config.json"), "old").unwrap();
    fs::write(path.join("model-00001-of-00002.safetensors"), "old").unwrap();
    let folder = AtomicFolder::create(&path, true).unwrap();
    folder.text("config.json", b"new").unwrap();
    assert_eq!(fs::read(path.join("config.json")).unwrap(), b"old");
    folder.commit().unwrap();
    assert_eq!(names(&path), ["config.json"]);
    assert_eq!(fs::read(path.join("config.json")).unwrap(), b"new");
    assert_eq!(names(dir.path()), ["model"]);
}

#[test]
fn a_folder_that_appears_meanwhile_is_not_replaced() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("model");
    let folder = AtomicFolder::create(&path, false).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(folder.commit().unwrap_err().code, "output.exists");
    assert_eq!(names(dir.path()), ["model"]);
}

#[test]
fn a_folder_of_other_things_is_not_replaced() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("thesis");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("chapter1.tex"), "years of work").unwrap();
    assert_eq!(check_output(&path, OutputKind::Folder, true).unwrap_err().code, "output.foreign");
    assert_eq!(AtomicFolder::create(&path, true).unwrap_err().code, "output.foreign");
}

#[test]
fn files_of_a_folder_have_plain_names_and_are_written_once() {
    let dir = tempdir().unwrap();
    let folder = AtomicFolder::create(&dir.path().join("model"), false).unwrap();
    for name in ["../evil", "/evil", "a/b", "..", ".", "", "a\\b", "c:evil"] {
        assert_eq!(folder.file(name).unwrap_err().code, "output.name", "{name}");
    }
    folder.text("a", b"1").unwrap();
    assert_eq!(folder.text("a", b"2").unwrap_err().code, "output.twice");
}

#[test]
fn outputs_are_judged_beforehand_without_a_trace() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let code = |path: &Path, kind, over| check_output(path, kind, over).map_err(|f| f.code);
    assert_eq!(code(&file, OutputKind::File, false), Err("output.exists"));
    assert_eq!(code(&file, OutputKind::File, true), Ok(()));
    assert_eq!(code(&file, OutputKind::Folder, true), Err("output.not_a_folder"));
    assert_eq!(code(dir.path(), OutputKind::File, true), Err("output.not_a_file"));
    assert_eq!(code(&file.join("below"), OutputKind::Folder, false), Err("output.not_a_folder"));
    assert_eq!(code(&dir.path().join("a/b/c"), OutputKind::Folder, false), Ok(()));
    assert_eq!(code(Path::new(".."), OutputKind::Folder, true), Err("output.name"));
    assert_eq!(code(Path::new("/"), OutputKind::Folder, true), Err("output.name"));
    assert_eq!(names(dir.path()), ["file"]);
}

#[cfg(unix)]
#[test]
fn a_link_keeps_pointing_and_its_target_is_replaced() {
    let dir = tempdir().unwrap();
    let target = dir.path().join("target");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("config.json"), "old").unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let folder = AtomicFolder::create(&link, true).unwrap();
    folder.text("config.json", b"new").unwrap();
    folder.commit().unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::read(target.join("config.json")).unwrap(), b"new");
}

#[cfg(unix)]
#[test]
fn files_get_the_permissions_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempdir().unwrap();
    let plain = dir.path().join("plain");
    fs::write(&plain, "x").unwrap();
    let ours = dir.path().join("ours");
    write(&ours, false, |f| f.put(b"x")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&ours), mode(&plain));
    let (plain, ours) = (dir.path().join("plain_dir"), dir.path().join("our_dir"));
    fs::create_dir(&plain).unwrap();
    AtomicFolder::create(&ours, false).unwrap().commit().unwrap();
    assert_eq!(mode(&ours), mode(&plain));
}

#[cfg(unix)]
#[test]
fn what_a_killed_writer_left_is_cleared_and_a_living_one_kept() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("model");
    let dead = dir.path().join(".model.tmp-a1B2c3");
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join("model.safetensors"), "half").unwrap();
    let dead_file = dir.path().join(".model.tmp-x1y2z3");
    fs::write(&dead_file, "half").unwrap();
    for other in [".model.tmp-notes.txt", ".model2.tmp-a1B2c3", "model.tmp-a1B2c3"] {
        fs::write(dir.path().join(other), "somebody's").unwrap();
    }
    let living = AtomicFolder::create(&path, false).unwrap();
    assert!(!dead.exists() && !dead_file.exists());
    let second = AtomicFolder::create(&path, false).unwrap();
    assert_eq!(names(dir.path()).iter().filter(|n| n.starts_with(".model.tmp-") && n.len() == 17).count(), 2);
    living.text("config.json", b"{}").unwrap();
    living.commit().unwrap();
    assert_eq!(second.commit().unwrap_err().code, "output.exists");
    assert_eq!(names(dir.path()), [".model.tmp-notes.txt", ".model2.tmp-a1B2c3", "model", "model.tmp-a1B2c3"]);
}

#[cfg(unix)]
#[test]
fn an_overwrite_killed_between_its_renames_is_undone() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("model");
    let aside = dir.path().join(".model.old-a1B2c3/old");
    fs::create_dir_all(&aside).unwrap();
    fs::write(aside.join("config.json"), "the old one").unwrap();
    assert_eq!(check_output(&path, OutputKind::Folder, false).unwrap_err().code, "output.exists");
    assert_eq!(fs::read(path.join("config.json")).unwrap(), b"the old one");
    assert_eq!(names(dir.path()), ["model"]);
}

/// More than the bytes between early syncs, in pieces of every size.
#[test]
fn a_large_file_has_every_byte() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("large");
    let mut file = AtomicFile::create(&path, false).unwrap();
    let mut expected = Vec::new();
    for (i, len) in
        [1usize, WRITE_BUFFER - 1, 3, WRITE_BUFFER, 2 * WRITE_BUFFER + 5, 777].iter().cycle().take(72).enumerate()
    {
        let bytes: Vec<u8> = (0..*len).map(|at| (at * 31 + i) as u8).collect();
        if i % 2 == 0 {
            file.put(&bytes).unwrap()
        } else {
            std::io::Write::write_all(&mut file, &bytes).unwrap()
        }
        expected.extend_from_slice(&bytes);
    }
    assert!(expected.len() as u64 > EarlySync::EVERY && file.early.is_some());
    assert_eq!(file.written(), expected.len() as u64);
    file.commit().unwrap();
    assert!(std::fs::read(&path).unwrap() == expected);
    let mut given_up = AtomicFile::create(&dir.path().join("other"), false).unwrap();
    given_up.put(&expected).unwrap();
    drop(given_up);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
