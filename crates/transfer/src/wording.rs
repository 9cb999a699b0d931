//! Messages, in the words of OpenSSH's `scp`: people search for them and scripts match on them.

use crate::Direction;
use crate::changed::Changed;
use crate::end::Fault;
use crate::item::Item;
use crate::names::display_name;

/// What was being done when it failed. Paths are the source's or the target's, as the name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    StatSource,
    OpenSource,
    ReadSource,
    OpenTarget,
    WriteTarget,
    /// Setting size, mode or times of a file.
    FinishTarget,
    SyncTarget,
    CloseTarget,
    /// Giving it its final name.
    PlaceTarget,
    /// Comparing it with the source.
    VerifyTarget,
    ListSource,
    MakeDir,
    FinishDir,
    DeleteTarget,
    ListTarget,
}

/// The line for what cannot be removed although a copy is to have its name.
pub(crate) fn in_the_way(target: &[u8], fault: &Fault) -> String {
    format!("\"{}\" is in the way of a copy and cannot be removed: {}", display_name(target), fault.text)
}

/// The line for `fault` while doing `deed` to `path`.
pub(crate) fn failed(direction: Direction, deed: Deed, path: &[u8], fault: &Fault) -> String {
    let path = display_name(path);
    let text = &fault.text;
    let source_local = direction == Direction::Upload;
    let target_local = direction == Direction::Download;
    match deed {
        Deed::StatSource if source_local => format!("stat local \"{path}\": {text}"),
        Deed::StatSource => format!("stat remote \"{path}\": {text}"),
        Deed::OpenSource if source_local => format!("open local \"{path}\": {text}"),
        Deed::OpenSource if direction == Direction::Relay => format!("origin open \"{path}\": {text}"),
        Deed::OpenSource => format!("remote open \"{path}\": {text}"),
        Deed::ReadSource if source_local => format!("read local \"{path}\": {text}"),
        Deed::ReadSource => format!("read remote \"{path}\" : {text}"),
        Deed::OpenTarget if target_local => format!("open local \"{path}\": {text}"),
        Deed::OpenTarget => format!("dest open \"{path}\": {text}"),
        Deed::WriteTarget if target_local => format!("write local \"{path}\": {text}"),
        Deed::WriteTarget => format!("write remote \"{path}\": {text}"),
        Deed::FinishTarget if target_local => format!("local set attributes of \"{path}\": {text}"),
        Deed::FinishTarget => format!("remote fsetstat \"{path}\": {text}"),
        Deed::SyncTarget if target_local => format!("local sync \"{path}\": {text}"),
        Deed::SyncTarget => format!("remote fsync \"{path}\": {text}"),
        Deed::CloseTarget if target_local => format!("close local \"{path}\": {text}"),
        Deed::CloseTarget => format!("close remote \"{path}\": {text}"),
        Deed::PlaceTarget if target_local => format!("local rename to \"{path}\": {text}"),
        Deed::PlaceTarget => format!("remote rename to \"{path}\": {text}"),
        Deed::VerifyTarget => format!("verify \"{path}\": {text}"),
        Deed::ListSource if source_local => format!("local opendir \"{path}\": {text}"),
        Deed::ListSource => format!("remote readdir(\"{path}\"): {text}"),
        Deed::MakeDir if target_local => format!("mkdir {path}: {text}"),
        Deed::MakeDir => format!("remote mkdir \"{path}\": {text}"),
        Deed::DeleteTarget if target_local => format!("delete local \"{path}\": {text}"),
        Deed::DeleteTarget => format!("delete remote \"{path}\": {text}"),
        Deed::ListTarget if target_local => format!("local opendir \"{path}\": {text}"),
        Deed::ListTarget => format!("dest readdir(\"{path}\"): {text}"),
        Deed::FinishDir if target_local => format!("local set times on \"{path}\": {text}"),
        Deed::FinishDir => format!("remote setstat \"{path}\": {text}"),
    }
}

/// A source named on the command line, or found behind a symlink, is a directory or something special.
pub(crate) fn not_regular(direction: Direction, path: &[u8]) -> String {
    let path = display_name(path);
    if direction == Direction::Upload {
        format!("local \"{path}\" is not a regular file")
    } else {
        format!("download {path}: not a regular file")
    }
}

/// An entry of a tree that is neither file nor directory.
pub(crate) fn skipped(direction: Direction, path: &[u8]) -> String {
    if direction == Direction::Upload {
        format!("{}: not a regular file", display_name(crate::base_name(path)))
    } else {
        format!("download \"{}\": not a regular file", display_name(path))
    }
}

/// A copy that was to be resumed is longer than its source.
pub(crate) fn not_resumable(direction: Direction, item: &Item) -> String {
    if direction == Direction::Upload {
        format!("resume \"{}\": destination file same size or larger", display_name(&item.source))
    } else {
        let target = display_name(&item.target);
        format!("Unable to resume download of \"{target}\": local file is larger than remote")
    }
}

/// A copy that was to be resumed is as long as its source.
pub(crate) fn complete(direction: Direction, item: &Item) -> String {
    if direction == Direction::Upload {
        not_resumable(direction, item)
    } else {
        format!("File \"{}\" was not modified", display_name(&item.target))
    }
}

/// A source was written to while it was read.
pub(crate) fn source_changed(path: &[u8], changed: Changed) -> String {
    format!("\"{}\": {}", display_name(path), changed.text())
}

/// The source ended before the size it had when it was opened.
pub(crate) fn shrank(copied: u64, size: u64) -> Fault {
    Fault::other(format!("file shrank while it was being copied: {copied} of {size} bytes"))
}
