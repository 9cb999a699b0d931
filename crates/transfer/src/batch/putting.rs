//! Upload: the content of a small file into the message of its batch.

use std::io::IoSliceMut;

use lh_sftp::batch::PutFile;
use lh_sftp::batched_extended_attrs;

use crate::changed::{Changed, Precision};
use crate::end::{Change, Done, Fault, Handle, Info, Op};
use crate::task::File;
use crate::wording::shrank;
use crate::{Options, local};

/// Files up to this size go in batches: of larger ones few fit into a message, so little is saved.
pub(super) const SMALL_FILE: u64 = 64 * 1024;

/// Result of adding a file to a message.
#[derive(Debug)]
pub(crate) enum Put {
    /// All of it is in the message: nothing of it needs to be open any more.
    Joined { size: u64, sum: Option<Vec<u8>> },
    /// It goes the ordinary way.
    Alone,
    /// It is being written to, and has these attributes now: copied by itself, it shows what changed.
    Changed(Info),
    /// It cannot be read.
    Failed(Fault),
}

/// Reads an open file into `message`, which is left as it was unless the file [`Joined`](Put::Joined).
/// `full`: the server takes times in full.
pub(super) fn put(file: &File, options: &Options, full: bool, message: &mut Vec<u8>) -> Put {
    let Some(source) = &file.handles.source else { return Put::Alone };
    let kinds = options.keep.xattr_kinds();
    let xattrs = match kinds {
        0 => None,
        kinds => match local::xattrs_of_open(source, kinds) {
            Ok(xattrs) => Some(xattrs),
            // The copy of the single file reports the failure.
            Err(_) => return Put::Alone,
        },
    };
    let ids = options.keep.ids_to_keep(file.item.info.ids);
    // The server sets those that lend rights when the owner could be kept.
    let bits = if ids.is_some() { 0o7777 } else { 0o777 };
    let change = Change {
        mode: Some(file.item.info.mode.unwrap_or(0o666) & bits),
        times: file.item.info.times.filter(|_| options.preserve),
        ids,
        ..Change::default()
    };
    // One byte more than a file of unknown size may have shows that it has too many.
    let most = if file.requests.to_eof { SMALL_FILE + 1 } else { file.requests.size };
    let before = message.len();
    let (algorithm, mut sum) = (options.reporting.sums, None);
    let put =
        PutFile::write_from(&file.item.target, &change.to_attrs(full), most as usize, message, |room| {
            let n = read_whole(source, room).map_err(Some)?;
            sum = algorithm.map(|algorithm| algorithm.sum(room.get(..n).unwrap_or_default()));
            match n as u64 {
                n if file.requests.to_eof && n == most => Err(None),
                n if !file.requests.to_eof && n < most => Err(Some(shrank(n, most))),
                n => Ok(n as usize),
            }
        });
    let size = match put {
        Ok(size) => size as u64,
        Err(Some(fault)) => return Put::Failed(fault),
        Err(None) => return Put::Alone,
    };
    if let Some(xattrs) = &xattrs
        && !batched_extended_attrs::write(xattrs, message)
    {
        message.truncate(before);
        return Put::Alone;
    }
    if let Ok(Done::Info(now)) = local::perform(Op::Fstat(source))
        && Changed::between(&file.item.info, &now, size, Precision::Exact).is_some()
    {
        message.truncate(before);
        return Put::Changed(now);
    }
    Put::Joined { size, sum }
}

/// Reads from the start until `room` is full or the file ends.
fn read_whole(source: &Handle, room: &mut [u8]) -> Result<usize, Fault> {
    let mut done = 0;
    while done < room.len() {
        match local::read_at(source, done as u64, &mut [IoSliceMut::new(&mut room[done..])])? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Instant;

    use crate::item::Item;

    use super::*;

    /// A file that is open, with `size` as it was listed.
    fn open(path: &Path, size: u64) -> File {
        let path = path.to_string_lossy().into_owned().into_bytes();
        let Ok(Done::Opened(handle, Some(info))) = local::perform(Op::OpenRead(&path)) else {
            panic!("a file")
        };
        let mut file = File::new(0, Item::top(path, b"to".to_vec(), info), Instant::now());
        file.handles.source = Some(handle);
        file.requests.size = size;
        file
    }

    #[test]
    fn files_read_whole_join_the_message() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f");
        std::fs::write(&path, "content").expect("a file");
        let mut message = b"before".to_vec();
        let put = put(&open(&path, 7), &Options::default(), false, &mut message);
        assert!(matches!(put, Put::Joined { size: 7, sum: None }), "{put:?}");
        assert!(message.starts_with(b"before") && message.ends_with(b"content"));
    }

    #[test]
    fn files_of_another_length_than_listed_leave_the_batch() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f");
        std::fs::write(&path, "content").expect("a file");
        let mut message = b"before".to_vec();
        let shorter = put(&open(&path, 8), &Options::default(), false, &mut message);
        assert!(matches!(shorter, Put::Failed(_)), "{shorter:?}");
        let file = open(&path, 7);
        std::fs::write(&path, "content and more").expect("a file");
        let longer = put(&file, &Options::default(), false, &mut message);
        assert!(matches!(longer, Put::Changed(Info { size: Some(16), .. })), "{longer:?}");
        std::fs::write(&path, vec![0; SMALL_FILE as usize + 1]).expect("a file");
        let mut file = open(&path, 0);
        file.requests.to_eof = true;
        let large = put(&file, &Options::default(), false, &mut message);
        assert!(matches!(large, Put::Alone), "{large:?}");
        assert_eq!(message, b"before");
    }
}
