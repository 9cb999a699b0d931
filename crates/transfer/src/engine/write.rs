//! WRITEs: what follows for the file when one is sent, or cannot be read.

use std::ops::ControlFlow::{Break, Continue};

use lh_wire::Output;

use crate::data_requests::Step;
use crate::end::Fault;
use crate::engine::Engine;
use crate::table::Key;
use crate::wording::{Deed, shrank};

impl Engine {
    /// Goes on with a WRITE that was begun.
    pub(super) fn finish_write(&mut self, channel: usize, out: &mut dyn Output) -> Step {
        loop {
            match self.data_requests().finish_write(channel, out) {
                Continue(key) => self.move_on(key),
                Break(step) => return step,
            }
        }
    }

    /// Begins a WRITE of `want` bytes of the source from `offset` on, which are handed out with that.
    pub(super) fn write_from_file(
        &mut self,
        key: Key,
        channel: usize,
        offset: u64,
        want: usize,
        out: &mut dyn Output,
    ) -> Step {
        match self.data_requests().write_from_file(key, channel, offset, want, out) {
            Continue(sent) => {
                self.sent_file_data(key, offset, sent);
                Step::Done
            }
            Break(step) => step,
        }
    }

    /// Looks at what reading the source at `offset` gave.
    pub(super) fn sent_file_data(&mut self, key: Key, offset: u64, sent: Result<usize, Fault>) {
        match sent {
            Ok(0) => self.source_ended(key, offset),
            Ok(n) => self.data_requests().count_write(key, offset, n),
            Err(fault) => self.file_failed(key, Deed::ReadSource, &fault),
        }
    }

    /// The source has no bytes at `offset`.
    pub(super) fn source_ended(&mut self, key: Key, offset: u64) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.requests.complete = true;
        if !file.requests.to_eof {
            let fault = shrank(offset, file.requests.size);
            self.file_failed(key, Deed::ReadSource, &fault);
        }
    }
}
