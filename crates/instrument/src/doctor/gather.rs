//! The measurements of the doctor, in their order. What does not disturb each other goes on side by side, and
//! what nothing suspicious asks for is left out, so that a healthy path is measured in half a minute.

use super::budget;
use super::delays;
use super::diagnose::one_is_not_enough;
use super::facts::{CLOSED, Facts, Logins, RunSettings, Unwritable};
use super::instruments::{Instruments, Login, PLAIN, Place, TOGETHER, Transfer, one_flow, prepared_flow};
use super::jitter;
use super::jump;
use super::logins::{self, JudgedLogins};
use super::losses::{self, LEAST_RESENT, losses_may_limit};
use super::marks::{self, Prepared};
use super::master;
use super::other_settings;
use super::refusals;
use super::sftp_rates;
use super::small_loss;
use super::swallowed;
use crate::disk::Disk;
use crate::fault::Fault;
use crate::flow::{Direction, Flow};
use crate::target::NoConnection;
use crate::task::PING_COUNT;

/// Further flows of that length where too few segments were lost for a verdict, at most.
const MORE_FLOWS: usize = 2;
/// Logins that take longer than this in all are not repeated once more, seconds.
const LONG_LOGINS: f64 = 8.0;

/// Measures everything; says on the way what it does.
pub(super) fn gather<I: Instruments>(instruments: &mut I, wanted: &RunSettings) -> Result<Facts, Fault> {
    let mut facts = Facts::default();
    measure(instruments, wanted, &mut facts)?;
    facts.refusals.connections =
        instruments.refused() + facts.path.reached.as_ref().map_or(0, |reached| reached.refused);
    (facts.refusals.logins_made, facts.refusals.turned_away) = instruments.logins();
    facts.run.steps = instruments.steps();
    Ok(facts)
}

fn measure<I: Instruments>(
    instruments: &mut I,
    wanted: &RunSettings,
    facts: &mut Facts,
) -> Result<(), Fault> {
    let settings = instruments.settings();
    (facts.run.host, facts.throughput.rate_limit) = (settings.host, settings.rate_limit);
    if settings.is_direct {
        instruments.begin_step("path");
        let reached = instruments.reach()?;
        facts.path.segments = instruments.segments(&reached);
        facts.path.reached = Some(reached);
        // A login would wait for packets that never arrive.
        if facts.path.segments.is_some_and(|segments| segments.is_black_hole()) {
            facts.systems.here = instruments.here(facts.path.reached.as_ref());
            facts.logins.failure = Some("not tried: its packets would be lost".to_owned());
            return Ok(());
        }
    } else {
        facts.path.is_proxied = true;
        facts.run.missing.push("the path below TCP: the host is reached through a proxy".to_owned());
    }
    facts.systems.here = instruments.here(facts.path.reached.as_ref());
    instruments.begin_step("login");
    let mut first = instruments.prepare(Place::Server, &PLAIN, true);
    match swallowed::first_login(instruments, facts, &mut first) {
        Ok(login) => {
            (facts.logins.offers, facts.negotiated.server) = (login.offers, login.server);
            (facts.negotiated.cipher, facts.negotiated.mac) = (login.cipher, login.mac);
            facts.logins.timed.push(login.stages);
        }
        Err(failure) if !failure.is_path => return Err(failure.fault),
        Err(failure) => {
            facts.logins.failure = Some(words(&failure));
            if failure.is_late() {
                facts.logins.silent_agent = instruments.silent_agent();
            }
            return Ok(());
        }
    }
    let second = instruments.prepare(Place::Server, &PLAIN, true);
    let connections = at_rest(instruments, facts, first, second)?;
    let Some(connections) = connections else { return Ok(()) };
    if let Err(why) = flows(instruments, wanted, facts, connections) {
        facts.run.missing.push(format!("some of the transfers: {why}"));
        facts.throughput.broken = Some(lh_client::sanitise(&why.to_string()));
        let mut again = instruments.prepare(Place::Server, &PLAIN, false);
        if let Ok(there) = instruments.system(&mut again) {
            facts.systems.memory_at_end = there.memory();
        }
    }
    master::measure(instruments, facts);
    slow_disks(instruments, wanted, facts);
    instruments.begin_step("the idle session");
    facts.idle_session = instruments.end_idle();
    Ok(())
}

fn words(failure: &NoConnection) -> String {
    match failure.slowest {
        Some(stage) => format!("{} (while waiting for {})", failure.fault, stage.words()),
        None => failure.fault.to_string(),
    }
}

/// What shows on idle connections; a second login goes on beside it. Returns both connections where the
/// server runs commands.
fn at_rest<I: Instruments>(
    instruments: &mut I,
    facts: &mut Facts,
    mut first: I::Connection,
    mut second: I::Connection,
) -> Result<Option<[I::Connection; 2]>, Fault> {
    instruments.begin_step("round trips");
    facts.path.pings = instruments.pings(&mut first, PING_COUNT);
    if facts.path.answered_on_the_way().is_some() {
        facts.path.pings.extend(instruments.pings(&mut first, PING_COUNT));
    }
    if jitter::is_in_doubt(&facts.path.pings) {
        let mut waited = Vec::new();
        for connection in [&mut first, &mut second] {
            let before = instruments.turn_waits(connection);
            facts.path.pings.extend(instruments.pings(connection, PING_COUNT));
            waited.push(before.of_message(&instruments.turn_waits(connection)));
        }
        facts.path.pings_waited =
            waited.iter().copied().sum::<Option<f64>>().map(|sum| sum / waited.len() as f64);
    }
    if facts.path.pings.is_empty() {
        facts.run.missing.push("round trips of small messages: none was answered in 3 s".to_owned());
    }
    let system = instruments.system(&mut first);
    if let Ok(there) = &system {
        facts.systems.there = there.clone();
        instruments.begin_step("shell");
        let round_trip = facts.round_trip();
        let found = instruments.at_rest(&mut first, there, round_trip);
        if let Some(why) = found.shell_missing {
            facts.run.missing.push(format!("the start of an interactive shell: {why}"));
            facts.refusals.session = Some(why).filter(|why| refusals::is_of_session(why));
        }
        facts.shell = Some(found.shell);
        (facts.sftp.starts, facts.sftp.refusal, facts.logins.home) =
            (found.sftp, found.sftp_refusal, found.home);
        (facts.logins.reverse_lookup, facts.logins.user_lookup) = (found.reverse_lookup, found.user_lookup);
    }
    facts.path.small_packets = instruments.small_packets(&mut first);
    instruments.begin_step("another login");
    let login = match instruments.login(&mut second) {
        Err(failure) if failure.is_path => {
            instruments.begin_step("another login once more");
            second = instruments.prepare(Place::Server, &PLAIN, true);
            match instruments.login(&mut second) {
                Ok(login) => login,
                Err(failure) => {
                    facts.throughput.broken = Some(lh_client::sanitise(&words(&failure)));
                    facts.refusals.first_answers = !instruments.pings(&mut first, 1).is_empty();
                    facts.run.missing.push("transfers: no other connection was made".to_owned());
                    return Ok(None);
                }
            }
        }
        login => login?,
    };
    let agent_key = add_login(&mut facts.logins, login);
    instruments.begin_idle();
    // A third login tells a hiccup from a habit, if there is time.
    let mut suspicious = Vec::new();
    let judged = JudgedLogins::of(facts);
    judged.judge(&mut suspicious);
    let is_in_doubt = !suspicious.is_empty() || judged.may_lose_first_packets();
    if is_in_doubt && facts.logins.seconds() < LONG_LOGINS {
        another_login(instruments, facts, "a third");
    }
    // What a busy machine adds to some logins is told from a short delay of each.
    while logins::may_be_noticed(&facts.logins, facts.round_trip())
        && facts.logins.timed.len() < delays::OFTEN
        && facts.logins.seconds() < LONG_LOGINS
    {
        let number = if facts.logins.timed.len() == 2 { "a third" } else { "a fourth" };
        if !another_login(instruments, facts, number) {
            break;
        }
    }
    if let Some(key) = agent_key.filter(|_| logins::may_be_signing(&facts.logins, facts.round_trip())) {
        instruments.begin_step("the agent");
        facts.logins.agent_signing = instruments.agent_signing(&key);
    }
    match system {
        Ok(_) => Ok(Some([first, second])),
        Err(fault) => {
            let why = fault.to_string();
            if CLOSED.iter().any(|words| why.contains(words)) {
                facts.throughput.broken = Some(lh_client::sanitise(&why));
            } else if let Fault::NoCommands(words) = &fault {
                facts.refusals.commands = Some(lh_client::sanitise(words));
            }
            facts.run.missing.push(format!(
                "what needs a command at the server, transfers among it: {why}. What holds up copies over SFTP, lhscp -v \
                 says at their end"
            ));
            Ok(None)
        }
    }
}

/// Adds a login; returns what the log says of the agent's key that it used.
/// Logs in once more. Returns false where that is not accepted, which leaves the diagnosis with those before.
fn another_login<I: Instruments>(instruments: &mut I, facts: &mut Facts, number: &str) -> bool {
    instruments.begin_step(&format!("{number} login"));
    let mut another = instruments.prepare(Place::Server, &PLAIN, true);
    let login = instruments.login(&mut another);
    let is_accepted = login.is_ok();
    match login {
        Ok(login) => _ = add_login(&mut facts.logins, login),
        Err(failure) => facts.run.missing.push(format!("{number} login: {}", words(&failure))),
    }
    is_accepted
}

fn add_login(logins: &mut Logins, login: Login) -> Option<String> {
    logins.timed.push(login.stages);
    logins.offers = logins.offers.max(login.offers);
    let least = logins.key_work.map_or(login.key_work, |known| known.min(login.key_work));
    logins.key_work = Some(least);
    login.agent_key
}

fn flows<I: Instruments>(
    instruments: &mut I,
    wanted: &RunSettings,
    facts: &mut Facts,
    connections: [I::Connection; 2],
) -> Result<(), Fault> {
    for (direction, connection) in Direction::BOTH.into_iter().zip(connections) {
        instruments.begin_step(direction.name());
        let transfer = Transfer::judged(direction, facts.round_trip());
        let mut flow = match prepared_flow(instruments, connection, &transfer) {
            Ok(flow) if flow.rate > 0.0 || swallowed::is_silent(&flow) => flow,
            // It may have been too long without traffic for something on the way.
            _ => one_flow(instruments, Place::Server, &[], &transfer)?,
        };
        // Where small packets get lost, what asks for the download may have been among them.
        if direction == Direction::Down && swallowed::is_silent(&flow) && !small_loss::are_lost(&facts.path) {
            facts.path.swallowed = swallowed::search(instruments, facts);
            if facts.path.swallowed.is_some() {
                return Ok(());
            }
        }
        // A handful of lost segments may be chance.
        for _ in 0..MORE_FLOWS {
            let is_in_doubt = (1.0..LEAST_RESENT).contains(&flow.resent());
            if !is_in_doubt || !losses_may_limit(&flow, facts.round_trip()) {
                break;
            }
            let name = format!("{}, again", direction.name());
            if !budget::begin(instruments, facts, &name, transfer.time.as_secs_f64()) {
                break;
            }
            let Ok(again) = one_flow(instruments, Place::Server, &[], &transfer) else { break };
            flow.add_losses(&again);
        }
        if !flow.server.memory_groups.is_empty() {
            facts.systems.memory_at_end = flow.server.memory_groups.clone();
        }
        facts.throughput.of_mut(direction).flow = Some(flow);
    }
    // The connections of the comparisons are set up while the disks are measured. Downloads have their own:
    // TCP of this machine keeps the receive window of a connection that has sent an upload small for seconds.
    let together = Direction::BOTH.map(|_| {
        (0..TOGETHER).map(|_| instruments.prepare(Place::Server, &PLAIN, false)).collect::<Vec<_>>()
    });
    let for_file = instruments.prepare(Place::Server, &PLAIN, false);
    let marks = Prepared::begin(instruments, facts);
    instruments.begin_step("disks");
    disks(instruments, wanted, facts);
    several(instruments, facts, together);
    sftp_rates::measure(instruments, wanted, facts, for_file);
    if facts.path.is_proxied {
        jump::measure(instruments, facts);
    }
    // A cause that one flow did not show may show in another.
    for direction in Direction::BOTH {
        if one_is_not_enough(facts, direction) {
            let transfer = Transfer::judged(direction, facts.round_trip());
            let name = format!("{}, again", direction.name());
            if !budget::begin(instruments, facts, &name, transfer.time.as_secs_f64()) {
                continue;
            }
            let again = one_flow(instruments, Place::Server, &[], &transfer)?;
            if let Some(flow) = &mut facts.throughput.of_mut(direction).flow {
                flow.add_losses(&again);
            }
        }
    }
    other_settings::measure(instruments, facts);
    // Connections with other marks may be what the path drops, so their failure is no failure of the path.
    if let Err(why) = marks::measure(instruments, facts, marks) {
        facts.run.missing.push(format!("the marks of uploads (IPQoS): {why}"));
    }
    other_settings::cipher(instruments, facts);
    Ok(())
}

/// Checks that each of several transfers moved data: fewer would compare another number of connections. Says
/// why one did not.
fn all_moved(flows: Result<Vec<Flow>, Fault>) -> Result<Vec<Flow>, String> {
    let flows = flows.map_err(|fault| match fault {
        Fault::Connection(_) => {
            format!("one was not made: {fault} (MaxStartups, PerSourceMaxStartups, a firewall)")
        }
        other => format!("one was not made: {other}"),
    })?;
    match flows.iter().find(|flow| flow.rate <= 0.0) {
        None => Ok(flows),
        Some(Flow { failure: Some(why), .. }) => Err(format!("one broke off: {why}")),
        Some(_) => Err("one moved too little to be timed".to_owned()),
    }
}

/// Each direction over several connections at a time.
fn several<I: Instruments>(instruments: &mut I, facts: &mut Facts, connections: [Vec<I::Connection>; 2]) {
    for (direction, mut connections) in Direction::BOTH.into_iter().zip(connections) {
        let name = direction.name();
        let alone = facts.throughput.rate(direction);
        let transfer = Transfer::compared(direction, facts.round_trip(), alone);
        let step = format!("{name} over {TOGETHER} connections");
        if !budget::begin(instruments, facts, &step, transfer.time.as_secs_f64()) {
            continue;
        }
        let flows = all_moved(instruments.transfer(&mut connections, &transfer));
        let rate = flows.as_ref().ok().map(|flows| {
            let at_the_same_time = flows.first().and_then(|flow| flow.together);
            at_the_same_time.unwrap_or_else(|| flows.iter().map(|flow| flow.rate).sum())
        });
        if let Err(why) = &flows {
            facts.run.missing.push(format!(
                "{name}s over {TOGETHER} connections at a time, with which each is compared: {why}"
            ));
        }
        let lost = flows.ok().and_then(|flows| losses::of_several(&flows, facts.round_trip()));
        let measured = facts.throughput.of_mut(direction);
        (measured.together, measured.lost_together) = (rate, lost);
    }
}

/// Words of a system that permits no file in a directory.
const UNWRITABLE: [&str; 2] = ["Read-only file system", "Permission denied"];

/// Measures both disks side by side.
fn disks<I: Instruments>(instruments: &mut I, wanted: &RunSettings, facts: &mut Facts) {
    let [here, there] = instruments.disks(wanted, [true, true]);
    for (end, measured) in [("this machine", here), ("the server", there)] {
        match measured {
            Some(Ok(disk)) if end == "the server" => facts.disks.there = Some(disk),
            Some(Ok(disk)) => facts.disks.here = Some(disk),
            Some(Err(error)) => {
                let why = error.to_string();
                if refusals::is_of_session(&why) {
                    facts.refusals.session = Some(why.clone());
                }
                let directory = match end {
                    "the server" => wanted.remote_directory.clone(),
                    _ => wanted.local_directory.display().to_string(),
                };
                let said = UNWRITABLE.into_iter().find(|words| why.contains(words));
                facts.disks.unwritable.extend(said.map(|said| Unwritable { end, directory, said }));
                facts.run.missing.push(format!("the disk of {end}: {why}"));
            }
            None => {}
        }
    }
}

/// Measures a disk by itself where it is slower than the path that brings and takes data, and keeps the
/// better figures: what else writes now is no fault of the disk.
fn slow_disks<I: Instruments>(instruments: &mut I, wanted: &RunSettings, facts: &mut Facts) {
    let [up, down] = Direction::BOTH.map(|direction| facts.throughput.best_rate(direction).unwrap_or(0.0));
    for (ends, brings, takes) in [([true, false], down, up), ([false, true], up, down)] {
        let disk = if ends[0] { &facts.disks.here } else { &facts.disks.there };
        let is_slow = |disk: &&Disk| disk.rate < brings || disk.read_rate.is_some_and(|rate| rate < takes);
        let Some(disk) = disk.as_ref().filter(|disk| disk.is_measured()).filter(is_slow) else { continue };
        let reads = disk.read_rate.map_or(0.0, |rate| disk.bytes / rate.max(1.0));
        let seconds = disk.bytes / disk.rate.max(1.0) + reads;
        if !budget::begin(instruments, facts, "a disk, again", seconds) {
            continue;
        }
        let again = instruments.disks(wanted, ends).into_iter().flatten().next();
        let disk = if ends[0] { &mut facts.disks.here } else { &mut facts.disks.there };
        if let (Some(disk), Some(Ok(again))) = (disk.as_mut(), again) {
            disk.rate = disk.rate.max(again.rate);
            disk.read_rate = [disk.read_rate, again.read_rate].into_iter().flatten().reduce(f64::max);
        }
    }
}
