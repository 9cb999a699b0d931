//! Messages of RFC 4253, RFC 5656, RFC 4419, RFC 8308 and OpenSSH's PING.

use crate::message::{Rest, messages};
use crate::{Mpint, NameList};

messages! {
    /// `SSH_MSG_DISCONNECT` (RFC 4253 section 11.1): no data may follow.
    Disconnect = 1; {
        /// One of [`super::disconnect`].
        reason: u32,
        /// Text for the user. Not trusted to be UTF-8.
        description: &'a [u8],
        /// RFC 3066 tag. Not trusted to be UTF-8.
        language: &'a [u8],
    }
    /// `SSH_MSG_IGNORE` (RFC 4253 section 11.2). The content is not decoded, because peers send malformed
    /// strings here.
    Ignore = 2; {
        /// Everything after the message number.
        data: Rest<'a>,
    }
    /// `SSH_MSG_UNIMPLEMENTED` (RFC 4253 section 11.4).
    Unimplemented = 3; {
        /// Sequence number of the packet that was not understood.
        sequence: u32,
    }
    /// `SSH_MSG_DEBUG` (RFC 4253 section 11.3).
    Debug = 4; {
        /// Show the text to the user even when not debugging.
        always_display: bool,
        /// Text for the user. Not trusted to be UTF-8.
        text: &'a [u8],
        /// RFC 3066 tag.
        language: &'a [u8],
    }
    /// `SSH_MSG_SERVICE_REQUEST` (RFC 4253 section 10).
    ServiceRequest = 5; {
        /// `ssh-userauth` or `ssh-connection`.
        name: &'a [u8],
    }
    /// `SSH_MSG_SERVICE_ACCEPT` (RFC 4253 section 10).
    ServiceAccept = 6; {
        /// The requested service.
        name: &'a [u8],
    }
    /// `SSH_MSG_EXT_INFO` (RFC 8308 section 2.3).
    ExtInfo = 7; {
        /// Number of name and value pairs.
        count: u32,
        /// `count` pairs of `string` name, `string` value.
        extensions: Rest<'a>,
    }
    /// `SSH_MSG_KEXINIT` (RFC 4253 section 7.1).
    KexInit = 20; {
        /// 16 random bytes.
        cookie: [u8; 16],
        /// Key exchange methods and markers (`ext-info-c`, `kex-strict-c-v00@openssh.com`, …).
        kex: NameList<'a>,
        /// Signature algorithms of host keys.
        host_key: NameList<'a>,
        /// Ciphers, client to server.
        cipher_c2s: NameList<'a>,
        /// Ciphers, server to client.
        cipher_s2c: NameList<'a>,
        /// MACs, client to server.
        mac_c2s: NameList<'a>,
        /// MACs, server to client.
        mac_s2c: NameList<'a>,
        /// Compression, client to server.
        compression_c2s: NameList<'a>,
        /// Compression, server to client.
        compression_s2c: NameList<'a>,
        /// Languages, client to server.
        language_c2s: NameList<'a>,
        /// Languages, server to client.
        language_s2c: NameList<'a>,
        /// A guessed key exchange packet follows.
        first_kex_packet_follows: bool,
        /// Reserved, 0.
        reserved: u32,
    }
    /// `SSH_MSG_NEWKEYS` (RFC 4253 section 7.3).
    NewKeys = 21; {}
    /// `SSH_MSG_KEX_ECDH_INIT` and the hybrids' `SSH_MSG_KEX_HYBRID_INIT` (RFC 5656 section 4).
    KexEcdhInit = 30; {
        /// The client's ephemeral public value.
        client_public: &'a [u8],
    }
    /// `SSH_MSG_KEX_ECDH_REPLY` and the hybrids' reply (RFC 5656 section 4).
    KexEcdhReply = 31; {
        /// Public key blob of the host.
        host_key: &'a [u8],
        /// The server's ephemeral public value.
        server_public: &'a [u8],
        /// Signature blob over the exchange hash.
        signature: &'a [u8],
    }
    /// `SSH_MSG_KEXDH_INIT` (RFC 4253 section 8).
    KexDhInit = 30; {
        /// The client's public value.
        e: Mpint<'a>,
    }
    /// `SSH_MSG_KEXDH_REPLY` (RFC 4253 section 8).
    KexDhReply = 31; {
        /// Public key blob of the host.
        host_key: &'a [u8],
        /// The server's public value.
        f: Mpint<'a>,
        /// Signature blob over the exchange hash.
        signature: &'a [u8],
    }
    /// `SSH_MSG_KEX_DH_GEX_REQUEST` (RFC 4419 section 3).
    KexDhGexRequest = 34; {
        /// Smallest acceptable group, bits.
        min: u32,
        /// Preferred group size, bits.
        n: u32,
        /// Largest acceptable group, bits.
        max: u32,
    }
    /// `SSH_MSG_KEX_DH_GEX_GROUP` (RFC 4419 section 3).
    KexDhGexGroup = 31; {
        /// The safe prime.
        p: Mpint<'a>,
        /// The generator.
        g: Mpint<'a>,
    }
    /// `SSH_MSG_KEX_DH_GEX_INIT` (RFC 4419 section 3).
    KexDhGexInit = 32; {
        /// The client's public value.
        e: Mpint<'a>,
    }
    /// `SSH_MSG_KEX_DH_GEX_REPLY` (RFC 4419 section 3).
    KexDhGexReply = 33; {
        /// Public key blob of the host.
        host_key: &'a [u8],
        /// The server's public value.
        f: Mpint<'a>,
        /// Signature blob over the exchange hash.
        signature: &'a [u8],
    }
    /// `SSH2_MSG_PING` of `ping@openssh.com` (OpenSSH PROTOCOL 1.9).
    Ping = 192; {
        /// Bytes that PONG returns.
        data: &'a [u8],
    }
    /// `SSH2_MSG_PONG` of `ping@openssh.com` (OpenSSH PROTOCOL 1.9).
    Pong = 193; {
        /// Bytes of the PING.
        data: &'a [u8],
    }
}
