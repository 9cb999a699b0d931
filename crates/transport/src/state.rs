//! Parts of a connection's state that more than one module changes: its phase, the key exchanges, messages
//! that wait.

use std::collections::VecDeque;
use std::time::Instant;

use lh_wire::peer::Peer;

use crate::compress::{Deflater, Inflater};
use crate::epoch::RawKeys;
use crate::export::Exporter;
use crate::job::Job;
use crate::negotiate::Agreement;
use crate::{Algorithms, Config, Negotiated, TransportError, Unencrypted};
use crate::{ident, kex};

/// Message numbers of the connection protocol (RFC 4250 section 4.1.2).
pub(crate) const CONNECTION: std::ops::RangeInclusive<u8> = 80..=127;

/// Phase of a connection.
pub(crate) enum Phase {
    /// The peer's identification has not arrived.
    Identification,
    /// Binary packets.
    Packets,
    /// One side sent DISCONNECT.
    Ended,
    /// The connection ended with an error.
    Failed(TransportError),
}

/// Identification strings of both ends (RFC 4253 section 4.2), without line ending.
pub(crate) struct Identifications {
    pub(crate) ours: Vec<u8>,
    /// Empty until it has arrived.
    pub(crate) peers: Vec<u8>,
    /// `peers` for messages and logs: everything but printable ASCII is escaped.
    pub(crate) peers_text: Option<String>,
    /// The peer's implementation, as far as it is known.
    pub(crate) peer: Peer,
    /// Number of lines that the server sent before its identification.
    pub(crate) lines: usize,
}

impl Identifications {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            ours: ident::ours(&config.software, &config.comments).into_bytes(),
            peers: Vec::new(),
            peers_text: None,
            peer: Peer::Unknown,
            lines: 0,
        }
    }
}

/// The key exchange in progress, what the last one agreed on, and what the next one will offer.
pub(crate) struct KeyExchanges {
    pub(crate) state: KexState,
    pub(crate) first: FirstExchange,
    /// Algorithms of the last exchange in which both sides have sent NEWKEYS.
    pub(crate) names: Option<Negotiated>,
    /// Host key blob of the last exchange.
    pub(crate) host_key: Option<Vec<u8>>,
    /// Keys of the packets that we send.
    pub(crate) sealing_keys: Option<RawKeys>,
    /// Keys of the packets that we receive.
    pub(crate) opening_keys: Option<RawKeys>,
    pub(crate) next_algorithms: Option<Algorithms>,
    pub(crate) unencrypted: Unencrypted,
    /// When the last exchange ended, or the connection began.
    pub(crate) last: Instant,
    /// Sequence number of our last KEXINIT.
    pub(crate) kexinit_seq: u32,
}

impl KeyExchanges {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            state: KexState::Idle,
            first: FirstExchange::default(),
            names: None,
            host_key: None,
            sealing_keys: None,
            opening_keys: None,
            next_algorithms: None,
            unencrypted: Unencrypted::Refused,
            last: now,
            kexinit_seq: 0,
        }
    }
}

/// Results of the first exchange that hold for the whole connection.
#[derive(Default)]
pub(crate) struct FirstExchange {
    /// Session identifier: the hash of the first key exchange.
    pub(crate) session_id: Option<Vec<u8>>,
    pub(crate) exporter: Option<Exporter>,
    /// Host key and its signature over the exchange hash.
    pub(crate) proof: Option<(Vec<u8>, Vec<u8>)>,
}

/// State of the key exchange.
pub(crate) enum KexState {
    /// No exchange is in progress.
    Idle,
    /// Our KEXINIT is sent. Packets that the peer sent before it saw our KEXINIT are still accepted.
    InitSent {
        ours: Vec<u8>,
        /// The unencrypted ciphers that our KEXINIT offers.
        unencrypted: Unencrypted,
    },
    /// Both KEXINITs are exchanged; our NEWKEYS is not sent.
    Running { state: Box<kex::State>, agreement: Box<Agreement>, skip_guess: bool },
    /// Our NEWKEYS is sent; the peer's has not arrived.
    ExpectNewKeys { keys: Box<RawKeys>, agreement: Box<Agreement> },
}

/// A payload that waits for the end of a key exchange.
pub(crate) struct Held {
    pub(crate) payload: Vec<u8>,
    /// True when queued after authentication, which matters for delayed compression.
    pub(crate) authenticated: bool,
}

/// Messages that are not in the send buffer yet, and the limits of those that a peer can cause.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Payloads that are reserved and cannot be written straight to the send buffer.
    pub(crate) aside: Vec<Vec<u8>>,
    /// Messages outside the key exchange, queued between our KEXINIT and our NEWKEYS.
    pub(crate) held: VecDeque<Held>,
    pub(crate) held_bytes: usize,
    /// Client, before the user is authenticated: see [`keep_early`](crate::Transport::keep_early).
    pub(crate) early: Option<Early>,
    /// Bytes of answers that the peer can request at will and that may not be written yet.
    pub(crate) replies: usize,
}

impl Waiting {
    /// Client: keeps the message and returns true when it must wait for authentication.
    pub(crate) fn keep_early(&mut self, number: u8, payload: &[u8]) -> bool {
        let Some(early) = self.early.as_mut().filter(|_| CONNECTION.contains(&number)) else {
            return false;
        };
        early.payloads.push(payload.to_vec());
        true
    }
}

/// Compression of both directions.
#[derive(Default)]
pub(crate) struct Compression {
    pub(crate) deflater: Deflater,
    pub(crate) inflater: Inflater,
    /// Delayed compression has started in packets that we send.
    pub(crate) sending: bool,
    /// Delayed compression has started in packets that we receive.
    pub(crate) receiving: bool,
}

/// Sealing and opening that other threads may do.
#[derive(Default)]
pub(crate) struct Jobs {
    /// Jobs that wait to be taken, or to be run here.
    pub(crate) created: VecDeque<Job>,
    /// Number of jobs that were taken and not brought back.
    pub(crate) taken: usize,
}

/// What the peer announced in EXT_INFO.
#[derive(Default)]
pub(crate) struct Extensions {
    /// Names and values, in the order of arrival.
    pub(crate) entries: Vec<(String, Vec<u8>)>,
    /// Number of EXT_INFO messages.
    pub(crate) messages: u32,
}

/// Counters of the connection.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) packets_in: u64,
    /// Sequence number of the last received packet.
    pub(crate) last_seq: u32,
    /// Messages of SSH_MSG_DEBUG that the peer asked to display.
    pub(crate) displayed: u32,
}

/// Channel messages kept until the user is authenticated.
#[derive(Debug, Default)]
pub(crate) struct Early {
    pub(crate) payloads: Vec<Vec<u8>>,
    /// Number of payloads that were sent behind the last request.
    pub(crate) sent: usize,
}
