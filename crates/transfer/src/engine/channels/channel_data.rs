//! File bytes on an additional channel: which READ or WRITE goes next.

use lh_wire::Output;

use crate::data_requests::Step;
use crate::ends::QUEUE_LIMIT;
use crate::engine::Engine;
use crate::file_work::SendWork;
use crate::token::Side;

impl Engine {
    /// READs onto an additional channel, as long as it takes them.
    pub(in crate::engine) fn request_on_channel(&mut self, channel: usize, out: &mut dyn Output) {
        let chunk = self.request_bytes(Side::Source);
        loop {
            self.handle_answers();
            let Some(&key) = self.tasks.sending.front() else { return };
            self.data_requests().pass_hole(key);
            let Some(file) = self.tasks.files.get(key) else { return };
            let nothing_left =
                file.requests.again.is_empty() && file.request_end(chunk) <= file.requests.next;
            if file.faults.failed || nothing_left || file.handles.on_channel(Side::Source, channel).is_none()
            {
                return;
            }
            if !self.flow.within_rate(self.progress.now)
                || !self.room_in_flight()
                || !self.has_share(channel, chunk)
            {
                return;
            }
            let Some(remote) = self.ends.channels.standing(channel) else { return };
            if remote.queued() > QUEUE_LIMIT && !remote.flush(out) {
                return;
            }
            self.data_requests().request_next(key, channel, chunk);
        }
    }

    /// File bytes onto an additional channel, as long as it takes them.
    pub(in crate::engine) fn send_on_channel(
        &mut self,
        channel: usize,
        out: &mut dyn Output,
    ) -> Option<SendWork> {
        let chunk = self.request_bytes(Side::Target);
        loop {
            self.handle_answers();
            match self.finish_write(channel, out) {
                Step::Done => {}
                Step::Blocked => return None,
                Step::Read(work) => return Some(work),
            }
            let &key = self.tasks.sending.front()?;
            self.data_requests().pass_hole(key);
            let file = self.tasks.files.get(key)?;
            let (offset, left) = file.next_write(chunk)?;
            file.handles.on_channel(Side::Target, channel)?;
            if !self.flow.within_rate(self.progress.now) || !self.room_in_flight() {
                return None;
            }
            let remote = self.ends.channels.standing(channel)?;
            if !remote.flush(out) {
                return None;
            }
            match self.write_from_file(key, channel, offset, left.min(chunk) as usize, out) {
                Step::Done => {}
                Step::Blocked => return None,
                Step::Read(work) => return Some(work),
            }
        }
    }
}
