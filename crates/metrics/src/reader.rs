//! Reader of the metrics files.

use std::io::{self, BufRead, Read};

use serde_json::{Map, Value};

use crate::recorder::{MARK, RunHeader, Side, VERSION};
use crate::sample::Sample;

/// Upper limit of a line, bytes. The writer's lines are shorter.
const LONGEST_LINE: u64 = 64 * 1024;

/// One sample of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Seconds since the beginning of the run.
    pub seconds: f64,
    /// The metrics.
    pub sample: Sample,
}

/// One connection, as recorded by one end.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Description from its first line.
    pub about: RunHeader,
    /// The end that the samples belong to.
    pub side: Side,
    /// The samples, in the order of the file.
    pub points: Vec<Point>,
}

/// Why a file is not valid. The line counts from 1.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line is not JSON: the file was truncated, or has another format.
    #[error("line {line}: {}", if *.cut { "the line is cut short (no complete JSON object)" } else { "not JSON: this is no file of metrics" })]
    Json {
        /// Line number.
        line: usize,
        /// The line begins like a valid one.
        cut: bool,
    },
    /// A line is JSON, but not in this format.
    #[error("line {line}: {what}")]
    Content {
        /// Line number.
        line: usize,
        /// The fault.
        what: BadLine,
    },
    /// The file is empty.
    #[error("no metrics in this file")]
    Empty,
}

/// What is wrong with a line that is JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// The line is longer than any of metrics.
    #[error("longer than {} KiB: this is no file of metrics", LONGEST_LINE >> 10)]
    TooLong,
    /// The line belongs to another kind of file.
    #[error("neither the beginning of a run nor a sample: this is no file of metrics")]
    Foreign,
    /// The format has a newer version.
    #[error("a version of the format that this program does not know (it knows {VERSION})")]
    Version,
    /// The beginning of a run lacks a member.
    #[error("no {0}")]
    Lacks(&'static str),
    /// The side is neither `local` nor `remote`.
    #[error("side is {0:?}")]
    Side(String),
    /// A second first line for a run.
    #[error("run {0} begins twice")]
    Twice(String),
    /// A sample of a run that has not begun.
    #[error("sample of the unknown run {0}")]
    UnknownRun(String),
    /// A sample that is earlier than the one before it.
    #[error("time goes backwards in run {0}")]
    Backwards(String),
    /// A group of values is not a JSON object.
    #[error("{0} is no object")]
    NoObject(&'static str),
    /// A value is negative or has a fraction.
    #[error("{group}.{name} is no whole number")]
    NoNumber {
        /// The group of values, `tcp` or `ssh`.
        group: &'static str,
        /// Name of the value.
        name: String,
    },
    /// A thread lacks a member.
    #[error("threads: one without id, name and cpu_micros")]
    Thread,
}

/// Reads the runs of a file.
///
/// # Errors
/// See [`ReadError`]: the first invalid line.
pub fn read_runs(from: impl BufRead) -> Result<Vec<Run>, ReadError> {
    read_all(LineReader::default(), from)
}

/// Like [`read_runs`], but keeps at most `most` samples of each run, and the last one: evenly spread over its
/// time, so that the memory that a long run takes is bounded.
///
/// # Errors
/// See [`ReadError`]: the first invalid line.
pub fn read_thinned_runs(from: impl BufRead, most: usize) -> Result<Vec<Run>, ReadError> {
    read_all(LineReader { most: Some(most), ..LineReader::default() }, from)
}

fn read_all(mut reader: LineReader, mut from: impl BufRead) -> Result<Vec<Run>, ReadError> {
    let mut text = Vec::new();
    loop {
        text.clear();
        let read = from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut text)?;
        if read == 0 {
            break;
        }
        if read as u64 == LONGEST_LINE && !text.ends_with(b"\n") {
            return Err(ReadError::Content { line: reader.lines + 1, what: BadLine::TooLong });
        }
        reader.read_line(&text)?;
    }
    if reader.runs.is_empty() { Err(ReadError::Empty) } else { Ok(reader.runs) }
}

/// Reader of a file that grows, one line at a time.
#[derive(Debug, Default)]
pub struct LineReader {
    /// The runs read so far. Callers may remove old points.
    pub runs: Vec<Run>,
    lines: usize,
    /// Samples of a run that are kept, and which of each run are, where not all are.
    most: Option<usize>,
    kept: Vec<Kept>,
}

/// The samples of a run that are kept: every nth, and the last one.
#[derive(Debug, Clone, Copy)]
struct Kept {
    each: usize,
    seen: usize,
}

impl Kept {
    /// Adds a sample. Where there are too many then, half of them go.
    fn push(&mut self, points: &mut Vec<Point>, point: Point, most: usize) {
        // The last one was kept for being the last one only.
        if self.seen > 0 && !(self.seen - 1).is_multiple_of(self.each) {
            points.pop();
        }
        if points.len() >= most {
            self.each *= 2;
            let mut number = 0;
            points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
        points.push(point);
        self.seen += 1;
    }
}

impl LineReader {
    /// Adds a line, with or without its line ending. Empty lines are skipped.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read_line(&mut self, text: &[u8]) -> Result<(), ReadError> {
        self.lines += 1;
        let line = self.lines;
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let object: Map<String, Value> = serde_json::from_slice(text)
            .map_err(|error| ReadError::Json { line, cut: error.is_eof() && text.starts_with(b"{") })?;
        let content = |what: BadLine| ReadError::Content { line, what };
        let runs = &mut self.runs;
        if object.contains_key(MARK) {
            let run = begin(&object).map_err(content)?;
            if runs.iter().any(|known| known.about.run == run.about.run && known.side == run.side) {
                return Err(content(BadLine::Twice(run.about.run)));
            }
            runs.push(run);
            self.kept.push(Kept { each: 1, seen: 0 });
        } else {
            let (name, point) = point(&object).map_err(content)?;
            let at = runs.iter().rposition(|run| run.about.run == name);
            let Some((run, kept)) = at.and_then(|at| Some((runs.get_mut(at)?, self.kept.get_mut(at)?)))
            else {
                return Err(content(BadLine::UnknownRun(name)));
            };
            if run.points.last().is_some_and(|last| last.seconds > point.seconds) {
                return Err(content(BadLine::Backwards(name)));
            }
            match self.most {
                Some(most) => kept.push(&mut run.points, point, most),
                None => run.points.push(point),
            }
        }
        Ok(())
    }
}

fn text(object: &Map<String, Value>, key: &'static str) -> Result<String, BadLine> {
    object.get(key).and_then(Value::as_str).map(str::to_owned).ok_or(BadLine::Lacks(key))
}

fn begin(object: &Map<String, Value>) -> Result<Run, BadLine> {
    if object.get(MARK).and_then(Value::as_u64) != Some(VERSION) {
        return Err(BadLine::Version);
    }
    let side = match text(object, "side")?.as_str() {
        "local" => Side::Local,
        "remote" => Side::Remote,
        other => return Err(BadLine::Side(other.to_owned())),
    };
    let about = RunHeader {
        run: text(object, "run")?,
        start: text(object, "start")?,
        host: text(object, "host")?,
        peer: text(object, "peer")?,
        cipher: text(object, "cipher")?,
    };
    Ok(Run { about, side, points: Vec::new() })
}

fn point(object: &Map<String, Value>) -> Result<(String, Point), BadLine> {
    let (Ok(run), Some(seconds)) = (text(object, "run"), object.get("seconds").and_then(Value::as_f64))
    else {
        return Err(BadLine::Foreign);
    };
    let mut sample = Sample::default();
    for (key, tcp) in [("tcp", true), ("ssh", false)] {
        let Some(values) = object.get(key) else { continue };
        let values = values.as_object().ok_or(BadLine::NoObject(key))?;
        for (name, value) in values {
            let value = value.as_u64();
            let value = value.ok_or_else(|| BadLine::NoNumber { group: key, name: name.clone() })?;
            sample.take(tcp, name, value);
        }
    }
    if let Some(name) = object.get("congestion_control").and_then(Value::as_str) {
        sample.take_congestion_control(name);
    }
    for thread in object.get("threads").and_then(Value::as_array).into_iter().flatten() {
        let number = |name: &str| thread.get(name).and_then(Value::as_u64);
        let (Some(id), Some(name), Some(cpu_micros)) = (
            number("id").and_then(|id| u32::try_from(id).ok()),
            thread.get("name").and_then(Value::as_str),
            number("cpu_micros"),
        ) else {
            return Err(BadLine::Thread);
        };
        sample.take_thread(id, name, cpu_micros);
    }
    Ok((run, Point { seconds, sample }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recorder, ThreadTime};
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn thinned_runs_keep_samples_of_all_their_time() {
        let mut text = String::from(
            "{\"longhaul_metrics\":1,\"run\":\"1\",\"side\":\"local\",\"start\":\"\",\"host\":\"\",\"peer\":\"\",\"cipher\":\"\"}\n",
        );
        (0..1000).for_each(|n| text.push_str(&format!("{{\"run\":\"1\",\"seconds\":{n},\"ssh\":{{}}}}\n")));
        for most in [2, 10, 64, 999, 1000, 5000] {
            let run = read_thinned_runs(text.as_bytes(), most).unwrap().remove(0);
            let seconds: Vec<f64> = run.points.iter().map(|point| point.seconds).collect();
            assert!(seconds.len() <= most.max(2), "{most}: {seconds:?}");
            assert!(seconds.len() >= most.min(1000) / 2, "{most}: {seconds:?}");
            assert_eq!((seconds[0], *seconds.last().unwrap()), (0.0, 999.0), "{most}");
            let steps: Vec<f64> = seconds.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let regular = &steps[..steps.len() - 1];
            assert!(regular.iter().all(|step| *step == regular[0]), "{most}: {steps:?}");
        }
    }

    fn written() -> String {
        let directory = tempfile::tempdir().unwrap();
        let prefix = directory.path().join("m");
        let about = |run: &str| RunHeader {
            run: run.to_owned(),
            host: "a \"b\"\n".to_owned(),
            ..RunHeader::default()
        };
        let mut one = Recorder::open(&prefix, Side::Local, about("1")).unwrap();
        let mut two = Recorder::open(&prefix, Side::Local, about("2")).unwrap();
        let sample = |rtt| Sample {
            tcp: vec![("rtt", rtt)],
            ssh: vec![("rekeys", 1)],
            congestion_control: Some("cubic".to_owned()),
            threads: vec![ThreadTime { id: 7, name: "main".to_owned(), cpu_micros: rtt }],
        };
        for second in 0..3 {
            one.write(Duration::from_secs(second), &sample(second)).unwrap();
            two.write(Duration::from_secs(second), &Sample::default()).unwrap();
        }
        assert_eq!(one.path(), directory.path().join("m.local"));
        std::fs::read_to_string(one.path()).unwrap()
    }

    #[test]
    fn recorded_runs_are_read_back() {
        let runs = read_runs(written().as_bytes()).unwrap();
        assert_eq!(runs.len(), 2);
        let first = &runs[0];
        assert_eq!(
            (first.about.host.as_str(), first.side, first.points.len()),
            ("a \"b\"\n", Side::Local, 3)
        );
        assert_eq!((first.points[2].seconds, first.points[2].sample.tcp("rtt")), (2.0, Some(2)));
        assert_eq!(first.points[0].sample.congestion_control.as_deref(), Some("cubic"));
        let thread = ThreadTime { id: 7, name: "main".to_owned(), cpu_micros: 2 };
        assert_eq!(
            (&first.points[2].sample.threads, runs[1].points[2].sample.threads.len()),
            (&vec![thread], 0)
        );
        assert_eq!((runs[1].points.len(), runs[1].points[0].sample.ssh("rekeys")), (3, None));
    }

    #[test]
    fn errors_name_their_line() {
        let good = written();
        let says = |text: &str| read_runs(text.as_bytes()).unwrap_err().to_string();
        let cut = &good[..good.len() - 9];
        assert_eq!(says(cut), "line 8: the line is cut short (no complete JSON object)");
        assert!(says("REMOTE CONNECTION\n").starts_with("line 1: not JSON"), "{}", says("x"));
        assert!(says("\n{\"a\": 1}\n").starts_with("line 2: neither"), "{}", says("{}"));
        assert_eq!(says(""), "no metrics in this file");
        let long = format!("{{\"run\":\"{}\"}}\n", "9".repeat(LONGEST_LINE as usize));
        assert_eq!(says(&long), "line 1: longer than 64 KiB: this is no file of metrics");
        assert!(says("{\"run\":\"9\",\"seconds\":1}").contains("unknown run 9"));
        assert!(says(&good.replace("\"rtt\":0", "\"rtt\":-1")).contains("tcp.rtt is no whole number"));
        assert!(says(&good.replace("\"seconds\":0.0", "\"seconds\":9")).contains("time goes backwards"));
        assert!(says(&good.replace("\"id\":7", "\"id\":-7")).contains("threads: one without id"));
        assert!(says(&good.replace("metrics\":1", "metrics\":7")).contains("version"));
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "\\PC{0,200}", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_runs(text.as_bytes());
            let _ = read_runs(&bytes[..]);
        }
    }
}
