//! Values that a keyword refuses, and OpenSSH's messages about them.
//!
//! The parsers of values report faults as types. All texts are in this file, because OpenSSH's differ from
//! keyword to keyword and scripts match them.

use std::fmt;
use std::net::IpAddr;

use crate::dialect::Dialect;
use crate::expand_error::ExpandError;

/// A value that its keyword refuses. `Display` is the message that follows `FILE line N: `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    /// The keyword in the table's spelling.
    pub keyword: &'static str,
    /// The program whose words the message uses.
    pub dialect: Dialect,
    /// The fault of the value.
    pub fault: ValueFault,
}

/// A fault in a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueFault {
    /// A word does not have the required syntax.
    Malformed(Syntax, String),
    /// A part of the value is absent or empty.
    Missing(Part),
    /// This word must stand alone, but is one of several.
    NotAlone(&'static str),
    /// Other hosts can reach this address, and the word `public` is missing.
    NotLoopback(IpAddr),
    /// One of several words is empty.
    EmptyWord,
    /// A number is outside its limits.
    OutOfRange(Bound),
    /// A token or variable cannot be expanded.
    Unexpandable(ExpandError),
    /// The keyword does not know this word.
    UnknownWord(String),
}

/// The syntax that a word should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// `type=time`.
    ChannelTimeout,
    /// `source:target`.
    Cname,
    /// A domain name: its first character is a letter, a digit or `_`.
    DomainStart,
    /// A domain name: only letters, digits, `-`, `_` and `.`.
    DomainCharacters,
    /// A domain name: no two dots follow each other.
    DomainDots,
    /// One character, `^` and a letter, or `none`.
    EscapeChar,
    /// A forward: `[bind:]port:host:port` and its other forms.
    Forward,
    /// `interval:` and a number of milliseconds.
    KeystrokeInterval,
    /// `host`, `host:port` or `[host]:port` to listen on.
    ListenAddress,
    /// The brackets of `[host]:port` to listen on.
    ListenBrackets,
    /// The port of an address to listen on.
    ListenPort,
    /// An absolute path, `syslog`, `journald` or `none`.
    LogTarget,
    /// Networks and addresses, separated by commas.
    Networks,
    /// A path without tokens.
    NoTokens,
    /// A whole number.
    Number,
    /// An octal file mode mask.
    OctalMask,
    /// An absolute path, or a command that begins with one.
    AbsolutePath,
    /// The host of a permitted forward.
    PermittedHost,
    /// The port of a permitted forward.
    PermittedPort,
    /// A port number or the name of a service.
    Port,
    /// A size, a rate or a traffic class.
    Quantity,
    /// Words with their quotes closed.
    Quotes,
    /// The size in `RekeyLimit`.
    RekeySize,
    /// A routing domain to listen in: no address has one.
    RoutingDomain,
    /// An absolute path after `shared:`.
    SharedDirectory,
    /// A second time that is not longer than the first.
    ShorterTime,
    /// An IP address and a port.
    SocketAddress,
    /// `user:` or `shared:` and a directory.
    SocketDirectory,
    /// A routing domain that sessions should have: no process has one.
    ProcessDomain,
    /// Text without line ends.
    SingleLine,
    /// Numbers with separators, such as `10:30:100`.
    Spec,
    /// A time.
    Time,
    /// `local[:remote]` unit numbers.
    TunnelDevice,
    /// A directory after `user:`.
    UserDirectory,
    /// The name of a user, with or without `@` and a list of hosts.
    UserPattern,
    /// The name of an environment variable.
    VariableName,
    /// `NAME=VALUE`.
    VariableValue,
    /// `yes`, `no` or a time.
    YesNoOrTime,
}

/// A part of a value that may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Any first word.
    Argument,
    /// The destination of a forward.
    ForwardTarget,
    /// The methods of `AuthenticationMethods`.
    Methods,
    /// The permitted destinations of forwards.
    PermittedTargets,
    /// The command of a subsystem.
    SubsystemCommand,
    /// The name of a subsystem.
    SubsystemName,
    /// A time.
    Time,
    /// A whole number.
    Number,
    /// One of the fixed words that the keyword knows.
    Word,
}

/// The limit that a number violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// A whole number above `i32::MAX`.
    NumberTooLarge,
    /// A whole number below 0.
    NumberTooSmall,
    /// A rate below 8,000 bits/s.
    RateTooSmall,
    /// A `RekeyLimit` below 16 bytes.
    RekeyTooSmall,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keyword = self.keyword;
        match &self.fault {
            ValueFault::Malformed(syntax, word) => self.malformed(f, *syntax, word),
            ValueFault::Missing(part) => self.missing(f, *part),
            // Only AuthenticationMethods knows this word, and its message differs.
            ValueFault::NotAlone("any") => write!(f, "\"any\" must appear alone in {keyword}"),
            ValueFault::EmptyWord => write!(f, "keyword {keyword} empty argument"),
            ValueFault::NotAlone(word) => {
                write!(f, "keyword {} \"{word}\" argument must appear alone.", keyword.to_ascii_lowercase())
            }
            ValueFault::NotLoopback(address) => write!(
                f,
                "{keyword}: {address} is no loopback address; other hosts could read the counters. Append the \
                 word public to allow it."
            ),
            ValueFault::OutOfRange(Bound::NumberTooLarge) => self.number(f, "too large"),
            ValueFault::OutOfRange(Bound::NumberTooSmall) => self.number(f, "too small"),
            ValueFault::OutOfRange(Bound::RateTooSmall) => {
                write!(f, "{keyword} too small: at least 8K (bits a second)")
            }
            ValueFault::OutOfRange(Bound::RekeyTooSmall) => write!(f, "{keyword} too small"),
            ValueFault::Unexpandable(why) => write!(f, "{keyword}: {why}"),
            ValueFault::UnknownWord(word) => self.unknown_word(f, word),
        }
    }
}

impl ValueError {
    fn malformed(&self, f: &mut fmt::Formatter<'_>, syntax: Syntax, word: &str) -> fmt::Result {
        let keyword = self.keyword;
        let client = self.dialect == Dialect::Client;
        match syntax {
            Syntax::NoTokens => {
                write!(f, "{keyword}: tokens such as %u and %h are not expanded, so % is refused")
            }
            Syntax::AbsolutePath => write!(f, "{keyword} must be an absolute path"),
            Syntax::ChannelTimeout => write!(f, "invalid channel timeout {word}"),
            Syntax::Cname => write!(f, "Invalid permitted CNAME \"{word}\""),
            Syntax::DomainCharacters => write!(f, "domain name \"{word}\" contains invalid characters"),
            Syntax::DomainDots => write!(f, "domain name \"{word}\" contains consecutive separators"),
            Syntax::DomainStart => write!(f, "domain name \"{word}\" starts with invalid character"),
            Syntax::EscapeChar => f.write_str("Bad escape character."),
            Syntax::Forward => f.write_str("Bad forwarding specification."),
            Syntax::KeystrokeInterval => write!(f, "{keyword} interval invalid"),
            Syntax::ListenAddress => write!(f, "bad {keyword} syntax"),
            Syntax::ListenBrackets => f.write_str("bad address:port usage"),
            Syntax::ListenPort => f.write_str("bad port number"),
            Syntax::LogTarget => write!(f, "{keyword} must be an absolute path, syslog, journald or none."),
            Syntax::Networks => write!(f, "{keyword}: \"{word}\" is not a list of networks."),
            Syntax::Number => self.number(f, "invalid"),
            Syntax::OctalMask if client => f.write_str("Bad mask."),
            Syntax::OctalMask => write!(f, "Invalid {keyword}."),
            Syntax::PermittedHost => write!(f, "bad host in {}", self.permit_keyword()),
            Syntax::PermittedPort if client => write!(f, "bad port number in {}", self.permit_keyword()),
            Syntax::PermittedPort => write!(f, "{keyword} bad port number"),
            Syntax::Port if client => write!(f, "Bad port '{word}'."),
            Syntax::Port => f.write_str("Badly formatted port number."),
            Syntax::Quantity => write!(f, "Bad {keyword} value: {word}"),
            Syntax::Quotes => write!(f, "{keyword} \"{word}\" contains invalid quotes"),
            Syntax::RekeySize if client => write!(f, "Bad number '{word}': Invalid argument"),
            Syntax::RekeySize => write!(f, "Bad {keyword} number '{word}': Invalid argument"),
            Syntax::RoutingDomain => {
                f.write_str("Routing domains are not supported by lhsshd\nbad routing domain")
            }
            Syntax::ProcessDomain => write!(f, "setting {keyword} not supported on this platform."),
            Syntax::SingleLine => write!(f, "Invalid {keyword} argument"),
            Syntax::SharedDirectory => f.write_str("invalid shared path."),
            Syntax::ShorterTime => {
                f.write_str("invalid second time value: it must not be longer than the first.")
            }
            Syntax::SocketAddress => write!(f, "{keyword}: \"{word}\" is no address and port."),
            Syntax::SocketDirectory => f.write_str("invalid path."),
            Syntax::Spec => write!(f, "Invalid {keyword} spec."),
            Syntax::Time => f.write_str("invalid time value."),
            Syntax::TunnelDevice => f.write_str("Bad tun device."),
            Syntax::UserDirectory => f.write_str("invalid user path."),
            Syntax::UserPattern => write!(f, "invalid {keyword} pattern: \"{word}\""),
            Syntax::VariableName => f.write_str("Invalid environment name."),
            Syntax::VariableValue if client => write!(f, "Invalid {keyword}."),
            Syntax::VariableValue => f.write_str("Invalid environment."),
            Syntax::YesNoOrTime => write!(f, "Bad {keyword} argument."),
        }
    }

    fn missing(&self, f: &mut fmt::Formatter<'_>, part: Part) -> fmt::Result {
        f.write_str(match (part, self.dialect) {
            (Part::Argument | Part::Word | Part::Number, Dialect::Client) => {
                return self.missing_of_client(f, part);
            }
            (Part::Argument | Part::Word | Part::Number, Dialect::Server) => "missing argument.",
            (Part::ForwardTarget, _) => "Missing target argument.",
            (Part::Methods, _) => "no AuthenticationMethods specified",
            (Part::PermittedTargets, _) => {
                return write!(f, "missing {} specification", self.permit_keyword());
            }
            (Part::SubsystemCommand, _) => "Missing subsystem command.",
            (Part::SubsystemName, _) => "Missing subsystem name.",
            (Part::Time, _) => "missing time value.",
        })
    }

    /// Writes the message for an empty argument; ssh's depends on the keyword.
    fn missing_of_client(&self, f: &mut fmt::Formatter<'_>, part: Part) -> fmt::Result {
        match self.keyword {
            "ControlPersist" | "StreamLocalBindMask" => write!(f, "Missing {} argument.", self.keyword),
            "LogLevel" => f.write_str("unsupported log level ''"),
            "SyslogFacility" => f.write_str("unsupported log facility ''"),
            "CanonicalDomains" | "GlobalKnownHostsFile" | "LogVerbose" | "UserKnownHostsFile" => {
                write!(f, "keyword {} empty argument", self.keyword.to_ascii_lowercase())
            }
            _ if part == Part::Word => f.write_str("missing argument."),
            _ if part == Part::Number => f.write_str("integer value missing."),
            _ => f.write_str("Missing argument."),
        }
    }

    fn number(&self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        match (self.keyword, self.dialect) {
            // `max-pk-ok` is the keyword's only number.
            ("PubkeyAuthOptions", _) => write!(f, "bad PubkeyAuthOptions max-pk-ok value: {what}"),
            (_, Dialect::Client) => write!(f, "integer value {what}."),
            (keyword, Dialect::Server) => write!(f, "{keyword} integer value {what}."),
        }
    }

    /// Writes the message for a word that the keyword does not know; most keywords have the last one.
    fn unknown_word(&self, f: &mut fmt::Formatter<'_>, word: &str) -> fmt::Result {
        match (self.keyword, self.dialect) {
            ("AddKeysToAgent", _) => f.write_str("unsupported option"),
            // Two lines, as in sshd; the file and line precede the second.
            ("AuthenticationMethods", _) => write!(
                f,
                "Unknown authentication method \"{word}\" in list\n\
                 invalid AuthenticationMethods method list."
            ),
            ("FingerprintHash", Dialect::Client) => write!(f, "Invalid hash algorithm \"{word}\"."),
            ("FingerprintHash", Dialect::Server) => {
                write!(f, "Invalid FingerprintHash algorithm \"{word}\".")
            }
            ("LogLevel", _) => write!(f, "unsupported log level '{word}'"),
            ("PermitTunnel", _) => write!(f, "bad PermitTunnel argument {word}"),
            ("PerSourcePenalties", _) => write!(f, "invalid PerSourcePenalties keyword {word}"),
            ("PrometheusListen", _) => write!(f, "PrometheusListen: \"{word}\" is not public."),
            ("PubkeyAuthOptions", _) => write!(f, "unsupported PubkeyAuthOptions option {word}"),
            ("SyslogFacility", _) => write!(f, "unsupported log facility '{word}'"),
            _ => write!(f, "unsupported option \"{word}\"."),
        }
    }

    /// Returns the keyword in the spelling of the messages about permitted forwards.
    fn permit_keyword(&self) -> String {
        match self.dialect {
            Dialect::Client => self.keyword.to_ascii_lowercase(),
            Dialect::Server => self.keyword.to_owned(),
        }
    }
}

impl std::error::Error for ValueError {}
