//! Hostile clients in a separate process. Each of them runs until it is stopped.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lh_wire::Writer;
use rustix::net::{AddressFamily, SocketAddrV4, SocketType, bind, connect as connect_socket, socket};

use super::handshake::handshake;
use super::memory::raise_descriptor_limit;
use super::priority::yield_processor;
use crate::client::Client;
use crate::explore::sockets::Socket;

/// Interval at which a waiting client checks whether it should end.
const LOOK: Duration = Duration::from_millis(50);

/// Limit of the bytes per second that one client sends, for the kinds whose messages are answered. The
/// clients share the machine with the measured server.
const PACE: usize = 512 << 10;

/// The process of the hostile clients. They stand for other machines, so they get only the CPU time that the
/// server and honest logins leave.
#[derive(Debug)]
pub(super) struct HostileClients(Child);

impl HostileClients {
    /// Starts `count` clients of the server at this port.
    pub(super) fn start(port: u16, count: usize) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["hostile-clients", "--port", &port.to_string(), "--count", &count.to_string()]);
        command.stdin(Stdio::piped()).spawn().map(Self)
    }

    /// Ends all hostile clients.
    ///
    /// # Errors
    /// They had ended earlier.
    pub(super) fn stop(mut self) -> Result<(), String> {
        drop(self.0.stdin.take());
        match self.0.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("the hostile clients ended: {status}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The process of `HostileClients`: runs until its standard input is closed.
///
/// # Errors
/// The process cannot have as many descriptors as it needs.
pub fn run(port: u16, count: usize) -> Result<(), String> {
    raise_descriptor_limit().map_err(|error| format!("descriptors: {error}"))?;
    yield_processor();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..count {
            let stop = &stop;
            scope.spawn(move || Hostility::of(number).harass(Target::of(port, number), stop));
        }
        let _ = io::stdin().read(&mut [0]);
        stop.store(true, Ordering::Relaxed);
    });
    Ok(())
}

/// Behaviour of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hostility {
    /// Connects and sends nothing.
    HalfOpen,
    /// Sends one byte at long intervals.
    Slow,
    /// Sends USERAUTH_REQUESTs without pause, and reads the replies.
    Flood,
    /// Sends requests that the server answers, and reads nothing.
    NeverReads,
    /// Sends messages without an answer, as fast as the server takes them.
    Endless,
    /// Sends KEXINITs with name lists of the longest packet.
    HugeKexinit,
    /// Sends packets with a wrong MAC, one in each connection.
    BadMac,
}

impl Hostility {
    const ALL: [Self; 7] = [
        Self::HalfOpen,
        Self::Slow,
        Self::Flood,
        Self::NeverReads,
        Self::Endless,
        Self::HugeKexinit,
        Self::BadMac,
    ];

    /// Returns the kind of a client; kinds take turns.
    fn of(number: usize) -> Self {
        Self::ALL[number % Self::ALL.len()]
    }

    /// Runs until stopped. Reconnects when the server closes the connection.
    fn harass(self, server: Target, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match self {
                Self::HalfOpen => half_open(server, stop),
                Self::Slow => slow(server, stop),
                Self::Flood => flood(server, stop, true),
                Self::NeverReads => flood(server, stop, false),
                Self::Endless => endless(server, stop),
                Self::HugeKexinit => huge_kexinit(server),
                Self::BadMac => bad_mac(server),
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// A server, and the client address from which to connect to it.
#[derive(Debug, Clone, Copy)]
struct Target {
    port: u16,
    from: Ipv4Addr,
}

impl Target {
    /// Number of addresses that hostile clients have.
    const ADDRESSES: usize = 50;

    /// Returns the target of a client; clients take turns with their addresses. None of these is the honest
    /// client's address.
    fn of(port: u16, client: usize) -> Self {
        let last = u8::try_from(client % Self::ADDRESSES).unwrap_or(0);
        Self { port, from: Ipv4Addr::new(127, 0, 1, 1 + last) }
    }

    fn stream(self) -> Option<TcpStream> {
        let made = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
        bind(&made, &SocketAddrV4::new(self.from, 0)).ok()?;
        connect_socket(&made, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port)).ok()?;
        Some(made.into())
    }

    fn client(self) -> Option<Client<Socket>> {
        Some(Client::new(Socket::of(self.stream()?).ok()?, true))
    }
}

fn connect(server: Target) -> Option<TcpStream> {
    let stream = server.stream()?;
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

fn half_open(server: Target, stop: &AtomicBool) {
    let Some(stream) = connect(server) else { return };
    while !stop.load(Ordering::Relaxed) && is_open(&stream) {}
}

fn slow(server: Target, stop: &AtomicBool) {
    let Some(mut stream) = connect(server) else { return };
    let bytes = [&b"SSH-2.0-slow\r\n"[..], &[0, 0, 4, 0, 6, 20]].concat();
    for byte in bytes.iter().chain(std::iter::repeat(&7)) {
        if stop.load(Ordering::Relaxed) || stream.write_all(&[*byte]).is_err() || !is_open(&stream) {
            return;
        }
    }
}

fn with_keys(server: Target) -> Option<Client<Socket>> {
    let mut client = server.client()?;
    handshake(&mut client).ok()?;
    Some(client)
}

/// Returns the socket of a client that has exchanged keys, with a time limit for writes.
fn writer(client: &mut Client<Socket>) -> Option<TcpStream> {
    let socket = client.wire().stream().ok()?;
    socket.set_nonblocking(false).ok()?;
    socket.set_write_timeout(Some(LOOK)).ok()?;
    Some(socket)
}

/// Writes all bytes; false when the connection has ended, or the client should stop.
fn write_all(mut socket: &TcpStream, mut rest: &[u8], stop: &AtomicBool) -> bool {
    use std::io::ErrorKind::{Interrupted, WouldBlock};
    while !rest.is_empty() && !stop.load(Ordering::Relaxed) {
        match socket.write(rest) {
            Ok(0) => return false,
            Ok(n) => rest = &rest[n..],
            // The server has stopped reading, which is the correct reaction.
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => {}
            Err(_) => return false,
        }
    }
    rest.is_empty()
}

fn flood(server: Target, stop: &AtomicBool, reads: bool) {
    let Some(mut client) = with_keys(server) else { return };
    let (mut service, mut none) = (vec![5], vec![50]);
    service.put_string(b"ssh-userauth");
    [&b"root"[..], b"ssh-connection", b"none"].iter().for_each(|field| none.put_string(field));
    let Some(socket) = writer(&mut client) else { return };
    let mut batch = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        batch.clear();
        while batch.len() < PACE / 20 {
            batch.extend(client.sealed(&service));
            if reads {
                batch.extend(client.sealed(&none));
            }
        }
        if !write_all(&socket, &batch, stop) || (reads && !is_open(&socket)) {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

fn endless(server: Target, stop: &AtomicBool) {
    let Some(mut client) = with_keys(server) else { return };
    let ignore = [&[2, 0, 0, 4, 0][..], &[7; 1024]].concat();
    let Some(socket) = writer(&mut client) else { return };
    loop {
        let batch: Vec<u8> = (0..64).flat_map(|_| client.sealed(&ignore)).collect();
        if !write_all(&socket, &batch, stop) {
            return;
        }
    }
}

fn huge_kexinit(server: Target) {
    let Some(mut client) = server.client() else { return };
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

fn bad_mac(server: Target) {
    let Some(mut client) = with_keys(server) else { return };
    let mut packet = client.sealed(&[2, 0, 0, 0, 0]);
    if let Some(last) = packet.last_mut() {
        *last ^= 1;
    }
    client.raw(&packet);
    while client.receive().is_ok() {}
}
