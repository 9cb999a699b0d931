//! Tests of the pre-auth process's memory while a client floods it and reads nothing.

use lh_campaign::client::Client;
use lh_campaign::explore::sockets::Socket;
use lh_campaign::flood::flood;
use lh_campaign::packets::message;
use lh_interop::{Lab, Lhsshd, process};
use lh_wire::Writer;
use rustix::net::{AddressFamily, Ipv4Addr, SocketAddrV4, SocketType, connect, socket, sockopt};

/// Largest number of bytes that one flood sends.
const FLOOD: usize = 32 << 20;
/// Growth that a flood may cause, KiB. The limit of unsent bytes is 256 KiB; the rest is the allocator's.
const MOST: u64 = 8 << 10;

fn wait_for(client: &mut Client<Socket>, number: u8) {
    while client.receive().unwrap()[0] != number {}
}

/// Returns a client that has exchanged keys and whose socket buffers few answers.
fn connected(port: u16) -> Client<Socket> {
    let made = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&made, 4 << 10).unwrap();
    sockopt::set_socket_send_buffer_size(&made, 64 << 10).unwrap();
    connect(&made, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
    let mut client = Client::new(Socket::of(made.into()).unwrap(), true);
    client.identify().unwrap();
    client.send_kexinit();
    let theirs = client.receive().unwrap();
    client.on_kexinit(&theirs);
    client.send_public();
    let reply = client.receive().unwrap();
    client.on_reply(&reply).unwrap();
    client.send_newkeys();
    wait_for(&mut client, 21);
    client.on_newkeys();
    client
}

/// Peaks of resident memory, KiB, of the processes that serve a connection.
struct Peaks {
    /// Process id, first peak, and last peak.
    all: Vec<(u32, u64, u64)>,
}

impl Peaks {
    fn of(server: &Lhsshd) -> Self {
        let all = process::below(server.pid()).into_iter();
        let all: Vec<_> =
            all.filter_map(|pid| process::status(pid, "VmHWM:").map(|peak| (pid, peak, peak))).collect();
        let is_preauth = |(pid, ..): &(u32, u64, u64)| process::status(*pid, "Seccomp:") == Some(2);
        assert!(all.iter().any(is_preauth), "the pre-auth process, which alone filters its system calls");
        Self { all }
    }

    fn sample(&mut self) {
        for (pid, _, peak) in &mut self.all {
            *peak = process::status(*pid, "VmHWM:").unwrap_or(*peak);
        }
    }

    fn growth(&self) -> u64 {
        self.all.iter().map(|(_, before, now)| now - before).max().unwrap_or_default()
    }
}

/// Sends the message repeatedly, at most [`FLOOD`] bytes. Returns the number of bytes that the server
/// accepted.
fn flood_with(client: &mut Client<Socket>, payload: &[u8], peaks: &mut Peaks) -> usize {
    let mut socket = client.wire().stream().unwrap();
    flood(&mut socket, FLOOD, || client.sealed(payload), || peaks.sample())
}

#[test]
fn clients_that_never_read_cost_little_memory() {
    let lab = Lab::new();
    let service = message(5, &[b"ssh-userauth"]);
    let none = message(50, &[b"root", b"ssh-connection", b"none"]);
    let mut query = message(50, &[b"root", b"ssh-connection", b"publickey"]);
    query.put_bool(false);
    query.put_string(b"ssh-ed25519");
    query.put_string(&[7; 51]);
    let mut debug = vec![4, 1];
    debug.put_string(&[b'x'; 1000]);
    debug.put_string(b"");
    let mut ext_info = vec![7, 0, 0, 0, 1];
    ext_info.put_string(b"x@longhaul");
    ext_info.put_string(&[b'x'; 1000]);
    let mut global = message(80, &[b"x@longhaul"]);
    global.put_bool(true);
    for (name, first, payload) in [
        ("SERVICE_REQUEST", None, service.clone()),
        ("IGNORE", None, message(2, &[&[7; 1000]])),
        ("DEBUG", None, debug),
        ("UNIMPLEMENTED", None, vec![3, 0, 0, 0, 0]),
        ("EXT_INFO", None, ext_info),
        ("unknown number", None, vec![255]),
        ("unknown number with 1 KB", None, [&[200][..], &[7; 1000]].concat()),
        ("ping", None, message(192, &[&[7; 1000]])),
        ("ping of 32 KB", None, message(192, &[&[7; 32 << 10]])),
        ("USERAUTH_REQUEST none", Some(&service), none.clone()),
        ("USERAUTH_REQUEST publickey", Some(&service), query),
        ("SERVICE_REQUEST behind a request", Some(&none), service.clone()),
        ("GLOBAL_REQUEST", Some(&service), global),
        ("PING behind the service", Some(&service), message(192, &[&[7; 8 << 10]])),
    ] {
        let server = Lhsshd::start(&lab, "UsePAM no\n");
        let mut client = connected(server.port);
        let mut peaks = Peaks::of(&server);
        if let Some(first) = first {
            if first != &service {
                client.packet(&service);
            }
            client.packet(first);
        }
        let sent = flood_with(&mut client, &payload, &mut peaks);
        peaks.sample();
        eprintln!("{name}: {sent} bytes taken, {} KiB more", peaks.growth());
        assert!(peaks.growth() < MOST, "{name}: {sent} bytes cost {} KiB", peaks.growth());
        assert!(sent < FLOOD, "{name}: the server reads without end");
    }
}
