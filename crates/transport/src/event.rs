//! Events of a [`Transport`](crate::Transport).

use bytes::Bytes;

/// Event from [`Transport::poll`](crate::Transport::poll).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A line that the server sent before its identification (RFC 4253 section 4.2), without line ending.
    /// Untrusted: may contain control characters.
    Banner(Vec<u8>),
    /// The peer's identification line, such as `SSH-2.0-OpenSSH_10.5`.
    PeerIdentification(String),
    /// Client: the server proved that it owns this key. The connection pauses until
    /// [`host_key_accepted`](crate::Transport::host_key_accepted) is called, or the caller gives up. A rekey
    /// reports it only when the key differs from the one accepted before.
    HostKey {
        /// The negotiated signature algorithm.
        algorithm: String,
        /// Public key or certificate blob.
        blob: Vec<u8>,
        /// True in the first exchange of this connection.
        first: bool,
    },
    /// Server: `data` (the exchange hash) needs a signature. The exchange continues when
    /// [`exchange_hash_signed`](crate::Transport::exchange_hash_signed) is called.
    SignExchangeHash {
        /// Signature algorithm.
        algorithm: String,
        /// Index into [`Config::host_keys`](crate::Config::host_keys).
        key_index: usize,
        /// The bytes to sign.
        data: Vec<u8>,
    },
    /// Client: the server chose a group for diffie-hellman-group-exchange (RFC 4419). For information only;
    /// no answer is needed.
    GroupChosen {
        /// Smallest, preferred and largest size that we requested, bits.
        asked: (u32, u32, u32),
        /// Size of the group's prime, bits.
        bits: u32,
        /// Number of set bits in our public value.
        public_ones: u32,
    },
    /// New keys are in use in both directions.
    KexDone {
        /// True for the first exchange of this connection, false for a rekey.
        first: bool,
        /// The negotiated algorithms.
        names: Negotiated,
    },
    /// The peer's EXT_INFO (RFC 8308): names and values, in order.
    ExtInfo(Vec<(String, Vec<u8>)>),
    /// A payload for the layers above: SERVICE_* and message numbers from 50 on.
    Packet(Bytes),
    /// The answer to one of our PINGs (`ping@openssh.com`), with its content.
    Pong(Bytes),
    /// SSH_MSG_DEBUG. Untrusted: may contain control characters.
    Debug {
        /// The peer asks to display it. False after the first 100 of a connection: an attacker in
        /// place of the server could fill a terminal, and hide the lines that count.
        always_display: bool,
        /// The text.
        text: Vec<u8>,
    },
    /// The peer ended the connection. No event follows.
    Disconnected {
        /// `SSH_DISCONNECT_*` code.
        reason: u32,
        /// The peer's text. Untrusted.
        description: String,
    },
}

/// The algorithms of one key exchange.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// Key exchange method.
    pub kex: String,
    /// Host key signature algorithm.
    pub host_key: String,
    /// Cipher from client to server.
    pub cipher_c2s: String,
    /// Cipher from server to client.
    pub cipher_s2c: String,
    /// MAC from client to server; `<implicit>` with a cipher that authenticates, as OpenSSH prints it.
    pub mac_c2s: String,
    /// MAC from server to client.
    pub mac_s2c: String,
    /// Compression from client to server.
    pub compression_c2s: String,
    /// Compression from server to client.
    pub compression_s2c: String,
    /// True when both sides announced strict key exchange in their first KEXINIT.
    pub strict: bool,
}

/// Proof that the caller checked a host key and accepts it for this connection. It contains the key, so that
/// an answer about one key can never admit another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedHostKey {
    pub(crate) blob: Vec<u8>,
}

impl AcceptedHostKey {
    /// Accepts the key in `blob`. Only code that compared it with what is known of the host (known_hosts, a
    /// certificate authority, the user's own answer) may call this.
    pub fn dangerous_vouch_for(blob: &[u8]) -> Self {
        Self { blob: blob.to_vec() }
    }
}
