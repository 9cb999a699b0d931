//! Writer of the metrics files: `PATH.local` and `PATH.remote`, one JSON object per line.
//!
//! The names are HPN-SSH's, whose lines are CSV with columns that depend on the kernel it was built for. A
//! run begins with a line about the connection. Every line names its run, because several connections may
//! write to the same files; each line is one write.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::{Sample, ThreadTime};

/// Key that marks the first line of a run; its value is the version of the format.
pub(crate) const MARK: &str = "longhaul_metrics";
pub(crate) const VERSION: u64 = 1;

/// The end that a sample belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The end that writes the files.
    Local,
    /// The other end.
    Remote,
}

impl Side {
    /// Name of the side, which is also the suffix of the file's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }
}

/// Contents of the first line of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunHeader {
    /// Identifier of the run, unique in its file.
    pub run: String,
    /// Start time, RFC 3339.
    pub start: String,
    /// The host as given by the user.
    pub host: String,
    /// The peer's identification string.
    pub peer: String,
    /// The cipher of both directions.
    pub cipher: String,
}

/// A file that cannot be opened for writing.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", .path.display())]
pub struct OpenError {
    /// The file.
    pub path: PathBuf,
    /// The system's error.
    pub error: io::Error,
}

/// Writer of one of the files.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    path: PathBuf,
    about: RunHeader,
    side: Side,
    begun: bool,
}

impl Recorder {
    /// Opens `PREFIX.local` or `PREFIX.remote` for appending; a new file is readable by the user only. Writes
    /// only with the first sample.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(prefix: &Path, side: Side, about: RunHeader) -> Result<Self, OpenError> {
        let mut path = prefix.as_os_str().to_owned();
        path.push(".");
        path.push(side.name());
        let path = PathBuf::from(path);
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        match file {
            Ok(file) => Ok(Self { file, path, about, side, begun: false }),
            Err(error) => Err(OpenError { path, error }),
        }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a sample taken at time `at` after the beginning of the run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, at: Duration, sample: &Sample) -> io::Result<()> {
        let mut text = String::new();
        if !std::mem::replace(&mut self.begun, true) {
            let RunHeader { run, start, host, peer, cipher } = &self.about;
            let side = self.side.name();
            let line = json!({
                MARK: VERSION, "run": run, "side": side, "start": start, "host": host, "peer": peer, "cipher": cipher,
            });
            text = format!("{line}\n");
        }
        let object = |values: &[(&'static str, u64)]| -> Map<String, Value> {
            values.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
        };
        let mut line =
            json!({ "run": self.about.run, "seconds": (at.as_secs_f64() * 1000.0).round() / 1000.0 });
        for (key, values) in [("tcp", &sample.tcp), ("ssh", &sample.ssh)] {
            if let (Some(line), false) = (line.as_object_mut(), values.is_empty()) {
                line.insert(key.to_owned(), object(values).into());
            }
        }
        if let (Some(line), Some(name)) = (line.as_object_mut(), &sample.congestion_control) {
            line.insert("congestion_control".to_owned(), name.as_str().into());
        }
        if let (Some(line), false) = (line.as_object_mut(), sample.threads.is_empty()) {
            let threads = sample.threads.iter().map(|ThreadTime { id, name, cpu_micros }| {
                json!({ "id": id, "name": name, "cpu_micros": cpu_micros })
            });
            line.insert("threads".to_owned(), threads.collect());
        }
        text.push_str(&format!("{line}\n"));
        (&self.file).write_all(text.as_bytes())
    }
}
