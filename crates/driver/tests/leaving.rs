//! Tests of the end of a link whose peer would keep the session for another one.

mod common;

use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{link, transport};
use lh_driver::Leave;
use lh_wire::msg::disconnect::BY_APPLICATION;

/// Longest wait for the peer.
const BOUND: Duration = Duration::from_secs(20);

/// Reads without a pause until the first bytes have come, then closes the connection at once. Sets `ready`
/// when it has begun to.
fn close_after_the_message(mut peer: UnixStream, ready: &AtomicBool) {
    peer.set_nonblocking(true).unwrap();
    let mut buffer = [0; 1 << 16];
    loop {
        ready.store(true, Ordering::Release);
        match peer.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            read => return assert!(read.unwrap() > 0),
        }
    }
}

/// The peer's close may come before this end has looked for it: it is the answer to the message all the same.
#[test]
fn a_peer_that_closes_at_once_has_the_message() {
    for _ in 0..500 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut link = link(transport(None), ours);
        let ready = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| close_after_the_message(theirs, &ready));
            while !ready.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            assert_eq!(link.leave(BY_APPLICATION, "bye", true, BOUND), Leave::Arrived);
        });
    }
}

#[test]
fn a_peer_that_has_closed_before_has_no_message() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut link = link(transport(None), ours);
    theirs.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(link.leave(BY_APPLICATION, "bye", true, BOUND), Leave::Broken);
}
