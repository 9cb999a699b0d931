//! The rounds of a run.

use std::cell::Cell as Counter;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::cells::{
    Cell, Cells, LEFT_TO_LONG_RUN, LEFT_TO_LONG_RUN_WITHOUT_FILES, LEFT_TO_LONG_SFTP_RUN, Suites, agreed,
    long, over_sftp, quick,
};
use super::child::{Bench, file_len};
use super::client::Client;
use super::job::Job;
use super::keeper::{MANY, WorkDirectory};
use super::offer::Offer;
use super::prepare::{
    Scratch, acceptor, directory_over_sftp, far_end, jump_host_plan, keep_small_files, refusal_of_commands,
};
use super::results::{Plan, Results, TimeLimit};
use super::row::{LEAST_VALUES, Rows};
use super::run::{LOGIN_ENDS, LOGINS_TIME, Run, SEAL};
use super::schedule::Schedule;
use super::setup::setups;
use crate::fault::Fault;
use crate::flow::Direction;
use crate::stats::median;
use crate::target::Target;

/// Rounds that the time is planned for.
const ROUNDS: u32 = 4;
/// Rounds of what a quick run is about, before all else: from fewer nothing follows.
const LEAST_ROUNDS: u32 = LEAST_VALUES as u32;
/// Shortest and longest time of one transfer.
const SLICES: [Duration; 2] = [Duration::from_millis(400), Duration::from_secs(3)];
/// Part of the time that is left for measuring in any case, however long the login took.
const AFTER_LOGIN: f64 = 0.75;
/// Part of the time after which a quick run sets up nothing more than it must.
const LATE_SET_UP: f64 = 0.25;
const NO_ACCEPTOR: &str = "the server's processor time of logins: it has no /proc that tells";
/// Time that the disks of both ends take.
const DISKS: Duration = Duration::from_secs(4);
/// Longest login that guesses are made with: the rest was a question to the user.
const MOST_LOGIN: Duration = Duration::from_secs(2);

/// Returns the time that the end of a run takes: closing connections and removing files.
fn clean_up(time: Duration) -> Duration {
    (time / 10).min(Duration::from_secs(2))
}

/// Measures in rounds until the time is up, and removes the files of the run.
///
/// # Errors
/// The host cannot be reached, or the login is refused.
pub(super) fn run(
    target: &Target,
    plan: &Plan,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&str),
) -> Result<Results, Fault> {
    let mut directory = None;
    let measured = measure(target, plan, &mut directory, stop, tell);
    let Some(directory) = directory else { return measured };
    tell(&directory.removal_notice());
    match (measured, directory.remove(stop)) {
        (measured, Ok(())) => measured,
        (Ok(mut results), Err(why)) => {
            results.missing.push(why.to_string());
            results.leftover = Some(why.to_string());
            Ok(results)
        }
        (Err(fault), Err(why)) => Err(Fault::Server(format!("{fault}; {why}"))),
    }
}

/// Measures in rounds. `directory` becomes what has to be removed at the end, also after a failure.
fn measure(
    target: &Target,
    plan: &Plan,
    directory: &mut Option<WorkDirectory>,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&str),
) -> Result<Results, Fault> {
    tell("connecting");
    let begun = Instant::now();
    let mut first = target.connect(&[])?;
    let login = begun.elapsed();
    // The user may have typed a password.
    let limit = plan.time.max(login + plan.time.mul_f64(AFTER_LOGIN)).saturating_sub(clean_up(plan.time));
    let link = first.client.driver().link();
    let server = lh_client::sanitise(link.peer_identification().unwrap_or_default());
    let agreed = link.negotiated().and_then(|names| agreed(&names.cipher_c2s, &names.mac_c2s));
    let host = first.options.config.host.clone();
    let round_trip = median(first.ping(3, Duration::from_millis(10))).unwrap_or(0.0);
    let mut missing = Vec::new();
    // Both need connections of their own, whose round trips take long on long paths.
    let keeper = {
        let (target, parent) = (target.clone(), plan.remote_directory.clone());
        let many = if plan.quick { 0 } else { MANY };
        std::thread::spawn(move || WorkDirectory::start(&target, &parent, many))
    };
    let offer = {
        let (target, quick) = (target.clone(), plan.quick);
        std::thread::spawn(move || Offer::of(&target, quick))
    };
    let no_commands = refusal_of_commands(target, &mut first)?;
    let runs_commands = no_commands.is_none();
    let mut clients: Vec<Client> = Client::ours().into_iter().collect();
    if clients.is_empty() {
        missing.push("lhssh, lhscp and lhsftp as clients: they are not beside this program".to_owned());
    }
    let has_copier = clients.iter().any(|client| client.scp.is_some());
    clients.extend(plan.peers.iter().map(|(name, path)| Client::peer(name, path)));
    missing.extend(clients.iter().flat_map(Client::lacking));
    let has_port = plan.tcp_port.is_some();
    let mut far = None;
    if runs_commands && (has_port || !plan.quick) {
        tell("starting a TCP end at the server");
        let (end, why) = far_end(target, plan, &first);
        far = end;
        missing.extend(why);
    }
    let jump_host = jump_host_plan(target, plan)?;
    tell("asking for the server's algorithms");
    let offer = offer.join().unwrap_or_default();
    let setups = setups(&first.options, &offer, plan.quick);
    let suites = Suites::of(&offer);
    tell("preparing a directory at the server");
    let has_files = match no_commands {
        None => {
            let made = keeper.join().map_err(|_| Fault::Late("the directory was not made in time"))?;
            *directory = Some(made?);
            true
        }
        Some(no_commands) => {
            // A forced SFTP server keeps the command waiting that makes the directory: its thread ends by
            // itself.
            drop(keeper);
            // The command that it refused may have broken its connection.
            first.client.close();
            first = target.connect(&[])?;
            let (has_files, without) =
                directory_over_sftp(target, plan, &mut first, &no_commands, stop, directory)?;
            missing.extend(without);
            first.client.close();
            has_files
        }
    };
    if !runs_commands && has_files && !has_copier {
        missing.push("one file by cipher and MAC: lhscp is not beside this program".to_owned());
    }
    let suite = suites.of_quick_run(agreed);
    let Cells { all: cells, main } = if !runs_commands {
        let left = if has_files { LEFT_TO_LONG_SFTP_RUN } else { LEFT_TO_LONG_RUN_WITHOUT_FILES };
        missing.extend(plan.quick.then(|| left.to_owned()));
        over_sftp(setups, &clients, plan.quick.then_some(suite), has_files, &suites)
    } else if plan.quick {
        missing.push(LEFT_TO_LONG_RUN.to_owned());
        quick(setups, &clients, has_port, jump_host.is_some(), suite, &suites)
    } else {
        long(setups, &clients, has_port, jump_host.is_some(), &suites)
    };
    let slices = |cell: &Cell| match cell {
        Cell::Stream(..) | Cell::Tcp(_) | Cell::Open(_) | Cell::File(..) => 1,
        Cell::Child(_, job) => job.slices(),
        _ => 0,
    };
    // What a long run has time for after its main cells has none planned for it.
    let planned = if plan.quick || main == 0 { cells.len() } else { main };
    let transfers: u32 = cells.iter().take(planned).map(slices).sum();
    let share = limit.saturating_sub(begun.elapsed()).mul_f64(0.6) / ROUNDS / transfers.max(1);
    // A window needs round trips to open.
    let least = SLICES[0].max(Duration::from_secs_f64(10.0 * round_trip));
    let slice = share.clamp(least, SLICES[1].max(least));
    let here = Scratch::new(&plan.local_directory)?;
    let rate = match runs_commands {
        true => first.flow(Direction::Up, slice.min(Duration::from_secs(1))).rate,
        false => 0.0,
    };
    let there = directory.as_ref().map_or("", |directory| directory.path.as_str());
    let serial = Counter::new(0);
    let ends = begun + limit;
    let mut bench = Bench {
        plan,
        here: &here.0,
        there,
        slice,
        file_len: file_len(rate, slice),
        runs_commands,
        serial,
        far: far.as_ref(),
        jump_host: jump_host.as_ref(),
        ends,
    };
    let unwritable = |error| Fault::File { path: here.0.clone(), error };
    bench.prepare().map_err(unwritable)?;
    let login = login.min(MOST_LOGIN);
    if let Some(client) = clients.iter().find(|client| client.scp.is_some())
        && !runs_commands
        && has_files
    {
        bench.find_file_len(client, login, stop).map_err(unwritable)?;
    }
    let is_compared = |client: &Client| runs_commands || client.sftp.is_some();
    clients.retain(|client| !plan.peers.is_empty() && !plan.quick && is_compared(client));
    let mut run = Run {
        target,
        plan,
        slice,
        rows: Rows::default(),
        missing,
        agreed,
        clients,
        acceptor: None,
        remotes: HashMap::new(),
        counts: false,
    };
    // The server's processor time needs commands; it takes a login and two of them.
    if runs_commands && plan.quick && begun.elapsed() > limit.mul_f64(LATE_SET_UP) {
        run.missing.push("the server's processor time of logins: for lack of time".to_owned());
    } else if runs_commands {
        run.acceptor = acceptor(target, &mut first);
        let has_none = run.acceptor.is_none();
        run.missing.extend(has_none.then(|| NO_ACCEPTOR.to_owned()));
    }
    // A quick run copies no small files.
    if runs_commands
        && !plan.quick
        && let Err(why) = keep_small_files(&mut first, there)
    {
        run.missing.push(format!("small files at the server: {why}"));
    }
    if runs_commands && plan.quick && agreed.is_some() {
        // A quick run saves a login.
        run.remotes.insert(suite.name(), first);
    } else if !runs_commands && agreed.is_some() && !stop() {
        // The latency is that of a connection without a session before: some servers end a connection with
        // its last session.
        run.remotes.extend(target.connect(&[]).map(|remote| (suite.name(), remote)));
    } else if runs_commands {
        first.client.close();
    }
    let mut schedule = Schedule::new(limit, cells.iter().map(|cell| guess(cell, slice, login)));
    // The first round of a long run warms up.
    schedule.reserve(main, LEAST_ROUNDS + u32::from(!plan.quick));
    let has_lost_server = rounds(&mut run, &cells, &bench, &mut schedule, begun, stop, tell);
    let mut left_out: Vec<String> =
        schedule.left_out().into_iter().filter_map(|index| cells.get(index)).map(Cell::what).collect();
    left_out.dedup();
    if !left_out.is_empty() && !stop() && !has_lost_server {
        run.missing.push(format!("for lack of time: {}", left_out.join("; ")));
    }
    for (_, mut remote) in run.remotes.drain() {
        remote.client.close();
    }
    drop(far);
    run.rows.remove_empty();
    let counted = schedule.complete().saturating_sub(usize::from(!plan.quick));
    Ok(Results {
        host,
        server,
        time: String::new(),
        seconds: 0.0,
        limit: Some(TimeLimit::of(plan)),
        rounds: counted,
        rows: run.rows,
        missing: run.missing,
        leftover: None,
    })
}

/// Cells in a row that fail, after which a login tells whether the server is still there.
const FAILURES: usize = 3;

/// Measures cell after cell as the schedule has them. Returns whether it ended early because the server was
/// not reached any more.
fn rounds(
    run: &mut Run<'_>,
    cells: &[Cell],
    bench: &Bench<'_>,
    schedule: &mut Schedule,
    begun: Instant,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&str),
) -> bool {
    let mut failures = 0;
    let mut has_lost_server = false;
    while let Some(index) = schedule.next(begun.elapsed()) {
        let Some(cell) = cells.get(index).filter(|_| !stop()) else { break };
        // The first round of a long run warms up.
        run.counts = schedule.round() > 0 || run.plan.quick;
        let (round, step) = (schedule.round() + 1, schedule.step());
        tell(&format!("round {round}: {step} of {}: {}", cells.len(), cell.what()));
        let before = Instant::now();
        let done = run.cell(cell, bench);
        // The signal may have ended the client too, which is no failure then.
        if stop() {
            break;
        }
        // A disk is measured once: it takes seconds and wears out.
        let again = done.is_ok() && !matches!(cell, Cell::Disks);
        // A cipher alone needs no server.
        if !matches!(cell, Cell::Seal(_)) {
            failures = if done.is_ok() { 0 } else { failures + 1 };
        }
        if let Err(why) = done {
            run.miss(&why.to_string());
        }
        schedule.on_measured(index, before.elapsed(), again);
        if failures > 0 && failures % FAILURES == 0 && !matches!(cell, Cell::Seal(_)) {
            let why = run.target.connect(&[]).map(|mut remote| remote.client.close()).err();
            if let Some(why) = why.filter(|why| why.is_path && !stop()) {
                let seconds = begun.elapsed().as_secs();
                run.miss(&format!(
                    "all else, from second {seconds} on: the server was not reached any more: {}",
                    why.fault
                ));
                has_lost_server = true;
                break;
            }
        }
    }
    run.rows.use_warm_up();
    has_lost_server
}

/// Estimates the duration of a cell, on a path whose logins take `login`.
fn guess(cell: &Cell, slice: Duration, login: Duration) -> Duration {
    match cell {
        Cell::Latency => login + Duration::from_millis(200),
        Cell::Stream(..) | Cell::Tcp(_) | Cell::Open(_) => login + slice,
        Cell::File(..) => slice + login * 2,
        Cell::Seal(_) => SEAL,
        Cell::Setup(_) => LOGINS_TIME + LOGIN_ENDS + login,
        Cell::Child(_, job @ Job::Keystroke) => slice * job.slices() + login * 3 + Duration::from_millis(600),
        Cell::Child(_, job) => slice * job.slices() + login * 2,
        Cell::Disks => DISKS,
    }
}
