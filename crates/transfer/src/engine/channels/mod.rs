//! More channels than one, for large files, to and from servers whose limits are of each channel.
//!
//! OpenSSH's server grants 2 MiB for each channel and no more: over 50 ms that is 40 MB/s up. But it grants
//! them for each channel of a login, and each runs an SFTP server of its own. Down, what a server may be
//! asked at a time is limited for each channel: one that answers small READs only is soon left with nothing
//! to do. So a large file is opened on several, and each request goes where the window is open. Offsets are
//! requested in order over any number of channels. A file that is written under its final name has what is
//! under way within [`crate::task::handles::SPAN`]: one that was cut off is right up to its length less that,
//! and one of full length is complete, because its last piece goes when everything before it has been
//! confirmed. A file that grows under a part name needs no such care.
//!
//! Only plain files are copied so: in a pipe the order would be lost.

mod loss;

use std::time::Instant;

use bytes::Bytes;
use lh_sftp::extension;
use lh_wire::Output;

use crate::channels::Turn;
use crate::channels::spread::reopens_now;
use crate::channels::wanted::Demand;
use crate::engine::Engine;
use crate::file_work::SendWork;
use crate::remote::Remote;
use crate::task::File;
use crate::{Direction, Event};

impl Engine {
    /// The user has not said how many channels there are to be.
    pub(crate) const fn chooses_channels(&self) -> bool {
        self.options.chooses_channels()
    }

    /// Returns how many more channels would help now. Answer each with [`Engine::open_channel`] or
    /// [`Engine::channel_refused`].
    pub fn channels_wanted(&mut self) -> usize {
        let front = self.tasks.sending.front().and_then(|&key| self.tasks.files.get(key));
        let many = self.options.channels.is_some()
            && self.batches.has_sent()
            && !(self.tree.walk.is_empty() && self.tree.top.is_empty());
        let shared = front.is_some_and(File::is_big) || many;
        let first = self.ends.get(self.ends.channels.side());
        if self.plan.direction == Direction::Relay || !shared || self.ends.is_one_at_a_time() {
            return 0;
        }
        let demand = Demand {
            have: self.ends.channels.count(),
            channels: self.options.channels,
            window_grows: first.is_some_and(|remote| remote.session().supports(extension::PUT_FILES)),
            rate_limited: self.flow.has_rate(),
        };
        let wanted = self.channels.ask_for_more(demand);
        if wanted > 0 {
            let text = self.channels.notice(self.plan.direction, wanted, demand);
            self.report.event(Event::Notice { text });
        }
        wanted
    }

    /// Returns state that idle channels wait on: a change means that they may have work.
    pub(crate) fn turn(&self) -> Turn {
        let chunk = self.flow.request_bytes(self.ends.request_bytes(self.ends.channels.side()));
        let front = self.tasks.sending.front().copied();
        let file = front.and_then(|key| self.tasks.files.get(key));
        Turn {
            front,
            files: self.tasks.files.len(),
            room: self.room_in_flight(),
            held_back: file.is_some_and(|file| file.holds_back(chunk)),
            again: file.is_some_and(|file| !file.requests.again.is_empty()),
            reopens: reopens_now(self.channels.reopening, &self.tasks, &self.ends),
        }
    }

    /// Bytes of requests that wait to be sent on channel number `channel`; 0 is the first one.
    pub(crate) fn queue_of(&self, channel: usize) -> usize {
        self.ends.queue_of(channel)
    }

    /// An additional channel is open and the SFTP subsystem runs on it; returns its number, from 1.
    pub fn open_channel(&mut self) -> usize {
        self.channels.came();
        self.ends.channels.add()
    }

    /// There is to be no additional channel.
    pub fn channel_refused(&mut self) {
        if self.channels.refused(self.ends.channels.count()) {
            let text = "the server allows no more channels".to_owned();
            self.report.event(Event::Notice { text });
        }
    }

    /// Receives bytes of an additional channel.
    pub fn channel_received(&mut self, channel: usize, data: Bytes, now: Instant) {
        self.channel_take_in(channel, data, now);
        self.do_file_work();
    }

    /// Like [`Engine::take_in`], on an additional channel.
    pub fn channel_take_in(&mut self, channel: usize, data: Bytes, now: Instant) {
        self.progress.now = now;
        let Some(remote) = self.ends.channels.standing(channel) else { return };
        remote.input(data, now);
        loop {
            match self.ends.channels.get_mut(channel).map(Remote::poll) {
                None | Some(Ok(None)) => return,
                Some(Ok(Some(came))) => self.take(self.ends.channels.side(), came),
                Some(Err(error)) => return self.one_channel_lost(channel, &error.to_string(), now),
            }
        }
    }

    /// Like [`Engine::advance`], on an additional channel.
    pub fn advance_channel(&mut self, channel: usize, out: &mut dyn Output, now: Instant) {
        while let Some(work) = self.advance_channel_step(channel, out, now) {
            self.sent(work.carry_out(out));
        }
        self.do_file_work();
    }

    /// Like [`Engine::advance_step`], on an additional channel.
    pub fn advance_channel_step(
        &mut self,
        channel: usize,
        out: &mut dyn Output,
        now: Instant,
    ) -> Option<SendWork> {
        self.progress.now = now;
        loop {
            self.handle_answers();
            self.spread().open_front();
            if let Some(work) = self.move_data(self.ends.channels.side(), channel, out) {
                return Some(work);
            }
            self.handle_answers();
            let remote = self.ends.channels.standing(channel)?;
            if remote.queued() == 0 || !remote.flush(out) {
                break;
            }
        }
        self.look_at_window(channel, out);
        let (look_at, _) = self.ends.look_for_answers(self.options.answer_timeout, now, &mut self.report);
        self.flow.look_for_answers_at(look_at);
        if let Some(remote) = self.ends.channels.get_mut(channel) {
            remote.flush(out);
        }
        None
    }
    /// Notes that nothing can go because the server's window is shut, or has as many requests as it may.
    pub(in crate::engine) fn look_at_window(&mut self, channel: usize, out: &mut dyn Output) {
        let full = match self.plan.direction {
            Direction::Download => {
                let requests = self.ends.requests_on(channel).filter(|_| self.options.max_requests.is_none());
                requests.is_some_and(|(awaited, most)| awaited >= most)
            }
            Direction::Upload | Direction::Relay => out.peer_is_full() && self.room_in_flight(),
        };
        if full {
            self.channels.note_full(channel);
        }
    }
}
