//! Tunnels between network devices (`tun@openssh.com`, OpenSSH's PROTOCOL section 2.3), as far as
//! `PermitTunnel` and the key allow. The device is opened with the user's rights, so the kernel decides about
//! access to it.

use lh_config::enums::PermitTunnel;
use lh_driver::{ChannelId, ChannelOptions, ControlCx, PacketPump};
use lh_sys::tun::Layer;
use lh_wire::Reader;
use lh_wire::msg::open_failure;

use super::forward::idle_limit;
use super::shared::Shared;
use crate::log::{error, verbose};

/// Unit number that leaves the choice to the server.
const ANY: u32 = 0x7fff_ffff;

/// Handles a client's request for a tunnel.
pub(super) fn open(shared: &Shared, id: ChannelId, fields: &[u8], cx: &mut ControlCx<'_>) {
    let decided = read(fields).and_then(|(layer, unit)| Ok((layer, permitted(shared, layer, unit)?)));
    let (layer, unit) = match decided {
        Ok(decided) => decided,
        Err(why) => {
            verbose!(shared.requests_log, "tunnel: {why}");
            cx.debug_message(false, why);
            return cx.refuse(id, open_failure::CONNECT_FAILED, "open failed");
        }
    };
    match lh_sys::tun::device(layer, unit) {
        Ok((device, name)) => {
            verbose!(shared.requests_log, "Tunnel forwarding using interface {name}");
            let limit = idle_limit(shared, "tun@openssh.com");
            let pump = PacketPump::new(device, layer).idle_limit(limit);
            cx.accept(id, &ChannelOptions::default(), b"", Box::new(pump));
        }
        Err(problem) => {
            error!(shared.requests_log, "Tunnel device open failed: {}", lh_sys::errno_text(&problem));
            cx.refuse(id, open_failure::CONNECT_FAILED, "open failed");
        }
    }
}

/// Reads the requested layer and unit.
fn read(fields: &[u8]) -> Result<(Layer, Option<u32>), &'static str> {
    let mut reader = Reader::new(fields);
    let (Ok(mode), Ok(unit), Ok(())) = (reader.u32(), reader.u32(), reader.finish()) else {
        return Err("malformed request");
    };
    let layer = match mode {
        1 => Layer::Packets,
        2 => Layer::Frames,
        _ => return Err("Unsupported tunnel device mode."),
    };
    Ok((layer, (unit != ANY).then_some(unit)))
}

/// Reads the fields of an open of a tunnel.
#[cfg(fuzzing)]
pub(super) fn fuzz_fields(fields: &[u8]) {
    let _ = read(fields);
}

/// Returns the unit that this login may use. `Err` is the text of the refusal.
fn permitted(shared: &Shared, layer: Layer, unit: Option<u32>) -> Result<Option<u32>, &'static str> {
    const REFUSED: &str = "Server has rejected tunnel device forwarding";
    let settings = &shared.settings;
    let kind = match settings.permit_tunnel.value {
        PermitTunnel::No => false,
        PermitTunnel::Yes => true,
        PermitTunnel::PointToPoint => layer == Layer::Packets,
        PermitTunnel::Ethernet => layer == Layer::Frames,
    };
    // A key that may not forward ports should not connect networks either.
    if shared.restricted() || !kind || settings.disable_forwarding.value || !shared.options.port_forwarding {
        return Err(REFUSED);
    }
    forced_unit(shared.options.tunnel.as_deref(), unit).ok_or(REFUSED)
}

/// Returns the unit for a key with the option `tunnel=`, when the client asks for `unit`; `None` when that is
/// refused. With `any` the server chooses, not the client.
fn forced_unit(forced: Option<&str>, unit: Option<u32>) -> Option<Option<u32>> {
    let Some(forced) = forced else { return Some(unit) };
    let forced = if forced == "any" { None } else { Some(forced.parse().ok()?) };
    (unit.is_none() || unit == forced).then_some(forced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        assert_eq!(read(&[0, 0, 0, 1, 0, 0, 0, 7]), Ok((Layer::Packets, Some(7))));
        assert_eq!(read(&[0, 0, 0, 2, 0x7f, 0xff, 0xff, 0xff]), Ok((Layer::Frames, None)));
        assert!(read(&[0, 0, 0, 3, 0, 0, 0, 7]).is_err());
        assert!(read(&[0, 0, 0, 1, 0, 0, 0]).is_err());
    }

    #[test]
    fn a_key_forces_the_unit() {
        assert_eq!(forced_unit(None, Some(3)), Some(Some(3)));
        assert_eq!(forced_unit(None, None), Some(None));
        assert_eq!(forced_unit(Some("3"), Some(3)), Some(Some(3)));
        assert_eq!(forced_unit(Some("3"), None), Some(Some(3)));
        assert_eq!(forced_unit(Some("3"), Some(4)), None);
        assert_eq!(forced_unit(Some("any"), None), Some(None));
        assert_eq!(forced_unit(Some("any"), Some(4)), None);
    }
}
