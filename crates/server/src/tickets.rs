//! Tickets: let an additional connection join an authenticated session (docs/protocol.md).
//!
//! A monitor whose user session process requests a ticket sends the ticket's record to the listener. The
//! listener keeps it for a short time and gives it, once, to the monitor of the connection that presents the
//! ticket. Both are privileged, and no byte of the network reaches either. The record is no secret: the
//! ticket is a public key, and the private half never leaves the client.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use lh_crypto::Hash;
use lh_wire::{Reader, WireError, Writer};
use rustix::process::Pid;

use crate::grant::{put_options, read_options};
use crate::key_options::KeyOptions;
use crate::monitor_ipc::fields::text;

/// Time for which a ticket may be used.
pub(crate) const LIFE: Duration = Duration::from_secs(30);
/// Largest number of tickets of one session at a time; a new one replaces the oldest.
pub(crate) const MOST: usize = 16;
/// Largest number of connections that have joined a session, at a time: the largest number of channels of
/// `lhscp -j`. Each costs two processes, and `PerUserMaxConnections` does not count it. A listener that a
/// reload has started counts those that come from then on.
const MOST_JOINED: usize = 64;
/// Largest record that is kept, bytes: longer than any sensible key options.
pub(crate) const LARGEST: usize = 64 * 1024;

/// Largest number of tickets of all sessions. Beyond this, or beyond [`MOST_BYTES`], the client address with
/// the most tickets or bytes loses its oldest ticket.
const MOST_OF_ALL: usize = 8192;
/// Largest size of all records, bytes. A record has a few hundred bytes, unless its user's key options are
/// long.
const MOST_BYTES: usize = 8 << 20;

/// First byte of a monitor's message with a ticket to keep.
pub(crate) const KEEP: u8 = b'T';
/// First byte of a monitor's request to take a ticket.
pub(crate) const TAKE: u8 = b'J';
/// Length of that request, bytes.
pub(crate) const TAKE_LENGTH: usize = 1 + ID_LENGTH;
const ID_LENGTH: usize = 32;
/// Length of a [`KEEP`] message before the record: kind, id and the record's length, bytes.
pub(crate) const KEEP_LENGTH: usize = 1 + ID_LENGTH + 4;

/// Identifier of a ticket between the processes: the SHA-256 of the key's blob.
pub(crate) type Id = [u8; ID_LENGTH];

/// Returns the identifier of a key's blob.
pub(crate) fn id_of(key: &[u8]) -> Id {
    let mut id = [0; ID_LENGTH];
    id.copy_from_slice(Hash::Sha256.digest(&[key]).as_ref());
    id
}

/// The rights of a ticket: those of the session that requested it, and only from that session's addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// The user name with which the session was requested.
    pub(crate) user: String,
    /// Options of the session's key or certificate.
    pub(crate) options: KeyOptions,
    /// Proofs of the user's identity, one line for each method that succeeded.
    pub(crate) proofs: String,
    /// The session identifier, which the new connection's signature covers.
    pub(crate) session_id: Vec<u8>,
    /// Address of the session's client.
    pub(crate) peer: IpAddr,
    /// Address and port that the client connected to, which `Match` blocks may test.
    pub(crate) local: SocketAddr,
    /// Process id of the session.
    pub(crate) pid: u32,
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self { user, options, proofs, session_id, peer, local, pid } = self;
        let mut out = Vec::new();
        out.put_string(user.as_bytes());
        put_options(&mut out, options);
        out.put_string(proofs.as_bytes());
        out.put_string(session_id);
        out.put_string(peer.to_string().as_bytes());
        out.put_string(local.to_string().as_bytes());
        out.put_u32(*pid);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let bad = |_| WireError::Invalid { what: "address" };
        let record = Self {
            user: text(&mut reader)?,
            options: read_options(&mut reader)?,
            proofs: text(&mut reader)?,
            session_id: reader.string()?.to_vec(),
            peer: text(&mut reader)?.parse().map_err(bad)?,
            local: text(&mut reader)?.parse().map_err(bad)?,
            pid: reader.u32()?,
        };
        reader.finish()?;
        Ok(record)
    }

    /// Returns the message that asks the listener to keep the ticket; `None` if it would be too long.
    pub(crate) fn to_keep(&self, key: &[u8]) -> Option<Vec<u8>> {
        let record = self.encode();
        let mut message = vec![KEEP];
        message.extend_from_slice(&id_of(key));
        message.put_u32(u32::try_from(record.len()).ok().filter(|_| record.len() <= LARGEST)?);
        message.extend_from_slice(&record);
        Some(message)
    }
}

/// The listener's table of tickets.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    kept: Vec<Kept>,
    /// Connections that have taken a ticket: the session's process, and the connection's.
    joined: Vec<(Pid, Pid)>,
}

#[derive(Debug)]
struct Kept {
    id: Id,
    owner: Pid,
    from: IpAddr,
    until: Instant,
    record: Vec<u8>,
}

impl Tickets {
    /// Keeps a ticket of the session `owner`, whose client is at `from`.
    pub(crate) fn keep(&mut self, owner: Pid, from: IpAddr, id: Id, record: Vec<u8>, now: Instant) {
        self.forget_old(now);
        let of_owner = |kept: &Kept| kept.owner == owner;
        if self.kept.iter().filter(|kept| of_owner(kept)).count() >= MOST
            && let Some(oldest) = self.kept.iter().position(of_owner)
        {
            self.kept.remove(oldest);
        }
        self.kept.push(Kept { id, owner, from, until: now + LIFE, record });
        while self.kept.len() > MOST_OF_ALL && self.forget_one(|_| 1) {}
        while self.bytes() > MOST_BYTES && self.forget_one(|kept| kept.record.len()) {}
    }

    /// Returns the size of all records, bytes.
    fn bytes(&self) -> usize {
        self.kept.iter().map(|kept| kept.record.len()).sum()
    }

    /// Removes the oldest ticket of the address whose tickets have the largest weight; returns false where
    /// there is none.
    fn forget_one(&mut self, weight: impl Fn(&Kept) -> usize) -> bool {
        let mut weights: HashMap<IpAddr, usize> = HashMap::new();
        for kept in &self.kept {
            *weights.entry(kept.from).or_default() += weight(kept);
        }
        let heaviest = weights.into_iter().max_by_key(|&(_, weight)| weight).map(|(from, _)| from);
        let Some(oldest) = self.kept.iter().position(|kept| Some(kept.from) == heaviest) else {
            return false;
        };
        self.kept.remove(oldest);
        true
    }

    /// Removes the ticket, if it has not expired. Returns the process that it is from, and its record. `None`
    /// too if the session has as many additional connections as it may.
    pub(crate) fn take(&mut self, id: &Id, taker: Pid, now: Instant) -> Option<(Pid, Vec<u8>)> {
        self.forget_old(now);
        let at = self.kept.iter().position(|kept| kept.id == *id)?;
        let Kept { owner, record, .. } = self.kept.remove(at);
        if self.joined.iter().filter(|(session, _)| *session == owner).count() >= MOST_JOINED {
            return None;
        }
        self.joined.push((owner, taker));
        Some((owner, record))
    }

    /// Forgets a process that has ended: the tickets of its session, or its place among the connections that
    /// have joined one.
    pub(crate) fn void(&mut self, process: Pid) {
        self.kept.retain(|kept| kept.owner != process);
        self.joined.retain(|&(session, connection)| session != process && connection != process);
    }

    /// Returns the number of connections expected from this address.
    pub(crate) fn expected(&self, from: IpAddr, now: Instant) -> usize {
        self.kept.iter().filter(|kept| kept.from == from && kept.until > now).count()
    }

    fn forget_old(&mut self, now: Instant) {
        self.kept.retain(|kept| kept.until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn a_ticket_is_good_once_and_for_a_short_while() {
        let mut tickets = Tickets::default();
        let now = Instant::now();
        let (id, other) = (id_of(b"one"), id_of(b"two"));
        tickets.keep(pid(7), HERE, id, vec![1], now);
        tickets.keep(pid(7), HERE, other, vec![2], now);
        assert_eq!(tickets.expected(HERE, now), 2);
        assert_eq!(tickets.expected([10, 0, 0, 1].into(), now), 0);
        assert_eq!(tickets.take(&id, pid(99), now + LIFE / 2), Some((pid(7), vec![1])));
        assert_eq!(tickets.take(&id, pid(99), now + LIFE / 2), None, "used");
        assert_eq!(tickets.take(&other, pid(99), now + LIFE), None, "expired");
        assert_eq!(tickets.expected(HERE, now + LIFE), 0);
        assert_eq!(tickets.take(&id_of(b"never"), pid(99), now), None);
    }

    #[test]
    fn tickets_end_with_their_session_and_are_few() {
        let mut tickets = Tickets::default();
        let now = Instant::now();
        tickets.keep(pid(7), HERE, id_of(b"mine"), vec![1], now);
        tickets.keep(pid(8), HERE, id_of(b"theirs"), vec![2], now);
        tickets.void(pid(7));
        assert_eq!(tickets.take(&id_of(b"mine"), pid(99), now), None);
        assert_eq!(tickets.take(&id_of(b"theirs"), pid(99), now).unwrap().1, [2]);
        for n in 0..100_u8 {
            tickets.keep(pid(9), HERE, id_of(&[n]), vec![n], now);
        }
        assert_eq!(tickets.expected(HERE, now), MOST);
        assert_eq!(tickets.take(&id_of(&[99]), pid(99), now).unwrap().1, [99], "the newest are kept");
        assert_eq!(tickets.take(&id_of(&[0]), pid(99), now), None);
    }

    #[test]
    fn a_session_has_few_additional_connections() {
        let mut tickets = Tickets::default();
        let now = Instant::now();
        let join = |tickets: &mut Tickets, owner: i32, taker: i32| {
            tickets.keep(pid(owner), HERE, id_of(b"one"), vec![1], now);
            tickets.take(&id_of(b"one"), pid(taker), now).is_some()
        };
        let taken = (0..100).filter(|n| join(&mut tickets, 7, 100 + n)).count();
        assert_eq!(taken, MOST_JOINED);
        assert!(join(&mut tickets, 8, 300), "another session has its own");
        tickets.void(pid(100));
        assert!(join(&mut tickets, 7, 301) && !join(&mut tickets, 7, 302));
        tickets.void(pid(7));
        assert!(join(&mut tickets, 7, 303), "a session of a later process begins anew");
    }

    #[test]
    fn tickets_of_all_sessions_are_bounded() {
        let mut tickets = Tickets::default();
        let now = Instant::now();
        let (honest, other): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        tickets.keep(pid(1), honest, id_of(b"honest"), vec![1], now);
        // One client has many sessions, and keys with long options.
        for n in 0..1000_u32 {
            let owner = pid(2 + (n / 16).cast_signed());
            tickets.keep(owner, other, id_of(&n.to_be_bytes()), vec![0; LARGEST], now);
        }
        assert_eq!(tickets.bytes() / LARGEST, MOST_BYTES / LARGEST - 1, "one byte is the honest client's");
        assert_eq!(
            tickets.take(&id_of(&999_u32.to_be_bytes()), pid(99), now).map(|(_, record)| record.len()),
            Some(LARGEST)
        );
        for n in 0..MOST_OF_ALL + 100 {
            let owner = pid(1000 + i32::try_from(n / 16).unwrap());
            tickets.keep(owner, other, id_of(&n.to_be_bytes()), vec![1], now);
        }
        assert_eq!(tickets.expected(other, now), MOST_OF_ALL - 1);
        assert_eq!(tickets.take(&id_of(b"honest"), pid(99), now).unwrap().1, [1]);
    }

    #[test]
    fn every_right_and_restriction_is_in_the_record() {
        let text = "restrict,command=\"echo x\",environment=\"A=b\",permitopen=\"db:5432\",tunnel=\"1\"";
        let record = Record {
            user: "ada:style".into(),
            options: KeyOptions::parse(text).unwrap(),
            proofs: "publickey ssh-ed25519 AAAA\n".into(),
            session_id: vec![4; 32],
            peer: "::1".parse().unwrap(),
            local: "[fe80::1]:22".parse().unwrap(),
            pid: 77,
        };
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes).unwrap(), record);
        for end in 0..bytes.len() {
            assert!(Record::decode(&bytes[..end]).is_err());
        }
        let message = record.to_keep(b"key").unwrap();
        assert_eq!(message.len(), KEEP_LENGTH + bytes.len());
        assert_eq!((message[0], &message[1..33]), (KEEP, &id_of(b"key")[..]));
        assert!(Record { proofs: "x".repeat(LARGEST), ..record }.to_keep(b"key").is_none());
    }
}
