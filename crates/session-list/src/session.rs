//! A monitor's description of its session, in SSH's encoding.

use std::net::{IpAddr, SocketAddr};

use lh_wire::{Reader, WireError, Writer};

/// Longest answer, bytes: the longest user name and all other fields.
pub const LARGEST: usize = 2048;

/// Longest user name in an answer, bytes; longer ones are cut.
const LONGEST_NAME: usize = 1024;

/// First byte of an answer. A later version may only append fields, which older readers skip.
const VERSION: u8 = 1;

/// A session, as described by its monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The user name of the login.
    pub user: String,
    /// The user's id.
    pub uid: u32,
    /// Process id of the session's monitor.
    pub pid: u32,
    /// Address of the client, or its last one when the connection was lost; `None` for a connection without
    /// addresses.
    pub peer: Option<SocketAddr>,
    /// Time of the login, seconds since 1970.
    pub since: u64,
    /// Programs that run in the session.
    pub programs: Programs,
    /// The session may outlive its connection.
    pub is_resumable: bool,
    /// The session's wait for its client; `None` while it has a connection.
    pub wait: Option<Wait>,
}

/// Numbers of programs that the client has started, by the kind of their request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Programs {
    /// Number of shells.
    pub shells: u32,
    /// Number of commands.
    pub commands: u32,
    /// Number of subsystems, such as SFTP.
    pub subsystems: u32,
}

impl Programs {
    /// Returns whether no program runs: the connection is used for forwarding, or idle.
    pub const fn is_empty(self) -> bool {
        self.shells == 0 && self.commands == 0 && self.subsystems == 0
    }
}

/// A session that waits for its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Seconds since the connection was lost.
    pub waited: u64,
    /// Seconds until the session ends.
    pub left: u64,
}

impl Session {
    /// Encodes the answer with its length in front.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let mut end = self.user.len().min(LONGEST_NAME);
        while !self.user.is_char_boundary(end) {
            end -= 1;
        }
        out.put_string(self.user.get(..end).unwrap_or_default().as_bytes());
        out.put_u32(self.uid);
        out.put_u32(self.pid);
        let peer = self.peer.map(|peer| (peer.ip().to_string(), u32::from(peer.port())));
        let (ip, port) = peer.unwrap_or_default();
        out.put_string(ip.as_bytes());
        out.put_u32(port);
        out.put_u64(self.since);
        let Programs { shells, commands, subsystems } = self.programs;
        [shells, commands, subsystems].into_iter().for_each(|count| out.put_u32(count));
        out.put_bool(self.is_resumable);
        out.put_bool(self.wait.is_some());
        let Wait { waited, left } = self.wait.unwrap_or(Wait { waited: 0, left: 0 });
        out.put_u64(waited);
        out.put_u64(left);
        let mut framed = Vec::new();
        framed.put_string(&out);
        framed
    }

    /// Decodes an answer; `None` while it is incomplete.
    ///
    /// # Errors
    /// The bytes are not an answer, or one longer than [`LARGEST`].
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, WireError> {
        let Some((length, content)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > LARGEST {
            return Err(WireError::Invalid { what: "length" });
        }
        let Some(content) = content.get(..length) else { return Ok(None) };
        let mut reader = Reader::new(content);
        if reader.u8()? < VERSION {
            return Err(WireError::Invalid { what: "version" });
        }
        let user = reader.text()?.to_owned();
        let (uid, pid) = (reader.u32()?, reader.u32()?);
        let ip = reader.text()?.parse::<IpAddr>().ok();
        let port = u16::try_from(reader.u32()?).map_err(|_| WireError::Invalid { what: "port" })?;
        let since = reader.u64()?;
        let programs = Programs { shells: reader.u32()?, commands: reader.u32()?, subsystems: reader.u32()? };
        let is_resumable = reader.boolean()?;
        let waits = reader.boolean()?;
        let wait = Wait { waited: reader.u64()?, left: reader.u64()? };
        let peer = ip.map(|ip| SocketAddr::new(ip, port));
        Ok(Some(Self { user, uid, pid, peer, since, programs, is_resumable, wait: waits.then_some(wait) }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn session() -> Session {
        Session {
            user: "ada".into(),
            uid: 1000,
            pid: 4711,
            peer: Some(([192, 0, 2, 7], 50_000).into()),
            since: 1_767_225_600,
            programs: Programs { shells: 1, commands: 0, subsystems: 2 },
            is_resumable: true,
            wait: Some(Wait { waited: 10, left: 590 }),
        }
    }

    #[test]
    fn sessions_arrive_in_pieces() {
        let away = Session { peer: None, wait: None, user: "\u{e4}".repeat(1000), ..session() };
        for one in [session(), Session { user: "\u{e4}".repeat(512), ..away.clone() }] {
            let bytes = one.encode();
            assert!(bytes.len() <= 4 + LARGEST);
            for end in 0..bytes.len() {
                assert_eq!(Session::decode(&bytes[..end]), Ok(None));
            }
            assert_eq!(Session::decode(&bytes), Ok(Some(one)));
        }
        let cut = Session::decode(&away.encode()).unwrap().unwrap();
        assert_eq!(cut.user.len(), 1024);
    }

    #[test]
    fn fields_of_later_versions_are_passed_over() {
        let mut bytes = session().encode();
        bytes.extend(b"more");
        let length = u32::try_from(bytes.len() - 4).unwrap();
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        bytes[4] = 2;
        assert_eq!(Session::decode(&bytes), Ok(Some(session())));
        bytes[4] = 0;
        assert!(Session::decode(&bytes).is_err());
        assert!(Session::decode(&[0xff; 8]).is_err());
    }

    proptest! {
        #[test]
        fn decoding_any_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Session::decode(&bytes);
        }
    }
}
