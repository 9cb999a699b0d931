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
//!
//! Small files go over several channels too, each over one of them ([`homes`](crate::channels::homes)).

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
        self.parts.options.limits.chooses_channels()
    }

    /// Others use the connection as well (`ControlMaster`): the sessions that its server permits are not
    /// taken from them for small files.
    pub(crate) const fn share_connection(&mut self, shares: bool) {
        self.parts.channels.shared = shares;
    }

    /// Returns how many more channels would help now. Answer each with [`Engine::open_channel`] or
    /// [`Engine::channel_refused`].
    pub fn channels_wanted(&mut self) -> usize {
        let front = self.parts.tasks.sending.front().and_then(|&key| self.parts.tasks.files.get(key));
        let many = self.parts.options.limits.channels.is_some()
            && self.parts.batches.has_sent()
            && !(self.parts.tree.walk.is_empty() && self.parts.tree.top.is_empty());
        let big = front.is_some_and(File::is_big);
        let small_files = !big && self.parts.wants_channels_for_small_files();
        let shared = big || many || small_files;
        let first = self.parts.ends.get(self.parts.ends.channels.side());
        if self.parts.plan.direction == Direction::Relay || !shared || self.parts.ends.is_one_at_a_time() {
            return 0;
        }
        let demand = Demand {
            have: self.parts.ends.channels.count(),
            channels: self.parts.options.limits.channels,
            window_grows: first.is_some_and(|remote| remote.session().supports(extension::PUT_FILES)),
            rate_limited: self.parts.flow.rate.is_set(),
            small_files,
        };
        let wanted = self.parts.channels.ask_for_more(demand);
        if wanted > 0 {
            let text = self.parts.channels.notice(self.parts.plan.direction, wanted, demand);
            self.parts.report.event(Event::Notice { text });
        }
        wanted
    }

    /// Returns state that idle channels wait on: a change means that they may have work.
    pub(crate) fn turn(&self) -> Turn {
        let chunk =
            self.parts.flow.request_bytes(self.parts.ends.request_bytes(self.parts.ends.channels.side()));
        let front = self.parts.tasks.sending.front().copied();
        let file = front.and_then(|key| self.parts.tasks.files.get(key));
        Turn {
            front,
            files: self.parts.tasks.files.len(),
            room: self.parts.room_in_flight(),
            held_back: file.is_some_and(|file| file.holds_back(chunk)),
            again: file.is_some_and(|file| !file.requests.again.is_empty()),
            reopens: reopens_now(self.parts.channels.reopening, &self.parts.tasks, &self.parts.ends),
        }
    }

    /// Returns true where the first channel would begin something, although an answer on any channel may be
    /// what makes it possible.
    pub(crate) fn may_begin_work(&mut self) -> bool {
        self.scheduler().may_begin_work()
    }

    /// Bytes of requests that wait to be sent on channel number `channel`; 0 is the first one.
    pub(crate) fn queue_of(&self, channel: usize) -> usize {
        self.parts.ends.queue_of(channel)
    }

    /// An additional channel is open and the SFTP subsystem runs on it; returns its number, from 1.
    pub fn open_channel(&mut self) -> usize {
        self.parts.channels.on_opened();
        self.parts.ends.channels.add()
    }

    /// There is to be no additional channel.
    pub fn channel_refused(&mut self) {
        if self.parts.channels.refused(self.parts.ends.channels.count()) {
            let text = "the server allows no more channels".to_owned();
            self.parts.report.event(Event::Notice { text });
        }
    }

    /// Receives bytes of an additional channel.
    pub fn channel_received(&mut self, channel: usize, data: Bytes, now: Instant) {
        self.channel_take_in(channel, data, now);
        self.do_file_work();
    }

    /// Like [`Engine::take_in`], on an additional channel.
    pub fn channel_take_in(&mut self, channel: usize, data: Bytes, now: Instant) {
        self.parts.progress.now = now;
        let Some(remote) = self.parts.ends.channels.standing(channel) else { return };
        remote.input(data, now);
        loop {
            match self.parts.ends.channels.get_mut(channel).map(Remote::poll) {
                None | Some(Ok(None)) => return,
                Some(Ok(Some(came))) => {
                    let side = self.parts.ends.channels.side();
                    self.scheduler().take(side, came);
                }
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
        self.parts.progress.now = now;
        loop {
            self.scheduler().handle_answers();
            self.parts.spread().open_front();
            if let Some(work) = self.move_data(self.parts.ends.channels.side(), channel, out) {
                return Some(work);
            }
            self.scheduler().handle_answers();
            let remote = self.parts.ends.channels.standing(channel)?;
            if remote.queued() == 0 || !remote.flush(out) {
                break;
            }
        }
        self.parts.look_at_window(channel, out);
        let (look_at, _) =
            self.parts.ends.look_for_answers(self.parts.options.timeouts.answer, now, &mut self.parts.report);
        self.parts.flow.look_for_answers_at(look_at);
        if let Some(remote) = self.parts.ends.channels.get_mut(channel) {
            remote.flush(out);
        }
        None
    }
}
