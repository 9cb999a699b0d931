//! How much may be asked for or sent now, and counting it.

use std::time::Duration;

use crate::Direction;
use crate::engine::{Engine, HANDLES_UNKNOWN};
use crate::flow::Servers;
use crate::remote::Remote;
use crate::table::Key;
use crate::token::{FileStep, Side, Token};

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
    pub(in crate::engine) fn room_in_flight(&self) -> bool {
        // A server of ours reads files when the window is open.
        let measured = self.ends.source.as_ref().is_some_and(|source| !source.is_ours());
        self.flow.has_room(measured, self.max_requests()) && !self.stops_to_reopen()
    }

    /// READs or WRITEs that may be in flight.
    pub(in crate::engine) fn max_requests(&self) -> usize {
        let servers = Servers {
            told_limits: self.ends.remotes().all(|remote| remote.session().has_told_limits()),
            take_many: self.ends.remotes().all(|remote| remote.session().takes_many_requests()),
        };
        self.flow.max_requests(servers, self.channels.channels_up())
    }

    /// Files that may be open at a time.
    pub(in crate::engine) fn max_open(&self) -> usize {
        self.flow.max_open(self.ends.remotes().map(handles_of).min().unwrap_or(usize::MAX))
    }

    /// Directories that may be open on the source at a time.
    pub(in crate::engine) fn max_open_dirs(&self) -> usize {
        self.flow.max_open_dirs(self.ends.source.as_ref().map(handles_of))
    }

    /// Directories that may be open on the target at a time, where it is listed.
    pub(in crate::engine) fn max_open_targets(&self) -> usize {
        self.flow.max_open_dirs(self.ends.target.as_ref().map(handles_of))
    }

    /// Takes in the round-trip time that the kernel has measured for the connection.
    pub fn expect_round_trip(&mut self, took: Duration) {
        self.flow.expect_round_trip(took);
    }

    /// Bytes of small files that are worth having in flight.
    pub(in crate::engine) fn worth_in_flight(&self) -> u64 {
        match self.plan.direction {
            Direction::Relay => u64::MAX,
            _ => self.flow.worth_in_flight(self.progress.bytes_found, self.channels.channels_up()),
        }
    }

    /// Files that are worth having open.
    pub(in crate::engine) fn worth_open(&self) -> usize {
        match self.plan.direction {
            Direction::Relay => usize::MAX,
            _ => self.flow.worth_open(self.progress.ids(), self.channels.channels_up()),
        }
    }

    /// Returns true when the rate limit lets a request pass now; else notes when it will.
    pub(in crate::engine) fn within_rate(&mut self) -> bool {
        self.flow.within_rate(self.progress.now)
    }

    pub(in crate::engine) fn request_bytes(&self, side: Side) -> u64 {
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
    pub(in crate::engine) fn pass_hole(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else { return };
        let passed = file.skip_hole();
        if passed > 0 {
            self.flow.no_longer_ahead(&mut file.queued.ahead, passed);
            self.leftovers.note_progress(file);
        }
    }

    /// Counts a request for `len` bytes of the file at its cursor.
    pub(in crate::engine) fn requested(&mut self, key: Key, len: u64) {
        self.flow.request(len);
        if let Some(file) = self.tasks.files.get_mut(key) {
            if file.requests.next == 0 {
                file.started = self.progress.now;
            }
            file.requests.next += len;
            self.flow.no_longer_ahead(&mut file.queued.ahead, len);
        }
    }

    /// The next READ of a file that has something left to be asked for, on channel number `channel`.
    pub(in crate::engine) fn request_next(&mut self, key: Key, channel: usize, chunk: u64) {
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

    pub(in crate::engine) fn expect_size(&mut self, key: Key, size: u64) {
        if let Some(file) = self.tasks.files.get_mut(key) {
            self.flow.expect(&mut file.queued.ahead, size);
            file.requests.size = size;
        }
    }
}
