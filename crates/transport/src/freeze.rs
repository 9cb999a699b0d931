//! Freezing: the whole state as bytes, for another process to continue (OpenSSH hands over the same way from
//! its pre-auth process to the user session process).
//!
//! Possible only between key exchanges, and before compression starts. Bytes that were received but not
//! handled, and bytes that were queued but not written, are included. The format is internal: both processes
//! run the same build, which a tag verifies.

use std::time::Instant;

use lh_crypto::{Cipher, Direction, Mac, PacketIndex, PacketKey, Random};
use lh_wire::peer::Peer;
use lh_wire::{Reader, WireError, Writer};
use zeroize::Zeroizing;

use crate::compress::{Deflater, Inflater};
use crate::epoch::{Position, RawKeys};
use crate::export::Exporter;
use crate::ident::printable;
use crate::state::{KexState, Phase};
use crate::{Config, FreezeError, Negotiated, Role, Transport};

/// First bytes of a frozen state. Changes with every change of the format.
pub(crate) const TAG: &[u8] = b"longhaul-transport-3";

/// Transfer of the state to another process.
impl Transport {
    /// Returns the whole state as bytes, so that another process can continue. The bytes contain the keys.
    /// This object must not be used afterwards: its unwritten output has moved into the bytes, and two copies
    /// must never send with the same keys.
    ///
    /// # Errors
    /// Fails during a key exchange, with compression running, with outstanding jobs, with events to be
    /// polled, or where messages are [kept](Self::retain). The state is then unchanged.
    pub fn freeze(&mut self) -> Result<Zeroizing<Vec<u8>>, FreezeError> {
        self.run_jobs();
        if self.jobs_out() > 0 || self.recv.ahead() > 0 {
            return Err(FreezeError::Jobs);
        }
        let open = matches!(self.phase, Phase::Packets) && matches!(self.exchange.state, KexState::Idle);
        let (true, true, Some(names), Some(session_id), Some(host_key), Some(raw_in), Some(raw_out)) = (
            open,
            self.events.is_empty(),
            &self.exchange.names,
            &self.exchange.first.session_id,
            &self.exchange.host_key,
            &self.exchange.opening_keys,
            &self.exchange.sealing_keys,
        ) else {
            return Err(FreezeError::KeyExchange);
        };
        if self.send.retention().is_some() {
            return Err(FreezeError::Retained);
        }
        if self.compression.deflater.started() || self.compression.inflater.started() {
            return Err(FreezeError::Compression);
        }
        self.send.set_workers(false);
        self.recv.set_workers(false);
        self.send.seal(&mut self.jobs.created).map_err(|_| FreezeError::KeyExchange)?;
        let mut queued = Vec::new();
        self.send.slices_all(&mut queued);

        // The buffer is never reallocated, so that no copy of the keys is left behind.
        let size =
            16 * 1024 + self.recv.unread().len() + queued.iter().map(|slice| slice.len()).sum::<usize>();
        let ext: usize =
            self.extensions.entries.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
        let idents = self.identifications.ours.len()
            + self.identifications.peers.len()
            + host_key.len()
            + session_id.len();
        let mut out = Zeroizing::new(Vec::with_capacity(size + ext + idents));
        out.put_string(TAG);
        out.put_bool(self.config.role == Role::Server);
        out.put_string(&self.identifications.ours);
        out.put_string(&self.identifications.peers);
        out.put_bool(self.identifications.peer == Peer::HpnSsh);
        out.put_string(session_id);
        out.put_string(host_key);
        out.put_string(self.exchange.first.exporter.as_ref().map_or(&[], Exporter::key));
        put_names(&mut out, names);
        out.put_bool(self.authenticated);
        out.put_bool(self.compression.sending);
        out.put_bool(self.compression.receiving);
        out.put_u32(self.extensions.messages);
        out.put_u32(u32::try_from(self.extensions.entries.len()).unwrap_or(u32::MAX));
        for (name, value) in &self.extensions.entries {
            out.put_string(name.as_bytes());
            out.put_string(value);
        }
        for (keys, position, key) in [
            (raw_in, self.recv.position(), self.recv.key()),
            (raw_out, self.send.position(), self.send.key()),
        ] {
            put_keys(&mut out, keys, key);
            put_position(&mut out, position);
        }
        out.put_u64(self.totals.bytes_in);
        out.put_u64(self.totals.bytes_out);
        out.put_string(self.recv.unread());
        out.nested(|out| queued.iter().for_each(|bytes| out.put_bytes(bytes)));
        drop(queued);
        self.send.abandon();
        self.phase = Phase::Ended;
        Ok(out)
    }

    /// Continues where [`freeze`](Self::freeze) stopped. `config` is this process's own; a rekey interval
    /// starts again.
    ///
    /// # Errors
    /// The bytes were not written by `freeze`, or `config` is for the other role.
    pub fn thaw(
        frozen: &[u8],
        config: Config,
        random: Box<dyn Random + Send>,
        now: Instant,
    ) -> Result<Self, FreezeError> {
        let mut reader = Reader::new(frozen);
        if reader.string().map_err(|_| FreezeError::Version)? != TAG {
            return Err(FreezeError::Version);
        }
        let role = if reader.boolean()? { Role::Server } else { Role::Client };
        if role != config.role {
            return Err(WireError::Invalid { what: "role" }.into());
        }
        let mut transport = Self::blank(config, random, now);
        transport.phase = Phase::Packets;
        transport.identifications.ours = reader.string()?.to_vec();
        transport.identifications.peers = reader.string()?.to_vec();
        let identification = printable(&transport.identifications.peers);
        // HPN-SSH may have been recognised by its offer, so the identification alone is not enough.
        transport.identifications.peer =
            if reader.boolean()? { Peer::HpnSsh } else { Peer::of(&identification) };
        transport.identifications.peers_text = Some(identification);
        transport.exchange.first.session_id = Some(reader.string()?.to_vec());
        transport.exchange.host_key = Some(reader.string()?.to_vec());
        let exporter = reader.string()?;
        transport.exchange.first.exporter = (!exporter.is_empty()).then(|| Exporter::from_key(exporter));
        let names = read_names(&mut reader)?;
        transport.authenticated = reader.boolean()?;
        transport.compression.sending = reader.boolean()?;
        transport.compression.receiving = reader.boolean()?;
        transport.extensions.messages = reader.u32()?;
        for _ in 0..reader.u32()? {
            let name = reader.text()?.to_owned();
            transport.extensions.entries.push((name, reader.string()?.to_vec()));
        }
        let keys = read_keys(&mut reader)?;
        let key = keys.packet_key(Direction::Open).map_err(|_| FreezeError::Algorithm)?;
        transport.recv.new_keys(key, false).map_err(|_| FreezeError::KeyExchange)?;
        transport.exchange.opening_keys = Some(keys);
        transport.recv.set_position(read_position(&mut reader)?);
        let keys = read_keys(&mut reader)?;
        transport.send.new_keys(keys.packet_key(Direction::Seal).map_err(|_| FreezeError::Algorithm)?, false);
        transport.exchange.sealing_keys = Some(keys);
        transport.send.set_position(read_position(&mut reader)?);
        let (out, back) = match role {
            Role::Client => (&names.compression_c2s, &names.compression_s2c),
            Role::Server => (&names.compression_s2c, &names.compression_c2s),
        };
        transport.compression.deflater = Deflater::new(out);
        transport.compression.inflater = Inflater::new(back);
        transport.exchange.names = Some(names);
        transport.totals.bytes_in = reader.u64()?;
        transport.totals.bytes_out = reader.u64()?;
        transport.recv.restore(reader.string()?);
        transport.send.push_raw(reader.string()?);
        reader.finish()?;
        Ok(transport)
    }
}

fn put_names(out: &mut Vec<u8>, names: &Negotiated) {
    let Negotiated {
        kex,
        host_key,
        cipher_c2s,
        cipher_s2c,
        mac_c2s,
        mac_s2c,
        compression_c2s,
        compression_s2c,
        strict,
    } = names;
    for name in [kex, host_key, cipher_c2s, cipher_s2c, mac_c2s, mac_s2c, compression_c2s, compression_s2c] {
        out.put_string(name.as_bytes());
    }
    out.put_bool(*strict);
}

fn read_names(reader: &mut Reader<'_>) -> Result<Negotiated, WireError> {
    let mut name = || reader.text().map(str::to_owned);
    Ok(Negotiated {
        kex: name()?,
        host_key: name()?,
        cipher_c2s: name()?,
        cipher_s2c: name()?,
        mac_c2s: name()?,
        mac_s2c: name()?,
        compression_c2s: name()?,
        compression_s2c: name()?,
        strict: reader.boolean()?,
    })
}

/// Stores the keys. A chained suite (CBC) continues from the current end of its chain.
fn put_keys(out: &mut Vec<u8>, keys: &RawKeys, key: &PacketKey) {
    out.put_string(keys.cipher.name.as_bytes());
    out.put_string(keys.mac.map_or("", |mac| mac.name).as_bytes());
    out.put_string(&keys.key);
    out.put_string(&key.chain().unwrap_or_else(|| keys.iv.to_vec()));
    out.put_string(&keys.mac_key);
}

fn read_keys(reader: &mut Reader<'_>) -> Result<RawKeys, FreezeError> {
    let cipher = Cipher::by_name(reader.text()?).ok_or(FreezeError::Algorithm)?;
    let mac = match reader.text()? {
        "" => None,
        name => Some(Mac::by_name(name).ok_or(FreezeError::Algorithm)?),
    };
    let mut secret = || reader.string().map(|bytes| Zeroizing::new(bytes.to_vec()));
    Ok(RawKeys { cipher, mac, key: secret()?, iv: secret()?, mac_key: secret()? })
}

fn put_position(out: &mut Vec<u8>, position: Position) {
    let Position { index: PacketIndex { seq, invocation, offset }, bytes, wrapped } = position;
    out.put_u32(seq);
    out.put_u64(invocation);
    out.put_u64(offset);
    out.put_u64(bytes);
    out.put_bool(wrapped);
}

fn read_position(reader: &mut Reader<'_>) -> Result<Position, WireError> {
    let (seq, invocation, offset) = (reader.u32()?, reader.u64()?, reader.u64()?);
    let index = PacketIndex { seq, invocation, offset };
    Ok(Position { index, bytes: reader.u64()?, wrapped: reader.boolean()? })
}
