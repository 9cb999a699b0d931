//! Messages, in the words of OpenSSH's `scp`: people search for them and scripts match on them.

use std::time::Duration;

use crate::Direction;
use crate::changed::Changed;
use crate::end::Fault;
use crate::item::Item;
use crate::names::display_name;

/// Returns the message about a server that has not answered the first message of SFTP for `waited`.
pub fn no_version(waited: Duration) -> String {
    format!("the server has not answered INIT in {} s", waited.as_secs_f64())
}

/// The step that failed. Paths are the source's or the target's, as the name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailedStep {
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
    MakeSymlink,
    /// Making another name of a file.
    MakeLink,
    FinishDir,
    DeleteTarget,
    ListTarget,
}

/// The line for what cannot be removed although a copy is to have its name.
pub(crate) fn in_the_way(target: &[u8], fault: &Fault) -> String {
    format!("\"{}\" is in the way of a copy and cannot be removed: {}", display_name(target), fault.text)
}

/// The line for `fault` while doing `step` to `path`.
pub(crate) fn failed(direction: Direction, step: FailedStep, path: &[u8], fault: &Fault) -> String {
    let path = display_name(path);
    let text = &fault.text;
    let source_local = direction == Direction::Upload;
    let target_local = direction == Direction::Download;
    match step {
        FailedStep::StatSource if source_local => format!("stat local \"{path}\": {text}"),
        FailedStep::StatSource => format!("stat remote \"{path}\": {text}"),
        FailedStep::OpenSource if source_local => format!("open local \"{path}\": {text}"),
        FailedStep::OpenSource if direction == Direction::Relay => format!("origin open \"{path}\": {text}"),
        FailedStep::OpenSource => format!("remote open \"{path}\": {text}"),
        FailedStep::ReadSource if source_local => format!("read local \"{path}\": {text}"),
        FailedStep::ReadSource => format!("read remote \"{path}\" : {text}"),
        FailedStep::OpenTarget if target_local => format!("open local \"{path}\": {text}"),
        FailedStep::OpenTarget => format!("dest open \"{path}\": {text}"),
        FailedStep::WriteTarget if target_local => format!("write local \"{path}\": {text}"),
        FailedStep::WriteTarget => format!("write remote \"{path}\": {text}"),
        FailedStep::FinishTarget if target_local => format!("local set attributes of \"{path}\": {text}"),
        FailedStep::FinishTarget => format!("remote fsetstat \"{path}\": {text}"),
        FailedStep::SyncTarget if target_local => format!("local sync \"{path}\": {text}"),
        FailedStep::SyncTarget => format!("remote fsync \"{path}\": {text}"),
        FailedStep::CloseTarget if target_local => format!("close local \"{path}\": {text}"),
        FailedStep::CloseTarget => format!("close remote \"{path}\": {text}"),
        FailedStep::PlaceTarget if target_local => format!("local rename to \"{path}\": {text}"),
        FailedStep::PlaceTarget => format!("remote rename to \"{path}\": {text}"),
        FailedStep::VerifyTarget => format!("verify \"{path}\": {text}"),
        FailedStep::ListSource if source_local => format!("local opendir \"{path}\": {text}"),
        FailedStep::ListSource => format!("remote readdir(\"{path}\"): {text}"),
        FailedStep::MakeDir if target_local => format!("mkdir {path}: {text}"),
        FailedStep::MakeDir => format!("remote mkdir \"{path}\": {text}"),
        FailedStep::MakeSymlink if target_local => format!("local symlink \"{path}\": {text}"),
        FailedStep::MakeSymlink => format!("remote symlink \"{path}\": {text}"),
        FailedStep::MakeLink if target_local => format!("local link \"{path}\": {text}"),
        FailedStep::MakeLink => format!("remote link \"{path}\": {text}"),
        FailedStep::DeleteTarget if target_local => format!("delete local \"{path}\": {text}"),
        FailedStep::DeleteTarget => format!("delete remote \"{path}\": {text}"),
        FailedStep::ListTarget if target_local => format!("local opendir \"{path}\": {text}"),
        FailedStep::ListTarget => format!("dest readdir(\"{path}\"): {text}"),
        FailedStep::FinishDir if target_local => format!("local set times on \"{path}\": {text}"),
        FailedStep::FinishDir => format!("remote setstat \"{path}\": {text}"),
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

/// Message for a file that is not the one to be resumed, and could only be replaced by overwriting it.
pub(crate) fn not_written_over(item: &Item) -> String {
    let target = display_name(&item.target);
    format!("\"{target}\" cannot be continued, and is left as it is: copying all of it would write over it")
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
