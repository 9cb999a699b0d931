use lh_sftp::Session;

use crate::end::Fault;
use crate::{Limits, Placing};

use super::*;

fn file(size: u64) -> Item {
    let info = Info { kind: Kind::File, size: Some(size), mode: Some(0o600), ..Info::UNKNOWN };
    Item::top(b"from".to_vec(), b"to".to_vec(), info)
}

fn small(size: u64) -> Small {
    Small { id: 0, item: file(size), size, sum: None }
}

fn download() -> Ends {
    let mut ends = Ends::new(Direction::Download);
    ends.adopt(Side::Source, Session::new());
    ends
}

#[test]
fn a_batch_is_sent_when_half_of_what_is_worth_it_is_together() {
    let (mut batches, mut ends, options) = (Batches::new(), download(), Options::default());
    let add = |batches: &mut Batches| {
        let len = Batches::answer_len(1000, &options, false);
        let small = small(1000);
        batches.get(&small, len);
        batches.add(small, 4 * len as u64)
    };
    assert!(!add(&mut batches) && add(&mut batches), "the second one fills the half");
    assert_eq!((batches.bytes(), batches.under_way(), batches.has_sent()), (2000, 0, false));
    let now = Instant::now();
    let sent = batches.send(&mut ends, &Options::default(), false, now);
    assert_eq!((sent, batches.bytes(), batches.under_way(), batches.has_sent()), (Some(2000), 0, 1, true));
    assert!(batches.send(&mut ends, &Options::default(), false, now).is_none(), "nothing is left");
}

#[test]
fn an_answer_takes_no_more_than_its_budget() {
    let mut batches = Batches::new();
    let len = Batches::answer_len(SMALL_FILE, &Options::default(), true);
    let mut files = 0;
    while batches.has_answer_space(len) {
        batches.get(&small(SMALL_FILE), len);
        files += 1;
    }
    assert!(files >= 2 && batches.asked <= GET_BUDGET && batches.asked + len > GET_BUDGET);
    // A file whose size says nothing is asked for all the same.
    assert!(Batches::answer_len(0, &Options::default(), true) > UNSIZED as usize);
}

#[test]
fn unsent_files_are_returned_and_sent_ones_stay() {
    let (mut batches, mut ends) = (Batches::new(), download());
    batches.add(small(1), u64::MAX);
    batches.send(&mut ends, &Options::default(), true, Instant::now());
    batches.add(small(2), u64::MAX);
    assert_eq!(batches.drop_unsent().iter().map(|small| small.size).collect::<Vec<_>>(), [2]);
    assert!(!batches.is_empty() && batches.bytes() == 0);
    assert_eq!(batches.ended(0).map(|batch| batch.bytes), Some(1));
    assert!(batches.is_empty() && batches.ended(0).is_none());
}

#[test]
fn batches_go_over_the_idlest_channel_unless_their_order_counts() {
    for (ordered, channel) in [(false, 1), (true, 0)] {
        let (mut batches, mut ends) = (Batches::new(), download());
        ends.channels.add_ready();
        ends.start(Side::Source, Op::Stat(b"x"), Token::Nothing);
        let before = ends.queue_of(channel);
        batches.add(small(1), u64::MAX);
        batches.send(&mut ends, &Options::default(), ordered, Instant::now());
        assert!(ends.queue_of(channel) > before, "{ordered}");
    }
}

#[test]
fn files_of_which_more_is_to_be_known_go_the_ordinary_way() {
    let options = Options::default();
    assert_eq!(may_get(&file(7), &options), Some(7));
    assert_eq!(may_get(&file(SMALL_FILE + 1), &options), None);
    assert_eq!(may_get(&Item { alone: true, ..file(7) }, &options), None);
    let mut several = file(7);
    several.info.links = Some(2);
    assert_eq!(may_get(&several, &options), Some(7));
    let mut options = Options::default();
    options.keep.hard_links = true;
    assert_eq!(may_get(&several, &options), None);
    let resuming = Placing { resume: true, ..Placing::default() };
    let limited = Limits { bits_per_second: Some(1), ..Limits::default() };
    for (options, permitted) in [
        (Options { batches: true, ..Options::default() }, true),
        (Options { batches: true, placing: resuming, ..Options::default() }, false),
        (Options { batches: true, limits: limited, ..Options::default() }, false),
        (Options { batches: true, verify: Verify::Always, ..Options::default() }, false),
        (Options { batches: false, ..Options::default() }, false),
    ] {
        assert_eq!(permits(&options), permitted, "{options:?}");
    }
}

#[test]
fn a_lost_server_answers_a_batch_at_once() {
    let (mut batches, mut ends) = (Batches::new(), download());
    ends.remote(Side::Source).expect("a server").fail("gone");
    batches.add(small(1), u64::MAX);
    batches.send(&mut ends, &Options::default(), false, Instant::now());
    let Some((Token::Batch(key), Err(Fault { text, .. }))) = ends.next_answer() else { panic!("no answer") };
    assert_eq!((text.as_str(), batches.ended(key).map(|batch| batch.bytes)), ("gone", Some(1)));
}
