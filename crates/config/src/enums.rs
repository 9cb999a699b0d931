//! Keywords with a fixed set of words as values.

pub use lh_wire::LogLevel;

use crate::line::{Arguments, Dialect};
use crate::table::Value;
use crate::value_error::{Part, ValueError};

/// Defines an enumeration with its spellings; a dump prints the first one.
macro_rules! enumeration {
    ($(#[$meta:meta])* $name:ident ($kind:literal) { $($(#[$vmeta:meta])* $variant:ident = $first:literal $(| $other:literal)*),* $(,)? }
     default $default:ident;) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$vmeta])* $variant),* }

        impl Default for $name {
            fn default() -> Self { Self::$default }
        }

        impl $name {
            /// Returns the word that a dump prints.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $first),* }
            }
            /// Parses any spelling of a value, in any case.
            pub fn from_word(word: &str) -> Option<Self> {
                $( if word.eq_ignore_ascii_case($first) $(|| word.eq_ignore_ascii_case($other))* { return Some(Self::$variant); } )*
                None
            }
        }

        impl Value for $name {
            const KIND: &'static str = $kind;
            const WORDS: &'static [&'static str] = &[$($first $(, $other)*),*];
            fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
                let word = args.required_part(Part::Word)?;
                match Self::from_word(&word) {
                    Some(value) if is_spelled_right(args, &word) => Ok(value),
                    _ => Err(args.unknown_word(&word)),
                }
            }
            fn dump(&self, name: &str, out: &mut Vec<String>) {
                out.push(format!("{name} {}", self.word()));
            }
        }
    };
}

/// Returns whether the program takes this spelling: sshd knows no `true` and `false`, and reads the words of
/// `PermitTunnel` with their case.
fn is_spelled_right(args: &Arguments, word: &str) -> bool {
    let truth = ["true", "false"].iter().any(|truth| word.eq_ignore_ascii_case(truth));
    let cased = args.keyword == "PermitTunnel" && word.bytes().any(|byte| byte.is_ascii_uppercase());
    args.dialect() == Dialect::Client || !truth && !cased
}

enumeration! {
    /// `AddressFamily`.
    AddressFamily ("any, inet or inet6") {
        /// IPv4 and IPv6.
        Any = "any",
        /// IPv4 only.
        Inet = "inet",
        /// IPv6 only.
        Inet6 = "inet6",
    }
    default Any;
}

enumeration! {
    /// `TCPKeepAlive`: the connections that the kernel probes.
    TcpKeepAlive ("yes, no, transport or all") {
        /// The SSH connection.
        Transport = "yes" | "transport" | "true",
        /// The SSH connection, and those of TCP and X11 forwards.
        All = "all",
        /// No connection.
        No = "no" | "false",
    }
    default Transport;
}

enumeration! {
    /// `StrictHostKeyChecking`.
    StrictHostKeyChecking ("yes, no, ask, accept-new or off") {
        /// Refuse unknown and changed keys.
        Yes = "true" | "yes",
        /// Accept unknown keys and, with restrictions, changed ones.
        No = "false" | "no" | "off",
        /// Ask about unknown keys, refuse changed ones.
        Ask = "ask",
        /// Accept unknown keys without asking, refuse changed ones.
        AcceptNew = "accept-new",
    }
    default Ask;
}

enumeration! {
    /// `VerifyHostKeyDNS` and `UpdateHostKeys`.
    YesNoAsk ("yes, no or ask") {
        /// The feature is on.
        Yes = "true" | "yes",
        /// The feature is off.
        No = "false" | "no",
        /// The user is asked.
        Ask = "ask",
    }
    default No;
}

enumeration! {
    /// `ControlMaster`.
    ControlMaster ("yes, no, ask, auto or autoask") {
        /// Use a master if there is one, but do not become one.
        No = "false" | "no",
        /// Become a master.
        Yes = "true" | "yes",
        /// Become a master that asks before each use.
        Ask = "ask",
        /// Use a master, or become one.
        Auto = "auto",
        /// Use a master, or become one that asks.
        AutoAsk = "autoask",
    }
    default No;
}

enumeration! {
    /// `RequestTTY`.
    RequestTty ("auto, yes, no or force") {
        /// Request a terminal for a shell, if standard input is one.
        Auto = "auto",
        /// Never request a terminal.
        No = "false" | "no",
        /// Request a terminal, if standard input is one.
        Yes = "true" | "yes",
        /// Always request a terminal.
        Force = "force",
    }
    default Auto;
}

enumeration! {
    /// `SessionType`.
    SessionType ("default, none or subsystem") {
        /// A shell or a command.
        Default = "default",
        /// No session (`-N`).
        None = "none",
        /// The command names a subsystem (`-s`).
        Subsystem = "subsystem",
    }
    default Default;
}

enumeration! {
    /// `Tunnel`, `PermitTunnel` on the client side.
    Tunnel ("yes, no, point-to-point or ethernet") {
        /// No tunnel.
        No = "false" | "no",
        /// A tunnel of Ethernet frames (layer 2).
        Ethernet = "ethernet",
        /// A tunnel of IP packets (layer 3).
        PointToPoint = "point-to-point" | "true" | "yes",
    }
    default No;
}

enumeration! {
    /// `PermitTunnel`.
    PermitTunnel ("yes, no, point-to-point or ethernet") {
        /// Tunnels are refused.
        No = "no",
        /// Tunnels of either layer are permitted.
        Yes = "yes",
        /// Tunnels of Ethernet frames (layer 2) are permitted.
        Ethernet = "ethernet",
        /// Tunnels of IP packets (layer 3) are permitted.
        PointToPoint = "point-to-point",
    }
    default No;
}

enumeration! {
    /// `CanonicalizeHostname`.
    CanonicalizeHostname ("yes, no or always") {
        /// Leave names to the resolver.
        No = "false" | "no",
        /// Canonicalize names unless a proxy is used.
        Yes = "true" | "yes",
        /// Canonicalize always.
        Always = "always",
    }
    default No;
}

enumeration! {
    /// `PubkeyAuthentication` of the client.
    ClientPubkeyAuthentication ("yes, no, unbound or host-bound") {
        /// Keys are used, with host-bound signatures where the server supports them.
        Yes = "true" | "yes",
        /// Keys are not used.
        No = "false" | "no",
        /// Keys are used, never with host-bound signatures.
        Unbound = "unbound",
        /// Keys are used, with host-bound signatures only.
        HostBound = "host-bound",
    }
    default Yes;
}

enumeration! {
    /// `WarnWeakCrypto`.
    WarnWeakCrypto ("yes, no or no-pq-kex") {
        /// Warn about all weak algorithms.
        Yes = "yes" | "true",
        /// No warnings.
        No = "no" | "false",
        /// No warnings about key exchanges that a quantum computer could break.
        NoPqKex = "no-pq-kex",
    }
    default Yes;
}

enumeration! {
    /// `FingerprintHash`.
    FingerprintHash ("sha256 or md5") {
        /// SHA-256, base64.
        Sha256 = "SHA256",
        /// MD5, hexadecimal.
        Md5 = "MD5",
    }
    default Sha256;
}

enumeration! {
    /// `FingerprintHash` of sshd, whose error message differs.
    ServerFingerprintHash ("sha256 or md5") {
        /// SHA-256, base64.
        Sha256 = "SHA256",
        /// MD5, hexadecimal.
        Md5 = "MD5",
    }
    default Sha256;
}

impl Value for LogLevel {
    const KIND: &'static str = "log level";
    const WORDS: &'static [&'static str] = &Self::WORDS;

    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required_part(Part::Word)?;
        Self::from_word(&word).ok_or_else(|| args.unknown_word(&word))
    }

    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}", self.word()));
    }
}

enumeration! {
    /// `SyslogFacility`.
    SyslogFacility ("syslog facility") {
        /// daemon.
        Daemon = "DAEMON",
        /// user.
        User = "USER",
        /// auth.
        Auth = "AUTH",
        /// authpriv.
        AuthPriv = "AUTHPRIV",
        /// local0.
        Local0 = "LOCAL0",
        /// local1.
        Local1 = "LOCAL1",
        /// local2.
        Local2 = "LOCAL2",
        /// local3.
        Local3 = "LOCAL3",
        /// local4.
        Local4 = "LOCAL4",
        /// local5.
        Local5 = "LOCAL5",
        /// local6.
        Local6 = "LOCAL6",
        /// local7.
        Local7 = "LOCAL7",
    }
    default User;
}

enumeration! {
    /// `Compression` of the server; `yes` means delayed until after authentication.
    ServerCompression ("yes, delayed or no") {
        /// Compression is allowed after authentication.
        Delayed = "yes" | "delayed",
        /// Compression is never allowed.
        No = "no",
    }
    default Delayed;
}

enumeration! {
    /// `PermitRootLogin`.
    PermitRootLogin ("yes, no, prohibit-password or forced-commands-only") {
        /// Root may log in, but not with a password.
        ProhibitPassword = "without-password" | "prohibit-password",
        /// Root may run forced commands only.
        ForcedCommandsOnly = "forced-commands-only",
        /// Root may log in.
        Yes = "yes",
        /// Root may not log in.
        No = "no",
    }
    default ProhibitPassword;
}

enumeration! {
    /// `GatewayPorts` of the server.
    ServerGatewayPorts ("yes, no or clientspecified") {
        /// Remote forwards listen on the loopback address.
        No = "no",
        /// Remote forwards listen on every address.
        Yes = "yes",
        /// The client chooses.
        ClientSpecified = "clientspecified",
    }
    default No;
}

enumeration! {
    /// `AllowTcpForwarding`, `AllowStreamLocalForwarding`.
    AllowForwarding ("yes, no, local or remote") {
        /// Both directions are permitted.
        Yes = "yes" | "all",
        /// Forwarding is not permitted.
        No = "no",
        /// Only remote forwards (`-R`) are permitted.
        Remote = "remote",
        /// Only local forwards (`-L`) are permitted.
        Local = "local",
    }
    default Yes;
}

impl AllowForwarding {
    /// Returns whether the client may open connections from this server (`-L`).
    pub fn local(self) -> bool {
        matches!(self, Self::Yes | Self::Local)
    }
    /// Returns whether the client may listen on this server (`-R`).
    pub fn remote(self) -> bool {
        matches!(self, Self::Yes | Self::Remote)
    }
}

enumeration! {
    /// `TransferLogFormat`.
    TransferLogFormat ("text, json or hpn") {
        /// Lines of names and values.
        Text = "text",
        /// Lines with a JSON object.
        Json = "json",
        /// Lines in HPN-SSH's format.
        Hpn = "hpn",
    }
    default Text;
}

enumeration! {
    /// `LonghaulSftp`.
    LonghaulSftp ("internal or external") {
        /// The built-in SFTP server.
        Internal = "internal",
        /// The program named in the configuration.
        External = "external",
    }
    default Internal;
}

enumeration! {
    /// `IgnoreRhosts`.
    IgnoreRhosts ("yes, no or shosts-only") {
        /// Ignore `.rhosts` and `.shosts`.
        Yes = "yes",
        /// Read `.rhosts` and `.shosts`.
        No = "no",
        /// Read `.shosts` only.
        ShostsOnly = "shosts-only",
    }
    default Yes;
}
