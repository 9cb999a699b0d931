//! Replies of a server in virtual time.

use super::*;

const PLAN: Plan = Plan { time: Duration::from_secs(2), good: [f64::INFINITY; 2] };

fn ok() -> ReplyBody {
    ReplyBody::Status(Status { code: StatusCode::OK, message: String::new() })
}

/// A file that is open and has no name.
fn opened(now: Instant) -> File {
    let mut file = File::new(None, "f".to_owned(), PLAN);
    file.on_answer(&ReplyBody::Handle(Handle::new(b"h")), now);
    assert!(file.phase == Phase::Unlink && file.has_name);
    file.on_answer(&ok(), now);
    assert!(file.phase == Phase::Write && !file.has_name);
    file
}

#[test]
fn fastest_part_of_each_direction_counts() {
    let begun = Instant::now();
    let mut file = opened(begun);
    // A block each tenth of a second, then each twentieth.
    let millis = |count: u64| if count < 10 { 100 * count } else { 1000 + 50 * (count - 10) };
    (1..=30).for_each(|count| file.on_answer(&ok(), begun + Duration::from_millis(millis(count))));
    let write = file.rates.write.expect("a rate");
    assert!((write / (20.0 * f64::from(BLOCK)) - 1.0).abs() < 0.01, "{write}");
    assert_eq!(file.phase, Phase::Read);
    let again = begun + Duration::from_secs(2);
    let data = || ReplyBody::Data(vec![0; BLOCK as usize].into());
    (1..=20).for_each(|at| file.on_answer(&data(), again + Duration::from_millis(100 * at)));
    let read = file.rates.read.expect("a rate");
    assert!((read / (10.0 * f64::from(BLOCK)) - 1.0).abs() < 0.01, "{read}");
    assert!(file.phase == Phase::Close && file.refusal.is_none());
    file.on_answer(&ok(), again);
    assert_eq!(file.phase, Phase::Over);
}

#[test]
fn rate_that_still_grows_is_none() {
    let begun = Instant::now();
    let mut file = opened(begun);
    // Twice as much in each half second.
    let at = |half: u64| (1..=2 << half).map(move |count| half * 500 + count * 500 / (2 << half));
    let all = (0..4).flat_map(at);
    all.for_each(|millis| file.on_answer(&ok(), begun + Duration::from_millis(millis)));
    assert_eq!((file.phase, file.rates.write), (Phase::Read, None));
}

#[test]
fn direction_ends_early_where_its_rate_is_good() {
    let begun = Instant::now();
    let mut file = opened(begun);
    file.plan.good = [10.0 * f64::from(BLOCK), f64::INFINITY];
    (1..=6).for_each(|at| file.on_answer(&ok(), begun + Duration::from_millis(90 * at)));
    assert_eq!(file.phase, Phase::Read);
    assert!(file.rates.write.is_some_and(|rate| rate >= 10.0 * f64::from(BLOCK)));
}

#[test]
fn refusal_closes_the_file_and_removes_its_name() {
    let now = Instant::now();
    let refusal = |code, message: &str| ReplyBody::Status(Status { code, message: message.to_owned() });
    let mut file = File::new(None, "f".to_owned(), PLAN);
    file.on_answer(&refusal(StatusCode::PERMISSION_DENIED, ""), now);
    assert_eq!(file.phase, Phase::Over);
    let refused = file.finish().unwrap_err();
    assert!(matches!(&refused, SftpFileError::Refused(words) if words == "Permission denied"), "{refused}");
    // A server that removes no open file.
    let mut file = File::new(None, "f".to_owned(), PLAN);
    file.on_answer(&ReplyBody::Handle(Handle::new(b"h")), now);
    file.on_answer(&refusal(StatusCode::FAILURE, "in use"), now);
    assert!(file.has_name && file.phase == Phase::Write && file.refusal.is_none());
    file.on_answer(&refusal(StatusCode::FAILURE, "no space"), now);
    assert_eq!(file.phase, Phase::Close);
    file.on_answer(&ok(), now);
    assert_eq!(file.phase, Phase::Remove);
    // What stays at the server is said in any case.
    assert!(matches!(file.finish(), Err(SftpFileError::Leftover { path }) if path == "f"));
    file.on_answer(&ok(), now);
    assert_eq!(file.phase, Phase::Over);
    assert!(matches!(file.finish(), Err(SftpFileError::Refused(words)) if words == "no space"));
}

#[test]
fn server_that_stands_still_has_the_rate_of_all_its_time() {
    let begun = Instant::now();
    let mut file = opened(begun);
    file.on_answer(&ok(), begun + Duration::from_millis(500));
    let end = file.next_deadline();
    assert_eq!(end, begun + Duration::from_secs(4));
    file.give_up(end);
    assert_eq!((file.rates.write, file.rates.read), (Some(f64::from(BLOCK) / 4.0), None));
    assert!(file.phase == Phase::Over && file.finish().is_ok());
    let mut silent = opened(begun);
    silent.give_up(end);
    assert!(matches!(silent.finish(), Err(SftpFileError::Session(SessionLoss::Late))));
}

#[test]
fn name_that_is_not_removed_is_told() {
    let now = Instant::now();
    let refusal =
        || ReplyBody::Status(Status { code: StatusCode::PERMISSION_DENIED, message: String::new() });
    let mut file = File::new(None, "f".to_owned(), PLAN);
    file.on_answer(&ReplyBody::Handle(Handle::new(b"h")), now);
    file.on_answer(&refusal(), now);
    file.on_answer(&refusal(), now);
    file.on_answer(&ok(), now);
    assert_eq!(file.phase, Phase::Remove);
    file.on_answer(&refusal(), now);
    let left = file.finish().unwrap_err();
    assert!(file.is_over() && matches!(left, SftpFileError::Leftover { .. }), "{left}");
}

#[test]
fn session_that_ends_early_says_why() {
    let mut file = opened(Instant::now());
    file.state().on_error_output(b"quota exceeded\n");
    file.state().on_end();
    assert!(file.is_over());
    assert_eq!(file.finish().unwrap_err().to_string(), "quota exceeded");
}
