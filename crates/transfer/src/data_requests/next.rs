//! Which READ or WRITE of file data goes next on a channel.
//!
//! Requests go out in the order of files and, within a file, from its start. Nothing waits for an answer but
//! by the depth of what is in flight. On the first channel a file that waits for confirmations is passed
//! over; an additional channel is for the file at the front, and for the small files that it is the home of.

use std::ops::ControlFlow::{Break, Continue};

use bytes::Bytes;
use lh_wire::Output;

use super::{DataRequests, SMALL_WRITE, Step, take_front};
use crate::Direction;
use crate::end::Fault;
use crate::ends::QUEUE_LIMIT;
use crate::remote::Remote;
use crate::table::Key;
use crate::task::File;
use crate::token::Side;

impl DataRequests<'_> {
    /// Takes the next step with the data of the end `side` on channel number `channel`. `passed`: how many
    /// files of the queue are passed over in this turn; 0 at its start.
    pub(crate) fn next_request(
        &mut self,
        side: Side,
        channel: usize,
        passed: &mut usize,
        out: &mut dyn Output,
    ) -> Step {
        match (self.direction, side) {
            (Direction::Upload, _) => self.send_next(channel, out),
            (_, Side::Source) if channel == 0 => self.request_in_turn(passed, out),
            (_, Side::Source) => self.request_of_front(channel, out),
            (_, Side::Target) => self.send_held(out),
        }
    }

    /// Upload: file after file into the send buffer, as long as it has space. A small file goes over its home
    /// alone.
    fn send_next(&mut self, channel: usize, out: &mut dyn Output) -> Step {
        if let Some(step) = self.go_on_with_write(channel, out) {
            return step;
        }
        let chunk = self.request_bytes(Side::Target);
        let home = |key: Key| self.tasks.files.get(key).map_or(0, |file| file.handles.home());
        if channel == 0 && self.tasks.sending.iter().all(|&key| home(key) > 0) {
            return Step::Idle;
        }
        let goes_here = |&(at, &key): &(usize, &Key)| {
            if home(key) == channel {
                return !self.waits_for_answers(key, chunk);
            }
            let spread = |file: &File| {
                file.handles.on_channel(Side::Target, channel).is_some() && file.next_write(chunk).is_some()
            };
            at == 0 && self.tasks.files.get(key).is_some_and(spread)
        };
        let Some((at, &key)) = self.tasks.sending.iter().enumerate().find(goes_here) else {
            return Step::Blocked;
        };
        let at_home = home(key) == channel;
        self.pass_hole(key);
        let Some(file) = self.tasks.files.get_mut(key) else {
            self.tasks.drop_sending(at);
            return Step::Blocked;
        };
        let chunk = self.ends.write_bytes(channel, file.handles.on_channel(Side::Target, channel), chunk);
        let Some((offset, left)) = file.next_write(chunk) else {
            if !at_home {
                return Step::Blocked;
            }
            file.requests.complete = true;
            self.tasks.drop_sending(at);
            return Step::Moved(key);
        };
        if !self.flow.rate.lets_pass(self.progress.now) || !self.has_room() {
            return Step::Blocked;
        }
        let want = left.min(chunk);
        let Some(remote) = self.remote(Side::Target, channel) else { return Step::Blocked };
        if at_home && want <= SMALL_WRITE {
            if remote.queued() > QUEUE_LIMIT && !remote.flush(out) {
                return Step::Blocked;
            }
            let sent = self.queue_small_write(key, channel, offset, want);
            return self.on_source_read(key, offset, sent);
        }
        if !remote.flush(out) {
            return Step::Blocked;
        }
        match self.write_from_file(key, channel, offset, want as usize, out) {
            Continue(sent) => self.on_source_read(key, offset, sent),
            Break(step) => step,
        }
    }

    /// Goes on with a WRITE that was begun. `None`: there is none, and the next one may follow.
    fn go_on_with_write(&mut self, channel: usize, out: &mut dyn Output) -> Option<Step> {
        match self.finish_write(channel, out) {
            Continue(key) => Some(Step::Moved(key)),
            Break(Step::Done) => None,
            Break(step) => Some(step),
        }
    }

    /// Looks at what reading the source at `offset` gave.
    fn on_source_read(&mut self, key: Key, offset: u64, sent: Result<usize, Fault>) -> Step {
        let fault = match sent {
            Ok(0) => self.source_ended(key, offset),
            Ok(n) => {
                self.count_write(key, offset, n);
                None
            }
            Err(fault) => Some(fault),
        };
        fault.map_or(Step::Done, |fault| Step::Failed(key, fault))
    }

    /// Download and relay: READs, file after file.
    fn request_in_turn(&mut self, passed: &mut usize, out: &mut dyn Output) -> Step {
        let chunk = self.request_bytes(Side::Source);
        let Some(&key) = self.tasks.sending.get(*passed) else { return Step::Idle };
        self.pass_hole(key);
        let waits = self.waits_for_answers(key, chunk);
        let Some(file) = self.tasks.files.get_mut(key) else { return Step::Blocked };
        if file.faults.failed
            || (file.requests.again.is_empty() && (file.requests.complete || file.requests.exhausted()))
        {
            file.requests.complete = true;
            file.queued.sending = false;
            self.tasks.sending.remove(*passed);
            self.tasks.look_at_source_ahead(key, self.ends, self.direction);
            return Step::Moved(key);
        }
        // The length of such a file is unknown: few READs at first, more as they come back full.
        let unsized_waits = file.requests.to_eof && file.requests.reads > file.requests.full_reads;
        let is_spread = !file.handles.on_channels.is_empty();
        if unsized_waits || waits || (is_spread && !self.has_share(0, chunk)) {
            *passed += 1;
            return Step::Done;
        }
        self.request_on(key, 0, chunk, out)
    }

    /// READs of the file at the front, onto an additional channel.
    fn request_of_front(&mut self, channel: usize, out: &mut dyn Output) -> Step {
        let chunk = self.request_bytes(Side::Source);
        let Some(&key) = self.tasks.sending.front() else { return Step::Blocked };
        self.pass_hole(key);
        let Some(file) = self.tasks.files.get(key) else { return Step::Blocked };
        let nothing_left = file.requests.again.is_empty() && file.request_end(chunk) <= file.requests.next;
        if file.faults.failed || nothing_left || file.handles.on_channel(Side::Source, channel).is_none() {
            return Step::Blocked;
        }
        self.request_on(key, channel, chunk, out)
    }

    fn request_on(&mut self, key: Key, channel: usize, chunk: u64, out: &mut dyn Output) -> Step {
        if !self.flow.rate.lets_pass(self.progress.now)
            || !self.has_room()
            || (channel > 0 && !self.has_share(channel, chunk))
        {
            return Step::Blocked;
        }
        let Some(remote) = self.remote(Side::Source, channel) else { return Step::Blocked };
        if remote.queued() > QUEUE_LIMIT && !remote.flush(out) {
            return Step::Blocked;
        }
        self.request_next(key, channel, chunk);
        Step::Done
    }

    /// Relay: what was read goes on, each file in order.
    fn send_held(&mut self, out: &mut dyn Output) -> Step {
        if let Some(step) = self.go_on_with_write(0, out) {
            return step;
        }
        let chunk = self.request_bytes(Side::Target);
        let mut at = 0;
        while let Some(&key) = self.tasks.writing.get(at) {
            let Some(file) = self.tasks.files.get_mut(key) else { return Step::Blocked };
            if file.faults.failed || file.relay.held.is_empty() {
                file.queued.writing = false;
                self.tasks.writing.remove(at);
                return Step::Moved(key);
            }
            file.write_behind_holes();
            let next = file.relay.write_at;
            match file.relay.held.remove(&next) {
                Some(pieces) => {
                    let chunk = self.ends.write_bytes(0, file.handles.target.as_ref(), chunk) as usize;
                    return self.send_pieces(key, pieces, chunk, out);
                }
                // The next bytes have not come yet.
                None => at += 1,
            }
        }
        Step::Blocked
    }

    /// Relay: the first of `pieces` of a file, which are the next ones to be written, as far as one WRITE
    /// takes them.
    fn send_pieces(&mut self, key: Key, mut pieces: Vec<Bytes>, chunk: usize, out: &mut dyn Output) -> Step {
        let Some(offset) = self.tasks.files.get(key).map(|file| file.relay.write_at) else {
            return Step::Blocked;
        };
        let held: usize = pieces.iter().map(Bytes::len).sum();
        let want = held.min(chunk);
        let first = take_front(&mut pieces, want);
        let summed = if self.options.reporting.sums.is_some() { first.clone() } else { Vec::new() };
        if let Err(unsent) = self.write_from_memory(key, offset, first, out) {
            // Put back what the channel did not take.
            if let Some(file) = self.tasks.files.get_mut(key) {
                file.relay.held.insert(offset, unsent.into_iter().chain(pieces).collect());
            }
            return Step::Blocked;
        }
        self.flow.in_flight.release(want as u64);
        let Some(file) = self.tasks.files.get_mut(key) else { return Step::Blocked };
        file.sums.content.add(offset, &summed, want);
        file.relay.write_at += want as u64;
        file.write_behind_holes();
        file.requests.writes += 1;
        if !pieces.is_empty() {
            file.relay.held.insert(file.relay.write_at, pieces);
        }
        Step::Done
    }

    /// The next request for the data of the file `key` waits for confirmations, and not for space in the
    /// window.
    fn waits_for_answers(&self, key: Key, chunk: u64) -> bool {
        let file = self.tasks.files.get(key);
        file.is_some_and(|file| file.requests.again.is_empty() && file.holds_back(chunk))
    }

    /// Returns true when channel number `channel` may have more requests on its way, so that all have
    /// something to do.
    fn has_share(&mut self, channel: usize, chunk: u64) -> bool {
        let share = self.flow.share(chunk, self.ends.servers());
        self.ends.requests_on(channel).is_some_and(|(awaited, _)| (awaited as u64) < share)
    }

    fn has_room(&self) -> bool {
        super::has_room(self.flow, self.reopening, self.tasks, self.ends)
    }

    /// Bytes of one request to the end `side`.
    fn request_bytes(&self, side: Side) -> u64 {
        self.flow.request_bytes(self.ends.request_bytes(side))
    }

    fn remote(&mut self, side: Side, channel: usize) -> Option<&mut Remote> {
        match channel {
            0 => self.ends.remote(side),
            _ => self.ends.channels.standing(channel),
        }
    }
}
