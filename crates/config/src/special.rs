//! Value types with a syntax of their own, each for one or two keywords.

use std::time::Duration;

use crate::forward::parse_port;
use crate::line::Arguments;
use crate::pattern::{ListMatch, match_list};
use crate::table::Value;
use crate::units::{parse_fractional_time, parse_time};
use crate::value_error::{Part, Syntax, ValueError};

/// A port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port(pub u16);

impl Default for Port {
    fn default() -> Self {
        Self(22)
    }
}

impl Value for Port {
    const KIND: &'static str = "port";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        parse_port(&word)
            .filter(|port| *port != 0)
            .map(Self)
            .ok_or_else(|| args.malformed(Syntax::Port, &word))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}", self.0));
    }
}

/// `EscapeChar`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EscapeChar(pub Option<u8>);

/// Not a character, `^` and a letter, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadEscapeChar;

impl std::str::FromStr for EscapeChar {
    type Err = BadEscapeChar;

    fn from_str(word: &str) -> Result<Self, BadEscapeChar> {
        match word.as_bytes() {
            b"none" => Ok(Self(None)),
            [c] => Ok(Self(Some(*c))),
            // The characters whose control characters terminals can send.
            [b'^', c @ 64..128] => Ok(Self(Some(c & 31))),
            _ => Err(BadEscapeChar),
        }
    }
}

impl Value for EscapeChar {
    const KIND: &'static str = "character, ^character or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        word.parse().map_err(|BadEscapeChar| args.malformed(Syntax::EscapeChar, &word))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self.0 {
            None => format!("{name} none"),
            // In the notation of vis(3), as `ssh -G` prints it.
            Some(c) if c < 32 => format!("{name} \\^{}", char::from(c + 64)),
            Some(b' ') => format!("{name} \\040"),
            Some(0x7f) => format!("{name} \\^?"),
            Some(c) => format!("{name} {}", char::from(c)),
        });
    }
}

/// `IPQoS`: DSCP or type-of-service values for interactive and bulk traffic; `None` keeps the system's
/// default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IpQos {
    /// For sessions with a terminal.
    pub interactive: Option<u8>,
    /// For everything else.
    pub bulk: Option<u8>,
}

const QOS_NAMES: &[(&str, u8)] = &[
    ("af11", 0x28),
    ("af12", 0x30),
    ("af13", 0x38),
    ("af21", 0x48),
    ("af22", 0x50),
    ("af23", 0x58),
    ("af31", 0x68),
    ("af32", 0x70),
    ("af33", 0x78),
    ("af41", 0x88),
    ("af42", 0x90),
    ("af43", 0x98),
    ("cs0", 0x00),
    ("cs1", 0x20),
    ("cs2", 0x40),
    ("cs3", 0x60),
    ("cs4", 0x80),
    ("cs5", 0xa0),
    ("cs6", 0xc0),
    ("cs7", 0xe0),
    ("ef", 0xb8),
    ("le", 0x04),
    ("va", 0xb0),
    ("lowdelay", 0x10),
    ("throughput", 0x08),
    ("reliability", 0x04),
];

fn qos(word: &str) -> Option<Option<u8>> {
    if word.eq_ignore_ascii_case("none") {
        return Some(None);
    }
    if let Some((_, value)) = QOS_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
        return Some(Some(*value));
    }
    let value = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(hex) => u8::from_str_radix(hex, 16).ok()?,
        None => word.parse().ok()?,
    };
    Some(Some(value))
}

fn qos_word(value: Option<u8>) -> String {
    match value {
        None => "none".to_string(),
        Some(value) => QOS_NAMES
            .iter()
            .find(|(_, known)| *known == value)
            .map_or_else(|| format!("0x{value:02x}"), |(name, _)| name.to_string()),
    }
}

impl Value for IpQos {
    const KIND: &'static str = "one or two DSCP names or numbers";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let first = args.required()?;
        let interactive = qos(&first).ok_or_else(|| args.malformed(Syntax::Quantity, &first))?;
        let bulk = match args.next_word() {
            None => interactive,
            Some(word) => qos(&word).ok_or_else(|| args.malformed(Syntax::Quantity, &word))?,
        };
        Ok(Self { interactive, bulk })
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {} {}", qos_word(self.interactive), qos_word(self.bulk)));
    }
}

/// `AddKeysToAgent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddKeysToAgent {
    /// Whether keys are added.
    pub add: bool,
    /// Ask the user first (`ask`).
    pub ask: bool,
    /// The agent asks before each use (`confirm`).
    pub confirm: bool,
    /// Lifetime in the agent, seconds.
    pub lifetime: Option<u64>,
}

impl Value for AddKeysToAgent {
    const KIND: &'static str = "yes, no, ask, confirm, or a time";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let first = args.required()?;
        let second = args.next_word();
        let lower = first.to_ascii_lowercase();
        let mut out = Self { add: true, ..Self::default() };
        match (lower.as_str(), &second) {
            ("yes" | "true", None) => {}
            ("no" | "false", None) => out.add = false,
            ("ask", None) => out.ask = true,
            ("confirm", time) => {
                out.confirm = true;
                if let Some(time) = time {
                    out.lifetime = Some(parse_time(time).ok_or_else(|| args.malformed(Syntax::Time, time))?);
                }
            }
            (time, None) => {
                out.lifetime = Some(parse_time(time).ok_or_else(|| args.unknown_word(&first))?);
            }
            _ => return Err(args.unknown_word(&first)),
        }
        Ok(out)
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let word = match (self.add, self.ask, self.confirm) {
            (false, ..) => "false".to_string(),
            (_, true, _) => "ask".to_string(),
            (_, _, true) => "confirm".to_string(),
            _ if self.lifetime.is_some() => String::new(),
            _ => "true".to_string(),
        };
        let time = self.lifetime.map_or(String::new(), |seconds| seconds.to_string());
        let gap = if word.is_empty() || time.is_empty() { "" } else { " " };
        out.push(format!("{name} {word}{gap}{time}"));
    }
}

/// `ForwardAgent`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ForwardAgent {
    /// No.
    #[default]
    No,
    /// The agent of `SSH_AUTH_SOCK`.
    Yes,
    /// The agent at this path, or at the path in the variable named with `$`.
    Path(String),
}

impl Value for ForwardAgent {
    const KIND: &'static str = "yes, no, socket path or $VARIABLE";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        Ok(match word.to_ascii_lowercase().as_str() {
            "yes" | "true" => Self::Yes,
            "no" | "false" => Self::No,
            _ => Self::Path(word),
        })
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self {
            Self::No => format!("{name} no"),
            Self::Yes => format!("{name} yes"),
            Self::Path(path) => format!("{name} {path}"),
        });
    }
}

/// The values of keywords that take `yes`, `no` or a time.
enum YesNoOrTime {
    No,
    Yes,
    Seconds(u64),
}

impl YesNoOrTime {
    const KIND: &'static str = "yes, no or time";

    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        match word.to_ascii_lowercase().as_str() {
            "no" | "false" => Ok(Self::No),
            "yes" | "true" => Ok(Self::Yes),
            time => {
                let seconds = parse_time(time).ok_or_else(|| args.malformed(Syntax::YesNoOrTime, &word))?;
                Ok(Self::Seconds(seconds))
            }
        }
    }
}

impl std::fmt::Display for YesNoOrTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::No => f.write_str("no"),
            Self::Yes => f.write_str("yes"),
            Self::Seconds(seconds) => seconds.fmt(f),
        }
    }
}

/// `ControlPersist`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ControlPersist {
    /// The master exits with its first session.
    #[default]
    No,
    /// It stays until it is told to exit.
    Forever,
    /// It stays for this many seconds after the last session.
    Seconds(u64),
}

impl Value for ControlPersist {
    const KIND: &'static str = YesNoOrTime::KIND;
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        Ok(match YesNoOrTime::parse(args)? {
            YesNoOrTime::No => Self::No,
            YesNoOrTime::Yes | YesNoOrTime::Seconds(0) => Self::Forever,
            YesNoOrTime::Seconds(seconds) => Self::Seconds(seconds),
        })
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let value = match *self {
            Self::No => YesNoOrTime::No,
            Self::Forever => YesNoOrTime::Yes,
            Self::Seconds(seconds) => YesNoOrTime::Seconds(seconds),
        };
        out.push(format!("{name} {value}"));
    }
}

/// `Resume`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resume {
    /// The session ends with its connection.
    #[default]
    No,
    /// It goes on for as long as the server keeps it.
    Yes,
    /// It goes on, but is given up after this many seconds without a connection.
    Seconds(u64),
}

impl Value for Resume {
    const KIND: &'static str = YesNoOrTime::KIND;
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        Ok(match YesNoOrTime::parse(args)? {
            YesNoOrTime::No | YesNoOrTime::Seconds(0) => Self::No,
            YesNoOrTime::Yes => Self::Yes,
            YesNoOrTime::Seconds(seconds) => Self::Seconds(seconds),
        })
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let value = match *self {
            Self::No => YesNoOrTime::No,
            Self::Yes => YesNoOrTime::Yes,
            Self::Seconds(seconds) => YesNoOrTime::Seconds(seconds),
        };
        out.push(format!("{name} {value}"));
    }
}

/// `TunnelDevice`: local and remote unit number; `None` for any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TunnelDevice {
    /// The client's unit.
    pub local: Option<u32>,
    /// The server's unit.
    pub remote: Option<u32>,
}

impl Value for TunnelDevice {
    const KIND: &'static str = "local[:remote] unit or any";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        let unit = |text: &str| if text == "any" { Some(None) } else { text.parse().ok().map(Some) };
        let (local, remote) = word.split_once(':').unwrap_or((&word, "any"));
        match (unit(local), unit(remote)) {
            (Some(local), Some(remote)) => Ok(Self { local, remote }),
            _ => Err(args.malformed(Syntax::TunnelDevice, &word)),
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let unit = |unit: Option<u32>| unit.map_or("any".to_string(), |u| u.to_string());
        out.push(format!("{name} {}:{}", unit(self.local), unit(self.remote)));
    }
}

/// `ObscureKeystrokeTiming`: the interval; `None` when off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObscureKeystrokeTiming(pub Option<Duration>);

impl Value for ObscureKeystrokeTiming {
    const KIND: &'static str = "yes, no or interval:milliseconds";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        let lower = word.to_ascii_lowercase();
        match lower.as_str() {
            "yes" | "true" => Ok(Self(Some(Duration::from_millis(20)))),
            "no" | "false" => Ok(Self(None)),
            _ => {
                let text = lower.strip_prefix("interval:").ok_or_else(|| args.unknown_word(&word))?;
                let millis: u64 = text
                    .parse()
                    .ok()
                    .filter(|ms| (1..=1000).contains(ms))
                    .ok_or_else(|| args.malformed(Syntax::KeystrokeInterval, &word))?;
                Ok(Self(Some(Duration::from_millis(millis))))
            }
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self.0.map(|d| d.as_millis()) {
            None => format!("{name} no"),
            Some(20) => format!("{name} yes"),
            Some(ms) => format!("{name} interval:{ms}"),
        });
    }
}

/// `ChannelTimeout`: channel type patterns and their idle limits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChannelTimeouts(pub Vec<ChannelTimeout>);

/// One rule of `ChannelTimeout`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelTimeout {
    /// The channel type, or a pattern for it.
    pub kind: String,
    /// Idle limit; 0 means none.
    pub limit: Duration,
    /// The time as written, for `sshd -T`.
    pub text: String,
}

impl ChannelTimeouts {
    /// Idle limit of a channel type; `None` means no limit. The first matching pattern decides.
    pub fn of(&self, kind: &str) -> Option<Duration> {
        self.of_any(&[kind])
    }

    /// Idle limit of all channels together: the rule named `global`, which no pattern matches.
    pub fn of_all_channels(&self) -> Option<Duration> {
        let limit = self.0.iter().find(|rule| rule.kind == "global")?.limit;
        (!limit.is_zero()).then_some(limit)
    }

    /// Like [`of`](Self::of), for a channel with several names: the first name that a pattern matches counts.
    pub fn of_any(&self, kinds: &[&str]) -> Option<Duration> {
        let fits = |kind: &str, pattern: &str| crate::pattern::wildcard(kind.as_bytes(), pattern.as_bytes());
        let rule = |kind: &&str| self.0.iter().find(|rule| rule.kind != "global" && fits(kind, &rule.kind));
        let limit = kinds.iter().find_map(rule)?.limit;
        (!limit.is_zero()).then_some(limit)
    }
}

impl Value for ChannelTimeouts {
    const KIND: &'static str = "type=time words or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let words = args.remaining();
        if words.len() == 1 && words[0].eq_ignore_ascii_case("none") {
            return Ok(Self::default());
        }
        let mut out = Vec::new();
        for word in words {
            let pair = word
                .split_once('=')
                .filter(|(kind, _)| !kind.is_empty())
                .and_then(|(kind, time)| {
                    let (kind, text) = (kind.to_string(), time.to_string());
                    Some(ChannelTimeout { kind, limit: parse_fractional_time(time)?, text })
                })
                .ok_or_else(|| args.malformed(Syntax::ChannelTimeout, &word))?;
            out.push(pair);
        }
        Ok(Self(out))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        if self.0.is_empty() {
            out.push(format!("{name} none"));
        } else {
            let words: Vec<String> =
                self.0.iter().map(|rule| format!("{}={}", rule.kind, rule.text)).collect();
            out.push(format!("{name} {}", words.join(" ")));
        }
    }
}

/// `PermitOpen`, `PermitListen`, `PermitRemoteOpen`: the permitted targets of forwards.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PermitForward {
    /// All targets.
    #[default]
    Any,
    /// No targets.
    None,
    /// Only these: host pattern (`None`: any, for listening) and port (`None`: any).
    Only(Vec<(Option<String>, Option<u16>)>),
}

impl PermitForward {
    /// Whether `host:port` is permitted; `*` as a host in the list matches any host.
    pub fn allows(&self, host: &str, port: u16) -> bool {
        match self {
            Self::Any => true,
            Self::None => false,
            Self::Only(list) => list.iter().any(|(h, p)| {
                p.is_none_or(|p| p == port)
                    && h.as_deref().is_none_or(|h| h == "*" || h.eq_ignore_ascii_case(host))
            }),
        }
    }
}

impl Value for PermitForward {
    const KIND: &'static str = "any, none, or host:port words";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let words = args.remaining();
        match words.as_slice() {
            [] => return Err(args.missing(Part::PermittedTargets)),
            [one] if one == "any" => return Ok(Self::Any),
            [one] if one == "none" => return Ok(Self::None),
            _ => {}
        }
        let listens = args.keyword == "PermitListen";
        let mut out = Vec::new();
        for word in words {
            let bad_port = || args.malformed(Syntax::PermittedPort, &word);
            let (host, port) = match word.rfind(':').filter(|at| !word[*at..].contains(']')) {
                Some(at) => (Some(&word[..at]), &word[at + 1..]),
                None if listens => (None, word.as_str()),
                None => return Err(bad_port()),
            };
            let host = host.map(|h| h.trim_start_matches('[').trim_end_matches(']').to_string());
            if host.as_deref() == Some("") {
                return Err(args.malformed(Syntax::PermittedHost, &word));
            }
            let port = match port {
                "*" => None,
                number => Some(parse_port(number).ok_or_else(bad_port)?),
            };
            out.push((host, port));
        }
        Ok(Self::Only(out))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self {
            Self::Any => format!("{name} any"),
            Self::None => format!("{name} none"),
            Self::Only(list) => {
                let word = |(host, port): &(Option<String>, Option<u16>)| {
                    let port = port.map_or("*".to_string(), |p| p.to_string());
                    match host {
                        Some(host) if host.contains(':') => format!("[{host}]:{port}"),
                        Some(host) => format!("{host}:{port}"),
                        None => format!("*:{port}"),
                    }
                };
                let words: Vec<String> = list.iter().map(word).collect();
                format!("{name} {}", words.join(" "))
            }
        });
    }
}

/// `CanonicalizePermittedCNAMEs`: source and target pattern lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PermittedCnames(pub Vec<(String, String)>);

impl Value for PermittedCnames {
    const KIND: &'static str = "source:target pattern lists or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let words = args.remaining();
        if words.len() == 1 && words[0].eq_ignore_ascii_case("none") {
            return Ok(Self::default());
        }
        args.refuse_none_among(&words)?;
        let mut out = Vec::new();
        for word in words {
            let (source, target) = match (word.as_str(), word.split_once(':')) {
                ("*", _) => ("*", "*"),
                (_, Some((source, target))) if !source.is_empty() && !target.is_empty() => (source, target),
                _ => return Err(args.malformed(Syntax::Cname, &word)),
            };
            out.push((source.to_ascii_lowercase(), target.to_ascii_lowercase()));
        }
        Ok(Self(out))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        // OpenSSH's dump prints this one keyword with a capital P, and scripts compare its output.
        let name = if name == "canonicalizepermittedcnames" { "canonicalizePermittedcnames" } else { name };
        if self.0.is_empty() {
            out.push(format!("{name} none"));
        } else {
            let words: Vec<String> = self.0.iter().map(|(s, t)| format!("{s}:{t}")).collect();
            out.push(format!("{name} {}", words.join(" ")));
        }
    }
}

/// `CanonicalDomains`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CanonicalDomains(pub Vec<String>);

impl Value for CanonicalDomains {
    const KIND: &'static str = "domain names or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let words = args.remaining();
        if words.len() == 1 && words[0].eq_ignore_ascii_case("none") {
            return Ok(Self::default());
        }
        args.refuse_none_among(&words)?;
        for word in &words {
            let first = word.chars().next();
            if !first.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(args.malformed(Syntax::DomainStart, word));
            }
            if word.contains("..") {
                return Err(args.malformed(Syntax::DomainDots, word));
            }
        }
        Ok(Self(words.into_iter().map(|w| w.trim_end_matches('.').to_ascii_lowercase()).collect()))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let text = if self.0.is_empty() { "none".to_string() } else { self.0.join(" ") };
        out.push(format!("{name} {text}"));
    }
}

/// `LogVerbose`: patterns of places in the source whose messages are always logged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogVerbose(pub Vec<String>);

impl LogVerbose {
    /// The prefix of a message from this place in the source (`file:module():line`), if a pattern matches it.
    pub fn tag(&self, file: &str, module: &str, line: u32) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let file = file.rsplit('/').next().unwrap_or(file);
        let place = format!("{file}:{module}():{line}");
        self.0.iter().any(|patterns| match_list(&place, patterns, false) == ListMatch::Yes).then_some(place)
    }
}

impl Value for LogVerbose {
    const KIND: &'static str = "patterns or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let words = args.remaining();
        Ok(Self(if words.len() == 1 && words[0].eq_ignore_ascii_case("none") { Vec::new() } else { words }))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let text = if self.0.is_empty() { "none".to_string() } else { self.0.join(" ") };
        out.push(format!("{name} {text}"));
    }
}
