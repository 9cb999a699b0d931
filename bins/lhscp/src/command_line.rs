//! From flags to places, options of the copy, and requests for a configuration.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lh_cli::copying::{Connecting, channels};
use lh_cli::flags::{Parsed, SCP, Stop};
use lh_config::Account;
use lh_config::client::{CommandLine, Request};
use lh_config::network::BitRate;
use lh_config::units::parse_time;
use lh_transfer::{
    BadShard, Keep, Manifest, Options, Rule, Selection, Shard, SumAlgorithm, TreeSync, Verify,
};

use crate::outcome::{FAILURE, NO_CONNECTION};
use crate::outputs::{Outputs, Wanted};
use crate::patience::Patience;
use crate::place::{Host, Place, PlaceError};

/// The protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Sftp,
    /// `-O`.
    Legacy,
}

/// How hosts are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Via {
    /// By this process.
    Inside,
    /// `-S`: by a program that takes the arguments of ssh(1).
    Program(OsString),
    /// `-D`: not at all. This SFTP server runs here.
    Server(OsString),
}

/// What the command line says.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) sources: Vec<Place>,
    pub(crate) target: Place,
    pub(crate) options: Options,
    /// Whether an interrupted copy leaves something to go on with: not with `--no-resume`.
    pub(crate) resume: bool,
    /// `--pace`: bytes per second.
    pub(crate) pace: Option<u64>,
    /// `--retries` or `--retry-for`.
    pub(crate) patience: Patience,
    /// `--manifest-out` and `--failed-out`.
    pub(crate) outputs: Outputs,
    /// `--json`.
    pub(crate) json: bool,
    /// `-q`.
    pub(crate) quiet: bool,
    /// How many `-v`.
    pub(crate) verbose: usize,
    pub(crate) mode: Mode,
    pub(crate) via: Via,
    /// `-R`: the first of two remote hosts copies to the second by itself.
    pub(crate) direct: bool,
    /// `-T`: take what comes, whatever was asked for.
    pub(crate) unchecked_names: bool,
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
        options.bits_per_second = Some(kilobits * 1024);
    }
    options.channels = channels(parsed).map_err(|error| SCP.usage_error(&error.to_string()))?;
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
    let server = parsed.value('D').map(|path| Via::Server(path.to_owned()));
    let program = parsed.value('S').map(|path| Via::Program(path.to_owned()));
    for option in parsed.values('X') {
        tune(&mut options, &option.to_string_lossy())
            .map_err(|error| Stop { status: NO_CONNECTION, ..SCP.error(&error.to_string()) })?;
    }
    let direct = last_of(parsed, "3R") == Some('R');
    check_keep(mode(parsed)?, direct, &options)?;
    let outputs = outputs(parsed)?;
    options.sums = outputs.sums();
    options.report_missed = outputs.list_failed();
    if options.tree_sync.is_some() {
        check_sync(mode(parsed)?, direct, &sources, &target)?;
    }
    Ok(Arguments {
        sources,
        target,
        options,
        resume: !parsed.has_long("no-resume"),
        pace: pace(parsed)?,
        patience: patience(parsed, mode(parsed)?)?,
        outputs,
        json: parsed.has_long("json"),
        quiet: parsed.has('q'),
        verbose: parsed.count('v'),
        mode: mode(parsed)?,
        via: server.or(program).unwrap_or(Via::Inside),
        direct,
        unchecked_names: parsed.has('T'),
        ssh_words: ssh_words(parsed),
        port,
        connecting: Connecting::new(parsed, 'B', &account),
        account,
    })
}

/// OpenSSH's words and status: a bad login is a connection that fails, which the old protocol reports with
/// status 1.
fn no_place(error: &PlaceError, mode: Result<Mode, Stop>) -> Stop {
    match error {
        PlaceError::Uri(_) => Stop { out: String::new(), err: format!("{error}\n"), status: FAILURE },
        PlaceError::Login(_) => {
            let mut stop = SCP.error("Connection closed");
            stop.err.insert_str(0, &format!("{error}\n"));
            stop.status = if matches!(mode, Ok(Mode::Legacy)) { FAILURE } else { NO_CONNECTION };
            stop
        }
    }
}

fn copy_options(parsed: &Parsed) -> Options {
    Options {
        recursive: parsed.has('r') || parsed.has_long("sync"),
        preserve: parsed.has('p') || parsed.has_long("preserve") || parsed.has_long("sync"),
        keep: keep(parsed),
        atomic: !parsed.has_long("in-place"),
        adopt_partial: parsed.has('Z'),
        sync: parsed.has_long("fsync"),
        dry_run: parsed.has_long("dry-run"),
        verify: match (parsed.has_long("verify"), parsed.has_long("no-verify")) {
            (true, _) => Verify::Always,
            (_, true) => Verify::Off,
            _ => Verify::WhenCheap,
        },
        ..Options::default()
    }
}

/// What is kept besides data, times and modes.
fn keep(parsed: &Parsed) -> Keep {
    let wants = |flag| parsed.has_long("preserve") || parsed.has_long(flag);
    Keep {
        links: wants("links"),
        hard_links: parsed.has_long("preserve") || parsed.has('H'),
        xattrs: wants("xattrs"),
        acls: wants("acls"),
        owner: wants("owner"),
        group: wants("group"),
        sparse: parsed.has_long("sparse"),
    }
}

/// Only the engine keeps more than times and modes: what the old protocol and another program would forget is refused.
fn check_keep(mode: Mode, direct: bool, options: &Options) -> Result<(), Stop> {
    match (mode, direct) {
        _ if options.keep == Keep::default() => Ok(()),
        (Mode::Legacy, _) => {
            Err(SCP.error("the old protocol (-O) keeps times and modes (-p) and nothing else"))
        }
        (_, true) => {
            Err(SCP.error("with -R the first host's scp keeps times and modes (-p) and nothing else"))
        }
        _ => Ok(()),
    }
}

/// `--sync`, and the flags that say more about it.
fn tree_sync(parsed: &Parsed) -> Result<Option<TreeSync>, Stop> {
    let delete = parsed.has_long("delete");
    for flag in ["delete", "max-delete", "checksum", "update", "backup-dir"] {
        if parsed.has_long(flag) && !parsed.has_long("sync") {
            return Err(SCP.error(&format!("--{flag} is for copies with --sync")));
        }
    }
    if delete && parsed.has_long("shard") {
        return Err(SCP.error("--delete needs to see all of a tree, and a --shard is a part"));
    }
    let max_delete = match parsed.long_text("max-delete") {
        None => None,
        Some(text) => {
            let number = text.parse().ok();
            Some(number.ok_or_else(|| SCP.usage_error(&format!("bad number of deletions \"{text}\"")))?)
        }
    };
    if max_delete.is_some() && !delete {
        return Err(SCP.error("--max-delete is for copies with --delete"));
    }
    let backup_dir = parsed.long.iter().rev().find(|(flag, _)| *flag == "backup-dir");
    let backup_dir =
        backup_dir.map(|(_, path)| path.as_deref().unwrap_or_default().as_encoded_bytes().to_vec());
    if backup_dir.as_ref().is_some_and(Vec::is_empty) {
        return Err(SCP.usage_error("--backup-dir needs a directory"));
    }
    if backup_dir.is_some() && parsed.has_long("in-place") {
        return Err(SCP.error("--backup-dir moves files away by renaming, and --in-place writes into them"));
    }
    Ok(parsed.has_long("sync").then_some(TreeSync {
        delete,
        max_delete,
        checksum: parsed.has_long("checksum"),
        keep_newer: parsed.has_long("update"),
        backup_dir,
    }))
}

/// What `--sync` compares, it compares by SFTP, and with all sources of a target in view.
fn check_sync(mode: Mode, direct: bool, sources: &[Place], target: &Place) -> Result<(), Stop> {
    let hosts: Vec<Option<&Host>> = sources.iter().map(Place::host).collect();
    let why = match (mode, &hosts[..]) {
        (Mode::Legacy, _) => "--sync needs SFTP, and -O is the protocol before it",
        _ if direct => "--sync copies through this host: without -R",
        (_, [first, rest @ ..]) if rest.iter().any(|host| host != first) => {
            "--sync takes the sources of one host"
        }
        (_, [None, ..]) if target.host().is_none() => "--sync needs a remote source or target",
        _ => return Ok(()),
    };
    Err(SCP.error(why))
}

/// What of trees is copied.
fn selection(parsed: &Parsed) -> Result<Selection, Stop> {
    let rules = parsed.long.iter().filter(|(flag, _)| matches!(*flag, "include" | "exclude"));
    let rules = rules.map(|(flag, pattern)| {
        Rule::new(*flag == "include", pattern.as_deref().unwrap_or_default().as_encoded_bytes())
    });
    let manifest = match parsed.long_text("manifest") {
        None => None,
        Some(path) => match std::fs::read(&path) {
            Ok(text) => Some(Manifest::parse(&text)),
            Err(error) => return Err(SCP.error(&format!("--manifest {path}: {error}"))),
        },
    };
    let shard =
        parsed.long_text("shard").map(|text| Shard::of_flag(&text)).transpose().map_err(|bad| match bad {
            BadShard::Malformed(_) => SCP.usage_error(&bad.to_string()),
            _ => SCP.error(&bad.to_string()),
        })?;
    Ok(Selection { rules: rules.collect(), manifest, shard })
}

/// The files that are to be left for programs.
fn outputs(parsed: &Parsed) -> Result<Outputs, Stop> {
    let path = |flag| parsed.long_value(flag).map(PathBuf::from);
    let wanted = Wanted {
        manifest: path("manifest-out"),
        failed: path("failed-out"),
        algorithm: match parsed.long_text("manifest-sum") {
            None => SumAlgorithm::default(),
            Some(_) if path("manifest-out").is_none() => {
                return Err(SCP.usage_error("--manifest-sum is for --manifest-out"));
            }
            Some(name) => SumAlgorithm::parse(&name)
                .ok_or_else(|| SCP.usage_error(&format!("bad sum \"{name}\": sha256 or xxh3")))?,
        },
    };
    if wanted.manifest.is_some() && wanted.manifest == wanted.failed {
        return Err(SCP.usage_error("--manifest-out and --failed-out name the same file"));
    }
    let outputs = Outputs::new(wanted);
    match outputs.flags() {
        Some(flag) if mode(parsed)? == Mode::Legacy => {
            Err(SCP.error(&format!("{flag}: not with the old protocol (-O)")))
        }
        Some(flag) if parsed.has_long("dry-run") => {
            Err(SCP.error(&format!("{flag}: not with --dry-run, which copies nothing")))
        }
        _ => Ok(outputs),
    }
}

/// `--pace`, in bytes per second.
fn pace(parsed: &Parsed) -> Result<Option<u64>, Stop> {
    let Some(text) = parsed.long_text("pace") else { return Ok(None) };
    let rate = BitRate(BitRate::read(&text)).bytes_per_second();
    rate.map(Some).ok_or_else(|| SCP.usage_error(&format!("bad rate \"{text}\": bits per second, as 800M")))
}

/// How long it goes on after a connection that broke.
fn patience(parsed: &Parsed, mode: Mode) -> Result<Patience, Stop> {
    let retries = parsed.long_text("retries");
    let Some(time) = parsed.long_text("retry-for") else {
        let times = retries.as_deref().unwrap_or("3").parse();
        let bad = |_| SCP.usage_error(&format!("bad number of retries \"{}\"", retries.unwrap_or_default()));
        return times.map(Patience::Times).map_err(bad);
    };
    let seconds = parse_time(&time).filter(|&seconds| seconds > 0);
    let seconds = seconds
        .ok_or_else(|| SCP.usage_error(&format!("bad time \"{time}\": seconds, or as 12h or 1h30m")))?;
    let given = |flag: char| parsed.has(flag).then(|| format!("-{flag}"));
    let given_long = |flag: &str| parsed.has_long(flag).then(|| format!("--{flag}"));
    let other = retries.map(|_| "--retries".to_owned());
    let other = other.or_else(|| (mode == Mode::Legacy).then(|| "-O".to_owned())).or_else(|| given('S'));
    let other = other.or_else(|| given('D')).or_else(|| given_long("no-resume"));
    match other.or_else(|| given_long("in-place")) {
        Some(flag) => Err(SCP.error(&format!("--retry-for: not with {flag}"))),
        None => Ok(Patience::For(Duration::from_secs(seconds))),
    }
}

/// The one of these flags that was given last.
fn last_of(parsed: &Parsed, flags: &str) -> Option<char> {
    parsed.flags.iter().rev().map(|(flag, _)| *flag).find(|flag| flags.contains(*flag))
}

/// The last of `-O`, `-s` and `-M` decides.
fn mode(parsed: &Parsed) -> Result<Mode, Stop> {
    match last_of(parsed, "OsM") {
        Some('O') => Ok(Mode::Legacy),
        Some('M') => match parsed.text('M').as_deref() {
            Some("scp") => Ok(Mode::Legacy),
            Some("sftp") => Ok(Mode::Sftp),
            _ => Err(SCP.usage_error("invalid mode")),
        },
        _ => Ok(Mode::Sftp),
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

/// A value of `-X` that is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum TuneError {
    #[error("Invalid -X option")]
    Unknown,
    #[error("Invalid {what} \"{value}\": must be 1 to {most}")]
    Range { what: &'static str, value: String, most: u64 },
}

/// `-X nrequests=N`, `-X buffer=BYTES` and `-X answer-timeout=SECONDS`.
fn tune(options: &mut Options, text: &str) -> Result<(), TuneError> {
    let (name, value) = text.split_once('=').ok_or(TuneError::Unknown)?;
    let number = |what, most| {
        let number = scaled(value).filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| TuneError::Range { what, value: value.to_owned(), most })
    };
    match name {
        "nrequests" => options.max_requests = Some(number("number of requests", 8 * 1024)? as usize),
        "answer-timeout" => options.answer_timeout = Duration::from_secs(number("answer-timeout", 86_400)?),
        "buffer" => options.request_bytes = Some(number("buffer size", 256 * 1024)? as u32),
        _ => return Err(TuneError::Unknown),
    }
    Ok(())
}

/// A number, perhaps with a unit of 1024s behind it.
fn scaled(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1024),
        None => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

impl Arguments {
    /// The target must be a directory: there are several sources, a share of one, or a copy that is repeated. A
    /// share that made the target would change what the command means to the next share. `tree/.` means the same
    /// in both cases.
    pub(crate) fn needs_directory(&self) -> bool {
        match self.sources.as_slice() {
            [source] => {
                self.options.tree_sync.is_some()
                    || self.options.select.shard.is_some() && !source.is_contents()
            }
            _ => true,
        }
    }

    /// The rate that was asked for (`-l`, `--pace`; the lower of both), bytes/s.
    pub(crate) fn rate_limit(&self) -> Option<u64> {
        let limit = self.options.bits_per_second.map(|bits| bits / 8);
        limit.into_iter().chain(self.pace).min()
    }

    /// What is wrong with the flags and no reason to stop. Another program that connects says it itself.
    pub(crate) fn warnings(&self) -> &[String] {
        if self.via == Via::Inside { &self.connecting.warnings } else { &[] }
    }

    /// The request for the configuration of `host`, for connecting again: nobody is asked anything.
    pub(crate) fn request_again(&self, host: &Host) -> Request {
        let mut request = self.request(host);
        request.command_line.insert(0, CommandLine::Flag("BatchMode", vec!["yes".to_owned()]));
        request
    }

    /// The request for the configuration of `host`.
    pub(crate) fn request(&self, host: &Host) -> Request {
        let (port, user) = (host.port, host.user.as_deref());
        let mut request = self.connecting.request(&host.name, port, user, self.account.clone());
        if let Some(bytes) = self.pace {
            let rate = bytes.saturating_mul(8).to_string();
            request.command_line.insert(0, CommandLine::Flag("TcpPacing", vec![rate]));
        }
        request.rate_limit = self.rate_limit();
        request
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::PathBuf;

    use lh_config::client::CommandLine;

    use super::*;

    fn interpreted(words: &[&str]) -> Result<Arguments, Stop> {
        let parsed = SCP.parse(words.iter().map(OsString::from))?;
        let home = PathBuf::from("/home/me");
        interpret(&parsed, Account { name: "me".into(), uid: 1000, home, host_name: "here".into() })
    }

    #[test]
    fn flags_reach_copy_and_configuration() {
        let words = [
            "-rpC",
            "-l",
            "800",
            "-P2222",
            "-o",
            "User=x",
            "-X",
            "nrequests=7",
            "-X",
            "buffer=1000",
            "a",
            "b",
            "u@h:c",
        ];
        let got = interpreted(&words).expect("fine");
        assert!(got.options.recursive && got.options.preserve && got.needs_directory());
        assert_eq!(got.options.bits_per_second, Some(800 * 1024));
        assert_eq!((got.options.max_requests, got.options.request_bytes), (Some(7), Some(1000)));
        let Place::Remote { host, .. } = &got.target else { panic!("remote") };
        let lines = got.request(host).command_line;
        let place = |line: CommandLine| lines.iter().position(|each| *each == line).expect("the line");
        place(CommandLine::Flag("Compression", vec!["yes".into()]));
        place(CommandLine::Flag("Port", vec!["2222".into()]));
        // The user of u@h comes behind -o: first value wins.
        let user = place(CommandLine::Flag("User", vec!["u".into()]));
        assert!(place(CommandLine::Option("User=x".into())) < user);
    }

    #[test]
    fn a_port_in_a_uri_wins_over_the_flag() {
        let got = interpreted(&["-P", "1", "scp://h:2/x", "y"]).expect("fine");
        let Place::Remote { host, .. } = &got.sources[0] else { panic!("remote") };
        assert_eq!(got.request(host).command_line[0], CommandLine::Flag("Port", vec!["2".into()]));
    }

    #[test]
    fn mistakes_are_told_with_openssh_s_status() {
        for words in [&["a"][..], &[], &["-l", "x", "a", "b"], &["a", "scp://"], &["-O", "a", "-h:b"]] {
            assert_eq!(interpreted(words).expect_err("a mistake").status, 1, "{words:?}");
        }
        assert!(interpreted(&["a"]).expect_err("a mistake").err.starts_with("usage: lhscp"));
        assert_eq!(interpreted(&["-M", "ftp", "a", "h:b"]).expect_err("a mistake").status, 1);
        for (words, text) in [
            (&["a", "-h:b"][..], "hostname contains invalid characters\nlhscp: Connection closed\n"),
            (&["a", "b;c@h:"], "remote username contains invalid characters\nlhscp: Connection closed\n"),
            (&["-X", "x=1", "a", "h:b"], "lhscp: Invalid -X option\n"),
            (&["-X", "buffer=0", "a", "h:b"], "lhscp: Invalid buffer size \"0\": must be 1 to 262144\n"),
        ] {
            let stop = interpreted(words).expect_err("a mistake");
            assert_eq!((stop.status, stop.err.as_str()), (255, text));
        }
        let stop = interpreted(&["-P", "x", "a", "h:b"]).expect_err("a mistake");
        assert_eq!((stop.status, stop.err.as_str()), (255, "lhscp: bad port \"x\"\n"));
    }

    #[test]
    fn a_pace_is_in_bits_and_has_units() {
        let pace = |text: &str| interpreted(&["--pace", text, "a", "h:b"]).map(|got| got.pace);
        for (text, bytes) in [("8000", 1_000), ("80k", 10_000), ("800M", 100_000_000), ("40G", 5_000_000_000)]
        {
            assert_eq!(pace(text).expect("fine"), Some(bytes));
        }
        for text in ["", "M", "0", "-1", "1.5G", "99999999999999G"] {
            assert_eq!(pace(text).expect_err("a mistake").status, 1, "{text}");
        }
    }

    #[test]
    fn the_last_flag_decides_about_protocol_and_route() {
        let mode = |flags: &[&str]| interpreted(&[flags, &["a", "h:b"]].concat()).expect("fine").mode;
        assert_eq!(mode(&[]), Mode::Sftp);
        assert_eq!(mode(&["-O"]), Mode::Legacy);
        assert_eq!(mode(&["-Os"]), Mode::Sftp);
        assert_eq!(mode(&["-s", "-M", "scp"]), Mode::Legacy);
        assert!(interpreted(&["-R", "g:a", "h:b"]).expect("fine").direct);
        assert!(!interpreted(&["-R3", "g:a", "h:b"]).expect("fine").direct);
        let both = interpreted(&["-S", "ssh", "-D", "server", "g:a", "h:b"]).expect("fine");
        assert_eq!(both.via, Via::Server("server".into()));
    }

    #[test]
    fn a_program_like_ssh_gets_the_flags_that_mean_something_to_it() {
        let got = interpreted(&["-4Cpqr", "-i", "key", "-oUser=x", "-B", "-l", "8", "-P", "22", "a", "h:b"]);
        let got = got.expect("fine");
        assert_eq!(got.ssh_words, ["-4", "-C", "-q", "-i", "key", "-o", "User=x", "-oBatchMode=yes"]);
        assert_eq!(got.port, Some(22));
    }
}
