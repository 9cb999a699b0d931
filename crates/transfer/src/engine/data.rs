//! File bytes: which READ or WRITE goes next.
//!
//! Requests go out in the order of files and, within a file, from its start. Nothing waits for an answer but by
//! the depth of what is in flight.

use std::io::IoSliceMut;

use lh_sftp::in_place::{lay_out, scatter};
use lh_sftp::server::Output;

use crate::Direction;
use crate::end::{Done, Fault, FaultKind, Outcome};
use crate::local;
use crate::options::Options;
use crate::table::Key;
use crate::wording::{Deed, shrank};

use super::file::FileStep;
use super::prepare::fault_of;
use super::{Engine, Flow, MAX_REQUESTS, QUEUE_LIMIT, Side, Token};

/// WRITEs up to this size are put together in one packet with the requests around them.
const SMALL_WRITE: u64 = 16 * 1024;

/// With less room than this a WRITE is not laid out in place, but put behind the other requests and sent in parts.
const LEAST_ROOM: usize = 8 * 1024;

impl Flow {
    /// An answer came: a little more may be in flight.
    pub(super) fn grow(&mut self, bytes: u64, options: &Options) {
        self.depth = (self.depth + bytes).min(options.max_bytes_in_flight);
        if options.max_requests.is_none() {
            self.max_requests = (self.max_requests + 1).min(MAX_REQUESTS);
        }
    }
}

impl Engine {
    pub(super) fn room_in_flight(&self) -> bool {
        self.flow.bytes + self.flow.held < self.flow.depth && self.flow.requests < self.flow.max_requests
    }

    /// True when the rate limit lets a request pass now; else notes when it will.
    fn within_rate(&mut self) -> bool {
        let Some(limiter) = &mut self.flow.limiter else { return true };
        self.flow.wait_until = limiter.wait(self.now);
        self.flow.wait_until.is_none()
    }

    fn request_bytes(&self, side: Side) -> u64 {
        let remote = match side {
            Side::Source => &self.source,
            Side::Target => &self.target,
        };
        let server = remote.as_ref().map_or(0, |remote| match side {
            Side::Source => remote.session().read_len(),
            Side::Target => remote.session().write_len(),
        });
        let user = self.options.request_bytes.unwrap_or(u32::MAX);
        let rate = self.flow.limiter.as_ref().map_or(u32::MAX, |limiter| limiter.request_bytes());
        u64::from(server.min(user).min(rate).max(1))
    }

    /// Counts a request for `len` bytes of the file at its cursor.
    fn requested(&mut self, key: Key, len: u64) {
        self.flow.bytes += len;
        self.flow.requests += 1;
        if let Some(limiter) = &mut self.flow.limiter {
            limiter.spend(len);
        }
        if let Some(file) = self.files.get_mut(key) {
            file.requested += len;
            let no_longer_ahead = file.ahead.min(len);
            file.ahead -= no_longer_ahead;
            self.flow.ahead -= no_longer_ahead;
        }
    }

    fn drop_first_sending(&mut self) {
        if let Some(file) = self.sending.pop_front().and_then(|key| self.files.get_mut(key)) {
            file.in_sending = false;
        }
    }

    /// Upload: file after file into the send buffer, as long as there is room.
    pub(super) fn send_file_data(&mut self, out: &mut dyn Output) {
        let chunk = self.request_bytes(Side::Target);
        loop {
            self.settle();
            // Files finish while we send: let the next ones be opened meanwhile.
            if self.sending.is_empty() {
                self.begin_work();
                self.settle();
            }
            let Some(&key) = self.sending.front() else { return };
            let Some(file) = self.files.get_mut(key) else { return self.drop_first_sending() };
            let left = if file.to_eof { chunk } else { file.size - file.requested };
            if file.failed || file.all_requested || left == 0 {
                file.all_requested = true;
                self.drop_first_sending();
                self.move_on(key);
                continue;
            }
            if !self.within_rate() || !self.room_in_flight() {
                return;
            }
            let want = left.min(chunk);
            let Some(remote) = &mut self.target else { return };
            let sent = if want <= SMALL_WRITE {
                if remote.queued() > QUEUE_LIMIT && !remote.flush(out) {
                    return;
                }
                self.queue_small_write(key, want)
            } else {
                if !remote.flush(out) {
                    return;
                }
                match out.budget() {
                    0 => return,
                    // What is left of a window: fill it to the last byte, or nobody would call us again.
                    1..LEAST_ROOM => self.queue_small_write(key, SMALL_WRITE),
                    room => match self.write_in_place(key, want as usize, room, out) {
                        Some(sent) => sent,
                        None => return,
                    },
                }
            };
            self.sent_file_data(key, sent);
        }
    }

    /// Looks at what reading the source gave.
    fn sent_file_data(&mut self, key: Key, sent: Result<usize, Fault>) {
        match sent {
            Ok(0) => {
                let Some(file) = self.files.get_mut(key) else { return };
                file.all_requested = true;
                if !file.to_eof {
                    let fault = shrank(file.requested, file.size);
                    self.file_failed(key, Deed::ReadSource, &fault);
                }
            }
            Ok(n) => {
                self.requested(key, n as u64);
                if let Some(file) = self.files.get_mut(key) {
                    file.writes += 1;
                }
            }
            Err(fault) => self.file_failed(key, Deed::ReadSource, &fault),
        }
    }

    fn queue_small_write(&mut self, key: Key, want: u64) -> Result<usize, Fault> {
        let (Some(file), Some(remote)) = (self.files.get(key), &mut self.target) else { return Ok(0) };
        let (Some(source), Some(target)) = (&file.source, &file.target) else { return Ok(0) };
        let mut buffer = [0_u8; SMALL_WRITE as usize];
        let room = &mut buffer[..want as usize];
        let n = local::read_at(source, file.requested, &mut [IoSliceMut::new(room)])?;
        if n > 0
            && let Some(mut header) = remote.write_header(target, file.requested)
        {
            let step = FileStep::Write { offset: file.requested, len: n as u32 };
            remote.queue_write(&mut header, &buffer[..n], Token::File(key, step));
        }
        Ok(n)
    }

    /// Reads the file straight to where it is sealed and sent. `None` when there is no room now.
    fn write_in_place(
        &mut self,
        key: Key,
        want: usize,
        room: usize,
        out: &mut dyn Output,
    ) -> Option<Result<usize, Fault>> {
        let (file, remote) = (self.files.get(key)?, self.target.as_mut()?);
        let (source, target) = (file.source.as_ref()?, file.target.as_ref()?);
        let offset = file.requested;
        let mut header = remote.write_header(target, offset)?;
        let header_len = header.size();
        let want = want.min(room - header_len);
        let id = header.id();
        let mut read = None;
        out.send_in_place(header_len + want, &mut |slices| {
            lay_out(
                slices,
                header_len,
                |slices| {
                    let result = local::read_at(source, offset, slices);
                    let len = *result.as_ref().unwrap_or(&0);
                    read = Some(result);
                    len
                },
                |len| header.bytes(len).to_vec(),
            )
        });
        // When nobody read there was no room after all.
        let len = match read? {
            Ok(len) => len,
            Err(fault) => return Some(Err(fault)),
        };
        if len > 0 {
            let step = FileStep::Write { offset, len: len as u32 };
            remote.expect(id, Token::File(key, step));
        }
        Some(Ok(len))
    }

    /// Download and relay: READs, file after file.
    pub(super) fn request_data(&mut self, out: &mut dyn Output) {
        let chunk = self.request_bytes(Side::Source);
        let mut at = 0;
        loop {
            self.settle();
            if at >= self.sending.len() {
                let before = self.sending.len();
                self.begin_work();
                self.settle();
                if self.sending.len() <= before {
                    return;
                }
            }
            let Some(&key) = self.sending.get(at) else { return };
            let Some(file) = self.files.get_mut(key) else { return };
            if file.failed || (file.again.is_empty() && (file.all_requested || file.exhausted())) {
                file.all_requested = true;
                file.in_sending = false;
                self.sending.remove(at);
                self.move_on(key);
                continue;
            }
            // How long such a file is nobody knows: few READs at first, more as they come back full.
            if file.to_eof && file.reads > file.full_reads {
                at += 1;
                continue;
            }
            if !self.within_rate() || !self.room_in_flight() {
                return;
            }
            let Some(remote) = &mut self.source else { return };
            if remote.queued() > QUEUE_LIMIT && !remote.flush(out) {
                return;
            }
            let Some(file) = self.files.get_mut(key) else { return };
            let (offset, len, new) = match file.again.pop() {
                Some((offset, len)) => (offset, len, 0),
                None => {
                    let left = if file.to_eof { chunk } else { file.size - file.requested };
                    let len = left.min(chunk);
                    (file.requested, len as u32, len)
                }
            };
            file.reads += 1;
            if let (Some(handle), Some(remote)) = (&file.source, &mut self.source) {
                let step = FileStep::Read { offset, len };
                remote.read(handle, offset, len, Token::File(key, step));
            }
            self.requested(key, new);
            self.flow.bytes += u64::from(len) - new;
        }
    }

    pub(super) fn read_answer(&mut self, key: Key, offset: u64, len: u32, outcome: Outcome) {
        let Some(file) = self.files.get_mut(key) else { return };
        if file.failed {
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
                    file.again.push((offset + u64::from(got), len - got));
                    if !std::mem::replace(&mut file.in_sending, true) {
                        self.sending.push_front(key);
                    }
                } else {
                    file.full_reads = file.full_reads.saturating_add(1);
                }
                self.flow.grow(u64::from(got), &self.options);
                self.take_data(key, offset, data);
            }
            Ok(Done::Data(_)) | Err(Fault { kind: FaultKind::Eof, .. }) => {
                file.all_requested = true;
                if !file.to_eof {
                    let fault = shrank(offset, file.size);
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
        let Some(file) = self.files.get_mut(key) else { return };
        let len = data.len() as u64;
        if self.plan.direction == Direction::Relay {
            self.flow.held += len;
            file.held.insert(offset, data.into_chunks());
            if !std::mem::replace(&mut file.in_writing, true) {
                self.writing.push_back(key);
            }
            return;
        }
        let Some(target) = &file.target else { return };
        match local::write_all_at(target, offset, data.chunks()) {
            Ok(()) => {
                file.confirm(offset, len);
                self.summary.bytes += len;
            }
            Err(fault) => self.file_failed(key, Deed::WriteTarget, &fault),
        }
    }

    /// Relay: what was read goes on, each file in order.
    pub(super) fn send_held_data(&mut self, out: &mut dyn Output) {
        let chunk = self.request_bytes(Side::Target) as usize;
        let mut at = 0;
        while let Some(&key) = self.writing.get(at) {
            let Some(file) = self.files.get_mut(key) else { return };
            if file.failed || file.held.is_empty() {
                file.in_writing = false;
                self.writing.remove(at);
                self.move_on(key);
                continue;
            }
            let next = file.write_at;
            let Some(mut pieces) = file.held.remove(&next) else {
                // The next bytes have not come yet.
                at += 1;
                continue;
            };
            let held: usize = pieces.iter().map(bytes::Bytes::len).sum();
            let want = held.min(chunk);
            let (Some(remote), Some(target)) = (&mut self.target, &file.target) else { return };
            let sent = relay_write(remote, target, next, &pieces, want, out, |len| {
                Token::File(key, FileStep::Write { offset: next, len })
            });
            if sent > 0 {
                file.write_at += sent as u64;
                file.writes += 1;
                self.flow.held -= sent as u64;
                drop_front(&mut pieces, sent);
            }
            if !pieces.is_empty() {
                file.held.insert(file.write_at, pieces);
            }
            if sent == 0 {
                return;
            }
        }
    }
}

fn relay_write(
    remote: &mut crate::remote::Remote,
    target: &crate::end::Handle,
    offset: u64,
    pieces: &[bytes::Bytes],
    want: usize,
    out: &mut dyn Output,
    token: impl FnOnce(u32) -> Token,
) -> usize {
    if !remote.flush(out) {
        return 0;
    }
    let room = out.budget();
    let Some(mut header) = remote.write_header(target, offset).filter(|_| room > 0) else { return 0 };
    if room < LEAST_ROOM {
        let want = want.min(SMALL_WRITE as usize);
        let mut data = vec![0; want];
        gather(pieces, want, &mut [IoSliceMut::new(&mut data)]);
        remote.queue_write(&mut header, &data, token(want as u32));
        return want;
    }
    let header_len = header.size();
    let want = want.min(room - header_len);
    let sent = out.send_in_place(header_len + want, &mut |slices| {
        lay_out(slices, header_len, |slices| gather(pieces, want, slices), |len| header.bytes(len).to_vec())
    });
    let len = sent.saturating_sub(header_len);
    if len > 0 {
        remote.expect(header.id(), token(len as u32));
    }
    len
}

/// Copies the first `want` bytes of `pieces` into `slices`; the one copy a relay needs.
fn gather(pieces: &[bytes::Bytes], want: usize, slices: &mut [IoSliceMut<'_>]) -> usize {
    let room: usize = slices.iter().map(|slice| slice.len()).sum();
    let want = want.min(room);
    let mut done = 0;
    let mut rest = slices;
    let mut skip = 0;
    for piece in pieces {
        let take = piece.len().min(want - done);
        let mut piece = &piece[..take];
        done += take;
        while let (Some(slice), false) = (rest.first_mut(), piece.is_empty()) {
            let (_, free) = slice.split_at_mut(skip);
            let n = free.len().min(piece.len());
            scatter(&piece[..n], &mut [IoSliceMut::new(&mut free[..n])]);
            piece = &piece[n..];
            skip += n;
            if skip == slice.len() {
                rest = &mut rest[1..];
                skip = 0;
            }
        }
    }
    done
}

fn drop_front(pieces: &mut Vec<bytes::Bytes>, mut n: usize) {
    let mut whole = 0;
    for piece in pieces.iter_mut() {
        if piece.len() > n {
            let _ = piece.split_to(n);
            break;
        }
        n -= piece.len();
        whole += 1;
    }
    pieces.drain(..whole);
}
