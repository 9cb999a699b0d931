//! A channel between two descriptors of this process; its end stops the loop.

use std::time::Instant;

use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler, FdPump, Interests, Ready};
use lh_transfer::RemoteStderr;

/// A pump that stops the driver when the channel is closed and all data is passed on, or when the output
/// fails.
pub struct PumpUntilClosed {
    pump: FdPump,
    stderr: RemoteStderr,
    closed: bool,
}

impl PumpUntilClosed {
    /// Creates a handler that moves bytes with `pump` and shows received data of standard error.
    pub fn new(pump: FdPump) -> Self {
        Self { pump, stderr: RemoteStderr::default(), closed: false }
    }

    fn stop_if_done(&self, cx: &mut ChannelCx<'_>) {
        if (self.closed && self.pump.finished()) || self.pump.output_error().is_some() {
            cx.stop(0);
        }
    }
}

impl ChannelHandler for PumpUntilClosed {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        if let ChannelEvent::Data { ext: Some(_), data } = event {
            self.stderr.write(&data);
            return cx.consumed(data.len());
        }
        self.closed |= matches!(event, ChannelEvent::Closed | ChannelEvent::OpenFailed { .. });
        self.pump.on_event(event, cx);
        self.stop_if_done(cx);
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_batch_end(cx);
        self.stop_if_done(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_writable(cx);
        self.stop_if_done(cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        self.pump.interests(out);
    }

    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ChannelCx<'_>) {
        self.pump.on_ready(token, ready, cx);
        self.stop_if_done(cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.pump.next_deadline()
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_timeout(cx);
    }

    fn finished(&self) -> bool {
        self.pump.finished()
    }
}
