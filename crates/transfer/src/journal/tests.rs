use proptest::prelude::*;

use super::text::{escaped, hex, unescaped};
use super::*;

fn here(dir: &tempfile::TempDir) -> PathBuf {
    file_for(dir.path(), &[b"put", b"host:/a"], None)
}

#[test]
fn journal_is_read_again_up_to_a_cut_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = here(&dir);
    let (first, second) = (tag(b"a", b"b", 7, (1, 2)), tag(b"a", b"b", 7, (1, 3)));
    assert_ne!(first, second, "a changed source has another tag");
    let mut journal = Journal::open(&path, true, None).expect("a journal");
    journal.begin(b"dir/new\nline", b"dir/.new\nline.x");
    journal.advance(b"dir/.new\nline.x", 100);
    journal.begin(b"other", b".other.1");
    journal.finish(&first, b".other.1");
    journal.flush();
    assert!(Journal::open(&path, true, None).is_none(), "one process at a time");
    drop(journal);
    OpenOptions::new().append(true).open(&path).expect("it").write_all(b"done 00").expect("a cut line");

    let mut journal = Journal::open(&path, true, None).expect("it again");
    assert!(journal.is_done(&first) && !journal.is_done(&second));
    assert_eq!(journal.upto(b"dir/.new\nline.x"), 100);
    assert_eq!(journal.outdated(b"dir/new\nline", b"another"), [b"dir/.new\nline.x".to_vec()]);
    journal.finish(&second, b"x");
    journal.flush();
    drop(journal);
    assert!(Journal::open(&path, true, None).expect("it").is_done(&second), "written behind the cut line");
}

#[test]
fn local_target_is_not_trusted_after_a_crash_of_the_machine() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = here(&dir);
    let done = tag(b"a", b"b", 7, (1, 2));
    let text = format!("{HEADER}\nboot another\npart t n\nupto 5 n\ndone {}\n", hex(&done));
    std::fs::write(&path, text).expect("a journal");
    let journal = Journal::open(&path, false, None).expect("it");
    assert!(!journal.is_done(&done) && journal.upto(b"n") == 0);
    drop(journal);
    let journal = Journal::open(&path, true, None).expect("it");
    assert!(journal.is_done(&done) && journal.upto(b"n") == 5);
}

#[test]
fn a_failed_copy_keeps_what_is_unfinished_and_not_what_is_done() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = here(&dir);
    let done = tag(b"a", b"b", 7, (1, 2));
    let mut journal = Journal::open(&path, true, None).expect("a journal");
    journal.note_new(b"a new name");
    journal.begin(b"t", b"n");
    journal.advance(b"n", 5);
    journal.finish(&done, b"x");
    journal.flush();
    journal.keep_failed(true);
    let mut journal = Journal::open(&path, true, None).expect("it");
    assert!(!journal.is_done(&done) && journal.upto(b"n") == 5 && journal.was_new(b"a new name"));
    journal.forget(b"n");
    journal.keep_failed(false);
    assert!(!path.exists(), "nothing was made, nothing is unfinished");
}

#[test]
fn shards_share_what_is_done_and_the_last_removes_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let words: &[&[u8]] = &[b"put", b"h:x"];
    let tags = [1, 2, 3].map(|size| tag(b"a", b"b", size, (0, 0)));
    for (number, tag) in tags.iter().enumerate() {
        let path = file_for(dir.path(), words, Some((number as u32, 3)));
        let mut journal = Journal::open(&path, true, None).expect("a journal");
        journal.finish(tag, b"x");
        journal.flush();
    }
    let whole = Journal::open(&file_for(dir.path(), words, None), true, None).expect("a journal");
    assert!(tags.iter().all(|tag| whole.is_done(tag)));
    let other = Journal::open(&file_for(dir.path(), &[b"get"], None), true, None).expect("a journal");
    assert!(!other.is_done(&tags[0]));
    drop(other);
    whole.remove();
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 0..60_usize) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = here(&dir);
        let mut text = format!("{HEADER}\nboot x\npart a%20b n\nupto 3 n\n").into_bytes();
        text.truncate(cut);
        text.extend(bytes);
        std::fs::write(&path, text).expect("a file");
        let mut journal = Journal::open(&path, true, None).expect("opened");
        journal.begin(b"t", b"n2");
        journal.flush();
    }

    #[test]
    fn names_survive(name in proptest::collection::vec(any::<u8>(), 0..60)) {
        let word = escaped(&name);
        prop_assert!(!word.contains([' ', '\n']));
        prop_assert_eq!(unescaped(word.as_bytes()), Some(name));
    }
}

#[test]
fn a_list_says_what_is_left_and_how_it_was_started() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = here(&dir);
    let command = [&b"/home/me"[..], b"lhscp", b"-r", b"a b\n\xff", b"", b"host:"].map(<[u8]>::to_vec);
    let mut journal = Journal::open(&path, true, None).expect("a journal");
    journal.note_command(&command);
    journal.begin(b"/there/x", b"/there/.x.123.lhpart");
    journal.advance(b"/there/.x.123.lhpart", 77);
    journal.begin(b"/there/y", b"/there/y");
    journal.finish(&tag(b"z", b"/there/z", 1, (2, 3)), b"");
    journal.flush();
    let saved = super::list(dir.path());
    let [saved] = &saved[..] else { panic!("{saved:?}") };
    assert!(saved.running, "while the journal is open");
    assert_eq!((&saved.command[..], saved.done), (&command[..], 1));
    assert_eq!(saved.parts[0].bytes, 77);
    assert_eq!([saved.parts[0].is_ours(), saved.parts[1].is_ours()], [true, false]);
    assert!(super::remove(saved).is_err(), "in use");
    // Where some of it failed, too.
    journal.keep_failed(true);
    let saved = super::read(&path).expect("it");
    assert_eq!((&saved.command[..], saved.done, saved.running), (&command[..], 0, false));
    super::remove(&saved).expect("removed");
    assert!(!path.exists());
}

#[test]
fn a_command_too_long_for_a_line_is_left_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = here(&dir);
    let mut journal = Journal::open(&path, true, None).expect("a journal");
    journal.note_command(&[vec![b'x'; 100_000]]);
    journal.begin(b"t", b"n");
    journal.flush();
    let saved = super::read(&path).expect("it");
    assert_eq!((saved.command.len(), saved.parts.len()), (0, 1));
}

#[test]
fn targets_with_unfinished_files_are_known_later() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = here(&dir);
    let mut journal = Journal::open(&path, true, None).expect("a journal");
    for target in [&b"asked"[..], b"begun", b"placed"] {
        journal.note_opening(target);
    }
    journal.begin(b"begun", b".begun.1");
    journal.begin(b"placed", b".placed.1");
    journal.finish(&tag(b"a", b"placed", 7, (1, 2)), b".placed.1");
    journal.flush();
    assert!(!journal.may_have_left(b"asked"), "this attempt's own files are open");
    drop(journal);
    let journal = Journal::open(&path, true, None).expect("it again");
    assert!(journal.may_have_left(b"asked") && journal.may_have_left(b"begun"));
    assert!(!journal.may_have_left(b"placed") && !journal.may_have_left(b"other"));
}
