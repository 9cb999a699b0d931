//! Values that only `sshd_config` has.

use std::time::Duration;

use crate::cidr;
use crate::forward::parse_port;
use crate::line::Arguments;
use crate::table::Value;
use crate::units::{parse_fractional_time, parse_size, parse_time};
use crate::value::Seconds;
use crate::value_error::{Bound, Part, Syntax, ValueError, ValueFault};

/// `Port` lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ports(pub Vec<u16>);

impl Value for Ports {
    const KIND: &'static str = "port, may be repeated";
    const ACCUMULATES: bool = true;
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        parse_port(&word)
            .filter(|p| *p != 0)
            .map(|p| Self(vec![p]))
            .ok_or_else(|| args.malformed(Syntax::Port, &word))
    }
    fn append(&mut self, later: Self) {
        self.0.extend(later.0);
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.extend(self.0.iter().map(|port| format!("{name} {port}")));
    }
}

/// Networks and addresses, separated by commas, or `none`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Networks(pub Option<String>);

impl Value for Networks {
    const KIND: &'static str = "networks separated by commas, or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let list = args.required()?;
        if list.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        if !cidr::is_network_list(&list) {
            return Err(args.malformed(Syntax::Networks, &list));
        }
        Ok(Self(Some(list)))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}", self.0.as_deref().unwrap_or("none")));
    }
}

/// One `ListenAddress`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    /// A name or an address.
    pub host: String,
    /// `None` means every `Port`.
    pub port: Option<u16>,
    /// Routing domain.
    pub rdomain: Option<String>,
}

/// `ListenAddress` lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListenAddresses(pub Vec<ListenAddress>);

impl ListenAddresses {
    /// Makes every address one for every `Port`. Lines that named a host with several ports become one.
    pub fn drop_ports(&mut self) {
        let mut kept: Vec<ListenAddress> = Vec::new();
        for address in self.0.drain(..) {
            let address = ListenAddress { port: None, ..address };
            if !kept.contains(&address) {
                kept.push(address);
            }
        }
        self.0 = kept;
    }
}

impl Value for ListenAddresses {
    const KIND: &'static str = "address, may be repeated";
    const ACCUMULATES: bool = true;
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        let (host, port) = if let Some(rest) = word.strip_prefix('[') {
            let (host, after) =
                rest.split_once(']').ok_or_else(|| args.malformed(Syntax::ListenBrackets, &word))?;
            match after.strip_prefix(':') {
                Some(port) => (host.to_string(), Some(port)),
                None if after.is_empty() => (host.to_string(), None),
                None => return Err(args.malformed(Syntax::ListenAddress, &word)),
            }
        } else {
            match word.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host.to_string(), Some(port)),
                // Without a port: a name, an IPv4 or a bare IPv6 address.
                _ => (word.clone(), None),
            }
        };
        let port = match port {
            None => None,
            Some(text) => Some(parse_port(text).ok_or_else(|| args.malformed(Syntax::ListenPort, text))?),
        };
        let rdomain = match args.next_word() {
            None => None,
            Some(word) if word == "rdomain" => {
                Some(args.next_word().ok_or_else(|| args.malformed(Syntax::ListenAddress, &word))?)
            }
            Some(word) => return Err(args.malformed(Syntax::ListenAddress, &word)),
        };
        Ok(Self(vec![ListenAddress { host, port, rdomain }]))
    }
    fn append(&mut self, later: Self) {
        self.0.extend(later.0);
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        for address in &self.0 {
            let host =
                if address.host.contains(':') { format!("[{}]", address.host) } else { address.host.clone() };
            let port = address.port.map_or(String::new(), |p| format!(":{p}"));
            let rdomain = address.rdomain.as_ref().map_or(String::new(), |r| format!(" rdomain {r}"));
            out.push(format!("{name} {host}{port}{rdomain}"));
        }
    }
}

/// `Subsystem` lines: name and command with arguments, quoted for a shell where necessary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subsystems(pub Vec<(String, String)>);

impl Subsystems {
    /// The command of a subsystem.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, command)| command.as_str())
    }
}

impl Value for Subsystems {
    const KIND: &'static str = "name and command, may be repeated";
    const ACCUMULATES: bool = true;
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let name = args.next_word().ok_or_else(|| args.missing(Part::SubsystemName))?;
        let words = args.remaining();
        if words.is_empty() {
            return Err(args.missing(Part::SubsystemCommand));
        }
        // A shell splits it again, so words are quoted once more.
        Ok(Self(vec![(name, crate::line::join_words(&words))]))
    }
    fn append(&mut self, later: Self) {
        for (name, command) in later.0 {
            // The loader refuses duplicates within one layer; an earlier definition is kept.
            if self.find(&name).is_none() {
                self.0.push((name, command));
            }
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.extend(self.0.iter().map(|(subsystem, command)| format!("{name} {subsystem} {command}")));
    }
}

/// `MaxStartups`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxStartups {
    /// Below this number of unauthenticated connections, none is dropped.
    pub begin: u32,
    /// Percentage dropped from there.
    pub rate: u32,
    /// From this number on, all are dropped.
    pub full: u32,
}

impl Default for MaxStartups {
    fn default() -> Self {
        Self { begin: 10, rate: 30, full: 100 }
    }
}

impl Value for MaxStartups {
    const KIND: &'static str = "start:rate:full or a number";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        let bad = || args.malformed(Syntax::Spec, &word);
        let numbers: Vec<u32> =
            word.split(':').map(str::parse).collect::<Result<_, _>>().map_err(|_| bad())?;
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

/// `ResumeGrace`: how long sessions wait for their clients, and how long after an end of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResumeGrace {
    grace: Seconds,
    after_end: Option<Seconds>,
}

impl ResumeGrace {
    /// How long a session waits; `None` where none does.
    pub fn duration(self) -> Option<Duration> {
        self.grace.duration()
    }

    /// How long a session waits whose connection has ended with an end of file.
    pub fn after_end_of_file(self) -> Duration {
        let Seconds(seconds) = self.after_end.unwrap_or(self.grace);
        Duration::from_secs(seconds)
    }
}

impl Value for ResumeGrace {
    const KIND: &'static str = "time [time]";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let grace = Seconds::parse(args)?;
        let Some(word) = args.next_word() else { return Ok(Self { grace, after_end: None }) };
        let after_end = parse_time(&word).map(Seconds).filter(|after_end| after_end.0 <= grace.0);
        match after_end {
            Some(after_end) => Ok(Self { grace, after_end: Some(after_end) }),
            None => Err(args.malformed(Syntax::ShorterTime, &word)),
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let after_end = self.after_end.map(|Seconds(seconds)| format!(" {seconds}")).unwrap_or_default();
        out.push(format!("{name} {}{after_end}", self.grace.0));
    }
}

/// `ResumeMaxSessions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumeMaxSessions {
    /// Of one user.
    pub per_user: u32,
    /// Of all users.
    pub total: u32,
}

impl Default for ResumeMaxSessions {
    fn default() -> Self {
        Self { per_user: 64, total: 1024 }
    }
}

impl Value for ResumeMaxSessions {
    const KIND: &'static str = "user:all";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        let numbers =
            word.split_once(':').and_then(|(user, all)| Some((user.parse().ok()?, all.parse().ok()?)));
        match numbers {
            Some((per_user, total)) if per_user > 0 && per_user <= total => Ok(Self { per_user, total }),
            _ => Err(args.malformed(Syntax::Spec, &word)),
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}:{}", self.per_user, self.total));
    }
}

/// `ResumeMaxMemory`: a size, or none for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumeMaxMemory(Option<u64>);

impl ResumeMaxMemory {
    /// Returns the limit in bytes; `u64::MAX` for none.
    pub const fn bytes(self) -> u64 {
        match self.0 {
            Some(bytes) => bytes,
            None => u64::MAX,
        }
    }
}

impl Default for ResumeMaxMemory {
    fn default() -> Self {
        Self(Some(1 << 30))
    }
}

impl Value for ResumeMaxMemory {
    const KIND: &'static str = "size, with K, M or G, or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        if word.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        let size = parse_size(&word).filter(|size| *size > 0);
        size.map(|size| Self(Some(size))).ok_or_else(|| args.malformed(Syntax::Spec, &word))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(self.0.map_or(format!("{name} none"), |bytes| format!("{name} {bytes}")));
    }
}

/// How many bytes may move in which time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferQuota {
    /// Bytes of both directions.
    pub bytes: u64,
    /// The period, in whole seconds.
    pub period: Duration,
}

/// `PerUserTransferQuota`: `BYTES/TIME` or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaOrNone(pub Option<TransferQuota>);

impl Value for QuotaOrNone {
    const KIND: &'static str = "bytes, with K, M or G, / time; or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        if word.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        let quota = word.split_once('/').and_then(|(bytes, period)| {
            let bytes = parse_size(bytes).filter(|bytes| *bytes > 0)?;
            let period = parse_time(period).filter(|seconds| *seconds > 0)?;
            Some(TransferQuota { bytes, period: Duration::from_secs(period) })
        });
        quota.map(|quota| Self(Some(quota))).ok_or_else(|| args.malformed(Syntax::Spec, &word))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self.0 {
            None => format!("{name} none"),
            Some(TransferQuota { bytes, period }) => format!("{name} {bytes}/{}", period.as_secs()),
        });
    }
}

/// `PerSourceMaxStartups`: a number or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NumberOrNone(pub Option<u32>);

impl Value for NumberOrNone {
    const KIND: &'static str = "number or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let mut copy = args.clone();
        if copy.next_word().is_some_and(|word| word.eq_ignore_ascii_case("none")) {
            *args = copy;
            return Ok(Self(None));
        }
        u32::parse(args).map(|n| Self(Some(n)))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(self.0.map_or(format!("{name} none"), |n| format!("{name} {n}")));
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
    /// Whether sources are penalised.
    pub enabled: bool,
    /// The session process crashed.
    pub crash: Duration,
    /// Authentication was tried and failed.
    pub authfail: Duration,
    /// The user does not exist.
    pub invaliduser: Duration,
    /// No authentication was tried.
    pub noauth: Duration,
    /// LoginGraceTime ran out.
    pub grace_exceeded: Duration,
    /// `RefuseConnection`.
    pub refuseconnection: Duration,
    /// Longest penalty of a source.
    pub max: Duration,
    /// Penalties below this refuse nothing.
    pub min: Duration,
    /// Most IPv4 sources in the table.
    pub max_sources4: u32,
    /// Most IPv6 sources in the table.
    pub max_sources6: u32,
    /// When the table is full: drop the oldest entry (`true`) or refuse all new sources.
    pub overflow_permissive: bool,
    /// The full-table policy for IPv6 sources.
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
                Some(("max-sources4", n)) => out.max_sources4 = n.parse().map_err(|_| bad())?,
                Some(("max-sources6", n)) => out.max_sources6 = n.parse().map_err(|_| bad())?,
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

/// `AuthenticationMethods`: alternatives, each a list of methods in order (`publickey`, `password`,
/// `keyboard-interactive:pam`). Empty: any one method suffices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuthenticationMethods(pub Vec<Vec<String>>);

const METHODS: &[&str] =
    &["none", "publickey", "password", "keyboard-interactive", "hostbased", "gssapi-with-mic"];

impl Value for AuthenticationMethods {
    const KIND: &'static str = "any, or method,method… words";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let words = args.remaining();
        if words.len() == 1 && words[0] == "any" {
            return Ok(Self::default());
        }
        if words.iter().any(|word| word == "any") {
            return Err(args.refused(ValueFault::NotAlone("any")));
        }
        let mut out = Vec::new();
        for word in &words {
            let list: Vec<String> = word.split(',').map(str::to_string).collect();
            for method in &list {
                let (method, _) = method.split_once(':').unwrap_or((method, ""));
                if !METHODS.contains(&method) {
                    return Err(args.unknown_word(method));
                }
            }
            out.push(list);
        }
        Ok(Self(out))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        if self.0.is_empty() {
            out.push(format!("{name} any"));
        } else {
            let words: Vec<String> = self.0.iter().map(|list| list.join(",")).collect();
            out.push(format!("{name} {}", words.join(" ")));
        }
    }
}

/// `PermitUserEnvironment`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PermitUserEnvironment {
    /// No.
    #[default]
    No,
    /// Any variable.
    Yes,
    /// Variables whose names match this pattern list.
    Only(String),
}

impl Value for PermitUserEnvironment {
    const KIND: &'static str = "yes, no or a pattern list";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        Ok(match word.as_str() {
            "yes" => Self::Yes,
            "no" => Self::No,
            _ => Self::Only(word),
        })
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self {
            Self::No => format!("{name} no"),
            Self::Yes => format!("{name} yes"),
            Self::Only(list) => format!("{name} {list}"),
        });
    }
}

/// `PubkeyAuthOptions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PubkeyAuthOptions {
    /// Signatures of security keys must include a touch.
    pub touch_required: bool,
    /// Signatures of security keys must include user verification.
    pub verify_required: bool,
    /// Queries about keys that would not do, before further ones count as failures. `None` where the keyword is given
    /// without `max-pk-ok`: the first one counts, as in OpenSSH 10.6.
    pub free_queries: Option<u8>,
}

impl Value for PubkeyAuthOptions {
    const KIND: &'static str = "none, touch-required, verify-required, max-pk-ok:number";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let mut out = Self::default();
        for word in args.remaining() {
            match word.to_ascii_lowercase().as_str() {
                "none" => {}
                "touch-required" => out.touch_required = true,
                "verify-required" => out.verify_required = true,
                lower => match lower.strip_prefix("max-pk-ok:") {
                    Some(number) => out.free_queries = Some(free_queries(number, args)?),
                    None => return Err(args.unknown_word(&word)),
                },
            }
        }
        Ok(out)
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let mut words = Vec::new();
        if self.touch_required {
            words.push("touch-required".to_owned());
        }
        if self.verify_required {
            words.push("verify-required".to_owned());
        }
        if words.is_empty() {
            words.push("none".to_owned());
        }
        words.extend(self.free_queries.map(|number| format!("max-pk-ok:{number}")));
        out.push(format!("{name} {}", words.join(" ")));
    }
}

/// The number of `max-pk-ok`: 0 to 255.
fn free_queries(number: &str, args: &Arguments) -> Result<u8, ValueError> {
    let wide: i64 = number.parse().map_err(|_| args.malformed(Syntax::Number, number))?;
    u8::try_from(wide).map_err(|_| {
        let bound = if wide < 0 { Bound::NumberTooSmall } else { Bound::NumberTooLarge };
        args.refused(ValueFault::OutOfRange(bound))
    })
}

/// `LoginGraceTime` and similar server times, seconds; `none` or 0 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GraceTime(pub Option<u64>);

impl Value for GraceTime {
    const KIND: &'static str = "time, 0 or none for no limit";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required_part(Part::Time)?;
        if word.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        let seconds = parse_time(&word).ok_or_else(|| args.malformed(Syntax::Time, &word))?;
        Ok(Self((seconds > 0).then_some(seconds)))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}", self.0.unwrap_or(0)));
    }
}
