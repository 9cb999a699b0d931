//! One large file on several channels: opened on each, asked for or sent on each, closed on each.

use lh_wire::Output;

use crate::channels::Lane;
use crate::end::{Done, Kind, Op, Outcome};
use crate::engine::write::Step;
use crate::engine::{Engine, QUEUE_LIMIT};
use crate::file_work::SendWork;
use crate::table::Key;
use crate::task::stripes::{Plain, Stripe};
use crate::token::{CheckStep, FileStep, Side, Token};

impl Engine {
    /// Opens the file whose data go next on the additional channels.
    pub(super) fn stripe_front(&mut self) {
        let Some(&key) = self.tasks.sending.front() else { return };
        let side = self.plan.striped_side();
        if self.ends.remote(side).is_some_and(|remote| remote.one_at_a_time()) {
            return;
        }
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| Self::is_big(file)) else { return };
        if side == Side::Source && file.plain == Plain::Unknown {
            // What the server said when it was opened.
            file.plain = if file.item.info.kind == Kind::File { Plain::Yes } else { Plain::No };
        }
        match file.plain {
            Plain::Unknown => {
                // On one of them: on the first channel the question would wait behind data.
                let usable = |lane: &Lane| lane.remote.ready() && !lane.remote.lost();
                let Some(at) = self.channels.all.iter().position(usable) else { return };
                file.plain = Plain::No;
                file.outstanding += 1;
                let path = file.written_path().to_vec();
                return self.perform_on(at + 1, Op::Stat(&path), Token::File(key, FileStep::IsPlain));
            }
            Plain::No => return,
            Plain::Yes => file.stripes.resize_with(self.channels.all.len(), Stripe::default),
        }
        for (at, lane) in self.channels.all.iter_mut().enumerate() {
            let usable = lane.remote.ready() && !lane.remote.lost();
            if usable && matches!(file.stripes[at], Stripe::Unknown) {
                file.stripes[at] = Stripe::Without;
                file.outstanding += 1;
                let token = Token::File(key, FileStep::OpenStripe { lane: at + 1 });
                let op = match side {
                    Side::Source => Op::OpenRead(&file.item.source),
                    Side::Target => Op::OpenExisting(file.written_path()),
                };
                let outcome = lane.remote.perform(op, token);
                self.ends.answer_if_known(token, outcome);
            }
        }
    }

    /// What cannot be opened there is not striped there.
    pub(in crate::engine) fn stripe_opened(&mut self, key: Key, lane: usize, outcome: Outcome) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let (Some(stripe), Ok(Done::Opened(handle, _))) = (file.stripes.get_mut(lane - 1), outcome) else {
            return;
        };
        *stripe = Stripe::Open(handle.clone());
        if file.sum.is_some() {
            file.outstanding += 1;
            let token = Token::File(key, FileStep::Check(CheckStep::SumBegun));
            self.perform_on(lane, Op::BeginSum(&handle, self.options.verify.read_back()), token);
        }
    }

    /// Closes what is open of a file on the additional channels; true while answers about them are awaited.
    pub(in crate::engine) fn close_stripes(&mut self, key: Key) -> bool {
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        if file.stripes.is_empty() {
            return false;
        }
        let mut closing = Vec::new();
        for (at, stripe) in file.stripes.iter_mut().enumerate() {
            if let Stripe::Open(handle) = std::mem::replace(stripe, Stripe::Without) {
                closing.push((at, handle));
            }
        }
        file.outstanding += closing.len() as u32;
        let sum = file.sum.is_some() && !file.failed;
        if sum {
            file.outstanding += closing.len() as u32;
        }
        let waiting = file.outstanding > 0;
        // What a server could not write before shows here, as on the first channel.
        let close = match self.plan.striped_side() {
            Side::Source => FileStep::CloseStripe,
            Side::Target => FileStep::CloseTarget,
        };
        for (at, handle) in closing {
            if sum {
                let token = Token::File(key, FileStep::Check(CheckStep::StripeSum));
                self.perform_on(at + 1, Op::EndSum(&handle), token);
            }
            self.perform_on(at + 1, Op::Close(handle), Token::File(key, close));
        }
        waiting
    }

    /// READs onto an additional channel, as long as there is room.
    pub(super) fn request_stripes(&mut self, lane: usize, out: &mut dyn Output) {
        let chunk = self.request_bytes(Side::Source);
        loop {
            self.handle_answers();
            let Some(&key) = self.tasks.sending.front() else { return };
            self.pass_hole(key);
            let Some(file) = self.tasks.files.get(key) else { return };
            let nothing_left = file.again.is_empty() && file.request_end(chunk) <= file.requested;
            if file.failed || nothing_left || file.handle_on(Side::Source, lane).is_none() {
                return;
            }
            if !self.within_rate() || !self.room_in_flight() || !self.lane_has_room(lane, chunk) {
                return;
            }
            let Some(remote) = self.channels.lane(lane).filter(|remote| !remote.lost()) else { return };
            if remote.queued() > QUEUE_LIMIT && !remote.flush(out) {
                return;
            }
            self.request_next(key, lane, chunk);
        }
    }

    /// File bytes onto an additional channel, as long as there is room.
    pub(super) fn send_stripes(&mut self, lane: usize, out: &mut dyn Output) -> Option<SendWork> {
        let chunk = self.request_bytes(Side::Target);
        loop {
            self.handle_answers();
            match self.finish_write(lane, out) {
                Step::Done => {}
                Step::Blocked => return None,
                Step::Read(work) => return Some(work),
            }
            let &key = self.tasks.sending.front()?;
            self.pass_hole(key);
            let file = self.tasks.files.get(key)?;
            let (offset, left) = file.next_write(chunk)?;
            file.handle_on(Side::Target, lane)?;
            if !self.within_rate() || !self.room_in_flight() {
                return None;
            }
            let remote = self.channels.lane(lane).filter(|remote| !remote.lost())?;
            if !remote.flush(out) {
                return None;
            }
            match self.write_from_file(key, lane, offset, left.min(chunk) as usize, out) {
                Step::Done => {}
                Step::Blocked => return None,
                Step::Read(work) => return Some(work),
            }
        }
    }
}
