//! Paths of journals.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use lh_crypto::Hash;

use super::text::hex;

/// The directory of a user's journals: `$XDG_STATE_HOME/longhaul`, else `.local/state/longhaul` below `home`.
pub fn directory(state_home: Option<PathBuf>, home: &Path) -> PathBuf {
    let state = state_home.filter(|path| path.is_absolute());
    state.unwrap_or_else(|| home.join(".local/state")).join("longhaul")
}

/// The journal of the copy that `words` describe (direction, hosts, absolute paths: the same words, the same
/// journal), and of one `(number, of)` of its shards.
pub fn file_for(directory: &Path, words: &[&[u8]], shard: Option<(u32, u32)>) -> PathBuf {
    let mut hash = Hash::Sha256.start();
    for word in words {
        hash.update(&(word.len() as u64).to_be_bytes());
        hash.update(word);
    }
    let mut name = hex(&hash.finish().as_ref()[..10]);
    if let Some((number, of)) = shard {
        name.push_str(&format!(".{number}-of-{of}"));
    }
    directory.join(name + ".journal")
}

/// Whether the entry `name` of the local `directory` is this journal: a copy of the user's home directory
/// meets its own, which changes until the copy ends.
pub(crate) fn is_journal(journal: &Path, directory: &[u8], name: &[u8]) -> bool {
    if journal.file_name().is_none_or(|own| own.as_bytes() != name) {
        return false;
    }
    let entry = Path::new(OsStr::from_bytes(directory)).join(OsStr::from_bytes(name));
    matches!((journal.canonicalize(), entry.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Journals of other shards of the same copy: what has been done need not be done again, however it is
/// divided next time.
pub(super) fn siblings(path: &Path) -> Vec<PathBuf> {
    let stem = |path: &Path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".journal")?;
        Some(name.split('.').next().unwrap_or(name).to_owned())
    };
    let (Some(ours), Some(directory)) = (stem(path), path.parent()) else { return Vec::new() };
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|other| other != path && stem(other).as_ref() == Some(&ours))
        .collect()
}
