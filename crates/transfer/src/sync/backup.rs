//! Moving what is replaced or deleted to another directory of the target, under its path from the top of the
//! target.
//!
//! Each is a series of steps at the target's end; the answer to one decides about the next.

use crate::end::{Done, Fault, FaultKind, Op, Outcome};
use crate::ends::Ends;
use crate::names::{display_name, join};
use crate::table::{Key, Table};
use crate::token::{FileStep, NameStep, PlaceStep, RemovalStep, Side, SyncStep, Token};

/// Mode of directories made for backups: what was private stays so.
const MODE: u32 = 0o700;

/// The work that continues when the old file has been moved away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaced {
    ByFile(Key),
    ByName(Key),
    Compared(Key),
    Deleted(Key),
}

impl Replaced {
    /// The token of the answer that it waits for.
    const fn token(self) -> Token {
        match self {
            Self::ByFile(key) => Token::File(key, FileStep::Place(PlaceStep::Backup)),
            Self::ByName(key) => Token::Name(key, NameStep::BackUp),
            Self::Compared(key) => Token::Sync(key, SyncStep::Cleared),
            Self::Deleted(key) => Token::Removal(key, RemovalStep::Delete),
        }
    }
}

/// Operation at the target's end.
#[derive(Debug, PartialEq, Eq)]
enum BackupStep {
    Rename {
        old: Vec<u8>,
        new: Vec<u8>,
    },
    Mkdir(Vec<u8>),
    /// It is moved away, or cannot be.
    Done(Replaced, Result<(), Fault>),
}

/// Something that is being moved away.
#[derive(Debug)]
struct Backup {
    from: Vec<u8>,
    to: Vec<u8>,
    whose: Replaced,
    /// Directories that are still to be made, the last one first; none before the first attempt.
    missing: Option<Vec<Vec<u8>>>,
    /// One of them is being made.
    making: bool,
}

impl Backup {
    fn next(&mut self) -> BackupStep {
        match self.missing.as_mut().and_then(Vec::pop) {
            Some(path) => {
                self.making = true;
                BackupStep::Mkdir(path)
            }
            None => BackupStep::Rename { old: self.from.clone(), new: self.to.clone() },
        }
    }
}

/// Files that are being moved away. `top` is the target of the copy in each call.
#[derive(Debug)]
pub(crate) struct Backups {
    /// See [`crate::TreeSync::backup_dir`].
    directory: Option<Vec<u8>>,
    under_way: Table<Backup>,
}

impl Backups {
    pub(crate) const fn new(directory: Option<Vec<u8>>) -> Self {
        Self { directory, under_way: Table::new() }
    }

    /// The directory that backups go to.
    pub(crate) fn root(&self, top: &[u8]) -> Option<Vec<u8>> {
        let directory = self.directory.as_deref()?;
        let parts = directory.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
        let top = if directory.starts_with(b"/") { b"/" } else { top };
        Some(parts.fold(top.to_vec(), |path, part| join(&path, part)))
    }

    /// Moves `from` away. `whose` gets the answer.
    pub(crate) fn back_up(&mut self, ends: &mut Ends, top: &[u8], from: Vec<u8>, whose: Replaced) {
        let (key, step) = self.begin(top, from, whose);
        carry_out(ends, key, step);
    }

    /// Continues with the answer to the last step of `key`.
    pub(crate) fn answered(&mut self, ends: &mut Ends, top: &[u8], key: Key, outcome: Outcome) {
        if let Some(step) = self.on_answer(top, key, outcome.map(drop)) {
            carry_out(ends, key, step);
        }
    }

    /// Moves `from` back to its place, as nothing else has taken that.
    pub(crate) fn restore(&self, ends: &mut Ends, top: &[u8], from: &[u8]) {
        let backup = self.path_of(top, from);
        ends.start(Side::Target, Op::RenameNew { old: &backup, new: from }, Token::Nothing);
    }

    /// Returns the backup path of `from`.
    fn path_of(&self, top: &[u8], from: &[u8]) -> Vec<u8> {
        let root = self.root(top).unwrap_or_default();
        let below = from.strip_prefix(top).unwrap_or(from);
        let start = below.iter().position(|&byte| byte != b'/').unwrap_or(below.len());
        join(&root, &below[start..])
    }

    /// Moves `from` away; `whose` comes with the last step.
    fn begin(&mut self, top: &[u8], from: Vec<u8>, whose: Replaced) -> (Key, BackupStep) {
        let to = self.path_of(top, &from);
        let step = BackupStep::Rename { old: from.clone(), new: to.clone() };
        (self.under_way.insert(Backup { from, to, whose, missing: None, making: false }), step)
    }

    /// Handles the answer to the last step of `key`.
    fn on_answer(&mut self, top: &[u8], key: Key, answer: Result<(), Fault>) -> Option<BackupStep> {
        // For an absolute path only the last directory is created, not its parents.
        let relative = self.directory.as_deref().is_some_and(|path| !path.starts_with(b"/"));
        let exists = if relative { top.len() + 1 } else { self.root(top).unwrap_or_default().len() };
        let backup = self.under_way.get_mut(key)?;
        let lost = matches!(&answer, Err(fault) if fault.kind == FaultKind::Lost);
        if std::mem::take(&mut backup.making) && !lost {
            // One that exists is made already; that will show.
            return Some(backup.next());
        }
        let answer = match answer {
            Err(fault) if !lost && backup.missing.is_some() => {
                let to = display_name(&backup.to);
                Err(Fault::other(format!("it cannot be moved to \"{to}\": {}", fault.text)))
            }
            Err(_) if !lost => {
                let to = &backup.to;
                let inside = to.iter().enumerate().filter(|(at, byte)| **byte == b'/' && *at >= exists);
                let missing: Vec<_> = inside.map(|(at, _)| to[..at].to_vec()).collect();
                backup.missing = Some(missing.into_iter().rev().collect());
                return Some(backup.next());
            }
            answer => answer,
        };
        self.under_way.remove(key).map(|backup| BackupStep::Done(backup.whose, answer))
    }
}

fn carry_out(ends: &mut Ends, key: Key, step: BackupStep) {
    match step {
        BackupStep::Rename { old, new } => {
            ends.start(Side::Target, Op::Rename { old: &old, new: &new }, Token::Backup(key));
        }
        BackupStep::Mkdir(path) => {
            ends.start(Side::Target, Op::Mkdir { path: &path, mode: MODE }, Token::Backup(key));
        }
        BackupStep::Done(whose, answer) => ends.answer((whose.token(), answer.map(|()| Done::Ok))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::Direction;

    use super::*;

    #[test]
    fn files_are_moved_away_and_back_at_the_target() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = dir.path().to_string_lossy().into_owned().into_bytes();
        let file = dir.path().join("a/f");
        fs::create_dir(dir.path().join("a")).expect("a directory");
        fs::write(&file, "old").expect("a file");
        let mut ends = Ends::new(Direction::Download);
        let mut backups = Backups::new(Some(b"kept".to_vec()));
        backups.back_up(&mut ends, &top, join(&top, b"a/f"), Replaced::ByName(7));
        let last = loop {
            match ends.next_answer().expect("an answer") {
                (Token::Backup(key), outcome) => backups.answered(&mut ends, &top, key, outcome),
                last => break last,
            }
        };
        assert!(matches!(last, (Token::Name(7, NameStep::BackUp), Ok(Done::Ok))), "{last:?}");
        assert!(!file.exists());
        assert_eq!(fs::read(dir.path().join("kept/a/f")).ok().as_deref(), Some(&b"old"[..]));
        backups.restore(&mut ends, &top, &join(&top, b"a/f"));
        assert_eq!(fs::read(&file).ok().as_deref(), Some(&b"old"[..]));
    }

    fn mkdir(path: &str) -> Option<BackupStep> {
        Some(BackupStep::Mkdir(path.into()))
    }

    fn rename(old: &str, new: &str) -> BackupStep {
        BackupStep::Rename { old: old.into(), new: new.into() }
    }

    fn no() -> Result<(), Fault> {
        Err(Fault::other("No such file or directory"))
    }

    #[test]
    fn directories_are_made_only_when_the_rename_fails() {
        for (directory, made, to) in [
            ("old", &["t/old", "t/old/a", "t/old/a/b"][..], "t/old/a/b/f"),
            ("/o/ld/.", &["/o/ld", "/o/ld/a", "/o/ld/a/b"], "/o/ld/a/b/f"),
        ] {
            let mut backups = Backups::new(Some(directory.into()));
            let (key, step) = backups.begin(b"t", b"t/a/b/f".to_vec(), Replaced::ByFile(3));
            assert_eq!(step, rename("t/a/b/f", to));
            assert_eq!(backups.on_answer(b"t", key, no()), mkdir(made[0]));
            // One existing directory says nothing about the next.
            assert_eq!(backups.on_answer(b"t", key, no()), mkdir(made[1]));
            assert_eq!(backups.on_answer(b"t", key, Ok(())), mkdir(made[2]));
            assert_eq!(backups.on_answer(b"t", key, Ok(())), Some(rename("t/a/b/f", to)));
            let done = BackupStep::Done(Replaced::ByFile(3), Ok(()));
            assert_eq!(backups.on_answer(b"t", key, Ok(())), Some(done));
            assert_eq!(backups.on_answer(b"t", key, Ok(())), None, "it is over");
        }
    }

    #[test]
    fn a_rename_that_fails_twice_is_a_failure() {
        let mut backups = Backups::new(Some(b"old".to_vec()));
        let (key, _) = backups.begin(b"t", b"t/f".to_vec(), Replaced::Deleted(1));
        assert_eq!(backups.on_answer(b"t", key, no()), mkdir("t/old"));
        assert_eq!(backups.on_answer(b"t", key, Ok(())), Some(rename("t/f", "t/old/f")));
        let Some(BackupStep::Done(Replaced::Deleted(1), Err(fault))) = backups.on_answer(b"t", key, no())
        else {
            panic!("it is over");
        };
        assert!(fault.text.starts_with("it cannot be moved to \"t/old/f\": No such"), "{}", fault.text);
    }

    #[test]
    fn a_lost_connection_ends_it_at_once() {
        let lost = Fault { kind: FaultKind::Lost, text: "Connection closed".to_owned() };
        for making in [false, true] {
            let mut backups = Backups::new(Some(b"old".to_vec()));
            let (key, _) = backups.begin(b"t", b"t/f".to_vec(), Replaced::ByName(1));
            if making {
                assert_eq!(backups.on_answer(b"t", key, no()), mkdir("t/old"));
            }
            let done = BackupStep::Done(Replaced::ByName(1), Err(lost.clone()));
            assert_eq!(backups.on_answer(b"t", key, Err(lost.clone())), Some(done));
        }
    }
}
