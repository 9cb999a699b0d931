//! The two files of figures: `PATH.local` and `PATH.remote`, a JSON object a line.
//!
//! The names are HPN-SSH's; its lines are CSV whose columns depend on the kernel it was built for. A run begins with a line about the
//! connection. Every line names its run, because several connections may write to the same files, each line with one write.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::Sample;

/// The key by which a line about a run is known, with the format's version.
pub(crate) const MARK: &str = "longhaul_metrics";
pub(crate) const VERSION: u64 = 1;

/// Whose figures they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The end that writes the files.
    Local,
    /// The other end.
    Remote,
}

impl Side {
    /// The name, which is also what the file's name ends in.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }
}

/// What the first line of a run says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Names the run; unique among those of a file.
    pub run: String,
    /// When it began, RFC 3339.
    pub start: String,
    /// The host as the user named it.
    pub host: String,
    /// The peer's identification.
    pub peer: String,
    /// The cipher of both directions.
    pub cipher: String,
}

/// One of the files.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    path: PathBuf,
    about: About,
    side: Side,
    begun: bool,
}

impl Recorder {
    /// Opens `PREFIX.local` or `PREFIX.remote` to add to it; only the user may read a new one. Nothing is written before the first
    /// sample.
    ///
    /// # Errors
    /// The message, which names the file.
    pub fn open(prefix: &Path, side: Side, about: About) -> Result<Self, String> {
        let mut path = prefix.as_os_str().to_owned();
        path.push(".");
        path.push(side.name());
        let path = PathBuf::from(path);
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        match file {
            Ok(file) => Ok(Self { file, path, about, side, begun: false }),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a sample that was taken so long after the beginning of the run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, at: Duration, sample: &Sample) -> io::Result<()> {
        let mut text = String::new();
        if !std::mem::replace(&mut self.begun, true) {
            let About { run, start, host, peer, cipher } = &self.about;
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
        text.push_str(&format!("{line}\n"));
        (&self.file).write_all(text.as_bytes())
    }
}
