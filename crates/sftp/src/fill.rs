//! Writes whole small files with their attributes.

use std::io::{self, IoSlice, IoSliceMut};

use crate::Attrs;
use crate::batch::PutStep;
use crate::fs::{File, FileSystem};
use crate::whole::{Failure, Filled, Made, Whole};

/// Writes data, owner, extended attributes, mode and times, in this order: each step may change what the
/// later ones set. A file that is not `fresh` may have content already.
pub fn fill(file: &mut dyn File, whole: &Whole<'_>, fresh: bool) -> Filled {
    let mut filled = Filled { written: 0, not_kept: Vec::new(), outcome: Ok(()) };
    let written = write_all(file, whole.data, fresh, &mut filled.written)
        .and_then(|()| if whole.compared { compare(file, whole.data) } else { Ok(()) });
    if let Err(error) = written {
        filled.outcome = Err((PutStep::Write, error));
        return filled;
    }
    let owned = whole.ids.is_none_or(|ids| give_owner(file, ids, &mut filled.not_kept));
    if let Some((kinds, xattrs)) = whole.xattrs
        && let Err(error) = file.set_xattrs(kinds, xattrs)
    {
        filled.not_kept.push((PutStep::Xattrs, error));
    }
    let mask = if owned { 0o7777 } else { 0o777 };
    let attrs = Attrs { permissions: whole.attrs.permissions.map(|bits| bits & mask), ..whole.attrs };
    if attrs != Attrs::NONE {
        filled.outcome = file.set_attrs(&attrs).map_err(|error| (PutStep::Attributes, error));
    }
    filled
}

/// Makes a file without a name and gives it its name when it is complete. Fails if the name exists.
pub fn make(fs: &mut (impl FileSystem + ?Sized), whole: &Whole<'_>) -> Made {
    let end = whole.path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let directory = whole.path.get(..end).unwrap_or_default();
    let mut file = match fs.open_unnamed(directory, whole.made_with) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return Made::Unsupported,
        Err(_) => return Made::Refused,
        Ok(file) => file,
    };
    let filled = fill(&mut *file, whole, true);
    if filled.outcome.is_ok()
        && let Err(error) = fs.give_name(&*file, whole.path)
    {
        return match error.kind() {
            io::ErrorKind::AlreadyExists => Made::Exists,
            _ => Made::Unsupported,
        };
    }
    Made::Filled(filled)
}

/// Makes each of `files` by [`make`], in this order. This is [`FileSystem::make_whole`] for file systems that
/// have no faster way.
pub fn make_all(fs: &mut (impl FileSystem + ?Sized), files: &[Whole<'_>]) -> Vec<Made> {
    files.iter().map(|file| make(fs, file)).collect()
}

/// Sets owner and group. If that fails, sets the group alone. Returns true if the file has the wanted owner.
fn give_owner(file: &mut dyn File, ids: (u32, u32), not_kept: &mut Vec<Failure>) -> bool {
    let mut give = |ids| file.set_attrs(&Attrs { ids: Some(ids), ..Attrs::NONE });
    let Err(error) = give(ids) else { return ids.0 != u32::MAX };
    not_kept.push((PutStep::Owner, error));
    if ids.0 != u32::MAX && ids.1 != u32::MAX {
        let _ = give((u32::MAX, ids.1));
    }
    false
}

/// Fails unless the file holds exactly `data`.
fn compare(file: &mut dyn File, data: &[u8]) -> io::Result<()> {
    let mut back = vec![0; data.len()];
    let mut done = 0;
    while let Some(rest) = back.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(done as u64, &mut [IoSliceMut::new(rest)])? {
            0 => break,
            n => done += n,
        }
    }
    if done == data.len() && back == data {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "what was written is not what was sent"))
}

/// Overwrites the file with `data` and cuts it after the last byte written.
fn write_all(file: &mut dyn File, data: &[u8], fresh: bool, done: &mut usize) -> io::Result<()> {
    let mut outcome = Ok(());
    while let Some(rest) = data.get(*done..).filter(|rest| !rest.is_empty()) {
        match file.write_at(*done as u64, &[IoSlice::new(rest)]) {
            Ok(0) => outcome = Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => *done += n.min(rest.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => outcome = Err(error),
        }
        if outcome.is_err() {
            break;
        }
    }
    if fresh {
        return outcome;
    }
    let attrs = file.attrs()?;
    if attrs.is_file() && attrs.size.is_some_and(|size| size > *done as u64) {
        let cut = file.set_attrs(&Attrs { size: Some(*done as u64), ..Attrs::NONE });
        return outcome.and(cut);
    }
    outcome
}
