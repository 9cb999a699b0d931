//! Removes a directory at the server with all that is in it.

use std::collections::{HashMap, HashSet};

use super::steps::{Entry, Kind, Outcome, Refusal, Step};
use crate::fault::Fault;

/// Levels of directories that are listed. A run makes three; a server may list a directory in itself.
pub(super) const MOST_LEVELS: usize = 4;

/// Removes as much of a directory as the server permits; `perform` does steps.
///
/// # Errors
/// The first step that the server refuses, after all others were done, or why the session has ended.
pub(super) fn remove_tree(
    path: &str,
    perform: &mut dyn FnMut(Vec<Step>) -> Result<Outcome, Fault>,
) -> Result<(), Fault> {
    let mut first = None;
    // Entries of unknown kind that cannot be removed as files, and why.
    let mut doubtful: HashMap<String, String> = HashMap::new();
    let mut levels = Vec::new();
    let mut level = vec![path.to_owned()];
    while !level.is_empty() && levels.len() < MOST_LEVELS {
        let listed = perform(level.iter().cloned().map(Step::List).collect())?;
        for refusal in still_there(listed.refused) {
            if !doubtful.contains_key(&refusal.path) {
                first.get_or_insert(refusal.to_string());
            }
        }
        let (directories, files): (Vec<Entry>, Vec<Entry>) =
            listed.entries.into_iter().partition(|entry| entry.kind == Kind::Directory);
        let of_unknown_kind: HashSet<String> = files
            .iter()
            .filter(|entry| entry.kind == Kind::Unknown)
            .map(|entry| entry.path.clone())
            .collect();
        let removed = perform(files.into_iter().map(|entry| Step::RemoveFile(entry.path)).collect())?;
        let mut deeper: Vec<String> = directories.into_iter().map(|entry| entry.path).collect();
        for refusal in still_there(removed.refused) {
            if of_unknown_kind.contains(&refusal.path) {
                deeper.push(refusal.path.clone());
                doubtful.insert(refusal.path.clone(), refusal.to_string());
            } else {
                first.get_or_insert(refusal.to_string());
            }
        }
        levels.push(std::mem::replace(&mut level, deeper));
    }
    levels.push(level);
    // The deepest first: a directory can only be removed after what is in it.
    for level in levels.into_iter().rev() {
        let removed = perform(level.into_iter().map(Step::RemoveDirectory).collect())?;
        for refusal in still_there(removed.refused) {
            let why = doubtful.remove(&refusal.path).unwrap_or_else(|| refusal.to_string());
            first.get_or_insert(why);
        }
    }
    first.map_or(Ok(()), |why| Err(Fault::Server(lh_client::sanitise(&why))))
}

/// The refusals of what is still at the server: it may have removed a name that it listed, such as that of
/// an upload that was interrupted.
fn still_there(refused: Vec<Refusal>) -> impl Iterator<Item = Refusal> {
    refused.into_iter().filter(|refusal| !refusal.is_missing)
}
