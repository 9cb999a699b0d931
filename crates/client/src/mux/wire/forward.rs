//! Forwards in the protocol's messages, and their endpoints.

use lh_config::forward::{Endpoint, Forward};
use lh_wire::{Reader, Result, WireError, Writer};

/// Port number that marks the host as a socket path.
const PORT_STREAMLOCAL: u32 = 0xffff_fffe;

/// The listening side of a forward, and its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `-L`.
    Local,
    /// `-R`.
    Remote,
    /// `-D`.
    Dynamic,
}

pub(super) fn text(reader: &mut Reader<'_>) -> Result<String> {
    Ok(String::from_utf8_lossy(reader.string()?).into_owned())
}

pub(super) fn put_endpoint(out: &mut Vec<u8>, endpoint: Option<&Endpoint>) {
    match endpoint {
        // A dynamic forward, in OpenSSH's notation.
        None => {
            out.put_string(b"socks");
            out.put_u32(0);
        }
        Some(Endpoint::Tcp { host, port }) => {
            let host = match host.as_deref() {
                None => "",
                Some("") => "*",
                Some(host) => host,
            };
            out.put_string(host.as_bytes());
            out.put_u32((*port).into());
        }
        Some(Endpoint::Unix(path)) => {
            out.put_string(path.as_bytes());
            out.put_u32(PORT_STREAMLOCAL);
        }
    }
}

pub(super) fn endpoint(reader: &mut Reader<'_>) -> Result<Endpoint> {
    let host = text(reader)?;
    match reader.u32()? {
        PORT_STREAMLOCAL if !host.is_empty() => Ok(Endpoint::Unix(host)),
        port => {
            let port = u16::try_from(port).map_err(|_| WireError::Invalid { what: "port" })?;
            Ok(Endpoint::Tcp { host: (!host.is_empty()).then_some(host), port })
        }
    }
}

pub(super) fn put_forward(out: &mut Vec<u8>, kind: Kind, forward: &Forward) {
    out.put_u32(match kind {
        Kind::Local => 1,
        Kind::Remote => 2,
        Kind::Dynamic => 3,
    });
    put_endpoint(out, Some(&forward.listen));
    put_endpoint(out, forward.connect.as_ref());
}

pub(super) fn forward(reader: &mut Reader<'_>) -> Result<(Kind, Forward)> {
    let kind = match reader.u32()? {
        1 => Kind::Local,
        2 => Kind::Remote,
        3 => Kind::Dynamic,
        _ => return Err(WireError::Invalid { what: "kind of forward" }),
    };
    let listen = endpoint(reader)?;
    let connect = endpoint(reader)?;
    // Port 0 marks a dynamic forward, on either side.
    let connect = match (kind, connect) {
        (Kind::Dynamic, _) | (Kind::Remote, Endpoint::Tcp { port: 0, .. }) => None,
        (_, connect) => Some(connect),
    };
    Ok((kind, Forward { listen, connect }))
}
