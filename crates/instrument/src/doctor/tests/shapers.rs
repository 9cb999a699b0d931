//! Shapers of the sending end's own device.

use super::super::diagnose::diagnose;
use super::{first, good, up};
use crate::flow::{Direction, Shaper};
use crate::shell::System;

fn tbf(rate: f64) -> Shaper {
    Shaper {
        device: "eth0".to_owned(),
        kind: "tbf".to_owned(),
        handle: "8007:".to_owned(),
        is_class: false,
        is_root: true,
        rate,
        is_of_each: false,
        delayed: 900.0,
        dropped: 12.0,
    }
}

fn route() -> System {
    System::from_pairs(&[("route", "10.0.0.2 dev eth0 src 10.0.0.1 uid 0")])
}

#[test]
fn shaper_of_either_end_is_named_with_its_rate() {
    for (direction, end) in [(Direction::Up, "this machine"), (Direction::Down, "the server")] {
        let mut facts = good();
        (facts.systems.here, facts.systems.there) = (route(), route());
        // Four connections together move 10.5 MB/s.
        facts.throughput.of_mut(direction).flow.as_mut().unwrap().packets.shapers =
            vec![tbf(90e6), tbf(11e6)];
        let (cause, title) = first(&facts);
        let name = direction.name();
        assert_eq!(
            (cause, title),
            ("shaper", format!("A traffic shaper of {end} (tbf on eth0) holds {name}s to 11.0 MB/s."))
        );
        let found = diagnose(&facts);
        assert!(found[0].change[0].contains(&format!("on {end}: tc qdisc del dev 'eth0' root")), "{found:?}");
        assert!(found[0].evidence.iter().any(|line| line.contains("held 900 packets back")), "{found:?}");
        let of_path = found.iter().filter(|found| found.cause == "path").count();
        assert_eq!(of_path, 1, "that of the other direction: {found:?}");
    }
}

#[test]
fn shaper_that_holds_nothing_back_is_no_cause() {
    let cause = |shaper: Shaper| {
        let mut facts = good();
        facts.systems.here = route();
        up(&mut facts).packets.shapers = vec![shaper];
        first(&facts).0
    };
    assert_eq!(cause(tbf(11e6)), "shaper");
    // It is faster than the path; it delayed nothing; it is on another device.
    assert_eq!(cause(tbf(13e6)), "path");
    assert_eq!(cause(Shaper { delayed: 0.0, ..tbf(11e6) }), "path");
    assert_eq!(cause(Shaper { device: "eth1".to_owned(), ..tbf(11e6) }), "path");
}

#[test]
fn connection_rate_is_not_blamed_on_congestion_control() {
    let mut facts = good();
    facts.systems.here = route();
    facts.throughput.up.together = Some(38e6);
    up(&mut facts).packets.shapers = vec![Shaper { kind: "fq".to_owned(), is_of_each: true, ..tbf(10.4e6) }];
    let (cause, title) = first(&facts);
    assert!(cause == "shaper" && title.contains("holds uploads of each connection to 10.4 MB/s"), "{title}");
    // The rate of all is no limit of one.
    up(&mut facts).packets.shapers = vec![tbf(10.4e6)];
    assert_eq!(first(&facts).0, "congestion_control");
}

#[test]
fn class_is_changed_by_its_number() {
    let mut facts = good();
    facts.systems.here = route();
    let class = Shaper { kind: "htb".to_owned(), handle: "1:10".to_owned(), is_class: true, ..tbf(11e6) };
    up(&mut facts).packets.shapers = vec![Shaper { delayed: 0.0, ..class }];
    assert_eq!(first(&facts).0, "shaper");
    let change = &diagnose(&facts)[0].change[0];
    assert!(change.contains("tc class change dev 'eth0' classid '1:10' htb rate RATE ceil RATE"), "{change}");
}

#[test]
fn losses_beside_a_shaper_that_drops_nothing_are_named() {
    let causes = |dropped: f64| {
        let mut facts = good();
        facts.systems.here = route();
        // One connection has a quarter of the shaper's rate.
        up(&mut facts).rate = 0.6e6;
        up(&mut facts).packets.shapers = vec![Shaper { dropped, ..tbf(2.5e6) }];
        up(&mut facts).tcp.sender.as_mut().unwrap().resent = 150.0;
        facts.throughput.up.together = Some(2.4e6);
        diagnose(&facts).iter().map(|found| found.cause).filter(|cause| *cause != "path").collect::<Vec<_>>()
    };
    assert_eq!(causes(0.0), ["shaper", "loss"]);
    assert_eq!(causes(12.0), ["shaper"]);
}
