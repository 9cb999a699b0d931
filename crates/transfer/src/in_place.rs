//! Opens targets under their final names, and continues behind what is there where that is asked for
//! (`reput`, `reget`).
//!
//! What is to be asked is started here; what follows for the file is returned as [`TargetNext`].

use std::cmp::Ordering;
use std::time::Instant;

use crate::end::{Done, Fault, FaultKind, Info, Kind, Op, Outcome, fault_of};
use crate::ends::Ends;
use crate::item::{BackupState, Item};
use crate::report::Reporter;
use crate::table::{Key, Table};
use crate::target_facts::UncommonOpens;
use crate::task::handles::{LEAST_LEFT, SPAN};
use crate::task::queues::Tasks;
use crate::task::state::{Access, Opening, State, Target};
use crate::token::{FileStep, Side, Token};
use crate::tree::Dir;
use crate::wording::FailedStep;
use crate::{Direction, Options, local, wording};

/// Why a file is not continued that cannot be compared.
pub(crate) const UNREADABLE: &str = "the server does not let it be read";

/// Why a file is not continued that holds less than before when it is open for writing.
pub(crate) const EMPTIES: &str = "the server empties a file that is opened once more";

/// Why a file is not written to over a second channel that is gone when it is opened there.
pub(crate) const REMOVES: &str = "the server removes a file that is opened once more";

/// Why a file is not continued on a server that answers no OPEN for that.
pub(crate) const IGNORES: &str = "the server does not answer when it is to be opened as it is";

/// The targets of the files on their way.
#[derive(Debug)]
pub(crate) struct Targets<'a> {
    pub(crate) direction: Direction,
    pub(crate) options: &'a Options,
    pub(crate) tasks: &'a mut Tasks,
    pub(crate) ends: &'a mut Ends,
    pub(crate) dirs: &'a Table<Dir>,
    pub(crate) report: &'a mut Reporter,
    pub(crate) now: Instant,
}

/// Next step for a file.
#[derive(Debug)]
pub(crate) enum TargetNext {
    /// Nothing before another answer has come.
    Wait,
    /// The target is open. `asked`: when it was requested, if that measures the path. The first `check` bytes
    /// are to be compared before data follow.
    Opened {
        asked: Option<Instant>,
        check: Option<u64>,
    },
    /// It is open for reading: its first bytes are compared, this many of them.
    Compare(u64),
    /// It cannot be continued, for this reason: it is opened once more, empty.
    Emptied(&'static str),
    /// Nothing of what is there can be relied on: it stays as it is until the copy is complete.
    Anew,
    Failed(FailedStep, Fault),
    /// It fails with this message.
    FailedWith(String),
}

impl Targets<'_> {
    /// Opens it, or asks first what has to be known for that.
    pub(crate) fn open(&mut self, key: Key) -> TargetNext {
        if let Some(item) = self.tasks.files.get(key).map(|file| &file.item)
            && self.is_not_continued(item)
        {
            return TargetNext::FailedWith(wording::not_written_over(item));
        }
        if self.ask_for_old_size(key) || self.open_to_compare(key) {
            return TargetNext::Wait;
        }
        self.open_for(key, self.first_access())
    }

    /// Returns true if the existing file is another one and could be replaced only by overwriting it.
    fn is_not_continued(&self, item: &Item) -> bool {
        let replaces = self.options.placing.resume && self.direction == Direction::Download;
        replaces
            && item.retry.fresh
            && !item.retry.was_wrong
            && matches!(
                local::perform(Op::Stat(&item.target)),
                Ok(Done::Info(Info { kind: Kind::File, size: Some(1..), .. }))
            )
    }

    /// Returns how a target that is not continued is opened first.
    fn first_access(&self) -> Access {
        if self.ends.facts.opens_like_scp() { Access::Emptied } else { Access::ReadWrite }
    }

    /// Opens for reading what is to be continued on a server other than ours. Returns false where there is
    /// nothing to compare so. Servers in front of object stores (rclone's without a cache) empty what is
    /// opened for writing, answer READs of such a handle with success and have zeros there then.
    fn open_to_compare(&mut self, key: Key) -> bool {
        let foreign = self.ends.is_foreign(Side::Target);
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        if !foreign || self.direction != Direction::Upload || file.faults.failed || file.taken.kept == 0 {
            return false;
        }
        file.outstanding += 1;
        file.state = State::Opening(Opening::InPlace(Access::Compared));
        let token = Token::File(key, FileStep::OpenContinued);
        self.ends.start(Side::Target, Op::OpenRead(&file.item.target), token);
        true
    }

    /// Takes the answer to that.
    pub(crate) fn opened_to_compare(&mut self, key: Key, outcome: Outcome) -> TargetNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return TargetNext::Wait };
        match outcome {
            Ok(Done::Opened(handle, _)) => {
                file.handles.target = Some(handle);
                if file.faults.failed { TargetNext::Wait } else { TargetNext::Compare(file.taken.kept) }
            }
            outcome => match fault_of(outcome) {
                fault if matches!(fault.kind, FaultKind::Lost | FaultKind::NotFound) => {
                    TargetNext::Failed(FailedStep::OpenTarget, fault)
                }
                _ => TargetNext::Emptied(UNREADABLE),
            },
        }
    }

    /// Opens a compared target for writing, to continue it.
    pub(crate) fn open_compared(&mut self, key: Key) -> TargetNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return TargetNext::Wait };
        if let Some(handle) = file.handles.target.take() {
            self.ends.start(Side::Target, Op::Close(handle), Token::Nothing);
        }
        file.started = self.now;
        self.open_for(key, Access::Compared)
    }

    /// What was compared is open for writing, and has this length. It is compared once more, now through the
    /// handle that writes: rclone's server without a cache still tells the old length of a file that it has
    /// emptied.
    pub(crate) fn size_continued(&mut self, key: Key, outcome: &Outcome) -> TargetNext {
        let Some(file) = self.tasks.files.get(key).filter(|file| !file.faults.failed) else {
            return TargetNext::Wait;
        };
        let kept = file.taken.kept;
        match outcome {
            Ok(Done::Info(info)) if info.size.is_some_and(|size| size >= kept) => {
                TargetNext::Opened { asked: None, check: Some(kept) }
            }
            _ => TargetNext::Emptied(EMPTIES),
        }
    }

    /// Asks how long the file is that the copy is written over, so that a longer one is emptied when it is
    /// opened. Returns false where there is nothing to ask. Servers that are not Longhaul may lose all data
    /// when a tail is cut off later.
    fn ask_for_old_size(&mut self, key: Key) -> bool {
        let foreign = self.ends.is_foreign(Side::Target);
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        let new = file.item.parent.and_then(|key| self.dirs.get(key)).is_some_and(Dir::created);
        if !foreign || new || file.item.retry.emptied || file.faults.failed || file.taken.kept > 0 {
            return false;
        }
        file.outstanding += 1;
        let token = Token::File(key, FileStep::OldSize);
        self.ends.start(Side::Target, Op::Stat(&file.item.target), token);
        true
    }

    /// Takes the answer to that.
    pub(crate) fn old_size_came(&mut self, key: Key, outcome: &Outcome) -> TargetNext {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else {
            return TargetNext::Wait;
        };
        if let Ok(Done::Info(Info { kind: Kind::File | Kind::Unknown, size: Some(size), .. })) = outcome {
            file.item.retry.emptied = *size > file.requests.size;
            file.handles.told = if file.item.retry.emptied { 0 } else { *size };
        }
        // OPEN alone is timed as one round trip.
        file.started = self.now;
        self.open_for(key, self.first_access())
    }

    fn open_for(&mut self, key: Key, access: Access) -> TargetNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return TargetNext::Wait };
        if file.item.sync.backup == BackupState::Due {
            let fault =
                Fault::other("the existing file cannot be replaced by a rename, so there would be no backup");
            return TargetNext::Failed(FailedStep::OpenTarget, fault);
        }
        file.outstanding += 1;
        file.state = State::Opening(Opening::InPlace(access));
        let item = &file.item;
        if self.direction == Direction::Download && self.options.follows_no_links(item) {
            local::remove_symlink(&item.target);
        }
        let (path, mode) = (&item.target[..], item.info.mode.unwrap_or(0o666) & 0o777);
        let op = match (self.ends.target.is_some(), access) {
            (true, Access::WriteOnly) => Op::OpenWriteOnly { path, mode },
            (true, Access::Emptied) => Op::OpenEmptied { path, mode },
            (true, Access::ReadWrite) if item.retry.emptied => Op::OpenEmptied { path, mode },
            (false, _) if self.options.placing.resume => Op::OpenContinued { path, mode },
            _ => Op::OpenWrite { path, mode },
        };
        self.ends.start(Side::Target, op, Token::File(key, FileStep::OpenTarget));
        TargetNext::Wait
    }

    /// Takes the answer to OPEN.
    pub(crate) fn opened(&mut self, key: Key, outcome: Outcome) -> TargetNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return TargetNext::Wait };
        let scp_like = file.item.retry.emptied
            || matches!(file.state, State::Opening(Opening::InPlace(Access::Emptied)));
        if !scp_like {
            self.ends.facts.uncommon_opens.note(&outcome);
        }
        let (handle, info) = match outcome {
            Ok(Done::Opened(handle, info)) => (handle, info),
            outcome => {
                let fault = fault_of(outcome);
                let final_ = matches!(fault.kind, FaultKind::Lost | FaultKind::NotFound);
                if fault.kind == FaultKind::Unanswered && !scp_like && !file.faults.failed {
                    match self.ends.facts.uncommon_opens {
                        UncommonOpens::Ignored if file.taken.kept > 0 => {
                            return TargetNext::Emptied(IGNORES);
                        }
                        UncommonOpens::Ignored => return self.open_for(key, Access::Emptied),
                        _ => {}
                    }
                }
                let may_be_made = fault.kind == FaultKind::NotFound && self.ends.is_foreign(Side::Target);
                if may_be_made && !scp_like && !file.faults.failed && file.taken.kept == 0 {
                    // Servers exist that make no file which is to be read as well (ssh-mitm).
                    return self.open_for(key, Access::Emptied);
                }
                let first = !matches!(
                    file.state,
                    State::Opening(Opening::InPlace(Access::WriteOnly | Access::Emptied))
                );
                if self.ends.target.is_some() && !final_ && !file.faults.failed && first {
                    // What may be written may not be allowed to be read.
                    return self.open_for(key, Access::WriteOnly);
                }
                return TargetNext::Failed(FailedStep::OpenTarget, fault);
            }
        };
        if matches!(file.state, State::Opening(Opening::InPlace(Access::Emptied))) {
            // For a reason that the next file has, too.
            self.ends.facts.uncommon_opens = UncommonOpens::Ignored;
        }
        file.handles.target = Some(handle);
        let asked = file.started;
        file.handles.old_size = info.filter(|info| info.kind == Kind::File).and_then(|info| info.size);
        file.holes.blank_from = file.handles.old_size.unwrap_or(u64::MAX);
        let compared = matches!(file.state, State::Opening(Opening::InPlace(Access::Compared)));
        file.state = State::Opened(Target::InPlace);
        if compared && file.taken.kept > 0 {
            file.outstanding += 1;
            let token = Token::File(key, FileStep::SizeContinued);
            self.ends.start(Side::Target, Op::Stat(&file.item.target), token);
            return TargetNext::Wait;
        }
        let goes_on =
            self.options.placing.resume && self.direction == Direction::Download && !file.item.retry.fresh;
        let there = file.handles.old_size.filter(|_| goes_on);
        if let Some(there) = there
            && let Some(next) = self.resume_behind(key, there)
        {
            self.tasks.leave_target_alone(key);
            return next;
        }
        let Some(file) = self.tasks.files.get_mut(key) else { return TargetNext::Wait };
        let kept = file.taken.kept;
        if let Some(there @ 1..) = there {
            // Nothing is cut off before more than that has come.
            file.handles.least = there;
            if kept > 0 || self.options.placing.atomic {
                file.handles.old_size = None;
            }
            if kept == 0 && self.options.placing.atomic {
                return TargetNext::Anew;
            }
        }
        // It may have been cut when it was opened, or be something else: a file of this host, too.
        let check = (kept > 0).then_some(kept);
        TargetNext::Opened { asked: Some(asked), check }
    }

    /// Begins behind the `there` bytes of the copy. What follows when there is nothing to do, or no way to do
    /// it.
    pub(crate) fn resume_behind(&mut self, key: Key, there: u64) -> Option<TargetNext> {
        let direction = self.direction;
        let Some(file) = self.tasks.files.get_mut(key) else { return Some(TargetNext::Wait) };
        if there == 0 {
            return None;
        }
        match there.cmp(&file.requests.size) {
            Ordering::Less => {
                // It may have come over several channels, and then its last [`SPAN`] bytes may have gaps.
                let unsure = file.requests.size >= LEAST_LEFT;
                if direction == Direction::Upload {
                    (file.handles.least, file.handles.told) = (there, there);
                }
                file.resume_at(if unsure { there.saturating_sub(SPAN) } else { there });
                None
            }
            Ordering::Greater => Some(TargetNext::FailedWith(wording::not_resumable(direction, &file.item))),
            Ordering::Equal => {
                let text = wording::complete(direction, &file.item);
                // What OpenSSH's exit status says of a file that was named; in a tree it is no failure.
                if direction == Direction::Upload && file.item.parent.is_none() {
                    return Some(TargetNext::FailedWith(text));
                }
                file.faults.failed = true;
                self.report.skip(text);
                Some(TargetNext::Wait)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Placing;
    use crate::task::File;

    use super::*;

    struct Host {
        options: Options,
        tasks: Tasks,
        ends: Ends,
        dirs: Table<Dir>,
        report: Reporter,
        key: Key,
    }

    impl Host {
        /// A file of 100 bytes, in this direction.
        fn new(direction: Direction, path: &[u8], options: Options) -> Self {
            let info = Info { kind: Kind::File, size: Some(100), ..Info::UNKNOWN };
            let mut file = File::new(0, Item::top(b"from".to_vec(), path.to_vec(), info), Instant::now());
            file.requests.size = 100;
            let mut tasks = Tasks::default();
            let key = tasks.files.insert(file);
            let (ends, report) = (Ends::new(direction), Reporter::new(&options));
            Self { options, tasks, ends, dirs: Table::new(), report, key }
        }

        fn targets(&mut self, direction: Direction) -> Targets<'_> {
            Targets {
                direction,
                options: &self.options,
                tasks: &mut self.tasks,
                ends: &mut self.ends,
                dirs: &self.dirs,
                report: &mut self.report,
                now: Instant::now(),
            }
        }

        fn file(&mut self) -> &mut File {
            self.tasks.files.get_mut(self.key).expect("the file")
        }
    }

    #[test]
    fn local_target_is_opened_at_once_and_resumed_on_request() {
        let dir = tempfile::tempdir().expect("a directory");
        for (there, resume, kept, fails) in
            [(40, true, 40, false), (40, false, 0, false), (100, true, 0, false), (120, true, 0, true)]
        {
            let path = dir.path().join("f");
            std::fs::write(&path, vec![7; there]).expect("a file");
            let path = path.to_string_lossy().into_owned().into_bytes();
            let mut host = Host::new(
                Direction::Download,
                &path,
                Options { placing: Placing { resume, ..Placing::default() }, ..Options::default() },
            );
            let key = host.key;
            assert!(matches!(host.targets(Direction::Download).open(key), TargetNext::Wait));
            let (_, outcome) = host.ends.next_answer().expect("an answer");
            let next = host.targets(Direction::Download).opened(key, outcome);
            assert_eq!(matches!(next, TargetNext::FailedWith(_)), fails, "{there}");
            let checked = (kept > 0).then_some(kept);
            let opened = matches!(next, TargetNext::Opened { check, .. } if check == checked);
            assert_eq!(opened, there == 40, "what is kept is compared first: {there}");
            assert_eq!(host.file().taken.kept, kept, "{there}");
            assert_eq!(host.file().faults.failed, there == 100, "what is complete is left alone");
        }
    }

    #[test]
    fn stock_servers_are_asked_for_write_only_opens_last() {
        let mut host = Host::new(Direction::Upload, b"f", Options::default());
        let key = host.key;
        assert!(matches!(host.targets(Direction::Upload).open(key), TargetNext::Wait));
        assert!(matches!(host.file().state, State::Probing(_)), "it is asked how long it is");
        let long = Info { kind: Kind::File, size: Some(101), ..Info::UNKNOWN };
        host.targets(Direction::Upload).old_size_came(key, &Ok(Done::Info(long)));
        assert!(host.file().item.retry.emptied);
        let denied = || Err(Fault::other("Permission denied"));
        let next = host.targets(Direction::Upload).opened(key, denied());
        assert!(matches!(next, TargetNext::Wait));
        assert!(matches!(host.file().state, State::Opening(Opening::InPlace(Access::WriteOnly))));
        let next = host.targets(Direction::Upload).opened(key, denied());
        assert!(matches!(next, TargetNext::Failed(FailedStep::OpenTarget, _)));
    }

    #[test]
    fn without_a_backup_nothing_is_written_over() {
        let mut host = Host::new(Direction::Upload, b"f", Options::default());
        let key = host.key;
        host.file().item.sync.backup = BackupState::Due;
        host.file().item.retry.emptied = true;
        assert!(matches!(
            host.targets(Direction::Upload).open(key),
            TargetNext::Failed(FailedStep::OpenTarget, _)
        ));
    }
}
