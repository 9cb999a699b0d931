//! Samples that a client writes (`Metrics` of `ssh_config`), read as they come.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Instant;

use lh_metrics::LineReader;

use super::watched::{KEPT, Watched};
use crate::fault::Fault;
use crate::pairs::pair;

/// Runs without a sample for this time are not shown, seconds, if another one has some.
const OLD: f64 = 30.0;

/// Upper limit of a line, bytes. Those of samples are shorter.
const LONGEST_LINE: usize = 64 << 10;

/// The files of both ends.
pub(super) struct Files {
    tails: Vec<Tail>,
    /// When each run had how many samples, by its name.
    grown: Vec<(String, usize, Instant)>,
}

impl Files {
    /// The files that this names: one of them, or what both begin with (`MetricsPath`).
    pub(super) fn find(path: &Path) -> Option<Self> {
        let text = path.to_str()?;
        let stem = text.strip_suffix(".local").or_else(|| text.strip_suffix(".remote")).unwrap_or(text);
        let both = [".local", ".remote"].map(|end| PathBuf::from(format!("{stem}{end}")));
        let paths: Vec<PathBuf> = if both.iter().any(|path| path.is_file()) {
            both.to_vec()
        } else if path.is_file() {
            vec![path.to_owned()]
        } else {
            return None;
        };
        Some(Self { tails: paths.into_iter().map(Tail::new).collect(), grown: Vec::new() })
    }

    pub(super) fn name(&self) -> String {
        self.tails.first().map(|tail| tail.path.display().to_string()).unwrap_or_default()
    }

    pub(super) fn sample(&mut self) -> Result<Vec<Watched>, Fault> {
        let mut runs = Vec::new();
        for tail in &mut self.tails {
            tail.read()?;
            let name = tail.path.display().to_string();
            runs.extend(tail.reader.runs.iter().cloned().map(|run| (name.clone(), run)));
        }
        let now = Instant::now();
        let mut all: Vec<Watched> = Vec::new();
        for connection in pair(runs) {
            let Some(about) = connection.about() else { continue };
            let latest = connection.ends().filter_map(|(_, run)| run.points.last());
            // The files are trimmed, so that their times tell growth, not their numbers of samples.
            let count = latest.map(|point| (point.seconds * 1000.0) as usize).max().unwrap_or(0);
            let id = about.run.clone();
            let since = match self.grown.iter_mut().find(|(run, ..)| *run == id) {
                Some((_, known, since)) => {
                    if *known != count {
                        (*known, *since) = (count, now);
                    }
                    *since
                }
                None => {
                    self.grown.push((id, count, now));
                    now
                }
            };
            let name = [about.host.as_str(), about.peer.as_str(), about.cipher.as_str()]
                .map(lh_client::sanitise)
                .join("  ");
            let age = Some(now.duration_since(since).as_secs_f64());
            all.push(Watched { name, connection, unread: None, age });
        }
        // All that still run, or else the one that ended last.
        let is_new = |each: &Watched| each.age.is_some_and(|age| age < OLD);
        if all.iter().any(is_new) {
            all.retain(is_new);
        } else {
            all.drain(..all.len().saturating_sub(1));
        }
        // A first look at an old file takes all its runs for new.
        all.drain(..all.len().saturating_sub(8));
        Ok(all)
    }
}

/// A file that grows.
struct Tail {
    path: PathBuf,
    offset: u64,
    /// The beginning of a line whose end is not written yet.
    rest: Vec<u8>,
    reader: LineReader,
}

impl Tail {
    fn new(path: PathBuf) -> Self {
        Self { path, offset: 0, rest: Vec::new(), reader: LineReader::default() }
    }

    /// Reads what is new. A file that is not there yet, or has become shorter, is read from its beginning.
    fn read(&mut self) -> Result<(), Fault> {
        let Ok(mut file) = File::open(&self.path) else { return Ok(()) };
        let path = self.path.clone();
        let length = file.metadata().map_err(Fault::file(&path))?.len();
        if length < self.offset {
            *self = Self::new(self.path.clone());
        }
        file.seek(SeekFrom::Start(self.offset)).map_err(Fault::file(&path))?;
        let mut more = Vec::new();
        file.read_to_end(&mut more).map_err(Fault::file(&path))?;
        self.offset += more.len() as u64;
        let mut text = std::mem::take(&mut self.rest);
        text.extend_from_slice(&more);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            // The rest of a line comes later, but nothing that follows makes samples of another format.
            if line.ends_with(b"\n") || !line.starts_with(b"{") || line.len() > LONGEST_LINE {
                self.reader.read_line(line).map_err(Fault::content(&path))?;
            } else {
                self.rest = line.to_vec();
            }
        }
        for run in &mut self.reader.runs {
            let old = run.points.len().saturating_sub(KEPT);
            run.points.drain(..old);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_metrics::{Recorder, RunHeader, Sample, Side};
    use std::time::Duration;

    #[test]
    fn growing_files_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let prefix = directory.path().join("m");
        assert!(Files::find(&prefix).is_none());
        let about = RunHeader { run: "1".to_owned(), host: "far\x1b[2J".to_owned(), ..RunHeader::default() };
        let mut recorder = Recorder::open(&prefix, Side::Local, about).unwrap();
        let mut files = Files::find(&prefix).unwrap();
        assert!(files.sample().unwrap().is_empty());
        for second in 0..200 {
            recorder.write(Duration::from_secs(second), &Sample::default()).unwrap();
        }
        let seen = files.sample().unwrap();
        assert!(seen.len() == 1 && seen[0].name.starts_with("far") && !seen[0].name.contains('\x1b'));
        let points = |seen: &[Watched]| {
            let points = &seen[0].connection.local.as_ref().unwrap().points;
            (points.len(), points.last().unwrap().seconds)
        };
        assert_eq!(points(&seen), (KEPT, 199.0));
        // Half a line is kept until its end is there.
        let text = std::fs::read_to_string(recorder.path()).unwrap();
        std::fs::write(recorder.path(), format!("{text}{{\"run\":\"1\",")).unwrap();
        assert_eq!(points(&files.sample().unwrap()), (KEPT, 199.0));
        std::fs::write(recorder.path(), format!("{text}{{\"run\":\"1\",\"seconds\":201}}\n")).unwrap();
        assert_eq!(points(&files.sample().unwrap()), (KEPT, 201.0));
        // Begun anew.
        std::fs::write(recorder.path(), text.lines().next().unwrap().to_owned() + "\n").unwrap();
        assert_eq!(files.sample().unwrap()[0].connection.local.as_ref().unwrap().points.len(), 0);
    }
}
