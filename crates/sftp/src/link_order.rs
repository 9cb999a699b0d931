//! The order of SYMLINK's two strings: which one is the link.
//!
//! The draft (filexfer-02, section 6.10) puts the link first. OpenSSH's server has always read the target
//! first, and its `PROTOCOL` (section 4.1) says so. Programs use one order, or the other, or choose by the
//! peer's identification. Several send the draft's order to every server that is not called OpenSSH, and so
//! to Longhaul's. Some of them search the whole identification line, and `VersionAddendum` may put OpenSSH's
//! name into Longhaul's. [`PEERS`] lists how each program behaves towards Longhaul. The tests of the interop
//! crate check the programs that are available.

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

    /// Returns the order that a client with the identification `client` (`SSH-2.0-…`) sends to a Longhaul
    /// server with the identification `own`. Without `own`, the order for a server without `VersionAddendum`.
    ///
    /// Without `client`, `lhsftp-server` runs below another program's `sshd`, mostly OpenSSH's. The client
    /// then uses the order for that program. Guessing by the existing files would be wrong: it would make a
    /// link when `ln -s missing existing` has to fail.
    pub fn of_client(client: Option<&str>, own: Option<&str>) -> Self {
        if client.is_none() {
            return Self::Always(LinkOrder::TargetFirst);
        }
        row(client).and_then(|row| row.sends).map_or(Self::UNKNOWN, |rule| rule.known(own))
    }

    /// Returns the order that a server with the identification `server` reads from a Longhaul client with the
    /// identification `own`. Without `own`, the order for a client without `VersionAddendum`.
    pub fn of_server(server: Option<&str>, own: Option<&str>) -> Self {
        row(server).and_then(|row| row.reads).map_or(Self::UNKNOWN, |rule| rule.known(own))
    }
}

/// Rule by which a peer chooses its order towards Longhaul.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The peer does not look at Longhaul's identification, or only at its beginning, which is always
    /// `SSH-2.0-Longhaul_`.
    Is(Known),
    /// OpenSSH's order if Longhaul's identification contains one of these strings, otherwise the draft's.
    IfNamed(&'static [&'static str]),
    /// OpenSSH's order if Longhaul's identification contains `OpenSSH` and a version, otherwise the draft's.
    IfOpenSshVersion,
}

impl Rule {
    /// Returns the order towards this end, whose identification is `own`.
    fn known(self, own: Option<&str>) -> Known {
        let own = own.unwrap_or_default();
        match self {
            Self::Is(known) => known,
            Self::IfNamed(names) if names.iter().any(|name| own.contains(name)) => OPENSSH,
            Self::IfNamed(_) => DRAFT,
            Self::IfOpenSshVersion => match own.split_once("OpenSSH").map(|(_, rest)| rest.as_bytes()) {
                // `OpenSSH_9.2`; any character may stand before the version and in it.
                Some([_, b'1'..=b'9', separator, b'0'..=b'9', ..]) if !separator.is_ascii_digit() => OPENSSH,
                // Of other numbers, such as `OpenSSH_10.0`, some releases read a version, others do not.
                Some([_, rest @ ..]) if rest.iter().take(3).any(u8::is_ascii_digit) => MOSTLY_DRAFT,
                _ => DRAFT,
            },
        }
    }
}

/// An implementation of SFTP, and its order for SYMLINK when the peer's identification begins with
/// `Longhaul_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Beginning of the software version in its identification.
    pub software: &'static str,
    /// Order that it sends as a client. `None` if it makes no links, or is no client.
    pub sends: Option<Rule>,
    /// Order that it reads as a server. `None` if it is no server.
    pub reads: Option<Rule>,
}

const fn peer(software: &'static str, sends: Option<Rule>, reads: Option<Rule>) -> Peer {
    Peer { software, sends, reads }
}

const OPENSSH: Known = Known::Always(LinkOrder::TargetFirst);
const DRAFT: Known = Known::Always(LinkOrder::LinkFirst);
const MOSTLY_OPENSSH: Known = Known::Mostly(LinkOrder::TargetFirst);
const MOSTLY_DRAFT: Known = Known::Mostly(LinkOrder::LinkFirst);

const ASYNCSSH: Option<Rule> = Some(Rule::IfNamed(&["OpenSSH", "paramiko"]));

const fn is(known: Known) -> Option<Rule> {
    Some(Rule::Is(known))
}

/// All known peers. Some clients send one order to every server (Twisted's, Ruby's net-sftp, sshj). With
/// OpenSSH's server their callers have to swap the arguments, and not all do: the existing files show which.
pub const PEERS: &[Peer] = &[
    peer("OpenSSH_", is(OPENSSH), is(OPENSSH)),
    peer("Longhaul_", is(OPENSSH), is(OPENSSH)),
    // Node's ssh2 1.x: OpenSSH's order where the peer's identification begins with OpenSSH or dropbear, as
    // client and as server (`ssh2js1.17.0srv`).
    peer("ssh2js", is(DRAFT), is(DRAFT)),
    // asyncssh: OpenSSH's order where the peer's identification contains OpenSSH or paramiko, in both roles.
    peer("AsyncSSH_", ASYNCSSH, ASYNCSSH),
    // libssh: `sftp_symlink` uses OpenSSH's order if the server's identification contains OpenSSH and a
    // version. Its server passes both strings to
    // the program, the first one as the file's name. Its sample, and from 0.11 on its own handlers, make the
    // link at the first one.
    peer("libssh_", Some(Rule::IfOpenSshVersion), is(MOSTLY_DRAFT)),
    // Older versions: `libssh-0.6.3`.
    peer("libssh-", Some(Rule::IfOpenSshVersion), is(MOSTLY_DRAFT)),
    // russh-sftp: the draft's order with every peer. As a client it leaves the order to its callers (its
    // example gives the target first). Its server passes both strings to the program, the first one as the
    // link.
    peer("russh_", is(MOSTLY_OPENSSH), is(MOSTLY_DRAFT)),
    // phpseclib: OpenSSH's order where the peer's identification begins with SSH-2.0-OpenSSH. Early releases
    // of the 1.0 and 2.0 series always sent OpenSSH's order, and have the same identification as later ones.
    peer("phpseclib_", is(MOSTLY_DRAFT), None),
    // WinSCP: OpenSSH's order where the server is OpenSSH, or where the user has set it so for the session.
    peer("WinSCP_", is(MOSTLY_DRAFT), None),
    // Paramiko reads and writes OpenSSH's order with every peer. So do the peers in the next rows.
    peer("paramiko_", is(OPENSSH), is(OPENSSH)),
    // golang.org/x/crypto/ssh with pkg/sftp, rclone among them.
    peer("Go", is(OPENSSH), is(MOSTLY_OPENSSH)),
    peer("SFTPGo_", is(OPENSSH), is(OPENSSH)),
    peer("JSCH", is(OPENSSH), None),
    // SSH.NET writes the existing path first.
    peer("Renci.SshNet.SshClient.", is(OPENSSH), None),
    // libssh2 writes both strings in the caller's order; curl's `symlink` and `ln` commands give the target
    // first.
    peer("libssh2_", is(MOSTLY_OPENSSH), None),
    // Apache MINA's server (before version 2: `SSHD-CORE-…`).
    peer("APACHE-SSHD-", is(MOSTLY_OPENSSH), is(OPENSSH)),
    peer("SSHD-CORE-", is(MOSTLY_OPENSSH), is(OPENSSH)),
    // Twisted Conch: the draft's order with every peer.
    peer("Twisted", is(MOSTLY_OPENSSH), is(DRAFT)),
    // Erlang/OTP: the draft's order with every peer.
    peer("Erlang/", is(MOSTLY_OPENSSH), is(DRAFT)),
    // ProFTPD's mod_sftp reads OpenSSH's order.
    peer("mod_sftp", None, is(OPENSSH)),
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
        Known::of_client(Some(&format!("SSH-2.0-{software}")), Some("SSH-2.0-Longhaul_0.2.0"))
    }

    fn server(software: &str) -> Known {
        Known::of_server(Some(&format!("SSH-2.0-{software}")), Some("SSH-2.0-Longhaul_0.2.0"))
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
        assert_eq!(Known::of_client(None, None), Known::Always(LinkOrder::TargetFirst));
        for odd in
            [Some(""), Some("SSH-2.0"), Some("SSH-2.0-"), Some("OpenSSH_9.2"), Some("SSH-2.0-xOpenSSH_")]
        {
            assert_eq!(Known::of_client(odd, None), Known::UNKNOWN, "{odd:?}");
            assert_eq!(Known::of_server(odd, None), Known::UNKNOWN, "{odd:?}");
        }
        assert_eq!(
            Known::of_client(Some("SSH-1.99-OpenSSH_3.0"), None),
            Known::Always(LinkOrder::TargetFirst)
        );
    }

    #[test]
    fn names_in_the_own_identification_decide_for_those_who_look() {
        for (comment, asyncssh, libssh) in [
            ("", DRAFT, DRAFT),
            (" Site 7 of our company", DRAFT, DRAFT),
            (" OpenSSH_9.2-compatible", OPENSSH, OPENSSH),
            (" like OpenSSH-8.4p1", OPENSSH, OPENSSH),
            (" paramiko_3.1", OPENSSH, DRAFT),
            (" openssh_9.2", DRAFT, DRAFT),
            (" OpenSSH", OPENSSH, DRAFT),
            (" OpenSSH_9", OPENSSH, MOSTLY_DRAFT),
            (" OpenSSH compatible since 2026", OPENSSH, DRAFT),
            (" OpenSSH_for_Windows_9.5", OPENSSH, DRAFT),
            (" OpenSSH_10.0", OPENSSH, MOSTLY_DRAFT),
            (" OpenSSH, 9.2", OPENSSH, MOSTLY_DRAFT),
            (" OpenSSH_0.1", OPENSSH, MOSTLY_DRAFT),
        ] {
            let own = format!("SSH-2.0-Longhaul_0.2.0{comment}");
            let sends = |software: &str| Known::of_client(Some(&format!("SSH-2.0-{software}")), Some(&own));
            let reads = |software: &str| Known::of_server(Some(&format!("SSH-2.0-{software}")), Some(&own));
            assert_eq!(sends("AsyncSSH_2.10.1"), asyncssh, "{own}");
            assert_eq!(reads("AsyncSSH_2.10.1"), asyncssh, "{own}");
            assert_eq!(sends("libssh_0.10.6"), libssh, "{own}");
            assert_eq!(sends("libssh-0.6.3"), libssh, "{own}");
            // They look at the beginning of the line, or not at all.
            assert_eq!(reads("libssh_0.10.6"), MOSTLY_DRAFT, "{own}");
            assert_eq!(sends("ssh2js1.17.0"), DRAFT, "{own}");
            assert_eq!(sends("phpseclib_3.0 (openssl, gmp)"), MOSTLY_DRAFT, "{own}");
            assert_eq!(sends("OpenSSH_9.2p1"), OPENSSH, "{own}");
            assert_eq!(sends("SSHJ_0.38.0"), Known::UNKNOWN, "{own}");
        }
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
