//! The destination of a copy, as its manifest names it.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use lh_config::names::bracketed;
use lh_ssh_transfer::place::{Place, bytes};

/// Returns the directory that the manifest's paths begin at, as a command line names it. `alone`: the target
/// is a copied file itself, whose directory that is.
pub(super) fn destination(target: &Place, port: Option<u16>, alone: bool) -> Vec<u8> {
    let directory = |path: &[u8]| {
        if !alone {
            return path.to_vec();
        }
        let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |end| end + 1);
        let path = path.get(..end).unwrap_or_default();
        match path.iter().rposition(|&byte| byte == b'/') {
            None => b".".to_vec(),
            Some(0) => b"/".to_vec(),
            Some(slash) => path.get(..slash).unwrap_or_default().to_vec(),
        }
    };
    match target {
        Place::Local(path) => {
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(&directory(&bytes(path))));
            bytes(std::path::absolute(&path).unwrap_or(path).as_os_str())
        }
        Place::Remote { host, path } => match host.port.or(port) {
            None => bytes(&host.spelled(&directory(path))),
            Some(port) => {
                let user = host.user.as_deref().map_or_else(String::new, |user| format!("{user}@"));
                let name = bracketed(&host.name);
                let mut uri = format!("scp://{user}{name}:{port}/").into_bytes();
                for &byte in &directory(path) {
                    match byte {
                        b'%' | 0x80.. | 0..=b' ' => uri.extend_from_slice(format!("%{byte:02x}").as_bytes()),
                        _ => uri.push(byte),
                    }
                }
                uri
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_ssh_transfer::place::Host;

    #[test]
    fn destinations_can_be_given_to_a_program_again() {
        let host = |port| Host { user: Some("u".into()), name: "h".into(), port };
        let remote = |path: &str, port| Place::Remote { host: host(port), path: path.into() };
        for (path, in_uri, flag, alone, expected) in [
            ("/a/b", None, None, false, "u@h:/a/b"),
            ("/a/b", None, None, true, "u@h:/a"),
            ("b", None, None, true, "u@h:."),
            ("", None, None, false, "u@h:."),
            ("/b/", None, None, true, "u@h:/"),
            ("/a b", Some(22), None, false, "scp://u@h:22//a%20b"),
            ("a", None, Some(2222), false, "scp://u@h:2222/a"),
        ] {
            let got = destination(&remote(path, in_uri), flag, alone);
            assert_eq!(String::from_utf8(got).as_deref(), Ok(expected));
        }
        assert_eq!(destination(&Place::Local("/x/y".into()), None, true), b"/x");
    }
}
