//! Creation of many small files on several threads: with enough cores the kernel creates several in the time
//! of one.

use std::collections::HashSet;
use std::num::NonZero;
use std::thread;

use lh_sftp::fill::make_all;
use lh_sftp::fs::FileSystem;
use lh_sftp::whole::{Made, Whole};

/// Minimum number of files per thread. Starting a thread takes as long as creating three files.
const WORTH_A_THREAD: usize = 16;

/// Limit of threads: further threads would wait for the lock of the directory.
const MOST_THREADS: usize = 4;

/// Returns the number of threads that may create files at the same time on this host.
pub(crate) fn most_threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS)
}

/// Creates `files` through clones of `fs`, on up to `most` threads that end before this returns. Files with
/// equal names are created in the order of `files`.
pub(crate) fn make_whole<F: FileSystem + Clone + Sync>(
    fs: &F,
    most: usize,
    files: &[Whole<'_>],
) -> Vec<Made> {
    let threads = most.min(files.len() / WORTH_A_THREAD).max(1);
    let here = |files: &[Whole<'_>]| make_all(&mut fs.clone(), files);
    let mut made = Vec::with_capacity(files.len());
    if threads == 1 {
        made = here(files);
    } else {
        let (first, rest) = files.split_at(files.len().div_ceil(threads));
        thread::scope(|scope| {
            let others: Vec<_> = rest
                .chunks(first.len())
                .map(|files| {
                    let started = thread::Builder::new().stack_size(256 * 1024);
                    (files, started.spawn_scoped(scope, move || here(files)))
                })
                .collect();
            made.extend(here(first));
            for (files, started) in others {
                // If no thread can be started, the files are created here.
                match started.map(thread::ScopedJoinHandle::join) {
                    Ok(Ok(there)) => made.extend(there),
                    Ok(Err(panic)) => std::panic::resume_unwind(panic),
                    Err(_) => made.extend(here(files)),
                }
            }
        });
    }
    keep_order(files, &mut made);
    made
}

/// Marks files whose name another file of the message has taken. A later file may have been created before an
/// earlier one, so both are written again, in order.
fn keep_order(files: &[Whole<'_>], made: &mut [Made]) {
    let there = files.iter().zip(&*made).filter(|(_, made)| matches!(made, Made::Exists));
    let names: HashSet<&[u8]> = there.map(|(file, _)| file.path).collect();
    if names.is_empty() {
        return;
    }
    for (file, made) in files.iter().zip(made) {
        if names.contains(file.path) && matches!(made, Made::Filled(_)) {
            *made = Made::Exists;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalFs;
    use lh_sftp::Attrs;

    fn whole<'a>(path: &'a [u8], data: &'a [u8]) -> Whole<'a> {
        Whole {
            path,
            data,
            made_with: 0o644,
            compared: true,
            ids: None,
            xattrs: None,
            attrs: Attrs::with_permissions(0o640),
        }
    }

    #[test]
    fn threads_make_files_and_report_double_names() {
        let dir = tempfile::tempdir().unwrap();
        let fs = LocalFs::new(dir.path());
        let names: Vec<String> = (0..200).map(|n| format!("file-{:03}", n % 190)).collect();
        let files: Vec<_> = names.iter().map(|name| whole(name.as_bytes(), name.as_bytes())).collect();
        let made = make_whole(&fs, 3, &files);
        if made.iter().any(|made| matches!(made, Made::Unsupported)) {
            return eprintln!("this file system has no files without a name");
        }
        for (at, made) in made.iter().enumerate() {
            let twice = !(10..190).contains(&at);
            match made {
                Made::Filled(filled) => {
                    assert!(!twice && filled.outcome.is_ok() && filled.written == 8, "{at}: {filled:?}");
                    assert_eq!(std::fs::read(dir.path().join(&names[at])).unwrap(), names[at].as_bytes());
                }
                Made::Exists => assert!(twice, "{at}"),
                other => panic!("{at}: {other:?}"),
            }
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 190);
        let missing = [whole(b"none/x", b"")];
        assert!(matches!(make_whole(&fs, 3, &missing)[..], [Made::Refused]));
    }
}
