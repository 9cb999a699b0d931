//! Messages of SFTP version 3, as far as the server needs them.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// Unread rest of a message. The reader trusts the client, which is the program under test.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    pub(super) fn int(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    pub(super) fn long(&mut self) -> u64 {
        u64::from_be_bytes(self.take(8).try_into().unwrap())
    }

    pub(super) fn string(&mut self) -> &'a [u8] {
        let len = self.int() as usize;
        self.take(len)
    }
}

/// Attributes of a file, as read or as requested.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Attrs {
    pub(super) size: u64,
    pub(super) has_size: bool,
    pub(super) mode: Option<u32>,
    pub(super) times: Option<(u32, u32)>,
    ids: Option<(u32, u32)>,
    /// Number of the inode, which is not sent.
    pub(super) inode: u64,
}

impl Attrs {
    pub(super) fn of(meta: &Metadata) -> Self {
        Self {
            size: meta.len(),
            has_size: true,
            mode: Some(meta.mode()),
            times: Some((meta.atime() as u32, meta.mtime() as u32)),
            ids: Some((meta.uid(), meta.gid())),
            inode: meta.ino(),
        }
    }

    pub(super) fn is_file(&self) -> bool {
        self.mode.is_some_and(|mode| mode & 0o170_000 == 0o100_000)
    }

    pub(super) fn read(fields: &mut Fields<'_>) -> Self {
        let flags = fields.int();
        let mut attrs = Self::default();
        if flags & 1 != 0 {
            (attrs.size, attrs.has_size) = (fields.long(), true);
        }
        if flags & 2 != 0 {
            attrs.ids = Some((fields.int(), fields.int()));
        }
        if flags & 4 != 0 {
            attrs.mode = Some(fields.int());
        }
        if flags & 8 != 0 {
            attrs.times = Some((fields.int(), fields.int()));
        }
        attrs
    }

    fn write(&self, out: &mut Vec<u8>) {
        let flags = u32::from(self.has_size)
            | u32::from(self.ids.is_some()) << 1
            | u32::from(self.mode.is_some()) << 2
            | u32::from(self.times.is_some()) << 3;
        out.extend(flags.to_be_bytes());
        if self.has_size {
            out.extend(self.size.to_be_bytes());
        }
        if let Some((one, other)) = self.ids {
            out.extend(one.to_be_bytes());
            out.extend(other.to_be_bytes());
        }
        if let Some(mode) = self.mode {
            out.extend(mode.to_be_bytes());
        }
        if let Some((one, other)) = self.times {
            out.extend(one.to_be_bytes());
            out.extend(other.to_be_bytes());
        }
    }
}

/// A reply.
pub(super) enum Reply {
    Status(u32, &'static str),
    /// A STATUS without a text.
    BareStatus(u32),
    Handle(String),
    Data(Vec<u8>),
    Names(Vec<(Vec<u8>, Attrs)>),
    /// A NAME with one path and no attributes.
    BareName(Vec<u8>),
    Attrs(Attrs),
    Limits([u64; 4]),
    /// An EXTENDED_REPLY without fields.
    Extended,
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 4);
    string(&mut out, body);
    out
}

/// Encodes VERSION with these extensions.
pub(super) fn version(extensions: &[(&str, &str)]) -> Vec<u8> {
    let mut body = vec![2, 0, 0, 0, 3];
    for (name, version) in extensions {
        string(&mut body, name.as_bytes());
        string(&mut body, version.as_bytes());
    }
    framed(&body)
}

impl Reply {
    pub(super) const fn ok() -> Self {
        Self::Status(0, "")
    }

    /// Returns the reply without a text; a NAME with `one_path`, without attributes.
    pub(super) fn bare(self, one_path: bool) -> Self {
        match self {
            Self::Status(code, _) => Self::BareStatus(code),
            Self::Names(mut names) if one_path => Self::BareName(names.remove(0).0),
            other => other,
        }
    }

    pub(super) fn encode(&self, id: u32) -> Vec<u8> {
        let kind = match self {
            Self::Status(..) | Self::BareStatus(_) => 101,
            Self::Handle(_) => 102,
            Self::Data(_) => 103,
            Self::Names(_) | Self::BareName(_) => 104,
            Self::Attrs(_) => 105,
            Self::Limits(_) | Self::Extended => 201,
        };
        let mut body = vec![kind];
        body.extend(id.to_be_bytes());
        match self {
            Self::Status(code, text) => {
                body.extend(code.to_be_bytes());
                string(&mut body, text.as_bytes());
                string(&mut body, b"");
            }
            Self::BareStatus(code) => body.extend(code.to_be_bytes()),
            Self::Handle(handle) => string(&mut body, handle.as_bytes()),
            Self::Data(data) => string(&mut body, data),
            Self::Names(names) => {
                body.extend((names.len() as u32).to_be_bytes());
                for (name, attrs) in names {
                    string(&mut body, name);
                    string(&mut body, name);
                    attrs.write(&mut body);
                }
            }
            Self::BareName(name) => {
                body.extend([0, 0, 0, 1]);
                string(&mut body, name);
                string(&mut body, name);
            }
            Self::Attrs(attrs) => attrs.write(&mut body),
            Self::Extended => {}
            Self::Limits(limits) => limits.iter().for_each(|limit| body.extend(limit.to_be_bytes())),
        }
        framed(&body)
    }
}
