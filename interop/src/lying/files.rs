//! The server's files and their handles.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::lie::Lie;
use super::wire::Attrs;

/// Error reply to a request: a status code and its text.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) code: u32,
    pub(super) text: &'static str,
}

impl Fault {
    pub(super) const fn failure(text: &'static str) -> Self {
        Self { code: 4, text }
    }

    pub(super) const fn denied() -> Self {
        Self { code: 3, text: "Permission denied" }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self { code: 2, text: "No such file" },
            ErrorKind::PermissionDenied => Self::denied(),
            _ => Self::failure("Failure"),
        }
    }
}

fn at(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(if path.is_empty() { b"." } else { path }))
}

/// An open file or directory.
struct Open {
    handle: String,
    path: Vec<u8>,
    what: What,
}

enum What {
    File {
        file: File,
        writes: bool,
        /// True if the path was opened for the first time.
        first: bool,
        /// For [`Lie::ZeroedUnseen`]: offsets and data written.
        written: Vec<(u64, Vec<u8>)>,
    },
    /// Entries not returned yet.
    Dir(Option<Vec<(Vec<u8>, Attrs)>>),
    /// A directory that cannot be read to its end.
    Broken,
}

/// Open files and directories, newest first: a handle that several share refers to the newest.
#[derive(Default)]
pub(super) struct Files {
    open: Vec<Open>,
    given: u64,
    /// Number of OPENs so far.
    opens: u64,
    /// Paths that have been opened for reading.
    read: HashSet<Vec<u8>>,
    /// Inodes of files that CLOSE has added a byte to.
    padded: HashSet<u64>,
}

/// Offsets of each file that are stored as zeros.
const ZEROED: std::ops::Range<u64> = 500..900;

/// Length of the blocks of [`Lie::StoresBlocks`].
const BLOCK: usize = 512;

/// Limit of open handles with [`Lie::FewHandles`].
const MOST_HANDLES: usize = 3;

/// Limit of open files with [`Lie::DeniesTenth`].
const MOST_FILES: usize = 9;

/// Number of OPENs that succeed with [`Lie::FewOpens`].
const MOST_OPENS: u64 = 5;

impl Files {
    fn add(&mut self, path: &[u8], what: What, lies: &[Lie]) -> String {
        self.given += 1;
        let number = match self.open.len() {
            _ if lies.contains(&Lie::OneHandle) => 0,
            open if lies.contains(&Lie::ReusedHandles) => open.min(2) as u64,
            _ => self.given,
        };
        let handle = match () {
            () if lies.contains(&Lie::EmptyHandles) => String::new(),
            () if lies.contains(&Lie::LongHandles) => format!("{number:0300}"),
            () if lies.contains(&Lie::LongestHandles) => format!("{number:02000}"),
            () => number.to_string(),
        };
        self.open.insert(0, Open { handle: handle.clone(), path: path.to_vec(), what });
        handle
    }

    fn find(&mut self, handle: &[u8]) -> Result<usize, Fault> {
        let place = self.open.iter().position(|open| open.handle.as_bytes() == handle);
        place.ok_or(Fault::failure("Invalid handle"))
    }

    /// Fails if the limit of open handles is reached.
    fn room(&self, lies: &[Lie]) -> Result<(), Fault> {
        let full = lies.contains(&Lie::FewHandles) && self.open.len() >= MOST_HANDLES;
        if full { Err(Fault::failure("no more handles")) } else { Ok(()) }
    }

    pub(super) fn open(
        &mut self,
        path: &[u8],
        flags: u32,
        mode: Option<u32>,
        lies: &[Lie],
    ) -> Result<String, Fault> {
        self.room(lies)?;
        Self::may_follow(path, lies)?;
        let files = self.open.iter().filter(|open| matches!(open.what, What::File { .. })).count();
        if lies.contains(&Lie::DeniesTenth) && files >= MOST_FILES {
            eprintln!("lh-lying-sftp: the tenth file is refused");
            return Err(Fault::denied());
        }
        self.opens += 1;
        if lies.contains(&Lie::FewOpens) && self.opens > MOST_OPENS {
            return Err(Fault::failure("no more files"));
        }
        let (read, write) = (flags & 1 != 0, flags & 2 != 0);
        let truncates_write_only = lies.contains(&Lie::CutsWriteOnly);
        let mut cut = if truncates_write_only { write && !read } else { flags & 16 != 0 };
        cut |= write && lies.contains(&Lie::NoSeeks);
        let mut options = OpenOptions::new();
        options.read(read).write(write).truncate(cut).mode(mode.unwrap_or(0o666) & 0o777);
        if flags & 8 != 0 && !(read && write && lies.contains(&Lie::MakesNoUpdated)) {
            if flags & 32 != 0 {
                options.create_new(true)
            } else {
                options.create(true)
            };
        }
        if write && lies.contains(&Lie::RemovesOpened) && at(path).is_file() {
            fs::remove_file(at(path))?;
        }
        let file = options.open(at(path))?;
        let first = !write && self.read.insert(path.to_vec());
        Ok(self.add(path, What::File { file, writes: write, first, written: Vec::new() }, lies))
    }

    pub(super) fn open_dir(&mut self, path: &[u8], lies: &[Lie]) -> Result<String, Fault> {
        self.room(lies)?;
        let mut names = Vec::new();
        for entry in fs::read_dir(at(path))? {
            let entry = entry?;
            let target = fs::metadata(entry.path()).ok().filter(|_| lies.contains(&Lie::ListsLinkTargets));
            let meta = target.map_or_else(|| entry.metadata(), Ok)?;
            names.push((entry.file_name().as_bytes().to_vec(), Attrs::of(&meta)));
        }
        names.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(self.add(path, What::Dir(Some(names)), lies))
    }

    /// Returns up to 7 entries. Fails on the handle of a file.
    pub(super) fn list(&mut self, handle: &[u8], lies: &[Lie]) -> Result<Vec<(Vec<u8>, Attrs)>, Fault> {
        let place = self.find(handle)?;
        let What::Dir(names) = &mut self.open[place].what else { return Err(Fault::failure("no directory")) };
        let Some(mut all) = names.take().filter(|names| !names.is_empty()) else {
            return Err(Fault { code: 1, text: "EOF" });
        };
        let rest = all.split_off(all.len().min(7));
        *names = Some(rest);
        if lies.contains(&Lie::ListingBreaks) {
            self.open[place].what = What::Broken;
        }
        Ok(all)
    }

    pub(super) fn close(&mut self, handle: &[u8], lies: &[Lie]) -> Result<(), Fault> {
        let place = self.find(handle)?;
        let Open { what: What::File { file, writes: true, .. }, .. } = self.open.remove(place) else {
            return Ok(());
        };
        let meta = file.metadata()?;
        if lies.contains(&Lie::Truncated) || lies.contains(&Lie::CloseFails) {
            file.set_len(meta.len().saturating_sub(1))?;
            if lies.contains(&Lie::CloseFails) {
                return Err(Fault::failure("Input/output error"));
            }
        }
        let pads = match () {
            () if lies.contains(&Lie::PadsEmpty) => meta.len() == 0,
            () => lies.contains(&Lie::Padded) || lies.contains(&Lie::PaddedUnseen),
        };
        if pads {
            file.write_all_at(b"\n", meta.len())?;
            self.padded.insert(meta.ino());
        }
        Ok(())
    }

    /// Returns true for the attributes of a file that CLOSE has added a byte to.
    pub(super) fn is_padded(&self, attrs: &Attrs) -> bool {
        self.padded.contains(&attrs.inode)
    }

    pub(super) fn path_of(&mut self, handle: &[u8]) -> Result<Vec<u8>, Fault> {
        let place = self.find(handle)?;
        Ok(self.open[place].path.clone())
    }

    pub(super) fn attrs_of(&mut self, handle: &[u8]) -> Result<Attrs, Fault> {
        let place = self.find(handle)?;
        match &self.open[place].what {
            What::File { file, .. } => Ok(Attrs::of(&file.metadata()?)),
            What::Dir(_) | What::Broken => Self::attrs(&self.open[place].path, true),
        }
    }

    pub(super) fn read(
        &mut self,
        handle: &[u8],
        offset: u64,
        len: usize,
        lies: &[Lie],
    ) -> Result<Vec<u8>, Fault> {
        let mut place = self.find(handle)?;
        if lies.contains(&Lie::NoSeeks) && matches!(self.open[place].what, What::File { writes: true, .. }) {
            eprintln!("lh-lying-sftp: READ of a handle that writes");
            self.write(handle, offset, &vec![0; len], lies)?;
            return Err(Fault { code: 0, text: "" });
        }
        if lies.contains(&Lie::MixedReads) && matches!(self.open[place].what, What::File { first: true, .. })
        {
            let newest =
                self.open.iter().position(|open| matches!(open.what, What::File { writes: false, .. }));
            place = newest.unwrap_or(place);
        }
        let What::File { file, written, .. } = &self.open[place].what else {
            return Err(Fault::failure("no file"));
        };
        let len = if lies.contains(&Lie::LongReads) { len.max(32_768) } else { len };
        let mut data = vec![0; len];
        let mut got = 0;
        while got < len {
            match file.read_at(&mut data[got..], offset + got as u64)? {
                0 => break,
                n => got += n,
            }
        }
        data.truncate(got);
        for (from, bytes) in written {
            for (at, byte) in (*from..).zip(bytes) {
                if let Some(seen) = at.checked_sub(offset).and_then(|at| data.get_mut(at as usize)) {
                    *seen = *byte;
                }
            }
        }
        Ok(data)
    }

    pub(super) fn write(
        &mut self,
        handle: &[u8],
        offset: u64,
        data: &[u8],
        lies: &[Lie],
    ) -> Result<(), Fault> {
        let mut place = self.find(handle)?;
        if lies.contains(&Lie::Swapped) {
            let other = |(at, open): (usize, &Open)| {
                (at != place && matches!(open.what, What::File { writes: true, .. })).then_some(at)
            };
            place = self.open.iter().enumerate().find_map(other).unwrap_or(place);
        }
        let What::File { file, written, .. } = &mut self.open[place].what else {
            return Err(Fault::failure("no file"));
        };
        if lies.contains(&Lie::NoSeeks) && offset != file.metadata()?.len() {
            return Err(Fault::failure("Illegal seek"));
        }
        let mut stored = data.to_vec();
        if lies.contains(&Lie::Zeroed) || lies.contains(&Lie::ZeroedUnseen) {
            for (at, byte) in (offset..).zip(&mut stored) {
                if ZEROED.contains(&at) {
                    *byte = 0;
                }
            }
        }
        if lies.contains(&Lie::StoresBlocks) {
            stored.resize(stored.len().next_multiple_of(BLOCK), 0);
        }
        if lies.contains(&Lie::ZeroedUnseen) {
            written.push((offset, data.to_vec()));
        }
        Ok(file.write_all_at(&stored, offset)?)
    }

    /// Fails if [`Lie::GuardsLinks`] forbids to follow the link at this path.
    pub(super) fn may_follow(path: &[u8], lies: &[Lie]) -> Result<(), Fault> {
        let guarded = lies.contains(&Lie::GuardsLinks) && at(path).is_symlink();
        if guarded { Err(Fault::denied()) } else { Ok(()) }
    }

    pub(super) fn attrs(path: &[u8], follow: bool) -> Result<Attrs, Fault> {
        let meta = if follow { fs::metadata(at(path)) } else { fs::symlink_metadata(at(path)) };
        Ok(Attrs::of(&meta?))
    }

    /// Sets attributes.
    pub(super) fn set(path: &[u8], attrs: Attrs, lies: &[Lie]) -> Result<(), Fault> {
        let path = at(path);
        if attrs.has_size && !lies.contains(&Lie::CutsWriteOnly) {
            let empties = lies.contains(&Lie::SizeEmpties);
            OpenOptions::new().write(true).truncate(empties).open(path)?.set_len(attrs.size)?;
        }
        if let Some((access, modified)) = attrs.times {
            let time = |seconds: u32| UNIX_EPOCH + Duration::from_secs(seconds.into());
            let times = FileTimes::new().set_accessed(time(access)).set_modified(time(modified));
            File::open(path)?.set_times(times)?;
        }
        if let Some(mode) = attrs.mode {
            fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777))?;
        }
        Ok(())
    }

    pub(super) fn remove(path: &[u8]) -> Result<(), Fault> {
        Ok(fs::remove_file(at(path))?)
    }

    pub(super) fn read_link(path: &[u8]) -> Result<Vec<u8>, Fault> {
        Ok(fs::read_link(at(path))?.into_os_string().into_encoded_bytes())
    }

    pub(super) fn make_link(target: &[u8], link: &[u8]) -> Result<(), Fault> {
        Ok(std::os::unix::fs::symlink(OsStr::from_bytes(target), at(link))?)
    }

    pub(super) fn make_dir(path: &[u8]) -> Result<(), Fault> {
        Ok(fs::create_dir(at(path))?)
    }

    pub(super) fn real(path: &[u8]) -> Result<Vec<u8>, Fault> {
        Ok(fs::canonicalize(at(path))?.as_os_str().as_bytes().to_vec())
    }

    pub(super) fn rename(old: &[u8], new: &[u8], replace: bool) -> Result<(), Fault> {
        if !replace && at(new).symlink_metadata().is_ok() {
            return Err(Fault::failure("exists"));
        }
        Ok(fs::rename(at(old), at(new))?)
    }
}
