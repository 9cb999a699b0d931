//! Settings and results of a run.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::conclude;
use super::row::{Row, Rows, VERSION, one_line};
use crate::fault::NoResults;

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Time of the run, from the connection to the removal of its files.
    pub time: Duration,
    /// A run of seconds: fewer algorithms.
    pub quick: bool,
    /// Other clients: their names and their `ssh`; `scp` and `sftp` are looked for beside it.
    pub peers: Vec<(String, PathBuf)>,
    /// Words for the command lines of clients, for the connection.
    pub client_words: Vec<String>,
    /// The host, as on the command line of clients.
    pub destination: String,
    /// Directory for files of this machine.
    pub local_directory: PathBuf,
    /// A port of the server that TCP alone may use.
    pub tcp_port: Option<u16>,
    /// Directory for files at the server.
    pub remote_directory: String,
}

/// The time that a run had.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TimeLimit {
    pub(crate) seconds: f64,
    /// A run of `--quick`, which is about fewer algorithms.
    pub(crate) is_quick: bool,
}

impl TimeLimit {
    /// The limit of this plan.
    pub(super) const fn of(plan: &Plan) -> Self {
        Self { seconds: plan.time.as_secs_f64(), is_quick: plan.quick }
    }
}

/// The results of a run.
#[derive(Debug)]
pub struct Results {
    pub(crate) host: String,
    pub(crate) server: String,
    pub(crate) time: String,
    pub(crate) seconds: f64,
    /// `None` in the results of versions that did not record it.
    pub(crate) limit: Option<TimeLimit>,
    pub(crate) rounds: usize,
    pub(crate) rows: Rows,
    pub(crate) missing: Vec<String>,
    pub(crate) leftover: Option<String>,
}

impl Results {
    /// What the run could not remove at the server, and why; it is in the list of what is missing too.
    pub fn leftover(&self) -> Option<&str> {
        self.leftover.as_deref()
    }

    /// Number of rounds, for people.
    fn rounds_in_words(&self) -> String {
        match self.rounds {
            0 => "less than a round".to_owned(),
            1 => "1 round".to_owned(),
            more => format!("{more} rounds"),
        }
    }

    /// Rounds and time of the run, and the time that it had, for people.
    pub(super) fn extent_in_words(&self) -> String {
        let taken = format!("{} in {:.0} s", self.rounds_in_words(), self.seconds);
        match self.limit {
            Some(TimeLimit { seconds, is_quick: true }) => format!("{taken} (--quick: {seconds:.0} s)"),
            Some(TimeLimit { seconds, is_quick: false }) => format!("{taken} of {seconds:.0} s"),
            None => taken,
        }
    }

    /// Output of `--json` when nothing was measured.
    pub fn failure(host: &str, why: &str) -> Value {
        json!({ "longhaul_bench": VERSION, "host": host, "error": why })
    }

    /// The data; docs/metrics.md has the members.
    pub fn json(&self) -> Value {
        json!({
            "longhaul_bench": VERSION,
            "host": self.host,
            "server": self.server,
            "client": concat!("Longhaul ", env!("CARGO_PKG_VERSION")),
            "cores": std::thread::available_parallelism().map_or(1, usize::from),
            "time": self.time,
            "seconds": self.seconds,
            "quick": self.limit.map(|limit| limit.is_quick),
            "time_limit_seconds": self.limit.map(|limit| limit.seconds),
            "rounds": self.rounds,
            "rows": self.rows.0.iter().map(Row::json).collect::<Vec<_>>(),
            "comparisons": conclude::contests(&self.rows).iter().map(conclude::Contest::json).collect::<Vec<_>>(),
            "conclusions": conclude::conclusions(&self.rows),
            "missing": self.missing,
            "leftover": self.leftover,
        })
    }

    /// Reads what [`json`](Self::json) has written.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(value: &Value) -> Result<Self, NoResults> {
        let version = value.get("longhaul_bench").and_then(Value::as_u64);
        let found = version.ok_or(NoResults::Member("version"))?;
        if found != VERSION {
            return Err(NoResults::Version { found, known: VERSION });
        }
        if let Some(why) = value.get("error").and_then(Value::as_str) {
            return Err(NoResults::Failed(lh_client::sanitise(why)));
        }
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let text = |name: &str| one_line(text(name));
        let rows = value.get("rows").and_then(Value::as_array).ok_or(NoResults::Member("rows"))?;
        // A row with a unit of a later version is passed over.
        let rows = Rows(rows.iter().filter_map(Row::from_json).collect());
        let missing = value.get("missing").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        Ok(Self {
            host: text("host"),
            server: text("server"),
            time: text("time"),
            seconds: value.get("seconds").and_then(Value::as_f64).unwrap_or(0.0),
            limit: value.get("time_limit_seconds").and_then(Value::as_f64).and_then(|seconds| {
                Some(TimeLimit { seconds, is_quick: value.get("quick").and_then(Value::as_bool)? })
            }),
            rounds: value.get("rounds").and_then(Value::as_u64).unwrap_or(0) as usize,
            rows,
            missing: missing.iter().filter_map(Value::as_str).map(one_line).collect(),
            leftover: value.get("leftover").and_then(Value::as_str).map(one_line),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(limit: Option<TimeLimit>) -> Results {
        Results {
            host: "h".to_owned(),
            server: String::new(),
            time: String::new(),
            seconds: 18.6,
            limit,
            rounds: 3,
            rows: Rows(Vec::new()),
            missing: Vec::new(),
            leftover: None,
        }
    }

    #[test]
    fn time_of_a_run_is_kept_with_its_results() {
        let quick = TimeLimit { seconds: 20.0, is_quick: true };
        let value = results(Some(quick)).json();
        assert_eq!((&value["quick"], &value["time_limit_seconds"]), (&json!(true), &json!(20.0)));
        assert_eq!(Results::from_json(&value).unwrap().limit, Some(quick));
        let words = |limit| results(limit).extent_in_words();
        assert_eq!(words(Some(quick)), "3 rounds in 19 s (--quick: 20 s)");
        assert_eq!(words(Some(TimeLimit { seconds: 600.0, is_quick: false })), "3 rounds in 19 s of 600 s");
        for page in [super::super::page(&[results(Some(quick))]), super::super::text(&results(Some(quick)))] {
            assert!(page.contains("--quick: 20"), "{page}");
        }
        // Versions before did not record it.
        let value = results(None).json();
        assert_eq!(value["quick"], Value::Null);
        assert_eq!(Results::from_json(&value).unwrap().limit, None);
        assert_eq!(words(None), "3 rounds in 19 s");
    }
}
