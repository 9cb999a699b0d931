//! File bytes: which READ or WRITE goes next.
//!
//! Requests go out in the order of files and, within a file, from its start. Nothing waits for an answer but by
//! the depth of what is in flight.

use std::io::IoSliceMut;
use std::time::Duration;

use lh_wire::Output;

use crate::end::{Done, Fault, FaultKind, Outcome, fault_of};
use crate::engine::write::{SMALL_WRITE, Step, take_front};
use crate::engine::{Engine, HANDLES_UNKNOWN, QUEUE_LIMIT};
use crate::file_work::{FileWork, Job, SendWork, WriteWork};
use crate::flow::Servers;
use crate::remote::Remote;
use crate::table::Key;
use crate::token::{FileStep, Side, Token};
use crate::wording::{Deed, shrank};
use crate::{Direction, local};

/// What is asked for first of a file whose size says nothing.
const FIRST_OF_UNSIZED: u64 = 4096;

/// How many handles a server has for us.
fn handles_of(remote: &Remote) -> usize {
    match remote.session().limits().max_handles {
        0 => HANDLES_UNKNOWN,
        handles => usize::try_from(handles).unwrap_or(usize::MAX),
    }
}

impl Engine {
    pub(super) fn room_in_flight(&self) -> bool {
        // A server of ours reads files when the window is open.
        let measured = self.ends.source.as_ref().is_some_and(|source| !source.is_ours());
        self.flow.has_room(measured, self.max_requests())
    }

    /// READs or WRITEs that may be in flight.
    pub(super) fn max_requests(&self) -> usize {
        let servers = Servers {
            told_limits: self.ends.remotes().all(|remote| remote.session().has_told_limits()),
            take_many: self.ends.remotes().all(|remote| remote.session().takes_many_requests()),
        };
        self.flow.max_requests(servers, self.channels.channels_up())
    }

    /// Files that may be open at a time.
    pub(super) fn max_open(&self) -> usize {
        self.flow.max_open(self.ends.remotes().map(handles_of).min().unwrap_or(usize::MAX))
    }

    /// Directories that may be open on the source at a time.
    pub(super) fn max_open_dirs(&self) -> usize {
        self.flow.max_open_dirs(self.ends.source.as_ref().map(handles_of))
    }

    /// Directories that may be open on the target at a time, where it is listed.
    pub(super) fn max_open_targets(&self) -> usize {
        self.flow.max_open_dirs(self.ends.target.as_ref().map(handles_of))
    }

    /// Takes in the round-trip time that the kernel has measured for the connection.
    pub fn expect_round_trip(&mut self, took: Duration) {
        self.flow.expect_round_trip(took);
    }

    /// Bytes of small files that are worth having in flight.
    pub(super) fn worth_in_flight(&self) -> u64 {
        match self.plan.direction {
            Direction::Relay => u64::MAX,
            _ => self.flow.worth_in_flight(self.progress.bytes_found, self.channels.channels_up()),
        }
    }

    /// Files that are worth having open.
    pub(super) fn worth_open(&self) -> usize {
        match self.plan.direction {
            Direction::Relay => usize::MAX,
            _ => self.flow.worth_open(self.progress.ids(), self.channels.channels_up()),
        }
    }

    /// Returns true when the rate limit lets a request pass now; else notes when it will.
    pub(super) fn within_rate(&mut self) -> bool {
        self.flow.within_rate(self.progress.now)
    }

    pub(super) fn request_bytes(&self, side: Side) -> u64 {
        let remote = match side {
            Side::Source => &self.ends.source,
            Side::Target => &self.ends.target,
        };
        let server = remote.as_ref().map_or(0, |remote| match side {
            Side::Source => remote.session().read_len(),
            Side::Target => remote.session().write_len(),
        });
        let user = self.options.request_bytes.unwrap_or(u32::MAX);
        u64::from(server.min(user).min(self.flow.request_bytes()).max(1))
    }

    /// Passes over a hole that the next request would be about.
    pub(super) fn pass_hole(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else { return };
        let passed = file.skip_hole();
        if passed > 0 {
            self.flow.no_longer_ahead(&mut file.queued.ahead, passed);
            self.leftovers.note_progress(file);
        }
    }

    /// Counts a request for `len` bytes of the file at its cursor.
    fn requested(&mut self, key: Key, len: u64) {
        self.flow.request(len);
        if let Some(file) = self.tasks.files.get_mut(key) {
            if file.requests.next == 0 {
                file.started = self.progress.now;
            }
            file.requests.next += len;
            self.flow.no_longer_ahead(&mut file.queued.ahead, len);
        }
    }

    /// Upload: file after file into the send buffer, as long as it has space.
    pub(super) fn send_file_data(&mut self, out: &mut dyn Output) -> Option<SendWork> {
        let chunk = self.request_bytes(Side::Target);
        loop {
            self.handle_answers();
            match self.finish_write(0, out) {
                Step::Done => {}
                Step::Blocked => return None,
                Step::Read(work) => return Some(work),
            }
            // Files finish while we send: let the next ones be opened meanwhile.
            if self.tasks.sending.is_empty() {
                self.begin_work();
                self.handle_answers();
            }
            let holds_back = |key: &Key| {
                self.tasks
                    .files
                    .get(*key)
                    .is_some_and(|file| file.requests.again.is_empty() && file.holds_back(chunk))
            };
            let at = self.tasks.sending.iter().position(|key| !holds_back(key))?;
            let key = self.tasks.sending[at];
            self.pass_hole(key);
            let Some(file) = self.tasks.files.get_mut(key) else {
                self.tasks.drop_sending(at);
                return None;
            };
            let Some((offset, left)) = file.next_write(chunk) else {
                file.requests.complete = true;
                self.tasks.drop_sending(at);
                self.move_on(key);
                continue;
            };
            if !self.within_rate() || !self.room_in_flight() {
                return None;
            }
            let want = left.min(chunk);
            let remote = self.ends.target.as_mut()?;
            if want <= SMALL_WRITE {
                if remote.queued() > QUEUE_LIMIT && !remote.flush(out) {
                    return None;
                }
                let sent = self.queue_small_write(key, offset, want);
                self.sent_file_data(key, offset, sent);
                continue;
            }
            if !remote.flush(out) {
                return None;
            }
            match self.write_from_file(key, 0, offset, want as usize, out) {
                Step::Done => {}
                Step::Blocked => return None,
                Step::Read(work) => return Some(work),
            }
        }
    }

    /// The source has no bytes at `offset`.
    pub(super) fn source_ended(&mut self, key: Key, offset: u64) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.requests.complete = true;
        if !file.requests.to_eof {
            let fault = shrank(offset, file.requests.size);
            self.file_failed(key, Deed::ReadSource, &fault);
        }
    }

    /// Looks at what reading the source at `offset` gave, or will give.
    pub(super) fn sent_file_data(&mut self, key: Key, offset: u64, sent: Result<usize, Fault>) {
        match sent {
            Ok(0) => self.source_ended(key, offset),
            Ok(n) => {
                let Some(file) = self.tasks.files.get_mut(key) else { return };
                file.requests.writes += 1;
                if file.requests.sent_again(offset, n as u32) {
                    self.flow.request(n as u64);
                } else {
                    self.requested(key, n as u64);
                }
            }
            Err(fault) => self.file_failed(key, Deed::ReadSource, &fault),
        }
    }

    pub(super) fn queue_small_write(&mut self, key: Key, offset: u64, want: u64) -> Result<usize, Fault> {
        let (Some(file), Some(remote)) = (self.tasks.files.get(key), &mut self.ends.target) else {
            return Ok(0);
        };
        let (Some(source), Some(target)) = (&file.handles.source, &file.handles.target) else { return Ok(0) };
        let mut buffer = [0_u8; SMALL_WRITE as usize];
        let room = &mut buffer[..want as usize];
        let n = local::read_at(source, offset, &mut [IoSliceMut::new(room)])?;
        if n > 0
            && let Some(mut header) = remote.write_header(target, offset)
        {
            let step = FileStep::Write { offset, len: n as u32 };
            remote.queue_write(&mut header, &buffer[..n], Token::File(key, step));
        }
        if let Some(file) = self.tasks.files.get_mut(key).filter(|_| n > 0) {
            file.sums.content.add(offset, &[&buffer[..n]], n);
            if let Some(sum) = &mut file.sums.ours {
                sum.add(offset, &buffer[..n]);
            }
        }
        Ok(n)
    }

    /// Download and relay: READs, file after file.
    pub(super) fn request_data(&mut self, out: &mut dyn Output) {
        let chunk = self.request_bytes(Side::Source);
        let mut at = 0;
        loop {
            self.handle_answers();
            if at >= self.tasks.sending.len() {
                let before = self.tasks.sending.len();
                self.begin_work();
                self.handle_answers();
                if self.tasks.sending.len() <= before {
                    return;
                }
            }
            let Some(&key) = self.tasks.sending.get(at) else { return };
            self.pass_hole(key);
            let Some(file) = self.tasks.files.get_mut(key) else { return };
            if file.faults.failed
                || (file.requests.again.is_empty() && (file.requests.complete || file.requests.exhausted()))
            {
                file.requests.complete = true;
                file.queued.sending = false;
                self.tasks.sending.remove(at);
                self.tasks.look_at_source_ahead(key, &mut self.ends, self.plan.direction);
                self.move_on(key);
                continue;
            }
            // The length of such a file is unknown: few READs at first, more as they come back full.
            if file.requests.to_eof && file.requests.reads > file.requests.full_reads {
                at += 1;
                continue;
            }
            let waits = file.requests.again.is_empty() && file.holds_back(chunk);
            if waits || (!file.handles.on_channels.is_empty() && !self.channel_has_space(0, chunk)) {
                at += 1;
                continue;
            }
            if !self.within_rate() || !self.room_in_flight() {
                return;
            }
            let Some(remote) = &mut self.ends.source else { return };
            if remote.queued() > QUEUE_LIMIT && !remote.flush(out) {
                return;
            }
            self.request_next(key, 0, chunk);
        }
    }

    /// The next READ of a file that has something left to be asked for, on channel number `channel`.
    pub(super) fn request_next(&mut self, key: Key, channel: usize, chunk: u64) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let (offset, len, new) = match file.requests.again.pop() {
            Some((offset, len)) => (offset, len, 0),
            None => {
                let left = match file.requests.to_eof {
                    // Most files that are said to be empty are.
                    true if file.requests.full_reads == 0 => FIRST_OF_UNSIZED,
                    true => chunk,
                    false => file.requestable(chunk),
                };
                let len = left.min(chunk);
                (file.requests.next, len as u32, len)
            }
        };
        file.requests.reads += 1;
        let remote = self.channels.remote(&mut self.ends.source, channel);
        if let (Some(handle), Some(remote)) = (file.handles.on_channel(Side::Source, channel), remote) {
            let step = FileStep::Read { offset, len };
            remote.read(handle, offset, len, Token::File(key, step));
        }
        if new > 0 {
            self.requested(key, new);
        } else {
            self.flow.request_again(len.into());
        }
    }

    pub(super) fn read_answer(&mut self, key: Key, offset: u64, len: u32, outcome: Outcome) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if file.faults.failed {
            return;
        }
        match outcome {
            Ok(Done::Data(data)) if data.len() > len as usize => {
                let fault = Fault::other("the server sent more data than it was asked for");
                self.file_failed(key, Deed::ReadSource, &fault);
            }
            Ok(Done::Data(data)) if !data.is_empty() => {
                let got = data.len() as u32;
                if got < len {
                    self.tasks.ask_again(key, offset + u64::from(got), len - got);
                } else {
                    file.requests.full_reads = file.requests.full_reads.saturating_add(1);
                }
                self.flow.came(u64::from(got), self.progress.now);
                self.take_data(key, offset, data);
            }
            Ok(Done::Data(_)) | Err(Fault { kind: FaultKind::Eof, .. }) => {
                file.requests.complete = true;
                if !file.requests.to_eof {
                    let fault = shrank(offset, file.requests.size);
                    self.file_failed(key, Deed::ReadSource, &fault);
                }
            }
            outcome => {
                let fault = fault_of(outcome);
                self.file_failed(key, Deed::ReadSource, &fault);
            }
        }
    }

    fn take_data(&mut self, key: Key, offset: u64, data: lh_sftp::Data) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let len = data.len() as u64;
        if self.plan.direction == Direction::Relay {
            self.flow.hold(len);
            file.relay.held.insert(offset, data.into_chunks());
            if !std::mem::replace(&mut file.queued.writing, true) {
                self.tasks.writing.push_back(key);
            }
            return;
        }
        if file.handles.target.is_none() {
            return;
        }
        let growth = self.options.keep.sparse.then(|| file.holes.growth.clone());
        let sparse = growth.is_some() && offset >= file.holes.blank_from;
        file.holes.left_out |= sparse;
        file.requests.lent += 1;
        let sum = file.sums.ours.is_some().then(|| self.options.verify.read_back());
        let work = WriteWork { key, offset, data, target: None, growth, sparse, sum, content: None };
        self.ends.file_work.push_back(FileWork(Job::Write(work)));
    }

    /// Relay: what was read goes on, each file in order.
    pub(super) fn send_held_data(&mut self, out: &mut dyn Output) {
        let chunk = self.request_bytes(Side::Target) as usize;
        let mut at = 0;
        if !matches!(self.finish_write(0, out), Step::Done) {
            return;
        }
        while let Some(&key) = self.tasks.writing.get(at) {
            let Some(file) = self.tasks.files.get_mut(key) else { return };
            if file.faults.failed || file.relay.held.is_empty() {
                file.queued.writing = false;
                self.tasks.writing.remove(at);
                self.move_on(key);
                continue;
            }
            file.write_behind_holes();
            let next = file.relay.write_at;
            let Some(mut pieces) = file.relay.held.remove(&next) else {
                // The next bytes have not come yet.
                at += 1;
                continue;
            };
            let held: usize = pieces.iter().map(bytes::Bytes::len).sum();
            let want = held.min(chunk);
            let first = take_front(&mut pieces, want);
            let summed = if self.options.sums.is_some() { first.clone() } else { Vec::new() };
            if let Err(unsent) = self.write_from_memory(key, next, first, out) {
                // Put back what the channel did not take.
                if let Some(file) = self.tasks.files.get_mut(key) {
                    file.relay.held.insert(next, unsent.into_iter().chain(pieces).collect());
                }
                return;
            }
            self.flow.let_go(want as u64);
            let Some(file) = self.tasks.files.get_mut(key) else { return };
            file.sums.content.add(next, &summed, want);
            file.relay.write_at += want as u64;
            file.write_behind_holes();
            file.requests.writes += 1;
            if !pieces.is_empty() {
                file.relay.held.insert(file.relay.write_at, pieces);
            }
        }
    }
}
