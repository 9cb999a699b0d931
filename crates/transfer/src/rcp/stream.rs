//! Runs a role of the old protocol on two blocking streams: the remote side's standard input and output, or
//! the pipes of a program that leads there.

use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

use bytes::BytesMut;
use lh_wire::{Output, Reservation, Reserved, Slices};

use super::{RcpRole, Report};

/// Read and written in one go.
const CHUNK: usize = 256 * 1024;

/// Runs `role` until it is finished, or the streams break. The two sides take turns, so that they never wait
/// for each other.
pub fn run(role: &mut dyn RcpRole, input: &mut dyn Read, output: &mut dyn Write, report: &mut dyn Report) {
    let mut output = Stream { output, buffer: Vec::new(), broken: false };
    let mut space = BytesMut::new();
    loop {
        let now = Instant::now();
        role.advance(&mut output, now);
        report.tell(role, now);
        if role.is_finished() || output.broken {
            return;
        }
        if let Some(at) = role.next_deadline() {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            continue;
        }
        if space.len() < CHUNK / 4 {
            // The same memory again, once everything that was read into it has been handed on.
            space.clear();
            if !space.try_reclaim(CHUNK) {
                space = BytesMut::with_capacity(CHUNK);
            }
            space.resize(CHUNK, 0);
        }
        match input.read(&mut space) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => {
                role.closed();
                let now = Instant::now();
                role.advance(&mut output, now);
                report.tell(role, now);
                return;
            }
            Ok(read) => role.received(space.split_to(read).freeze(), Instant::now()),
        }
    }
}

struct Stream<'a> {
    output: &'a mut dyn Write,
    buffer: Vec<u8>,
    broken: bool,
}

impl Output for Stream<'_> {
    fn budget(&mut self) -> usize {
        if self.broken { 0 } else { CHUNK }
    }

    fn send(&mut self, data: &[u8]) -> usize {
        self.broken |= self.output.write_all(data).and_then(|()| self.output.flush()).is_err();
        if self.broken { 0 } else { data.len() }
    }

    fn reserve(&mut self, want: usize) -> Option<Reservation<'_>> {
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        Some(Reservation::new(self, want))
    }
}

impl Reserved for Stream<'_> {
    fn slices(&mut self, total: usize) -> Slices<'_> {
        self.buffer.get_mut(..total).into_iter().collect()
    }

    fn commit(&mut self, _: usize, used: usize) -> usize {
        if used == 0 {
            return 0;
        }
        let buffer = std::mem::take(&mut self.buffer);
        let sent = self.send(buffer.get(..used).unwrap_or_default());
        self.buffer = buffer;
        sent
    }
}
