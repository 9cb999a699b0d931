//! Memory that is at hand when a copy wants it.
//!
//! A virtual machine gives pages that it has freed back to its host within seconds ("free page reporting"), and gets them again one by
//! one, slower than a file comes over a path of 2 Gb/s. What a copy costs then is the host's business and differs from one moment to the
//! next. So a file of the same length is written beforehand and stays while the copy runs; as the copy grows, that one is cut from its end,
//! always a little ahead: what the copy takes has just been given up, and memory is needed for one file, not for two.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::bench::remove;

/// How far the memory that is given up is ahead of what the copy has taken.
const AHEAD: u64 = 256 << 20;

/// How often the copy's length is looked at.
const EVERY: Duration = Duration::from_millis(20);

/// Memory for one copy, given up as the copy grows; all of what is left when dropped.
pub(crate) struct Warm {
    over: Arc<AtomicBool>,
    giving: Option<JoinHandle<()>>,
}

impl Warm {
    /// Takes as much memory as a copy of `blob` to `target` will.
    pub(crate) fn for_copy(blob: &Path, target: &Path) -> Self {
        let store = target.with_extension("warm");
        let over = Arc::new(AtomicBool::new(false));
        // Without it a copy is only slower.
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

/// Cuts `store` as `target` grows, until nothing is left or `over` says so.
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

/// What a copy occupies so far, under its own name or one that begins with it behind a dot, as copying programs have them.
fn taken(target: &Path) -> u64 {
    let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else { return 0 };
    let hidden = PathBuf::from(format!(".{}", name.to_string_lossy()));
    let is_it = |entry: &fs::DirEntry| {
        let found = entry.file_name();
        found == name || found.to_string_lossy().starts_with(&*hidden.to_string_lossy())
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().filter(is_it);
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
    fn memory_is_given_up_as_the_copy_grows_and_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (store, target) = (folder.path().join("store"), folder.path().join("copy"));
        let length = AHEAD * 3;
        File::create(&store).unwrap().set_len(length).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let thread = {
            let (store, target, over) = (store.clone(), target.clone(), over.clone());
            std::thread::spawn(move || give_up(&store, length, &target, &over))
        };
        let left = || fs::metadata(&store).unwrap().len();
        wait_until(|| left() == length - AHEAD);
        // Another program's name for what is not complete; a page of it.
        fs::write(folder.path().join(".copy.0123.lhpart"), [1; 4096]).unwrap();
        fs::write(folder.path().join("copy-of-something-else"), [1; 40960]).unwrap();
        wait_until(|| left() < length - AHEAD);
        assert!(left() > length - AHEAD - (1 << 20));
        over.store(true, Ordering::Relaxed);
        thread.join().unwrap();
    }

    #[test]
    fn nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let (blob, target) = (folder.path().join("blob"), folder.path().join("copy"));
        fs::write(&blob, [7; 100_000]).unwrap();
        let warm = Warm::for_copy(&blob, &target);
        fs::write(&target, [7; 100_000]).unwrap();
        drop(warm);
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["blob", "copy"]);
    }
}
