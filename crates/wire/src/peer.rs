//! Limits beyond the RFCs: for each kind of peer, what it is known to accept and how we know.
//!
//! RFC 4253 section 6.1 obliges every peer to take packets with 32,768 bytes of payload and 35,000 bytes in
//! all, and RFC 4254 leaves the rest to what the peer announces. Whatever goes beyond that, in either
//! direction, stands in [`Limits`]: a peer that is not known to accept it does not meet it. Every row names
//! its evidence; docs/protocol.md has the same table with the tests.

use crate::NameList;

/// Data in one channel packet that every peer accepts and sends: what stock OpenSSH announces, and what RFC
/// 4253 section 6.1 promises.
pub const STOCK_CHANNEL_PACKET: u32 = 32 * 1024;

/// Data in one channel packet where both ends are known to be right with it. A packet costs its header, its
/// tag and its way through the layers, so larger ones are cheaper. Beyond this no more is won (measured from
/// 32 to 240 KiB), credit comes in lumps, and on a slow path a keystroke waits longer for the packet before
/// it.
pub const LARGE_CHANNEL_PACKET: u32 = 64 * 1024;

/// The cipher that only HPN-SSH and Longhaul offer.
const HPN_CIPHER: &str = "chacha20-poly1305-mt@hpnssh.org";

/// Which implementation the peer is, as far as that decides what it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Peer {
    /// Longhaul itself.
    Longhaul,
    /// A release of stock OpenSSH: `OpenSSH_` and a version number, nothing behind it.
    OpenSsh,
    /// HPN-SSH, of whatever version.
    HpnSsh,
    /// A patched or ported OpenSSH: its code is stock's where nobody changed it, and nobody here knows where
    /// that is.
    OpenSshVariant,
    /// Everything else, and peers whose identification is not known, as behind somebody else's shared
    /// connection.
    #[default]
    Unknown,
}

/// What may be announced to a peer and sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Data in one channel packet that we announce, bytes: what the peer may send.
    pub received_channel_packet: u32,
    /// Data in one channel packet that we send, bytes, where the peer announces as much or more.
    pub sent_channel_packet: u32,
    /// Longest `packet_length` (RFC 4253 section 6) that we send under any key, bytes. `None`: what our own
    /// transport takes.
    pub sent_packet: Option<u32>,
    /// Answers a global request that it does not know. RFC 4254 section 4 asks for that, and there are
    /// programs that leave instead.
    pub answers_unknown_requests: bool,
    /// Knows OpenSSH's `no-more-sessions@openssh.com`.
    pub knows_no_more_sessions: bool,
    /// Takes several authentication requests before it has answered the first (RFC 4252 section 5.1 allows
    /// them).
    pub takes_several_auth_requests: bool,
    /// Answers HPN-SSH's `stack-metrics@hpnssh.org`.
    pub answers_stack_metrics: bool,
}

impl Limits {
    /// What the RFCs oblige everybody to accept.
    const RFC: Self = Self {
        received_channel_packet: STOCK_CHANNEL_PACKET,
        sent_channel_packet: STOCK_CHANNEL_PACKET,
        sent_packet: None,
        answers_unknown_requests: false,
        knows_no_more_sessions: false,
        takes_several_auth_requests: false,
        answers_stack_metrics: false,
    };

    /// What all descendants of OpenSSH do, ports and patched ones included: the code is older than any of
    /// them, and `interop/tests` has it with Debian's.
    const OPENSSH_FAMILY: Self = Self {
        answers_unknown_requests: true,
        knows_no_more_sessions: true,
        takes_several_auth_requests: true,
        ..Self::RFC
    };
}

impl Peer {
    /// The peer that sent this identification line (`SSH-2.0-…`, without line ending).
    pub fn of(identification: &str) -> Self {
        let software = identification.splitn(3, '-').nth(2).unwrap_or_default();
        // HPN-SSH's has been `_hpn18.8.0`, `-hpn14v15` and ` HPN-…` over time.
        let hpn = software.starts_with("OpenSSH") && software.to_ascii_lowercase().contains("hpn");
        if software.starts_with("Longhaul_") {
            Self::Longhaul
        } else if hpn {
            Self::HpnSsh
        } else if let Some(version) = software.strip_prefix("OpenSSH_") {
            if is_release(version) { Self::OpenSsh } else { Self::OpenSshVariant }
        } else {
            Self::Unknown
        }
    }

    /// The same peer once the name-lists of its KEXINIT are known: who offers HPN-SSH's cipher is HPN-SSH,
    /// whatever its identification says.
    #[must_use]
    pub fn with_ciphers(self, ciphers: NameList<'_>) -> Self {
        if self != Self::Longhaul && ciphers.contains(HPN_CIPHER) { Self::HpnSsh } else { self }
    }

    /// What this peer is known to accept.
    pub const fn limits(self) -> Limits {
        match self {
            // Both ends are this code, and the tests of this repository run them against each other.
            Self::Longhaul => Limits {
                received_channel_packet: LARGE_CHANNEL_PACKET,
                sent_channel_packet: LARGE_CHANNEL_PACKET,
                answers_stack_metrics: true,
                ..Limits::OPENSSH_FAMILY
            },
            // Its transport takes and makes packets of 256 KiB, and its channels fill what they are
            // announced. It announces 32 KiB itself. Tested with Debian's ssh and sshd in both roles.
            Self::OpenSsh => {
                Limits { received_channel_packet: LARGE_CHANNEL_PACKET, ..Limits::OPENSSH_FAMILY }
            }
            // Its threaded ChaCha20 has 32,896 bytes of key stream for each packet. What is longer it
            // combines with memory behind that (the next packet's key stream), and the tag is right all the
            // same: data arrive corrupted, and readable. It checks no length below 33 KiB (its limit after
            // authentication), so nothing longer than the key stream is sent to it.
            Self::HpnSsh => {
                Limits { sent_packet: Some(32_896), answers_stack_metrics: true, ..Limits::OPENSSH_FAMILY }
            }
            Self::OpenSshVariant => Limits::OPENSSH_FAMILY,
            Self::Unknown => Limits::RFC,
        }
    }
}

/// `9.2p1`, perhaps with a comment (a distribution's version) behind a space.
fn is_release(version: &str) -> bool {
    let number = version.split(' ').next().unwrap_or_default();
    let (number, patch) = number.split_once('p').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(patch) && number.split('.').count() >= 2 && number.split('.').all(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_told_by_their_identification() {
        for (line, peer) in [
            ("SSH-2.0-Longhaul_0.1.0", Peer::Longhaul),
            ("SSH-2.0-Longhaul_0.1.0 some-host", Peer::Longhaul),
            ("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3", Peer::OpenSsh),
            ("SSH-2.0-OpenSSH_10.5p1", Peer::OpenSsh),
            ("SSH-2.0-OpenSSH_10.0", Peer::OpenSsh),
            ("SSH-1.99-OpenSSH_3.9p1", Peer::OpenSsh),
            ("SSH-2.0-OpenSSH_10.2p1_hpn18.8.0", Peer::HpnSsh),
            ("SSH-2.0-OpenSSH_8.5p1-hpn15v2", Peer::HpnSsh),
            ("SSH-2.0-OpenSSH_6.6.1_hpn13v11 FreeBSD-20140420", Peer::HpnSsh),
            ("SSH-2.0-OpenSSH_9.2p1 HPN-SSH", Peer::HpnSsh),
            ("SSH-2.0-OpenSSH_for_Windows_9.5", Peer::OpenSshVariant),
            ("SSH-2.0-OpenSSH_", Peer::OpenSshVariant),
            ("SSH-2.0-OpenSSH_9", Peer::OpenSshVariant),
            ("SSH-2.0-OpenSSH_9.2p", Peer::OpenSshVariant),
            ("SSH-2.0-OpenSSH_9.2p1x", Peer::OpenSshVariant),
            ("SSH-2.0-OpenSSH", Peer::Unknown),
            ("SSH-2.0-dropbear_hpn", Peer::Unknown),
            ("SSH-2.0-paramiko_3.5.1", Peer::Unknown),
            ("SSH-2.0-Long", Peer::Unknown),
            ("", Peer::Unknown),
        ] {
            assert_eq!(Peer::of(line), peer, "{line}");
        }
    }

    #[test]
    fn an_offered_cipher_tells_hpn_ssh() {
        let list = |text: &'static str| NameList::from_content(text.as_bytes()).unwrap();
        let (plain, hpn) = (list("aes128-ctr"), list("aes128-ctr,chacha20-poly1305-mt@hpnssh.org"));
        for peer in [Peer::OpenSsh, Peer::OpenSshVariant, Peer::Unknown, Peer::HpnSsh] {
            assert_eq!(peer.with_ciphers(hpn), Peer::HpnSsh);
            assert_eq!(peer.with_ciphers(plain), peer);
        }
        assert_eq!(Peer::Longhaul.with_ciphers(hpn), Peer::Longhaul);
    }

    #[test]
    fn only_known_peers_get_more_than_the_rfc_promises() {
        for peer in [Peer::HpnSsh, Peer::OpenSshVariant, Peer::Unknown, Peer::default()] {
            let limits = peer.limits();
            let packets = (limits.received_channel_packet, limits.sent_channel_packet);
            assert_eq!(packets, (STOCK_CHANNEL_PACKET, STOCK_CHANNEL_PACKET), "{peer:?}");
        }
        // Data of the largest channel packet, the head of extended data, padding length and the most padding
        // there can be without need: all of it is below what HPN-SSH's key stream covers.
        let most = STOCK_CHANNEL_PACKET + 13 + 1 + 19;
        assert!(Peer::HpnSsh.limits().sent_packet.is_some_and(|limit| most <= limit));
    }
}
