//! Processes that are killed or stopped in the middle of a copy.

use lh_interop::process;
use lh_testkit::Seeded;
use rustix::process::Signal;

use super::case::Case;
use super::hosts::{Running, Way, signal, wait_for_end};
use super::state::{Counts, State};

/// The process that is affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Victim {
    /// The client with all processes that it has started.
    Client,
    /// One of the session processes, which have a connection's files open.
    Session,
    /// All processes of the servers except the listeners.
    Server,
}

impl Victim {
    fn processes(self, case: &Case<'_>, running: &Running, random: &mut Seeded) -> Vec<u32> {
        match self {
            Self::Client => process::family(running.pid()),
            Self::Session => {
                let all = case.hosts.sessions();
                if all.is_empty() { all } else { vec![all[random.below(all.len())]] }
            }
            Self::Server => case.hosts.serving(),
        }
    }
}

/// Kills processes, several times over one copy, then lets it end.
pub(super) fn kill(
    case: &Case<'_>,
    victim: Victim,
    state: &mut State,
    random: &mut Seeded,
) -> Result<Counts, String> {
    case.prepare()?;
    let mut counts = Counts::default();
    let mut complete = false;
    for attempt in 0..1 + random.below(6) {
        // In some rounds the client reconnects by itself.
        let retries = victim != Victim::Client && random.below(5) == 0;
        let mut running = case.start(if retries { &[] } else { &["--retries", "0"] })?;
        let moment = state.moment(case, random);
        let ended_first = running.ends_within(moment);
        let killed = if ended_first { Vec::new() } else { victim.processes(case, &running, random) };
        signal(&killed, Signal::KILL);
        let at = format!("kill {attempt} after {} ms", moment.as_millis());
        let ended = running.end().map_err(|text| format!("{at}: {text}"))?;
        let by_client = victim == Victim::Client && !ended_first;
        if ended_first || (ended.status == 0 && !by_client) {
            case.check_complete(&ended).map_err(|text| format!("{at}: {text}"))?;
            if ended_first && attempt == 0 {
                state.took(case, ended.took);
            }
            counts.late += u64::from(killed.is_empty());
            counts.hits += u64::from(!killed.is_empty());
            complete = true;
            break;
        }
        state.lasts_longer(case);
        counts.hits += u64::from(!killed.is_empty());
        let right_status = match (victim, case.way) {
            (Victim::Client, _) => true,
            // A direct copy returns the remote program's exit status, converted for the local one.
            (_, Way::Direct) => matches!(ended.status, 1 | 255),
            // The client reconnects only after a first connection.
            _ => ended.status == 255 && (!retries || !ended.said.contains("connecting again")),
        };
        if !right_status {
            return Err(format!("{at}: the client ended with status {}:\n{}", ended.status, ended.said));
        }
        if killed.is_empty() {
            return Err(format!("{at}: status {}, and nothing was killed:\n{}", ended.status, ended.said));
        }
        case.check_interrupted().map_err(|text| format!("{at}: {text}"))?;
        // The next command may start while sessions of this one still write.
        if case.way == Way::Direct || random.below(2) == 0 {
            wait_for_end(&killed)?;
            case.hosts.settle()?;
            // A session that started while the list of processes was read has only lost its monitor.
            if victim == Victim::Server {
                case.overlap(&killed);
            }
            case.check_interrupted().map_err(|text| format!("{at}, when all sessions had ended: {text}"))?;
        } else {
            case.overlap(&killed);
        }
        // It was killed just before its exit.
        if case.hosts.journals().is_empty() && case.tree.equals(&case.copy()).is_ok() {
            complete = true;
            break;
        }
    }
    if !complete {
        case.finish()?;
    }
    case.hosts.settle()?;
    case.clear()?;
    Ok(counts)
}

/// Stops processes for a while.
pub(super) fn stop(
    case: &Case<'_>,
    victim: Victim,
    state: &mut State,
    random: &mut Seeded,
) -> Result<Counts, String> {
    case.prepare()?;
    let mut running = case.start(&[])?;
    let mut counts = Counts::default();
    if running.ends_within(state.moment(case, random)) {
        counts.late += 1;
    } else {
        let stopped = victim.processes(case, &running, random);
        signal(&stopped, Signal::STOP);
        running.ends_within(state.pause(random));
        case.check_interrupted()?;
        signal(&stopped, Signal::CONT);
        counts.hits += 1;
    }
    case.complete_or_again(&running.end()?)?;
    case.clear()?;
    Ok(counts)
}
