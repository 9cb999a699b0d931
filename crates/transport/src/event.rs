//! What a [`Transport`](crate::Transport) has to say.

use bytes::Bytes;

/// Something that happened, from [`Transport::poll`](crate::Transport::poll).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A line the server sent before its identification (RFC 4253 section 4.2), without line ending.
    /// Not trusted: may hold control characters.
    Banner(Vec<u8>),
    /// The peer's identification line, such as `SSH-2.0-OpenSSH_10.5`.
    PeerIdentification(String),
    /// Client: the server proved that it owns this key. Nothing more happens until
    /// [`host_key_accepted`](crate::Transport::host_key_accepted) is called, or the connection is given up.
    /// At a rekey this comes only when the key is not the one accepted before.
    HostKey {
        /// The signature algorithm that was agreed on.
        algorithm: String,
        /// Public key or certificate blob.
        blob: Vec<u8>,
        /// The first exchange of this connection.
        first: bool,
    },
    /// Server: `data` (the exchange hash) wants a signature. The exchange goes on when
    /// [`exchange_hash_signed`](crate::Transport::exchange_hash_signed) is called.
    SignExchangeHash {
        /// Signature algorithm.
        algorithm: String,
        /// Which of [`Config::host_keys`](crate::Config::host_keys).
        key_index: usize,
        /// What to sign.
        data: Vec<u8>,
    },
    /// Client: the server chose a group for diffie-hellman-group-exchange (RFC 4419). Good to know, nothing to answer.
    GroupChosen {
        /// Smallest, preferred and largest size that was asked for, in bits.
        asked: (u32, u32, u32),
        /// Size of the group's prime, in bits.
        bits: u32,
        /// How many bits are set in our public value.
        public_ones: u32,
    },
    /// New keys are in use in both directions.
    KexDone {
        /// The first exchange of this connection; others are rekeys.
        first: bool,
        /// What was agreed on.
        names: Negotiated,
    },
    /// The peer's EXT_INFO (RFC 8308): names and values in order.
    ExtInfo(Vec<(String, Vec<u8>)>),
    /// A payload for the layers above: SERVICE_* and everything from 50 on.
    Packet(Bytes),
    /// The answer to a PING of ours (`ping@openssh.com`), with its content.
    Pong(Bytes),
    /// SSH_MSG_DEBUG. Not trusted: may hold control characters.
    Debug {
        /// The peer wants it shown.
        always_display: bool,
        /// The text.
        text: Vec<u8>,
    },
    /// The peer ended the connection. Nothing follows.
    Disconnected {
        /// `SSH_DISCONNECT_*` code.
        reason: u32,
        /// The peer's text. Not trusted.
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
    /// MAC from client to server; `<implicit>` with an authenticating cipher, as OpenSSH prints it.
    pub mac_c2s: String,
    /// MAC from server to client.
    pub mac_s2c: String,
    /// Compression from client to server.
    pub compression_c2s: String,
    /// Compression from server to client.
    pub compression_s2c: String,
    /// Both sides announced strict key exchange in their first KEXINIT.
    pub strict: bool,
}

/// Proof that somebody looked at a host key and accepts it for this connection. It names the key, so that an
/// answer about one key can never let another one in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedHostKey {
    pub(crate) blob: Vec<u8>,
}

impl AcceptedHostKey {
    /// Vouches for the key in `blob`. Only code that compared it with what is known of the host
    /// (known_hosts, a certificate authority, the user's own answer) may say this.
    pub fn dangerous_vouch_for(blob: &[u8]) -> Self {
        Self { blob: blob.to_vec() }
    }
}
