//! Policers, which drop what exceeds a rate.

use lh_metrics::drops::Drops;

use super::super::diagnose::diagnose;
use super::super::facts::Facts;
use super::super::finding::Finding;
use super::{first, good, sender, up};
use crate::flow::Turns;

#[test]
fn policer_is_told_from_loss_and_from_a_full_queue() {
    let mut facts = policed();
    let course = up(&mut facts).tcp.drops.clone().unwrap();
    let (cause, title) = first(&facts);
    assert!(cause == "policer" && title.contains("exceeds 10.5 MB/s on uploads"), "{title}");
    // A bucket that is full at first adds to the rate of one connection, and none to that of
    // several after it.
    let mut full = facts.clone();
    up(&mut full).tcp.drops = Some(Drops { burst: 27e6, usual: 7.6e6, ..course.clone() });
    full.throughput.up.together = Some(7.7e6);
    assert!(first(&full).1.contains("exceeds 7.7 MB/s on uploads"), "{:?}", first(&full));
    let is_named = |facts: &Facts| diagnose(facts).iter().any(|finding| finding.cause == "policer");
    // A queue fills before it drops.
    sender(&mut facts).loaded_rtt = Some(0.06);
    assert!(!is_named(&facts));
    sender(&mut facts).loaded_rtt = Some(0.05);
    // As BBR does where it starts: it then keeps the queue empty.
    let started = Drops {
        first: 600.0,
        first_round_trip: 0.095,
        later: 0.0,
        later_round_trip: None,
        returned: 0,
        ..course.clone()
    };
    up(&mut facts).tcp.drops = Some(started);
    assert!(!is_named(&facts));
    up(&mut facts).tcp.drops = Some(Drops { later_round_trip: Some(0.075), ..course.clone() });
    assert!(!is_named(&facts));
    up(&mut facts).tcp.drops = Some(course);
    // Losses that each connection has for itself.
    facts.throughput.up.together = Some(25e6);
    assert!(!is_named(&facts));
    facts.throughput.up.together = Some(10.5e6);
    // What a congestion control loses when it tries for more.
    sender(&mut facts).resent = 30.0;
    assert!(!is_named(&facts));
}

/// A policer holds one connection and four to the same rate: losses return again and again, with a short
/// round trip.
fn policed() -> Facts {
    let mut facts = good();
    sender(&mut facts).resent = 600.0;
    up(&mut facts).tcp.drops = Some(Drops {
        first: 300.0,
        later_sent: 25_000.0,
        later: 300.0,
        returned: 9,
        first_round_trip: 0.052,
        later_round_trip: Some(0.052),
        ..Drops::default()
    });
    facts
}

#[test]
fn busy_machine_is_not_blamed_for_what_a_policer_drops() {
    let mut facts = policed();
    let title = first(&facts).1;
    // Other programs have the processor: the process waits each time that it wants to send.
    up(&mut facts).client.turns = Some(Turns { ran: 0.05, waited: 0.85 });
    up(&mut facts).server.stolen = Some(0.3);
    up(&mut facts).server.turns = Some(Turns { ran: 0.05, waited: 0.82 });
    let found = diagnose(&facts);
    assert_eq!((found[0].cause, &found[0].title), ("policer", &title), "{found:?}");
    assert!(found.iter().all(|found| !found.cause.starts_with("processor")), "{found:?}");
    let harmless =
        "this machine waited 85 % of the time for its turn at a processor, which does not limit it";
    assert!(found[0].evidence.iter().any(|line| line.contains(harmless)), "{found:?}");
}

#[test]
fn path_below_a_policer_is_not_said_to_be_full() {
    let of_uploads = |facts: &Facts| {
        let all = diagnose(facts).into_iter().filter(|found| found.title.contains("uploads"));
        all.map(|found| found.cause).collect::<Vec<_>>()
    };
    assert_eq!(of_uploads(&policed()), ["policer"]);
    assert_eq!(of_uploads(&good()), ["path"]);
    // The other direction has no policer.
    let downloads = |found: &Finding| found.cause == "path" && found.title.contains("downloads");
    assert!(diagnose(&policed()).iter().any(downloads));
}
