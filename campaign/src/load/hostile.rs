//! Hostile clients, each of which runs until it is stopped.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lh_wire::Writer;

use super::handshake;
use crate::client::Client;
use crate::explore::sockets::Socket;

/// How often a client that waits looks whether it should end.
const LOOK: Duration = Duration::from_millis(50);

/// Limit of the bytes that one client sends per second, in all kinds that send without waiting. The clients
/// share the machine with the server that is measured.
const PACE: usize = 512 << 10;

/// Behaviour of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hostility {
    /// Connects and sends nothing.
    HalfOpen,
    /// Sends one byte now and then.
    Slow,
    /// Sends USERAUTH_REQUESTs without pause, and reads the replies.
    Flood,
    /// Sends requests that the server answers, and reads nothing.
    NeverReads,
    /// Sends KEXINITs with name lists of the longest packet.
    HugeKexinit,
    /// Sends packets with a wrong MAC, one in each connection.
    BadMac,
}

impl Hostility {
    const ALL: [Self; 6] =
        [Self::HalfOpen, Self::Slow, Self::Flood, Self::NeverReads, Self::HugeKexinit, Self::BadMac];

    /// Kinds take turns.
    pub(super) fn of(number: usize) -> Self {
        Self::ALL[number % Self::ALL.len()]
    }

    /// Runs until stopped. Reconnects when the server closes the connection.
    pub(super) fn harass(self, port: u16, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match self {
                Self::HalfOpen => half_open(port, stop),
                Self::Slow => slow(port, stop),
                Self::Flood => flood(port, stop, true),
                Self::NeverReads => flood(port, stop, false),
                Self::HugeKexinit => huge_kexinit(port),
                Self::BadMac => bad_mac(port),
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn connect(port: u16) -> Option<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(LOOK)).ok()?;
    stream.set_write_timeout(Some(LOOK)).ok()?;
    Some(stream)
}

/// Returns false once the server has closed the connection.
fn is_open(mut stream: &TcpStream) -> bool {
    match stream.read(&mut [0; 4096]) {
        Ok(0) => false,
        Ok(_) => true,
        Err(error) => {
            use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
            matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
        }
    }
}

fn half_open(port: u16, stop: &AtomicBool) {
    let Some(stream) = connect(port) else { return };
    while !stop.load(Ordering::Relaxed) && is_open(&stream) {}
}

fn slow(port: u16, stop: &AtomicBool) {
    let Some(mut stream) = connect(port) else { return };
    let bytes = [&b"SSH-2.0-slow\r\n"[..], &[0, 0, 4, 0, 6, 20]].concat();
    for byte in bytes.iter().chain(std::iter::repeat(&7)) {
        if stop.load(Ordering::Relaxed) || stream.write_all(&[*byte]).is_err() || !is_open(&stream) {
            return;
        }
    }
}

fn with_keys(port: u16) -> Option<Client<Socket>> {
    let mut client = Client::new(Socket::connect(port).ok()?, true);
    handshake(&mut client).ok()?;
    Some(client)
}

fn flood(port: u16, stop: &AtomicBool, reads: bool) {
    let Some(mut client) = with_keys(port) else { return };
    let (mut service, mut none) = (vec![5], vec![50]);
    service.put_string(b"ssh-userauth");
    [&b"root"[..], b"ssh-connection", b"none"].iter().for_each(|field| none.put_string(field));
    let socket = client.wire().stream().ok();
    let Some(mut socket) = socket.filter(|socket| socket.set_write_timeout(Some(LOOK)).is_ok()) else {
        return;
    };
    let _ = socket.set_nonblocking(false);
    let mut batch = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        batch.clear();
        while batch.len() < PACE / 20 {
            batch.extend(client.sealed(&service));
            if reads {
                batch.extend(client.sealed(&none));
            }
        }
        let mut rest = &batch[..];
        while !rest.is_empty() && !stop.load(Ordering::Relaxed) {
            match socket.write(rest) {
                Ok(0) => return,
                Ok(n) => rest = &rest[n..],
                // The server reads no more while its replies wait, as it should.
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                    ) => {}
                Err(_) => return,
            }
        }
        if reads && !is_open(&socket) {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

fn huge_kexinit(port: u16) {
    let Ok(socket) = Socket::connect(port) else { return };
    let mut client = Client::new(socket, true);
    if client.identify().is_err() {
        return;
    }
    let mut payload = vec![20];
    payload.put_bytes(&[7; 16]);
    let names = "x,".repeat(12_000) + "y";
    (0..10).for_each(|_| payload.put_string(names.as_bytes()));
    payload.put_bytes(&[0; 5]);
    for _ in 0..4 {
        client.packet(&payload);
    }
    while client.receive().is_ok() {}
}

fn bad_mac(port: u16) {
    let Some(mut client) = with_keys(port) else { return };
    let mut packet = client.sealed(&[2, 0, 0, 0, 0]);
    if let Some(last) = packet.last_mut() {
        *last ^= 1;
    }
    client.raw(&packet);
    while client.receive().is_ok() {}
}
