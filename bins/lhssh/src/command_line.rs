//! Translates the command line into a configuration request and the program's own settings.

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use lh_cli::copying::{assign, log_level};
use lh_cli::flags::Parsed;
use lh_cli::identity::identity_warning;
use lh_client::destination::DestinationError;
use lh_client::{Destination, SystemEnvironment};
use lh_config::algorithms::AlgorithmKind;
use lh_config::client::{CommandLine, JumpHost, Request, UserFile};
use lh_config::forward::{Endpoint, Forward, parse_port};
use lh_config::names::{host_is_safe, user_is_safe};
use lh_config::special::EscapeChar;
use lh_config::token::expand_environment;
use lh_config::{Account, ConfigError, Environment as _};

use crate::errors::CommandLineError;

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// Request for the configuration.
    pub(crate) request: Request,
    /// The command, its words joined by blanks; `None` without one.
    pub(crate) command: Option<Vec<u8>>,
    /// `-G`.
    pub(crate) print_config: bool,
    /// `-E`.
    pub(crate) log_file: Option<PathBuf>,
    /// `-y`.
    pub(crate) syslog: bool,
    /// `-Z`.
    pub(crate) list_keys: bool,
    /// `-T`, which forbids HPN-SSH's NONE cipher: a user of a shell without a terminal might believe it
    /// encrypted.
    pub(crate) encrypted: bool,
    /// `-O`.
    pub(crate) control: Option<ControlCommand>,
    /// `-W`.
    pub(crate) stdio: Option<Endpoint>,
    /// Warnings to log once the log is open.
    pub(crate) warnings: Vec<String>,
}

/// Command of `-O` to the master of a shared connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControlCommand {
    /// Report whether the master runs.
    Check,
    /// Add the forwards of this command line.
    Forward,
    /// Remove the forwards of this command line.
    Cancel,
    /// Exit.
    Exit,
    /// Accept no further mux clients.
    Stop,
    /// Run this session over the master's connection, as a mux client that speaks for its channels itself.
    Proxy,
    /// Print information about the connection.
    Information,
    /// Print the open channels.
    Channels,
}

impl ControlCommand {
    fn parse(text: &str) -> Result<Self, CommandLineError> {
        Ok(match text {
            "check" => Self::Check,
            "forward" => Self::Forward,
            "cancel" => Self::Cancel,
            "exit" => Self::Exit,
            "stop" => Self::Stop,
            "proxy" => Self::Proxy,
            "conninfo" => Self::Information,
            "channels" => Self::Channels,
            _ => return Err(CommandLineError::Control),
        })
    }
}

/// Flags that [set](assign) a keyword to a fixed value.
const FIXED: &[(char, &str, &str)] = &[
    ('4', "AddressFamily", "inet"),
    ('6', "AddressFamily", "inet6"),
    ('A', "ForwardAgent", "yes"),
    ('C', "Compression", "yes"),
    ('K', "GSSAPIAuthentication", "yes"),
    ('K', "GSSAPIDelegateCredentials", "yes"),
    ('a', "ForwardAgent", "no"),
    ('f', "ForkAfterAuthentication", "yes"),
    ('f', "StdinNull", "yes"),
    ('g', "GatewayPorts", "yes"),
    ('k', "GSSAPIDelegateCredentials", "no"),
    ('n', "StdinNull", "yes"),
    ('X', "ForwardX11", "yes"),
    ('Y', "ForwardX11", "yes"),
    ('Y', "ForwardX11Trusted", "yes"),
    ('x', "ForwardX11", "no"),
];

/// Flags that [set](assign) a keyword to their value.
const VALUED: &[(char, &str)] = &[('B', "BindInterface"), ('b', "BindAddress"), ('I', "PKCS11Provider")];

/// Interprets a parsed command line.
///
/// # Errors
/// See [`CommandLineError`].
pub(crate) fn interpret(parsed: &Parsed, account: Account) -> Result<Arguments, CommandLineError> {
    let mut operands = parsed.operands.iter();
    let Some(destination) = operands.next() else {
        return Err(bad_option(parsed, account).map_or(CommandLineError::Usage, CommandLineError::Option));
    };
    let destination =
        destination.to_str().ok_or(DestinationError::HostCharacters).and_then(Destination::parse).map_err(
            |error| match error {
                DestinationError::Malformed => CommandLineError::Usage,
                error => CommandLineError::Destination(error),
            },
        )?;
    let words: Vec<&OsStr> = operands.map(OsString::as_os_str).collect();
    // `ssh host ""` starts a shell: scripts pass a variable that may be empty.
    let command = Some(join(&words)).filter(|command| !command.is_empty());
    let mut request = Request::new(&destination.host, account);
    let mut warnings = Vec::new();
    let (mut stdio, mut control, mut terminal) = (None, None, None);
    let user = destination.user.clone().map(|user| CommandLine::Flag("User", vec![user]));
    let port = destination.port.map(|port| CommandLine::Flag("Port", vec![port.to_string()]));
    let named: Vec<CommandLine> = user.into_iter().chain(port).collect();
    for (index, (flag, value)) in parsed.flags.iter().enumerate() {
        if index == parsed.flags_before_operands {
            // Flags before the destination override its user name and port; flags after it do not.
            request.command_line.extend(named.clone());
        }
        let text = || value.as_deref().unwrap_or_default().to_string_lossy().into_owned();
        let lines = &mut request.command_line;
        for (_, keyword, fixed) in FIXED.iter().filter(|(each, ..)| each == flag) {
            assign(lines, keyword, fixed);
        }
        match flag {
            'i' => match identity_warning(&text(), &request.account) {
                Some(warning) => warnings.push(warning),
                None => lines.push(CommandLine::Flag("IdentityFile", vec![text()])),
            },
            'L' => lines.push(forward("LocalForward", "local", &text(), |spec| Forward::parse(spec, false))?),
            'R' => {
                lines.push(forward("RemoteForward", "remote", &text(), |spec| Forward::parse(spec, true))?)
            }
            'D' => {
                let typed = text();
                let spec = expand_environment(&typed, &SystemEnvironment)
                    .ok()
                    .filter(|spec| Forward::parse_dynamic(spec).is_some())
                    .ok_or_else(|| bad_forward("dynamic", &typed))?;
                lines.push(CommandLine::Flag("DynamicForward", vec![spec]));
            }
            'W' => {
                if stdio.is_some() {
                    return Err(CommandLineError::SecondStdio);
                }
                let spec = text();
                // The argument has the form of a remote forward without a target.
                stdio = Some(
                    expand_environment(&spec, &SystemEnvironment)
                        .ok()
                        .and_then(|spec| Forward::parse(&spec, true))
                        .filter(|forward| forward.connect.is_none() && has_port(&forward.listen))
                        .ok_or_else(|| bad_forward("stdio", &spec))?
                        .listen,
                );
            }
            'S' => {
                assign(lines, "ControlPath", &text());
            }
            'c' | 'm' => {
                let (keyword, algorithms, kind) = match flag {
                    'c' => ("Ciphers", AlgorithmKind::Cipher, "cipher"),
                    _ => ("MACs", AlgorithmKind::Mac, "mac"),
                };
                let list = text();
                let known = |name: &str| SystemEnvironment.knows_algorithm(algorithms, name, true);
                if !list.trim_start_matches(['+', '-', '^']).split(',').all(known) {
                    return Err(CommandLineError::Algorithm { kind, list });
                }
                assign(lines, keyword, &list);
            }
            'p' => {
                let port = text();
                if parse_port(&port).is_none_or(|port| port == 0) {
                    return Err(CommandLineError::Port(port));
                }
                lines.push(CommandLine::Flag("Port", vec![port]));
            }
            'e' => {
                let character = text();
                if character.parse::<EscapeChar>().is_err() {
                    return Err(CommandLineError::Escape(character));
                }
                assign(lines, "EscapeChar", &character);
            }
            'w' => {
                let spec = text();
                if !is_tunnel(&spec) {
                    return Err(CommandLineError::Tunnel(spec));
                }
                assign(lines, "TunnelDevice", &spec);
            }
            'N' => lines.push(session_type(lines, "none").ok_or(CommandLineError::NoneAndSession)?),
            's' => {
                let line = session_type(lines, "subsystem").filter(|_| stdio.is_none());
                lines.push(line.ok_or(CommandLineError::SubsystemAndSession)?);
            }
            'P' => lines.push(CommandLine::Flag("Tag", vec![text()])),
            'l' => lines.push(CommandLine::Flag("User", vec![text()])),
            'J' => lines.push(jump(lines, text())?),
            't' | 'T' => terminal = Some(terminal_after(terminal, *flag)),
            'O' => control = Some(ControlCommand::parse(&text())?),
            'o' => lines.push(CommandLine::Option(text())),
            'F' => {
                request.user_file = match text().as_str() {
                    path if path.eq_ignore_ascii_case("none") => UserFile::None,
                    path => UserFile::Named(PathBuf::from(path)),
                };
            }
            _ => {
                for (_, keyword) in VALUED.iter().filter(|(each, _)| each == flag) {
                    assign(lines, keyword, &text());
                }
            }
        }
    }
    if command.is_none() && parsed.has('s') {
        return Err(CommandLineError::NoSubsystem);
    }
    if !matches!(request.user_file, UserFile::Default) {
        request.system_file = None;
    }
    let lines = &mut request.command_line;
    if stdio.is_some() {
        // After all other flags, so that those win.
        for (keyword, value) in [
            ("SessionType", "none"),
            ("RequestTTY", "no"),
            ("ExitOnForwardFailure", "yes"),
            ("ClearAllForwardings", "yes"),
        ] {
            lines.push(CommandLine::Flag(keyword, vec![value.to_owned()]));
        }
    }
    if parsed.has('w') {
        // The default; -o Tunnel selects another kind.
        lines.push(CommandLine::Flag("Tunnel", vec!["point-to-point".to_owned()]));
    }
    match parsed.count('M') {
        0 => {}
        1 => assign(lines, "ControlMaster", "yes"),
        _ => assign(lines, "ControlMaster", "ask"),
    }
    if let Some(terminal) = terminal {
        assign(lines, "RequestTTY", terminal);
    }
    if let Some(level) = log_level(parsed) {
        assign(lines, "LogLevel", level);
    }
    lines.extend(named);
    request.command = command.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Ok(Arguments {
        request,
        command,
        print_config: parsed.has('G'),
        log_file: parsed.value('E').map(PathBuf::from),
        syslog: parsed.has('y'),
        list_keys: parsed.has('Z'),
        encrypted: parsed.has('T'),
        control,
        stdio,
        warnings,
    })
}

/// Error of an `-o` on a command line without a host: programs use such a call to probe for options (`ssh -o
/// ControlPersist`).
fn bad_option(parsed: &Parsed, account: Account) -> Option<ConfigError> {
    let mut request = Request::new("none", account);
    (request.user_file, request.system_file) = (UserFile::None, None);
    let option = |text: &OsStr| CommandLine::Option(text.to_string_lossy().into_owned());
    request.command_line = parsed.values('o').map(option).collect();
    lh_client::Options::load(&request).err()
}

/// A forward in its keyword's form: two words, which the keyword's parser joins again.
fn forward(
    keyword: &'static str,
    kind: &'static str,
    spec: &str,
    parse: impl Fn(&str) -> Option<Forward>,
) -> Result<CommandLine, CommandLineError> {
    // As in ssh, `${NAME}` may stand for any part. The first colon of the result may be a variable's.
    let bad = || bad_forward(kind, spec);
    let expanded = expand_environment(spec, &SystemEnvironment).map_err(|_| bad())?;
    let forward = parse(&expanded).ok_or_else(bad)?;
    let spec = &*expanded;
    let words = match spec.split_once(':').filter(|_| forward.connect.is_some()) {
        // An empty address means all of them.
        Some(("", rest)) => vec!["*".to_owned(), rest.to_owned()],
        Some((first, rest)) => vec![first.to_owned(), rest.to_owned()],
        None => vec![spec.to_owned()],
    };
    Ok(CommandLine::Flag(keyword, words))
}

fn bad_forward(kind: &'static str, spec: &str) -> CommandLineError {
    CommandLineError::Forward { kind, spec: spec.to_owned() }
}

/// Value of `RequestTTY` after `-t` or `-T`: the last flag decides, and a repeated `-t` forces a terminal.
fn terminal_after(before: Option<&'static str>, flag: char) -> &'static str {
    match (flag, before) {
        ('T', _) => "no",
        (_, Some("yes" | "force")) => "force",
        _ => "yes",
    }
}

/// `-J` as a keyword. It is given once, and not after a `ProxyCommand`.
fn jump(earlier: &[CommandLine], spec: String) -> Result<CommandLine, CommandLineError> {
    let set = |keyword: &str| earlier.iter().any(|line| value_of(line, keyword).is_some());
    if set("ProxyJump") {
        return Err(CommandLineError::SecondJump);
    }
    if set("ProxyCommand") {
        return Err(CommandLineError::JumpAndProxy);
    }
    let safe = |hop: &JumpHost| host_is_safe(&hop.host) && hop.user.as_deref().is_none_or(user_is_safe);
    if spec.is_empty() || !JumpHost::parse_list(&spec).is_some_and(|hops| hops.iter().all(safe)) {
        return Err(CommandLineError::Jump);
    }
    Ok(CommandLine::Flag("ProxyJump", vec![spec]))
}

/// `-N` or `-s` as a keyword. `None` if an earlier flag or `-o` has set another type.
fn session_type(earlier: &[CommandLine], wanted: &str) -> Option<CommandLine> {
    let set = earlier.iter().find_map(|line| value_of(line, "SessionType"));
    // Options spell it as they like.
    let is_same = |value: &str| value.trim_matches('"').eq_ignore_ascii_case(wanted);
    set.is_none_or(is_same).then(|| CommandLine::Flag("SessionType", vec![wanted.to_owned()]))
}

/// Value that a line gives to `keyword`; `None` for a line with another keyword.
fn value_of<'a>(line: &'a CommandLine, keyword: &str) -> Option<&'a str> {
    let is_separator = |c: char| c == '=' || c.is_whitespace();
    match line {
        CommandLine::Flag(name, words) => {
            (*name == keyword).then(|| words.first().map_or("", String::as_str))
        }
        CommandLine::Option(text) => {
            let end = text.find(is_separator).unwrap_or(text.len());
            text[..end].eq_ignore_ascii_case(keyword).then(|| text[end..].trim_matches(is_separator))
        }
    }
}

/// Returns whether the text is `local[:remote]`, each a number or `any`.
fn is_tunnel(spec: &str) -> bool {
    spec.splitn(2, ':').all(|unit| unit == "any" || unit.parse::<u32>().is_ok())
}

/// Returns whether the endpoint is a host with a port, or a Unix socket.
const fn has_port(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Tcp { host, port } => host.is_some() && *port != 0,
        Endpoint::Unix(_) => true,
    }
}

/// Joins words for the remote shell, which splits them again, as with ssh.
fn join(words: &[&OsStr]) -> Vec<u8> {
    words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>().join(&b' ')
}
