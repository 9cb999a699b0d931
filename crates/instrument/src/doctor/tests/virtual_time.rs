//! The order of the measurements in virtual time: what a healthy path costs, and what a suspicious one costs
//! more.

use std::time::Duration;

use super::super::diagnose::diagnose;
use super::super::facts::Facts;
use super::super::instruments::Transfer;
use super::super::small_packets::SmallPackets;
use super::virtual_path::Virtual;
use crate::connects::TurnedAway;
use crate::flow::Direction;

/// Returns true for steps that a suspicion asks for.
fn is_repetition(name: &str) -> bool {
    ["again", "in turns", "third", "another congestion"].iter().any(|words| name.contains(words))
}

#[test]
fn healthy_path_ends_in_half_a_minute() {
    // Logins and slow starts take round trips: more of them over longer paths.
    for (round_trip, limit) in [(0.001, 24.0), (0.02, 25.0), (0.08, 30.0), (0.15, 44.0), (0.25, 62.0)] {
        let (facts, seconds, steps) = Virtual::healthy(round_trip).run();
        assert!(seconds <= limit, "{round_trip} s: {seconds} s, {:#?}", facts.run.steps);
        assert!(!steps.iter().any(|step| is_repetition(step)), "{steps:?}");
        assert_eq!(diagnose(&facts)[0].cause, "path");
        assert_eq!(facts.logins.timed.len(), 2);
        assert_eq!(
            facts.throughput.marks.len(),
            3,
            "both marks of uploads, and downloads: {:?}",
            facts.throughput.marks
        );
        assert!(facts.disks.here.is_some() && facts.disks.there.is_some());
    }
}

#[test]
fn comparison_that_breaks_off_says_why() {
    let several_break = Some("Connection reset by peer");
    let (facts, ..) = Virtual { several_break, ..Virtual::healthy(0.02) }.run();
    let why: Vec<_> = facts.run.missing.iter().filter(|why| why.starts_with("downloads over 4")).collect();
    assert!(why.len() == 1 && why[0].ends_with("one broke off: Connection reset by peer"), "{why:?}");
    assert!(facts.throughput.together(Direction::Up).is_some());
}

#[test]
fn session_that_is_refused_behind_another_is_a_limit() {
    let causes = |why: &str| {
        let (facts, ..) = Virtual { shell_missing: Some(why.to_owned()), ..Virtual::healthy(0.02) }.run();
        diagnose(&facts).iter().map(|found| found.cause).collect::<Vec<_>>()
    };
    assert_eq!(causes("open failed")[0], "session_limit");
    assert!(!causes("it did not end").contains(&"session_limit"));
}

#[test]
fn suspicions_cost_only_their_own_repetitions() {
    let usual = Virtual::healthy(0.08).run().1;
    let repetitions = |planted: Virtual| {
        let (facts, seconds, steps) = planted.run();
        assert!(seconds > usual, "{seconds} s");
        (facts, steps.into_iter().filter(|step| is_repetition(step)).collect::<Vec<_>>())
    };
    // Each login is slow: a third one confirms it.
    let slow_logins = vec![2.0; 12];
    let slow = || Virtual { slow_logins: slow_logins.clone(), ..Virtual::healthy(0.08) };
    let (facts, steps) = repetitions(slow());
    assert_eq!(steps, ["a third login"]);
    assert!(diagnose(&facts).iter().any(|found| found.cause == "login_approval"));
    // The agent was what they waited for.
    let (facts, _) = repetitions(Virtual { signing: Some(1.9), ..slow() });
    let causes: Vec<_> = diagnose(&facts).iter().map(|found| found.cause).collect();
    assert!(causes[0] == "agent" && !causes.contains(&"login_approval"), "{causes:?}");
    // Each is a little slow: more of them tell.
    let (facts, steps) = repetitions(Virtual { slow_logins: vec![0.25; 12], ..slow() });
    assert_eq!((steps, facts.logins.timed.len()), (vec!["a third login".to_owned()], 4));
    assert_eq!(diagnose(&facts)[0].cause, "login_approval");
    // One of them was.
    let (facts, _, steps) = Virtual { slow_logins: vec![2.0], ..Virtual::healthy(0.08) }.run();
    assert!(!steps.iter().any(|step| is_repetition(step)), "{steps:?}");
    assert!(diagnose(&facts).iter().all(|found| found.cause != "login_approval"));
    // The mark of terminals is throttled: it is compared in turns, and the other mark is not.
    let throttled = Some((0x20, 1e6));
    let (facts, steps) = repetitions(Virtual { throttled, ..Virtual::healthy(0.08) });
    assert_eq!(steps, ["a mark in turns"]);
    assert_eq!(diagnose(&facts)[0].cause, "dscp");
    // So far apart are the rates that they are compared even where the run has taken long.
    let late = |rate| Virtual { now: 13.0, throttled: Some((0x20, rate)), ..Virtual::healthy(0.08) }.run();
    assert!(!late(4e6).2.contains(&"a mark in turns".to_owned()));
    assert_eq!(diagnose(&late(1e6).0)[0].cause, "dscp");
    // Several connections are faster, and a flow shows no cause: it is measured again.
    let (facts, steps) = repetitions(Virtual { rate: 3e6, ..Virtual::healthy(0.08) });
    assert_eq!(steps, ["upload, again", "download, again", "another congestion control"]);
    assert_eq!(diagnose(&facts)[0].cause, "congestion_control");
}

#[test]
fn slow_file_over_sftp_is_measured_again_and_named() {
    let (facts, _, steps) = Virtual { sftp_rate: Some(1e6), ..Virtual::healthy(0.02) }.run();
    assert_eq!(steps.iter().filter(|step| step.contains("over SFTP")).count(), 2, "{steps:?}");
    assert_eq!(diagnose(&facts)[0].cause, "sftp_rate");
}

#[test]
fn lost_first_packets_are_found_in_any_order() {
    for logins in [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]] {
        let slow_connects = [vec![1.0], logins.to_vec()].concat();
        let (facts, _, steps) = Virtual { slow_connects, ..Virtual::healthy(0.08) }.run();
        assert!(steps.iter().any(|step| step == "a third login"), "{logins:?}: {steps:?}");
        assert!(diagnose(&facts).iter().any(|found| found.cause == "connect"), "{logins:?}");
    }
    // One slow login of two, behind a quick probe, is chance.
    let (_, _, steps) = Virtual { slow_connects: vec![0.0, 1.0], ..Virtual::healthy(0.08) }.run();
    assert!(!steps.iter().any(|step| is_repetition(step)), "{steps:?}");
}

#[test]
fn shared_connection_is_measured_where_there_is_time() {
    let through_master = |planted: Virtual| {
        let control_socket = Some("/run/user/1000/master".to_owned());
        let (facts, seconds, steps) = Virtual { control_socket, ..planted }.run();
        (facts, seconds, steps.into_iter().filter(|step| step.contains("shared")).collect::<Vec<_>>())
    };
    let of = |direction: &str| format!("{direction} over the shared connection");
    let (facts, _, steps) = through_master(Virtual::healthy(0.02));
    assert_eq!(steps, ["the shared connection".to_owned(), of("upload"), of("download")]);
    assert_eq!(facts.master.unwrap().rates.len(), 2);
    // What comes before uses the time up.
    let suspicious = Virtual { rate: 3e6, resent: 3.0, ..Virtual::healthy(0.25) };
    let (facts, seconds, steps) = through_master(suspicious);
    assert!(seconds < 75.0, "{seconds} s: {:#?}", facts.run.steps);
    assert!(steps.len() < 3, "{steps:?}");
    assert!(
        facts.run.missing.iter().any(|missing| missing.contains("the shared connection")),
        "{:?}",
        facts.run.missing
    );
}

#[test]
fn few_losses_are_looked_at_again_until_there_is_a_verdict() {
    // 0.3 MB/s over 80 ms with three of 640 segments lost: the loss explains the rate.
    let planted = Virtual { rate: 0.3e6, resent: 3.0, ..Virtual::healthy(0.08) };
    let (facts, _, steps) = planted.run();
    let again = steps.iter().filter(|step| step.ends_with("again")).count();
    assert_eq!(again, 2, "one in each direction: {steps:?}");
    let found = diagnose(&facts);
    assert_eq!(found[0].cause, "loss", "{found:?}");
}

#[test]
fn swallowed_packets_of_the_server_are_searched() {
    // The key exchange does not fit; it does, and no download begins.
    for key_exchange in [1300, 600] {
        let planted = Virtual { swallows: Some(1000), key_exchange, ..Virtual::healthy(0.02) };
        let (facts, seconds, steps) = planted.run();
        let found = diagnose(&facts);
        assert_eq!(found[0].cause, "mtu_black_hole", "{found:?}");
        let passes = facts.path.swallowed.unwrap().passes;
        assert!((980..=1000).contains(&passes), "{passes}");
        assert!(
            seconds < 45.0 && !steps.iter().any(|step| step.contains("over 4")),
            "{seconds} s: {steps:?}"
        );
    }
}

#[test]
fn another_login_that_fails_is_a_diagnosis() {
    let planted = Virtual { slow_logins: vec![0.0, 1e6, 1e6], ..Virtual::healthy(0.02) };
    let (mut facts, _, steps) = planted.run();
    assert!(steps.iter().any(|step| step == "another login once more"), "{steps:?}");
    assert_eq!(diagnose(&facts)[0].cause, "broken_off", "{:?}", diagnose(&facts));
    // The connection that was there still answers: no outage, but a limit of new ones.
    let words = "ssh: connect to host h port 22: Connection timed out".to_owned();
    facts.throughput.broken = Some(words.clone());
    let limit = TurnedAway { words, failed: 2, made: 1, is_repeated: true, ..TurnedAway::default() };
    (facts.refusals.turned_away, facts.refusals.logins_made) = (Some(limit), 1);
    let found = diagnose(&facts);
    assert!(
        found[0].cause == "refused" && found.iter().all(|found| found.cause != "broken_off"),
        "{found:?}"
    );
    facts.refusals.first_answers = false;
    assert_eq!(diagnose(&facts)[0].cause, "broken_off");
    // One bad moment.
    let planted = Virtual { slow_logins: vec![0.0, 1e6], ..Virtual::healthy(0.02) };
    let (facts, ..) = planted.run();
    assert_eq!(diagnose(&facts)[0].cause, "path");
}

#[test]
fn small_packets_that_get_lost_are_no_black_hole() {
    // What waits for a reply in vain looks like one: no key exchange ends, or no download begins.
    let small = Some(SmallPackets { sent: 60, resent: 42, duplicates: 0 });
    for (key_exchange, login) in [(1300, "no_login"), (600, "path")] {
        let planted = Virtual { swallows: Some(1000), key_exchange, small, ..Virtual::healthy(0.02) };
        let (facts, ..) = planted.run();
        let found = diagnose(&facts);
        assert_eq!(found[0].cause, "small_packet_loss", "{login}: {found:?}");
        assert!(facts.path.swallowed.is_none() && found.iter().all(|found| found.cause != "mtu_black_hole"));
        assert!(found.iter().any(|found| found.cause == login), "{login}: {found:?}");
    }
}

#[test]
fn transfers_are_as_long_as_round_trips_need() {
    let seconds = |round_trip: f64| {
        let [judged, compared] =
            [Transfer::judged, Transfer::full].map(|of| of(Direction::Up, round_trip).time);
        (judged, compared)
    };
    let millis = Duration::from_millis;
    assert_eq!(seconds(0.02), (millis(4000), millis(2000)));
    assert_eq!(seconds(0.2), (millis(4000), millis(4000)));
    assert_eq!(seconds(0.9), (millis(5000), millis(6000)));
}

#[test]
fn suspicions_of_all_kinds_end_in_time() {
    for (round_trip, limit) in [(0.02, 50.0), (0.1, 60.0), (0.3, 72.0)] {
        let throttled = Some((0x20, 0.2e6));
        let planted = Virtual { throttled, rate: 0.3e6, resent: 3.0, ..Virtual::healthy(round_trip) };
        let (facts, seconds, _) = planted.run();
        assert!(seconds < limit, "{round_trip} s: {seconds} s, {:#?}", facts.run.steps);
    }
    // A path over which all of this takes longer than the time: what was left out is said.
    let planted = Virtual { rate: 3e6, slow_logins: vec![2.0; 40], ..Virtual::healthy(0.3) };
    let (facts, seconds, _) = planted.run();
    assert!(seconds < 85.0, "{seconds} s, {:#?}", facts.run.steps);
    assert!(
        facts.run.missing.iter().any(|line| line.contains("the time for it was used up")),
        "{:?}",
        facts.run.missing
    );
}

#[test]
fn downloads_have_connections_that_sent_no_upload() {
    let (facts, ..) = Virtual { rate: 3e6, ..Virtual::healthy(0.08) }.run();
    for direction in Direction::BOTH {
        assert_eq!(facts.throughput.together(direction), Some(10e6), "{direction:?}");
    }
}

#[test]
fn queue_that_bbr_keeps_short_is_filled_once() {
    const STEP: &str = "an upload that fills the queue";
    let long = || Virtual { full_queue: Some(0.32), ..Virtual::healthy(0.02) };
    let (facts, _, steps) = Virtual { control: "bbr", ..long() }.run();
    assert_eq!(steps.iter().filter(|step| *step == STEP).count(), 1, "{steps:?}");
    let found = diagnose(&facts).remove(0);
    assert!(found.cause == "bufferbloat" && found.title.contains("by 300 ms"), "{found:?}");
    // The server's own keeps it short, too, and cannot be changed from here.
    let is_said = |facts: &Facts| {
        facts.run.missing.iter().any(|why| why.starts_with("a long queue in front of downloads"))
    };
    assert!(is_said(&facts), "{:?}", facts.run.missing);
    // Other controls fill it themselves.
    let (facts, _, steps) = long().run();
    assert!(!steps.iter().any(|step| step == STEP) && !is_said(&facts), "{steps:?}");
    // CUBIC ends its start before a long one is full.
    let (facts, seconds, steps) = Virtual { part_of_queue: Some(0.12), ..long() }.run();
    assert!(steps.iter().any(|step| step == STEP) && seconds < 45.0, "{seconds} s: {steps:?}");
    let found = diagnose(&facts).remove(0);
    assert!(found.cause == "bufferbloat" && found.title.contains("by 300 ms during uploads"), "{found:?}");
    assert!(
        found.evidence.iter().any(|line| line.starts_with("320 ms during an upload with reno")),
        "{found:?}"
    );
}

#[test]
fn account_without_commands_is_named() {
    let of = |words: &'static str| {
        let (facts, ..) = Virtual { no_commands: Some(words), ..Virtual::healthy(0.02) }.run();
        diagnose(&facts)
    };
    let found = of("commands give no output (status 1)");
    assert_eq!((found[0].cause, found.len()), ("no_commands", 1), "{found:?}");
    assert_eq!(found[0].evidence, ["commands give no output (status 1)"]);
    // It ends the connection.
    let found = of("Connection to h closed by remote host.");
    assert_eq!((found[0].cause, found.len()), ("broken_off", 1), "{found:?}");
    assert!(found[0].title.contains("when a session begins"), "{found:?}");
}
