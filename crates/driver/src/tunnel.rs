//! A network device of this machine as the end of a channel (`tun@openssh.com`, OpenSSH's PROTOCOL section 2.3).
//!
//! Each packet is one CHANNEL_DATA message, so that its boundaries are kept; packets of layer 3 have their address family in
//! front. As on any network what does not fit is dropped, and nothing is kept for later.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use lh_sys::tun::Layer;
use rustix::io::Errno;

use crate::ChannelCx;
use crate::handler::{ChannelEvent, ChannelHandler};
use crate::poller::{Interest, Interests, Ready};

/// Bytes of the address family.
const FAMILY: usize = 4;
/// Address families as OpenBSD numbers them, which is what goes over the wire.
const INET: u32 = 2;
const INET6: u32 = 24;
/// The longest packet a device hands out, with what stands in front of it.
const LONGEST: usize = FAMILY + (64 << 10);
/// Packets in a row before others have their turn.
const PER_TURN: usize = 64;

/// What [`PacketPump::on_outcome`] calls.
type Outcome = Box<dyn FnOnce(bool, &mut ChannelCx<'_>)>;

/// Copies packets between a device and a channel.
pub struct PacketPump {
    device: Option<OwnedFd>,
    layer: Layer,
    open: bool,
    /// There was no budget.
    waits: bool,
    /// The widest window the peer has had.
    widest: usize,
    buffer: Vec<u8>,
    idle_limit: Option<Duration>,
    moved: Option<Instant>,
    outcome: Option<Outcome>,
}

impl PacketPump {
    /// For a device from [`lh_sys::tun::device`].
    pub fn new(device: OwnedFd, layer: Layer) -> Self {
        Self {
            device: Some(device),
            layer,
            open: false,
            waits: false,
            widest: 0,
            buffer: vec![0; LONGEST],
            idle_limit: None,
            moved: None,
            outcome: None,
        }
    }

    /// Closes the channel when it has carried nothing for so long (`ChannelTimeout`).
    #[must_use]
    pub fn idle_limit(mut self, limit: Option<Duration>) -> Self {
        self.idle_limit = limit;
        self
    }

    /// Calls `outcome` when the channel opens, or when the peer refuses it.
    #[must_use]
    pub fn on_outcome(mut self, outcome: impl FnOnce(bool, &mut ChannelCx<'_>) + 'static) -> Self {
        self.outcome = Some(Box::new(outcome));
        self
    }

    fn touch(&mut self, cx: &ChannelCx<'_>) {
        self.moved = self.idle_limit.map(|_| cx.now());
    }

    /// Sends what the device has.
    fn send(&mut self, cx: &mut ChannelCx<'_>) {
        for _ in 0..PER_TURN {
            if cx.budget() == 0 {
                self.waits = true;
                return;
            }
            let Some(device) = &self.device else { return };
            let start = if self.layer == Layer::Packets { FAMILY } else { 0 };
            let read = rustix::io::read(device, &mut self.buffer[start..]);
            let length = match read {
                Ok(0) | Err(Errno::AGAIN) => return,
                Ok(length) => start + length,
                Err(Errno::INTR) => continue,
                // The device is gone.
                Err(_) => return self.close(cx),
            };
            let Some(packet) = self.buffer.get_mut(..length) else { continue };
            if self.layer == Layer::Packets && !put_family(packet) {
                continue;
            }
            let (id, most) = (cx.id(), cx.max_packet());
            let window = cx.control().connection().send_budget(id);
            self.widest = self.widest.max(window);
            // OpenSSH counts four bytes more for each packet than it has, in both directions. An eighth of the window is more than
            // that comes to, and what is lost there is a packet on a network that is full.
            if length <= most && length + self.widest / 8 <= window {
                cx.send(packet);
                self.moved = self.idle_limit.map(|_| cx.now());
            }
        }
        // There may be more; the descriptor will say so.
    }

    /// Hands the device a packet of the peer's.
    fn receive(&self, data: &[u8]) {
        let packet = match self.layer {
            Layer::Packets => data.get(FAMILY..).unwrap_or_default(),
            Layer::Frames => data,
        };
        if let (Some(device), false) = (&self.device, packet.is_empty()) {
            // A device that is down, or full, loses packets as any other does.
            let _ = rustix::io::write(device, packet);
        }
    }

    fn close(&mut self, cx: &mut ChannelCx<'_>) {
        self.device = None;
        self.moved = None;
        cx.close();
    }
}

/// Writes the family in front of the packet; false for what is of neither version of IP.
fn put_family(packet: &mut [u8]) -> bool {
    let Some((front, rest)) = packet.split_first_chunk_mut::<FAMILY>() else { return false };
    let family = match rest.first().map(|byte| byte >> 4) {
        Some(4) => INET,
        Some(6) => INET6,
        _ => return false,
    };
    *front = family.to_be_bytes();
    true
}

impl ChannelHandler for PacketPump {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        match event {
            ChannelEvent::Opened { .. } => {
                self.open = true;
                self.touch(cx);
                if let Some(outcome) = self.outcome.take() {
                    outcome(true, cx);
                }
            }
            ChannelEvent::OpenFailed { .. } => {
                self.device = None;
                if let Some(outcome) = self.outcome.take() {
                    outcome(false, cx);
                }
            }
            ChannelEvent::Data { ext, data } => {
                if ext.is_none() {
                    self.receive(&data);
                    self.touch(cx);
                }
                cx.consumed(data.len());
            }
            ChannelEvent::Eof => self.close(cx),
            ChannelEvent::Closed => {
                self.device = None;
                self.moved = None;
            }
            ChannelEvent::Request { want_reply, .. } => {
                if want_reply {
                    cx.reply(false);
                }
            }
            ChannelEvent::RequestReply { .. } => {}
        }
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.waits = false;
        self.send(cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        if let Some(device) = self.device.as_ref().filter(|_| self.open && !self.waits) {
            out.add(0, device.as_fd(), Interest::READ);
        }
    }

    fn on_ready(&mut self, _token: usize, _ready: Ready, cx: &mut ChannelCx<'_>) {
        self.send(cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.moved.zip(self.idle_limit).map(|(moved, limit)| moved + limit)
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.close(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_told_apart_by_their_version() {
        let family = |packet: &[u8]| {
            let mut framed = vec![0; FAMILY];
            framed.extend(packet);
            put_family(&mut framed).then(|| u32::from_be_bytes([framed[0], framed[1], framed[2], framed[3]]))
        };
        assert_eq!(family(&[0x45, 0]), Some(INET));
        assert_eq!(family(&[0x60, 0]), Some(INET6));
        assert_eq!(family(&[0x15, 0]), None);
        assert_eq!(family(&[]), None);
    }
}
