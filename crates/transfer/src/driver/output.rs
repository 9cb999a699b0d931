//! A channel, as the engine writes to it.

use std::io::IoSliceMut;

use lh_driver::ChannelCx;
use lh_sftp::server::Output;

/// A channel, as the engine sees it.
pub(crate) struct ChannelOutput<'a, 'b>(pub(crate) &'a mut ChannelCx<'b>);

impl Output for ChannelOutput<'_, '_> {
    fn budget(&mut self) -> usize {
        self.0.budget()
    }

    fn send(&mut self, data: &[u8]) -> usize {
        self.0.send(data)
    }

    fn send_in_place(&mut self, want: usize, fill: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> usize) -> usize {
        self.0.send_in_place(want, fill)
    }

    fn peer_is_full(&mut self) -> bool {
        self.0.is_open() && self.0.window() == 0
    }
}
