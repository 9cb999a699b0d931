//! `lhsshd`, the SSH server: reads its flags and its configuration, loads its keys, and listens.

mod options;
mod stop;

use std::ffi::OsString;
use std::io::Write;
use std::net::ToSocketAddrs;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lh_cli::flags::SSHD;
use lh_config::enums::LogLevel;
use lh_config::server_values::Ports;
use lh_config::{ConfigFault, ConnectionFacts, ServerConfig};
use lh_server::{
    HandOver, Host, HostKey, HostKeyError, Level, ListenerOptions, LogTarget, Restart, SESSION_FLAG,
    default_algorithms,
};
use lh_sys::service::Service;

use options::{ConfigFile, Mode, Options};
use stop::Stop;

pub use lh_server::SESSION_NAME;

/// The file of an installed OpenSSH: what administrators have written there holds here.
const CONFIG_FILE: &str = "/etc/ssh/sshd_config";

/// Exit status for configurations whose text is wrong, as sshd's.
const BAD_CONFIGURATION: u8 = 255;
/// Exit status for a file that cannot be read and for options that are no statements, as sshd's.
const NO_CONFIGURATION: u8 = 1;
/// Exit status when there is no key to be recognised by, as sshd's.
const NO_HOST_KEYS: u8 = 1;

/// The whole program: reads the command line of the process and returns its exit status.
pub fn main() -> ExitCode {
    // Before anything is opened: passed sockets have fixed numbers.
    let service = Service::take();
    // A file opened later must not get the number of a standard descriptor that is closed.
    if lh_sys::fd::sanitize_stdio().is_err() {
        return ExitCode::from(255);
    }
    lh_sys::signals::ignore_write_signals();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == SESSION_FLAG) {
        return status(lh_server::session_main(arguments.get(2..).unwrap_or_default()));
    }
    let parsed = match SSHD.parse(arguments.iter().skip(1).cloned()) {
        Ok(parsed) => parsed,
        Err(stop) => return ExitCode::from(stop.print()),
    };
    match Options::new(&parsed).and_then(|options| run(&options, &arguments, service)) {
        Ok(code) => code,
        Err(stop) => {
            for line in stop.lines {
                complain(&line);
            }
            ExitCode::from(stop.status)
        }
    }
}

fn status(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(255))
}

/// Writes a line to standard error, ignoring errors.
fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn run(options: &Options, arguments: &[OsString], service: Service) -> Result<ExitCode, Stop> {
    let mode = options.mode;
    if mode == Mode::Version {
        complain(&SSHD.version());
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &options.log_file {
        redirect_stderr(path).map_err(|problem| {
            let why = lh_sys::errno_text(&problem);
            Stop::new(format!("Couldn't open logfile {}: {why}", path.display()), 1)
        })?;
    }
    if options.connection.is_some() && !mode.is_test() {
        let line = "Config test connection parameter (-C) provided without test mode (-T)";
        return Err(Stop::new(line, BAD_CONFIGURATION));
    }
    let config = load(options)?;
    // The configuration may be a pipe that the shell has opened (`-f <(…)`). Nothing is open beside that and
    // the sockets, and what the caller left open must not live on in sessions.
    if let Err(problem) = lh_sys::fd::close_inherited(&service.numbers()) {
        complain(&format!("cannot close inherited descriptors: {problem}"));
    }
    if mode == Mode::Print {
        say(&dump(&config, options.connection.clone())?);
        return Ok(ExitCode::SUCCESS);
    }
    // Also where the file is only checked.
    let most = if options.debug > 0 { LogLevel::Debug1 } else { config.log_level.value.max(LogLevel::Info) };
    config.notes.iter().filter(|note| note.level <= most).for_each(|note| complain(&note.text));
    if config.use_pam.value && !lh_server::PAM && !lh_server::is_restarted() {
        complain(&format!("{}: Unsupported option UsePAM", config.use_pam.origin));
    }
    let problem = lh_server::load_libraries(&config)
        .map_err(|line| Stop { lines: vec![line], status: BAD_CONFIGURATION })?;
    problem.iter().for_each(|line| complain(line));
    listen_addresses(&config)?;
    let lines = lh_server::contradiction(&config);
    if !lines.is_empty() {
        return Err(Stop { lines, status: BAD_CONFIGURATION });
    }
    let host_keys = host_keys(&config)?;
    if mode == Mode::CheckAndPrint {
        say(&dump(&config, options.connection.clone())?);
    }
    if mode.is_test() {
        return Ok(ExitCode::SUCCESS);
    }
    let debug = options.debug;
    let to_stderr = debug > 0 || options.log_to_stderr || options.log_file.is_some();
    let log_level = if options.quiet { Some(Level::Quiet) } else { lh_server::debug_level(debug) };
    let log_target = match to_stderr {
        // Standard error that leads to the journal gets lines with fields.
        _ if options.log_file.is_none() && lh_sys::service::stderr_is_journal() => LogTarget::Journal,
        true => LogTarget::Stderr,
        false => LogTarget::Syslog,
    };
    let preauth_ids = lh_server::preauth_ids();
    let hand_over =
        HandOver { config, host_keys, log_target, log_level, oom_score: None, core_limit: None, preauth_ids };
    if mode == Mode::Inetd {
        // With Accept=yes the connection is passed a second time, which would keep it open after its end.
        drop(service);
        return Ok(status(lh_server::inetd(hand_over)));
    }
    // Without /proc only the name that the program was started by is known.
    let program =
        std::env::current_exe().ok().or_else(|| arguments.first().map(PathBuf::from)).unwrap_or_default();
    let listener_options = ListenerOptions {
        foreground: debug > 0 || options.foreground,
        once: debug > 0,
        restart: Some(Restart {
            program,
            arguments: arguments.to_vec(),
            directory: std::env::current_dir().ok(),
        }),
    };
    lh_server::serve(hand_over, &listener_options, service)
        .map(status)
        .map_err(|problem| Stop::new(problem, 255))
}

/// `-E`: the log file becomes standard error, here and in every session.
fn redirect_stderr(path: &Path) -> std::io::Result<()> {
    let file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    lh_sys::fd::replace_stderr(file.as_fd())
}

fn load(options: &Options) -> Result<ServerConfig, Stop> {
    let file = match &options.config_file {
        ConfigFile::None => None,
        ConfigFile::Path(path) => Some(path.as_path()),
        // Ours starts without any file too: every keyword has a default.
        ConfigFile::OfSystem => Some(Path::new(CONFIG_FILE)).filter(|path| path.exists()),
    };
    let mut config = ServerConfig::load(file, &options.statements, &Host).map_err(|problem| {
        let status = match problem.fault {
            ConfigFault::Text => BAD_CONFIGURATION,
            ConfigFault::Unreadable | ConfigFault::Option => NO_CONFIGURATION,
        };
        Stop { lines: problem.lines, status }
    })?;
    if !options.ports.is_empty() {
        config.settings.port.force(Ports(options.ports.clone()));
        if *config.settings.port_for_all_addresses {
            config.settings.listen_address.value.drop_ports();
        }
    }
    Ok(config)
}

/// Whether each `ListenAddress` is an address or the name of one.
fn listen_addresses(config: &ServerConfig) -> Result<(), Stop> {
    for (host, port) in config.listen_endpoints() {
        if let Err(problem) = (host.as_str(), port).to_socket_addrs() {
            let text = problem.to_string();
            let why = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
            let line = format!("bad addr or host: {host} ({why})");
            return Err(Stop::new(line, BAD_CONFIGURATION));
        }
    }
    Ok(())
}

/// `-T` and `-G`, with the `Match` blocks applied that fit `-C`.
fn dump(config: &ServerConfig, facts: Option<ConnectionFacts>) -> Result<String, Stop> {
    let Some(mut facts) = facts else {
        return Ok(config.dump(true, &default_algorithms));
    };
    facts.groups = facts.user.as_deref().map(lh_server::groups_of).unwrap_or_default();
    let config = config
        .for_connection(&facts)
        .map_err(|problem| Stop { lines: problem.lines, status: BAD_CONFIGURATION })?;
    Ok(config.dump(true, &default_algorithms))
}

/// Loads all keys that can be loaded; none at all is the end.
fn host_keys(config: &ServerConfig) -> Result<Vec<HostKey>, Stop> {
    let by_default = !config.host_key.is_set();
    let mut keys = Vec::new();
    let mut lines = Vec::new();
    for file in &config.host_key.0 {
        let path = Path::new(file);
        match HostKey::load(path) {
            Ok(key) => keys.push(key),
            // The private half may be kept by an agent.
            Err(problem) if config.host_key_agent.as_deref().is_some() => {
                let agent = config.host_key_agent.as_deref().unwrap_or_default();
                match HostKey::in_agent(path, agent) {
                    Ok(key) => keys.push(key),
                    Err(_) if by_default && !path.exists() => {}
                    Err(why) => lines.extend([problem.to_string(), why.to_string()]),
                }
            }
            // The default files were not asked for: it is no fault that one is missing.
            Err(HostKeyError::Read { error, .. })
                if by_default && error.kind() == std::io::ErrorKind::NotFound => {}
            Err(problem) => lines.push(problem.to_string()),
        }
    }
    if keys.is_empty() {
        lines.push(format!("{}: no hostkeys available -- exiting.", SSHD.called()));
        return Err(Stop { lines, status: NO_HOST_KEYS });
    }
    for file in &config.host_certificate.0 {
        match HostKey::certified(&keys, Path::new(file)) {
            Ok(key) => keys.push(key),
            Err(problem) => lines.push(problem.to_string()),
        }
    }
    for line in lines {
        complain(&line);
    }
    Ok(keys)
}
