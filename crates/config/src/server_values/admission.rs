//! Values of keywords about unauthenticated clients: limits on their number and time, and penalties.

use crate::line::Arguments;
use crate::table::Value;
use crate::units::{parse_fractional_time, parse_time};
use crate::value_error::{Part, Syntax, ValueError};
use std::time::Duration;

/// `MaxStartups`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxStartups {
    /// Below this number of unauthenticated connections, none is dropped.
    pub begin: u32,
    /// Percentage of new connections dropped from there on.
    pub rate: u32,
    /// From this number on, all are dropped.
    pub full: u32,
}

impl Default for MaxStartups {
    fn default() -> Self {
        Self { begin: 10, rate: 30, full: 100 }
    }
}

/// Parses a number that fits sshd's type for limits.
fn limit(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number <= i32::MAX as u32)
}

impl Value for MaxStartups {
    const KIND: &'static str = "start:rate:full or a number";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        let bad = || args.malformed(Syntax::Spec, &word);
        let numbers: Vec<u32> = word.split(':').map(limit).collect::<Option<_>>().ok_or_else(bad)?;
        match numbers.as_slice() {
            [n] if *n > 0 => Ok(Self { begin: *n, rate: 30, full: *n }),
            [begin, rate, full] if *begin > 0 && begin <= full && (1..=100).contains(rate) => {
                Ok(Self { begin: *begin, rate: *rate, full: *full })
            }
            _ => Err(bad()),
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}:{}:{}", self.begin, self.rate, self.full));
    }
}

/// `PerSourceNetBlockSize`: lengths of the prefixes that count as one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetBlockSize {
    /// IPv4 prefix length, bits.
    pub ipv4: u8,
    /// IPv6 prefix length, bits.
    pub ipv6: u8,
}

impl Default for NetBlockSize {
    fn default() -> Self {
        Self { ipv4: 32, ipv6: 128 }
    }
}

impl Value for NetBlockSize {
    const KIND: &'static str = "IPv4 bits[:IPv6 bits]";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        let (four, six) = word.split_once(':').unwrap_or((&word, "128"));
        let size = four.parse().ok().zip(six.parse().ok()).map(|(ipv4, ipv6)| Self { ipv4, ipv6 });
        size.filter(|s| s.ipv4 <= 32 && s.ipv6 <= 128).ok_or_else(|| args.malformed(Syntax::Spec, &word))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}:{}", self.ipv4, self.ipv6));
    }
}

/// `PerSourcePenalties`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Penalties {
    /// Whether sources are penalised at all.
    pub enabled: bool,
    /// Penalty for a crash of the session process.
    pub crash: Duration,
    /// Penalty for a failed login.
    pub authfail: Duration,
    /// Penalty for a login as a user that does not exist.
    pub invaliduser: Duration,
    /// Penalty for a connection without a login attempt.
    pub noauth: Duration,
    /// Penalty for exceeding LoginGraceTime.
    pub grace_exceeded: Duration,
    /// Penalty for a connection that `RefuseConnection` prohibits.
    pub refuseconnection: Duration,
    /// Longest penalty of a source.
    pub max: Duration,
    /// Shortest penalty that refuses connections.
    pub min: Duration,
    /// Largest number of IPv4 sources in the table.
    pub max_sources4: u32,
    /// Largest number of IPv6 sources in the table.
    pub max_sources6: u32,
    /// When the table is full: forget the penalty that ends first (`true`), or refuse all sources.
    pub overflow_permissive: bool,
    /// Like `overflow_permissive`, for IPv6 sources.
    pub overflow6_permissive: bool,
}

impl Default for Penalties {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self {
            enabled: true,
            crash: s(90),
            authfail: s(5),
            invaliduser: s(5),
            noauth: s(1),
            grace_exceeded: s(10),
            refuseconnection: s(10),
            max: s(600),
            min: s(15),
            max_sources4: 65_536,
            max_sources6: 65_536,
            overflow_permissive: true,
            overflow6_permissive: true,
        }
    }
}

impl Value for Penalties {
    const KIND: &'static str = "yes, no, or kind:time words";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let mut out = Self::default();
        let mut overflow6 = None;
        for word in args.remaining() {
            let bad = || args.unknown_word(&word);
            match word.split_once(':') {
                None => match word.as_str() {
                    "yes" => out.enabled = true,
                    "no" => out.enabled = false,
                    _ => return Err(bad()),
                },
                Some(("max-sources4", n)) => out.max_sources4 = limit(n).ok_or_else(bad)?,
                Some(("max-sources6", n)) => out.max_sources6 = limit(n).ok_or_else(bad)?,
                Some((key @ ("overflow" | "overflow6"), mode)) => {
                    let permissive = match mode {
                        "permissive" => true,
                        "deny-all" => false,
                        _ => return Err(bad()),
                    };
                    if key == "overflow" {
                        out.overflow_permissive = permissive;
                    } else {
                        overflow6 = Some(permissive);
                    }
                }
                Some((key, time)) => {
                    let time =
                        parse_fractional_time(time).ok_or_else(|| args.malformed(Syntax::Time, time))?;
                    let slot = match key {
                        "crash" => &mut out.crash,
                        "authfail" => &mut out.authfail,
                        "invaliduser" => &mut out.invaliduser,
                        "noauth" => &mut out.noauth,
                        "grace-exceeded" => &mut out.grace_exceeded,
                        "refuseconnection" => &mut out.refuseconnection,
                        "max" => &mut out.max,
                        "min" => &mut out.min,
                        _ => return Err(bad()),
                    };
                    *slot = time;
                }
            }
        }
        out.overflow6_permissive = overflow6.unwrap_or(out.overflow_permissive);
        Ok(out)
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        if !self.enabled {
            out.push(format!("{name} no"));
            return;
        }
        let t = |d: Duration| {
            if d.subsec_nanos() == 0 { d.as_secs().to_string() } else { d.as_secs_f64().to_string() }
        };
        let mode = |permissive: bool| if permissive { "permissive" } else { "deny-all" };
        out.push(format!(
            "{name} crash:{} authfail:{} invaliduser:{} noauth:{} grace-exceeded:{} refuseconnection:{} max:{} min:{} \
             max-sources4:{} max-sources6:{} overflow:{} overflow6:{}",
            t(self.crash),
            t(self.authfail),
            t(self.invaliduser),
            t(self.noauth),
            t(self.grace_exceeded),
            t(self.refuseconnection),
            t(self.max),
            t(self.min),
            self.max_sources4,
            self.max_sources6,
            mode(self.overflow_permissive),
            mode(self.overflow6_permissive),
        ));
    }
}

/// `LoginGraceTime` and similar server times, seconds; 0 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GraceTime(pub Option<u64>);

impl Value for GraceTime {
    const KIND: &'static str = "time, 0 for no limit";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required_part(Part::Time)?;
        let seconds = parse_time(&word).ok_or_else(|| args.malformed(Syntax::Time, &word))?;
        Ok(Self((seconds > 0).then_some(seconds)))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}", self.0.unwrap_or(0)));
    }
}
