//! The hand-over: all configuration and keys that the listener has read, sent to each session process. So all
//! sessions see one version, even if the files change meanwhile.
//!
//! It is sent over a socket pair, which is the session's standard output at first, in two parts. The first
//! ([`Session`]) is for all processes of the session. The second holds the private keys; only the monitor
//! reads it, after the other processes have been forked. Afterwards the session reports the login over this
//! pair.

use std::io::{self, Read, Write};

use lh_config::ServerConfig;
use lh_crypto::{PublicKey, Random, SystemRandom};
use lh_sys::ids::Ids;
use lh_wire::{Reader, WireError, Writer};
use zeroize::Zeroizing;

use crate::host_keys::HostKey;
use crate::log::{Level, Log};

/// Upper bound of a hand-over, bytes: larger than any configuration with its keys. A greater length is a bug.
const LARGEST: u32 = 64 << 20;

/// Sent by a session process to the listener when it has begun to serve its client.
pub(crate) const STARTED: &[u8] = b"S";

/// Sent by a session process to the listener when its user has logged in.
pub(crate) const AUTHENTICATED: &[u8] = b"A";

/// A listener's secret, from which the delay of failed logins is derived.
#[derive(Default, Clone)]
pub(crate) struct DelayKey(Zeroizing<[u8; 32]>);

impl DelayKey {
    pub(crate) fn random() -> Self {
        let mut key = Self::default();
        SystemRandom.fill(&mut key.0[..]);
        key
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0[..]
    }
}

impl std::fmt::Debug for DelayKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DelayKey")
    }
}

/// Destination of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogTarget {
    /// Descriptor 2: standard error, or the file of `-E`.
    Stderr,
    /// The system's log.
    Syslog,
    /// systemd's journal.
    Journal,
}

impl LogTarget {
    fn from_number(number: u8) -> Result<Self, WireError> {
        [Self::Stderr, Self::Syslog, Self::Journal]
            .into_iter()
            .find(|target| *target as u8 == number)
            .ok_or(WireError::Invalid { what: "log target" })
    }
}

/// Limit on the size of core files, bytes; `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreLimit(pub Option<u64>);

/// Everything that the listener hands to its session processes. See the module documentation.
#[derive(Debug)]
pub struct HandOver {
    /// The configuration as it was read.
    pub config: ServerConfig,
    /// The host's keys.
    pub host_keys: Vec<HostKey>,
    /// Destination of the log.
    pub log_target: LogTarget,
    /// The level from `-d` or `-q`, which replaces `LogLevel`.
    pub log_level: Option<Level>,
    /// The OOM score from before the listener lowered its own; sessions restore it.
    pub oom_score: Option<i32>,
    /// The core-file limit that the listener was started with; users' programs get it back.
    pub core_limit: Option<CoreLimit>,
    /// User and group ids of pre-auth processes ([`preauth_ids`](crate::preauth_ids())), without
    /// supplementary groups.
    pub preauth_ids: Option<Ids>,
}

/// The first part of a hand-over, as the session process reads it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) config: ServerConfig,
    /// Public halves of the host keys; the private ones follow in this order.
    pub(crate) host_keys: Vec<PublicKey>,
    pub(crate) log_target: LogTarget,
    pub(crate) log_level: Option<Level>,
    pub(crate) oom_score: Option<i32>,
    pub(crate) core_limit: Option<CoreLimit>,
    pub(crate) preauth_ids: Option<Ids>,
}

/// Why a hand-over cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandOverError {
    /// The listener has ended.
    #[error("cannot read the hand-over: {0}")]
    Io(#[from] io::Error),
    /// The hand-over cannot be decoded: the listener is of another version.
    #[error("malformed hand-over: {0}")]
    Malformed(#[from] WireError),
    /// The configuration cannot be decoded: the listener is of another version.
    #[error("hand-over holds no configuration: {0}")]
    Config(#[from] lh_config::ConfigError),
}

/// Opens the log that all processes write to.
fn log(config: &ServerConfig, target: LogTarget, level: Option<Level>) -> Log {
    let configured = config.log_level.value;
    let level = level.unwrap_or(configured);
    let log = match target {
        LogTarget::Stderr => Log::stderr(level),
        LogTarget::Syslog => Log::syslog(level, config.syslog_facility.value.word()),
        LogTarget::Journal => Log::journal(level, config.syslog_facility.value.word()),
    };
    log.set_places(&config.log_verbose);
    log
}

impl Session {
    /// Opens the log; each process opens its own.
    pub(crate) fn log(&self) -> Log {
        log(&self.config, self.log_target, self.log_level)
    }

    /// The log level in force.
    pub(crate) fn log_level(&self) -> Level {
        let configured = self.config.log_level.value;
        self.log_level.unwrap_or(configured)
    }

    /// Receives the first part of a hand-over and leaves the second one unread.
    pub(crate) fn receive(from: &mut impl Read) -> Result<Self, HandOverError> {
        Self::from_content(&receive_part(from)?)
    }

    fn from_content(content: &[u8]) -> Result<Self, HandOverError> {
        let mut reader = Reader::new(content);
        let log_target = LogTarget::from_number(reader.u8()?)?;
        let log_level = Some(reader.u8()?).filter(|level| *level != u8::MAX).map(Level::from_number);
        let oom_score = if reader.boolean()? { Some(reader.u32()?.cast_signed()) } else { None };
        let core_limit = if reader.boolean()? { Some(CoreLimit(Some(reader.u64()?))) } else { None };
        let core_limit = core_limit.map(|limit| CoreLimit(limit.0.filter(|bytes| *bytes != u64::MAX)));
        let preauth_ids = if reader.boolean()? { Some(read_ids(&mut reader)?) } else { None };
        let config = ServerConfig::from_bytes(reader.string()?)?;
        let count = reader.u32()?;
        let mut host_keys = Vec::new();
        for _ in 0..count {
            host_keys.push(PublicKey::from_blob(reader.string()?)?);
        }
        reader.finish()?;
        Ok(Self { config, host_keys, log_target, log_level, oom_score, core_limit, preauth_ids })
    }
}

/// Reads user and group ids without supplementary groups. Root's ids are refused, because they would protect
/// nothing.
fn read_ids(reader: &mut Reader<'_>) -> Result<Ids, WireError> {
    let (uid, gid) = (reader.u32()?, reader.u32()?);
    if uid == 0 {
        return Err(WireError::Invalid { what: "user id" });
    }
    Ok(Ids { uid, gid, groups: Vec::new() })
}

/// The second part of a hand-over: secrets that only the monitor may know.
pub(crate) struct Secrets {
    pub(crate) host_keys: Vec<HostKey>,
    pub(crate) delay_key: DelayKey,
}

/// Receives the second part of a hand-over.
pub(crate) fn receive_secrets(from: &mut impl Read) -> Result<Secrets, HandOverError> {
    let content = receive_part(from)?;
    let mut reader = Reader::new(&content);
    let delay_key = DelayKey(Zeroizing::new(reader.array()?));
    let mut host_keys = Vec::new();
    while !reader.is_empty() {
        host_keys.push(HostKey::read_from(&mut reader)?);
    }
    Ok(Secrets { host_keys, delay_key })
}

fn receive_part(from: &mut impl Read) -> Result<Zeroizing<Vec<u8>>, HandOverError> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > LARGEST {
        return Err(WireError::Invalid { what: "length" }.into());
    }
    let mut content = Zeroizing::new(vec![0; length as usize]);
    from.read_exact(&mut content)?;
    Ok(content)
}

impl HandOver {
    /// Opens the listener's own log.
    pub fn log(&self) -> Log {
        log(&self.config, self.log_target, self.log_level)
    }

    /// Encodes the hand-over, each part behind its length. The bytes hold private keys.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut content = Vec::with_capacity(32 * 1024);
        content.put_u8(self.log_target as u8);
        content.put_u8(self.log_level.map_or(u8::MAX, |level| level as u8));
        content.put_bool(self.oom_score.is_some());
        if let Some(score) = self.oom_score {
            content.put_u32(score.cast_unsigned());
        }
        content.put_bool(self.core_limit.is_some());
        if let Some(CoreLimit(bytes)) = self.core_limit {
            content.put_u64(bytes.unwrap_or(u64::MAX));
        }
        content.put_bool(self.preauth_ids.is_some());
        if let Some(ids) = &self.preauth_ids {
            content.put_u32(ids.uid);
            content.put_u32(ids.gid);
        }
        content.put_string(&self.config.to_bytes());
        content.put_u32(u32::try_from(self.host_keys.len()).unwrap_or(0));
        for key in &self.host_keys {
            content.put_string(key.public().blob());
        }
        let mut keys = Zeroizing::new(Vec::with_capacity(64 * 1024 * self.host_keys.len().max(1)));
        keys.extend_from_slice(DelayKey::random().bytes());
        for key in &self.host_keys {
            key.write_to(&mut keys);
        }
        let mut framed = Zeroizing::new(Vec::with_capacity(content.len() + keys.len() + 8));
        framed.put_string(&content);
        framed.put_string(&keys);
        framed
    }

    /// Sends the bytes that [`to_bytes`](Self::to_bytes) returned.
    pub fn send(bytes: &[u8], to: &mut impl Write) -> io::Result<()> {
        to.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_other_side_reads_what_was_read() {
        let config = crate::testing::config("Port 2022\nMatch User ada\n  PermitTTY no\n");
        let sent = HandOver {
            config,
            host_keys: Vec::new(),
            log_target: LogTarget::Syslog,
            log_level: Some(Level::Debug2),
            oom_score: Some(-17),
            core_limit: Some(CoreLimit(None)),
            preauth_ids: Some(Ids { uid: 106, gid: 65_534, groups: Vec::new() }),
        };
        let bytes = sent.to_bytes();
        let mut rest = &bytes[..];
        let received = Session::receive(&mut rest).unwrap();
        let secrets = receive_secrets(&mut rest).unwrap();
        assert_eq!(secrets.host_keys.len(), 0);
        // Each listener has another secret.
        let mut other = &sent.to_bytes()[..];
        Session::receive(&mut other).unwrap();
        assert_ne!(receive_secrets(&mut other).unwrap().delay_key.bytes(), secrets.delay_key.bytes());
        assert_eq!(received.log_target, LogTarget::Syslog);
        assert_eq!(received.log_level, Some(Level::Debug2));
        assert_eq!(received.oom_score, Some(-17));
        assert_eq!(received.core_limit, Some(CoreLimit(None)));
        assert_eq!(received.preauth_ids, sent.preauth_ids);
        assert_eq!(received.config.port.0, [2022]);
        assert!(Session::receive(&mut &bytes[..bytes.len() - 41]).is_err());
    }

    #[test]
    fn root_ids_are_refused() {
        let mut bytes = Vec::new();
        bytes.put_u32(0);
        bytes.put_u32(65_534);
        assert!(read_ids(&mut Reader::new(&bytes)).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Session::from_content(&bytes);
            let _ = receive_secrets(&mut &bytes[..]);
        }
    }
}
