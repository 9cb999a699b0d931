//! The order of SYMLINK's two strings: which one is the link.
//!
//! The draft (filexfer-02, section 6.10) puts the link first. OpenSSH's server has always read the target
//! first, and its `PROTOCOL` (section 4.1) says so. Programs use one order, or the other, or choose by the
//! peer's identification. Several send the draft's order to every server that is not called OpenSSH, and so
//! to Longhaul's. [`PEERS`] lists how each program behaves towards Longhaul. The tests of the interop crate
//! check the programs that are available.

use crate::Request;

/// The order of the two strings in SYMLINK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkOrder {
    /// OpenSSH's order.
    #[default]
    TargetFirst,
    /// The draft's order.
    LinkFirst,
}

impl LinkOrder {
    /// Returns the value of [`crate::extension::SYMLINK_ORDER`] for this order.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TargetFirst => "targetpath-linkpath",
            Self::LinkFirst => "linkpath-targetpath",
        }
    }

    /// Returns the order with this [`name`](Self::name), if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::TargetFirst, Self::LinkFirst].into_iter().find(|order| order.name() == name)
    }

    /// Returns the other order.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::TargetFirst => Self::LinkFirst,
            Self::LinkFirst => Self::TargetFirst,
        }
    }

    /// Returns the request that makes `link` point to `target`, for a server that reads this order.
    pub const fn request<'a>(self, target: &'a [u8], link: &'a [u8]) -> Request<'a> {
        let (target, link) = self.sort(target, link);
        Request::Symlink { target, link }
    }

    /// Changes strings in the order target, link to this order, and strings in this order to target, link.
    pub const fn sort<'a>(self, first: &'a [u8], second: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        match self {
            Self::TargetFirst => (first, second),
            Self::LinkFirst => (second, first),
        }
    }
}

/// Knowledge of a peer's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The peer always uses this order.
    Always(LinkOrder),
    /// The order depends on the peer's version or its caller. Use this one unless the existing files show
    /// another.
    Mostly(LinkOrder),
}

impl Known {
    /// Knowledge of a peer that has no row: OpenSSH's order, unless the existing files show another.
    pub const UNKNOWN: Self = Self::Mostly(LinkOrder::TargetFirst);

    /// Returns the order to try first.
    pub const fn order(self) -> LinkOrder {
        match self {
            Self::Always(order) | Self::Mostly(order) => order,
        }
    }

    /// Returns the order that a client with this identification (`SSH-2.0-…`) sends to a Longhaul server.
    /// Without an identification, `lhsftp-server` runs below another program's `sshd`, mostly OpenSSH's. The
    /// client then uses the order for that program. Guessing by the existing files would be wrong: it would
    /// make a link when `ln -s missing existing` has to fail.
    pub fn of_client(identification: Option<&str>) -> Self {
        if identification.is_none() {
            return Self::Always(LinkOrder::TargetFirst);
        }
        row(identification).and_then(|row| row.sends).unwrap_or(Self::UNKNOWN)
    }

    /// Returns the order that a server with this identification reads from a Longhaul client.
    pub fn of_server(identification: Option<&str>) -> Self {
        row(identification).and_then(|row| row.reads).unwrap_or(Self::UNKNOWN)
    }
}

/// An implementation of SFTP, and its order for SYMLINK when the peer's identification begins with
/// `Longhaul_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Beginning of the software version in its identification.
    pub software: &'static str,
    /// Order that it sends as a client. `None` if it makes no links, or is no client.
    pub sends: Option<Known>,
    /// Order that it reads as a server. `None` if it is no server.
    pub reads: Option<Known>,
}

const fn peer(software: &'static str, sends: Option<Known>, reads: Option<Known>) -> Peer {
    Peer { software, sends, reads }
}

const OPENSSH: Option<Known> = Some(Known::Always(LinkOrder::TargetFirst));
const DRAFT: Option<Known> = Some(Known::Always(LinkOrder::LinkFirst));
const MOSTLY_OPENSSH: Option<Known> = Some(Known::Mostly(LinkOrder::TargetFirst));
const MOSTLY_DRAFT: Option<Known> = Some(Known::Mostly(LinkOrder::LinkFirst));

/// All known peers. Some clients send one order to every server (Twisted's, Ruby's net-sftp, sshj). With
/// OpenSSH's server their callers have to swap the arguments, and not all do: the existing files show which.
pub const PEERS: &[Peer] = &[
    peer("OpenSSH_", OPENSSH, OPENSSH),
    peer("Longhaul_", OPENSSH, OPENSSH),
    // Node's ssh2 1.x: OpenSSH's order where the peer's identification begins with OpenSSH or dropbear, as
    // client and as server (`ssh2js1.17.0srv`).
    peer("ssh2js", DRAFT, DRAFT),
    // asyncssh: OpenSSH's order where the peer's identification contains OpenSSH or paramiko, in both roles.
    peer("AsyncSSH_", DRAFT, DRAFT),
    // libssh: `sftp_symlink` uses OpenSSH's order if the server is OpenSSH. Its server passes both strings to
    // the program, the first one as the file's name. Its sample, and from 0.11 on its own handlers, make the
    // link at the first one.
    peer("libssh_", DRAFT, MOSTLY_DRAFT),
    // Older versions: `libssh-0.6.3`.
    peer("libssh-", DRAFT, MOSTLY_DRAFT),
    // russh-sftp: the draft's order with every peer. As a client it leaves the order to its callers (its
    // example gives the target first). Its server passes both strings to the program, the first one as the
    // link.
    peer("russh_", MOSTLY_OPENSSH, MOSTLY_DRAFT),
    // phpseclib: OpenSSH's order where the peer's identification begins with SSH-2.0-OpenSSH. Early releases
    // of the 1.0 and 2.0 series always sent OpenSSH's order, and have the same identification as later ones.
    peer("phpseclib_", MOSTLY_DRAFT, None),
    // WinSCP: OpenSSH's order where the server is OpenSSH, or where the user has set it so for the session.
    peer("WinSCP_", MOSTLY_DRAFT, None),
    // Paramiko reads and writes OpenSSH's order with every peer. So do the peers in the next rows.
    peer("paramiko_", OPENSSH, OPENSSH),
    // golang.org/x/crypto/ssh with pkg/sftp, rclone among them.
    peer("Go", OPENSSH, MOSTLY_OPENSSH),
    peer("SFTPGo_", OPENSSH, OPENSSH),
    peer("JSCH", OPENSSH, None),
    // SSH.NET writes the existing path first.
    peer("Renci.SshNet.SshClient.", OPENSSH, None),
    // libssh2 writes both strings in the caller's order; curl's `symlink` and `ln` commands give the target
    // first.
    peer("libssh2_", MOSTLY_OPENSSH, None),
    // Apache MINA's server (before version 2: `SSHD-CORE-…`).
    peer("APACHE-SSHD-", MOSTLY_OPENSSH, OPENSSH),
    peer("SSHD-CORE-", MOSTLY_OPENSSH, OPENSSH),
    // Twisted Conch: the draft's order with every peer.
    peer("Twisted", MOSTLY_OPENSSH, DRAFT),
    // Erlang/OTP: the draft's order with every peer.
    peer("Erlang/", MOSTLY_OPENSSH, DRAFT),
    // ProFTPD's mod_sftp reads OpenSSH's order.
    peer("mod_sftp", None, OPENSSH),
];

/// Returns the row of the peer with this identification line.
fn row(identification: Option<&str>) -> Option<&'static Peer> {
    let (_, software) = identification?.strip_prefix("SSH-")?.split_once('-')?;
    PEERS.iter().find(|peer| names(software, peer.software))
}

/// Returns true if the software version begins with `name` as a whole word: `Go` is not the name of
/// `GoAnywhere`.
fn names(software: &str, name: &str) -> bool {
    let is_letter = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphabetic());
    software
        .strip_prefix(name)
        .is_some_and(|rest| !(is_letter(name.chars().next_back()) && is_letter(rest.chars().next())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(software: &str) -> Known {
        Known::of_client(Some(&format!("SSH-2.0-{software}")))
    }

    fn server(software: &str) -> Known {
        Known::of_server(Some(&format!("SSH-2.0-{software}")))
    }

    /// Identifications from packet captures or sources, and their order in each role.
    #[test]
    fn identification_decides_the_order() {
        use Known::{Always, Mostly};
        use LinkOrder::{LinkFirst, TargetFirst};
        let unknown = Known::UNKNOWN;
        let seen = [
            ("OpenSSH_9.2p1 Debian-2+deb12u7", Always(TargetFirst), Always(TargetFirst)),
            ("OpenSSH_for_Windows_9.5", Always(TargetFirst), Always(TargetFirst)),
            ("OpenSSH_9.9-hpn18.8.0", Always(TargetFirst), Always(TargetFirst)),
            ("Longhaul_0.1.0", Always(TargetFirst), Always(TargetFirst)),
            ("ssh2js1.17.0", Always(LinkFirst), unknown),
            ("ssh2js1.17.0srv", Always(LinkFirst), Always(LinkFirst)),
            ("AsyncSSH_2.10.1", Always(LinkFirst), Always(LinkFirst)),
            ("libssh_0.10.6", Always(LinkFirst), Mostly(LinkFirst)),
            ("libssh-0.6.3", Always(LinkFirst), Mostly(LinkFirst)),
            ("russh_0.54.5", unknown, Mostly(LinkFirst)),
            ("phpseclib_3.0 (openssl, gmp)", Mostly(LinkFirst), unknown),
            ("WinSCP_release_6.3.3", Mostly(LinkFirst), unknown),
            ("paramiko_2.12.0", Always(TargetFirst), Always(TargetFirst)),
            ("Go", Always(TargetFirst), unknown),
            ("SFTPGo_2.6.6", Always(TargetFirst), Always(TargetFirst)),
            ("JSCH-0.1.54", Always(TargetFirst), unknown),
            ("JSCH_0.2.17", Always(TargetFirst), unknown),
            ("Renci.SshNet.SshClient.2024.1.0", Always(TargetFirst), unknown),
            ("libssh2_1.10.0", unknown, unknown),
            ("APACHE-SSHD-2.13.2", unknown, Always(TargetFirst)),
            ("SSHD-CORE-1.7.0", unknown, Always(TargetFirst)),
            ("Twisted_22.4.0", unknown, Always(LinkFirst)),
            ("Erlang/4.15.2", unknown, Always(LinkFirst)),
            ("mod_sftp", unknown, Always(TargetFirst)),
            ("SSHJ_0.38.0", unknown, unknown),
            ("Ruby/Net::SSH_6.1.0 x86_64-linux-gnu", unknown, unknown),
            ("PuTTY_Release_0.78", unknown, unknown),
            ("dropbear_2022.83", unknown, unknown),
            ("GoAnywhere7.4.1", unknown, unknown),
        ];
        for (software, as_client, as_server) in seen {
            assert_eq!(client(software), as_client, "{software} as client");
            if software != "ssh2js1.17.0" {
                assert_eq!(server(software), as_server, "{software} as server");
            }
        }
        let rows_seen = |peer: &&Peer| !seen.iter().any(|(software, ..)| software.starts_with(peer.software));
        assert_eq!(PEERS.iter().find(rows_seen), None, "every row has an example");
    }

    #[test]
    fn odd_identifications_are_unknown() {
        assert_eq!(Known::of_client(None), Known::Always(LinkOrder::TargetFirst));
        for odd in
            [Some(""), Some("SSH-2.0"), Some("SSH-2.0-"), Some("OpenSSH_9.2"), Some("SSH-2.0-xOpenSSH_")]
        {
            assert_eq!(Known::of_client(odd), Known::UNKNOWN, "{odd:?}");
            assert_eq!(Known::of_server(odd), Known::UNKNOWN, "{odd:?}");
        }
        assert_eq!(Known::of_client(Some("SSH-1.99-OpenSSH_3.0")), Known::Always(LinkOrder::TargetFirst));
    }

    #[test]
    fn orders_have_names() {
        for order in [LinkOrder::TargetFirst, LinkOrder::LinkFirst] {
            assert_eq!(LinkOrder::from_name(order.name()), Some(order));
            assert_eq!(order.reversed().reversed(), order);
        }
        assert_eq!(LinkOrder::from_name("1"), None);
    }
}
