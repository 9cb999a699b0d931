//! The channel of one X11 program.

use std::time::Instant;

use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler, FdPump, Interests, Ready};

use super::gate::{Gate, Step};
use crate::log::Logger;
use crate::ui::LogLevel;

/// A pump whose peer must first present the fake cookie.
pub(super) struct X11Channel {
    pump: FdPump,
    /// `None` after the program was accepted or refused.
    gate: Option<Gate>,
    refuse_from: Option<Instant>,
    logger: Logger,
}

impl X11Channel {
    pub(super) fn new(pump: FdPump, gate: Gate, refuse_from: Option<Instant>, logger: Logger) -> Self {
        Self { pump, gate: Some(gate), refuse_from, logger }
    }

    fn check(&mut self, data: &[u8], cx: &mut ChannelCx<'_>) {
        let Some(gate) = &mut self.gate else { return };
        let held = gate.held() + data.len();
        let why = match gate.feed(data) {
            Step::More => return,
            Step::Pass(data) if self.refuse_from.is_none_or(|from| from > cx.now()) => {
                self.gate = None;
                return self.pump.on_event(ChannelEvent::Data { ext: None, data }, cx);
            }
            Step::Pass(_) => "Rejected X11 connection after ForwardX11Timeout expired",
            Step::Wrong(why) => {
                self.logger.debug(|| why.to_owned());
                "X11 connection rejected because of wrong authentication."
            }
        };
        self.gate = None;
        self.logger.say(LogLevel::Info, why);
        cx.consumed(held);
        self.pump.stop_input(cx);
        self.pump.end_output(cx);
        cx.close();
    }
}

impl ChannelHandler for X11Channel {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        match event {
            ChannelEvent::Data { ext: None, data } if self.gate.is_some() => self.check(&data, cx),
            event => self.pump.on_event(event, cx),
        }
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_batch_end(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_writable(cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        self.pump.interests(out);
    }

    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ChannelCx<'_>) {
        self.pump.on_ready(token, ready, cx);
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
