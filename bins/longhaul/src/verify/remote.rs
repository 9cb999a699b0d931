//! A tree of another host against a manifest, over SFTP: by sums that the server makes, where it is ours,
//! else by reading the files.
//!
//! Many files are looked at at a time, so that a long round trip costs little.

use std::collections::{BTreeMap, HashMap};

use lh_sftp::{Attrs, Data, Handle, OpenFlags, ReplyBody, Request, Status, StatusCode, extension, mode};
use lh_transfer::manifest_file::{Entry, EntryKind};
use lh_transfer::{ContentSum, RemotePath, SumAlgorithm, join, remote_path, status_text};
use lh_wire::Reader as Fields;

use super::known::Known;
use super::manifests::Entries;
use super::report::{Finding, Findings};
use crate::fault::Fault;
use crate::sftp::Sftp;

/// Files at a time where the server makes the sums: they take no handle.
const SUMMED: usize = 256;

/// Files at a time that are read.
const OPEN: usize = 32;

/// READs in flight of all files, and bytes of each: 16 MiB.
const READS: usize = 256;
const READ_LEN: u32 = 64 * 1024;

/// The path of the tree, as the server understands it.
///
/// # Errors
/// It is not there, or the server cannot tell.
pub(super) fn root(sftp: &mut Sftp, typed: &[u8]) -> Result<Vec<u8>, Fault> {
    let shown = lh_transfer::display_name(typed);
    let root = match remote_path(typed) {
        RemotePath::Plain(path) => path,
        RemotePath::Expand(path) => match sftp.ask(&Request::ExpandPath { path: &path })? {
            ReplyBody::Names(names) if names.len() == 1 => {
                names.into_iter().map(|name| name.name).collect::<Vec<_>>().concat()
            }
            _ => return Err(Fault::Refused(format!("{shown}: the server does not expand this path"))),
        },
    };
    match sftp.ask(&Request::Stat { path: &root })? {
        ReplyBody::Attrs(attrs) if is(&attrs, mode::DIRECTORY) != Some(false) => Ok(root),
        ReplyBody::Attrs(_) => Err(Fault::Refused(format!("{shown}: Not a directory"))),
        ReplyBody::Status(status) => Err(Fault::Refused(format!("{shown}: {}", status_text(&status)))),
        _ => Err(Fault::BrokenRules),
    }
}

/// Returns whether the entry is of this kind; `None` if the server does not say.
fn is(attrs: &Attrs, kind: u32) -> Option<bool> {
    let bits = attrs.permissions.map(|bits| bits & mode::TYPE)?;
    (bits != 0).then_some(bits == kind)
}

/// One file under way.
struct Task {
    entry: Entry,
    path: Vec<u8>,
    reading: Option<Reading>,
}

/// A file that is read.
struct Reading {
    handle: Handle,
    sum: ContentSum,
    /// All bytes before this offset have been summed.
    at: u64,
    /// All bytes before this offset have been requested.
    asked: u64,
    /// Ranges that short answers left out.
    again: Vec<(u64, u32)>,
    /// Data that arrived before their turn.
    held: BTreeMap<u64, Data>,
    in_flight: u32,
}

/// Subject of a request.
enum RequestSubject {
    Stat,
    Link,
    Sum,
    Open,
    Read {
        offset: u64,
        len: u32,
    },
    /// CLOSE: its answer does not matter.
    Nothing,
}

/// The check of one tree.
pub(super) struct Check<'a> {
    sftp: &'a mut Sftp,
    root: &'a [u8],
    algorithm: SumAlgorithm,
    findings: &'a mut Findings,
    /// The server makes sums.
    sums: bool,
    tasks: BTreeMap<u64, Task>,
    next: u64,
    asked: HashMap<u32, (u64, RequestSubject)>,
    reads: usize,
}

impl<'a> Check<'a> {
    pub(super) fn new(
        sftp: &'a mut Sftp,
        root: &'a [u8],
        algorithm: SumAlgorithm,
        findings: &'a mut Findings,
    ) -> Self {
        let sums = sftp.session().supports(extension::CHECK_FILE_NAME);
        let (tasks, asked) = (BTreeMap::new(), HashMap::new());
        Self { sftp, root, algorithm, findings, sums, tasks, next: 0, asked, reads: 0 }
    }

    /// Looks at each file of the manifest; `known` gets their paths.
    ///
    /// # Errors
    /// The connection is gone, or the manifest is wrong: nothing more can be looked at.
    pub(super) fn run(
        &mut self,
        manifest: &mut Entries<'_>,
        mut known: Option<&mut Known>,
    ) -> Result<(), Fault> {
        let mut more = true;
        loop {
            while more && self.tasks.len() < if self.sums { SUMMED } else { OPEN } {
                match manifest.next()? {
                    Some(entry) => {
                        if let Some(known) = &mut known {
                            known.add(&entry.path);
                        }
                        self.begin(entry);
                    }
                    None => more = false,
                }
            }
            self.read_on();
            if self.asked.is_empty() {
                return Ok(());
            }
            let reply = self.sftp.answer()?;
            let Some((task, about)) = self.asked.remove(&reply.id) else {
                return Err(Fault::BrokenRules);
            };
            self.take(task, about, reply.body);
        }
    }

    fn begin(&mut self, entry: Entry) {
        let path = join(self.root, &entry.path);
        let (request, about) = match entry.kind {
            EntryKind::Link(_) => (Request::Readlink { path: &path }, RequestSubject::Link),
            EntryKind::File(_) => (Request::Stat { path: &path }, RequestSubject::Stat),
        };
        let id = self.sftp.send(&request);
        self.asked.insert(id, (self.next, about));
        self.tasks.insert(self.next, Task { entry, path, reading: None });
        self.next += 1;
    }

    /// Done with a file.
    fn end(&mut self, key: u64, finding: Option<Finding>) {
        let Some(task) = self.tasks.remove(&key) else { return };
        if let Some(reading) = task.reading {
            let id = self.sftp.send(&Request::Close { handle: &reading.handle });
            self.asked.insert(id, (key, RequestSubject::Nothing));
        }
        match finding {
            None => self.findings.good(&task.entry),
            Some(finding) => self.findings.add(&task.entry.path, Some(task.entry.size), &finding),
        }
    }

    fn take(&mut self, key: u64, about: RequestSubject, body: ReplyBody) {
        if matches!(about, RequestSubject::Read { .. }) {
            self.reads -= 1;
        }
        let Some(task) = self.tasks.get_mut(&key) else { return };
        match (about, body) {
            (RequestSubject::Stat, ReplyBody::Attrs(attrs)) => self.compare_size(key, &attrs),
            (RequestSubject::Link, ReplyBody::Names(names)) => {
                let right = matches!((&task.entry.kind, &names[..]), (EntryKind::Link(to), [name]) if name.name == *to);
                self.end(key, (!right).then_some(Finding::Content));
            }
            (RequestSubject::Link, ReplyBody::Status(status)) if status.code != StatusCode::NO_SUCH_FILE => {
                self.end(key, Some(Finding::Kind("is no symbolic link")));
            }
            (RequestSubject::Sum, ReplyBody::Extended(fields)) => {
                let right =
                    matches!(&task.entry.kind, EntryKind::File(Some(sum)) if summed(&fields) == Some(sum));
                self.end(key, (!right).then_some(Finding::Content));
            }
            // It may know no sum of this algorithm; that it may not be read is said when it is opened.
            (RequestSubject::Sum, _) => self.open(key),
            (RequestSubject::Open, ReplyBody::Handle(handle)) => {
                let sum = self.algorithm.start();
                task.reading = Some(Reading {
                    handle,
                    sum,
                    at: 0,
                    asked: 0,
                    again: Vec::new(),
                    held: BTreeMap::new(),
                    in_flight: 0,
                });
            }
            (RequestSubject::Read { offset, len }, body) => self.take_data(key, offset, len, body),
            (_, ReplyBody::Status(status)) => self.end(key, Some(finding_of(&status))),
            _ => self.end(key, Some(bad_message())),
        }
    }

    fn compare_size(&mut self, key: u64, attrs: &Attrs) {
        let Some(task) = self.tasks.get(&key) else { return };
        let finding = match (&task.entry.kind, attrs.size) {
            _ if is(attrs, mode::REGULAR) == Some(false) => Finding::Kind("is no file"),
            (_, None) => Finding::Error("the server does not tell its size".to_owned()),
            (_, Some(size)) if size != task.entry.size => Finding::Size(size),
            (EntryKind::File(Some(_)), _) if self.sums => {
                let algorithms = match self.algorithm {
                    SumAlgorithm::Sha256 => "sha256",
                    SumAlgorithm::Xxh3 => extension::CHECK_XXH3,
                };
                let id = self.sftp.send(&Request::CheckFileName {
                    path: &task.path,
                    algorithms: algorithms.as_bytes(),
                    offset: 0,
                    len: 0,
                    block: 0,
                });
                self.asked.insert(id, (key, RequestSubject::Sum));
                return;
            }
            (EntryKind::File(Some(_)), _) => return self.open(key),
            _ => Finding::Unchecked,
        };
        self.end(key, Some(finding));
    }

    fn open(&mut self, key: u64) {
        let Some(task) = self.tasks.get(&key) else { return };
        let request = Request::Open { path: &task.path, flags: OpenFlags::READ, attrs: Attrs::NONE };
        let id = self.sftp.send(&request);
        self.asked.insert(id, (key, RequestSubject::Open));
    }

    /// Asks for more of the files that are open, the first of them first.
    fn read_on(&mut self) {
        let mut whole = Vec::new();
        let most = READ_LEN.min(self.sftp.session().read_len()).max(1);
        for (&key, task) in &mut self.tasks {
            let size = task.entry.size;
            let Some(reading) = &mut task.reading else { continue };
            while self.reads < READS {
                let (offset, len) = match reading.again.pop() {
                    Some(again) => again,
                    None if reading.asked < size => {
                        let len = (size - reading.asked).min(u64::from(most)) as u32;
                        reading.asked += u64::from(len);
                        (reading.asked - u64::from(len), len)
                    }
                    None => break,
                };
                let id = self.sftp.send(&Request::Read { handle: &reading.handle, offset, len });
                self.asked.insert(id, (key, RequestSubject::Read { offset, len }));
                reading.in_flight += 1;
                self.reads += 1;
            }
            if reading.at >= size && reading.in_flight == 0 {
                whole.push(key);
            }
        }
        for key in whole {
            let Some(Task { reading: Some(reading), entry, .. }) = self.tasks.get(&key) else { continue };
            let sum = reading.sum.clone().finish();
            let right = matches!(&entry.kind, EntryKind::File(Some(wanted)) if *wanted == sum);
            self.end(key, (!right).then_some(Finding::Content));
        }
    }

    fn take_data(&mut self, key: u64, offset: u64, len: u32, body: ReplyBody) {
        let Some(Task { reading: Some(reading), .. }) = self.tasks.get_mut(&key) else { return };
        reading.in_flight -= 1;
        let finding = match body {
            ReplyBody::Data(data) if data.len() > len as usize => bad_message(),
            ReplyBody::Data(data) if !data.is_empty() => {
                let got = data.len() as u32;
                if got < len {
                    reading.again.push((offset + u64::from(got), len - got));
                }
                reading.held.insert(offset, data);
                while let Some(data) = reading.held.remove(&reading.at) {
                    data.chunks().iter().for_each(|chunk| reading.sum.update(chunk));
                    reading.at += data.len() as u64;
                }
                return;
            }
            // It has become shorter since its size was told.
            ReplyBody::Data(_) | ReplyBody::Status(Status { code: StatusCode::EOF, .. }) => {
                Finding::Size(offset)
            }
            ReplyBody::Status(status) => finding_of(&status),
            _ => bad_message(),
        };
        self.end(key, Some(finding));
    }
}

fn finding_of(status: &Status) -> Finding {
    match status.code {
        StatusCode::NO_SUCH_FILE => Finding::Missing,
        _ => Finding::Error(status_text(status)),
    }
}

fn bad_message() -> Finding {
    Finding::Error("Bad message".to_owned())
}

/// The one sum of a `check-file` reply.
fn summed(fields: &[u8]) -> Option<&[u8]> {
    let mut reader = Fields::new(fields);
    reader.string().ok()?;
    reader.string().ok()?;
    Some(reader.rest())
}

/// Tells of files below `root` that are not in the manifest.
///
/// # Errors
/// The connection is gone.
pub(super) fn find_extra(
    sftp: &mut Sftp,
    root: &[u8],
    known: &Known,
    findings: &mut Findings,
) -> Result<(), Fault> {
    let mut waiting = vec![known.top()];
    // By the id of what was asked about a directory: its path, and its handle when it is open.
    let mut asked: HashMap<u32, (Vec<u8>, Option<Handle>)> = HashMap::new();
    let mut closing: Vec<u32> = Vec::new();
    loop {
        while asked.len() < OPEN
            && let Some(directory) = waiting.pop()
        {
            let path = if directory.is_empty() { root.to_vec() } else { join(root, &directory) };
            asked.insert(sftp.send(&Request::Opendir { path: &path }), (directory, None));
        }
        if asked.is_empty() && closing.is_empty() {
            return Ok(());
        }
        let reply = sftp.answer()?;
        let Some((directory, handle)) = asked.remove(&reply.id) else {
            let Some(at) = closing.iter().position(|&id| id == reply.id) else {
                return Err(Fault::BrokenRules);
            };
            closing.swap_remove(at);
            continue;
        };
        match (reply.body, handle) {
            (ReplyBody::Handle(handle), None) => {
                asked.insert(sftp.send(&Request::Readdir { handle: &handle }), (directory, Some(handle)));
            }
            (ReplyBody::Names(names), Some(handle)) if !names.is_empty() => {
                for entry in names.iter().filter(|entry| lh_transfer::is_safe_name(&entry.name)) {
                    let path = join(&directory, &entry.name);
                    if is(&entry.attrs, mode::DIRECTORY) == Some(true) {
                        waiting.push(path);
                    } else if !known.has(&path) {
                        findings.add(&path, None, &Finding::Extra);
                    }
                }
                asked.insert(sftp.send(&Request::Readdir { handle: &handle }), (directory, Some(handle)));
            }
            (body, handle) => {
                let reading = handle.is_some();
                closing.extend(handle.map(|handle| sftp.send(&Request::Close { handle: &handle })));
                match body {
                    ReplyBody::Status(Status { code: StatusCode::EOF, .. }) if reading => {}
                    ReplyBody::Status(Status { code: StatusCode::NO_SUCH_FILE, .. }) => {}
                    ReplyBody::Status(status) => findings.add(&directory, None, &finding_of(&status)),
                    _ => findings.add(&directory, None, &bad_message()),
                }
            }
        }
    }
}
