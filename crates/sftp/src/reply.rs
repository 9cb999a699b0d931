//! Replies: all messages that a server sends, except VERSION.

use bytes::Bytes;
use lh_wire::{LONGEST_TEXT, Reader, Writer, shortened};

use crate::{Attrs, PacketType, StatusCode};

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Status code.
    pub code: StatusCode,
    /// Text of the server, possibly empty; a long one is cut. It is not trustworthy: escape control
    /// characters before printing it to a terminal.
    pub message: String,
}

/// A handle, as the server chose it (at most 256 bytes).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Handle(pub(crate) Bytes);

impl Handle {
    /// Wraps the bytes of a handle, copying them.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }
}

impl AsRef<[u8]> for Handle {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl std::ops::Deref for Handle {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// The file bytes of a DATA reply in the pieces that arrived: slices of the received packets, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Data {
    chunks: Vec<Bytes>,
    len: usize,
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(if bytes.is_empty() { Vec::new() } else { vec![bytes.into()] })
    }
}

impl Data {
    pub(crate) fn new(chunks: Vec<Bytes>) -> Self {
        let len = chunks.iter().map(Bytes::len).sum();
        Self { chunks, len }
    }

    /// Returns the pieces, none of them empty.
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// Returns the pieces and consumes the reply.
    pub fn into_chunks(self) -> Vec<Bytes> {
        self.chunks
    }

    /// Keeps the first `len` bytes, or all where there are fewer.
    pub fn truncate(&mut self, len: usize) {
        let mut left = len;
        self.chunks.retain_mut(|chunk| {
            chunk.truncate(left);
            left -= chunk.len();
            !chunk.is_empty()
        });
        self.len = self.len.min(len);
    }

    /// How many bytes all pieces have together.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true when the server sent no bytes at all.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// One entry of a NAME reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Name of the file in its directory, or the path that the client asked for.
    pub name: Vec<u8>,
    /// The line that `ls -l` would print. Made to be shown, not to be parsed.
    pub long_name: Vec<u8>,
    /// Attributes that the server reports.
    pub attrs: Attrs,
}

/// The content of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyBody {
    /// Result of a request that has no other reply, or an error.
    Status(Status),
    /// The answer to OPEN and OPENDIR.
    Handle(Handle),
    /// The answer to READ.
    Data(Data),
    /// The answer to READDIR, REALPATH, READLINK, EXPAND_PATH and HOME_DIRECTORY.
    Names(Vec<Name>),
    /// The answer to STAT, LSTAT and FSTAT.
    Attrs(Attrs),
    /// The answer to an extended request, to be read by [`crate::StatVfs::read`] and similar functions.
    Extended(Bytes),
}

/// A reply with the id of its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The id that [`crate::Session::request`] returned.
    pub id: u32,
    /// The answer.
    pub body: ReplyBody,
}

impl Reply {
    /// Reads one message without its length field. Bytes after the last field are ignored.
    pub fn decode(message: Bytes) -> Result<Self, lh_wire::WireError> {
        let mut reader = Reader::new(&message);
        let kind = PacketType(reader.u8()?);
        let id = reader.u32()?;
        let body = match kind {
            PacketType::STATUS => {
                let code = StatusCode(reader.u32()?);
                // Servers older than version 3, and some that announce 3, send no text.
                let text = reader.string().unwrap_or_default();
                let text = String::from_utf8_lossy(text);
                ReplyBody::Status(Status { code, message: shortened(&text, LONGEST_TEXT).into_owned() })
            }
            PacketType::HANDLE => {
                let handle = reader.string()?;
                if handle.len() > crate::protocol::MAX_HANDLE_ACCEPTED {
                    return Err(lh_wire::WireError::Invalid { what: "handle longer than 4096 bytes" });
                }
                // Copied, so that an open file does not keep a whole receive buffer alive.
                ReplyBody::Handle(Handle::new(handle))
            }
            PacketType::DATA => {
                let data = reader.string()?;
                let chunks = if data.is_empty() { Vec::new() } else { vec![message.slice_ref(data)] };
                ReplyBody::Data(Data::new(chunks))
            }
            PacketType::NAME => ReplyBody::Names(match read_path(reader.clone()) {
                Some(path) => vec![path],
                None => read_names(&mut reader)?,
            }),
            PacketType::ATTRS => ReplyBody::Attrs(Attrs::read(&mut reader)?),
            PacketType::EXTENDED_REPLY => {
                let fields = reader.rest();
                // The caller may keep short replies, so they are copied: a slice would keep the whole receive
                // buffer allocated. Long replies hold files, which are used at once.
                ReplyBody::Extended(match fields.len() {
                    0..=1024 => Bytes::copy_from_slice(fields),
                    _ => message.slice_ref(fields),
                })
            }
            _ => return Err(lh_wire::WireError::Invalid { what: "type of reply" }),
        };
        Ok(Self { id, body })
    }
}

/// Reads a NAME with one path and nothing behind its long name. Some servers leave the attributes out where
/// they mean nothing, in answers to REALPATH and READLINK. OpenSSH's client does not read them there either.
fn read_path(mut reader: Reader<'_>) -> Option<Name> {
    if reader.u32() != Ok(1) {
        return None;
    }
    let (name, long_name) = (reader.string().ok()?.to_vec(), reader.string().ok()?.to_vec());
    reader.is_empty().then_some(Name { name, long_name, attrs: Attrs::NONE })
}

pub(crate) fn read_names(reader: &mut Reader<'_>) -> Result<Vec<Name>, lh_wire::WireError> {
    let count = reader.u32()?;
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(Name {
            name: reader.string()?.to_vec(),
            long_name: reader.string()?.to_vec(),
            attrs: Attrs::read(reader)?,
        });
    }
    Ok(names)
}

/// Writes replies, each a whole message with its length, to the end of a buffer.
#[derive(Debug)]
pub struct ReplyWriter<'a>(pub &'a mut Vec<u8>);

impl ReplyWriter<'_> {
    fn message(&mut self, kind: PacketType, id: u32, fill: impl FnOnce(&mut Vec<u8>)) {
        self.0.nested(|out| {
            out.put_u8(kind.0);
            out.put_u32(id);
            fill(out);
        });
    }

    /// Appends VERSION with the offered extensions, each with its name and version.
    pub fn version<'e>(&mut self, version: u32, extensions: impl IntoIterator<Item = (&'e str, &'e str)>) {
        self.message(PacketType::VERSION, version, |out| {
            for (name, value) in extensions {
                out.put_string(name.as_bytes());
                out.put_string(value.as_bytes());
            }
        });
    }

    /// Appends STATUS. An empty language tag follows the text.
    pub fn status(&mut self, id: u32, code: StatusCode, text: &str) {
        self.message(PacketType::STATUS, id, |out| {
            out.put_u32(code.0);
            out.put_string(text.as_bytes());
            out.put_string(b"");
        });
    }

    /// Appends HANDLE.
    pub fn handle(&mut self, id: u32, handle: &[u8]) {
        self.message(PacketType::HANDLE, id, |out| out.put_string(handle));
    }

    /// Appends DATA from bytes in memory.
    pub fn data(&mut self, id: u32, data: &[u8]) {
        self.message(PacketType::DATA, id, |out| out.put_string(data));
    }

    /// Appends NAME with entries that are encoded already.
    pub fn encoded_names(&mut self, id: u32, count: u32, entries: &[u8]) {
        self.message(PacketType::NAME, id, |out| {
            out.put_u32(count);
            out.put_bytes(entries);
        });
    }

    /// Appends NAME with one path and no attributes, the answer to REALPATH.
    pub fn path(&mut self, id: u32, path: &[u8]) {
        let mut entry = Vec::with_capacity(2 * path.len() + 12);
        write_name(&mut entry, path, path, &Attrs::NONE);
        self.encoded_names(id, 1, &entry);
    }

    /// Appends ATTRS.
    pub fn attrs(&mut self, id: u32, attrs: &Attrs) {
        self.message(PacketType::ATTRS, id, |out| attrs.write(out));
    }

    /// Appends the answer to `list-dir@longhaul`, with entries that are encoded already.
    pub fn listing(&mut self, id: u32, handle: &[u8], count: u32, entries: &[u8]) {
        self.extended(id, |out| {
            out.put_string(handle);
            out.put_u32(count);
            out.put_bytes(entries);
        });
    }

    /// Appends an answer to `list-dir@longhaul` with names only, each followed by a zero byte.
    pub fn short_listing(&mut self, id: u32, handle: &[u8], names: &[u8]) {
        self.extended(id, |out| {
            out.put_string(handle);
            out.put_string(names);
        });
    }

    /// Appends EXTENDED_REPLY with the content that `fill` writes.
    pub fn extended(&mut self, id: u32, fill: impl FnOnce(&mut Vec<u8>)) {
        self.message(PacketType::EXTENDED_REPLY, id, fill);
    }
}

/// Appends one entry of a NAME reply.
pub(crate) fn write_name(out: &mut Vec<u8>, name: &[u8], long_name: &[u8], attrs: &Attrs) {
    out.put_string(name);
    out.put_string(long_name);
    attrs.write(out);
}

/// Returns the bytes before the data of a DATA reply with `len` bytes of data.
pub(crate) fn data_header(id: u32, len: usize) -> [u8; crate::protocol::DATA_HEADER] {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    let mut header = [0; crate::protocol::DATA_HEADER];
    let mut fields = Vec::with_capacity(header.len());
    fields.put_u32(len.saturating_add(9));
    fields.put_u8(PacketType::DATA.0);
    fields.put_u32(id);
    fields.put_u32(len);
    header.copy_from_slice(&fields);
    header
}
