//! One large file on several channels: opened on each, asked for or sent on each, closed on each.

use crate::channels::AdditionalChannel;
use crate::end::{Done, Kind, Op, Outcome};
use crate::engine::Engine;
use crate::table::Key;
use crate::task::handles::{OnChannel, Plain};
use crate::token::{CheckStep, FileStep, Side, Token};

impl Engine {
    /// Opens the file whose data go next on the additional channels.
    pub(super) fn open_front_on_channels(&mut self) {
        let Some(&key) = self.tasks.sending.front() else { return };
        let side = self.plan.side_with_channels();
        if self.ends.remote(side).is_some_and(|remote| remote.one_at_a_time()) {
            return;
        }
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| Self::is_big(file)) else { return };
        if side == Side::Source && file.handles.plain == Plain::Unknown {
            // What the server said when it was opened.
            file.handles.plain = if file.item.info.kind == Kind::File { Plain::Yes } else { Plain::No };
        }
        let plain = file.handles.plain;
        match plain {
            Plain::Unknown => {
                // On one of them: on the first channel the question would wait behind data.
                let usable = |channel: &AdditionalChannel| channel.remote.ready() && !channel.remote.lost();
                let Some(at) = self.channels.all.iter().position(usable) else { return };
                file.handles.plain = Plain::No;
                file.outstanding += 1;
                let path = file.written_path().to_vec();
                return self.perform_on(at + 1, Op::Stat(&path), Token::File(key, FileStep::IsPlain));
            }
            Plain::No => return,
            Plain::Yes if side == Side::Target && !self.keeps_reopened(key) => return,
            Plain::Yes => {}
        }
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.handles.on_channels.resize_with(self.channels.all.len(), OnChannel::default);
        for (at, channel) in self.channels.all.iter_mut().enumerate() {
            let usable = channel.remote.ready() && !channel.remote.lost();
            if usable && matches!(file.handles.on_channels[at], OnChannel::Unknown) {
                file.handles.on_channels[at] = OnChannel::Without;
                file.outstanding += 1;
                let token = Token::File(key, FileStep::OpenOnChannel { channel: at + 1 });
                let op = match side {
                    Side::Source => Op::OpenRead(&file.item.source),
                    Side::Target => Op::OpenExisting(file.written_path()),
                };
                let outcome = channel.remote.perform(op, token);
                self.ends.answer_if_known(token, outcome);
            }
        }
    }

    /// A file that cannot be opened on a channel uses the others.
    pub(in crate::engine) fn opened_on_channel(&mut self, key: Key, channel: usize, outcome: Outcome) {
        self.reopened(key, channel, outcome.is_ok());
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let (Some(on_channel), Ok(Done::Opened(handle, _))) =
            (file.handles.on_channels.get_mut(channel - 1), outcome)
        else {
            return;
        };
        *on_channel = OnChannel::Open(handle.clone());
        if file.sums.ours.is_some() {
            file.outstanding += 1;
            let token = Token::File(key, FileStep::Check(CheckStep::SumBegun));
            self.perform_on(channel, Op::BeginSum(&handle, self.options.verify.read_back()), token);
        }
    }

    /// Closes what is open of a file on the additional channels; true while answers about them are awaited.
    pub(in crate::engine) fn close_on_channels(&mut self, key: Key) -> bool {
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        if file.handles.on_channels.is_empty() {
            return false;
        }
        let mut closing = Vec::new();
        for (at, on_channel) in file.handles.on_channels.iter_mut().enumerate() {
            if let OnChannel::Open(handle) = std::mem::replace(on_channel, OnChannel::Without) {
                closing.push((at, handle));
            }
        }
        file.outstanding += closing.len() as u32;
        let sum = file.sums.ours.is_some() && !file.faults.failed;
        if sum {
            file.outstanding += closing.len() as u32;
        }
        let waiting = file.outstanding > 0;
        // What a server could not write before shows here, as on the first channel.
        let close = match self.plan.side_with_channels() {
            Side::Source => FileStep::CloseOnChannel,
            Side::Target => FileStep::CloseTarget,
        };
        for (at, handle) in closing {
            if sum {
                let token = Token::File(key, FileStep::Check(CheckStep::ChannelSum));
                self.perform_on(at + 1, Op::EndSum(&handle), token);
            }
            self.perform_on(at + 1, Op::Close(handle), Token::File(key, close));
        }
        waiting
    }
}
