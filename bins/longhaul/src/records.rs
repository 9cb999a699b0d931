//! Files of results: what `bench --json` and `bench --hosts --json` have printed. `longhaul compare`, and the
//! page of `longhaul report` about such files.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use lh_cli::flags::Parsed;
use lh_instrument::NoResults;
use lh_instrument::bench::{Comparison, Pair, Results, compare, matrix_page, page};
use serde_json::Value;

use crate::fault::{Content, Fault, USAGE, say};
use crate::output::print;

/// Upper limit of a line, MiB: a run of two minutes takes 50 kB.
const LONGEST_LINE: u64 = 16;

/// Exit statuses of `compare --fail-below`: a figure is below the limit; none is, but some may be.
const WORSE: u8 = 1;
const UNDECIDED: u8 = 3;

/// A line of JSON about one run or one path of a list.
enum Record {
    Run(Results),
    Path(Pair),
}

impl Record {
    /// The run; a path that could not be measured has none.
    fn into_run(self) -> Option<Results> {
        match self {
            Self::Run(run) => Some(run),
            Self::Path(pair) => pair.result.ok(),
        }
    }
}

/// Upper limit of the runs on a page: a matrix of a hundred hosts has 10 000.
const MOST_RUNS: usize = 20_000;

/// The records of a file, at most `most`: the result of `bench --json`, or the lines of
/// `bench --hosts --json`.
///
/// # Errors
/// The file cannot be read, has something else, or has more of them (`too_many`).
fn read(path: &Path, most: usize, too_many: Content) -> Result<Vec<Record>, Fault> {
    let file = File::open(path).map_err(Fault::file(path))?;
    let mut from = BufReader::new(file);
    let (mut records, mut text, mut line) = (Vec::new(), Vec::new(), 0);
    loop {
        text.clear();
        line += 1;
        let longest = LONGEST_LINE << 20;
        let read = from.by_ref().take(longest).read_until(b'\n', &mut text).map_err(Fault::file(path))?;
        if read == 0 {
            break;
        }
        if read as u64 == longest {
            return Err(Fault::content(path)(Content::LongLine { line, most: LONGEST_LINE }));
        }
        if text.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if records.len() == most {
            return Err(Fault::content(path)(too_many));
        }
        records.push(record(&text, line).map_err(Fault::content(path))?);
    }
    if records.is_empty() { Err(Fault::content(path)(Content::OtherFormat)) } else { Ok(records) }
}

/// Reads a line, which is not empty.
fn record(text: &[u8], line: usize) -> Result<Record, Content> {
    let value: Value = serde_json::from_slice(text)
        .map_err(|error| Content::Json { line, cut: error.is_eof() && text.starts_with(b"{") })?;
    if value.get("longhaul_bench").is_some() {
        let run = Results::from_json(&value).map_err(|fault| Content::Results { line, fault })?;
        return Ok(Record::Run(run));
    }
    Pair::from_json(&value).map(Record::Path).ok_or(Content::OtherFormat)
}

/// True where the file begins like results of `bench`.
fn is_of_bench(path: &Path) -> Result<bool, Fault> {
    /// Both formats name themselves early.
    const BEGINNING: u64 = 64 << 10;
    let mut text = Vec::new();
    let file = File::open(path).map_err(Fault::file(path))?;
    file.take(BEGINNING).read_to_end(&mut text).map_err(Fault::file(path))?;
    let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
    Ok(text.trim_ascii_start().starts_with(b"{") && (has(b"\"longhaul_bench\"") || has(b"\"from\"")))
}

/// The page of `longhaul report` for files of `bench`: the matrix where all are about paths of a list, else
/// the runs side by side. `None` where the first file is not of `bench`.
///
/// # Errors
/// A file cannot be read, or has something else.
pub(crate) fn report(files: &[OsString]) -> Result<Option<String>, Fault> {
    if !files.first().map_or(Ok(false), |file| is_of_bench(Path::new(file)))? {
        return Ok(None);
    }
    let mut records = Vec::new();
    for file in files {
        let left = MOST_RUNS - records.len();
        records.extend(read(Path::new(file), left, Content::TooManyRuns(MOST_RUNS))?);
    }
    let is_matrix = records.iter().all(|record| matches!(record, Record::Path(_)));
    if is_matrix {
        let pair = |record| if let Record::Path(pair) = record { Some(pair) } else { None };
        return Ok(Some(matrix_page(&records.into_iter().filter_map(pair).collect::<Vec<_>>())));
    }
    Ok(Some(page(&records.into_iter().filter_map(Record::into_run).collect::<Vec<_>>())))
}

/// The one run of a file.
fn one_run(file: &OsString) -> Result<Results, Fault> {
    let path = Path::new(file);
    match read(path, 1, Content::SeveralRuns)?.pop() {
        Some(Record::Run(run) | Record::Path(Pair { result: Ok(run), .. })) => Ok(run),
        Some(Record::Path(Pair { result: Err(why), .. })) => {
            let fault = NoResults::Failed(why.to_string());
            Err(Fault::content(path)(Content::Results { line: 1, fault }))
        }
        None => Err(Fault::content(path)(Content::OtherFormat)),
    }
}

/// `longhaul compare OLD NEW`; returns the exit status.
pub(crate) fn run_compare(parsed: &Parsed, operands: &[OsString]) -> u8 {
    compared(parsed, operands).unwrap_or_else(|fault| fault.report(USAGE))
}

fn compared(parsed: &Parsed, operands: &[OsString]) -> Result<u8, Fault> {
    let [old, new] = operands else {
        return Err(Fault::Usage("compare: give two files".to_owned()));
    };
    let fail_below = match parsed.long_text("fail-below") {
        None => 0.0,
        Some(text) => {
            text.parse::<f64>().ok().filter(|part| (0.0..=1.0).contains(part)).ok_or_else(|| {
                let text = lh_client::sanitise(&text);
                Fault::Usage(format!(
                    "compare: --fail-below \"{text}\": not a number from 0 to 1, such as 0.9"
                ))
            })?
        }
    };
    let compared = compare(&one_run(old)?, &one_run(new)?, fail_below);
    if compared.compared == 0 {
        say(&format!(
            "compare: {} and {} have no figure in common",
            Path::new(old).display(),
            Path::new(new).display()
        ));
        return Ok(USAGE);
    }
    let Comparison { text, compared: figures, worse, gone, undecided } = compared;
    let noise = if undecided > 0 {
        format!(", {undecided} too noisy or too near the limit to tell")
    } else {
        String::new()
    };
    let gone = if gone > 0 { format!(", {gone} of the old run not in the new one") } else { String::new() };
    print(&format!("{text}{figures} figures compared, {worse} worse than allowed{noise}{gone}\n"))?;
    Ok(match (worse, undecided) {
        (1.., _) => WORSE,
        (0, 1..) => UNDECIDED,
        (0, 0) => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &[u8]) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.json");
        std::fs::write(&path, text).unwrap();
        let fault = one_run(&path.clone().into_os_string()).expect_err("no run");
        let text = fault.to_string();
        text.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&text).to_owned()
    }

    #[test]
    fn bad_files_are_told_apart() {
        let run = r#"{"longhaul_bench":1,"host":"h","rows":[]}"#;
        for (text, expected) in [
            ("", "not the results of longhaul bench"),
            ("\u{7f}\n", "line 1: not JSON: these are not the results of longhaul bench"),
            (&run[..20], "line 1: the line is cut short (no complete JSON object)"),
            (
                r#"{"longhaul_bench":1,"rows":[NaN]}"#,
                "line 1: not JSON: these are not the results of longhaul bench",
            ),
            ("[1]", "not the results of longhaul bench"),
            (r#"{"longhaul_bench":1}"#, "line 1: not the results of longhaul bench: no rows"),
            (r#"{"longhaul_bench":1,"error":"refused\u001b"}"#, "line 1: refused\\033"),
            (&format!("{run}\n{run}\n"), "more than one run"),
            (r#"{"from":"","to":"h","run":null,"error":"refused"}"#, "line 1: refused"),
        ] {
            assert_eq!(why(text.as_bytes()), expected, "{text}");
        }
        for (text, expected) in [
            (
                r#"{"longhaul_bench":2,"rows":[]}"#,
                "line 1: results of longhaul bench in version 2; this program knows version 1",
            ),
            (r#"{"longhaul_bench":"1"}"#, "line 1: not the results of longhaul bench: no version"),
        ] {
            assert_eq!(why(text.as_bytes()), expected, "{text}");
        }
        let long = vec![b' '; (LONGEST_LINE << 20) as usize + 1];
        assert!(why(&long).contains("line 1: longer than 16 MiB"));
    }

    #[test]
    fn words_of_a_file_cannot_steer_the_terminal() {
        let row = r#"{"table":"t\u001b[2J","row":"r\nx","column":"c","unit":"seconds","values":[1,1,1]}"#;
        let text = format!(r#"{{"longhaul_bench":1,"host":"h\u001b","rows":[{row}]}}"#);
        let run = || match record(text.as_bytes(), 1) {
            Ok(Record::Run(run)) => run,
            _ => panic!("no run"),
        };
        let compared = compare(&run(), &run(), 0.9);
        assert_eq!((compared.compared, compared.text.lines().count()), (1, 1), "{}", compared.text);
        assert!(!compared.text.contains('\u{1b}') && !page(&[run()]).contains('\u{1b}'));
    }
}
