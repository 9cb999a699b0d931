//! Names of TCP services, which can replace a port number (`Port ssh`, `-p https`).

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The service database.
const FILE: &str = "/etc/services";

/// Largest service database that is read, bytes.
const MAX_FILE: u64 = 1 << 20;

/// Returns the port of a TCP service.
pub(crate) fn port(name: &str) -> Option<u16> {
    port_in(Path::new(FILE), name)
}

fn port_in(file: &Path, name: &str) -> Option<u16> {
    let mut text = Vec::new();
    File::open(file).ok()?.take(MAX_FILE).read_to_end(&mut text).ok()?;
    String::from_utf8_lossy(&text).lines().find_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let service = words.next()?;
        let (port, protocol) = words.next()?.split_once('/')?;
        let named = service == name || words.any(|alias| alias == name);
        (named && protocol == "tcp").then(|| port.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_aliases() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("services");
        let text = "# a comment\nssh\t22/tcp # SSH\nsnmp 161/udp\nhttp 80/tcp www www-http\nbroken\nhuge 99999/tcp\n";
        std::fs::write(&file, text).expect("written");
        assert_eq!(port_in(&file, "ssh"), Some(22));
        assert_eq!(port_in(&file, "www-http"), Some(80));
        for name in ["snmp", "broken", "huge", "#", "SSH", ""] {
            assert_eq!(port_in(&file, name), None, "{name}");
        }
        assert_eq!(port_in(&directory.path().join("none"), "ssh"), None);
    }
}
