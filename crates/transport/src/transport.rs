//! [`Transport`]: the public interface of the crate.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::Instant;

use lh_crypto::{Cipher, CryptoError, Random};
use lh_wire::PacketSink as _;
use lh_wire::peer::Peer;

use crate::CompressionTotals;
use crate::ext_info;
use crate::ident::{self, Found};
use crate::job::{Job, Work};
use crate::padding::PaddingPool;
use crate::recv::Receiver;
use crate::send::Sender;
use crate::state::{
    Compression, Extensions, Identifications, Jobs, KexState, KeyExchanges, Phase, Totals, Waiting,
};
use crate::{AcceptedHostKey, Algorithms, Config, Event, Negotiated, Role, TransportError, Unencrypted};

/// One SSH connection, below the layer of services. The crate's documentation has the order of calls.
pub struct Transport {
    pub(crate) config: Config,
    pub(crate) send: Sender,
    pub(crate) recv: Receiver,
    pub(crate) phase: Phase,
    pub(crate) identifications: Identifications,
    pub(crate) exchange: KeyExchanges,
    pub(crate) compression: Compression,
    pub(crate) events: VecDeque<Event>,
    pub(crate) waiting: Waiting,
    pub(crate) jobs: Jobs,
    pub(crate) extensions: Extensions,
    pub(crate) totals: Totals,
    pub(crate) authenticated: bool,
    /// See [`relayed`](Self::relayed).
    pub(crate) relayed: bool,
    pub(crate) eof: bool,
}

impl std::fmt::Debug for Transport {
    /// Prints the role and the progress of the connection, but no secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport")
            .field("role", &self.config.role)
            .field("peer", &self.identifications.peers_text)
            .field("names", &self.exchange.names)
            .field("authenticated", &self.authenticated)
            .finish_non_exhaustive()
    }
}

impl Transport {
    /// Starts a connection. Our identification and KEXINIT are queued at once, before the peer's arrive.
    pub fn new(config: Config, random: Box<dyn Random + Send>, now: Instant) -> Self {
        let mut transport = Self::blank(config, random, now);
        let line = [&transport.identifications.ours[..], b"\r\n"].concat();
        transport.send.push_raw(&line);
        transport.start_kex();
        transport
    }

    /// Creates a client connection inside one that another process has opened and authenticated (OpenSSH's
    /// PROTOCOL.mux, proxy mode). Packets have neither encryption nor padding, and there is no key exchange.
    /// Only messages of the connection protocol pass; other messages are dropped in both directions.
    pub fn relayed(random: Box<dyn Random + Send>, now: Instant) -> Self {
        let mut transport = Self::blank(Config::client(), random, now);
        transport.send.set_bare();
        transport.recv.set_bare();
        transport.phase = Phase::Packets;
        transport.authenticated = true;
        transport.relayed = true;
        transport
    }

    /// Creates the state before anything was sent or received.
    pub(crate) fn blank(config: Config, random: Box<dyn Random + Send>, now: Instant) -> Self {
        Self {
            send: Sender::new(PaddingPool::new(random)),
            recv: Receiver::new(config.max_packet),
            phase: Phase::Identification,
            identifications: Identifications::new(&config),
            exchange: KeyExchanges::new(now),
            compression: Compression::default(),
            events: VecDeque::new(),
            waiting: Waiting::default(),
            jobs: Jobs::default(),
            extensions: Extensions::default(),
            totals: Totals::default(),
            authenticated: false,
            relayed: false,
            eof: false,
            config,
        }
    }

    /// Returns the buffer for the next read of the socket. Never empty.
    pub fn recv_space(&mut self) -> &mut [u8] {
        self.recv.space()
    }

    /// Records that `n` bytes were read into the start of [`recv_space`](Self::recv_space).
    pub fn received(&mut self, n: usize) {
        self.totals.bytes_in += n as u64;
        // After the end of the connection, received bytes are discarded.
        if self.is_open() {
            self.recv.received(n);
        }
    }

    /// Records that the peer will send no more. `poll` reports it once all received bytes have been handled.
    pub fn received_eof(&mut self) {
        self.eof = true;
    }

    /// Returns the next event, or `None` when more bytes (or an answer) are needed.
    ///
    /// # Errors
    /// The connection is over. A DISCONNECT is queued if the peer can understand one, so flush once more.
    /// Further calls return the same error.
    pub fn poll(&mut self, now: Instant) -> Result<Option<Event>, TransportError> {
        if let Phase::Failed(error) = &self.phase {
            return Err(error.clone());
        }
        self.advance(now).inspect_err(|error| self.fail(error))
    }

    fn advance(&mut self, now: Instant) -> Result<Option<Event>, TransportError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let progress = match &self.phase {
                Phase::Identification => self.identification()?,
                Phase::Packets => self.packet(now)?,
                Phase::Ended => return Ok(None),
                Phase::Failed(error) => return Err(error.clone()),
            };
            if !progress && self.events.is_empty() {
                if self.eof && !self.recv.waits() {
                    let mid_packet = !self.recv.unread().is_empty() || self.recv.ahead() > 0;
                    return Err(TransportError::Closed { mid_packet });
                }
                return Ok(None);
            }
        }
    }

    /// Handles one line; returns false when there is none.
    fn identification(&mut self) -> Result<bool, TransportError> {
        match ident::next(self.config.role, self.identifications.lines, self.recv.unread())? {
            Found::Nothing => return Ok(false),
            Found::Banner(len, line) => {
                self.recv.take(len);
                self.identifications.lines += 1;
                self.events.push_back(Event::Banner(line));
            }
            Found::Identification(len, line) => {
                self.recv.take(len);
                let text = ident::printable(&line);
                self.identifications.peers = line;
                self.identifications.peer = Peer::of(&text);
                self.identifications.peers_text = Some(text.clone());
                self.phase = Phase::Packets;
                self.events.push_back(Event::PeerIdentification(text));
            }
        }
        Ok(true)
    }

    /// Client: answers [`Event::HostKey`]. Only the key of the event can be accepted.
    ///
    /// # Errors
    /// No key waits for an answer, or it is a different one. The state is then unchanged.
    pub fn host_key_accepted(&mut self, key: &AcceptedHostKey) -> Result<(), TransportError> {
        self.answer(|state| state.host_key_accepted(&key.blob))
    }

    /// Server: answers [`Event::SignExchangeHash`] with a signature blob (`string` algorithm, `string`
    /// signature).
    ///
    /// # Errors
    /// No signature is expected. The state is then unchanged.
    pub fn exchange_hash_signed(&mut self, signature: &[u8]) -> Result<(), TransportError> {
        self.answer(|state| state.signed(signature))
    }

    /// Returns false while a key exchange holds back other packets, and while the memory for unacknowledged
    /// messages is used up ([`retain`](Self::retain)). Producers of bulk data must wait, so that nothing
    /// accumulates.
    pub fn can_send_bulk(&self) -> bool {
        self.can_send_now() && self.send.within_budget()
    }

    /// Seals the queued packets. Call it before [`output_slices`](Self::output_slices).
    pub fn output(&mut self, now: Instant) {
        let _ = now;
        let sealed = self.send.seal(&mut self.jobs.created);
        self.check_sealed(sealed);
    }

    fn check_sealed(&mut self, sealed: Result<(), CryptoError>) {
        if sealed.is_err() {
            // Only a bug in this crate leads here. Half-sealed packets must not be sent.
            self.send.abandon();
            self.phase = Phase::Failed(TransportError::Caller("a packet could not be sealed"));
        }
    }

    /// Sets whether the caller runs [`Job`]s; initially it does not. With `true`, [`output`](Self::output)
    /// and [`poll`](Self::poll) turn bulk data into jobs, whose bytes are neither written nor delivered
    /// before the jobs are brought back. Small amounts are always processed immediately.
    pub const fn set_workers(&mut self, workers: bool) {
        self.send.set_workers(workers);
        self.recv.set_workers(workers);
    }

    /// Takes the oldest job to run. Look for jobs after [`output`](Self::output) and after
    /// [`poll`](Self::poll) returned `None`.
    pub fn next_job(&mut self) -> Option<Job> {
        let job = self.jobs.created.pop_front()?;
        self.jobs.taken += 1;
        Some(job)
    }

    /// Brings back a finished job, in any order. [`output_slices`](Self::output_slices) or
    /// [`poll`](Self::poll) returns the resulting bytes or events.
    pub fn finish_job(&mut self, job: Job) {
        self.jobs.taken = self.jobs.taken.saturating_sub(1);
        self.put_back(job);
    }

    fn put_back(&mut self, job: Job) {
        match job.work {
            Work::Seal(work) => {
                let sealed = self.send.sealed(job.id, work);
                self.check_sealed(sealed);
            }
            Work::Open(work) => self.recv.opened(job.id, work),
        }
    }

    /// Returns the number of jobs that were taken and not brought back.
    pub const fn jobs_out(&self) -> usize {
        self.jobs.taken
    }

    /// Runs all jobs that were not taken, in this thread.
    pub fn run_jobs(&mut self) {
        while let Some(mut job) = self.jobs.created.pop_front() {
            job.run();
            self.put_back(job);
        }
    }

    /// Returns the number of received bytes that were cut off for jobs and that [`poll`](Self::poll) has not
    /// delivered. The caller should stop reading when they become many.
    pub fn received_ahead(&self) -> usize {
        self.recv.ahead()
    }

    /// Appends the sealed bytes that wait to be written, in order: at most 64 slices.
    pub fn output_slices<'a>(&'a self, out: &mut Vec<IoSlice<'a>>) {
        self.send.slices(out);
    }

    /// Records that the first `n` bytes of the output were written to the socket.
    pub fn written(&mut self, n: usize) {
        self.send.written(n);
        self.waiting.replies = self.waiting.replies.saturating_sub(n);
        self.totals.bytes_out += n as u64;
    }

    /// Returns the number of bytes queued but not written, including packets held back during a key exchange.
    pub fn queued_bytes(&self) -> usize {
        self.send.queued() + self.waiting.held_bytes
    }

    /// Returns the number of bytes that could be written at once if the peer read them. The caller stops
    /// reading while they are many, because every answer that the peer requests ends up here. Packets held
    /// back by a key exchange do not count: only further reading ends the exchange.
    pub fn unsent_bytes(&self) -> usize {
        self.send.queued()
    }

    /// Replaces the offered algorithms from the next key exchange on.
    pub fn set_algorithms(&mut self, algorithms: Algorithms) {
        self.exchange.next_algorithms = Some(algorithms);
    }

    /// Sets which unencrypted ciphers may be negotiated, from the next key exchange on and never before
    /// authentication. Initially none, also for a connection that was [thawed](Self::thaw).
    pub const fn set_unencrypted(&mut self, unencrypted: Unencrypted) {
        self.exchange.unencrypted = unencrypted;
    }

    /// Returns false when a cipher that does not encrypt is in use in either direction.
    pub fn is_encrypted(&self) -> bool {
        let keys = [&self.exchange.opening_keys, &self.exchange.sealing_keys].into_iter().flatten();
        keys.map(|keys| keys.cipher).all(Cipher::encrypts)
    }

    /// Puts events back, to be returned first by the next [`poll`](Self::poll). A caller that waits for one
    /// event returns the others this way.
    pub fn put_back_events(&mut self, events: Vec<Event>) {
        for event in events.into_iter().rev() {
            self.events.push_front(event);
        }
    }

    /// Server: announces the signature algorithms for the requested user, to a client that supports it
    /// (`ext-info-in-auth@openssh.com`). They may differ from those announced to all users. Call it once,
    /// before authentication succeeds.
    pub fn announce_signature_algorithms(&mut self, algorithms: &[String]) {
        if self.peer_extension(ext_info::IN_AUTH) == Some(b"0") {
            self.payload(&ext_info::for_user(algorithms));
        }
    }

    /// Records that the user is authenticated: delayed compression and rekeying by limits start. A server
    /// calls this right *after* queueing USERAUTH_SUCCESS, a client when it *receives* it, before the next
    /// `poll`.
    pub fn set_authenticated(&mut self) {
        self.authenticated = true;
        // A key exchange may hold back a server's SUCCESS. The client then does not know yet, and messages of
        // the exchange are not compressed. `finish` and `on_newkeys` start the compression later.
        let server = self.config.role == Role::Server;
        self.compression.sending = !(server && self.holding());
        self.compression.receiving = !server || matches!(self.exchange.state, KexState::Idle);
    }

    /// Returns the exchange hash of the first key exchange; `None` before it is complete.
    pub fn session_id(&self) -> Option<&[u8]> {
        self.exchange.first.session_id.as_deref()
    }

    /// Returns the algorithms of the last key exchange; `None` before the first is complete.
    pub const fn negotiated(&self) -> Option<&Negotiated> {
        self.exchange.names.as_ref()
    }

    /// Returns the totals of compression since the last key exchange: of the received payloads, and of the
    /// sent ones.
    pub fn compression_totals(&self) -> (CompressionTotals, CompressionTotals) {
        (self.compression.inflater.totals(), self.compression.deflater.totals())
    }

    /// Returns our own identification, without line ending.
    pub fn own_identification(&self) -> String {
        String::from_utf8_lossy(&self.identifications.ours).into_owned()
    }

    /// Returns the peer's identification, without line ending; everything but printable ASCII is escaped.
    pub fn peer_identification(&self) -> Option<&str> {
        self.identifications.peers_text.as_deref()
    }

    /// Returns the peer's implementation, as far as it is known; [`Peer::limits`] has what it accepts. Final
    /// after the first key exchange.
    pub const fn peer(&self) -> Peer {
        self.identifications.peer
    }

    /// Returns true when a message of `length` bytes can be sent to this peer.
    pub fn can_send_message(&self, length: usize) -> bool {
        let limit = self.identifications.peer.limits().sent_packet;
        limit.is_none_or(|limit| self.send.packet_length(length) <= limit as usize)
    }

    /// Returns the value of an extension that the peer announced in EXT_INFO; the last value counts.
    pub fn peer_extension(&self, name: &str) -> Option<&[u8]> {
        self.extensions.entries.iter().rev().find(|(each, _)| each == name).map(|(_, value)| value.as_slice())
    }

    /// Returns true when the peer announced that it answers PING (`ping@openssh.com`).
    pub fn answers_pings(&self) -> bool {
        self.peer_extension(ext_info::PING) == Some(b"0")
    }

    /// Returns the host key blob of the last key exchange (on a server, its own). Host-bound authentication
    /// signs it.
    pub fn host_key(&self) -> Option<&[u8]> {
        self.exchange.host_key.as_deref()
    }

    /// Returns the host key of the first key exchange and its signature over the session identifier. An agent
    /// requires this proof before it permits the use of a key for this session. It is not preserved by
    /// freezing.
    pub fn session_proof(&self) -> Option<(&[u8], &[u8])> {
        self.exchange.first.proof.as_ref().map(|(key, signature)| (key.as_slice(), signature.as_slice()))
    }

    /// Returns true when the user is authenticated.
    pub const fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// Returns the role of this end.
    pub const fn role(&self) -> Role {
        self.config.role
    }

    /// Returns the number of bytes received from the socket.
    pub const fn bytes_in(&self) -> u64 {
        self.totals.bytes_in
    }

    /// Returns the number of complete authentic packets received; a thawed connection counts from zero.
    pub const fn packets_in(&self) -> u64 {
        self.totals.packets_in
    }

    /// Returns the number of bytes written to the socket.
    pub const fn bytes_out(&self) -> u64 {
        self.totals.bytes_out
    }
}
