//! Memory that is ready when a copy needs it.
//!
//! A virtual machine returns freed pages to its host within seconds ("free page reporting"), and gets them
//! back one by one, more slowly than a file arrives over a path of 2 Gb/s. The cost of a copy then depends on
//! the host and changes from moment to moment. So a file of equal length is written beforehand and exists
//! while the copy runs. As the copy grows, this file is truncated from its end, always a little ahead. The
//! copy takes the memory that was just freed, and memory is needed for one file, not for two.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::bench::remove;

/// Distance in bytes by which freeing is ahead of the copy.
const AHEAD: u64 = 256 << 20;

/// Interval at which the copy's length is checked.
const EVERY: Duration = Duration::from_millis(20);

/// Memory for one copy, freed as the copy grows; the rest is freed on drop.
pub(crate) struct Warm {
    over: Arc<AtomicBool>,
    giving: Option<JoinHandle<()>>,
}

impl Warm {
    /// Reserves as much memory as a copy of `blob` to `target` will need.
    pub(crate) fn for_copy(blob: &Path, target: &Path) -> Self {
        let store = target.with_extension("warm");
        let over = Arc::new(AtomicBool::new(false));
        // On failure the copy is only slower.
        let length = fs::copy(blob, &store).unwrap_or(0);
        let (target, stop) = (target.to_owned(), over.clone());
        let giving = std::thread::spawn(move || {
            give_up(&store, length, &target, &stop);
            remove(&store);
        });
        Self { over, giving: Some(giving) }
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(giving) = self.giving.take() {
            let _ = giving.join();
        }
    }
}

/// Truncates `store` as `target` grows, until it is empty or `over` is set.
fn give_up(store: &Path, length: u64, target: &Path, over: &AtomicBool) {
    let Ok(file) = File::options().write(true).open(store) else { return };
    let mut given = 0;
    while given < length && !over.load(Ordering::Relaxed) {
        let wanted = taken(target).saturating_add(AHEAD).min(length);
        if wanted > given {
            given = wanted;
            if file.set_len(length - given).is_err() {
                return;
            }
        }
        std::thread::sleep(EVERY);
    }
}

/// Bytes of the copy so far, under its own name or a hidden temporary name that begins with it.
fn taken(target: &Path) -> u64 {
    let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else { return 0 };
    let hidden = PathBuf::from(format!(".{}", name.to_string_lossy()));
    let is_it = |entry: &fs::DirEntry| {
        let found = entry.file_name();
        found == name || found.to_string_lossy().starts_with(&*hidden.to_string_lossy())
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().filter(is_it);
    entries.filter_map(|entry| Some(entry.metadata().ok()?.blocks() * 512)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_until(what: impl Fn() -> bool) {
        while !what() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn memory_is_freed_as_the_copy_grows_and_on_drop() {
        let directory = tempfile::tempdir().unwrap();
        let (store, target) = (directory.path().join("store"), directory.path().join("copy"));
        let length = AHEAD * 3;
        File::create(&store).unwrap().set_len(length).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let thread = {
            let (store, target, over) = (store.clone(), target.clone(), over.clone());
            std::thread::spawn(move || give_up(&store, length, &target, &over))
        };
        let left = || fs::metadata(&store).unwrap().len();
        wait_until(|| left() == length - AHEAD);
        // A temporary name of another program, with one page of data.
        fs::write(directory.path().join(".copy.0123.lhpart"), [1; 4096]).unwrap();
        fs::write(directory.path().join("copy-of-something-else"), [1; 40960]).unwrap();
        wait_until(|| left() < length - AHEAD);
        assert!(left() > length - AHEAD - (1 << 20));
        over.store(true, Ordering::Relaxed);
        thread.join().unwrap();
    }

    #[test]
    fn reserved_file_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (blob, target) = (directory.path().join("blob"), directory.path().join("copy"));
        fs::write(&blob, [7; 100_000]).unwrap();
        let warm = Warm::for_copy(&blob, &target);
        fs::write(&target, [7; 100_000]).unwrap();
        drop(warm);
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["blob", "copy"]);
    }
}
