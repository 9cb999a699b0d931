//! Links that go down, reset connections or flip bits in the middle of a copy.

use std::time::Duration;

use lh_testkit::Seeded;

use super::case::Case;
use super::link::Link;
use super::state::{Counts, State};

fn link<'a>(case: &Case<'a>) -> Result<&'a Link, String> {
    case.hosts.link(case.peer).ok_or_else(|| "there is no link".to_owned())
}

/// No packet passes for some time. TCP loses no data, so the copy continues; only a login may exceed the
/// server's time limit.
pub(super) fn down(case: &Case<'_>, state: &mut State, random: &mut Seeded) -> Result<Counts, String> {
    case.prepare()?;
    let link = link(case)?;
    let mut running = case.start(&[])?;
    let late = running.ends_within(state.moment(case, random));
    if !late {
        link.set_down(true);
        running.ends_within(state.pause(random));
        let interrupted = case.check_interrupted();
        link.set_down(false);
        interrupted?;
    }
    case.complete_or_again(&running.end()?)?;
    case.clear()?;
    Ok(Counts { hits: u64::from(!late), late: u64::from(late) })
}

/// All connections are reset, up to three times; the client connects again.
pub(super) fn reset(case: &Case<'_>, state: &mut State, random: &mut Seeded) -> Result<Counts, String> {
    case.prepare()?;
    let link = link(case)?;
    let mut running = case.start(&[])?;
    let mut counts = Counts::default();
    for _ in 0..1 + random.below(3) {
        // Later resets hit the client while it reconnects.
        let wait = state.moment(case, random) + Duration::from_millis(if counts.hits > 0 { 900 } else { 0 });
        if running.ends_within(wait) {
            counts.late += 1;
            break;
        }
        link.reset();
        counts.hits += 1;
        case.check_interrupted()?;
    }
    case.complete_or_again(&running.end()?)?;
    case.clear()?;
    Ok(counts)
}

/// Bits are flipped; each flipped bit must end a connection, and none may reach a file.
pub(super) fn flipped(case: &Case<'_>, random: &mut Seeded) -> Result<Counts, String> {
    case.prepare()?;
    let link = link(case)?;
    let before = link.flipped();
    link.flip(1 + random.below(3) as u64, random.next_u64());
    let ended = case.start(&[])?.end();
    link.flip(0, 0);
    let hits = link.flipped() - before;
    case.check_interrupted()?;
    case.complete_or_again(&ended?)?;
    case.clear()?;
    Ok(Counts { hits, late: u64::from(hits == 0) })
}
