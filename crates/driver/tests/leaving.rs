//! Tests of the end of a link whose peer would keep the session for another one.

mod common;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{link, transport};
use lh_driver::{Leave, Link, Stream};
use lh_wire::msg::disconnect::BY_APPLICATION;
use rustix::net::sockopt::set_socket_recv_buffer_size;

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
            assert_eq!(link.leave(BY_APPLICATION, "bye", BOUND), Leave::Arrived);
        });
    }
}

#[test]
fn a_peer_that_has_closed_before_has_no_message() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut link = link(transport(None), ours);
    theirs.shutdown(Shutdown::Write).unwrap();
    assert_eq!(link.leave(BY_APPLICATION, "bye", BOUND), Leave::Broken);
}

/// Two ends of a TCP connection. The second one, unless it reads, receives a few kB.
fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    set_socket_recv_buffer_size(&listener, 2048).unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (ours, listener.accept().unwrap().0)
}

fn tcp_link(socket: &TcpStream) -> Link {
    Link::new(transport(None), Stream::socket(OwnedFd::from(socket.try_clone().unwrap())).unwrap())
}

#[test]
fn a_tcp_peer_that_closes_at_once_has_the_message() {
    for _ in 0..500 {
        let (ours, mut theirs) = tcp_pair();
        let mut link = tcp_link(&ours);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A server closes the connection when it has read everything.
                let mut buffer = [0; 1 << 16];
                assert!(theirs.read(&mut buffer).unwrap() > 0);
                while theirs.read(&mut buffer).unwrap() > 0 {}
            });
            assert_eq!(link.leave(BY_APPLICATION, "bye", BOUND), Leave::Arrived);
        });
    }
}

/// The peer has given the connection up while the path was lost. Its end and the message cross, and the
/// message does not arrive: here the peer's window is full.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "other systems do not tell what is unacknowledged")]
fn an_end_that_does_not_acknowledge_the_message_is_older() {
    let (mut ours, theirs) = tcp_pair();
    let mut link = tcp_link(&ours);
    ours.write_all(&[0; 16 << 10]).unwrap();
    let mut leaving = link.begin_leaving(BY_APPLICATION, "bye", true);
    assert_eq!(link.go_on_leaving(&mut leaving, Duration::ZERO), Leave::UnderWay);
    theirs.shutdown(Shutdown::Write).unwrap();
    assert_eq!(link.go_on_leaving(&mut leaving, BOUND), Leave::Broken);
}
