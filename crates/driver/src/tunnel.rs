//! A network device of this machine as the end of a channel (`tun@openssh.com`, OpenSSH's PROTOCOL section
//! 2.3).
//!
//! Each packet is one CHANNEL_DATA message, which keeps its boundaries. Layer 3 packets are preceded by their
//! address family. As on any network, packets that do not fit are dropped; none are queued.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use lh_sys::tun::Layer;
use rustix::io::Errno;

use crate::event::ChannelEvent;
use crate::handler::{ChannelCx, ChannelHandler};
use crate::idle_timer::IdleTimer;
use crate::poller::{Interest, Interests, Ready};

/// Length of the address family field, bytes.
const FAMILY: usize = 4;
/// OpenBSD's numbers of the address families, which are the wire format.
const INET: u32 = 2;
const INET6: u32 = 24;
/// Length of the longest packet of a device with its family field, bytes.
const LONGEST: usize = FAMILY + (64 << 10);
/// Consecutive packets before other handlers get their turn.
const PER_TURN: usize = 64;

/// Callback of [`PacketPump::on_outcome`].
type Outcome = Box<dyn FnOnce(bool, &mut ChannelCx<'_>)>;

/// Copies packets between a device and a channel.
pub struct PacketPump {
    device: Option<OwnedFd>,
    layer: Layer,
    open: bool,
    /// The budget was 0 when last asked.
    waits: bool,
    /// Largest window that the peer has granted so far.
    widest: usize,
    buffer: Vec<u8>,
    idle: IdleTimer,
    outcome: Option<Outcome>,
}

impl PacketPump {
    /// A pump for a device from [`lh_sys::tun::device`].
    pub fn new(device: OwnedFd, layer: Layer) -> Self {
        Self {
            device: Some(device),
            layer,
            open: false,
            waits: false,
            widest: 0,
            buffer: vec![0; LONGEST],
            idle: IdleTimer::new(None),
            outcome: None,
        }
    }

    /// Closes the channel when it has carried no data for `limit` (`ChannelTimeout`).
    #[must_use]
    pub fn idle_limit(mut self, limit: Option<Duration>) -> Self {
        self.idle = IdleTimer::new(limit);
        self
    }

    /// Calls `outcome` when the channel opens, or when the peer refuses it.
    #[must_use]
    pub fn on_outcome(mut self, outcome: impl FnOnce(bool, &mut ChannelCx<'_>) + 'static) -> Self {
        self.outcome = Some(Box::new(outcome));
        self
    }

    /// Sends packets from the device.
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
                // The device was removed.
                Err(_) => return self.close(cx),
            };
            let Some(packet) = self.buffer.get_mut(..length) else { continue };
            if self.layer == Layer::Packets && !put_family(packet) {
                continue;
            }
            let (most, window) = (cx.max_packet(), cx.window());
            self.widest = self.widest.max(window);
            // OpenSSH counts four bytes more for each packet than it has, in both directions. An eighth of
            // the window exceeds that error. The packets lost to this reserve are losses of a full network.
            if length <= most && length + self.widest / 8 <= window {
                cx.send(packet);
                self.idle.touch(cx.now());
            }
        }
        // If the device has more, poll reports it again.
    }

    /// Writes a packet from the peer to the device.
    fn receive(&self, data: &[u8]) {
        let packet = match self.layer {
            Layer::Packets => data.get(FAMILY..).unwrap_or_default(),
            Layer::Frames => data,
        };
        if let (Some(device), false) = (&self.device, packet.is_empty()) {
            // A device that is down or full loses packets, like any other.
            let _ = rustix::io::write(device, packet);
        }
    }

    fn close(&mut self, cx: &mut ChannelCx<'_>) {
        self.device = None;
        self.idle.stop();
        cx.close();
    }
}

/// Writes the address family in front of the packet; false for a packet of neither IP version.
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
                self.idle.start(cx.now());
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
                    self.idle.touch(cx.now());
                }
                cx.consumed(data.len());
            }
            ChannelEvent::Eof => self.close(cx),
            ChannelEvent::Closed => {
                self.device = None;
                self.idle.stop();
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
        self.idle.deadline()
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.close(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_family_follows_the_ip_version() {
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
