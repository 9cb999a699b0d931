//! Tunnels between network devices: `-w`, `Tunnel`, `TunnelDevice`.

use std::io;
use std::os::fd::OwnedFd;

use lh_config::client::ClientConfig;
use lh_config::enums::Tunnel;
use lh_driver::{ChannelOptions, ControlCx, PacketPump};
use lh_sys::tun::Layer;
use lh_wire::Writer;

use super::state::Forwards;
use crate::ui::LogLevel;

/// The channel's type, and its name in `ChannelTimeout`.
const KIND: &str = "tun@openssh.com";
const TIMEOUT_KIND: &str = "tun-connection";
/// Unit number that lets the server choose.
const ANY: u32 = 0x7fff_ffff;

/// The local tunnel device.
pub struct TunnelEnd {
    device: OwnedFd,
    name: String,
    layer: Layer,
    remote: Option<u32>,
}

impl TunnelEnd {
    /// Opens the device that the configuration asks for, if any.
    ///
    /// # Errors
    /// The device cannot be opened.
    pub fn open(config: &ClientConfig) -> Option<io::Result<Self>> {
        let layer = match *config.tunnel {
            _ if *config.clear_all_forwardings => return None,
            Tunnel::No => return None,
            Tunnel::PointToPoint => Layer::Packets,
            Tunnel::Ethernet => Layer::Frames,
        };
        let units = config.tunnel_device.value;
        let opened = lh_sys::tun::device(layer, units.local);
        Some(opened.map(|(device, name)| Self { device, name, layer, remote: units.remote }))
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Forwards {
    /// Asks the server for the other end.
    pub fn open_tunnel(&self, tunnel: TunnelEnd, cx: &mut ControlCx<'_>) {
        let TunnelEnd { device, name, layer, remote } = tunnel;
        let mut fields = Vec::new();
        fields.put_u32(match layer {
            Layer::Packets => 1,
            Layer::Frames => 2,
        });
        fields.put_u32(remote.unwrap_or(ANY));
        self.0.logger.debug(|| format!("Requesting a tunnel for {name}"));
        self.0.state.borrow_mut().pending += 1;
        let this = self.clone();
        let pump = PacketPump::new(device, layer)
            .idle_limit(self.0.rules.timeouts.of(TIMEOUT_KIND))
            .on_outcome(move |opened, cx| {
                if !this.tunnel_started(opened) {
                    cx.stop(255);
                }
            });
        match cx.open(KIND, &fields, &ChannelOptions::default(), Box::new(pump)) {
            Ok(id) => self.name(id, format!("tun {name}"), cx),
            Err(problem) => {
                self.0.logger.say(LogLevel::Error, &problem.to_string());
                if !self.tunnel_started(false) {
                    cx.stop(255);
                }
            }
        }
    }

    /// Returns false when the connection has to end, because the tunnel failed.
    fn tunnel_started(&self, opened: bool) -> bool {
        const TEXT: &str = "Tunnel forwarding failed";
        let mut state = self.0.state.borrow_mut();
        state.pending -= 1;
        if opened {
            self.0.logger.debug(|| "tunnel forward established".to_owned());
        } else if self.0.rules.exit_on_failure {
            state.fatal.get_or_insert_with(|| TEXT.to_owned());
            return false;
        } else {
            self.0.logger.say(LogLevel::Error, TEXT);
        }
        true
    }
}
