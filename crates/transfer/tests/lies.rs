//! A server that lies: no panic, no endless loop, nothing outside of the target, and a word about it.

mod common;

use std::cell::Cell;
use std::fs;
use std::rc::Rc;

use common::{Ended, Faults, Setup, TempTree, copy_with, in_part_files, plan, whole_tree};
use lh_testkit::Seeded;
use lh_transfer::{Direction, Options};
use proptest::prelude::*;

const DATA: u8 = 103;
const HANDLE: u8 = 102;
const NAME: u8 = 104;
const ATTRS: u8 = 105;
const STATUS: u8 = 101;
const EXTENDED_REPLY: u8 = 201;

/// Copies a small tree, by requests that every server knows, while `tamper` rewrites the replies.
fn tampered(
    direction: Direction,
    tamper: impl FnMut(Vec<u8>) -> Vec<Vec<u8>> + 'static,
) -> (TempTree, Ended) {
    tampered_by(true, direction, tamper)
}

/// Like [`tampered`]; with `stock`, the server has none of our extensions.
fn tampered_by(
    stock: bool,
    direction: Direction,
    tamper: impl FnMut(Vec<u8>) -> Vec<Vec<u8>> + 'static,
) -> (TempTree, Ended) {
    let temp = TempTree::new();
    temp.file("from/a", 300_000);
    temp.file("from/sub/b", 10);
    let mut setup = Setup { tamper: Box::new(tamper), stock, ..Setup::default() };
    let plan = plan(direction, &temp.join("from"), &temp.join("to"));
    let ended = copy_with(plan, whole_tree(), temp.path(), &mut setup);
    (temp, ended)
}

#[test]
fn names_in_listings_cannot_lead_out_of_the_target() {
    let suspects: [&[u8]; 5] = [b"../evil", b"/tmp/evil-of-lhscp", b"", b"a/b", b"nul\0"];
    for direction in [Direction::Download, Direction::Relay] {
        let temp = TempTree::new();
        temp.file("in/from/good", 10);
        let faults = Faults {
            extra_entries: suspects.iter().map(|name| name.to_vec()).collect(),
            ..Faults::default()
        };
        let mut setup = Setup { faults, ..Setup::default() };
        let plan = plan(direction, &temp.join("in/from"), &temp.join("in/to"));
        let ended = copy_with(plan, whole_tree(), temp.path(), &mut setup);
        assert_eq!(ended.failures.len(), suspects.len(), "{:?}", ended.failures);
        for text in &ended.failures {
            assert!(text.starts_with("Server sent suspect path \"") && text.contains("during readdir of"));
        }
        let made: Vec<_> = fs::read_dir(temp.join("in/to")).expect("a listing").collect();
        assert_eq!(made.len(), 1);
        assert!(!temp.join("in/evil").exists() && !temp.join("evil").exists());
    }
}

#[test]
fn suspect_names_do_not_match_patterns() {
    let temp = TempTree::new();
    temp.file("from/good", 10);
    temp.dir("in/to");
    let faults = Faults { extra_entries: vec![b"../evil".to_vec()], ..Faults::default() };
    let mut setup = Setup { faults, ..Setup::default() };
    let plan = plan(Direction::Download, &temp.join("from/*"), &temp.join("in/to"));
    copy_with(plan, Options::default(), temp.path(), &mut setup).well();
    assert!(!temp.join("in/evil").exists());
}

#[test]
fn more_data_than_asked_for_is_refused() {
    let (temp, ended) = tampered(Direction::Download, |mut message| {
        if message[0] == DATA {
            let len = u32::from_be_bytes(message[5..9].try_into().expect("four bytes")) + 5;
            message[5..9].copy_from_slice(&len.to_be_bytes());
            message.extend_from_slice(b"extra");
        }
        vec![message]
    });
    assert_eq!(ended.failures.len(), 2, "{:?}", ended.failures);
    assert!(ended.failures[0].ends_with("the server sent more data than it was asked for"));
    assert_eq!(fs::metadata(temp.join("to/a")).map_or(0, |meta| meta.len()), 0);
}

#[test]
fn empty_data_is_an_end_and_no_loop() {
    let (_temp, ended) = tampered(Direction::Download, |mut message| {
        if message[0] == DATA {
            message.truncate(5);
            message.extend_from_slice(&[0; 4]);
        }
        vec![message]
    });
    assert!(ended.failures.iter().all(|text| text.contains("file shrank")), "{:?}", ended.failures);
}

#[test]
fn an_id_nobody_asked_with_ends_the_session() {
    for direction in [Direction::Upload, Direction::Download, Direction::Relay] {
        let (_temp, ended) = tampered(direction, |mut message| {
            if message[0] == HANDLE {
                message[1] ^= 0x80;
            }
            vec![message]
        });
        assert!(ended.summary.lost);
        let mismatch = "ID mismatch: the SFTP server answered request ";
        let told = |text: &String| text.contains(mismatch) && text.ends_with(", which is not open");
        assert!(ended.failures.iter().all(told), "{:?}", ended.failures);
    }
}

#[test]
fn a_second_answer_to_one_request_ends_the_session() {
    let (_temp, ended) = tampered(Direction::Download, |message| {
        if message[0] == HANDLE { vec![message.clone(), message] } else { vec![message] }
    });
    assert!(ended.summary.lost);
}

#[test]
fn listings_without_end_and_without_entries_end() {
    let (_temp, ended) = tampered(Direction::Download, |message| {
        if message[0] == NAME && message.len() > 200 {
            let mut empty = message[..5].to_vec();
            empty.extend_from_slice(&[0; 4]);
            return vec![empty];
        }
        vec![message]
    });
    assert_eq!(ended.summary.files, 0);
}

#[test]
fn answers_of_the_wrong_type_fail_what_they_answer() {
    for direction in [Direction::Upload, Direction::Download, Direction::Relay] {
        let (_temp, ended) = tampered(direction, |mut message| {
            if message[0] == HANDLE {
                // A STATUS that says OK where a handle was asked for.
                message.truncate(5);
                message[0] = STATUS;
                message.extend_from_slice(&[0; 12]);
            }
            vec![message]
        });
        assert!(!ended.failures.is_empty());
        assert!(ended.failures.iter().all(|text| text.ends_with("Bad message")), "{:?}", ended.failures);
    }
}

#[test]
fn text_in_front_of_sftp_is_explained() {
    let mut first = true;
    let (_temp, ended) = tampered(Direction::Upload, move |message| {
        if std::mem::take(&mut first) { vec![vec![b'W'; 0x200_000]] } else { vec![message] }
    });
    assert!(ended.summary.lost);
}

#[test]
fn a_servers_text_cannot_drive_the_terminal() {
    let (_temp, ended) = tampered(Direction::Download, |mut message| {
        if message[0] == DATA {
            message.truncate(5);
            message[0] = STATUS;
            message.extend_from_slice(&4_u32.to_be_bytes());
            message.extend_from_slice(&9_u32.to_be_bytes());
            message.extend_from_slice(b"a\x1b[2Jb\r\nc");
            message.extend_from_slice(&[0; 4]);
        }
        vec![message]
    });
    assert!(ended.failures[0].ends_with("a\\033[2Jb\\015\\012c"), "{:?}", ended.failures);
}

#[test]
fn batches_are_answered_file_by_file_or_not_at_all() {
    // Behind type and id: how many follow. Those of `limits@openssh.com` and of listings are longer.
    for claimed in [0_u32, 2, u32::MAX] {
        for (direction, file) in [(Direction::Upload, "b"), (Direction::Download, "sub/b")] {
            let (temp, ended) = tampered_by(false, direction, move |mut message| {
                let answers_a_batch = message[0] == EXTENDED_REPLY
                    && (message.len() == 9 || message[5..9] == 1_u32.to_be_bytes());
                if answers_a_batch {
                    message[5..9].copy_from_slice(&claimed.to_be_bytes());
                }
                vec![message]
            });
            if claimed == 0 && direction == Direction::Upload {
                assert_eq!(ended.failures, Vec::<String>::new());
                continue;
            }
            assert_eq!(ended.failures.len(), 1, "{claimed} {direction:?} {:?}", ended.failures);
            assert!(ended.failures[0].contains(file) && ended.failures[0].ends_with("Bad message"));
            assert_eq!(fs::metadata(temp.join("to/a")).map_or(0, |meta| meta.len()), 300_000);
        }
    }
}

#[test]
fn late_answers_beside_a_link_do_not_count() {
    let is_link = |message: &[u8]| {
        let mode = message.get(25..29).map(|mode| u32::from_be_bytes(mode.try_into().expect("four bytes")));
        mode.is_some_and(|mode| mode & 0o170_000 == 0o120_000)
    };
    let temp = TempTree::new();
    let source = temp.file("from", 5000);
    temp.dir("there");
    temp.write("there/real", b"old");
    temp.link("link", "there/real");
    // The server says what is beside the link when it has said what is where the link leads.
    let late = Rc::new(Cell::new(false));
    let (mut at_link, mut followed, mut held) = (false, false, Vec::new());
    let was_late = Rc::clone(&late);
    let tamper = move |message: Vec<u8>| match message[0] {
        STATUS if at_link => {
            at_link = false;
            held.push(message);
            Vec::new()
        }
        NAME => {
            followed = !held.is_empty();
            vec![message]
        }
        ATTRS if followed && !late.get() => {
            late.set(true);
            [vec![message], std::mem::take(&mut held)].concat()
        }
        ATTRS => {
            at_link = !late.get() && is_link(&message);
            vec![message]
        }
        _ => vec![message],
    };
    let mut setup = Setup { tamper: Box::new(tamper), stock: true, ..Setup::default() };
    let options = Options { placing: in_part_files(), ..Options::default() };
    copy_with(plan(Direction::Upload, &source, &temp.join("link")), options, temp.path(), &mut setup).well();
    assert!(was_late.get());
    assert!(fs::symlink_metadata(temp.join("link")).expect("it").is_symlink());
    assert_eq!(fs::read(temp.join("there/real")).expect("the copy"), fs::read(&source).expect("it"));
    assert_eq!(fs::read_dir(temp.join("there")).expect("a directory").count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// For any change to the bytes of replies, the copy ends, and what is reported as done is right.
    #[test]
    fn any_corruption_of_replies_ends(
        seed in any::<u64>(),
        every in 2..40_u64,
        stock in any::<bool>(),
        direction in prop_oneof![Just(Direction::Upload), Just(Direction::Download), Just(Direction::Relay)],
    ) {
        let mut random = Seeded::new(seed);
        let mut count = 0;
        let (temp, ended) = tampered_by(stock, direction, move |mut message| {
            count += 1;
            // File bytes are left alone: the packet layer protects them, SFTP has no way to.
            let most = if message[0] == DATA { 9 } else { message.len() };
            if count > 2 && count % every == 0 {
                let at = random.below(most);
                message[at] ^= 1 << random.below(8);
            }
            vec![message]
        });
        drop((temp, ended));
    }
}
