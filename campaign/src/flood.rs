//! Sends one message repeatedly, as fast as the peer accepts it.

use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Time without progress after which a peer counts as not reading any more.
const STOPPED: Duration = Duration::from_secs(1);

/// Sends packets of `sealed` until the peer stops reading, ends the connection or has accepted `most` bytes.
/// Calls `watch` every 32 KiB. Returns the number of accepted bytes.
///
/// # Panics
/// The socket takes no time limit.
pub fn flood(
    socket: &mut TcpStream,
    most: usize,
    mut sealed: impl FnMut() -> Vec<u8>,
    mut watch: impl FnMut(),
) -> usize {
    socket.set_write_timeout(Some(STOPPED)).expect("a time limit");
    let mut sent = 0;
    while sent < most {
        let mut batch = Vec::new();
        while batch.len() < 32 << 10 {
            batch.extend(sealed());
        }
        let mut rest = &batch[..];
        while !rest.is_empty() {
            match socket.write(rest) {
                Ok(n) => (sent, rest) = (sent + n, &rest[n..]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return sent,
            }
        }
        watch();
    }
    sent
}
