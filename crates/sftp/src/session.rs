//! The client's side of one SFTP connection: a codec with state, without I/O and without policy.
//!
//! The owner of the channel sends the bytes that [`Session::start`] and [`Session::request`] append, passes
//! received bytes to [`Session::input`], and takes messages from [`Session::poll`]. The caller (the transfer
//! engine) decides how many requests are in flight, which files they belong to, and which are retried. It
//! identifies replies by the ids of their requests.

use std::collections::HashSet;

use bytes::Bytes;
use lh_wire::{Reader, WireError, Writer};

use crate::chunks::Chunks;
use crate::link_order::{Known, LinkOrder};
use crate::protocol::{DATA_HEADER, MAX_DATA, MAX_MESSAGE_ACCEPTED, SAFE_DATA, SAFE_MESSAGE, VERSION};
use crate::reply::Data;
use crate::write_header::{WriteHeader, write_size};
use crate::{Limits, PacketType, Reply, ReplyBody, Request, extension};

/// A message from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// The server's VERSION. From here on requests may be sent, and [`Session::supports`] knows the server's
    /// extensions.
    Version {
        /// The version in use: the lower of 3 and the server's.
        version: u32,
    },
    /// The answer to [`Session::request_limits`]. It also arrives if the server refuses; the limits are then
    /// unchanged.
    Limits(Limits),
    /// The answer to a request.
    Reply(Reply),
}

/// A violation of the protocol by the server. The channel should be closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The first bytes are text, not SFTP: a shell start-up file on the server prints something.
    #[error(
        "Received message too long {length}\n\
         Ensure the remote shell produces no output for non-interactive sessions.\n\
         The remote side printed text where SFTP was expected; it begins \"{text}\""
    )]
    ShellOutput {
        /// The text's first four bytes as a length. OpenSSH prints this number, and users search for it.
        length: u32,
        /// Beginning of the text, with unprintable bytes replaced.
        text: String,
    },
    /// A length field above the largest message.
    #[error("Received message too long {length}")]
    TooLong {
        /// The length field.
        length: u32,
    },
    /// The first message is not VERSION.
    #[error("Invalid packet back from SSH2_FXP_INIT (type {got:?})")]
    NoVersion {
        /// Type of the message.
        got: PacketType,
    },
    /// The server's version is below 3.
    #[error("Remote version {version} of SFTP is not supported, 3 is needed")]
    OldVersion {
        /// The server's version.
        version: u32,
    },
    /// A message that cannot be read.
    #[error("Bad message from the SFTP server: {0}")]
    Malformed(#[from] WireError),
}

/// The client's side of one SFTP connection.
#[derive(Debug)]
pub struct Session {
    input: Chunks,
    version: Option<u32>,
    extensions: Vec<(String, String)>,
    limits: Limits,
    next_id: u32,
    limits_ids: HashSet<u32>,
    gives_handles_twice: bool,
    /// READDIR has returned a link as a link, which leads to something.
    has_listed_links: bool,
    /// Order in which the server reads the strings of SYMLINK.
    links: Known,
    /// Whether the server's identification begins with one of [`TAKE_MANY_REQUESTS`]. `None` if it is
    /// unknown.
    takes_many: Option<bool>,
    /// The server's identification begins with [`STOPS_AT_FULL_WINDOW`].
    stops_at_full_window: bool,
    failed: Option<SessionError>,
}

/// Beginnings of the identifications of servers that continue to read requests while answers wait to be sent.
/// Others may not: russh's server stops for good when about 100 messages wait for it.
const TAKE_MANY_REQUESTS: [&str; 2] = ["SSH-2.0-OpenSSH_", "SSH-2.0-Longhaul_"];

/// Beginning of the identifications of Node's ssh2 before version 1.0. Once its answers have used up the
/// window of the channel, it waits for a socket event that may never come.
const STOPS_AT_FULL_WINDOW: &str = "SSH-2.0-ssh2js0.";

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// Returns a session that has sent nothing yet.
    pub fn new() -> Self {
        Self {
            input: Chunks::default(),
            version: None,
            extensions: Vec::new(),
            limits: Limits::default(),
            next_id: 0,
            limits_ids: HashSet::new(),
            gives_handles_twice: false,
            has_listed_links: false,
            links: Known::UNKNOWN,
            takes_many: None,
            stops_at_full_window: false,
            failed: None,
        }
    }

    /// Sets the identification lines (`SSH-2.0-…`) of the server and of the SSH client that made the
    /// connection, as far as they are known. Announcements in the server's VERSION have precedence.
    pub fn set_server(&mut self, identification: Option<&str>, own: Option<&str>) {
        let is_one = |line: &str| TAKE_MANY_REQUESTS.iter().any(|start| line.starts_with(start));
        self.takes_many = identification.map(is_one);
        self.stops_at_full_window = identification.is_some_and(|line| line.starts_with(STOPS_AT_FULL_WINDOW));
        self.links = match self.order_offered() {
            Some(order) => Known::Always(order),
            None if self.is_run_by_another_program() => Known::UNKNOWN,
            None => Known::of_server(identification, own),
        };
    }

    /// Returns true if the SFTP server is not the identified program: OpenSSH's sshd and Longhaul's run any
    /// program as their subsystem. OpenSSH's SFTP server has announced extensions since version 4.8 (2008).
    fn is_run_by_another_program(&self) -> bool {
        let of_openssh = |(name, _): &(String, String)| name.ends_with("@openssh.com");
        self.takes_many == Some(true) && self.version.is_some() && !self.extensions.iter().any(of_openssh)
    }

    /// Returns true if hundreds of requests may wait for an answer. The identification is unknown if another
    /// program has made the connection. Then a server that has announced its limits, as OpenSSH's does, is
    /// trusted to take many.
    pub fn takes_many_requests(&self) -> bool {
        self.takes_many.unwrap_or(self.has_told_limits())
    }

    /// Returns true if the server may stop for good when its answers have used up the window of the channel.
    pub const fn stops_at_full_window(&self) -> bool {
        self.stops_at_full_window
    }

    /// Returns the order in which the server reads the strings of SYMLINK.
    pub const fn link_order(&self) -> Known {
        self.links
    }

    /// Sets the order in which the server was observed to read the strings of SYMLINK.
    pub const fn set_link_order(&mut self, order: LinkOrder) {
        self.links = Known::Always(order);
    }

    fn order_offered(&self) -> Option<LinkOrder> {
        let (_, value) = self.extensions.iter().find(|(name, _)| name == extension::SYMLINK_ORDER)?;
        LinkOrder::from_name(value)
    }

    /// Appends INIT, the first message.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        out.nested(|out| {
            out.put_u8(PacketType::INIT.0);
            out.put_u32(VERSION);
        });
    }

    /// Returns the version in use, or `None` before the server's VERSION has arrived.
    pub const fn version(&self) -> Option<u32> {
        self.version
    }

    /// Returns the server's extensions with their versions, in the server's order.
    pub fn extensions(&self) -> &[(String, String)] {
        &self.extensions
    }

    /// Returns true if the server offers `name` (see [`extension`]) in the version this crate knows.
    pub fn supports(&self, name: &str) -> bool {
        let known = match name {
            extension::STATVFS | extension::FSTATVFS => "2",
            _ => "1",
        };
        self.extensions.iter().any(|(offered, version)| offered == name && version == known)
    }

    /// Appends a request and returns its id. Ids count up and wrap after 2^32 requests.
    pub fn request(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> u32 {
        let id = self.take_id();
        request.encode(id, out);
        id
    }

    /// Appends `limits@openssh.com` if the server offers it. Returns true if it did. The answer arrives as
    /// [`Incoming::Limits`] and is remembered.
    pub fn request_limits(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.supports(extension::LIMITS) {
            return false;
        }
        let id = self.request(&Request::Limits, out);
        self.limits_ids.insert(id);
        true
    }

    /// Returns the limits of the server: all 0 if it has not announced any.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns true when the server has announced its limits.
    pub const fn has_told_limits(&self) -> bool {
        self.limits.max_packet > 0
    }

    /// Returns true if several requests may share a packet of the channel: the server is known to read them
    /// from a stream. Some servers (the example of libssh) read only one message from each packet, then wait
    /// for the next packet.
    pub fn takes_many_in_a_packet(&self) -> bool {
        self.has_told_limits() || self.supports(extension::PUT_FILES)
    }

    /// Returns the length of the first request in `bytes`.
    pub fn first_message(bytes: &[u8]) -> usize {
        let announced = bytes.first_chunk::<4>().map_or(0, |length| u32::from_be_bytes(*length) as usize);
        announced.saturating_add(4).min(bytes.len())
    }

    /// Returns true after [`Session::note_handles_given_twice`]: the server has used the same handle for two
    /// open files.
    pub const fn gives_handles_twice(&self) -> bool {
        self.gives_handles_twice
    }

    /// Records that the server used a handle for two open files. Only one file or directory may then be open
    /// at a time, for all users of this session.
    pub const fn note_handles_given_twice(&mut self) {
        self.gives_handles_twice = true;
    }

    /// Returns true if READDIR is known to return the attributes of a link itself, as LSTAT does. With some
    /// servers (pysftpserver, the example server of Paramiko) they are those of what it leads to.
    pub fn lists_links(&self) -> bool {
        self.has_listed_links
            || self.supports(extension::PUT_FILES)
            || self.supports(extension::LIMITS)
            || (self.takes_many == Some(true) && !self.is_run_by_another_program())
    }

    /// Records that READDIR has returned a link as a link that leads to something.
    pub const fn note_listed_links(&mut self) {
        self.has_listed_links = true;
    }

    /// Records that the server refuses to have more than `most` files and directories open. This applies to
    /// all users of this session.
    pub const fn note_most_handles(&mut self, most: u64) {
        if self.limits.max_handles == 0 || most < self.limits.max_handles {
            self.limits.max_handles = most;
        }
    }

    /// Returns the number of bytes to ask for in one READ. It is the largest number that the server serves
    /// whole, at most [`MAX_DATA`], or [`SAFE_DATA`] if the server has not announced its limits.
    pub fn read_len(&self) -> u32 {
        self.data_len(self.limits.max_read)
    }

    /// Returns the number of bytes to put into one WRITE, by the rules of [`Session::read_len`].
    pub fn write_len(&self) -> u32 {
        self.data_len(self.limits.max_write)
    }

    /// Like [`Session::write_len`], with a handle of `handle_len` bytes: the whole message is no longer than
    /// the server takes, which is [`SAFE_MESSAGE`] bytes where it has not announced how long that is.
    pub fn write_len_with(&self, handle_len: usize) -> u32 {
        let most = match self.limits.max_packet {
            0 => SAFE_MESSAGE,
            packet => usize::try_from(packet).unwrap_or(usize::MAX),
        };
        let room = most.saturating_sub(write_size(handle_len, 0)).max(1);
        self.write_len().min(u32::try_from(room).unwrap_or(u32::MAX))
    }

    fn data_len(&self, limit: u64) -> u32 {
        let by_packet = match self.limits.max_packet {
            0 => u64::MAX,
            // 1,024 bytes for the rest of the message, as OpenSSH calculates.
            packet => packet.saturating_sub(1024).max(1024),
        };
        let len = match (limit, self.limits.max_packet) {
            (0, 0) => SAFE_DATA as u64,
            (0, _) => by_packet.min(SAFE_DATA as u64),
            (limit, _) => limit.min(by_packet),
        };
        u32::try_from(len.min(MAX_DATA as u64)).unwrap_or(SAFE_DATA as u32)
    }

    /// Starts a WRITE whose data the caller places in the stream itself. [`WriteHeader::bytes`] makes the
    /// bytes of the header when the length of the data is known.
    pub fn write_header(&mut self, handle: &[u8], offset: u64) -> WriteHeader {
        WriteHeader::new(self.take_id(), handle, offset)
    }

    fn take_id(&mut self) -> u32 {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        id
    }

    /// Takes bytes from the channel, in pieces of any size. Keeps the bytes of an incomplete message, at most
    /// 257 KiB, and all bytes since the last [`Session::poll`].
    pub fn input(&mut self, data: Bytes) {
        if self.failed.is_none() {
            self.input.push(data);
        }
    }

    /// Returns the number of bytes that wait for the rest of their message, or for [`Session::poll`].
    pub const fn buffered(&self) -> usize {
        self.input.len()
    }

    /// Returns the next message of the server, or `None` until more [`Session::input`]. After an error, all
    /// later calls return the same error.
    pub fn poll(&mut self) -> Result<Option<Incoming>, SessionError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let polled = self.poll_message();
        if let Err(error) = &polled {
            self.failed = Some(error.clone());
        }
        polled
    }

    fn poll_message(&mut self) -> Result<Option<Incoming>, SessionError> {
        let mut length = [0; 4];
        if !self.input.peek(&mut length) {
            return Ok(None);
        }
        let announced = u32::from_be_bytes(length);
        let len = announced as usize;
        if len > MAX_MESSAGE_ACCEPTED {
            return Err(self.too_long(announced));
        }
        if self.input.len() - 4 < len {
            return Ok(None);
        }
        if self.version.is_none() {
            self.input.skip(4);
            let message = self.input.take_contiguous(len);
            return self.read_version(&message).map(Some);
        }
        let reply = self.read_reply(len)?;
        if self.limits_ids.remove(&reply.id) {
            if let ReplyBody::Extended(fields) = &reply.body {
                self.limits = Limits::read(&mut Reader::new(fields))?;
            }
            return Ok(Some(Incoming::Limits(self.limits)));
        }
        Ok(Some(Incoming::Reply(reply)))
    }

    /// Takes a whole message of `len` bytes. Its length field is still before it.
    fn read_reply(&mut self, len: usize) -> Result<Reply, SessionError> {
        let mut header = [0; DATA_HEADER];
        if len + 4 >= DATA_HEADER && self.input.peek(&mut header) {
            let mut fields = Reader::new(&header);
            let (_, kind, id, data_len) =
                (fields.u32()?, fields.u8()?, fields.u32()?, fields.u32()? as usize);
            if PacketType(kind) == PacketType::DATA {
                let room = len + 4 - DATA_HEADER;
                if data_len > room {
                    return Err(WireError::Truncated { what: "data of a READ reply" }.into());
                }
                self.input.skip(DATA_HEADER);
                let data = Data::new(self.input.take(data_len));
                self.input.skip(room - data_len);
                return Ok(Reply { id, body: ReplyBody::Data(data) });
            }
        }
        self.input.skip(4);
        Ok(Reply::decode(self.input.take_contiguous(len))?)
    }

    fn read_version(&mut self, message: &[u8]) -> Result<Incoming, SessionError> {
        let mut reader = Reader::new(message);
        let kind = PacketType(reader.u8()?);
        if kind != PacketType::VERSION {
            return Err(SessionError::NoVersion { got: kind });
        }
        let version = reader.u32()?;
        if version < VERSION {
            return Err(SessionError::OldVersion { version });
        }
        while !reader.is_empty() {
            let name = String::from_utf8_lossy(reader.string()?).into_owned();
            let value = String::from_utf8_lossy(reader.string()?).into_owned();
            self.extensions.push((name, value));
        }
        self.version = Some(VERSION);
        if let Some(order) = self.order_offered() {
            self.links = Known::Always(order);
        } else if self.is_run_by_another_program() {
            self.links = Known::UNKNOWN;
        }
        Ok(Incoming::Version { version: VERSION })
    }

    fn too_long(&mut self, length: u32) -> SessionError {
        let is_text = length
            .to_be_bytes()
            .iter()
            .all(|&byte| (0x20..0x7f).contains(&byte) || matches!(byte, b'\t' | b'\n' | b'\r' | 0x1b));
        if self.version.is_some() || !is_text {
            return SessionError::TooLong { length };
        }
        let start = self.input.take_contiguous(self.input.len().min(200));
        let text: String = String::from_utf8_lossy(&start)
            .trim_start()
            .chars()
            .map_while(|c| (c != '\n').then_some(if lh_wire::is_hidden(c) { '?' } else { c }))
            .take(80)
            .collect();
        SessionError::ShellOutput { length, text: text.trim_end_matches('?').to_owned() }
    }
}
