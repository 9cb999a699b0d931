//! File bytes: which READ or WRITE goes next.
//!
//! Requests go out in the order of files and, within a file, from its start. Nothing waits for an answer but by
//! the depth of what is in flight.

use lh_wire::Output;

use crate::data_requests::{SMALL_WRITE, Step, take_front};
use crate::ends::QUEUE_LIMIT;
use crate::engine::Engine;
use crate::file_work::SendWork;
use crate::table::Key;
use crate::token::Side;

impl Engine {
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
            self.data_requests().pass_hole(key);
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
            if !self.flow.within_rate(self.progress.now) || !self.room_in_flight() {
                return None;
            }
            let want = left.min(chunk);
            let remote = self.ends.target.as_mut()?;
            if want <= SMALL_WRITE {
                if remote.queued() > QUEUE_LIMIT && !remote.flush(out) {
                    return None;
                }
                let sent = self.data_requests().queue_small_write(key, offset, want);
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
            self.data_requests().pass_hole(key);
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
            if waits || (!file.handles.on_channels.is_empty() && !self.has_share(0, chunk)) {
                at += 1;
                continue;
            }
            if !self.flow.within_rate(self.progress.now) || !self.room_in_flight() {
                return;
            }
            let Some(remote) = &mut self.ends.source else { return };
            if remote.queued() > QUEUE_LIMIT && !remote.flush(out) {
                return;
            }
            self.data_requests().request_next(key, 0, chunk);
        }
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
            if let Err(unsent) = self.data_requests().write_from_memory(key, next, first, out) {
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
