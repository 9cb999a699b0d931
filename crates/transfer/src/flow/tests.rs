use super::*;

/// With nothing said by the user.
fn bounds() -> Bounds {
    with(Limits::default())
}

fn with(limits: Limits) -> Bounds {
    Bounds { limits, relay: false, descriptors: 1_000 }
}

#[test]
fn answers_open_the_depth_up_to_its_limit() {
    let mut flow = Flow::new(bounds(), Instant::now());
    let chunk = 256 << 10;
    let fill = |flow: &mut Flow| {
        let mut sent = 0;
        while flow.has_room_up_to(1 << 20, false) {
            flow.request(chunk);
            sent += 1;
        }
        sent
    };
    assert_eq!(fill(&mut flow), 16, "4 MiB to begin with");
    for _ in 0..1_000 {
        flow.in_flight.answered(chunk);
        flow.grow(chunk);
        fill(&mut flow);
    }
    assert_eq!(flow.in_flight.requests(), 256, "64 MiB in the end");
}

/// A server that takes many requests.
const KNOWN: Servers =
    Servers { told_limits: true, take_many: true, measured: false, stops_at_full_window: false, channels: 1 };

#[test]
fn server_that_stops_at_a_full_window_never_fills_it() {
    let chunk = 32 << 10;
    for (stops_at_full_window, most) in [(false, 4 << 20), (true, 1 << 20)] {
        let mut flow = Flow::new(bounds(), Instant::now());
        while flow.has_room(Servers { stops_at_full_window, ..KNOWN }) {
            flow.request(chunk);
        }
        assert_eq!(flow.in_flight.bytes(), most);
    }
}

#[test]
fn window_of_each_channel_bounds_a_server_that_stops() {
    let mut flow = Flow::new(bounds(), Instant::now());
    while flow.has_room(Servers { stops_at_full_window: true, channels: 3, ..KNOWN }) {
        flow.request(32 << 10);
    }
    assert_eq!(flow.in_flight.bytes(), 3 << 20);
}

#[test]
fn comparisons_share_the_bound_of_requests() {
    let unknown = Servers { told_limits: false, take_many: false, ..KNOWN };
    let stops = Servers { stops_at_full_window: true, ..unknown };
    let fixed = Limits { requests: Some(5), ..Limits::default() };
    for (limits, servers, most) in [
        (Limits::default(), unknown, 64),
        (Limits::default(), stops, 32),
        (Limits::default(), KNOWN, 256),
        (fixed, KNOWN, 5),
    ] {
        let mut flow = Flow::new(with(limits), Instant::now());
        for files in [1, 3, 5] {
            let each = flow.comparisons_of_each(files, 0, servers);
            assert!(each * files <= most && (each + 1) * files > most, "{files}: {each} of {most}");
        }
        assert_eq!(flow.comparisons_of_each(1_000, 0, servers), 1, "each file goes on");
        (0..most).for_each(|_| flow.in_flight.compare());
        assert!(!flow.has_room(servers), "data wait for comparisons");
        flow.compared(false);
        assert!(flow.has_room(servers));
        flow.request(1);
        assert!(flow.comparisons_of_each(1, 0, servers) < most.max(2), "data count");
    }
}

#[test]
fn requests_grow_by_answers_and_are_bounded_for_each_channel() {
    let mut flow = Flow::new(bounds(), Instant::now());
    let servers = |told_limits, take_many, channels| Servers { told_limits, take_many, channels, ..KNOWN };
    let max = |flow: &Flow, channels| {
        let of = |told, many| flow.max_requests(servers(told, many, channels));
        [of(true, true), of(false, true), of(true, false), of(false, false)]
    };
    assert_eq!(max(&flow, 1), [256, 64, 64, 64]);
    (0..10_000).for_each(|_| flow.grow(1));
    assert_eq!(max(&flow, 1), [1_024, 1_024, 64, 64]);
    assert_eq!(max(&flow, 3), [3_072, 3_072, 192, 192]);
    let fixed = Flow::new(with(Limits { requests: Some(100), ..Limits::default() }), Instant::now());
    assert_eq!(max(&fixed, 3), [100; 4], "the user's word");
}

#[test]
fn dropped_requests_leave_fewer_of_everything() {
    let mut flow = Flow::new(bounds(), Instant::now());
    for most in [64, 8, 1, 1] {
        assert_eq!(flow.drops.note(), most);
        let servers = Servers { channels: 4, ..KNOWN };
        assert_eq!((flow.max_requests(servers), flow.max_open(Some(10_000))), (most, most));
    }
    assert_eq!(flow.drops.times(), 4);
}

#[test]
fn data_held_between_two_ends_count_as_in_flight() {
    let mut flow = Flow::new(with(Limits { bytes_in_flight: 1_000, ..Limits::default() }), Instant::now());
    flow.in_flight.hold(1_000);
    assert!(!flow.has_room_up_to(10, false));
    flow.in_flight.release(1);
    assert!(flow.has_room_up_to(10, false) && !flow.has_room_up_to(0, false));
}

#[test]
fn a_rate_holds_requests_back_until_its_time() {
    let now = Instant::now();
    let mut flow = Flow::new(with(Limits { bits_per_second: Some(8_000), ..Limits::default() }), now);
    while flow.rate.lets_pass(now) {
        flow.request(1_000);
    }
    assert!(flow.rate.holds_back() && flow.rate.is_set());
    let at = flow.next_deadline().expect("a time");
    assert!(at > now);
    assert!(flow.rate.lets_pass(at) && !flow.rate.holds_back());
}
