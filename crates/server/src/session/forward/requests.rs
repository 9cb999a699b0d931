//! Fields of forwarding messages (RFC 4254 section 7; OpenSSH's PROTOCOL section 2.4).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use lh_wire::{Reader, WireError};

/// The address that a client requests to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Listen {
    /// An address, `localhost`, `*` or an empty string, and a port; 0 requests any free one.
    Tcp { host: String, port: u16 },
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl Listen {
    /// Reads a global request; `None` for one that is not about listening. The boolean is true for a
    /// cancellation.
    pub(super) fn request(name: &str, fields: &[u8]) -> Option<Result<(Self, bool), WireError>> {
        Some(match name {
            "tcpip-forward" => Self::tcp(fields).map(|what| (what, false)),
            "cancel-tcpip-forward" => Self::tcp(fields).map(|what| (what, true)),
            "streamlocal-forward@openssh.com" => Self::unix(fields).map(|what| (what, false)),
            "cancel-streamlocal-forward@openssh.com" => Self::unix(fields).map(|what| (what, true)),
            _ => return None,
        })
    }

    fn tcp(fields: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(fields);
        let host = reader.text()?.to_owned();
        let port = port(&mut reader)?;
        reader.finish()?;
        Ok(Self::Tcp { host, port })
    }

    fn unix(fields: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(fields);
        let path = path(&mut reader)?;
        reader.finish()?;
        Ok(Self::Unix(path))
    }
}

fn port(reader: &mut Reader<'_>) -> Result<u16, WireError> {
    u16::try_from(reader.u32()?).map_err(|_| WireError::Invalid { what: "port" })
}

fn path(reader: &mut Reader<'_>) -> Result<PathBuf, WireError> {
    let bytes = reader.string()?;
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(WireError::Invalid { what: "path" });
    }
    Ok(OsString::from_vec(bytes.to_vec()).into())
}

/// Reads host and port of a `direct-tcpip` open.
pub(super) fn direct_tcpip(fields: &[u8]) -> Result<(String, u16), WireError> {
    let mut reader = Reader::new(fields);
    let host = reader.text()?.to_owned();
    let port = port(&mut reader)?;
    let _originator = (reader.string()?, reader.u32()?);
    reader.finish()?;
    Ok((host, port))
}

/// Reads the path of a `direct-streamlocal@openssh.com` open.
pub(super) fn direct_streamlocal(fields: &[u8]) -> Result<PathBuf, WireError> {
    let mut reader = Reader::new(fields);
    let path = path(&mut reader)?;
    let _reserved = (reader.string()?, reader.u32()?);
    reader.finish()?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_wire::Writer;
    use proptest::prelude::*;

    #[test]
    fn fields_of_the_opens() {
        let mut fields = Vec::new();
        fields.put_string(b"example.org");
        fields.put_u32(443);
        fields.put_string(b"127.0.0.1");
        fields.put_u32(65_535);
        assert_eq!(direct_tcpip(&fields).unwrap(), ("example.org".to_owned(), 443));
        assert!(direct_tcpip(&fields[..fields.len() - 1]).is_err());
        let mut fields = Vec::new();
        fields.put_string(b"h");
        fields.put_u32(70_000);
        fields.put_string(b"");
        fields.put_u32(0);
        assert!(direct_tcpip(&fields).is_err());
        let mut fields = Vec::new();
        fields.put_string(b"/run/x");
        fields.put_string(b"");
        fields.put_u32(0);
        assert_eq!(direct_streamlocal(&fields).unwrap(), PathBuf::from("/run/x"));
        fields.push(0);
        assert!(direct_streamlocal(&fields).is_err());
    }

    #[test]
    fn requests_to_listen() {
        let mut fields = Vec::new();
        fields.put_string(b"localhost");
        fields.put_u32(0);
        let what = Listen::Tcp { host: "localhost".into(), port: 0 };
        assert_eq!(Listen::request("tcpip-forward", &fields).unwrap().unwrap(), (what.clone(), false));
        assert_eq!(Listen::request("cancel-tcpip-forward", &fields).unwrap().unwrap(), (what, true));
        assert!(Listen::request("streamlocal-forward@openssh.com", &fields).unwrap().is_err());
        assert!(Listen::request("keepalive@openssh.com", &fields).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(fields in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = direct_tcpip(&fields);
            let _ = direct_streamlocal(&fields);
            for name in ["tcpip-forward", "cancel-streamlocal-forward@openssh.com"] {
                let _ = Listen::request(name, &fields);
            }
        }
    }
}
