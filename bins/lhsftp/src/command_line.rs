//! Interprets flags: how to reach the server, and the settings of the commands.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use lh_cli::copying::{ALWAYS, Connecting, channels};
use lh_cli::flags::{Parsed, SFTP, Stop};
use lh_config::Account;
use lh_config::client::Request;
use lh_sftp_shell::{Journals, NO_CONNECTION, Settings};
use lh_transfer::{Options, Placing, Verify, journal};

use crate::over_ssh::Server;
use crate::place::{Place, PlaceError};

/// Source of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    File(PathBuf),
    /// `-b -`.
    Standard,
}

/// How the server is reached.
#[derive(Debug)]
pub(crate) enum ServerAccess {
    /// On the pipes of a program (`-D`, `-S`).
    Program { words: Vec<OsString>, name: String },
    /// Over SSH, in this process.
    Ssh { request: Box<Request>, server: Server, name: String },
}

/// The interpreted command line.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) access: ServerAccess,
    pub(crate) settings: Settings,
    pub(crate) batch: Option<Batch>,
    /// The path in the destination.
    pub(crate) path: Option<Vec<u8>>,
    /// Local target of a file that the destination names.
    pub(crate) target: Option<Vec<u8>>,
}

/// Flags that are passed on to another `ssh`.
const HANDED_ON: &str = "46ACFJciov";

/// Makes sense of a parsed command line.
///
/// # Errors
/// What to print and the exit status.
pub(crate) fn interpret(parsed: &Parsed, account: Account) -> Result<Arguments, Stop> {
    if parsed.has('h') {
        return Err(usage());
    }
    if parsed.count('b') > 1 {
        return Err(fatal("Batch file already specified."));
    }
    let batch = parsed.value('b').map(|path| match path.as_bytes() {
        b"-" => Batch::Standard,
        _ => Batch::File(PathBuf::from(path)),
    });
    let quiet = (batch.is_some() || parsed.has('q')) && !parsed.has('N');
    let mut settings = Settings {
        batch: batch.is_some(),
        quiet,
        progress: batch.is_none() && !parsed.has('q') && std::io::stdout().is_terminal(),
        echo: false,
        resume: parsed.has('a'),
        sync: parsed.has('f'),
        preserve: parsed.has('p'),
        recursive: parsed.has('r'),
        verbose: parsed.has('v'),
        journals: None,
        copy: copy_options(parsed)?,
    };
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let directory = journal::directory(state, &account.home);
    if let Some(command) = parsed.value('D') {
        settings.journals = Some(Journals { directory, server: command.as_bytes().to_vec() });
        let (access, target) = (direct(command.as_bytes())?, None);
        return Ok(Arguments { access, settings, batch, path: None, target });
    }
    let (word, target) = match &parsed.operands[..] {
        [word] => (word, None),
        [word, target] => (word, Some(target.as_bytes().to_vec())),
        _ => return Err(usage()),
    };
    let place = Place::parse(word).map_err(|error| no_place(&error))?;
    let server = match parsed.value('s') {
        None => Server::Subsystem("sftp".to_owned()),
        Some(server) if server.as_bytes().contains(&b'/') => Server::Command(server.as_bytes().to_vec()),
        Some(subsystem) => Server::Subsystem(subsystem.to_string_lossy().into_owned()),
    };
    let name = format!("Connected to {}.", place.host);
    let path = place.path.clone();
    let Place { user, host, port, .. } = &place;
    if let Some(text) = parsed.text('P')
        && lh_client::destination::parse_port(&text).is_none_or(|port| port == 0)
    {
        return Err(fatal(&format!("Bad port \"{text}\"")));
    }
    let port = port.map(|port| port.to_string()).or_else(|| parsed.text('P'));
    let known_as = format!("{user:?}@{host}:{port:?}").into_bytes();
    settings.journals = Some(Journals { directory, server: known_as });
    let access = match parsed.value('S') {
        Some(program) => {
            ServerAccess::Program { words: other_ssh(program.to_owned(), parsed, &place, server), name }
        }
        None => {
            let connecting = Connecting::new(parsed, 'b', &account);
            connecting.warnings.iter().for_each(|warning| lh_sftp_shell::say(warning));
            let request = connecting.request(&place.host, place.port, place.user.as_deref(), account);
            ServerAccess::Ssh { request: Box::new(request), server, name }
        }
    };
    Ok(Arguments { access, settings, batch, path, target })
}

fn usage() -> Stop {
    Stop { out: String::new(), err: SFTP.usage(), status: SFTP.usage_status }
}

fn no_place(error: &PlaceError) -> Stop {
    match error {
        PlaceError::Usage(None) => usage(),
        PlaceError::Usage(Some(text)) => Stop { err: format!("{text}\n{}", SFTP.usage()), ..usage() },
        PlaceError::Login(error) => fatal(&format!("{error}\r\nConnection closed")),
    }
}

/// Ends like OpenSSH's `sftp` before it has a connection.
fn fatal(text: &str) -> Stop {
    Stop { out: String::new(), err: format!("{text}\r\n"), status: NO_CONNECTION }
}

fn direct(command: &[u8]) -> Result<ServerAccess, Stop> {
    let words = lh_sftp_shell::words::split(command).map_err(|error| fatal(&error.to_string()))?;
    let words: Vec<OsString> =
        words.iter().map(|word| OsString::from_vec(lh_sftp_shell::words::unescape(word))).collect();
    if words.is_empty() {
        return Err(usage());
    }
    let name = format!("Attached to {}.", lh_cli::progress::printable(command));
    Ok(ServerAccess::Program { words, name })
}

fn copy_options(parsed: &Parsed) -> Result<Options, Stop> {
    let mut options = Options {
        placing: Placing { atomic: true, ..Placing::default() },
        verify: Verify::WhenCheap,
        ..Options::default()
    };
    if let Some(limit) = parsed.text('l') {
        let kilobits = limit.parse().ok().filter(|kilobits: &u64| (1..=100 * 1024 * 1024).contains(kilobits));
        options.limits.bits_per_second = Some(kilobits.ok_or_else(usage)? * 1024);
    }
    options.limits.channels = channels(parsed).map_err(|error| fatal(&error.to_string()))?;
    if let Some(size) = parsed.text('B') {
        let bytes = size.parse().ok().filter(|&bytes| bytes > 0);
        options.limits.request_bytes =
            Some(bytes.ok_or_else(|| fatal(&format!("Invalid buffer size \"{size}\"")))?);
    }
    if let Some(number) = parsed.text('R') {
        let requests = number.parse().ok().filter(|&requests| requests > 0);
        options.limits.requests =
            Some(requests.ok_or_else(|| fatal(&format!("Invalid number of requests \"{number}\"")))?);
    }
    for option in parsed.values('X') {
        let option = option.to_string_lossy();
        let (name, value) = option.split_once('=').ok_or_else(|| fatal("Invalid -X option"))?;
        let number = |most: u64| value.parse().ok().filter(|number| (1..=most).contains(number));
        match name {
            "buffer" => {
                let wrong = || fatal(&format!("Invalid buffer size \"{value}\": must be 1 to 262144"));
                options.limits.request_bytes = Some(number(256 * 1024).ok_or_else(wrong)? as u32);
            }
            "nrequests" => {
                let wrong = || fatal(&format!("Invalid number of requests \"{value}\": must be 1 to 8192"));
                options.limits.requests = Some(number(8 * 1024).ok_or_else(wrong)? as usize);
            }
            _ => return Err(fatal("Invalid -X option")),
        }
    }
    Ok(options)
}

/// The command line of another `ssh`.
fn other_ssh(program: OsString, parsed: &Parsed, place: &Place, server: Server) -> Vec<OsString> {
    let mut words = vec![program];
    for (keyword, value) in &ALWAYS[..3] {
        words.push(format!("-o{keyword} {value}").into());
    }
    if parsed.has('b') {
        words.push("-oBatchMode yes".into());
    }
    for (flag, value) in &parsed.flags {
        if HANDED_ON.contains(*flag) {
            words.push(format!("-{flag}").into());
            words.extend(value.clone());
        }
    }
    if !parsed.has('A') {
        words.push("-oForwardAgent no".into());
    }
    if parsed.has('q') {
        words.push("-q".into());
    }
    if let Some(port) = place.port.map(|port| port.to_string()).or_else(|| parsed.text('P')) {
        words.push(format!("-oPort {port}").into());
    }
    if let Some(user) = &place.user {
        words.extend(["-l".into(), user.into()]);
    }
    let (subsystem, server) = match server {
        Server::Subsystem(name) => (true, OsString::from(name)),
        Server::Command(command) => (false, OsString::from_vec(command)),
    };
    if subsystem {
        words.push("-s".into());
    }
    words.extend(["--".into(), OsString::from(&place.host), server]);
    words
}

#[cfg(test)]
mod tests {
    use lh_config::client::CommandLine;

    use super::*;

    fn interpreted(words: &[&str]) -> Result<Arguments, Stop> {
        let parsed = SFTP.parse(words.iter().map(OsString::from))?;
        let home = PathBuf::from("/home/me");
        interpret(&parsed, Account { name: "me".into(), uid: 1000, home, host_name: "here".into() })
    }

    #[test]
    fn flags_reach_commands_and_configuration() {
        let words =
            ["-afpr", "-j5", "-l800", "-B", "1000", "-R7", "-P2222", "-o", "User=x", "-b-", "u@h:/dir", "to"];
        let got = interpreted(&words).expect("fine");
        let settings = &got.settings;
        assert!(settings.resume && settings.sync && settings.preserve && settings.recursive);
        assert!(settings.batch && settings.quiet && !settings.progress);
        assert_eq!(settings.copy.limits.bits_per_second, Some(800 * 1024));
        assert_eq!(
            (settings.copy.limits.requests, settings.copy.limits.request_bytes),
            (Some(7), Some(1000))
        );
        assert_eq!(settings.copy.limits.channels, Some(5));
        assert_eq!(got.batch, Some(Batch::Standard));
        assert_eq!((got.path.as_deref(), got.target.as_deref()), (Some(&b"/dir"[..]), Some(&b"to"[..])));
        let ServerAccess::Ssh { request, server, name } = got.access else { panic!("over SSH") };
        assert_eq!((server, name.as_str()), (Server::Subsystem("sftp".into()), "Connected to h."));
        for line in [("BatchMode", "yes"), ("Port", "2222"), ("ForwardAgent", "no"), ("User", "u")] {
            let line = CommandLine::Flag(line.0, vec![line.1.to_owned()]);
            assert!(request.command_line.contains(&line), "{line:?}");
        }
    }

    #[test]
    fn another_ssh_gets_what_it_needs() {
        let words = ["-S", "/bin/ssh", "-vC", "-i", "key", "-s", "/usr/lib/sftp-server", "sftp://u@h:22/x"];
        let ServerAccess::Program { words, .. } = interpreted(&words).expect("fine").access else {
            panic!("a program")
        };
        let text: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(text[0], "/bin/ssh");
        let has = |wanted: &[&str]| text.windows(wanted.len()).any(|window| window == wanted);
        assert!(
            has(&["-i", "key"]) && has(&["-v"]) && has(&["-C"]) && has(&["-oPort 22"]) && has(&["-l", "u"])
        );
        assert!(text.ends_with(&["--", "h", "/usr/lib/sftp-server"]) && !has(&["-s"]));
        let ServerAccess::Program { words, .. } = interpreted(&["-S", "x", "h"]).expect("fine").access else {
            panic!()
        };
        assert!(words.ends_with(&["-s".into(), "--".into(), "h".into(), "sftp".into()]));
    }

    #[test]
    fn a_local_server_is_split_into_words() {
        let got = interpreted(&["-D", "'/my server' -el debug3"]).expect("fine");
        let ServerAccess::Program { words, name } = got.access else { panic!("a program") };
        assert_eq!(words, ["/my server", "-el", "debug3"]);
        assert_eq!(name, "Attached to '/my server' -el debug3.");
    }

    #[test]
    fn mistakes_end_as_in_openssh() {
        for (words, status) in [
            (&["-Z"][..], 1),
            (&[], 1),
            (&["a", "b", "c"], 1),
            (&["-l0", "h"], 1),
            (&["-h"], 1),
            (&["-B0", "h"], 255),
            (&["-R0", "h"], 255),
            (&["-j0", "h"], 255),
            (&["-j65", "h"], 255),
            (&["-P", "99999", "h"], 255),
            (&["-X", "x=1", "h"], 255),
            (&["-X", "buffer=0", "h"], 255),
            (&["-b", "a", "-b", "b", "h"], 255),
            (&["@h"], 1),
            (&[""], 1),
            (&["me@"], 1),
            (&["sftp://h:x/y"], 1),
            (&["--", "-h"], 255),
        ] {
            assert_eq!(interpreted(words).expect_err("a mistake").status, status, "{words:?}");
        }
    }
}
