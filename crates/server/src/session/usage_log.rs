//! The monitor's side of the log of transfers and of the counters: writes the reports of the user session
//! process, together with what the monitor knows itself.

use std::fs::File;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::common::Address;
use crate::counters::{Counter, Counters};
use crate::exit_status::{
    EXIT_AUTH_ATTEMPTED, EXIT_CRASH, EXIT_GRACE, EXIT_GRACE_ATTEMPTED, EXIT_GRACE_LOGIN_BEGUN,
    EXIT_INVALID_USER, EXIT_REFUSED,
};
use crate::hosts::shown_ip;
use crate::log::error;
use crate::log_budget::LogBudget;
use crate::monitor::{ClientIdentity, Monitor};
use crate::transfer_log::{Record, TransferLog};
use crate::usage::{ConnectionUsage, FileOperation, Kind, Outcome, Transfer};
use lh_config::accounting::{RecordRate, TransferLogRate};
use lh_config::server_table::ServerSettings;

/// The usage of one connection.
pub(super) struct UsageLog<'a> {
    log: Option<TransferLog>,
    /// The records of transfers that may still be written, where `TransferLogRate` is set.
    budget: Option<LogBudget>,
    /// The listener exports counters (`PrometheusListen`).
    exports: bool,
    address: &'a Address,
    /// Identifier of the connection in all logs.
    session: &'a str,
    began: Instant,
    who: ClientIdentity,
    authenticated: bool,
    usage: ConnectionUsage,
    files: u64,
    counters: Counters,
    /// The first error of the log has been reported.
    complained: bool,
}

impl<'a> UsageLog<'a> {
    pub(super) fn new(settings: &ServerSettings, address: &'a Address, session: &'a str) -> Self {
        Self {
            log: TransferLog::new(settings),
            budget: None,
            exports: settings.prometheus_listen.value.0.is_some(),
            address,
            session,
            began: Instant::now(),
            who: ClientIdentity::default(),
            authenticated: false,
            usage: ConnectionUsage::default(),
            files: 0,
            counters: Counters::default(),
            complained: false,
        }
    }

    /// Returns the identifier of the connection in all logs.
    pub(super) const fn session(&self) -> &'a str {
        self.session
    }

    /// Records a complete login, before the session starts. `rate` limits the records of its transfers.
    pub(super) fn logged_in(&mut self, who: ClientIdentity, rate: TransferLogRate) {
        self.who = who;
        self.authenticated = true;
        self.budget =
            rate.0.map(|RecordRate { records, period }| LogBudget::new(records.into(), period / records));
    }

    /// Stores the connection's statistics and reports to the listener.
    pub(super) fn usage(&mut self, usage: ConnectionUsage, control: &File) {
        self.usage = usage;
        self.report(control);
    }

    /// Writes the record of a file or a command that has ended.
    pub(super) fn transfer(&mut self, transfer: &Transfer, control: &File) {
        let Transfer { kind, path, upload, bytes_in, bytes_out, start, micros, outcome } = transfer;
        let direction = if *upload { "upload" } else { "download" };
        let complete = *outcome == Outcome::Complete;
        let path = String::from_utf8_lossy(path);
        let record = if let Kind::Sftp | Kind::Scp = kind {
            let protocol = if *kind == Kind::Sftp { "sftp" } else { "scp" };
            let bytes = bytes_in.saturating_add(*bytes_out);
            self.files += 1;
            self.counters.add(
                match (*upload, complete) {
                    (true, true) => Counter::UploadsComplete,
                    (true, false) => Counter::UploadsFailed,
                    (false, true) => Counter::DownloadsComplete,
                    (false, false) => Counter::DownloadsFailed,
                },
                1,
            );
            self.counters.add(Counter::UploadBytes, *bytes_in);
            self.counters.add(Counter::DownloadBytes, *bytes_out);
            let record = self.about("file").text("protocol", protocol).text("path", &path);
            let record = record.text("direction", direction).number("bytes", bytes).number("start", *start);
            with_average(record.seconds("duration", *micros), "average", bytes, *micros)
        } else {
            self.counters.add(Counter::Commands, 1);
            let record = match legacy_scp(&path) {
                Some((direction, path)) => self
                    .about("command")
                    .text("protocol", "scp")
                    .text("path", path)
                    .text("direction", direction),
                None => self.about("command").text("command", &path),
            };
            let record = record.number("bytes_in", *bytes_in).number("bytes_out", *bytes_out);
            let record = record.seconds("duration", *micros);
            let record = with_average(record, "average_in", *bytes_in, *micros);
            with_average(record, "average_out", *bytes_out, *micros)
        };
        self.write_at_rate(&with_outcome(record, outcome));
        self.report(control);
    }

    /// Writes the record of an SFTP request that changed something, or was denied.
    pub(super) fn operation(&mut self, operation: &FileOperation) {
        let FileOperation { request, path, other, attributes, outcome } = operation;
        let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        let record = self
            .about("operation")
            .text("protocol", "sftp")
            .text("operation", request)
            .text("path", &text(path))
            .text(
                if request == "symlink" { "target" } else { "new_path" },
                &other.as_deref().map(text).unwrap_or_default(),
            )
            .text("attributes", attributes);
        self.write_at_rate(&with_outcome(record, outcome));
    }

    /// Writes the record of the connection, which has ended with this exit status.
    pub(super) fn close(&mut self, status: i32, monitor: &Monitor, control: &File) {
        if !self.authenticated {
            self.who = monitor.who();
        }
        self.counters.add(Counter::FailedAttempts, monitor.failures().into());
        let outcome = match status {
            _ if self.authenticated && !self.usage.end.is_empty() => self.usage.end.as_str(),
            // The process that could have reported a reason was killed.
            _ if self.authenticated => "ended",
            EXIT_GRACE | EXIT_GRACE_ATTEMPTED | EXIT_GRACE_LOGIN_BEGUN => "login timeout",
            EXIT_AUTH_ATTEMPTED => "not authenticated",
            EXIT_INVALID_USER => "invalid user",
            EXIT_REFUSED => "refused",
            EXIT_CRASH => "crashed before authentication",
            _ => "closed before authentication",
        };
        let micros = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let ConnectionUsage {
            client,
            kex,
            cipher,
            mac,
            compression,
            bytes_in,
            bytes_out,
            peak_in,
            peak_out,
            rekeys,
            ..
        } = &self.usage;
        let (average_in, average_out) = (per_second(*bytes_in, micros), per_second(*bytes_out, micros));
        let record = self
            .about("connection")
            .text("local", &shown_ip(self.address.local).to_string())
            .number("local_port", self.address.local.port().into())
            .text("method", &self.who.method)
            .text("key", &self.who.key)
            .number("failed_attempts", monitor.failures().into())
            .text("client", client)
            .text("kex", kex)
            .text("cipher", cipher)
            .text("mac", mac)
            .text("compression", compression)
            .number("bytes_in", *bytes_in)
            .number("bytes_out", *bytes_out)
            .seconds("duration", micros)
            .number("average_in", average_in)
            .number("average_out", average_out)
            // The measured peaks are zero for transfers shorter than a second; the average replaces them.
            .number("peak_in", (*peak_in).max(average_in))
            .number("peak_out", (*peak_out).max(average_out))
            .number("rekeys", *rekeys)
            .number("files", self.files)
            .text("outcome", outcome);
        let left_out = self.budget.as_mut().map_or(0, LogBudget::take_left_out);
        self.write_left_out(left_out);
        self.write(&record);
        self.report(control);
    }

    /// Returns a record with the fields that all records begin with.
    fn about(&self, event: &'static str) -> Record {
        Record::new(event)
            .number("pid", std::process::id().into())
            .text("session", self.session)
            .text("user", &self.who.user)
            .text("remote", &shown_ip(self.address.peer).to_string())
            .number("port", self.address.peer.port().into())
    }

    /// Writes a record, or counts it where `TransferLogRate` permits no more.
    fn write_at_rate(&mut self, record: &Record) {
        let permitted = self.budget.as_mut().map_or(Some(0), |budget| budget.spend(Instant::now()));
        if let Some(left_out) = permitted {
            self.write_left_out(left_out);
            self.write(record);
        }
    }

    /// Records how many records `TransferLogRate` has left out since the last one.
    fn write_left_out(&mut self, records: u64) {
        if records > 0 {
            self.write(&self.about("left_out").number("records", records));
        }
    }

    fn write(&mut self, record: &Record) {
        let Some(log) = &self.log else { return };
        if let Err(problem) = log.write(record) {
            self.counters.add(Counter::LogErrors, 1);
            if !std::mem::replace(&mut self.complained, true) {
                error!(self.address.log, "TransferLog: {problem}");
            }
        }
    }

    /// Reports to the listener without blocking. A lost report does no harm: the next one has all totals
    /// again.
    fn report(&mut self, control: &File) {
        if !self.exports {
            return;
        }
        self.counters.set(Counter::BytesIn, self.usage.bytes_in);
        self.counters.set(Counter::BytesOut, self.usage.bytes_out);
        self.counters.set(Counter::Rekeys, self.usage.rekeys);
        let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
        let _ = rustix::net::send(control.as_fd(), &self.counters.report(), flags);
    }
}

fn with_outcome(record: Record, outcome: &Outcome) -> Record {
    match outcome {
        Outcome::Complete => record.text("outcome", "complete"),
        Outcome::Abandoned => record.text("outcome", "abandoned"),
        Outcome::Rejected => record.text("outcome", "rejected"),
        Outcome::Failed(why) => record.text("outcome", "failed").text("reason", why),
    }
}

/// Shortest time for which a rate is logged, microseconds. Durations are logged in milliseconds, and for a
/// few bytes they consist of the system calls around them.
const LEAST_MICROS: u64 = 1000;

fn with_average(record: Record, name: &'static str, bytes: u64, micros: u64) -> Record {
    if micros < LEAST_MICROS { record } else { record.number(name, per_second(bytes, micros)) }
}

fn per_second(bytes: u64, micros: u64) -> u64 {
    lh_metrics::rate(bytes, Duration::from_micros(micros))
}

/// Returns direction and path of a command that is a remote `scp`: `scp [flags] -t path` or `-f path`.
pub(super) fn legacy_scp(command: &str) -> Option<(&'static str, &str)> {
    let (program, mut rest) = command.split_once(' ')?;
    if !matches!(program.rsplit('/').next()?, "scp" | "lhscp" | "hpnscp") {
        return None;
    }
    let mut direction = None;
    while let Some(flags) = rest.trim_start().strip_prefix('-') {
        let (flags, after) = flags.split_once(' ')?;
        rest = after;
        match flags {
            "-" => break,
            flags if flags.contains('t') => direction = Some("upload"),
            flags if flags.contains('f') => direction = Some("download"),
            _ => {}
        }
    }
    Some((direction?, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_too_short_to_log_give_no_rate() {
        let record = || Record::new("file");
        assert_eq!(with_average(record(), "average", 2, 0), record());
        assert_eq!(with_average(record(), "average", 2, 999), record());
        assert_eq!(with_average(record(), "average", 2, 1000), record().number("average", 2000));
    }

    #[test]
    fn a_remote_scp_is_known_by_its_flags() {
        assert_eq!(legacy_scp("scp -r -t -- /a b"), Some(("upload", "/a b")));
        assert_eq!(legacy_scp("/usr/bin/scp -pf /a"), Some(("download", "/a")));
        assert_eq!(legacy_scp("scp a b"), None);
        assert_eq!(legacy_scp("rsync --server -t"), None);
        assert_eq!(legacy_scp("scp -t"), None);
    }
}
