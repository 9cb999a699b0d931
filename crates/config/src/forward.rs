//! Forward specifications: `-L`, `-R`, `-D` and their keywords.

use crate::line::Arguments;
use crate::table::Value;
use crate::value_error::{Part, Syntax, ValueError};

/// One end of a forward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A TCP address. `host` is `None` if the specification has none; for a listener, `GatewayPorts` then
    /// decides.
    Tcp {
        /// Name, address, or `*`; an explicit empty name means all addresses, like `*`.
        host: Option<String>,
        /// Port; 0 lets the listener choose.
        port: u16,
    },
    /// An absolute path of a Unix socket.
    Unix(String),
}

/// One forward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Listening end.
    pub listen: Endpoint,
    /// Connect target; `None` for dynamic forwards (SOCKS).
    pub connect: Option<Endpoint>,
}

/// Parses a port number or a service name of /etc/services. Like the C library, permits white space and a
/// plus before the number.
pub fn parse_port(text: &str) -> Option<u16> {
    let number = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let number = number.strip_prefix('+').unwrap_or(number);
    if number.bytes().all(|b| b.is_ascii_digit()) {
        return number.parse().ok();
    }
    crate::services::port(text)
}

/// Splits a specification at each `:` outside brackets; a backslash escapes the next character.
fn fields(text: &str) -> Option<Vec<String>> {
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        if let Some(bracketed) = rest.strip_prefix('[') {
            let end = bracketed.find(']')?;
            out.push(bracketed[..end].to_string());
            rest = &bracketed[end + 1..];
            match rest.chars().next() {
                None => return Some(out),
                Some(':') => rest = &rest[1..],
                Some(_) => return None,
            }
            continue;
        }
        let mut end = None;
        let mut escaped = false;
        for (index, c) in rest.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                ':' => {
                    end = Some(index);
                    break;
                }
                _ => {}
            }
        }
        match end {
            Some(end) => {
                out.push(unescape(&rest[..end]));
                rest = &rest[end + 1..];
            }
            None => {
                out.push(unescape(rest));
                return Some(out);
            }
        }
    }
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            c => out.push(c),
        }
    }
    out
}

fn listen_host(text: &str) -> Option<String> {
    Some(if text.is_empty() { "*".to_string() } else { text.to_string() })
}

fn tcp(host: Option<String>, port: &str) -> Option<Endpoint> {
    Some(Endpoint::Tcp { host, port: parse_port(port)? })
}

fn target(host: &str, port: &str) -> Option<Endpoint> {
    let port = parse_port(port).filter(|port| *port != 0)?;
    (!host.is_empty()).then(|| Endpoint::Tcp { host: Some(host.to_string()), port })
}

impl Endpoint {
    /// Returns whether the address fits the kernel's structures: `sun_path` for paths, `NI_MAXHOST` for
    /// names, both with a null byte. As in ssh, a path counts with its tokens unexpanded.
    fn fits(&self) -> bool {
        match self {
            Self::Unix(path) => path.len() < if cfg!(target_os = "linux") { 108 } else { 104 },
            Self::Tcp { host, .. } => host.as_ref().is_none_or(|host| host.len() < 1025),
        }
    }
}

impl Forward {
    /// Parses `[bind:]port:host:hostport`, `[bind:]port:/path`, `/path:host:hostport` or `/path:/path`. This
    /// is the syntax of `-L`, and with `remote` of `-R`, which also accepts `[bind:]port` alone for a remote
    /// SOCKS proxy. As in ssh, each part with a slash is a path.
    pub fn parse(spec: &str, remote: bool) -> Option<Self> {
        let parts = fields(spec.trim())?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        // A path may be relative, or begin with a token or a variable (`${XDG_RUNTIME_DIR}/agent`).
        let path = |text: &str| text.contains('/');
        let (listen, connect) = match parts.as_slice() {
            [a] if remote => (if path(a) { Endpoint::Unix(a.to_string()) } else { tcp(None, a)? }, None),
            [a, b] if path(a) && path(b) => {
                (Endpoint::Unix(a.to_string()), Some(Endpoint::Unix(b.to_string())))
            }
            [a, b] if path(b) => (tcp(None, a)?, Some(Endpoint::Unix(b.to_string()))),
            [a, b] if remote && !path(a) => (tcp(listen_host(a), b)?, None),
            [a, b, c] if path(a) => (Endpoint::Unix(a.to_string()), Some(target(b, c)?)),
            [a, b, c] if path(c) => (tcp(listen_host(a), b)?, Some(Endpoint::Unix(c.to_string()))),
            [a, b, c] => (tcp(None, a)?, Some(target(b, c)?)),
            [a, b, c, d] => (tcp(listen_host(a), b)?, Some(target(c, d)?)),
            _ => return None,
        };
        // Only the server may choose a port.
        if !remote && matches!(listen, Endpoint::Tcp { port: 0, .. }) {
            return None;
        }
        (listen.fits() && connect.as_ref().is_none_or(Endpoint::fits)).then_some(Self { listen, connect })
    }

    /// Parses `[bind:]port`, or the path of a socket (`-D`).
    pub fn parse_dynamic(spec: &str) -> Option<Self> {
        let parts = fields(spec.trim())?;
        let listen = match parts.as_slice() {
            [path] if path.contains('/') => Endpoint::Unix(path.clone()),
            [port] => tcp(None, port)?,
            [host, port] => tcp(listen_host(host), port)?,
            _ => return None,
        };
        let allowed = !matches!(listen, Endpoint::Tcp { port: 0, .. }) && listen.fits();
        allowed.then_some(Self { listen, connect: None })
    }

    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let end = |endpoint: &Endpoint| match endpoint {
            Endpoint::Tcp { host: None, port } => port.to_string(),
            Endpoint::Tcp { host: Some(host), port } => format!("[{host}]:{port}"),
            Endpoint::Unix(path) => path.clone(),
        };
        out.push(match &self.connect {
            Some(connect) => format!("{name} {} {}", end(&self.listen), end(connect)),
            None if name.eq_ignore_ascii_case("remoteforward") => {
                format!("{name} {} [socks]:0", end(&self.listen))
            }
            None => format!("{name} {}", end(&self.listen)),
        });
    }
}

macro_rules! forwards {
    ($(#[$meta:meta])* $name:ident, $parse:expr, $two_words:literal, $required:literal) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name(pub Vec<Forward>);

        impl Value for $name {
            const KIND: &'static str = "forwarding, may be repeated";
            const ACCUMULATES: bool = true;
            fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
                let mut spec = args.required()?;
                let mut has_target = false;
                if $two_words {
                    match args.next_word().filter(|word| !word.is_empty()) {
                        Some(word) => {
                            // A keyword writes its listening side as "port" or "host:port". Joined by a
                            // colon, its two words have the syntax of a flag.
                            spec.push(':');
                            spec.push_str(&word);
                            has_target = true;
                        }
                        None if $required => return Err(args.missing(Part::ForwardTarget)),
                        None => {}
                    }
                }
                #[allow(clippy::redundant_closure_call)]
                let forward: Option<Forward> = ($parse)(&spec);
                // Two ports alone are not a port and a target, although they could be an address and a port.
                // One word has no target.
                let forward = forward.filter(|forward| has_target == forward.connect.is_some());
                let forward = forward.ok_or_else(|| args.malformed(Syntax::Forward, &spec))?;
                Ok(Self(vec![forward]))
            }
            fn append(&mut self, later: Self) {
                for forward in later.0 {
                    if !self.0.contains(&forward) {
                        self.0.push(forward);
                    }
                }
            }
            fn dump(&self, name: &str, out: &mut Vec<String>) {
                self.0.iter().for_each(|forward| forward.dump(name, out));
            }
        }
    };
}

forwards!(
    /// Values of all `LocalForward` lines.
    LocalForwards,
    |spec: &str| Forward::parse(spec, false),
    true,
    true
);
forwards!(
    /// Values of all `RemoteForward` lines.
    RemoteForwards,
    |spec: &str| Forward::parse(spec, true),
    true,
    false
);
forwards!(
    /// Values of all `DynamicForward` lines.
    DynamicForwards,
    Forward::parse_dynamic,
    false,
    false
);
