//! From flags to places, options of the copy, and requests for a configuration.

mod copy_flags;
mod mode;
mod remote;
#[cfg(test)]
mod tests;

use std::ffi::OsString;

use lh_cli::copying::{Connecting, channels};
use lh_cli::flags::{Parsed, SCP, Stop};
use lh_config::Account;
use lh_config::client::{CommandLine, Request};
use lh_transfer::Options;

use crate::outcome::{FAILURE, LOST, NO_CONNECTION};
use crate::outputs::Outputs;
use crate::place::{Host, Place, PlaceError};
use crate::retry_limit::RetryLimit;
use copy_flags::{
    check_keep, check_sync, copy_options, outputs, pace, retry_limit, selection, tree_sync, tune,
};
pub(crate) use mode::Mode;
use mode::{last_of, mode};
pub(crate) use remote::{Direction, RefusedArguments, RemoteArguments};

/// How hosts are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostAccess {
    /// By this process.
    Inside,
    /// `-S`: by a program that takes the arguments of ssh(1).
    Program(OsString),
    /// `-D`: not at all. This SFTP server runs here.
    Server(OsString),
}

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) sources: Vec<Place>,
    pub(crate) target: Place,
    pub(crate) options: Options,
    /// Whether an interrupted copy can be resumed: not with `--no-resume`.
    pub(crate) resume: bool,
    /// `--pace`: bytes per second.
    pub(crate) pace: Option<u64>,
    /// `--retries` or `--retry-for`.
    pub(crate) retry_limit: RetryLimit,
    /// `--manifest-out` and `--failed-out`.
    pub(crate) outputs: Outputs,
    pub(crate) messages: Messages,
    pub(crate) mode: Mode,
    pub(crate) via: HostAccess,
    /// `-R`: the first of two remote hosts copies to the second by itself.
    pub(crate) direct: bool,
    /// `-T`: accept all names, including those that were not requested.
    pub(crate) unchecked_names: bool,
    pub(crate) login: LoginSettings,
}

/// What is printed during the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Messages {
    /// `--json`.
    pub(crate) json: bool,
    /// `-q`.
    pub(crate) quiet: bool,
    /// How many `-v`.
    pub(crate) verbose: usize,
}

/// How to connect and log in to each host.
#[derive(Debug)]
pub(crate) struct LoginSettings {
    /// The flags that a program like ssh(1) is to be given too.
    pub(crate) ssh_words: Vec<OsString>,
    /// `-P`.
    pub(crate) port: Option<u16>,
    connecting: Connecting,
    account: Account,
}

/// Makes sense of a parsed command line.
///
/// # Errors
/// What to print and the exit status.
pub(crate) fn interpret(parsed: &Parsed, account: Account) -> Result<Arguments, Stop> {
    let places = parsed
        .operands
        .iter()
        .map(|word| Place::parse(word))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| no_place(&error, mode(parsed)))?;
    let mut sources = places;
    let target = match sources.pop() {
        Some(target) if !sources.is_empty() => target,
        _ => {
            return Err(Stop { out: String::new(), err: SCP.usage(), status: SCP.usage_status });
        }
    };
    let mut options = copy_options(parsed);
    options.select = selection(parsed)?;
    options.tree_sync = tree_sync(parsed)?;
    if let Some(limit) = parsed.text('l') {
        let kilobits: u64 = limit
            .parse()
            .ok()
            .filter(|kilobits| (1..=100 * 1024 * 1024).contains(kilobits))
            .ok_or_else(|| SCP.usage_error(&format!("invalid limit \"{limit}\"")))?;
        options.limits.bits_per_second = Some(kilobits * 1024);
    }
    options.limits.channels = channels(parsed).map_err(|error| SCP.usage_error(&error.to_string()))?;
    let port = match parsed.text('P') {
        Some(text) => Some(
            lh_client::destination::parse_port(&text)
                // OpenSSH's status here.
                .ok_or_else(|| Stop {
                    status: NO_CONNECTION,
                    ..SCP.error(&format!("bad port \"{text}\""))
                })?,
        ),
        None => None,
    };
    let server = parsed.value('D').map(|path| HostAccess::Server(path.to_owned()));
    let program = parsed.value('S').map(|path| HostAccess::Program(path.to_owned()));
    for option in parsed.values('X') {
        tune(&mut options, &option.to_string_lossy())
            .map_err(|error| Stop { status: NO_CONNECTION, ..SCP.error(&error.to_string()) })?;
    }
    let direct = last_of(parsed, "3R") == Some('R');
    check_keep(mode(parsed)?, direct, &options)?;
    let outputs = outputs(parsed)?;
    options.reporting.sums = outputs.sums();
    options.reporting.missed = outputs.list_failed();
    if options.tree_sync.is_some() {
        check_sync(mode(parsed)?, direct, &sources, &target)?;
    }
    Ok(Arguments {
        sources,
        target,
        options,
        resume: !parsed.has_long("no-resume"),
        pace: pace(parsed)?,
        retry_limit: retry_limit(parsed, mode(parsed)?)?,
        outputs,
        messages: Messages {
            json: parsed.has_long("json"),
            quiet: parsed.has('q'),
            verbose: parsed.count('v'),
        },
        mode: mode(parsed)?,
        via: server.or(program).unwrap_or(HostAccess::Inside),
        direct,
        unchecked_names: parsed.has('T'),
        login: LoginSettings {
            ssh_words: ssh_words(parsed),
            port,
            connecting: Connecting::new(parsed, 'B', &account),
            account,
        },
    })
}

/// OpenSSH's words and status: a bad login is a connection that fails, which the old protocol reports with
/// status 1.
fn no_place(error: &PlaceError, mode: Result<Mode, Stop>) -> Stop {
    match error {
        PlaceError::Uri(_) => Stop { out: String::new(), err: format!("{error}\n"), status: FAILURE },
        PlaceError::Login(_) => {
            if matches!(mode, Ok(Mode::Legacy)) {
                return Stop { out: String::new(), err: format!("{error}\n{LOST}\n"), status: FAILURE };
            }
            let mut stop = SCP.error("Connection closed");
            stop.err.insert_str(0, &format!("{error}\n"));
            stop.status = NO_CONNECTION;
            stop
        }
    }
}

/// Flags that mean the same to ssh(1).
fn ssh_words(parsed: &Parsed) -> Vec<OsString> {
    let mut words = Vec::new();
    for (flag, value) in &parsed.flags {
        match flag {
            '4' | '6' | 'A' | 'C' | 'q' | 'v' => words.push(format!("-{flag}").into()),
            'B' => words.push("-oBatchMode=yes".into()),
            'c' | 'F' | 'i' | 'J' | 'o' => {
                words.push(format!("-{flag}").into());
                words.extend(value.clone());
            }
            _ => {}
        }
    }
    words
}

impl Arguments {
    /// Returns whether the copy logs in again when its session has ended. It must be between this host and
    /// one other, with part files and a journal: without them there is nothing to resume.
    pub(crate) const fn can_log_in_again(&self) -> bool {
        self.resume && self.options.placing.atomic
    }

    /// The target must be a directory: there are several sources, a share of one, or a copy that is repeated.
    /// A share that made the target would change what the command means to the next share. `tree/.` means the
    /// same in both cases.
    pub(crate) fn needs_directory(&self) -> bool {
        match self.sources.as_slice() {
            [source] => {
                self.options.tree_sync.is_some()
                    || self.options.select.shard.is_some() && !source.is_contents()
            }
            _ => true,
        }
    }

    /// Returns the requested rate limit, bytes/s: the lower one of `-l` and `--pace`.
    pub(crate) fn rate_limit(&self) -> Option<u64> {
        let limit = self.options.limits.bits_per_second.map(|bits| bits / 8);
        limit.into_iter().chain(self.pace).min()
    }

    /// Warnings about the flags. A program of `-S` prints its own.
    pub(crate) fn warnings(&self) -> &[String] {
        if self.via == HostAccess::Inside { &self.login.connecting.warnings } else { &[] }
    }

    /// The request for the configuration of `host`, for connecting again: without prompts.
    pub(crate) fn request_again(&self, host: &Host) -> Request {
        let mut request = self.request(host);
        request.command_line.insert(0, CommandLine::Flag("BatchMode", vec!["yes".to_owned()]));
        request
    }

    /// The request for the configuration of `host`.
    pub(crate) fn request(&self, host: &Host) -> Request {
        let (port, user) = (host.port, host.user.as_deref());
        let mut request = self.login.connecting.request(&host.name, port, user, self.login.account.clone());
        if let Some(bytes) = self.pace {
            let rate = bytes.saturating_mul(8).to_string();
            request.command_line.insert(0, CommandLine::Flag("TcpPacing", vec![rate]));
        }
        request.rate_limit = self.rate_limit();
        request
    }
}
