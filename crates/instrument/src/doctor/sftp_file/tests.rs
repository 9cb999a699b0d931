//! Replies of a server in virtual time.

use super::*;

const PLAN: Plan = Plan { time: Duration::from_secs(2), good: [f64::INFINITY; 2] };

fn ok() -> ReplyBody {
    ReplyBody::Status(Status { code: StatusCode::OK, message: String::new() })
}

/// A file that is open and has no name.
fn opened(now: Instant) -> File {
    let mut file = File::new(None, "f".to_owned(), PLAN);
    file.on_reply(&ReplyBody::Handle(Handle::new(b"h")), now);
    assert!(file.phase == Phase::Unlink && file.has_name);
    file.on_reply(&ok(), now);
    assert!(file.phase == Phase::Write && !file.has_name);
    file
}

#[test]
fn fastest_part_of_each_direction_counts() {
    let begun = Instant::now();
    let mut file = opened(begun);
    // A block each tenth of a second, then each twentieth.
    let millis = |count: u64| if count < 10 { 100 * count } else { 1000 + 50 * (count - 10) };
    (1..=30).for_each(|count| file.on_reply(&ok(), begun + Duration::from_millis(millis(count))));
    let write = file.rates.write.expect("a rate");
    assert!((write / (20.0 * f64::from(BLOCK)) - 1.0).abs() < 0.01, "{write}");
    assert_eq!(file.phase, Phase::Read);
    let again = begun + Duration::from_secs(2);
    let data = || ReplyBody::Data(vec![0; BLOCK as usize].into());
    (1..=20).for_each(|at| file.on_reply(&data(), again + Duration::from_millis(100 * at)));
    let read = file.rates.read.expect("a rate");
    assert!((read / (10.0 * f64::from(BLOCK)) - 1.0).abs() < 0.01, "{read}");
    assert_eq!((file.phase, file.failure.as_deref()), (Phase::Close, None));
    file.on_reply(&ok(), again);
    assert_eq!(file.phase, Phase::Over);
}

#[test]
fn rate_that_still_grows_is_none() {
    let begun = Instant::now();
    let mut file = opened(begun);
    // Twice as much in each half second.
    let at = |half: u64| (1..=2 << half).map(move |count| half * 500 + count * 500 / (2 << half));
    let all = (0..4).flat_map(at);
    all.for_each(|millis| file.on_reply(&ok(), begun + Duration::from_millis(millis)));
    assert_eq!((file.phase, file.rates.write), (Phase::Read, None));
}

#[test]
fn direction_ends_early_where_its_rate_is_good() {
    let begun = Instant::now();
    let mut file = opened(begun);
    file.plan.good = [10.0 * f64::from(BLOCK), f64::INFINITY];
    (1..=6).for_each(|at| file.on_reply(&ok(), begun + Duration::from_millis(90 * at)));
    assert_eq!(file.phase, Phase::Read);
    assert!(file.rates.write.is_some_and(|rate| rate >= 10.0 * f64::from(BLOCK)));
}

#[test]
fn refusal_closes_the_file_and_removes_its_name() {
    let now = Instant::now();
    let refusal = |code, message: &str| ReplyBody::Status(Status { code, message: message.to_owned() });
    let mut file = File::new(None, "f".to_owned(), PLAN);
    file.on_reply(&refusal(StatusCode::PERMISSION_DENIED, ""), now);
    assert_eq!(file.phase, Phase::Over);
    assert!(file.failure.is_some_and(|why| why.contains("ermission denied")));
    // A server that removes no open file.
    let mut file = File::new(None, "f".to_owned(), PLAN);
    file.on_reply(&ReplyBody::Handle(Handle::new(b"h")), now);
    file.on_reply(&refusal(StatusCode::FAILURE, "in use"), now);
    assert!(file.has_name && file.phase == Phase::Write && file.failure.is_none());
    file.on_reply(&refusal(StatusCode::FAILURE, "no space"), now);
    assert_eq!((file.phase, file.failure.as_deref()), (Phase::Close, Some("no space")));
    file.on_reply(&ok(), now);
    assert_eq!(file.phase, Phase::Remove);
    file.on_reply(&ok(), now);
    assert_eq!(file.phase, Phase::Over);
}

#[test]
fn server_that_stands_still_has_the_rate_of_all_its_time() {
    let begun = Instant::now();
    let mut file = opened(begun);
    file.on_reply(&ok(), begun + Duration::from_millis(500));
    let end = file.deadline();
    assert_eq!(end, begun + Duration::from_secs(4));
    file.give_up(end);
    assert_eq!((file.rates.write, file.rates.read), (Some(f64::from(BLOCK) / 4.0), None));
    assert!(file.phase == Phase::Over && file.failure.is_none());
    let mut silent = opened(begun);
    silent.give_up(end);
    assert_eq!(silent.failure.as_deref(), Some("it did not answer in time"));
}
