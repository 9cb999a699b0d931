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

/// The results of a run.
#[derive(Debug)]
pub struct Results {
    pub(crate) host: String,
    pub(crate) server: String,
    pub(crate) time: String,
    pub(crate) seconds: f64,
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
    pub(super) fn rounds_in_words(&self) -> String {
        match self.rounds {
            0 => "less than a round".to_owned(),
            1 => "1 round".to_owned(),
            more => format!("{more} rounds"),
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
            rounds: value.get("rounds").and_then(Value::as_u64).unwrap_or(0) as usize,
            rows,
            missing: missing.iter().filter_map(Value::as_str).map(one_line).collect(),
            leftover: value.get("leftover").and_then(Value::as_str).map(one_line),
        })
    }
}
