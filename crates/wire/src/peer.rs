//! Limits beyond the RFCs: what each kind of peer is known to accept, with the evidence.
//!
//! RFC 4253 section 6.1 obliges every peer to accept packets with 32,768 bytes of payload and 35,000 bytes in
//! total. RFC 4254 leaves the rest to what the peer announces. Everything beyond that, in either direction,
//! is listed in [`Limits`] and used only with peers that are known to accept it. Every row names its
//! evidence; docs/protocol.md has the same table with the tests.

use crate::NameList;

/// Largest channel data per packet that every peer accepts and sends, bytes: what stock OpenSSH announces and
/// RFC 4253 section 6.1 guarantees.
pub const STOCK_CHANNEL_PACKET: u32 = 32 * 1024;

/// Largest channel data per packet with peers that are known to handle it, bytes. Each packet costs a header,
/// a tag and a pass through the layers, so larger packets are cheaper. Beyond 64 KiB nothing more is gained
/// (measured from 32 to 240 KiB). Window credit then comes in larger steps, and on a slow path a keystroke
/// waits longer behind the packet before it.
pub const LARGE_CHANNEL_PACKET: u32 = 64 * 1024;

/// The cipher that only HPN-SSH and Longhaul offer.
const HPN_CIPHER: &str = "chacha20-poly1305-mt@hpnssh.org";

/// Implementation of the peer, as far as it decides what we send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Peer {
    /// Longhaul itself.
    Longhaul,
    /// A release of stock OpenSSH: `OpenSSH_` and a version number, nothing after it.
    OpenSsh,
    /// HPN-SSH, any version.
    HpnSsh,
    /// A patched or ported OpenSSH. Its unpatched code behaves like stock OpenSSH, but we cannot know which
    /// parts are patched.
    OpenSshVariant,
    /// Any other peer, or one whose identification is not known, for example behind another program's shared
    /// connection.
    #[default]
    Unknown,
}

/// Limits of what we announce to a peer and send to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest channel data per packet that we announce, bytes: what the peer may send.
    pub received_channel_packet: u32,
    /// Largest channel data per packet that we send, bytes, if the peer announces at least as much.
    pub sent_channel_packet: u32,
    /// Longest `packet_length` (RFC 4253 section 6) that we send under any key, bytes. `None`: only our own
    /// transport limits it.
    pub sent_packet: Option<u32>,
    /// The peer answers global requests that it does not know. RFC 4254 section 4 requires it, but some
    /// programs disconnect instead.
    pub answers_unknown_requests: bool,
    /// The peer knows OpenSSH's `no-more-sessions@openssh.com`.
    pub knows_no_more_sessions: bool,
    /// The peer accepts several authentication requests before it has answered the first (RFC 4252 section
    /// 5.1 allows them).
    pub takes_several_auth_requests: bool,
    /// The peer answers HPN-SSH's `stack-metrics@hpnssh.org`.
    pub answers_stack_metrics: bool,
}

impl Limits {
    /// Limits that the RFCs guarantee for every peer.
    const RFC: Self = Self {
        received_channel_packet: STOCK_CHANNEL_PACKET,
        sent_channel_packet: STOCK_CHANNEL_PACKET,
        sent_packet: None,
        answers_unknown_requests: false,
        knows_no_more_sessions: false,
        takes_several_auth_requests: false,
        answers_stack_metrics: false,
    };

    /// Limits of all descendants of OpenSSH, ports and patched versions included. The code is older than any
    /// of them, and `interop/tests` covers it with Debian's packages.
    const OPENSSH_FAMILY: Self = Self {
        answers_unknown_requests: true,
        knows_no_more_sessions: true,
        takes_several_auth_requests: true,
        ..Self::RFC
    };
}

impl Peer {
    /// Identifies the peer by its identification line (`SSH-2.0-…`, without line ending).
    pub fn of(identification: &str) -> Self {
        let software = identification.splitn(3, '-').nth(2).unwrap_or_default();
        // HPN-SSH's suffix has been `_hpn18.8.0`, `-hpn14v15` and ` HPN-…` over time.
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

    /// Refines the result with the ciphers of the peer's KEXINIT. A peer that offers HPN-SSH's cipher is
    /// HPN-SSH, even if its identification does not say so.
    #[must_use]
    pub fn with_ciphers(self, ciphers: NameList<'_>) -> Self {
        if self != Self::Longhaul && ciphers.contains(HPN_CIPHER) { Self::HpnSsh } else { self }
    }

    /// Returns the limits that this peer is known to accept.
    pub const fn limits(self) -> Limits {
        match self {
            // Both ends are this code; the tests of this repository run them against each other.
            Self::Longhaul => Limits {
                received_channel_packet: LARGE_CHANNEL_PACKET,
                sent_channel_packet: LARGE_CHANNEL_PACKET,
                answers_stack_metrics: true,
                ..Limits::OPENSSH_FAMILY
            },
            // OpenSSH's transport accepts and sends packets of up to 256 KiB, and its channels fill packets
            // up to the announced size. It announces 32 KiB itself. Tested with Debian's ssh and sshd in both
            // roles.
            Self::OpenSsh => {
                Limits { received_channel_packet: LARGE_CHANNEL_PACKET, ..Limits::OPENSSH_FAMILY }
            }
            // HPN-SSH's threaded ChaCha20 prepares 32,896 bytes of key stream per packet. Data beyond that is
            // combined with the memory behind it (the next packet's key stream), and the tag is still valid:
            // data arrives corrupted, and readable. HPN-SSH rejects no length below 33 KiB (its limit after
            // authentication), so we send nothing longer than the key stream.
            Self::HpnSsh => {
                Limits { sent_packet: Some(32_896), answers_stack_metrics: true, ..Limits::OPENSSH_FAMILY }
            }
            Self::OpenSshVariant => Limits::OPENSSH_FAMILY,
            Self::Unknown => Limits::RFC,
        }
    }
}

/// Accepts `9.2p1`, optionally followed by a space and a comment (a distribution's version).
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
    fn identification_line_decides_the_peer() {
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
    fn offered_cipher_identifies_hpn_ssh() {
        let list = |text: &'static str| NameList::from_content(text.as_bytes()).unwrap();
        let (plain, hpn) = (list("aes128-ctr"), list("aes128-ctr,chacha20-poly1305-mt@hpnssh.org"));
        for peer in [Peer::OpenSsh, Peer::OpenSshVariant, Peer::Unknown, Peer::HpnSsh] {
            assert_eq!(peer.with_ciphers(hpn), Peer::HpnSsh);
            assert_eq!(peer.with_ciphers(plain), peer);
        }
        assert_eq!(Peer::Longhaul.with_ciphers(hpn), Peer::Longhaul);
    }

    #[test]
    fn only_known_peers_get_packets_above_rfc_size() {
        for peer in [Peer::HpnSsh, Peer::OpenSshVariant, Peer::Unknown, Peer::default()] {
            let limits = peer.limits();
            let packets = (limits.received_channel_packet, limits.sent_channel_packet);
            assert_eq!(packets, (STOCK_CHANNEL_PACKET, STOCK_CHANNEL_PACKET), "{peer:?}");
        }
        // Data of the largest channel packet, header of extended data, padding length and the most padding
        // that is ever needed. The sum stays below HPN-SSH's key stream.
        let most = STOCK_CHANNEL_PACKET + 13 + 1 + 19;
        assert!(Peer::HpnSsh.limits().sent_packet.is_some_and(|limit| most <= limit));
    }
}
