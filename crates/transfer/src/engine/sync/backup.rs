//! Moves what is replaced or deleted away, as [`crate::sync::backup`] says.

use crate::end::{Done, Op, Outcome};
use crate::engine::Engine;
use crate::sync::backup::{BackupStep, Replaced};
use crate::table::Key;
use crate::token::{FileStep, NameStep, PlaceStep, RemovalStep, Side, SyncStep, Token};

/// Directories made for backups: what was private stays so.
const MODE: u32 = 0o700;

impl Engine {
    /// What was to take the place of `from` did not: it gets its place back.
    pub(in crate::engine) fn restore_backup(&mut self, from: &[u8]) {
        let backup = self.sync.backups.path_of(&self.plan.target, from);
        self.ends.start(Side::Target, Op::RenameNew { old: &backup, new: from }, Token::Nothing);
    }

    /// Moves `from` away; the answer goes to what waits for that.
    pub(in crate::engine) fn back_up(&mut self, from: Vec<u8>, whose: Replaced) {
        let (key, step) = self.sync.backups.begin(&self.plan.target, from, whose);
        self.backup_step(key, step);
    }

    pub(in crate::engine) fn backup_answer(&mut self, key: Key, outcome: Outcome) {
        if let Some(step) = self.sync.backups.on_answer(&self.plan.target, key, outcome.map(drop)) {
            self.backup_step(key, step);
        }
    }

    fn backup_step(&mut self, key: Key, step: BackupStep) {
        match step {
            BackupStep::Rename { old, new } => {
                self.ends.start(Side::Target, Op::Rename { old: &old, new: &new }, Token::Backup(key));
            }
            BackupStep::Mkdir(path) => {
                self.ends.start(Side::Target, Op::Mkdir { path: &path, mode: MODE }, Token::Backup(key));
            }
            BackupStep::Done(whose, answer) => {
                let token = match whose {
                    Replaced::ByFile(key) => Token::File(key, FileStep::Place(PlaceStep::Backup)),
                    Replaced::ByName(key) => Token::Name(key, NameStep::BackUp),
                    Replaced::Compared(key) => Token::Sync(key, SyncStep::Cleared),
                    Replaced::Deleted(key) => Token::Removal(key, RemovalStep::Delete),
                };
                self.ends.answer((token, answer.map(|()| Done::Ok)));
            }
        }
    }
}
