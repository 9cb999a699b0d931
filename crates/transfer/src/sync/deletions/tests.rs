use crate::end::{Entry, Info, Kind};

use super::*;

fn entry(name: &str, kind: Kind) -> Entry {
    Entry { name: name.as_bytes().into(), info: Info { kind, ..Info::UNKNOWN } }
}

fn deletions(max_delete: Option<u64>, dry_run: bool) -> Deletions {
    let options = TreeSync { delete: true, max_delete, ..TreeSync::default() };
    Deletions::new(Some(&options), dry_run)
}

fn with_entries(max_delete: Option<u64>, dry_run: bool, entries: Vec<Entry>) -> Deletions {
    let mut deletions = deletions(max_delete, dry_run);
    let times = Some(Times { access: (1, 0), modification: (2, 0) });
    deletions.add(Extraneous { directory: b"t".to_vec(), relative: Vec::new(), times, entries });
    deletions
}

/// Carries out all steps with a target on which `outcome` is the answer; returns the steps in words.
fn run(deletions: &mut Deletions, mut outcome: impl FnMut(&DeletionStep) -> Outcome) -> Vec<String> {
    let select = Selection::default();
    let mut steps = Vec::new();
    while deletions.are_under_way() {
        deletions.start_more();
        while let Some(step) = deletions.next_step() {
            let path = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
            let (words, asked) = match &step {
                DeletionStep::List(key, at) => {
                    (format!("list {}", path(at)), Some((*key, RemovalStep::List)))
                }
                DeletionStep::ListMore(key, _) => ("more".to_owned(), Some((*key, RemovalStep::ListMore))),
                DeletionStep::Remove(key, at) => {
                    (format!("remove {}", path(at)), Some((*key, RemovalStep::Delete)))
                }
                DeletionStep::RemoveDir(key, at) => {
                    (format!("rmdir {}", path(at)), Some((*key, RemovalStep::Delete)))
                }
                DeletionStep::BackUp(key, at) => {
                    (format!("back up {}", path(at)), Some((*key, RemovalStep::Delete)))
                }
                DeletionStep::Restore(key, at, _) => {
                    (format!("times {}", path(at)), Some((*key, RemovalStep::Restore)))
                }
                DeletionStep::Deleted(at) => (format!("deleted {}", path(at)), None),
                DeletionStep::Failed(_, at, fault) => (format!("failed {}: {}", path(at), fault.text), None),
                DeletionStep::MostReached(most) => (format!("most {most}"), None),
                DeletionStep::NotEmpty(at) => (format!("not empty {}", path(at)), None),
                DeletionStep::Copy(item) => (format!("copy {}", path(&item.target)), None),
                DeletionStep::DoNotCopy(item) => (format!("do not copy {}", path(&item.target)), None),
                DeletionStep::Close(_) => ("close".to_owned(), None),
            };
            steps.push(words);
            if let Some((key, asked)) = asked {
                let outcome = outcome(&step);
                deletions.on_answer(key, asked, outcome, &select);
            }
        }
    }
    assert!(deletions.are_finished());
    steps
}

/// A target on which every directory has the files `a` and `b`.
fn two_files(step: &DeletionStep) -> Outcome {
    match step {
        DeletionStep::List(..) => Ok(Done::Listing(
            None,
            vec![entry("b", Kind::File), entry(".", Kind::Dir), entry("a", Kind::File)],
        )),
        _ => Ok(Done::Ok),
    }
}

fn refused(text: &str) -> Outcome {
    Err(Fault::other(text))
}

fn blocked(target: &str) -> Item {
    Item::top(b"s/x".to_vec(), target.into(), Info::UNKNOWN)
}

#[test]
fn directory_is_emptied_before_it_is_deleted() {
    let mut deletions = with_entries(None, false, vec![entry("d", Kind::Dir), entry("f", Kind::File)]);
    assert!(deletions.are_waiting());
    deletions.begin(None);
    let steps = run(&mut deletions, two_files);
    let at = |step: &str| steps.iter().position(|each| each == step).expect(step);
    assert!(at("list t/d") < at("remove t/d/a") && at("remove t/d/a") < at("remove t/d/b"), "{steps:?}");
    assert!(at("deleted t/d/b") < at("rmdir t/d") && at("deleted t/d") < at("times t"), "{steps:?}");
    assert_eq!(steps.iter().filter(|step| step.starts_with("deleted")).count(), 4, "{steps:?}");
}

#[test]
fn directory_with_part_file_stays() {
    let part = String::from_utf8(crate::task::place::part_name(b"f", &[7; 16])).expect("a name");
    let mut deletions = with_entries(None, false, vec![entry("d", Kind::Dir)]);
    deletions.begin(None);
    let steps = run(&mut deletions, |step| match step {
        DeletionStep::List(..) => {
            Ok(Done::Listing(None, vec![entry(&part, Kind::File), entry("a", Kind::File)]))
        }
        _ => Ok(Done::Ok),
    });
    // The directory above was not touched: its times need no repair.
    assert_eq!(steps, ["list t/d", "remove t/d/a", "deleted t/d/a", "not empty t/d"]);
}

#[test]
fn max_delete_is_reported_once_and_the_rest_stays() {
    let names = ["a", "b", "c", "d"].map(|name| entry(name, Kind::File)).into();
    let mut deletions = with_entries(Some(2), true, names);
    deletions.begin(None);
    assert_eq!(run(&mut deletions, |_| Ok(Done::Ok)), ["deleted t/a", "deleted t/b", "most 2"]);
}

#[test]
fn backups_move_files_and_their_root_is_not_deleted() {
    let entries = vec![entry("f", Kind::File), entry("old", Kind::Dir)];
    let mut deletions = with_entries(None, false, entries);
    deletions.begin(Some(b"t/old".to_vec()));
    assert_eq!(run(&mut deletions, |_| Ok(Done::Ok)), ["back up t/f", "deleted t/f", "times t"]);
}

#[test]
fn missing_entries_count_as_deleted() {
    let mut deletions = with_entries(None, false, vec![entry("f", Kind::File), entry("g", Kind::File)]);
    deletions.begin(None);
    let steps = run(&mut deletions, |step| match step {
        DeletionStep::Remove(_, path) if path == b"t/f" => {
            Err(Fault { kind: FaultKind::NotFound, text: String::new() })
        }
        DeletionStep::Remove(..) => refused("no"),
        _ => Ok(Done::Ok),
    });
    assert_eq!(steps, ["remove t/f", "remove t/g", "failed t/g: no", "times t"]);
}

#[test]
fn blocked_item_is_copied_once_its_place_is_free() {
    for frees in [true, false] {
        let mut deletions = deletions(None, false);
        deletions.delete_before(blocked("t/x"), b"x".to_vec());
        deletions.begin(None);
        let steps = run(&mut deletions, |step| match step {
            DeletionStep::RemoveDir(..) if !frees => refused("busy"),
            step => two_files(step),
        });
        let last = if frees { "copy t/x" } else { "do not copy t/x" };
        assert_eq!(steps.last().map(String::as_str), Some(last), "{steps:?}");
    }
}

#[test]
fn stopped_deletions_copy_nothing_and_delete_nothing() {
    let mut deletions = with_entries(None, false, vec![entry("f", Kind::File)]);
    deletions.delete_before(blocked("t/x"), b"x".to_vec());
    deletions.stop();
    assert!(matches!(deletions.next_step(), Some(DeletionStep::DoNotCopy(_))));
    assert!(deletions.next_step().is_none() && deletions.are_finished());
}

#[test]
fn another_source_of_the_command_is_no_leftover() {
    let mut deletions = with_entries(None, false, vec![entry("f", Kind::File)]);
    assert!(deletions.add_top(b"t/f") && !deletions.add_top(b"t/f"));
    deletions.begin(None);
    assert!(run(&mut deletions, |_| Ok(Done::Ok)).is_empty());
}

#[test]
fn nothing_waits_without_delete() {
    assert!(Deletions::new(Some(&TreeSync::default()), false).are_finished());
    assert!(Deletions::new(None, false).are_finished());
}

#[test]
fn directories_are_deleted_in_order_whatever_is_listed_first() {
    let entries = vec![entry("c", Kind::Dir), entry("d", Kind::Dir), entry("e", Kind::File)];
    let mut deletions = with_entries(None, true, entries);
    let times = None;
    let entries = vec![entry("x", Kind::File)];
    deletions.add(Extraneous { directory: b"a".to_vec(), relative: Vec::new(), times, entries });
    deletions.begin(None);
    let mut deleted = Vec::new();
    let (mut asked, mut most) = (Vec::new(), 0);
    while deletions.are_under_way() {
        deletions.start_more();
        while let Some(step) = deletions.next_step() {
            match step {
                DeletionStep::List(key, path) => asked.push((key, path)),
                DeletionStep::Deleted(path) => deleted.push(String::from_utf8(path).expect("a path")),
                step => panic!("{step:?}"),
            }
        }
        most = most.max(asked.len());
        if let Some((key, path)) = asked.pop() {
            assert_eq!(deleted, ["a/x"], "{}", String::from_utf8_lossy(&path));
            let listed = Ok(Done::Listing(None, vec![entry("f", Kind::File)]));
            deletions.on_answer(key, RemovalStep::List, listed, &Selection::default());
        }
    }
    assert_eq!(most, 2, "directories are listed ahead");
    assert_eq!(deleted, ["a/x", "t/c/f", "t/c", "t/d/f", "t/d", "t/e"]);
}

#[test]
fn deletions_beyond_the_limit_are_the_last_ones_in_order() {
    let mut deletions = deletions(Some(2), true);
    for number in (0..2000).rev() {
        let directory = format!("t{number:04}").into_bytes();
        let entries = vec![entry("f", Kind::File)];
        deletions.add(Extraneous { directory, relative: Vec::new(), times: None, entries });
    }
    assert!(deletions.extraneous.len() < 1100, "{}", deletions.extraneous.len());
    deletions.begin(None);
    assert_eq!(run(&mut deletions, |_| Ok(Done::Ok)), ["deleted t0000/f", "deleted t0001/f", "most 2"]);
}
