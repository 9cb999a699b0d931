//! How far the copy is, what it waits for, and the reports of each file.

use std::time::Instant;

use crate::end::{Info, Kind};
use crate::engine::Engine;
use crate::event::{Copied, CopiedKind};
use crate::item::Item;
use crate::names::{base_name, join};
use crate::progress::{Current, Wait};
use crate::tree::Dir;
use crate::{Direction, Event, Totals, Waits};

impl Engine {
    /// The file whose data move: its id, name, confirmed bytes and size.
    pub fn current(&self) -> Option<Current<'_>> {
        let file = self.tasks.files.values().filter(|file| file.moving()).min_by_key(|file| file.id)?;
        Some(Current {
            id: file.id,
            name: crate::base_name(&file.item.source),
            done: file.taken.kept + file.taken.confirmed,
            size: file.requests.size.max(file.taken.kept + file.taken.confirmed),
            kept: file.taken.kept,
        })
    }

    /// How far the whole copy has come.
    pub fn totals(&self) -> Totals {
        let waiting: usize =
            self.tree.walk.iter().filter_map(|&key| self.tree.dirs.get(key)).map(Dir::waiting_files).sum();
        let open: u64 = self
            .tasks
            .files
            .keys()
            .into_iter()
            .filter_map(|key| self.tasks.files.get(key))
            .map(|file| file.taken.kept)
            .sum();
        let kept = self.report.summary.kept + open;
        let top = self.tree.top.iter().filter(|item| item.info.kind != Kind::Dir).count();
        let all_found = self.prepare.finished()
            && self.tree.top.is_empty()
            && self.tree.walk.iter().filter_map(|&key| self.tree.dirs.get(key)).all(Dir::exhausted);
        Totals {
            files: self.report.summary.files,
            files_found: self.progress.files_found() + (waiting + top) as u64,
            bytes: self.report.summary.bytes + kept,
            bytes_found: self.progress.bytes_found,
            kept,
            in_flight: self.tasks.files.len(),
            all_found,
            all_opened: all_found && waiting == 0,
        }
    }

    /// What the copy has been waiting for, so far.
    pub const fn waits(&self) -> Waits {
        self.progress.waits
    }

    /// Nothing more can be done now: why?
    pub(super) fn begin_wait(&mut self, no_room: bool, now: Instant) {
        let upload = self.plan.direction == Direction::Upload;
        let wait = if upload && no_room && (self.tasks.unfinished.is_some() || !self.tasks.sending.is_empty())
        {
            Wait::Window
        } else if self.flow.requests() > 0 && (!upload || !self.room_in_flight()) {
            Wait::Answers
        } else {
            return;
        };
        self.progress.begin_wait(wait, now);
    }
}

impl Engine {
    /// A copy begins anew rather than behind what is there: between two servers only data that pass have a sum.
    pub(super) fn needs_all_data(&self) -> bool {
        self.options.sums.is_some() && self.plan.direction == Direction::Relay
    }

    /// Path of a copy from the target that the command line names; empty for the target itself.
    fn path_below_target(&self, target: &[u8]) -> Vec<u8> {
        let top = &self.plan.target[..];
        let below = |rest: &&[u8]| rest.is_empty() || top.ends_with(b"/") || rest.starts_with(b"/");
        let rest = target.strip_prefix(top).filter(below).unwrap_or(target);
        let parts = rest.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
        parts.collect::<Vec<_>>().join(&b'/')
    }

    /// Reports a file, or a link, that has its final name.
    pub(super) fn report_copied(&mut self, item: &Item, size: u64, kind: CopiedKind) {
        let info = Info { size: Some(size), ..item.info };
        self.push_copied(item.source.clone(), item.target.clone(), &info, kind);
    }

    /// Reports a file, or a link, that was at the target before, and is not copied.
    pub(super) fn report_unchanged(
        &mut self,
        source: Vec<u8>,
        target: Vec<u8>,
        info: &Info,
        link: Option<Vec<u8>>,
    ) {
        if !self.options.dry_run {
            let kind = link.map_or(CopiedKind::File(None), CopiedKind::Link);
            self.push_copied(source, target, info, kind);
        }
    }

    fn push_copied(&mut self, source: Vec<u8>, target: Vec<u8>, info: &Info, kind: CopiedKind) {
        if self.options.sums.is_none() {
            return;
        }
        self.report.event(Event::Copied(Box::new(Copied {
            path: self.path_below_target(&target),
            source,
            target,
            size: info.size.unwrap_or(0),
            modified: info.times.map(|times| times.modification),
            kind,
        })));
    }

    /// Reports which part of which tree was not copied.
    pub(super) fn report_missed(&mut self, item: &Item) {
        let path = item.parent.and_then(|parent| self.tree.dirs.get(parent)).map(|dir| dir.relative());
        let path = path.map(|above| join(above, base_name(&item.source)));
        self.report.missed(path);
    }
}
