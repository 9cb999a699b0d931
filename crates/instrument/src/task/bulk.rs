//! The handler of a command's channel: its data.

use std::cell::RefCell;
use std::rc::Rc;

use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler};

use super::shared::Shared;

/// Kept of a command's output, bytes.
const KEPT: usize = 512 * 1024;

/// The handler of the command's channel.
pub(super) struct Bulk {
    pub(super) shared: Rc<RefCell<Shared>>,
    /// Next byte of the block.
    pub(super) at: usize,
}

impl Bulk {
    fn produce(&mut self, cx: &mut ChannelCx<'_>) {
        let mut shared = self.shared.borrow_mut();
        if !shared.input.is_empty() {
            let sent = cx.send(&shared.input);
            shared.input.drain(..sent);
        }
        if !shared.sending {
            if shared.ends_input && shared.input.is_empty() {
                cx.eof();
            }
            return;
        }
        let block = Rc::clone(&shared.block);
        loop {
            let want = usize::try_from(shared.left).unwrap_or(usize::MAX).min(cx.budget());
            if want == 0 {
                break;
            }
            let at = &mut self.at;
            let Some(mut reservation) = cx.reserve(None, want) else { break };
            let total = reservation.total();
            for piece in reservation.slices().iter_mut() {
                let mut rest: &mut [u8] = piece;
                while !rest.is_empty() {
                    let from = block.get(*at..).unwrap_or_default();
                    let length = from.len().min(rest.len());
                    if length == 0 {
                        *at = 0;
                        continue;
                    }
                    let (now, later) = rest.split_at_mut(length);
                    now.copy_from_slice(from.get(..length).unwrap_or_default());
                    rest = later;
                    *at += length;
                }
            }
            let sent = reservation.commit(total);
            if sent == 0 {
                break;
            }
            shared.left -= sent as u64;
            shared.shown.moved.sent += sent as u64;
        }
        if shared.left == 0 && shared.shown.data.is_none() {
            shared.sending = false;
            let (from, to) = (shared.ready.unwrap_or(0.0), shared.now());
            shared.shown.data = Some((from, to));
            cx.eof();
        }
    }
}

impl ChannelHandler for Bulk {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        match event {
            ChannelEvent::Opened { .. } => self.produce(cx),
            ChannelEvent::Data { ext, data } => {
                let mut shared = self.shared.borrow_mut();
                let now = shared.now();
                let keep = shared.keep;
                let shown = &mut shared.shown;
                if ext.is_none() {
                    shown.moved.received += data.len() as u64;
                }
                let kept = if ext.is_some() { &mut shown.err } else { &mut shown.out };
                if (keep || ext.is_some()) && kept.len() < KEPT {
                    kept.extend_from_slice(&data);
                    shown.pieces.push((now, data.to_vec()));
                }
                cx.consumed(data.len());
                let begins = shared.ready.is_none();
                shared.ready.get_or_insert(now);
                if begins && shared.sends {
                    shared.sending = true;
                    drop(shared);
                    self.produce(cx);
                }
            }
            _ => {}
        }
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.produce(cx);
    }
}
