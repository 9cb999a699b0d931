//! The files, and the effects of each request on them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;

use super::super::trees::Tree;
use super::failure::{Failure, LONGEST_WRITE};
use super::wire::{Answer, Body, Fields, Operation, Request};

/// The number of the top directory.
const ROOT: u64 = 1;

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;

type Time = (u64, u32);

enum Content {
    Directory(BTreeMap<Vec<u8>, u64>),
    File(Vec<u8>),
}

struct Node {
    content: Content,
    mode: u32,
    owner: (u32, u32),
    links: u32,
    accessed: Time,
    modified: Time,
}

/// The content of the file system.
pub(super) struct Files {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    failure: Option<Failure>,
    /// Bytes written since the failure was set.
    written: u64,
    pub(super) failed: u64,
}

fn now() -> Time {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (time.as_secs(), time.subsec_nanos())
}

impl Node {
    fn new(content: Content, mode: u32, owner: (u32, u32)) -> Self {
        let now = now();
        Self { content, mode, owner, links: 1, accessed: now, modified: now }
    }

    const fn kind(&self) -> u32 {
        match self.content {
            Content::Directory(_) => DIRECTORY,
            Content::File(_) => FILE,
        }
    }
}

impl Default for Files {
    fn default() -> Self {
        let root = Node::new(Content::Directory(BTreeMap::new()), 0o755, (0, 0));
        Self { nodes: BTreeMap::from([(ROOT, root)]), next: ROOT + 1, failure: None, written: 0, failed: 0 }
    }
}

/// A result, or the error for the kernel.
type Result<T> = std::result::Result<T, Errno>;

/// A body that is too short is an error of the kernel or of this parser.
fn whole<T>(field: Option<T>) -> Result<T> {
    field.ok_or(Errno::INVAL)
}

impl Files {
    /// Carries out a request.
    pub(super) fn answer(&mut self, request: &Request<'_>) -> Answer {
        if matches!(request.operation, Operation::Forget | Operation::Interrupt) {
            return Answer::None;
        }
        let failing = match self.failing(request) {
            Some(errno) => {
                self.failed += 1;
                Err(errno)
            }
            None => self.act(request),
        };
        match failing {
            Ok(body) => Answer::Done(body.0),
            Err(errno) => Answer::Failed(errno),
        }
    }

    pub(super) fn fail(&mut self, failure: Option<Failure>) {
        self.failure = failure;
        self.written = 0;
    }

    /// Puts a tree into the top directory.
    pub(super) fn put(&mut self, name: &str, tree: &Tree) {
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let directory = || Node::new(Content::Directory(BTreeMap::new()), 0o755, owner);
        let mut numbers = BTreeMap::new();
        let top = self.add(ROOT, name.as_bytes(), directory());
        let parent = |numbers: &BTreeMap<_, u64>, path: &std::path::Path| {
            path.parent().and_then(|parent| numbers.get(parent).copied()).or(top.ok())
        };
        for path in tree.directories() {
            let last = path.file_name().unwrap_or(OsStr::new("")).as_bytes();
            if let Some(Ok(number)) = parent(&numbers, path).map(|above| self.add(above, last, directory())) {
                numbers.insert(path.to_owned(), number);
            }
        }
        for (path, content) in tree.files() {
            let last = path.file_name().unwrap_or(OsStr::new("")).as_bytes();
            if let Some(above) = parent(&numbers, path) {
                let _ = self.add(above, last, Node::new(Content::File(content.to_vec()), 0o644, owner));
            }
        }
    }

    /// Returns the error of a request that must fail now.
    fn failing(&self, request: &Request<'_>) -> Option<Errno> {
        use Operation::{
            Create, Link, MakeDirectory, MakeNode, Read, RemoveDirectory, Rename, RenameWithFlags, SetAttr,
            Unlink, Write,
        };
        let length = || {
            let mut fields = request.fields();
            fields.skip(16)?;
            fields.u32()
        };
        match self.failure? {
            Failure::Writing(errno, after) => {
                let more = u64::from(length().unwrap_or_default());
                (request.operation == Write && self.written + more > after).then_some(errno)
            }
            Failure::Changing(errno, after) => {
                let changes = matches!(
                    request.operation,
                    Write
                        | Create
                        | MakeNode
                        | MakeDirectory
                        | Unlink
                        | RemoveDirectory
                        | Rename
                        | RenameWithFlags
                        | Link
                        | SetAttr
                );
                (changes && self.written >= after).then_some(errno)
            }
            Failure::Reading(errno, every) => {
                let mut fields = request.fields();
                fields.skip(8)?;
                let end = fields.u64()? + u64::from(fields.u32()?);
                let Content::File(content) = &self.nodes.get(&request.node)?.content else { return None };
                let bad = request.node.is_multiple_of(every.max(1)) && end > content.len() as u64 / 2;
                (request.operation == Read && bad).then_some(errno)
            }
        }
    }

    fn node(&mut self, number: u64) -> Result<&mut Node> {
        self.nodes.get_mut(&number).ok_or(Errno::NOENT)
    }

    fn entries(&mut self, number: u64) -> Result<&mut BTreeMap<Vec<u8>, u64>> {
        match &mut self.node(number)?.content {
            Content::Directory(entries) => Ok(entries),
            Content::File(_) => Err(Errno::NOTDIR),
        }
    }

    fn file(&mut self, number: u64) -> Result<&mut Vec<u8>> {
        match &mut self.node(number)?.content {
            Content::File(bytes) => Ok(bytes),
            Content::Directory(_) => Err(Errno::ISDIR),
        }
    }

    fn find(&mut self, directory: u64, name: &[u8]) -> Result<u64> {
        self.entries(directory)?.get(name).copied().ok_or(Errno::NOENT)
    }

    fn add(&mut self, directory: u64, name: &[u8], node: Node) -> Result<u64> {
        let number = self.next;
        let entries = self.entries(directory)?;
        if entries.contains_key(name) {
            return Err(Errno::EXIST);
        }
        entries.insert(name.to_vec(), number);
        self.node(directory)?.modified = now();
        self.next += 1;
        self.nodes.insert(number, node);
        Ok(number)
    }

    fn remove(&mut self, directory: u64, name: &[u8], is_directory: bool) -> Result<Body> {
        let number = self.find(directory, name)?;
        match (&self.node(number)?.content, is_directory) {
            (Content::Directory(entries), true) if !entries.is_empty() => return Err(Errno::NOTEMPTY),
            (Content::Directory(_), false) => return Err(Errno::ISDIR),
            (Content::File(_), true) => return Err(Errno::NOTDIR),
            _ => {}
        }
        self.entries(directory)?.remove(name);
        // Open files can still be read: the node stays.
        let node = self.node(number)?;
        node.links = node.links.saturating_sub(1);
        Ok(Body::default())
    }

    fn rename(&mut self, from: u64, old: &[u8], to: u64, new: &[u8], keeps: bool) -> Result<Body> {
        let number = self.find(from, old)?;
        if let Ok(replaced) = self.find(to, new) {
            if keeps {
                return Err(Errno::EXIST);
            }
            if replaced == number {
                return Ok(Body::default());
            }
            let is_directory = matches!(self.node(replaced)?.content, Content::Directory(_));
            self.remove(to, new, is_directory)?;
        }
        self.entries(from)?.remove(old);
        self.entries(to)?.insert(new.to_vec(), number);
        Ok(Body::default())
    }

    fn act(&mut self, request: &Request<'_>) -> Result<Body> {
        let (mut fields, number) = (request.fields(), request.node);
        let owner = (request.uid, request.gid);
        match request.operation {
            Operation::Init => Ok(init(&mut fields)),
            Operation::Lookup => {
                let found = self.find(number, whole(fields.name())?)?;
                self.entry(found)
            }
            Operation::GetAttr => self.attributes(number),
            Operation::SetAttr => self.set_attributes(number, &mut fields),
            Operation::MakeDirectory => {
                let mode = whole(fields.u32())? & 0o7777;
                whole(fields.skip(4))?;
                let node = Node::new(Content::Directory(BTreeMap::new()), mode, owner);
                let made = self.add(number, whole(fields.name())?, node)?;
                self.entry(made)
            }
            Operation::MakeNode | Operation::Create => {
                let creates = request.operation == Operation::Create;
                if creates {
                    whole(fields.skip(4))?;
                }
                let mode = whole(fields.u32())?;
                whole(fields.skip(if creates { 8 } else { 12 }))?;
                if mode & 0o170_000 != FILE {
                    return Err(Errno::OPNOTSUPP);
                }
                let node = Node::new(Content::File(Vec::new()), mode & 0o7777, owner);
                let made = self.add(number, whole(fields.name())?, node)?;
                let entry = self.entry(made)?;
                Ok(if creates { entry.zeros(16) } else { entry })
            }
            Operation::Unlink => self.remove(number, whole(fields.name())?, false),
            Operation::RemoveDirectory => self.remove(number, whole(fields.name())?, true),
            Operation::Rename | Operation::RenameWithFlags => {
                let to = whole(fields.u64())?;
                let flags = match request.operation {
                    Operation::RenameWithFlags => (whole(fields.u32())?, whole(fields.skip(4))?).0,
                    _ => 0,
                };
                let (old, new) = (whole(fields.name())?, whole(fields.name())?);
                match flags {
                    0 | 1 => self.rename(number, old, to, new, flags == 1),
                    _ => Err(Errno::INVAL),
                }
            }
            Operation::Link => {
                let linked = whole(fields.u64())?;
                let name = whole(fields.name())?;
                if self.entries(number)?.contains_key(name) {
                    return Err(Errno::EXIST);
                }
                self.node(linked)?.links += 1;
                self.entries(number)?.insert(name.to_vec(), linked);
                self.entry(linked)
            }
            Operation::Open | Operation::OpenDirectory => {
                self.node(number)?;
                Ok(Body::default().zeros(16))
            }
            Operation::Read => self.read(number, &mut fields),
            Operation::Write => self.write(number, &mut fields),
            Operation::ReadDirectory => self.read_directory(number, &mut fields),
            Operation::StatFs => {
                let (blocks, free) = (1 << 20, 1 << 19);
                let counts = [blocks, free, free, 1 << 20, 1 << 19];
                let body = counts.iter().fold(Body::default(), |body, &count| body.u64(count));
                Ok(body.u32(4096).u32(255).u32(4096).zeros(28))
            }
            Operation::Release | Operation::Sync => Ok(Body::default()),
            Operation::Forget | Operation::Interrupt | Operation::Other => Err(Errno::NOSYS),
        }
    }

    fn read(&mut self, number: u64, fields: &mut Fields<'_>) -> Result<Body> {
        whole(fields.skip(8))?;
        let (offset, length) = (whole(fields.u64())? as usize, whole(fields.u32())? as usize);
        let content = self.file(number)?;
        let start = offset.min(content.len());
        let end = start.saturating_add(length).min(content.len());
        Ok(Body(content.get(start..end).unwrap_or_default().to_vec()))
    }

    fn write(&mut self, number: u64, fields: &mut Fields<'_>) -> Result<Body> {
        whole(fields.skip(8))?;
        let (offset, length) = (whole(fields.u64())? as usize, whole(fields.u32())? as usize);
        whole(fields.skip(20))?;
        let bytes = whole(fields.bytes(length))?;
        let end = offset.checked_add(length).filter(|&end| end < 1 << 32).ok_or(Errno::FBIG)?;
        let content = self.file(number)?;
        content.resize(content.len().max(end), 0);
        whole(content.get_mut(offset..end))?.copy_from_slice(bytes);
        self.node(number)?.modified = now();
        self.written += length as u64;
        Ok(Body::default().u32(length as u32).u32(0))
    }

    fn read_directory(&mut self, number: u64, fields: &mut Fields<'_>) -> Result<Body> {
        whole(fields.skip(8))?;
        let (offset, length) = (whole(fields.u64())? as usize, whole(fields.u32())? as usize);
        let entries: Vec<(Vec<u8>, u64)> =
            self.entries(number)?.iter().map(|(name, &number)| (name.clone(), number)).collect();
        let mut body = Body::default();
        for (place, (name, entry)) in entries.iter().enumerate().skip(offset) {
            let padded = (24 + name.len()).next_multiple_of(8);
            if body.0.len() + padded > length {
                break;
            }
            let kind = self.node(*entry)?.kind() >> 12;
            body = body.u64(*entry).u64(place as u64 + 1).u32(name.len() as u32).u32(kind);
            body = body.bytes(name).zeros(padded - 24 - name.len());
        }
        Ok(body)
    }

    fn set_attributes(&mut self, number: u64, fields: &mut Fields<'_>) -> Result<Body> {
        const MODE: u32 = 1;
        const OWNER: u32 = 2;
        const GROUP: u32 = 4;
        const SIZE: u32 = 8;
        const ACCESSED: u32 = 16;
        const MODIFIED: u32 = 32;
        const ACCESSED_NOW: u32 = 128;
        const MODIFIED_NOW: u32 = 256;
        let valid = whole(fields.u32())?;
        whole(fields.skip(12))?;
        let size = whole(fields.u64())?;
        whole(fields.skip(8))?;
        let (accessed, modified) = (whole(fields.u64())?, whole(fields.u64())?);
        whole(fields.skip(8))?;
        let (accessed_ns, modified_ns) = (whole(fields.u32())?, whole(fields.u32())?);
        whole(fields.skip(4))?;
        let mode = whole(fields.u32())?;
        whole(fields.skip(4))?;
        let (uid, gid) = (whole(fields.u32())?, whole(fields.u32())?);
        let has = |bit| valid & bit != 0;
        if has(SIZE) {
            let size = usize::try_from(size).ok().filter(|&size| size < 1 << 32).ok_or(Errno::FBIG)?;
            self.file(number)?.resize(size, 0);
        }
        let node = self.node(number)?;
        if has(MODE) {
            node.mode = mode & 0o7777;
        }
        if has(OWNER) {
            node.owner.0 = uid;
        }
        if has(GROUP) {
            node.owner.1 = gid;
        }
        if has(ACCESSED) {
            node.accessed = if has(ACCESSED_NOW) { now() } else { (accessed, accessed_ns) };
        }
        if has(MODIFIED) {
            node.modified = if has(MODIFIED_NOW) { now() } else { (modified, modified_ns) };
        } else if has(SIZE) {
            node.modified = now();
        }
        self.attributes(number)
    }

    /// Appends `struct fuse_attr`.
    fn put_attributes(&mut self, number: u64, body: Body) -> Result<Body> {
        let node = self.node(number)?;
        let size = match &node.content {
            Content::File(bytes) => bytes.len() as u64,
            Content::Directory(_) => 4096,
        };
        let (accessed, modified) = (node.accessed, node.modified);
        let body = body.u64(number).u64(size).u64(size.div_ceil(512));
        let body = body.u64(accessed.0).u64(modified.0).u64(modified.0);
        let body = body.u32(accessed.1).u32(modified.1).u32(modified.1);
        let body = body.u32(node.kind() | node.mode).u32(node.links).u32(node.owner.0).u32(node.owner.1);
        Ok(body.u32(0).u32(4096).u32(0))
    }

    /// Returns `struct fuse_attr_out`, which the kernel must not cache.
    fn attributes(&mut self, number: u64) -> Result<Body> {
        self.put_attributes(number, Body::default().zeros(16))
    }

    /// Returns `struct fuse_entry_out`, which the kernel must not cache.
    fn entry(&mut self, number: u64) -> Result<Body> {
        self.put_attributes(number, Body::default().u64(number).zeros(32))
    }
}

/// Negotiates version 7.31, or the kernel's if that is older, and writes larger than a page.
fn init(fields: &mut Fields<'_>) -> Body {
    const BIG_WRITES: u32 = 1 << 5;
    let (_, minor, read_ahead) = (fields.u32(), fields.u32().unwrap_or(31), fields.u32().unwrap_or(0));
    let body = Body::default().u32(7).u32(minor.min(31)).u32(read_ahead).u32(BIG_WRITES);
    body.u16(16).u16(12).u32(LONGEST_WRITE).u32(1).zeros(36)
}
