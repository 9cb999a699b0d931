//! Servers that drop requests: what can be asked for again is, and the rest is told. In virtual time.

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{
    Ended, Setup, TempTree, VERSION_TIMEOUT, copy_with, in_part_files, plan, same_tree, stock, whole_tree,
};
use lh_sftp::PacketType;
use lh_transfer::{Direction, Engine, Options, Side, Timeouts};

/// A server of another make that does not answer some requests: those whose answers are the ones of type
/// `kind` that `drops` names.
fn dropping(kind: PacketType, drops: impl Fn(usize) -> bool + 'static) -> Setup {
    let mut setup = stock(&[]);
    let (mut tamper, mut seen) = (setup.tamper, 0);
    setup.tamper = Box::new(move |message| {
        let number = seen;
        let counts = message.first() == Some(&kind.0);
        seen += usize::from(counts);
        if counts && drops(number) { Vec::new() } else { tamper(message) }
    });
    setup
}

fn copy(temp: &TempTree, direction: Direction, size: usize, mut setup: Setup) -> Ended {
    let source = temp.file("from", size);
    let plan = plan(direction, &source, &temp.join("to"));
    copy_with(plan, Options { placing: in_part_files(), ..Options::default() }, temp.path(), &mut setup)
}

fn is_right(temp: &TempTree) -> bool {
    let read = |path: &Path| fs::read(path).expect("a file");
    read(&temp.join("from")) == read(&temp.join("to"))
}

#[test]
fn reads_that_were_dropped_are_asked_for_again() {
    for direction in [Direction::Download, Direction::Relay] {
        let temp = TempTree::new();
        let setup = dropping(PacketType::DATA, |number| matches!(number, 3..=5 | 20));
        let ended = copy(&temp, direction, 8_000_000, setup).well();
        assert!(is_right(&temp));
        assert!(ended.took >= Duration::from_secs(60), "{:?}", ended.took);
        assert!(
            ended.notices.iter().any(|text| text.contains("has not answered 4 requests in 60 s")),
            "{ended:?}"
        );
    }
}

#[test]
fn writes_that_were_dropped_are_sent_again() {
    let temp = TempTree::new();
    // The first answers are about what is there.
    let setup = dropping(PacketType::STATUS, |number| (6..10).contains(&number));
    let ended = copy(&temp, Direction::Upload, 8_000_000, setup).well();
    assert!(is_right(&temp));
    assert!(ended.notices.iter().any(|text| text.contains("has not answered 4 requests")), "{ended:?}");
}

#[test]
fn requests_dropped_repeatedly_are_named() {
    let temp = TempTree::new();
    let setup = dropping(PacketType::DATA, |number| number >= 3);
    let ended = copy(&temp, Direction::Download, 8_000_000, setup);
    let text = format!("read remote \"{}\" : the server did not answer in 60 s", temp.join("from").display());
    assert_eq!(ended.failures, [text]);
}

#[test]
fn requests_that_cannot_be_repeated_fail_by_name() {
    for (direction, text) in
        [(Direction::Download, "remote open \"{}/from\""), (Direction::Upload, "dest open \"{}/to\"")]
    {
        let temp = TempTree::new();
        let ended = copy(&temp, direction, 8_000_000, dropping(PacketType::HANDLE, |_| true));
        let text = text.replace("{}", &temp.path().display().to_string());
        assert_eq!(ended.failures, [format!("{text}: the server did not answer in 60 s")]);
    }
}

/// As long as the server answers nothing at all it may be busy, or the path down.
#[test]
fn a_server_that_takes_long_is_waited_for() {
    let temp = TempTree::new();
    let mut setup = stock(&[]);
    setup.rtt = Duration::from_secs(50);
    let ended = copy(&temp, Direction::Download, 8_000_000, setup).well();
    assert!(is_right(&temp));
    assert!(!ended.notices.iter().any(|text| text.contains("not answered")), "{ended:?}");
}

/// Requests that are sent after a server's first answers, because of them, were not dropped.
#[test]
fn a_server_that_stands_still_is_waited_for() {
    for direction in [Direction::Download, Direction::Upload] {
        let temp = TempTree::new();
        temp.dir("from");
        for number in 0..1500 {
            temp.file(format!("from/{number}"), 10);
        }
        let mut setup = stock(&[]);
        setup.pause = Some((20, Duration::from_secs(75)));
        let plan = plan(direction, &temp.join("from"), &temp.join("to"));
        let ended = copy_with(plan, whole_tree(), temp.path(), &mut setup).well();
        assert!(ended.took >= Duration::from_secs(75), "{:?}", ended.took);
        same_tree(&temp.join("from"), &temp.join("to"), false);
    }
}

/// The channel's window is shut in the middle of a WRITE: not all requests are sent, and none will be.
#[test]
fn a_server_that_takes_no_more_data_is_reported() {
    let temp = TempTree::new();
    let setup = Setup { pause: Some((5, Duration::from_secs(75))), ..stock(&[]) };
    let ended = copy(&temp, Direction::Upload, 8_000_000, setup).well();
    assert!(is_right(&temp) && ended.took >= Duration::from_secs(75), "{ended:?}");
    assert_eq!(ended.skipped, ["waiting for an answer to WRITE for 30 s"], "{ended:?}");
}

#[test]
fn servers_that_do_not_answer_init_are_given_up() {
    for direction in [Direction::Upload, Direction::Download, Direction::Relay] {
        for early in [false, true] {
            let temp = TempTree::new();
            let setup = Setup { early, tamper: Box::new(|_| Vec::new()), ..stock(&[]) };
            let ended = copy(&temp, direction, 8_000, setup);
            assert!(ended.summary.lost, "{ended:?}");
            assert_eq!(ended.skipped, ["waiting for an answer to INIT for 30 s"], "{ended:?}");
            assert_eq!(ended.failures, ["the server has not answered INIT in 300 s"], "{ended:?}");
            assert_eq!(ended.took, VERSION_TIMEOUT);
        }
    }
}

#[test]
fn wait_for_init_begins_again_at_a_sign_of_life() {
    let temp = TempTree::new();
    let (source, target) = (temp.file("from", 10), temp.join("to"));
    let (start, side) = (Instant::now(), Side::Target);
    let mut engine = Engine::new(plan(Direction::Upload, &source, &target), Options::default(), start);
    engine.open(side);
    engine.expect_version(side, Some(VERSION_TIMEOUT));
    let is_given_up = |engine: &mut Engine, now: Instant| {
        engine.advance(side, &mut Vec::new(), now);
        engine.has_given_up(side)
    };
    assert!(!is_given_up(&mut engine, start));
    let later = start + VERSION_TIMEOUT;
    engine.extend_wait_for_version(side, later);
    assert!(!is_given_up(&mut engine, later));
    assert!(is_given_up(&mut engine, later + VERSION_TIMEOUT) && engine.is_finished());
}

#[test]
fn first_answer_replaces_the_other_limits() {
    let temp = TempTree::new();
    let (source, target) = (temp.file("from", 10), temp.join("to"));
    let (start, side) = (Instant::now(), Side::Target);
    for first_answer in [Duration::from_secs(1), VERSION_TIMEOUT * 3] {
        let options = Options {
            timeouts: Timeouts { first_answer: Some(first_answer), ..Timeouts::default() },
            ..Options::default()
        };
        let mut engine = Engine::new(plan(Direction::Upload, &source, &target), options, start);
        engine.open(side);
        engine.expect_version(side, Some(VERSION_TIMEOUT));
        let is_given_up = |engine: &mut Engine, after: Duration| {
            engine.advance(side, &mut Vec::new(), start + after);
            engine.has_given_up(side)
        };
        // The second look at one time is behind the line that tells of the silence.
        for after in [Duration::ZERO, first_answer - Duration::from_millis(1)] {
            assert!(!is_given_up(&mut engine, after) && !is_given_up(&mut engine, after));
        }
        assert!(is_given_up(&mut engine, first_answer), "{first_answer:?}");
    }
}
