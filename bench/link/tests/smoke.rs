//! Tests on a real path: it delays, delivers every byte in order, also with loss and queue drops, and leaves
//! no namespaces or processes behind.
//!
//! Rates and times are not asserted, because test machines are busy; only that no packet arrives too early.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::Path as FsPath;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use lh_link::forward::Counters;
use lh_link::netns;
use lh_link::path::{Kind, Path, Side, Spec};

/// What this file tests, in the list of skipped tests.
const TEST: &str = "emulated path";

/// Sets up a path, or prints why it skips.
fn path(spec: &Spec) -> Option<Path> {
    let program = FsPath::new(env!("CARGO_BIN_EXE_lh-link"));
    if !rustix::process::geteuid().is_root() || !FsPath::new("/dev/net/tun").exists() {
        lh_testkit::skip_unavailable(TEST, "needs root and /dev/net/tun");
        return None;
    }
    // In a container, root may lack the right to create namespaces.
    match Path::up(spec, program) {
        Ok(path) => Some(path),
        Err(text) if text.contains("Operation not permitted") => {
            lh_testkit::skip_unavailable(TEST, &text);
            None
        }
        Err(text) => panic!("{text}"),
    }
}

/// Byte `n` of the stream, without a period that could match a packet length.
fn pattern(n: u64) -> u8 {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Transfers `len` bytes from the near end to the far end; panics at the first wrong one.
fn transfer(path: &Path, address: &str, len: u64) {
    let listener = netns::within(path.netns(Side::Far), || TcpListener::bind((address, 0))).unwrap();
    let to = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = netns::within(path.netns(Side::Near), || TcpStream::connect(to)).unwrap();
            let mut buffer = vec![0; 1 << 16];
            let mut sent = 0;
            while sent < len {
                let part = buffer.len().min(usize::try_from(len - sent).unwrap());
                (sent..).zip(&mut buffer[..part]).for_each(|(n, byte)| *byte = pattern(n));
                stream.write_all(&buffer[..part]).unwrap();
                sent += part as u64;
            }
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        });
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 1 << 16];
        let mut received = 0u64;
        loop {
            let got = stream.read(&mut buffer).unwrap();
            if got == 0 {
                break;
            }
            for &byte in &buffer[..got] {
                assert_eq!(byte, pattern(received), "byte {received}");
                received += 1;
            }
        }
        assert_eq!(received, len);
    });
}

fn take_down(path: Path) -> [Counters; 2] {
    let names = [Side::Near, Side::Far].map(|side| path.netns(side).to_owned());
    let counters = path.down().unwrap().expect("the link counts");
    for name in names {
        assert!(!FsPath::new("/run/netns").join(&name).exists(), "{name} is still there");
    }
    counters
}

fn spec() -> Spec {
    Spec { rtt: Duration::from_millis(20), rate: 500_000_000, kind: Some(Kind::User), ..Spec::default() }
}

#[test]
fn path_delays_and_delivers() {
    let Some(path) = path(&spec()) else { return };
    let echo = netns::within(path.netns(Side::Far), || UdpSocket::bind((Side::Far.ipv4(), 0))).unwrap();
    let to = echo.local_addr().unwrap();
    let ping = netns::within(path.netns(Side::Near), || UdpSocket::bind((Side::Near.ipv4(), 0))).unwrap();
    ping.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5 {
                let mut buffer = [0; 100];
                let (len, from) = echo.recv_from(&mut buffer).unwrap();
                echo.send_to(&buffer[..len], from).unwrap();
            }
        });
        for n in 0..5u8 {
            let start = Instant::now();
            ping.send_to(&[n; 64], to).unwrap();
            let mut buffer = [0; 100];
            // A stop of this process interrupts the call (signal(7)).
            let received = loop {
                match ping.recv(&mut buffer) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    received => break received.unwrap(),
                }
            };
            assert_eq!(received, 64);
            assert!(start.elapsed() >= Duration::from_millis(20), "back after {:?}", start.elapsed());
            assert_eq!(buffer[0], n);
        }
    });
    transfer(&path, Side::Far.ipv4(), 50_000_000);
    let [there, back] = take_down(path);
    let moved = there.wire_bytes.load(Ordering::Relaxed);
    assert!(moved > 50_000_000 * 1514 / 1448, "headers of every segment count: {there}");
    assert!(back.segments.load(Ordering::Relaxed) > 5, "{back}");
    assert_eq!(there.lost.load(Ordering::Relaxed), 0);
    let segments = there.segments.load(Ordering::Relaxed);
    assert!(there.packets.load(Ordering::Relaxed) < segments / 4, "large segments cross whole: {there}");
}

#[test]
fn losses_within_large_segments_are_retransmitted() {
    let lossy = Spec { rtt: Duration::from_millis(4), loss: 0.01, queue: Some(40_000), ..spec() };
    let Some(path) = path(&lossy) else { return };
    for address in [Side::Far.ipv4(), Side::Far.ipv6()] {
        transfer(&path, address, 8_000_000);
    }
    let [there, _] = take_down(path);
    assert!(there.lost.load(Ordering::Relaxed) > 0, "{there}");
    assert!(there.dropped.load(Ordering::Relaxed) > 0, "{there}");
    assert_eq!(there.refused.load(Ordering::Relaxed), 0, "every piece is a good packet: {there}");
}

#[test]
fn processes_in_a_path_end_with_it() {
    let Some(path) = path(&spec()) else { return };
    let mut child = path.command(Side::Far, "sleep").arg("1000").spawn().unwrap();
    // The process is in the namespace once it is `sleep` and no longer `ip`.
    while std::fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap().trim() != "sleep" {
        thread::sleep(Duration::from_millis(5));
    }
    take_down(path);
    assert!(!child.wait().unwrap().success());
}
