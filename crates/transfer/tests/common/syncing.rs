//! What tests of copying only what differs share.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use lh_transfer::{Direction, Options, Plan, TreeSync};

use super::{Ended, Setup, TempTree, bytes_of, copy_with, in_part_files, stock, whole_tree};

pub const DIRECTIONS: [Direction; 3] = [Direction::Upload, Direction::Download, Direction::Relay];

pub fn options() -> Options {
    Options { tree_sync: Some(TreeSync::default()), placing: in_part_files(), ..whole_tree() }
}

pub fn plan(direction: Direction, source: &Path, target: &Path) -> Plan {
    Plan { direction, sources: vec![bytes_of(source)], target: bytes_of(target), target_must_be_dir: true }
}

/// A server of ours, and one of another make.
pub fn servers() -> [Setup; 2] {
    [Setup::default(), stock(&[])]
}

pub fn sync_with(direction: Direction, temp: &TempTree, options: Options, setup: &mut Setup) -> Ended {
    copy_with(plan(direction, &temp.join("from"), &temp.join("to")), options, temp.path(), setup)
}

pub fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::options().write(true).open(path).expect("a file").set_modified(time).expect("its time");
}

pub fn inodes_of(path: &Path) -> Vec<(String, u64, i64, i64)> {
    let mut all = Vec::new();
    let mut todo = vec![path.to_owned()];
    while let Some(path) = todo.pop() {
        let meta = fs::symlink_metadata(&path).expect("an entry");
        all.push((path.display().to_string(), meta.ino(), meta.ctime(), meta.ctime_nsec()));
        if meta.is_dir() {
            todo.extend(
                fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").path()),
            );
        }
    }
    all.sort();
    all
}
