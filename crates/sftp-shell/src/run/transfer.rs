//! `get` and `put`.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use lh_cli::progress::printable;
use lh_transfer::{Direction, Options, Placing, Reporting, base_name, join};

use super::unread;
use crate::command::CopyFlags;
use crate::paths::absolute;
use crate::shell::{Failed, Outcome, Shell};
use crate::show::Show;
use crate::words::unescape;
use crate::{glob, say};

/// A source and the name of its copy.
type Pair = (Vec<u8>, Vec<u8>);

/// The name of a copy in a directory. `..` and `/` are copied into the directory itself.
fn name_of(path: &[u8]) -> &[u8] {
    match base_name(path) {
        b".." | b"/" => b".",
        name => name,
    }
}

/// Returns `path` with a slash at its end if it is a directory.
fn marked(mut path: Vec<u8>, is_dir: bool) -> Vec<u8> {
    if is_dir && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path
}

fn is_local_dir(path: &[u8]) -> bool {
    std::fs::metadata(OsStr::from_bytes(path)).is_ok_and(|meta| meta.is_dir())
}

impl Shell {
    /// `get`; the pattern is absolute.
    pub(crate) fn get_matching(
        &mut self,
        flags: CopyFlags,
        pattern: &[u8],
        target: Option<&[u8]>,
    ) -> Outcome {
        let found = glob::remote(&mut self.remote, pattern);
        let found = found.map_err(|fault| unread(pattern, fault))?;
        if found.is_empty() {
            say(&format!("File \"{}\" not found.", printable(&unescape(pattern))));
            return Err(Failed::Command);
        }
        if target.is_some_and(<[u8]>::is_empty) {
            let reason = lh_sys::errno_text(&rustix::io::Errno::NOENT.into());
            say(&format!("open local \"\": {reason}"));
            return Err(Failed::Command);
        }
        let into = target.is_some_and(is_local_dir);
        if let Some(target) = target
            && found.len() > 1
            && !into
        {
            return Err(many_to_one("Multiple source paths", target));
        }
        let pairs = found.into_iter().map(|found| {
            let copy = match target {
                Some(target) if into => join(target, name_of(&found.path)),
                Some(target) => target.to_vec(),
                None => name_of(&found.path).to_vec(),
            };
            (marked(found.path, found.attrs.is_dir()), copy)
        });
        self.copy(Direction::Download, flags, pairs.collect())
    }

    pub(super) fn put(&mut self, flags: CopyFlags, pattern: &[u8], target: Option<&[u8]>) -> Outcome {
        let mut outcome = Ok(());
        let found = glob::local(pattern);
        let target = target.map(|target| absolute(target, &self.directory));
        let into = match &target {
            Some(target) => self.remote.is_dir(target)?,
            None => false,
        };
        if let Some(target) = &target
            && found.len() > 1
            && !into
        {
            return Err(many_to_one("Multiple paths match", target));
        }
        let mut pairs = Vec::new();
        for path in found {
            let is_dir = match std::fs::metadata(OsStr::from_bytes(&path)) {
                Ok(meta) => meta.is_dir(),
                Err(error) => {
                    let reason = lh_sys::errno_text(&error);
                    say(&format!("stat {}: {reason}", printable(&path)));
                    outcome = Err(Failed::Command);
                    continue;
                }
            };
            let copy = match &target {
                Some(target) if into => join(target, name_of(&path)),
                Some(target) => target.clone(),
                None => join(&self.directory, name_of(&path)),
            };
            pairs.push((marked(path, is_dir), copy));
        }
        self.copy(Direction::Upload, flags, pairs)?;
        outcome
    }

    /// Copies all pairs at the same time, except pairs with the same target, which follow one another.
    fn copy(&mut self, direction: Direction, flags: CopyFlags, mut pairs: Vec<Pair>) -> Outcome {
        let settings = &self.settings;
        let resume = flags.resume || settings.resume;
        let mut options = Options {
            recursive: flags.recursive || settings.recursive,
            preserve: flags.preserve || settings.preserve,
            placing: Placing { sync: flags.sync || settings.sync, resume, ..settings.copy.placing.clone() },
            follow_links: false,
            reporting: Reporting { begun: true, ..settings.copy.reporting },
            ..settings.copy.clone()
        };
        let mut outcome = Ok(());
        while !pairs.is_empty() && !self.remote.interrupted() {
            let mut taken = HashSet::new();
            let (now, later) = pairs.into_iter().partition(|(_, copy)| taken.insert(copy.clone()));
            pairs = later;
            let now: Vec<Pair> = now;
            let show = Show::new(direction, resume, &self.settings);
            let journal = self.settings.journals.as_ref().map(|journals| journals.of(direction, &now));
            options.placing.journal = journal;
            let summary = self.remote.copy(direction, now, options.clone(), show)?;
            if summary.failures > 0 {
                outcome = Err(Failed::Command);
            }
        }
        outcome
    }
}

fn many_to_one(what: &str, target: &[u8]) -> Failed {
    let target = printable(target);
    say(&format!("{what}, but destination \"{target}\" is not a directory"));
    Failed::Command
}
