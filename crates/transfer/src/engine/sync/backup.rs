//! Moving what is replaced or deleted to another directory of the target, under its path from the top of the target.

use crate::end::{Done, Fault, FaultKind, Op, Outcome};
use crate::engine::Engine;
use crate::names::{display_name, join};
use crate::sync::{Backup, Replaced};
use crate::table::Key;
use crate::token::{FileStep, NameStep, PlaceStep, RemovalStep, Side, SyncStep, Token};

/// Directories made for backups: what was private stays so.
const MODE: u32 = 0o700;

impl Engine {
    /// Where backups go.
    pub(in crate::engine) fn backup_root(&self) -> Option<Vec<u8>> {
        let directory = self.options.tree_sync.as_ref()?.backup_dir.as_deref()?;
        let parts = directory.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
        let top = if directory.starts_with(b"/") { b"/".to_vec() } else { self.plan.target.clone() };
        Some(parts.fold(top, |path, part| join(&path, part)))
    }

    pub(in crate::engine) fn backs_up(&self) -> bool {
        self.options.tree_sync.as_ref().is_some_and(|options| options.backup_dir.is_some())
    }

    fn backup_path(&self, from: &[u8]) -> Vec<u8> {
        let root = self.backup_root().unwrap_or_default();
        let below = from.strip_prefix(&self.plan.target[..]).unwrap_or(from);
        let start = below.iter().position(|&byte| byte != b'/').unwrap_or(below.len());
        join(&root, &below[start..])
    }

    /// What was to take the place of `from` did not: it gets its place back.
    pub(in crate::engine) fn restore_backup(&mut self, from: &[u8]) {
        let backup = self.backup_path(from);
        self.ends.start(Side::Target, Op::RenameNew { old: &backup, new: from }, Token::Nothing);
    }

    /// Moves `from` away; the answer goes to what waits for that.
    pub(in crate::engine) fn back_up(&mut self, from: Vec<u8>, whose: Replaced) {
        let to = self.backup_path(&from);
        let key = self.sync.backups.insert(Backup { from, to, whose, missing: None, making: false });
        self.move_away(key);
    }

    fn move_away(&mut self, key: Key) {
        let Some(backup) = self.sync.backups.get(key) else { return };
        let (old, new) = (backup.from.clone(), backup.to.clone());
        self.ends.start(Side::Target, Op::Rename { old: &old, new: &new }, Token::Backup(key));
    }

    pub(in crate::engine) fn backup_answer(&mut self, key: Key, outcome: Outcome) {
        // Of an absolute path the last directory is made, not those above it.
        let relative = self.options.tree_sync.as_ref().and_then(|options| options.backup_dir.as_deref());
        let relative = relative.is_some_and(|path| !path.starts_with(b"/"));
        let root = self.backup_root().unwrap_or_default();
        let exists = if relative { self.plan.target.len() + 1 } else { root.len() };
        let Some(backup) = self.sync.backups.get_mut(key) else { return };
        let lost = matches!(&outcome, Err(fault) if fault.kind == FaultKind::Lost);
        if std::mem::take(&mut backup.making) && !lost {
            // One that exists is made already; that will show.
            return self.make_missing(key);
        }
        let answer = match outcome {
            Ok(_) => Ok(Done::Ok),
            Err(fault) if lost => Err(fault),
            Err(_) if backup.missing.is_none() => {
                let to = &backup.to;
                let inside = to.iter().enumerate().filter(|(at, byte)| **byte == b'/' && *at >= exists);
                let missing: Vec<_> = inside.map(|(at, _)| to[..at].to_vec()).collect();
                backup.missing = Some(missing.into_iter().rev().collect());
                return self.make_missing(key);
            }
            Err(fault) => {
                let to = display_name(&backup.to);
                Err(Fault::other(format!("it cannot be moved to \"{to}\": {}", fault.text)))
            }
        };
        if let Some(backup) = self.sync.backups.remove(key) {
            let token = match backup.whose {
                Replaced::ByFile(key) => Token::File(key, FileStep::Place(PlaceStep::Backup)),
                Replaced::ByName(key) => Token::Name(key, NameStep::BackUp),
                Replaced::Compared(key) => Token::Sync(key, SyncStep::Cleared),
                Replaced::Deleted(key) => Token::Removal(key, RemovalStep::Delete),
            };
            self.ends.answer((token, answer));
        }
    }

    fn make_missing(&mut self, key: Key) {
        let Some(backup) = self.sync.backups.get_mut(key) else { return };
        match backup.missing.as_mut().and_then(Vec::pop) {
            Some(path) => {
                backup.making = true;
                self.ends.start(Side::Target, Op::Mkdir { path: &path, mode: MODE }, Token::Backup(key));
            }
            None => self.move_away(key),
        }
    }
}
