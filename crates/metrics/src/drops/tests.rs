//! Tests with flows between plain sockets that were recorded over an emulated path.

use super::{Drops, TcpCounters, is_short};

/// Returns the samples of a file in `traces`.
fn looks(text: &str) -> Vec<TcpCounters> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let look = |line: &str| {
        let all: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [millis, sent, resent, acked, micros] = all[..] else { panic!("{line}") };
        TcpCounters { seconds: millis / 1000.0, sent, resent, acked, round_trip: micros / 1e6 }
    };
    lines.map(look).collect()
}

macro_rules! trace {
    ($name:literal) => {
        Drops::of(&looks(include_str!(concat!("traces/", $name, ".txt")))).expect($name)
    };
}

#[test]
fn queues_that_bbr_fills_where_it_starts_are_no_policers() {
    for (name, course, idle) in [
        ("one round trip", trace!("bbr-queue-of-one-bdp"), 0.08),
        ("a quarter", trace!("bbr-queue-of-a-quarter"), 0.08),
        ("a tenth", trace!("bbr-queue-of-a-tenth"), 0.08),
        ("10 ms", trace!("bbr-queue-of-10-ms"), 0.02),
    ] {
        assert!(!course.is_policed(idle), "{name}: {course:?}");
        // As a whole, the flow lost as much as a policed one.
        let lost = (course.first + course.later) / (course.first + course.later_sent);
        assert!(lost >= 0.005, "{name}: {lost}");
        // Nearly all losses are in its start.
        assert!(course.later_part() < 0.04 && course.first > course.later, "{name}: {course:?}");
        assert!(!course.has_burst(), "{name}: {course:?}");
    }
    let cubic = trace!("cubic-queue-of-a-quarter");
    assert!(!cubic.is_policed(0.04), "{cubic:?}");
    // The queue held the data of a whole round trip.
    let full = trace!("bbr-queue-of-one-bdp");
    assert!(full.is_of_full_queue(0.08), "{full:?}");
}

#[test]
fn policers_are_known_by_their_burst_or_by_the_short_round_trip() {
    for (name, course, idle, has_burst) in [
        ("BBR", trace!("bbr-policer"), 0.08, true),
        ("cubic", trace!("cubic-policer"), 0.02, true),
        ("BBR, small bucket", trace!("bbr-policer-without-burst"), 0.08, false),
        ("cubic, small bucket", trace!("cubic-policer-without-burst"), 0.02, false),
    ] {
        assert!(course.is_policed(idle), "{name}: {course:?}");
        assert_eq!(course.has_burst(), has_burst, "{name}: {course:?}");
        assert!(!course.is_of_full_queue(idle), "{name}: {course:?}");
        // Equal losses, but with a queue before them.
        let queued = Drops {
            first_round_trip: 1.5 * idle,
            later_round_trip: course.later_round_trip.map(|_| 1.5 * idle),
            ..course
        };
        assert!(!queued.is_policed(idle), "{name}: {queued:?}");
    }
}

#[test]
fn losses_of_the_start_are_told_from_those_that_return() {
    // 20 samples at intervals of 50 ms, with losses at the third and fourth, and again at the twelfth and
    // sixteenth.
    let mut all = Vec::new();
    let mut resent = 0.0;
    for index in 0..20 {
        resent += match index {
            3 | 4 => 30.0,
            12 | 16 => 5.0,
            _ => 0.0,
        };
        let at = f64::from(index);
        all.push(TcpCounters {
            seconds: at * 0.05,
            sent: at * 100.0,
            resent,
            acked: at * 1e5,
            round_trip: 0.02,
        });
    }
    let course = Drops::of(&all).unwrap();
    assert_eq!((course.first, course.later, course.returned), (60.0, 10.0, 2), "{course:?}");
    assert!((course.usual - 2e6).abs() < 1.0 && (course.burst - 2e6).abs() < 1.0, "{course:?}");
    // Without losses, or with one sample, there is no result.
    for look in &mut all {
        look.resent = 0.0;
    }
    assert_eq!((Drops::of(&all), Drops::of(&all[..1]), Drops::of(&[])), (None, None, None));
    assert!(is_short(0.022, 0.02) && !is_short(0.03, 0.02));
}
