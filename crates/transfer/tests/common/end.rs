//! One channel: the real SFTP server engine behind a pipe in memory.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use lh_sftp::server::{NoLog, Server, ServerOptions};
use lh_sftp_fs::SystemFiles;
use lh_transfer::{Engine, FileWork, SendWork, Side};
use lh_wire::{Output, Reservation, Reserved, Slices};

use super::fs::FaultFs;
use super::setup::Setup;

pub(super) struct End {
    pub(super) side: Side,
    /// Which of several channels to the same server.
    pub(super) channel: usize,
    server: Server,
    pub(super) to_server: Pipe,
    pub(super) replies: VecDeque<Vec<u8>>,
    partial: Vec<u8>,
    pub(super) cut: bool,
    /// What its thread does without the engine.
    sending: Option<SendWork>,
    doing: Option<FileWork>,
}

/// Bytes on the way to a server.
pub(super) struct Pipe {
    pub(super) bytes: Vec<u8>,
    window: usize,
    piece: usize,
    one_per_packet: bool,
    /// Of the message that is half sent.
    left: usize,
    reserved: Vec<Vec<u8>>,
}

impl Pipe {
    /// What is sent in one go shares packets.
    fn look(&mut self, data: &[u8]) {
        if self.left == 0 && !data.is_empty() {
            let length = data.first_chunk::<4>().expect("a length is not cut");
            self.left = 4 + u32::from_be_bytes(*length) as usize;
        }
        assert!(data.len() <= self.left, "two messages share a packet");
        self.left -= data.len();
    }
}

impl Output for Pipe {
    fn budget(&mut self) -> usize {
        self.window.saturating_sub(self.bytes.len())
    }

    fn peer_is_full(&mut self) -> bool {
        self.budget() == 0
    }

    fn send(&mut self, data: &[u8]) -> usize {
        let taken = data.len().min(self.budget());
        if self.one_per_packet {
            self.look(&data[..taken]);
        }
        self.bytes.extend_from_slice(&data[..taken]);
        taken
    }

    fn reserve(&mut self, want: usize) -> Option<Reservation<'_>> {
        assert!(want <= self.budget(), "the engine asked for more than its budget");
        self.reserved =
            (0..want).step_by(self.piece).map(|at| vec![0xee; self.piece.min(want - at)]).collect();
        Some(Reservation::new(self, want))
    }
}

impl Reserved for Pipe {
    fn slices(&mut self, _: usize) -> Slices<'_> {
        self.reserved.iter_mut().map(|buffer| &mut buffer[..]).collect()
    }

    fn commit(&mut self, _: usize, used: usize) -> usize {
        let flat = self.reserved.concat();
        if self.one_per_packet {
            self.look(&flat[..used]);
        }
        self.bytes.extend_from_slice(&flat[..used]);
        used
    }
}

impl End {
    pub(super) fn new(side: Side, channel: usize, server_root: &Path, setup: &Setup) -> Self {
        let fs = FaultFs::new(server_root, setup.faults.clone());
        let ours = ["put-files", "get-files", "list-dir"].map(str::to_owned);
        let mut deny: Vec<String> = if setup.stock { ours.into() } else { Vec::new() };
        if setup.foreign {
            deny.extend(
                ["lsetstat", "check-file", "check-file-handle", "check-file-name"].map(str::to_owned),
            );
        }
        let options = ServerOptions { deny, max_handles: setup.max_handles, ..ServerOptions::default() };
        Self {
            side,
            channel,
            server: Server::new(Box::new(fs), Box::new(SystemFiles::new()), Box::new(NoLog), options),
            to_server: Pipe {
                bytes: Vec::new(),
                window: setup.window,
                piece: setup.piece,
                one_per_packet: setup.one_per_packet,
                left: 0,
                reserved: Vec::new(),
            },
            replies: VecDeque::new(),
            partial: Vec::new(),
            cut: false,
            sending: None,
            doing: None,
        }
    }

    /// Its thread reads or writes a file.
    pub(super) fn is_busy(&self) -> bool {
        self.sending.is_some() || self.doing.is_some()
    }

    pub(super) fn finish_work(&mut self, engine: &mut Engine, now: Instant) {
        if let Some(work) = self.sending.take() {
            let sent = work.carry_out(&mut self.to_server);
            engine.sent(sent);
            self.advance_slowly(engine, now, false);
        } else if let Some(work) = self.doing.take() {
            engine.file_work_done(work.carry_out());
            self.doing = engine.next_file_work();
        }
    }

    /// Sends what can be sent, up to where a file is to be read or written.
    pub(super) fn advance_slowly(&mut self, engine: &mut Engine, now: Instant, begin: bool) {
        self.sending = match self.channel {
            0 => engine.advance_step(self.side, &mut self.to_server, now, begin),
            channel => engine.advance_channel_step(channel, &mut self.to_server, now),
        };
        if self.sending.is_none() {
            self.doing = engine.next_file_work();
        }
    }

    /// Lets a server take all that is on the way to it, and collects its replies.
    pub(super) fn serve(&mut self, setup: &mut Setup) -> bool {
        let sent = std::mem::take(&mut self.to_server.bytes);
        let mut moved = !sent.is_empty();
        for piece in sent.chunks(setup.piece) {
            self.server.input(Bytes::copy_from_slice(piece));
        }
        loop {
            let before = self.partial.len();
            let progress = self.server.poll(&mut self.partial).expect("the engine speaks SFTP");
            moved |= self.partial.len() > before;
            if !progress.more {
                break;
            }
        }
        let mut rest = &self.partial[..];
        while let Some((length, behind)) = rest.split_first_chunk::<4>() {
            let Some((message, behind)) = behind.split_at_checked(u32::from_be_bytes(*length) as usize)
            else {
                break;
            };
            self.replies.extend((setup.tamper)(message.to_vec()));
            rest = behind;
        }
        let used = self.partial.len() - rest.len();
        self.partial.drain(..used);
        moved
    }
}
