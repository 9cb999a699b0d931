//! The object everybody holds.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::time::Instant;

use lh_crypto::{Cipher, CryptoError, Random};
use lh_wire::msg::{Disconnect, Unimplemented};
use lh_wire::peer::Peer;
use lh_wire::{Message, PacketSink};

use crate::compress::{Deflater, Inflater};
use crate::early::Early;
use crate::epoch::RawKeys;
use crate::ext_info;
use crate::ident::{self, Found};
use crate::job::{Job, Work};
use crate::machine::{KexState, Phase};
use crate::recv::Receiver;
use crate::send::{PaddingPool, Sender};
use crate::{AcceptedHostKey, Algorithms, Config, Event, Negotiated, Role, TransportError, Unencrypted};

/// Bytes of answers to a peer's PINGs (and of UNIMPLEMENTED) that may wait to be written. A peer that makes us
/// answer and does not read the answers is stopped here.
const MAX_REPLIES: usize = 1024 * 1024;

/// Bytes of messages that a key exchange may hold back. Producers of bulk wait for its end; what else comes together is answers to a
/// peer that goes on talking instead of exchanging keys. It ends the connection.
const MAX_HELD: usize = 64 << 20;

/// The same before authentication, when there is next to nothing to say.
const MAX_HELD_UNAUTHENTICATED: usize = 1 << 20;

/// Numbers of messages of the connection protocol (RFC 4250 section 4.1.2).
pub(crate) const CONNECTION: std::ops::RangeInclusive<u8> = 80..=127;

/// A payload that waits for the end of a key exchange.
pub(crate) struct Held {
    pub(crate) payload: Vec<u8>,
    /// Queued after authentication, which delayed compression asks for.
    pub(crate) authenticated: bool,
}

/// One SSH connection, below the layer of services. See the crate's documentation for the order of calls.
pub struct Transport {
    pub(crate) config: Config,
    pub(crate) send: Sender,
    pub(crate) recv: Receiver,
    pub(crate) phase: Phase,
    pub(crate) kex: KexState,
    pub(crate) events: VecDeque<Event>,
    /// Not KEX, queued between our KEXINIT and our NEWKEYS.
    pub(crate) held: VecDeque<Held>,
    pub(crate) held_bytes: usize,
    /// Client, before the user is in; see [`keep_early`](Self::keep_early).
    pub(crate) early: Option<Early>,
    pub(crate) deflater: Deflater,
    pub(crate) inflater: Inflater,
    /// Both without line ending.
    pub(crate) our_ident: Vec<u8>,
    pub(crate) peer_ident: Vec<u8>,
    pub(crate) peer_ident_text: Option<String>,
    /// Which implementation that is, as far as it is known.
    pub(crate) peer: Peer,
    /// Lines the server sent before its identification.
    pub(crate) lines: usize,
    /// Exchange hash of the first exchange.
    pub(crate) session_id: Option<Vec<u8>>,
    pub(crate) host_key: Option<Vec<u8>>,
    /// Host key and signature of the first exchange.
    pub(crate) session_proof: Option<(Vec<u8>, Vec<u8>)>,
    /// Of the last exchange both of whose NEWKEYS have passed.
    pub(crate) names: Option<Negotiated>,
    pub(crate) raw_out: Option<RawKeys>,
    pub(crate) raw_in: Option<RawKeys>,
    pub(crate) authenticated: bool,
    /// See [`relayed`](Self::relayed).
    pub(crate) relayed: bool,
    /// Delayed compression has started: what we send, what we get.
    pub(crate) squeezing: bool,
    pub(crate) unsqueezing: bool,
    pub(crate) next_algorithms: Option<Algorithms>,
    pub(crate) unencrypted: Unencrypted,
    pub(crate) last_kex: Instant,
    pub(crate) extensions: Vec<(String, Vec<u8>)>,
    pub(crate) ext_infos: u32,
    /// Sequence number of the last packet that came.
    pub(crate) last_seq: u32,
    pub(crate) packets_in: u64,
    /// Sequence number of our last KEXINIT.
    pub(crate) kexinit_seq: u32,
    /// Bytes of answers nobody but the peer asked for and that are perhaps not written yet.
    pub(crate) replies: usize,
    pub(crate) eof: bool,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// Made, and waiting to be taken or run here.
    pub(crate) jobs: VecDeque<Job>,
    /// Taken and not brought back.
    jobs_out: usize,
}

impl std::fmt::Debug for Transport {
    /// Says which end it is and how far it got, and nothing of what it holds.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport")
            .field("role", &self.config.role)
            .field("peer", &self.peer_ident_text)
            .field("names", &self.names)
            .field("authenticated", &self.authenticated)
            .finish_non_exhaustive()
    }
}

impl Transport {
    /// Starts a connection: our identification and KEXINIT are queued at once, without waiting for the peer's.
    pub fn new(config: Config, random: Box<dyn Random + Send>, now: Instant) -> Self {
        let mut transport = Self::blank(config, random, now);
        let line = [&transport.our_ident[..], b"\r\n"].concat();
        transport.send.push_raw(&line);
        transport.start_kex();
        transport
    }

    /// A client's connection inside of one that another process has and has logged in on: packets without cipher and
    /// padding, nothing but the connection protocol, and no key exchange (OpenSSH's PROTOCOL.mux, proxy mode). What else is queued
    /// is dropped, and what else comes too.
    pub fn relayed(random: Box<dyn Random + Send>, now: Instant) -> Self {
        let mut transport = Self::blank(Config::client(), random, now);
        transport.send.set_bare();
        transport.recv.set_bare();
        transport.phase = Phase::Packets;
        transport.authenticated = true;
        transport.relayed = true;
        transport
    }

    /// Before anything was sent or received.
    pub(crate) fn blank(config: Config, random: Box<dyn Random + Send>, now: Instant) -> Self {
        Self {
            send: Sender::new(PaddingPool::new(random)),
            recv: Receiver::new(config.max_packet),
            phase: Phase::Identification,
            kex: KexState::Idle,
            events: VecDeque::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            early: None,
            deflater: Deflater::default(),
            inflater: Inflater::default(),
            our_ident: ident::ours(&config.software, &config.comments).into_bytes(),
            peer_ident: Vec::new(),
            peer_ident_text: None,
            peer: Peer::Unknown,
            lines: 0,
            session_id: None,
            host_key: None,
            session_proof: None,
            names: None,
            raw_out: None,
            raw_in: None,
            authenticated: false,
            relayed: false,
            squeezing: false,
            unsqueezing: false,
            next_algorithms: None,
            unencrypted: Unencrypted::Refused,
            last_kex: now,
            extensions: Vec::new(),
            ext_infos: 0,
            last_seq: 0,
            packets_in: 0,
            kexinit_seq: 0,
            replies: 0,
            eof: false,
            bytes_in: 0,
            bytes_out: 0,
            jobs: VecDeque::new(),
            jobs_out: 0,
            config,
        }
    }

    /// Where to read the socket's bytes to. Never empty.
    pub fn recv_space(&mut self) -> &mut [u8] {
        self.recv.space()
    }

    /// `n` bytes were read into the start of [`recv_space`](Self::recv_space).
    pub fn received(&mut self, n: usize) {
        self.bytes_in += n as u64;
        // When it is over, what still comes is not kept.
        if self.is_open() {
            self.recv.received(n);
        }
    }

    /// The peer will send no more. `poll` reports it once everything that arrived has been handled.
    pub fn received_eof(&mut self) {
        self.eof = true;
    }

    /// The next thing that happened, `None` when more bytes (or an answer) are needed.
    ///
    /// # Errors
    /// The connection is over; a DISCONNECT is queued where one makes sense, so flush once more. Calling again
    /// gives the same error.
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

    /// Handles one line; false when there is none.
    fn identification(&mut self) -> Result<bool, TransportError> {
        match ident::next(self.config.role, self.lines, self.recv.unread())? {
            Found::Nothing => return Ok(false),
            Found::Banner(len, line) => {
                self.recv.take(len);
                self.lines += 1;
                self.events.push_back(Event::Banner(line));
            }
            Found::Identification(len, line) => {
                self.recv.take(len);
                let text = ident::printable(&line);
                self.peer_ident = line;
                self.peer = Peer::of(&text);
                self.peer_ident_text = Some(text.clone());
                self.phase = Phase::Packets;
                self.events.push_back(Event::PeerIdentification(text));
            }
        }
        Ok(true)
    }

    /// Ends the connection for a reason of ours: tells the peer, where that makes sense.
    pub(crate) fn fail(&mut self, error: &TransportError) {
        if let (Some(reason), false) = (error.disconnect_reason(), matches!(self.phase, Phase::Ended)) {
            let text = match error {
                // The number was decrypted with a key the peer may not have: it is nobody's business.
                TransportError::PacketLength { .. } => "packet corrupt".to_owned(),
                error => error.to_string(),
            };
            self.disconnect(reason, &text);
        } else if let (TransportError::NotSsh(_), Role::Server) = (error, self.config.role) {
            // Plain text, which whoever speaks another protocol can read; OpenSSH's words.
            self.send.push_raw(b"Invalid SSH identification string.\r\n");
        }
        self.phase = Phase::Failed(error.clone());
    }

    /// Client: the answer to [`Event::HostKey`]. Only the key that was asked about can be accepted.
    ///
    /// # Errors
    /// No key is waiting, or it is another one; the state has not changed then.
    pub fn host_key_accepted(&mut self, key: &AcceptedHostKey) -> Result<(), TransportError> {
        self.answer(|state| state.host_key_accepted(&key.blob))
    }

    /// Server: the answer to [`Event::SignExchangeHash`], a signature blob (`string` algorithm, `string` signature).
    ///
    /// # Errors
    /// No signature is waited for; the state has not changed then.
    pub fn exchange_hash_signed(&mut self, signature: &[u8]) -> Result<(), TransportError> {
        self.answer(|state| state.signed(signature))
    }

    /// False while a key exchange keeps other packets back: whoever produces bulk waits, so that nothing piles up.
    pub fn can_send_bulk(&self) -> bool {
        self.is_open() && !self.holding()
    }

    /// Seals what is queued. Call before [`output_slices`](Self::output_slices).
    pub fn output(&mut self, now: Instant) {
        let _ = now;
        let sealed = self.send.seal(&mut self.jobs);
        self.check_sealed(sealed);
    }

    fn check_sealed(&mut self, sealed: Result<(), CryptoError>) {
        if sealed.is_err() {
            // Only a mistake in this crate leads here. Nothing half-sealed may leave.
            self.send.abandon();
            self.phase = Phase::Failed(TransportError::Caller("a packet could not be sealed"));
        }
    }

    /// Says whether there is somebody to take [`Job`]s. With `true`, [`output`](Self::output) and [`poll`](Self::poll)
    /// make bulk into jobs, and what is in them is neither written nor delivered before they are brought back. At
    /// first there is nobody. What is little is always done on the spot.
    pub const fn set_workers(&mut self, workers: bool) {
        self.send.set_workers(workers);
        self.recv.set_workers(workers);
    }

    /// A job to run, the oldest first. Look for jobs after [`output`](Self::output) and after
    /// [`poll`](Self::poll) returned `None`.
    pub fn next_job(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front()?;
        self.jobs_out += 1;
        Some(job)
    }

    /// Brings a job back that has run, in any order. What it makes possible is found by
    /// [`output_slices`](Self::output_slices) or [`poll`](Self::poll).
    pub fn finish_job(&mut self, job: Job) {
        self.jobs_out = self.jobs_out.saturating_sub(1);
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

    /// Jobs that were taken and not brought back.
    pub const fn jobs_out(&self) -> usize {
        self.jobs_out
    }

    /// Runs the jobs nobody has taken here and now.
    pub fn run_jobs(&mut self) {
        while let Some(mut job) = self.jobs.pop_front() {
            job.run();
            self.put_back(job);
        }
    }

    /// Bytes that were received and cut off for jobs, and that [`poll`](Self::poll) has not delivered yet. Stop reading
    /// when they become many.
    pub fn received_ahead(&self) -> usize {
        self.recv.ahead()
    }

    /// Appends the sealed bytes that wait to be written, in order. At most 64 slices.
    pub fn output_slices<'a>(&'a self, out: &mut Vec<IoSlice<'a>>) {
        self.send.slices(out);
    }

    /// The first `n` bytes of the output were written to the socket.
    pub fn written(&mut self, n: usize) {
        self.send.written(n);
        self.replies = self.replies.saturating_sub(n);
        self.bytes_out += n as u64;
    }

    /// Bytes queued and not yet written, packets held back during a key exchange included.
    pub fn queued_bytes(&self) -> usize {
        self.send.queued() + self.held_bytes
    }

    /// Bytes that could be written at once if the peer read them. A caller stops reading while these are many: everything the peer
    /// makes us answer ends up here. What a key exchange holds back does not count, because only reading brings that to its end.
    pub fn unsent_bytes(&self) -> usize {
        self.send.queued()
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.authenticated || self.relayed || !self.is_open() || !matches!(self.kex, KexState::Idle) {
            return None;
        }
        self.last_kex.checked_add(self.config.rekey.interval?)
    }

    /// Time has passed: starts a rekey whose interval is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.request_rekey();
        }
    }

    /// Starts a key exchange now, unless one is under way. Not before authentication: OpenSSH refuses that, and by
    /// itself the transport does not do it either.
    pub fn request_rekey(&mut self) {
        if self.is_open() && matches!(self.kex, KexState::Idle) && !self.relayed {
            self.start_kex();
        }
    }

    /// Offers other algorithms from the next key exchange on.
    pub fn set_algorithms(&mut self, algorithms: Algorithms) {
        self.next_algorithms = Some(algorithms);
    }

    /// Says what may be agreed on besides ciphers that encrypt, from the next key exchange on and not before
    /// authentication. At first that is nothing, also for a connection that was [thawed](Self::thaw).
    pub const fn set_unencrypted(&mut self, unencrypted: Unencrypted) {
        self.unencrypted = unencrypted;
    }

    /// False when a key exchange has agreed on a cipher that does not encrypt, in either direction.
    pub fn is_encrypted(&self) -> bool {
        let keys = [&self.raw_in, &self.raw_out].into_iter().flatten();
        keys.map(|keys| keys.cipher).all(Cipher::encrypts)
    }

    /// Puts events back in front of what [`poll`](Self::poll) has to say: who waited for one of them leaves the others to
    /// whoever polls next.
    pub fn put_back_events(&mut self, events: Vec<Event>) {
        for event in events.into_iter().rev() {
            self.events.push_front(event);
        }
    }

    /// Queues SSH_MSG_DISCONNECT. Nothing can be sent afterwards, and nothing more comes from
    /// [`poll`](Self::poll).
    pub fn disconnect(&mut self, reason: u32, description: &str) {
        if !self.is_open() {
            return;
        }
        if !self.relayed {
            self.transmit(&Disconnect::new(reason, description.as_bytes(), b"").to_payload(), self.squeezing);
        }
        self.phase = Phase::Ended;
        self.held.clear();
        self.held_bytes = 0;
    }

    /// Server: tells a client that wants to know (`ext-info-in-auth@openssh.com`) which signatures count for the user it has
    /// named, which may be others than were announced to everybody. Once, and before the user is in.
    pub fn announce_signature_algorithms(&mut self, algorithms: &[String]) {
        if self.peer_extension(ext_info::IN_AUTH) == Some(b"0") {
            lh_wire::PacketSink::payload(self, &ext_info::for_user(algorithms));
        }
    }

    /// The user is authenticated: delayed compression starts, and rekeying by limits. A server calls this right
    /// *after* queueing USERAUTH_SUCCESS, a client when it *gets* it, before the next `poll`.
    pub fn set_authenticated(&mut self) {
        self.authenticated = true;
        // A server's SUCCESS may be held back by a key exchange: then the client does not know yet, and what
        // belongs to the exchange is not compressed. `finish` and `on_newkeys` make up for it.
        let server = self.config.role == Role::Server;
        self.squeezing = !(server && self.holding());
        self.unsqueezing = !server || matches!(self.kex, KexState::Idle);
    }

    /// Answers the packet last returned by [`poll`](Self::poll) with SSH_MSG_UNIMPLEMENTED (RFC 4253 section 11.4).
    pub fn reply_unimplemented(&mut self) {
        self.reply(&Unimplemented::new(self.last_seq).to_payload());
    }

    /// Sends an answer the peer can make us give as often as it likes.
    pub(crate) fn reply(&mut self, payload: &[u8]) {
        self.replies += payload.len() + 32;
        self.payload(payload);
    }

    /// The peer makes us answer and does not read.
    pub(crate) const fn too_many_replies(&self) -> bool {
        self.replies > MAX_REPLIES
    }

    /// The exchange hash of the first key exchange; `None` before it is done.
    pub fn session_id(&self) -> Option<&[u8]> {
        self.session_id.as_deref()
    }

    /// What the last key exchange agreed on; `None` before the first is done.
    pub const fn negotiated(&self) -> Option<&Negotiated> {
        self.names.as_ref()
    }

    /// The peer's identification line, without line ending; bytes that are not printable ASCII are escaped.
    pub fn peer_identification(&self) -> Option<&str> {
        self.peer_ident_text.as_deref()
    }

    /// Which implementation the peer is, as far as that is known; what it accepts is in
    /// [`Peer::limits`]. Final after the first key exchange.
    pub const fn peer(&self) -> Peer {
        self.peer
    }

    /// True when a message of so many bytes can be sent to this peer.
    pub fn can_send_message(&self, length: usize) -> bool {
        let limit = self.peer.limits().sent_packet;
        limit.is_none_or(|limit| self.send.packet_length(length) <= limit as usize)
    }

    /// Value of an extension the peer announced in EXT_INFO; the last one counts.
    pub fn peer_extension(&self, name: &str) -> Option<&[u8]> {
        self.extensions.iter().rev().find(|(each, _)| each == name).map(|(_, value)| value.as_slice())
    }

    /// True when the peer has said that it answers PING (`ping@openssh.com`).
    pub fn answers_pings(&self) -> bool {
        self.peer_extension(ext_info::PING) == Some(b"0")
    }

    /// The host key blob of the last key exchange (the server's own, on a server): hostbound authentication
    /// signs it.
    pub fn host_key(&self) -> Option<&[u8]> {
        self.host_key.as_deref()
    }

    /// The host key of the first key exchange and its signature over the session identifier: the proof an agent
    /// wants before it lets a key be used for this session. Not kept when the connection is frozen.
    pub fn session_proof(&self) -> Option<(&[u8], &[u8])> {
        self.session_proof.as_ref().map(|(key, signature)| (key.as_slice(), signature.as_slice()))
    }

    /// The user is in.
    pub const fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// Which end this is.
    pub const fn role(&self) -> Role {
        self.config.role
    }

    /// Bytes received from the socket.
    pub const fn bytes_in(&self) -> u64 {
        self.bytes_in
    }

    /// Packets received whole and found genuine (since the connection was thawed, where it was frozen).
    pub const fn packets_in(&self) -> u64 {
        self.packets_in
    }

    /// Bytes written to the socket.
    pub const fn bytes_out(&self) -> u64 {
        self.bytes_out
    }
}

impl PacketSink for Transport {
    fn payload(&mut self, payload: &[u8]) {
        match payload.first() {
            _ if !self.is_open() => {}
            None => {}
            Some(number) if self.relayed && !CONNECTION.contains(number) => {}
            Some(&number) if self.early.is_some() && self.kept_early(number, payload) => {}
            Some(&number) if self.must_hold(number) => {
                let most = if self.authenticated { MAX_HELD } else { MAX_HELD_UNAUTHENTICATED };
                if self.held_bytes + payload.len() > most {
                    return self.fail(&TransportError::TooMany("messages that want an answer"));
                }
                self.hold(payload.to_vec());
            }
            Some(_) => {
                self.transmit(payload, self.squeezing);
                self.rekey_if_due();
            }
        }
    }

    fn payloads(&mut self, sizes: &mut [usize], fill: &mut dyn FnMut(&mut [IoSliceMut<'_>], &mut [usize])) {
        let direct =
            self.early.is_none() && self.can_send_bulk() && !self.deflater.when.applies(self.squeezing);
        if direct && sizes.iter().all(|&size| self.can_send_message(size)) {
            self.send.push_many(sizes, fill);
            self.rekey_if_due();
        } else {
            // Compressed, kept, held back or thrown away: the payloads need a place of their own first.
            let mut collected: Vec<Vec<u8>> = Vec::new();
            collected.payloads(sizes, fill);
            for payload in collected {
                self.payload(&payload);
            }
        }
    }
}
