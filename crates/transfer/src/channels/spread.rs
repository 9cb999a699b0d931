//! One large file on several channels: opened on each, asked for or sent on each, closed on each.

use bytes::Bytes;
use lh_sftp::{ReadBack, extension};

use crate::channels::reopening::{Known, Remains, Reopening, SecondOpen};
use crate::end::{Done, Fault, FaultKind, Handle, Kind, Op, Outcome};
use crate::ends::Ends;
use crate::local;
use crate::remote::Remote;
use crate::table::Key;
use crate::task::check::SAMPLE;
use crate::task::handles::{OnChannel, Plain};
use crate::task::queues::Tasks;
use crate::token::{CheckStep, FileStep, Side, Token};

/// Files on their way and the channels that they go over.
#[derive(Debug)]
pub(crate) struct Spread<'a> {
    pub(crate) tasks: &'a mut Tasks,
    pub(crate) ends: &'a mut Ends,
    pub(crate) reopening: &'a mut Reopening,
}

/// Returns true where no file bytes are to go until it is known what a second OPEN does.
pub(crate) fn stops_to_reopen(reopening: Reopening, tasks: &Tasks, ends: &Ends) -> bool {
    let Some(key) = reopening.asking() else { return false };
    // A server that turns out to have one file open at a time meanwhile is not asked any more.
    tasks.sending.front() == Some(&key)
        && !ends.is_one_at_a_time()
        && ends.channels_up() > 1
        && tasks.files.get(key).is_some_and(|file| file.is_big())
}

/// Returns true where everything that was sent is confirmed, and what another OPEN does to the file is the
/// next question.
pub(crate) fn reopens_now(reopening: Reopening, tasks: &Tasks, ends: &Ends) -> bool {
    let Some(key) = reopening.asking() else { return false };
    stops_to_reopen(reopening, tasks, ends)
        && tasks.files.get(key).is_some_and(|file| {
            let requests = &file.requests;
            requests.in_flight() == 0
                && requests.half_sent == 0
                && requests.lent == 0
                && requests.again.is_empty()
                && !file.handles.reopens
        })
}

/// Returns true where the local file `source` has these bytes at `offset`. Servers may return fewer than
/// requested, but not none.
fn begins_with(source: Option<&Handle>, offset: u64, chunks: &[Bytes]) -> bool {
    let read: Vec<u8> = chunks.concat();
    let Some(handle) = source.filter(|_| !read.is_empty()) else { return false };
    match local::perform(Op::Peek { handle, offset, len: read.len() as u32 }) {
        Ok(Done::Data(data)) => data.chunks().concat() == read,
        _ => false,
    }
}

impl Spread<'_> {
    /// Opens the file whose data go next on the additional channels.
    pub(crate) fn open_front(&mut self) {
        let Some(&key) = self.tasks.sending.front() else { return };
        let side = self.ends.channels.side();
        if self.ends.is_one_at_a_time() {
            return;
        }
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| file.is_big()) else { return };
        if side == Side::Source && file.handles.plain == Plain::Unknown {
            // What the server said when it was opened.
            file.handles.plain = if file.item.info.kind == Kind::File { Plain::Yes } else { Plain::No };
        }
        let plain = file.handles.plain;
        match plain {
            Plain::Unknown => {
                // On one of them: on the first channel the question would wait behind data.
                let Some((channel, _)) = self.ends.channels.usable().next() else { return };
                file.handles.plain = Plain::No;
                file.outstanding += 1;
                let path = file.written_path().to_vec();
                return self.ends.start_on(channel, Op::Stat(&path), Token::File(key, FileStep::IsPlain));
            }
            Plain::No => return,
            Plain::Yes if side == Side::Target && !self.keeps_reopened(key) => return,
            Plain::Yes => {}
        }
        let open = self.open_files(key);
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.handles.on_channels.resize_with(self.ends.channels.count(), OnChannel::default);
        let mut known = Vec::new();
        for (channel, remote) in self.ends.channels.usable_mut() {
            let on_channel = &mut file.handles.on_channels[channel - 1];
            if let Some(opening) = on_channel.opening(open) {
                *on_channel = opening;
                file.outstanding += 1;
                let token = Token::File(key, FileStep::OpenOnChannel { channel });
                let op = match side {
                    Side::Source => Op::OpenRead(&file.item.source),
                    Side::Target => Op::OpenExisting(file.written_path()),
                };
                known.extend(remote.perform(op, token).map(|outcome| (token, outcome)));
            }
        }
        known.into_iter().for_each(|answer| self.ends.answer(answer));
    }

    /// Returns true where the file `key`, which is being written, may be opened on all channels. Where that
    /// is not known it asks.
    fn keeps_reopened(&mut self, key: Key) -> bool {
        // OpenSSH's server and Longhaul's, which both have this, obey the flags.
        let is_known = |remote: &Remote| remote.is_ours() || remote.session().supports(extension::LSETSTAT);
        let obeys = self.ends.target.as_ref().is_some_and(is_known);
        // A server may still tell the size from before the first OPEN, which must not be taken for the
        // data's.
        let has_data = self.tasks.files.get(key).is_some_and(|file| {
            let old_size = file.handles.told.max(file.taken.kept);
            file.requests.next > old_size && file.holes.passed.is_empty() && !file.holes.left_out
        });
        if !obeys && self.waits_for_closes(key) {
            return false;
        }
        let known = match (obeys, has_data) {
            (true, _) => Known::Obeys,
            (false, true) => Known::FileHasData,
            (false, false) => Known::Nothing,
        };
        if self.reopening.keeps(key, known) {
            return true;
        }
        if reopens_now(*self.reopening, self.tasks, self.ends) {
            self.open_once_more(key);
        }
        false
    }

    /// Files that are open, where one of them counts because it was refused on a channel.
    fn open_files(&self, key: Key) -> usize {
        let refused = |on_channel: &OnChannel| matches!(on_channel, OnChannel::Refused(_));
        match self.tasks.files.get(key) {
            Some(file) if file.handles.on_channels.iter().any(refused) => self.count_open(),
            _ => 0,
        }
    }

    fn count_open(&self) -> usize {
        let side = self.ends.channels.side();
        self.tasks.files.values().filter(|file| file.handles.at(side).is_some()).count()
    }

    /// The file was refused on a channel, perhaps because too much was open, and still is.
    fn waits_for_closes(&self, key: Key) -> bool {
        let open = self.open_files(key);
        self.tasks.files.get(key).is_some_and(|file| {
            let waits = |one: &OnChannel| matches!(one, OnChannel::Refused(_)) && one.opening(open).is_none();
            file.handles.on_channels.iter().any(waits)
        })
    }

    fn open_once_more(&mut self, key: Key) {
        let open = self.open_files(key);
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.handles.on_channels.resize_with(self.ends.channels.count(), OnChannel::default);
        let untried = |channel: usize| {
            let opening = file.handles.on_channels[channel - 1].opening(open)?;
            Some((channel, opening))
        };
        let found = self.ends.channels.usable().find_map(|(channel, _)| untried(channel));
        let Some((channel, opening)) = found else {
            // It was refused on each.
            return self.reopening.give_up();
        };
        file.handles.on_channels[channel - 1] = opening;
        file.handles.reopens = true;
        file.outstanding += 1;
        let path = file.written_path().to_vec();
        let token = Token::File(key, FileStep::OpenOnChannel { channel });
        self.ends.start_on(channel, Op::OpenExisting(&path), token);
    }

    /// The file was opened on a channel, or not: where that was the question, what is in it now?
    fn reopened(&mut self, key: Key, channel: usize, answer: SecondOpen) {
        let asked = self.reopening.asking() == Some(key);
        let Some(file) = self.tasks.files.get_mut(key).filter(|_| asked) else { return };
        if !self.reopening.opened(key, answer) {
            file.handles.reopens = false;
            return;
        }
        file.outstanding += 1;
        let path = file.written_path().to_vec();
        self.ends.start_on(channel, Op::Stat(&path), Token::File(key, FileStep::SizeReopened { channel }));
    }

    /// Takes the attributes of a file behind its second OPEN, asked for on `channel`. Returns what is left of
    /// it where its data are gone.
    pub(crate) fn size_came(&mut self, key: Key, channel: usize, outcome: &Outcome) -> Option<Remains> {
        // All that was sent is confirmed, so the file is as long at least; one that was empty is no longer.
        let file = self.tasks.files.get(key);
        let least = file.map_or(1, |file| file.taken.prefix.max(1));
        let most = file.filter(|file| file.item.retry.emptied).map_or(u64::MAX, |file| file.requests.next);
        let remains = match outcome {
            Ok(Done::Info(info)) => match info.size {
                Some(size) if size < least || size > most => Remains::Empty,
                Some(_) => Remains::Data,
                None => Remains::Unknown,
            },
            Err(fault) if fault.kind == FaultKind::NotFound => Remains::Removed,
            Err(_) if self.ends.channels.standing(channel).is_none() => Remains::Unanswered,
            _ => Remains::Unknown,
        };
        if remains == Remains::Data && *self.reopening == Reopening::Asking(key) {
            // The size may be remembered from before this OPEN.
            return self.read_reopened(key, channel, 0);
        }
        self.remains_came(key, remains)
    }

    /// Reads confirmed data from `offset` on through the second handle.
    fn read_reopened(&mut self, key: Key, channel: usize, offset: u64) -> Option<Remains> {
        let file = self.tasks.files.get_mut(key)?;
        let len = file.taken.prefix.saturating_sub(offset).min(SAMPLE);
        let Some(handle) = file.handles.on_channel(Side::Target, channel).cloned().filter(|_| len > 0) else {
            return self.remains_came(key, Remains::Unknown);
        };
        file.outstanding += 1;
        let op = Op::Peek { handle: &handle, offset, len: len as u32 };
        let token = Token::File(key, FileStep::DataReopened { channel, offset });
        self.ends.start_on(channel, op, token);
        None
    }

    /// Takes what was read through the second handle: first the beginning of what is confirmed, then its
    /// end. Returns what is left of the file where its data are gone.
    pub(crate) fn data_came(
        &mut self,
        key: Key,
        channel: usize,
        offset: u64,
        outcome: &Outcome,
    ) -> Option<Remains> {
        let file = self.tasks.files.get(key)?;
        let remains = match outcome {
            Ok(Done::Data(data)) if begins_with(file.handles.source.as_ref(), offset, data.chunks()) => {
                let end = file.taken.prefix.saturating_sub(SAMPLE);
                if offset < end {
                    return self.read_reopened(key, channel, end);
                }
                Remains::Data
            }
            Ok(Done::Data(_)) | Err(Fault { kind: FaultKind::Eof, .. }) => Remains::Empty,
            Err(_) if self.ends.channels.standing(channel).is_none() => Remains::Unanswered,
            _ => Remains::Unknown,
        };
        self.remains_came(key, remains)
    }

    fn remains_came(&mut self, key: Key, remains: Remains) -> Option<Remains> {
        let kept = self.reopening.remains_came(key, remains);
        if kept
            && remains == Remains::Unanswered
            && let Some(file) = self.tasks.files.get_mut(key)
        {
            file.handles.reopens = false;
        }
        (!kept).then_some(remains)
    }

    /// Takes the answer to an OPEN on an additional channel. What is refused while other files are open is
    /// tried once more when fewer are: servers limit how many are. A file that cannot be opened on one
    /// channel uses the others. `read_back`: what is read back of the pieces that both ends sum up.
    pub(crate) fn opened(&mut self, key: Key, channel: usize, outcome: Outcome, read_back: ReadBack) {
        let open = if outcome.is_err() { self.count_open() } else { 0 };
        let first = self.tasks.files.get(key).and_then(|file| file.handles.on_channels.get(channel - 1));
        let doubtful = outcome.as_ref().is_err_and(Fault::may_be_the_way)
            && matches!(first, Some(OnChannel::Without))
            && self.ends.channels.standing(channel).is_some()
            && open > 1;
        let answer = match outcome {
            Ok(_) => SecondOpen::Opened,
            // These say nothing about the file.
            Err(_) if doubtful || self.ends.channels.standing(channel).is_none() => SecondOpen::Unanswered,
            Err(_) => SecondOpen::Refused,
        };
        self.reopened(key, channel, answer);
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let Some(on_channel) = file.handles.on_channels.get_mut(channel - 1) else { return };
        let Ok(Done::Opened(handle, _)) = outcome else {
            *on_channel = if doubtful { OnChannel::Refused(open) } else { OnChannel::Without };
            return;
        };
        *on_channel = OnChannel::Open(handle.clone());
        if file.sums.ours.is_some() {
            file.outstanding += 1;
            let token = Token::File(key, FileStep::Check(CheckStep::SumBegun));
            self.ends.start_on(channel, Op::BeginSum(&handle, read_back), token);
        }
    }

    /// Closes what is open of a file on the additional channels. Returns true while answers about them are
    /// awaited.
    pub(crate) fn close(&mut self, key: Key) -> bool {
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        if file.handles.on_channels.is_empty() {
            return false;
        }
        let mut closing = Vec::new();
        for (at, on_channel) in file.handles.on_channels.iter_mut().enumerate() {
            if let OnChannel::Open(handle) = std::mem::replace(on_channel, OnChannel::Without) {
                closing.push((at + 1, handle));
            }
        }
        file.outstanding += closing.len() as u32;
        let sum = file.sums.ours.is_some() && !file.faults.failed;
        if sum {
            file.outstanding += closing.len() as u32;
        }
        let waiting = file.outstanding > 0;
        // What a server could not write before shows here, as on the first channel.
        let close = match self.ends.channels.side() {
            Side::Source => FileStep::CloseOnChannel,
            Side::Target => FileStep::CloseTarget,
        };
        for (channel, handle) in closing {
            if sum {
                let token = Token::File(key, FileStep::Check(CheckStep::ChannelSum));
                self.ends.start_on(channel, Op::EndSum(&handle), token);
            }
            self.ends.start_on(channel, Op::Close(handle), Token::File(key, close));
        }
        waiting
    }
}

#[cfg(test)]
mod tests;
