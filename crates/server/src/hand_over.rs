//! What the listener tells each session process: everything it has read, so that no session reads it again and all
//! see the same, whatever happens to the files meanwhile.
//!
//! It travels over a socket pair that is the session's standard output at first. Afterwards the same pair tells
//! the listener how far the login has come.

use std::io::{self, Read, Write};

use lh_config::ServerConfig;
use lh_wire::{Reader, WireError, Writer};
use zeroize::Zeroizing;

use crate::host_keys::HostKey;
use crate::log::{Level, Log};

/// More than any configuration and its keys; a length beyond it is a fault of ours.
const LARGEST: u32 = 64 << 20;

/// What a session writes to the listener when its user has logged in.
pub(crate) const AUTHENTICATED: &[u8] = b"A";

/// Where the log goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogTarget {
    /// Descriptor 2, which may be a file.
    Stderr,
    /// The system's log.
    Syslog,
}

/// See the module documentation.
#[derive(Debug)]
pub struct HandOver {
    /// The configuration as it was read.
    pub config: ServerConfig,
    /// The host's keys.
    pub host_keys: Vec<HostKey>,
    /// Where the log goes.
    pub log_target: LogTarget,
    /// `-d` or `-q`, over what `LogLevel` says.
    pub log_level: Option<Level>,
}

/// Why a hand-over cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// The listener is gone.
    #[error("cannot read the hand-over: {0}")]
    Io(#[from] io::Error),
    /// Another version wrote it.
    #[error("malformed hand-over: {0}")]
    Malformed(#[from] WireError),
    /// Another version wrote it.
    #[error("hand-over holds no configuration: {0}")]
    Config(#[from] lh_config::ConfigError),
}

impl HandOver {
    /// The log both processes write.
    pub fn log(&self) -> Log {
        let configured = Level::by_name(self.config.log_level.value.word()).unwrap_or(Level::Info);
        let level = self.log_level.unwrap_or(configured);
        match self.log_target {
            LogTarget::Stderr => Log::stderr(level),
            LogTarget::Syslog => Log::syslog(level, self.config.syslog_facility.value.word()),
        }
    }

    /// As bytes, with their length in front. They hold private keys.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut content = Zeroizing::new(Vec::with_capacity(32 * 1024));
        content.put_bool(self.log_target == LogTarget::Syslog);
        content.put_u8(self.log_level.map_or(u8::MAX, |level| level as u8));
        content.put_string(&self.config.to_bytes());
        content.put_u32(u32::try_from(self.host_keys.len()).unwrap_or(0));
        for key in &self.host_keys {
            key.write_to(&mut content);
        }
        let mut framed = Zeroizing::new(Vec::with_capacity(content.len() + 4));
        framed.put_string(&content);
        framed
    }

    fn from_content(content: &[u8]) -> Result<Self, HandOverError> {
        let mut reader = Reader::new(content);
        let log_target = if reader.boolean()? { LogTarget::Syslog } else { LogTarget::Stderr };
        let log_level = Some(reader.u8()?).filter(|level| *level != u8::MAX).map(Level::from_number);
        let config = ServerConfig::from_bytes(reader.string()?)?;
        let count = reader.u32()?;
        let mut host_keys = Vec::new();
        for _ in 0..count {
            host_keys.push(HostKey::read_from(&mut reader)?);
        }
        reader.finish()?;
        Ok(Self { config, host_keys, log_target, log_level })
    }

    /// Sends what [`to_bytes`](Self::to_bytes) made.
    pub fn send(bytes: &[u8], to: &mut impl Write) -> io::Result<()> {
        to.write_all(bytes)
    }

    /// Receives it.
    pub fn receive(from: &mut impl Read) -> Result<Self, HandOverError> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length);
        if length > LARGEST {
            return Err(WireError::Invalid { what: "length" }.into());
        }
        let mut content = Zeroizing::new(vec![0; length as usize]);
        from.read_exact(&mut content)?;
        Self::from_content(&content)
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
        };
        let bytes = sent.to_bytes();
        let received = HandOver::receive(&mut &bytes[..]).unwrap();
        assert_eq!(received.log_target, LogTarget::Syslog);
        assert_eq!(received.log_level, Some(Level::Debug2));
        assert_eq!(received.config.port.0, [2022]);
        assert!(HandOver::receive(&mut &bytes[..bytes.len() - 1]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = HandOver::from_content(&bytes);
        }
    }
}
