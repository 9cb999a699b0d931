use super::*;

const GRACE: Duration = Duration::from_secs(600);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn connect(reconnect: &mut Reconnect, now: Instant) -> AttemptId {
    match reconnect.poll(now) {
        Some(Action::Connect(id)) => id,
        other => panic!("{other:?}"),
    }
}

/// Simulates an outage until `back`. An attempt succeeds if its first packet is sent after `back`. Returns
/// the time of success and the number of attempts.
fn outage(back: Duration, fails_at_once: bool) -> (Duration, usize) {
    let start = Instant::now();
    let mut reconnect = Reconnect::new(GRACE);
    let mut now = start;
    reconnect.on_broken(now);
    loop {
        while let Some(action) = reconnect.poll(now) {
            match action {
                Action::Connect(_) if now - start >= back => return (now - start, reconnect.attempts),
                Action::Connect(id) if fails_at_once => reconnect.on_failed(id, Failure::Path, now),
                Action::Connect(_) => {}
                Action::Abandon(id) => reconnect.on_failed(id, Failure::Path, now),
                Action::GiveUp => panic!("given up after {:?}", now - start),
            }
        }
        now = reconnect.next_deadline().unwrap().max(now + ms(1));
    }
}

#[test]
fn first_attempt_starts_at_once() {
    assert_eq!(outage(Duration::ZERO, true), (Duration::ZERO, 1));
}

#[test]
fn a_path_that_refuses_is_found_within_a_second() {
    for seconds in 1..110 {
        let (found, attempts) = outage(Duration::from_secs(seconds), true);
        assert!(found <= Duration::from_secs(seconds + 1), "{found:?} after {seconds} s");
        assert!(attempts as u64 <= seconds + 4);
    }
    let (found, attempts) = outage(Duration::from_secs(500), true);
    assert!(found <= Duration::from_secs(505) && attempts < 220, "{attempts} attempts");
}

#[test]
fn a_path_that_was_silent_is_found_as_soon() {
    for seconds in 1..110 {
        let (found, attempts) = outage(Duration::from_secs(seconds), false);
        assert!(found <= Duration::from_secs(seconds + 1), "{found:?} after {seconds} s");
        assert!(attempts as u64 <= seconds + 4);
    }
}

#[test]
fn session_is_given_up_after_time_limit_or_refusal() {
    let start = Instant::now();
    let mut reconnect = Reconnect::new(Duration::from_secs(60));
    reconnect.on_broken(start);
    connect(&mut reconnect, start);
    assert_eq!(reconnect.remaining(start + Duration::from_secs(20)), Some(Duration::from_secs(40)));
    assert_eq!(reconnect.poll(start + Duration::from_secs(60)), Some(Action::GiveUp));
    assert_eq!(reconnect.remaining(start + Duration::from_secs(70)), Some(Duration::ZERO));
    // A refusal is final as well.
    let mut reconnect = Reconnect::new(GRACE);
    reconnect.on_broken(start);
    let id = connect(&mut reconnect, start);
    reconnect.on_failed(id, Failure::Refused, start);
    assert_eq!(reconnect.poll(start), Some(Action::GiveUp));
}

/// Another host at the server's address must not end the session, nor make the client exchange keys
/// without a pause.
#[test]
fn other_hosts_at_the_address_do_not_end_the_session() {
    let start = Instant::now();
    let mut reconnect = Reconnect::new(GRACE);
    let mut now = start;
    reconnect.on_broken(now);
    for _ in 0..20 {
        let id = connect(&mut reconnect, now);
        reconnect.on_failed(id, Failure::Elsewhere, now + ms(30));
        assert_eq!(reconnect.poll(now + ms(4999)), None);
        now += LONG_PAUSE;
        assert_eq!(reconnect.next_deadline(), Some(now));
    }
    // An attempt on another network starts at once: results of attempts on the previous network do not count.
    let id = connect(&mut reconnect, now);
    reconnect.on_network_changed(now + ms(500));
    reconnect.on_failed(id, Failure::Elsewhere, now + ms(600));
    now += PAUSE;
    let id = connect(&mut reconnect, now);
    reconnect.on_failed(id, Failure::Elsewhere, now + ms(30));
    reconnect.on_network_changed(now + ms(300));
    connect(&mut reconnect, now + ms(300));
    // The session's time limit is not extended.
    assert_eq!(reconnect.poll(start + GRACE), Some(Action::GiveUp));
}

/// A key that is not accepted is tried again each second for half a minute, then less often.
#[test]
fn host_key_that_changes_back_is_noticed_within_a_second() {
    let mut reconnect = Reconnect::new(GRACE);
    let mut now = Instant::now();
    reconnect.on_broken(now);
    for attempt in 1..=OTHER_KEYS + 5 {
        let id = connect(&mut reconnect, now);
        reconnect.on_failed(id, Failure::OtherKey, now + ms(30));
        let pause = if attempt <= OTHER_KEYS { PAUSE } else { LONG_PAUSE };
        assert_eq!(reconnect.poll(now + pause - ms(1)), None, "{attempt}");
        now += pause;
    }
    // Another answer between them, or a link, begins the count again.
    let id = connect(&mut reconnect, now);
    reconnect.on_failed(id, Failure::Path, now);
    now += PAUSE;
    let id = connect(&mut reconnect, now);
    reconnect.on_failed(id, Failure::OtherKey, now);
    connect(&mut reconnect, now + PAUSE);
}

#[test]
fn stuck_attempts_are_abandoned_and_slow_ones_are_not() {
    let start = Instant::now();
    let mut reconnect = Reconnect::new(GRACE);
    reconnect.on_broken(start);
    let id = connect(&mut reconnect, start);
    assert_eq!(reconnect.poll(start + ms(999)), None);
    assert_eq!(reconnect.poll(start + ms(1000)), Some(Action::Abandon(id)));
    reconnect.on_failed(id, Failure::Path, start + ms(1000));
    let id = connect(&mut reconnect, start + ms(1000));
    reconnect.on_progress(id, start + ms(1900));
    for answer in 1..5 {
        // The server is slow but reachable.
        let now = start + ms(1900 + answer * 900);
        assert_eq!(reconnect.poll(now), None);
        reconnect.on_progress(id, now);
    }
    reconnect.on_resumed(start + ms(50_000));
    assert_eq!((reconnect.remaining(start), reconnect.next_deadline()), (None, None));
}

#[test]
fn a_second_attempt_begins_beside_one_that_is_silent() {
    let start = Instant::now();
    let mut reconnect = Reconnect::new(GRACE);
    reconnect.on_broken(start);
    let first = connect(&mut reconnect, start);
    reconnect.on_progress(first, start + ms(100));
    assert_eq!(reconnect.next_deadline(), Some(start + ms(1100)));
    // The path is lost after the first answer. Attempts that start in the meantime fail, once a second.
    for second in 0..5 {
        let id = connect(&mut reconnect, start + ms(1100 + second * 1000));
        assert_eq!(reconnect.poll(start + ms(2099 + second * 1000)), None);
        assert_eq!(reconnect.poll(start + ms(2100 + second * 1000)), Some(Action::Abandon(id)));
        reconnect.on_failed(id, Failure::Path, start + ms(2100 + second * 1000));
    }
    // The path works again: the next attempt makes progress, and no other starts beside it while it does.
    let last = connect(&mut reconnect, start + ms(6100));
    for progress in 0..4 {
        reconnect.on_progress(last, start + ms(6200 + progress * 950));
        assert_eq!(reconnect.poll(start + ms(7100 + progress * 950)), None);
    }
    // A report about an abandoned attempt has no effect.
    assert_eq!(reconnect.poll(start + ms(10_100)), Some(Action::Abandon(first)));
    reconnect.on_failed(first, Failure::Path, start + ms(10_100));
    reconnect.on_failed(first, Failure::Refused, start + ms(10_100));
    reconnect.on_progress(first, start + ms(10_100));
    reconnect.on_resumed(start + ms(10_100));
    assert_eq!(reconnect.next_deadline(), None);
}

/// Starts an attempt, and another one beside it: each has a first answer after 100 ms, and then none.
fn two_silent_after_a_first_answer(start: Instant) -> (Reconnect, [AttemptId; 2]) {
    let mut reconnect = Reconnect::new(GRACE);
    reconnect.on_broken(start);
    let first = connect(&mut reconnect, start);
    reconnect.on_progress(first, start + ms(100));
    let second = connect(&mut reconnect, start + ms(1100));
    reconnect.on_progress(second, start + ms(1200));
    (reconnect, [first, second])
}

/// Attempts that make progress and are cut off one after the other must not delay the next one by [`STUCK`].
#[test]
fn two_silent_attempts_do_not_hold_up_a_third() {
    let start = Instant::now();
    let (mut reconnect, [first, _]) = two_silent_after_a_first_answer(start);
    assert_eq!(reconnect.poll(start + ms(2199)), None);
    assert_eq!(reconnect.next_deadline(), Some(start + ms(2200)));
    assert_eq!(reconnect.poll(start + ms(2200)), Some(Action::Abandon(first)));
    reconnect.on_failed(first, Failure::Path, start + ms(2200));
    // It was replaced, so the second attempt gets twice the time.
    assert_eq!(reconnect.poll(start + ms(3199)), None);
    connect(&mut reconnect, start + ms(3200));
}

/// A path that drops long packets lets the server's first answer through, and not the key exchange.
#[test]
fn an_attempt_after_a_first_answer_has_short_segments() {
    let start = Instant::now();
    let (mut reconnect, [first, second]) = two_silent_after_a_first_answer(start);
    assert_eq!(reconnect.poll(start + ms(2200)), Some(Action::Abandon(first)));
    reconnect.on_failed(first, Failure::Path, start + ms(2200));
    // Short segments were no help, so the path is lost for another reason.
    let third = connect(&mut reconnect, start + ms(3200));
    assert_eq!([first, second, third].map(|id| reconnect.has_short_segments(id)), [false, true, false]);
    // Nor are they where nothing has come at all, or on another network.
    let mut reconnect = Reconnect::new(GRACE);
    reconnect.on_broken(start);
    let first = connect(&mut reconnect, start);
    reconnect.on_failed(first, Failure::Path, start);
    let second = connect(&mut reconnect, start + ms(1000));
    assert!(!reconnect.has_short_segments(second));
    reconnect.on_progress(second, start + ms(1100));
    reconnect.on_network_changed(start + ms(1300));
    let third = connect(&mut reconnect, start + ms(1300));
    assert!(!reconnect.has_short_segments(third));
}

/// A server may take seconds to check the account of a claim, and the last claim is the one that counts.
#[test]
fn claims_do_not_replace_each_other_for_ever() {
    for check in [0, 900, 2_000, 4_000, 8_000] {
        let start = Instant::now();
        let (reached, check) = (ms(50), ms(check));
        let mut reconnect = Reconnect::new(GRACE);
        reconnect.on_broken(start);
        let mut now = start;
        // Attempts in progress: id, arrival at the server, and whether the claim is answered.
        let mut under_way: Vec<(AttemptId, Instant, bool)> = Vec::new();
        let resumed = loop {
            while let Some(action) = reconnect.poll(now) {
                match action {
                    Action::Connect(id) => under_way.push((id, now + reached, false)),
                    Action::Abandon(id) => {
                        under_way.retain(|attempt| attempt.0 != id);
                        reconnect.on_failed(id, Failure::Path, now);
                    }
                    Action::GiveUp => panic!("given up after {:?}", now - start),
                }
            }
            let next = under_way.iter().map(|attempt| attempt.1).chain(reconnect.next_deadline()).min();
            now = next.unwrap().max(now);
            let Some(index) = under_way.iter().position(|attempt| attempt.1 <= now) else { continue };
            let (id, _, has_claimed) = under_way[index];
            if has_claimed {
                break now - start;
            }
            reconnect.on_progress(id, now);
            under_way[index] = (id, now + check, true);
            under_way.retain(|(other, _, has_claimed)| {
                let is_replaced = *other != id && *has_claimed;
                if is_replaced {
                    reconnect.on_replaced(*other, now);
                }
                !is_replaced
            });
        };
        assert!(resumed <= reached + check * 4, "{resumed:?} for checks of {check:?}");
    }
}

#[test]
fn a_long_path_gets_time_before_a_second_attempt() {
    let start = Instant::now();
    let mut reconnect = Reconnect::new(GRACE);
    reconnect.set_round_trip(ms(600));
    reconnect.on_broken(start);
    let first = connect(&mut reconnect, start);
    reconnect.on_progress(first, start + ms(600));
    assert_eq!(reconnect.poll(start + ms(2900)), None);
    connect(&mut reconnect, start + ms(3000));
}

#[test]
fn a_changed_network_is_tried_beside_an_attempt() {
    let start = Instant::now();
    let mut reconnect = Reconnect::new(GRACE);
    reconnect.on_broken(start);
    let first = connect(&mut reconnect, start);
    // Too soon after the last start.
    reconnect.on_network_changed(start + ms(100));
    assert_eq!(reconnect.poll(start + ms(249)), None);
    let second = connect(&mut reconnect, start + ms(250));
    assert_ne!(first, second);
    assert_eq!(reconnect.poll(start + ms(600)), None);
    // The oldest attempt is abandoned for the third one.
    reconnect.on_network_changed(start + ms(600));
    assert_eq!(reconnect.poll(start + ms(600)), Some(Action::Abandon(first)));
    reconnect.on_failed(first, Failure::Path, start + ms(600));
    reconnect.on_network_changed(start + ms(600));
    connect(&mut reconnect, start + ms(600));
}

#[test]
fn links_that_break_at_once_are_not_replaced_at_once() {
    let start = Instant::now();
    let mut reconnect = Reconnect::new(GRACE);
    let mut now = start;
    for _ in 0..60 {
        reconnect.on_broken(now);
        while !matches!(reconnect.poll(now), Some(Action::Connect(_))) {
            now = reconnect.next_deadline().unwrap().max(now + ms(1));
        }
        reconnect.on_resumed(now + ms(10));
        now += ms(20);
    }
    assert!(now - start > Duration::from_secs(50), "{:?}", now - start);
    // After a link that lasted, the next attempt starts at once.
    now += SETTLED;
    reconnect.on_broken(now);
    connect(&mut reconnect, now);
}

#[test]
fn a_changed_network_is_tried_at_once() {
    let start = Instant::now();
    let mut reconnect = Reconnect::new(GRACE);
    reconnect.on_broken(start);
    let id = connect(&mut reconnect, start);
    let late = start + Duration::from_secs(200);
    reconnect.attempts = 50;
    reconnect.started = Some(late);
    reconnect.on_failed(id, Failure::Path, late);
    assert_eq!(reconnect.poll(late + ms(300)), None);
    reconnect.on_network_changed(late + ms(300));
    connect(&mut reconnect, late + ms(300));
}

#[test]
fn an_attempt_beside_a_stalled_link_is_waited_for() {
    let start = Instant::now();
    let mut reconnect = Reconnect::new(GRACE);
    let beside = reconnect.number();
    let start = start + Duration::from_secs(20);
    reconnect.on_broken_beside(beside, start);
    // It exchanged keys long ago.
    reconnect.on_progress(beside, start - Duration::from_secs(15));
    assert_eq!(reconnect.poll(start + ms(500)), None);
    reconnect.on_resumed(start + ms(600));
    // It has failed: another one starts.
    let beside = reconnect.number();
    reconnect.on_broken_beside(beside, start + ms(700));
    reconnect.on_failed(beside, Failure::Path, start + ms(800));
    let next = reconnect.next_deadline().unwrap();
    assert!(next <= start + ms(1700), "{:?}", next - start);
    let id = connect(&mut reconnect, next);
    assert_ne!(id, beside);
}
