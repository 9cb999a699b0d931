//! Value types with a syntax of their own, each for one or two keywords.

mod agent;
mod canonical;
mod channels;
mod ip_qos;
mod lifetime;

use crate::forward::parse_port;
use crate::line::Arguments;
use crate::pattern::{ListMatch, match_list};
use crate::table::Value;
use crate::value_error::{Syntax, ValueError};
use std::time::Duration;

pub use agent::{AddKeysToAgent, ForwardAgent};
pub use canonical::{CanonicalDomains, PermittedCnames};
pub use channels::{ChannelTimeout, ChannelTimeouts, PermitForward};
pub use ip_qos::IpQos;
pub use lifetime::{ControlPersist, Resume};

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

/// Error: the value is neither a character, nor `^` and a letter, nor `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadEscapeChar;

impl std::str::FromStr for EscapeChar {
    type Err = BadEscapeChar;

    fn from_str(word: &str) -> Result<Self, BadEscapeChar> {
        match word.as_bytes() {
            b"none" => Ok(Self(None)),
            [c] => Ok(Self(Some(*c))),
            // Characters whose control codes terminals can send.
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
        let unit = |text: &str| match text {
            "any" => Some(None),
            // ssh reserves the two largest numbers of an `int` for other meanings.
            _ => text.parse().ok().filter(|unit| *unit < 0x7fff_fffe).map(Some),
        };
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

/// `LogVerbose`: patterns of places in the source whose messages are always logged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogVerbose(pub Vec<String>);

impl LogVerbose {
    /// Returns the prefix of a message from this place in the source (`file:module():line`), if a pattern
    /// matches it.
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
        args.refuse_none_among(&words)?;
        args.refuse_empty_among(&words)?;
        Ok(Self(if words.len() == 1 && words[0].eq_ignore_ascii_case("none") { Vec::new() } else { words }))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let text = if self.0.is_empty() { "none".to_string() } else { self.0.join(" ") };
        out.push(format!("{name} {text}"));
    }
}
