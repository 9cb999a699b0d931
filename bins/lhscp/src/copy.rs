//! The copies of a command line, each over the connections that it needs.

use std::ffi::OsStr;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Arc, Mutex};

use lh_client::LogLevel;
use lh_sys::threads;
use lh_terminal::TerminalUi;
use lh_transfer::{Direction, Job, Plan, Side, Summary};

use crate::command_line::{Arguments, HostAccess, Mode};
use crate::durable::INTERRUPTED;
use crate::inside::{
    Connection, NoConnection, ReusedConnection, announce_login, authenticate, await_login,
    connect_unauthenticated, limit_resumption, log_in, take_kept,
};
use crate::interrupt::JobSignals;
use crate::outcome::{FAILURE, NO_CONNECTION};
use crate::outputs::CopyEnd;
use crate::place::{Host, Place, bytes};
use crate::record::RunRecord;
use crate::retry::{Attempts, Next, locked};
use crate::show::{Show, conclude, say, say_failed_uploads};
use crate::steps::{Step, begin_outputs, steps};
use crate::{direct, durable, legacy, limits, pipes, resumption};

/// Copies everything and adds it to `record`; returns the exit status.
pub(crate) fn run(arguments: &Arguments, record: &mut RunRecord) -> u8 {
    arguments.warnings().iter().for_each(|warning| eprintln!("{warning}"));
    if arguments.needs_directory()
        // A target that is missing is made.
        && arguments.options.tree_sync.is_none()
        && let Place::Local(target) = &arguments.target
        && let Err(error) = check_directory(target)
    {
        let mut text = error.to_string();
        if arguments.sources.len() == 1 {
            text.push_str(lh_transfer::SHARDS_NEED_THE_TARGET);
        }
        say(&text);
        return FAILURE;
    }
    let steps = steps(arguments);
    let copied = |step: &Step| matches!(step, Step::Upload(_) | Step::Download(..));
    if arguments.retry_limit.is_unattended() && !steps.iter().all(copied) {
        say("--retry-for: only between this host and another");
        return FAILURE;
    }
    if let Err(error) = begin_outputs(arguments, &steps) {
        say(&error.to_string());
        return FAILURE;
    }
    let mut status = 0;
    let mut kept = None;
    for step in steps {
        arguments.outputs.copy_begins(step.local_end());
        let ended = match step {
            Step::Local(source) => copy_locally(arguments, &source),
            Step::Upload(sources) => {
                let Place::Remote { host, path } = &arguments.target else { continue };
                match arguments.mode {
                    Mode::Sftp => {
                        let upload = Direction::Upload;
                        one_remote(arguments, upload, host, sources, path.clone(), &mut kept, record)
                    }
                    Mode::Legacy => legacy::upload(arguments, sources, host, path, &mut kept, &record.seen),
                }
            }
            Step::Download(host, sources) => {
                let Place::Local(target) = &arguments.target else { continue };
                match arguments.mode {
                    Mode::Sftp => {
                        let download = Direction::Download;
                        one_remote(arguments, download, &host, sources, bytes(target), &mut kept, record)
                    }
                    Mode::Legacy => {
                        legacy::download(arguments, &host, &sources, target, &mut kept, &record.seen)
                    }
                }
            }
            Step::Relay(host, sources) => {
                let Place::Remote { host: target, path } = &arguments.target else { continue };
                match arguments.mode {
                    _ if arguments.direct => direct::run(arguments, &host, &sources, target, path),
                    Mode::Sftp => relay(arguments, &host, sources, target, path.clone(), record),
                    Mode::Legacy => legacy::relay(arguments, &host, &sources, target, path),
                }
            }
        };
        status = status.max(ended);
        record.next_copy();
        arguments.outputs.copy_ended(match ended {
            0 => CopyEnd::Complete,
            INTERRUPTED | NO_CONNECTION => CopyEnd::Stopped,
            _ => CopyEnd::Failed,
        });
        if ended == INTERRUPTED {
            // A signal is about the whole command, and says more than what failed before.
            status = ended;
            break;
        }
    }
    if let Some((_, mut client)) = kept {
        client.close();
    }
    status
}

/// The target is no directory.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", lh_transfer::display_name(.target), lh_sys::errno_text(.error))]
struct NoDirectory {
    target: Vec<u8>,
    error: std::io::Error,
}

fn check_directory(target: &OsStr) -> Result<(), NoDirectory> {
    let error = match std::fs::metadata(target) {
        Ok(meta) if meta.is_dir() => return Ok(()),
        Ok(_) => rustix::io::Errno::NOTDIR.into(),
        Err(error) => error,
    };
    Err(NoDirectory { target: bytes(target), error })
}

/// Copies by cp(1), like `scp`.
fn copy_locally(arguments: &Arguments, source: &OsStr) -> u8 {
    let Place::Local(target) = &arguments.target else { return FAILURE };
    let mut command = Command::new("cp");
    if arguments.options.recursive {
        command.arg("-r");
    }
    if arguments.options.preserve {
        command.arg("-p");
    }
    let keep = arguments.options.keep;
    for (flag, wanted) in [
        ("--no-dereference", keep.links),
        ("--preserve=links", keep.hard_links),
        ("--preserve=xattr", keep.xattrs || keep.acls),
        ("--preserve=ownership", keep.owner || keep.group),
        ("--sparse=always", keep.sparse),
    ] {
        if wanted {
            command.arg(flag);
        }
    }
    match command.arg("--").arg(source).arg(target).status() {
        Ok(status) if status.success() => 0,
        Ok(_) => FAILURE,
        Err(error) => {
            say(&format!("cp: {error}"));
            FAILURE
        }
    }
}

/// Upload or download. The connection stays in `kept` for the next step with the same host.
fn one_remote(
    arguments: &Arguments,
    direction: Direction,
    host: &Host,
    sources: Vec<Vec<u8>>,
    target: Vec<u8>,
    kept: &mut ReusedConnection,
    record: &mut RunRecord,
) -> u8 {
    let plan = Plan { direction, sources, target, target_must_be_dir: arguments.needs_directory() };
    if arguments.via != HostAccess::Inside {
        return exit_status(pipes::copy(arguments, plan, &[host], record));
    }
    let side = if direction == Direction::Upload { Side::Target } else { Side::Source };
    let channels = arguments.options.limits.channels;
    let mut ui = TerminalUi::default();
    let mut client = match take_kept(host, kept) {
        Some(client) => Ok(client),
        None => connect_unauthenticated(&arguments.request(host), &mut ui),
    };
    let unattended = arguments.retry_limit.is_unattended();
    let waits = |why| unattended && why == NoConnection::Unreachable;
    if client.as_ref().is_err_and(|&why| !waits(why)) {
        return NO_CONNECTION;
    }
    let mut first = true;
    // A server that never spoke SFTP will not do so at the next attempt: only what has begun is taken up
    // again.
    let mut has_begun = false;
    let attempts = Arc::new(Mutex::new(Attempts::new(arguments.retry_limit, arguments.messages.json)));
    let journal = durable::options(arguments, &plan, &[host]).placing.journal;
    loop {
        let job = match new_job(plan.clone(), arguments, &[host], record) {
            Ok(job) => job,
            Err(status) => return status,
        };
        if let Ok(connection) = &mut client {
            // The copy's first requests go out together with the login.
            connection.open(&job, side, channels, &mut ui);
            if let Err(why) = authenticate(connection, &mut ui) {
                client = Err(why);
                if first && !waits(why) {
                    job.forget();
                    return NO_CONNECTION;
                }
            }
        }
        first = false;
        let mut caught = None;
        // Whether another attempt may do better.
        let (summary, may_go_on) = match client {
            Ok(mut client) => {
                locked(&attempts).begin_job();
                resumption::limit(&mut client, Arc::clone(&attempts), Some(&job), arguments);
                caught = Some(JobSignals::begin(&job, arguments, journal.clone(), record));
                // Logins, earlier attempts and the pauses between them are not what limits this one.
                let start = limits::Start::now();
                let is_usable = client.carry_out(&job, side, channels, &mut ui);
                let hung = job.has_given_up(side);
                if hung {
                    locked(&attempts).on_silent();
                }
                has_begun |= job.has_begun(side);
                // The server's program was killed, say: another login starts another one.
                let server_ended = has_begun && job.has_lost_server();
                let good = is_usable && !hung && !server_ended;
                let path = limits::Path::of(client.driver().link().stream().write_fd());
                let verdict = start.verdict(&measured(arguments, direction, &job), &path);
                conclude(arguments, &start, &job.summary(), verdict, record);
                let died = unattended && client.has_died();
                let shows_errors = client.shows(LogLevel::Error);
                // Otherwise the server would take its end for a break, and keep the session for a while.
                if !good && !client.has_died() {
                    client.close_early();
                }
                *kept = good.then(|| (host.clone(), client));
                if shows_errors && !has_begun && !died && !hung && !job.is_stopped() {
                    say(&format!(
                        "no SFTP server answered on {}; where it has none, -O copies by scp's old protocol",
                        lh_client::sanitise(&host.name)
                    ));
                }
                if good {
                    caught.into_iter().for_each(JobSignals::end);
                    // A journal that notes nothing is removed: there may have been no server.
                    job.forget();
                    say_failed_uploads(arguments, &plan, &job.summary(), &job.failed_sources());
                    return exit_status(job.summary());
                }
                let retries_hung = hung && arguments.retry_limit.retries_silent_servers();
                (job.summary(), has_begun || died || retries_hung)
            }
            Err(why) => {
                let lost = Summary { lost: true, ..Summary::default() };
                (lost, why == NoConnection::Unreachable && (has_begun || unattended))
            }
        };
        let stopped = job.is_stopped();
        job.forget();
        // Its journal is the next one's. Its end closes files, perhaps of a file system that does not answer.
        caught.iter().for_each(JobSignals::release_job);
        drop(job);
        caught.into_iter().for_each(JobSignals::end);
        let goes_on = summary.lost && may_go_on && arguments.can_log_in_again();
        let next = match (stopped, goes_on) {
            (true, _) => Next::Interrupted,
            (false, true) => Attempts::again(&attempts, &summary),
            (false, false) => Next::GiveUp,
        };
        match next {
            Next::Again => {}
            Next::GiveUp => {
                if summary.lost {
                    durable::tell_left(journal.as_deref());
                }
                return exit_status(summary);
            }
            Next::Interrupted => {
                durable::tell_interrupted(arguments.can_log_in_again(), Some(&summary));
                durable::tell_left(journal.as_deref());
                return INTERRUPTED;
            }
        }
        arguments.outputs.retry();
        client = connect_unauthenticated(&arguments.request_again(host), &mut ui);
    }
}

/// Logs in to one end of a relay, and opens the copy's channel there, which may be what needs a login.
fn log_in_to_end(
    arguments: &Arguments,
    host: &Host,
    job: &Job,
    side: Side,
    ui: &mut TerminalUi,
) -> Option<Connection> {
    let mut connection = log_in(arguments, host, ui)?;
    let was_shared = connection.is_relayed();
    connection.open(job, side, Some(1), ui);
    authenticate(&mut connection, ui).ok()?;
    if was_shared {
        limit_resumption(&mut connection, arguments);
    }
    Some(connection)
}

/// Remote to remote through this host: one connection here, the other on a thread of its own.
fn relay(
    arguments: &Arguments,
    source: &Host,
    sources: Vec<Vec<u8>>,
    target: &Host,
    target_path: Vec<u8>,
    record: &mut RunRecord,
) -> u8 {
    let plan = Plan {
        direction: Direction::Relay,
        sources,
        target: target_path,
        target_must_be_dir: arguments.needs_directory(),
    };
    if arguments.via != HostAccess::Inside {
        return exit_status(pipes::copy(arguments, plan, &[source, target], record));
    }
    let job = match new_job(plan, arguments, &[source, target], record) {
        Ok(job) => job,
        Err(status) => return status,
    };
    let (announces, awaits) = match UnixStream::pair() {
        Ok(pair) => pair,
        Err(error) => {
            say(&lh_sys::errno_text(&error));
            job.forget();
            return FAILURE;
        }
    };
    let mut ui = TerminalUi::default();
    let Some(mut client) = log_in_to_end(arguments, source, &job, Side::Source, &mut ui) else {
        job.forget();
        return NO_CONNECTION;
    };
    let (start, status) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            // Only one of the two may ask for a password at a time: this one starts when the other is done.
            let mut ui = TerminalUi::default();
            let client = log_in_to_end(arguments, target, &job, Side::Target, &mut ui);
            announce_login(announces, client.is_some());
            let before = threads::own_cpu();
            if let Some(mut client) = client {
                client.carry_out(&job, Side::Target, Some(1), &mut ui);
                client.close();
            }
            threads::own_cpu().saturating_sub(before)
        });
        let both = await_login(&mut client, awaits);
        let mut start = limits::Start::now();
        if !both {
            return (start, NO_CONNECTION);
        }
        client.carry_out(&job, Side::Source, Some(1), &mut ui);
        start.thread_ended(other.join().unwrap_or_default());
        (start, 0)
    });
    let path = limits::Path::of(client.driver().link().stream().write_fd());
    let verdict = start.verdict(&measured(arguments, Direction::Relay, &job), &path);
    conclude(arguments, &start, &job.summary(), verdict, record);
    client.close();
    job.forget();
    if status == 0 { exit_status(job.summary()) } else { status }
}

/// Returns the measurements that the verdict about a copy uses.
fn measured(arguments: &Arguments, direction: Direction, job: &Job) -> limits::Copy {
    let rate_limit = arguments.rate_limit();
    limits::Copy { direction, rate_limit, bytes: job.summary().bytes, waits: job.waits() }
}

fn new_job(plan: Plan, arguments: &Arguments, hosts: &[&Host], record: &RunRecord) -> Result<Job, u8> {
    let show = Box::new(Show::new(arguments, record.seen.clone()));
    let options = durable::options(arguments, &plan, hosts);
    Job::new(plan, options, show).map_err(|error| {
        say(&error.to_string());
        FAILURE
    })
}

const fn exit_status(summary: Summary) -> u8 {
    match summary {
        Summary { lost: true, .. } => NO_CONNECTION,
        Summary { failures: 0, .. } => 0,
        _ => FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_that_is_no_directory_is_refused() {
        let directory = |target: &str| check_directory(target.as_ref()).unwrap_err().to_string();
        assert_eq!(directory("/dev/null"), "/dev/null: Not a directory");
        assert_eq!(directory("/nosuch"), "/nosuch: No such file or directory");
    }
}
