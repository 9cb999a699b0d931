//! Longhaul's own extensions: many small files in one message, and directories listed in one round trip.
//!
//! OpenSSH's requests need four messages and two round trips for a file (OPEN, WRITE, FSETSTAT, CLOSE). These
//! need a few dozen bytes for it. `docs/protocol.md` has the layouts. The size of a message bounds everything
//! here; memory is never allocated by a count that the peer sent.

use lh_wire::{Reader, Result, WireError, Writer};

use crate::protocol::MAX_DATA;
use crate::{Attrs, Name, StatusCode};

/// Largest number of files in one `put-files@longhaul` or `get-files@longhaul`.
pub const MAX_FILES: usize = 1024;

/// Largest number of bytes that one file needs in a `get-files@longhaul` reply besides its data.
pub const GET_OVERHEAD: usize = 64;

/// Like [`GET_OVERHEAD`], after the client asked for extended pairs by `full-attrs@longhaul`.
pub const GET_OVERHEAD_FULL: usize = 192;

/// Largest number of bytes that one `get-files@longhaul` may ask for, including [`GET_OVERHEAD`] for each
/// file.
pub const GET_BUDGET: usize = MAX_DATA;

/// `put-files@longhaul`: set the permissions exactly. Without this flag, the permissions apply only to new
/// files, and the umask restricts them.
pub const PUT_PERMISSIONS: u32 = 1;

/// `put-files@longhaul`: write each file under a temporary name beside its target and rename it when it is
/// complete. A file is written in place if this would change the kind or the owner of an existing one.
pub const PUT_PLACED: u32 = 2;

/// `put-files@longhaul`: read the written data back and compare them.
pub const PUT_COMPARED: u32 = 4;

/// `put-files@longhaul`, with [`PUT_PLACED`]: replace a symbolic link at the target instead of following it.
pub const PUT_OVER_LINKS: u32 = 8;

/// `list-dir@longhaul`: fill in the line that `ls -l` would print.
pub const LIST_LONG: u32 = 1;

/// `list-dir@longhaul`: the first answer has names only ([`Listing::read_short`]).
pub const LIST_NAMES: u32 = 2;

/// Longest text of a file's failure, in bytes.
const MAX_TEXT: usize = 48;

/// A whole file to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutFile<'a> {
    /// Path of the file.
    pub path: &'a [u8],
    /// Permissions (see [`PUT_PERMISSIONS`]) and, if present, times. Other fields are ignored.
    pub attrs: Attrs,
    /// Content of the file.
    pub data: &'a [u8],
}

impl<'a> PutFile<'a> {
    /// Appends the file to a request.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_string(self.path);
        self.attrs.write(out);
        out.put_string(self.data);
    }

    /// Appends a file whose data `read` writes into the message: `read` gets a slice of `most` bytes and
    /// returns how many it used.
    ///
    /// # Errors
    /// The error of `read`. Nothing is appended then.
    pub fn write_from<E>(
        path: &[u8],
        attrs: &Attrs,
        most: usize,
        out: &mut Vec<u8>,
        read: impl FnOnce(&mut [u8]) -> core::result::Result<usize, E>,
    ) -> core::result::Result<usize, E> {
        let start = out.len();
        out.put_string(path);
        attrs.write(out);
        let length_at = out.len();
        let data_at = length_at + 4;
        out.resize(data_at + most, 0);
        match read(out.get_mut(data_at..).unwrap_or_default()) {
            Ok(used) => {
                let used = used.min(most);
                out.truncate(data_at + used);
                let length = u32::try_from(used).unwrap_or(u32::MAX);
                if let Some(slot) = out.get_mut(length_at..data_at) {
                    slot.copy_from_slice(&length.to_be_bytes());
                }
                Ok(used)
            }
            Err(error) => {
                out.truncate(start);
                Err(error)
            }
        }
    }

    /// Reads one file of a request.
    ///
    /// # Errors
    /// A field is missing or runs over the end.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(Self { path: reader.string()?, attrs: Attrs::read(reader)?, data: reader.string()? })
    }
}

/// The step at which a file of `put-files@longhaul` failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutStep {
    /// The file could not be opened or made: nothing has changed.
    Open,
    /// The data could not be written. The file ends after the last byte that was written.
    Write,
    /// The data are complete, but the attributes could not be set.
    Attributes,
    /// The owner and group could not be set, see [`crate::batched_extended_attrs`]. Not a failure: all else
    /// is complete.
    Owner,
    /// The extended attributes could not be set. Not a failure: all else is complete.
    Xattrs,
}

impl PutStep {
    const ALL: [Self; 5] = [Self::Open, Self::Write, Self::Attributes, Self::Owner, Self::Xattrs];

    const fn number(self) -> u32 {
        self as u32 + 1
    }
}

/// One file of `put-files@longhaul` that failed. Files without an entry in the reply are complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutFailure {
    /// Index of the file in the request, from 0.
    pub index: u32,
    /// The step that failed.
    pub step: PutStep,
    /// The reason as a status code.
    pub code: StatusCode,
    /// The reason as text, at most 48 bytes.
    pub text: String,
}

impl PutFailure {
    /// Appends the reply's fields.
    pub fn write_all(failures: &[Self], out: &mut Vec<u8>) {
        out.put_u32(u32::try_from(failures.len()).unwrap_or(u32::MAX));
        for failure in failures {
            out.put_u32(failure.index);
            out.put_u32(failure.step.number());
            out.put_u32(failure.code.0);
            out.put_string(short(&failure.text).as_bytes());
        }
    }

    /// Reads the reply's fields.
    ///
    /// # Errors
    /// The fields do not have the extension's layout.
    pub fn read_all(fields: &[u8]) -> Result<Vec<Self>> {
        let mut reader = Reader::new(fields);
        // A file can have three entries: owner not set, extended attributes not set, and a failure.
        let count = reader.u32()?;
        if count as usize > 3 * MAX_FILES {
            return Err(WireError::Invalid { what: "number of failures" });
        }
        let mut failures = Vec::new();
        for _ in 0..count {
            let index = reader.u32()?;
            let step = reader.u32()?;
            let step = PutStep::ALL.into_iter().find(|known| known.number() == step);
            failures.push(Self {
                index,
                step: step.ok_or(WireError::Invalid { what: "step of a put-files failure" })?,
                code: StatusCode(reader.u32()?),
                text: String::from_utf8_lossy(reader.string()?).into_owned(),
            });
        }
        Ok(failures)
    }
}

/// A file in a `get-files@longhaul` request: up to `len` bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetFile<'a> {
    /// Path of the file.
    pub path: &'a [u8],
    /// Largest number of bytes to return.
    pub len: u32,
}

impl<'a> GetFile<'a> {
    /// Appends the file to a request.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_string(self.path);
        out.put_u32(self.len);
    }

    /// Reads one file of a request.
    ///
    /// # Errors
    /// A field is missing or runs over the end.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(Self { path: reader.string()?, len: reader.u32()? })
    }
}

/// One file that `get-files@longhaul` returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GotFile<'a> {
    /// Attributes, as FSTAT returns them.
    pub attrs: Attrs,
    /// The file ends after `data`.
    pub whole: bool,
    /// Content from the start of the file.
    pub data: &'a [u8],
}

/// One file of the reply: its content, or the reason why it could not be read.
pub type Got<'a> = core::result::Result<GotFile<'a>, (StatusCode, String)>;

/// Appends one file of the reply.
pub fn write_got(got: &Got<'_>, out: &mut Vec<u8>) {
    match got {
        Ok(file) => {
            out.put_u32(StatusCode::OK.0);
            file.attrs.write(out);
            out.put_bool(file.whole);
            out.put_string(file.data);
        }
        Err((code, text)) => {
            out.put_u32(code.0);
            out.put_string(short(text).as_bytes());
        }
    }
}

/// Reads the reply's fields: one result for each file of the request.
///
/// # Errors
/// The fields do not have the extension's layout.
pub fn read_got(fields: &[u8]) -> Result<Vec<Got<'_>>> {
    let mut reader = Reader::new(fields);
    let count = bounded(reader.u32()?)?;
    let mut files = Vec::new();
    for _ in 0..count {
        files.push(read_one(&mut reader)?);
    }
    Ok(files)
}

/// Reads one file of the reply.
pub(crate) fn read_one<'a>(reader: &mut Reader<'a>) -> Result<Got<'a>> {
    Ok(match StatusCode(reader.u32()?) {
        StatusCode::OK => {
            Ok(GotFile { attrs: Attrs::read(reader)?, whole: reader.boolean()?, data: reader.string()? })
        }
        code => Err((code, String::from_utf8_lossy(reader.string()?).into_owned())),
    })
}

/// The first part of a directory's entries: the answer to `list-dir@longhaul`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Handle for READDIR of the other entries and for CLOSE. Empty if the list is complete.
    pub handle: Vec<u8>,
    /// The entries so far.
    pub names: Vec<Name>,
}

impl Listing {
    /// Reads the reply's fields.
    ///
    /// # Errors
    /// The fields do not have the extension's layout.
    pub fn read(fields: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(fields);
        Ok(Self { handle: read_handle(&mut reader)?, names: crate::reply::read_names(&mut reader)? })
    }

    /// Reads the reply to a request with [`LIST_NAMES`].
    ///
    /// # Errors
    /// The fields do not have the extension's layout.
    pub fn read_short(fields: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(fields);
        let handle = read_handle(&mut reader)?;
        let all = reader.string()?;
        reader.finish()?;
        let Some((0, names)) = all.split_last().map(|(last, names)| (*last, names)) else {
            let empty = all.is_empty();
            let cut = WireError::Invalid { what: "name without an end" };
            return if empty { Ok(Self { handle, names: Vec::new() }) } else { Err(cut) };
        };
        let name = |name: &[u8]| Name { name: name.to_vec(), long_name: Vec::new(), attrs: Attrs::NONE };
        Ok(Self { handle, names: names.split(|&byte| byte == 0).map(name).collect() })
    }
}

fn read_handle(reader: &mut Reader<'_>) -> Result<Vec<u8>> {
    let handle = reader.string()?;
    if handle.len() > crate::protocol::MAX_HANDLE {
        return Err(WireError::Invalid { what: "handle longer than 256 bytes" });
    }
    Ok(handle.to_vec())
}

pub(crate) fn bounded(count: u32) -> Result<usize> {
    usize::try_from(count)
        .ok()
        .filter(|&count| count <= MAX_FILES)
        .ok_or(WireError::Invalid { what: "number of files" })
}

/// Cuts a text to [`MAX_TEXT`] bytes, at the end of a character.
fn short(text: &str) -> &str {
    let end = (0..=MAX_TEXT.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::extended_attrs;

    proptest! {
        #[test]
        fn messages_survive_the_wire(
            paths in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 0..5),
            text in "\\PC{0,80}",
            code in 1..9_u32,
        ) {
            let attrs =
                Attrs { size: Some(5), ids: Some((6, 7)), times: Some((1, 2)), ..Attrs::with_permissions(0o640) };
            let mut out = Vec::new();
            for path in &paths {
                PutFile { path, attrs, data: b"data" }.write(&mut out);
                let read = |room: &mut [u8]| {
                    room[..4].copy_from_slice(b"data");
                    Ok::<_, ()>(4)
                };
                let before = out.clone();
                PutFile::write_from(path, &attrs, 9, &mut out, |_| Err(())).unwrap_err();
                prop_assert_eq!(&out, &before);
                PutFile::write_from(path, &attrs, 9, &mut out, read).unwrap();
                GetFile { path, len: 7 }.write(&mut out);
            }
            let mut reader = Reader::new(&out);
            for path in &paths {
                prop_assert_eq!(PutFile::read(&mut reader).unwrap(), PutFile { path, attrs, data: b"data" });
                prop_assert_eq!(PutFile::read(&mut reader).unwrap(), PutFile { path, attrs, data: b"data" });
                prop_assert_eq!(GetFile::read(&mut reader).unwrap(), GetFile { path, len: 7 });
            }
            let failures: Vec<PutFailure> = PutStep::ALL
                .into_iter()
                .map(|step| PutFailure { index: 3, step, code: StatusCode(code), text: short(&text).to_owned() })
                .collect();
            let mut out = Vec::new();
            PutFailure::write_all(&failures, &mut out);
            prop_assert_eq!(PutFailure::read_all(&out).unwrap(), failures);
            let got: [Got<'_>; 2] = [
                Ok(GotFile { attrs, whole: true, data: b"text" }),
                Err((StatusCode(code), short(&text).to_owned())),
            ];
            let mut out = Vec::new();
            out.put_u32(2);
            for got in &got {
                let before = out.len();
                write_got(got, &mut out);
                prop_assert!(out.len() - before <= GET_OVERHEAD);
                let times = extended_attrs::FileTimes { access: (1, 2), modification: (3, 4) };
                let inode = extended_attrs::Inode { device: 1, number: 2, links: 3 };
                let full = Attrs { full_times: Some(times), inode: Some(inode), storage: Some(1), ..attrs };
                let mut longer = Vec::new();
                write_got(&Ok(GotFile { attrs: full, whole: true, data: b"" }), &mut longer);
                prop_assert!(longer.len() <= GET_OVERHEAD_FULL);
            }
            prop_assert_eq!(read_got(&out).unwrap(), got);
        }

        #[test]
        fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = PutFailure::read_all(&bytes);
            let _ = read_got(&bytes);
            let _ = Listing::read(&bytes);
        }
    }
}
