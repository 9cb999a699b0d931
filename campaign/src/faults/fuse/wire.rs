//! Requests and answers of FUSE's protocol 7.31, in the machine's byte order (`linux/fuse.h` has the
//! layouts).

use rustix::io::Errno;

/// Length of a request's header, and of an answer's.
const REQUEST_HEADER: usize = 40;
const ANSWER_HEADER: usize = 16;

/// Operations that the file system knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Lookup,
    Forget,
    GetAttr,
    SetAttr,
    MakeNode,
    MakeDirectory,
    Unlink,
    RemoveDirectory,
    Rename,
    RenameWithFlags,
    Link,
    Open,
    Read,
    Write,
    StatFs,
    Release,
    Sync,
    Init,
    OpenDirectory,
    ReadDirectory,
    Create,
    Interrupt,
    Other,
}

impl Operation {
    const fn of(number: u32) -> Self {
        match number {
            1 => Self::Lookup,
            2 | 42 => Self::Forget,
            3 => Self::GetAttr,
            4 => Self::SetAttr,
            8 => Self::MakeNode,
            9 => Self::MakeDirectory,
            10 => Self::Unlink,
            11 => Self::RemoveDirectory,
            12 => Self::Rename,
            13 => Self::Link,
            14 => Self::Open,
            15 => Self::Read,
            16 => Self::Write,
            17 => Self::StatFs,
            // RELEASE and RELEASEDIR, DESTROY.
            18 | 29 | 38 => Self::Release,
            // FSYNC, FLUSH, FSYNCDIR.
            20 | 25 | 30 => Self::Sync,
            26 => Self::Init,
            27 => Self::OpenDirectory,
            28 => Self::ReadDirectory,
            35 => Self::Create,
            36 => Self::Interrupt,
            45 => Self::RenameWithFlags,
            _ => Self::Other,
        }
    }
}

/// A request.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) operation: Operation,
    pub(super) unique: u64,
    pub(super) node: u64,
    pub(super) uid: u32,
    pub(super) gid: u32,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Parses a request; `None` where it is shorter than a header.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let body = bytes.get(REQUEST_HEADER..)?;
        let mut fields = Fields(bytes.get(4..)?);
        let operation = Operation::of(fields.u32()?);
        let (unique, node) = (fields.u64()?, fields.u64()?);
        let (uid, gid) = (fields.u32()?, fields.u32()?);
        Some(Self { operation, unique, node, uid, gid, body })
    }

    pub(super) const fn fields(&self) -> Fields<'a> {
        Fields(self.body)
    }
}

/// The rest of a request's body.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*bytes))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*bytes))
    }

    /// A name with its NUL.
    pub(super) fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let (name, rest) = self.0.split_at(end);
        self.0 = rest.get(1..)?;
        Some(name)
    }

    /// Skips bytes.
    pub(super) fn skip(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count..)?;
        Some(())
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }
}

/// A reply.
#[derive(Debug)]
pub(super) enum Answer {
    /// No answer: the kernel does not wait for one.
    None,
    Failed(Errno),
    Done(Vec<u8>),
}

/// The numbers of a body, one after the other.
#[derive(Debug, Default)]
pub(super) struct Body(pub(super) Vec<u8>);

impl Body {
    pub(super) fn u16(mut self, number: u16) -> Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    pub(super) fn u32(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    pub(super) fn u64(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    pub(super) fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// A whole answer.
pub(super) fn reply(unique: u64, errno: i32, body: &[u8]) -> Vec<u8> {
    let length = (ANSWER_HEADER + body.len()) as u32;
    Body::default().u32(length).u32((-errno) as u32).u64(unique).bytes(body).0
}
