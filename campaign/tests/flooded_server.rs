//! Tests of the session process's memory while a logged-in client floods it with legal messages, and of the
//! end of the flood.

use std::time::Duration;

use lh_campaign::client::{Client, End};
use lh_campaign::explore::sockets::Socket;
use lh_campaign::flood::flood;
use lh_campaign::packets::message;
use lh_crypto::PrivateKey;
use lh_interop::{Lab, Lhsshd, eventually, me, process};
use lh_wire::Writer;
use rustix::net::{AddressFamily, Ipv4Addr, SocketAddrV4, SocketType, connect, socket, sockopt};

/// Largest number of bytes that one flood sends.
const FLOOD: usize = 16 << 20;
/// Growth that a flood may cause, KiB: the waiting answers, and channels whose connections are being made.
const MOST: u64 = 32 << 10;
/// Number of key exchanges of a storm. Each one costs the server a signature with its host key.
const EXCHANGES: usize = 40;

/// Starts a server that does not log events of sessions: each refusal would be a line.
fn server(lab: &Lab) -> Lhsshd {
    lab.write("quiet.conf", "Match all\n  LogLevel QUIET\n");
    Lhsshd::start(lab, &format!("UsePAM no\nInclude {}\n", lab.arg("quiet.conf")))
}

fn wait_for(client: &mut Client<Socket>, number: u8) -> Vec<u8> {
    loop {
        let payload = client.receive().unwrap_or_else(|end| panic!("waiting for {number}: {end:?}"));
        if payload[0] == number {
            return payload;
        }
    }
}

fn exchange_keys(client: &mut Client<Socket>) -> Result<(), End> {
    client.send_kexinit();
    let expect = |client: &mut Client<Socket>, number: u8| loop {
        let payload = client.receive()?;
        if payload[0] == number {
            return Ok(payload);
        }
    };
    let theirs = expect(client, 20)?;
    client.on_kexinit(&theirs);
    client.send_public();
    let reply = expect(client, 31)?;
    client.on_reply(&reply)?;
    client.send_newkeys();
    expect(client, 21)?;
    client.on_newkeys();
    Ok(())
}

/// Returns a client that has exchanged keys, and whose socket buffers few answers.
fn connected(port: u16) -> Client<Socket> {
    let made = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&made, 4 << 10).unwrap();
    sockopt::set_socket_send_buffer_size(&made, 64 << 10).unwrap();
    connect(&made, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
    let mut client = Client::new(Socket::of(made.into()).unwrap(), true);
    client.wire().timeout(Duration::from_secs(60)).unwrap();
    client.identify().unwrap();
    exchange_keys(&mut client).unwrap();
    client
}

/// Returns a logged-in client whose socket buffers few answers.
fn logged_in(lab: &Lab, port: u16) -> Client<Socket> {
    let mut client = connected(port);
    client.packet(&message(5, &[b"ssh-userauth"]));
    wait_for(&mut client, 6);
    let key = std::fs::read(lab.path("user_ed25519")).unwrap();
    let (key, _) = PrivateKey::parse(&key, None).unwrap();
    let request = client.signed_request(&me(), &key);
    client.packet(&request);
    wait_for(&mut client, 52);
    client
}

/// Returns SSH_MSG_CHANNEL_OPEN of a session.
fn open(channel: u32) -> Vec<u8> {
    let mut open = message(90, &[b"session"]);
    [channel, 1 << 20, 32768].iter().for_each(|&number| open.put_u32(number));
    open
}

/// Opens a session with a program that reads nothing. Returns the server's number of the channel.
fn program(client: &mut Client<Socket>) -> u32 {
    client.packet(&open(0));
    let opened = wait_for(client, 91);
    let channel = u32::from_be_bytes(opened[5..9].try_into().unwrap());
    let mut exec = of_channel(98, channel);
    exec.put_string(b"exec");
    exec.put_bool(true);
    exec.put_string(b"exec sleep 600");
    client.packet(&exec);
    wait_for(client, 99);
    channel
}

/// Returns the start of a message about this channel: message number and channel number.
fn of_channel(number: u8, channel: u32) -> Vec<u8> {
    let mut payload = vec![number];
    payload.put_u32(channel);
    payload
}

/// Returns messages that a client may send while this channel is open, with their names.
fn of_a_channel(channel: u32) -> Vec<(&'static str, Vec<u8>)> {
    let with = |number: u8, write: &dyn Fn(&mut Vec<u8>)| {
        let mut payload = of_channel(number, channel);
        write(&mut payload);
        payload
    };
    let request = |kind: &[u8], fields: &[&[u8]]| {
        with(98, &|payload| {
            payload.put_string(kind);
            payload.put_bool(true);
            fields.iter().for_each(|field| payload.put_string(field));
        })
    };
    let extended = with(95, &|payload| {
        payload.put_u32(1);
        payload.put_string(b"");
    });
    vec![
        ("CHANNEL_DATA of no byte", with(94, &|payload| payload.put_string(b""))),
        ("CHANNEL_DATA of one byte", with(94, &|payload| payload.put_string(b"x"))),
        ("CHANNEL_EXTENDED_DATA of no byte", extended),
        ("WINDOW_ADJUST of nothing", with(93, &|payload| payload.put_u32(0))),
        ("WINDOW_ADJUST beyond 2^32 - 1", with(93, &|payload| payload.put_u32(u32::MAX))),
        ("CHANNEL_REQUEST env", request(b"env", &[b"LANG", b"C"])),
        ("CHANNEL_REQUEST keepalive@longhaul", request(b"keepalive@longhaul", &[])),
        ("CHANNEL_REQUEST signal", request(b"signal", &[b"URG"])),
    ]
}

/// Peaks of resident memory of the processes that serve a connection, KiB: process id, first peak, last peak.
struct Peaks(Vec<(u32, u64, u64)>);

impl Peaks {
    fn of(server: &Lhsshd) -> Self {
        let all = process::below(server.pid()).into_iter();
        Self(all.filter_map(|pid| process::status(pid, "VmHWM:").map(|peak| (pid, peak, peak))).collect())
    }

    fn sample(&mut self) {
        for (pid, _, peak) in &mut self.0 {
            *peak = process::status(*pid, "VmHWM:").unwrap_or(*peak);
        }
    }

    fn growth(&self) -> u64 {
        self.0.iter().map(|(_, before, now)| now.saturating_sub(*before)).max().unwrap_or_default()
    }
}

/// Sends the message repeatedly, at most [`FLOOD`] bytes. Returns the number of bytes that the server
/// accepted.
fn flood_with(client: &mut Client<Socket>, payload: &[u8], peaks: &mut Peaks) -> usize {
    let mut socket = client.wire().stream().unwrap();
    let sent = flood(&mut socket, FLOOD, || client.sealed(payload), || peaks.sample());
    peaks.sample();
    sent
}

/// Checks that another client can log in, and that the server keeps nothing of this client after its end.
fn is_unharmed(lab: &Lab, server: &Lhsshd, client: Client<Socket>, name: &str) {
    drop(logged_in(lab, server.port));
    drop(client);
    eventually(&format!("{name}: all processes of the connections end"), || {
        process::below(server.pid()).is_empty()
    });
}

/// Checks that the server accepts the repeated message without using much memory, and recovers when the
/// client ends.
fn costs_little(lab: &Lab, server: &Lhsshd, mut client: Client<Socket>, name: &str, payload: &[u8]) {
    let mut peaks = Peaks::of(server);
    let sent = flood_with(&mut client, payload, &mut peaks);
    eprintln!("{name}: {sent} bytes taken, {} KiB more", peaks.growth());
    assert!(peaks.growth() < MOST, "{name}: {sent} bytes cost {} KiB", peaks.growth());
    is_unharmed(lab, server, client, name);
}

/// Covers: legal messages without end, after the login
#[test]
fn logged_in_clients_that_never_read_cost_little_memory() {
    let lab = Lab::new();
    let server = server(&lab);
    let mut debug = vec![4, 1];
    debug.put_string(&[b'x'; 1000]);
    debug.put_string(b"");
    let global = |want_reply: bool| {
        let mut request = message(80, &[b"x@longhaul"]);
        request.put_bool(want_reply);
        request
    };
    let mut forward = message(80, &[b"tcpip-forward"]);
    forward.put_bool(true);
    forward.put_string(b"192.0.2.1");
    forward.put_u32(0);
    let mut direct = message(90, &[b"direct-tcpip"]);
    [0, 1 << 20, 32768].iter().for_each(|&number| direct.put_u32(number));
    direct.put_string(b"127.0.0.1");
    direct.put_u32(1);
    direct.put_string(b"127.0.0.1");
    direct.put_u32(1);
    for (name, payload) in [
        ("IGNORE of one byte", message(2, &[b"x"])),
        ("IGNORE", message(2, &[&[7; 1000]])),
        ("DEBUG", debug),
        ("UNIMPLEMENTED", vec![3, 0, 0, 0, 0]),
        ("unknown number", vec![255]),
        ("PING", message(192, &[&[7; 1000]])),
        ("PING of 32 KB", message(192, &[&[7; 32 << 10]])),
        ("GLOBAL_REQUEST", global(true)),
        ("GLOBAL_REQUEST without reply", global(false)),
        ("GLOBAL_REQUEST tcpip-forward", forward),
        ("CHANNEL_OPEN session", open(7)),
        ("CHANNEL_OPEN direct-tcpip", direct),
    ] {
        costs_little(&lab, &server, logged_in(&lab, server.port), name, &payload);
    }
}

/// Covers: legal messages without end, in a channel
#[test]
fn messages_of_a_channel_without_end_cost_little_memory() {
    let lab = Lab::new();
    let server = server(&lab);
    for (at, (name, _)) in of_a_channel(0).into_iter().enumerate() {
        let mut client = logged_in(&lab, server.port);
        let channel = program(&mut client);
        let (_, payload) = of_a_channel(channel).swap_remove(at);
        costs_little(&lab, &server, client, name, &payload);
    }
}

/// Covers: channels opened again and again, by a client that reads
#[test]
fn sessions_beyond_the_limit_are_refused_one_by_one() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "UsePAM no\nMaxSessions 10\n");
    let mut client = logged_in(&lab, server.port);
    let mut peaks = Peaks::of(&server);
    let (mut opened, mut refused) = (0, 0);
    for burst in 0..20 {
        (0..100).for_each(|number| client.packet(&open(burst * 100 + number)));
        for _ in 0..100 {
            loop {
                match client.receive().unwrap()[0] {
                    91 => opened += 1,
                    92 => refused += 1,
                    _ => continue,
                }
                break;
            }
        }
        peaks.sample();
    }
    assert_eq!((opened, refused), (10, 1990));
    assert!(peaks.growth() < MOST, "{} KiB", peaks.growth());
    // The log has a line for refusal 1, 2, 4, … 1024.
    assert_eq!(server.log().matches("error: no more sessions").count(), 11);
    is_unharmed(&lab, &server, client, "CHANNEL_OPEN");
}

/// Covers: sshd_config ClientAliveInterval (clients that never read)
#[test]
fn a_client_that_floods_and_half_closes_is_ended() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "UsePAM no\nClientAliveInterval 1\nClientAliveCountMax 2\n");
    let mut client = logged_in(&lab, server.port);
    let mut request = message(80, &[b"x@longhaul"]);
    request.put_bool(true);
    let mut peaks = Peaks::of(&server);
    flood_with(&mut client, &request, &mut peaks);
    // Where the flood took long, the server has ended the connection already.
    let _ = client.wire().stream().unwrap().shutdown(std::net::Shutdown::Write);
    eventually("all processes of the connection end", || process::below(server.pid()).is_empty());
    assert!(server.log().contains("Timeout, client not responding from user"), "{}", server.log());
    drop(client);
}

/// Covers: forwards that are refused or fail, again and again
#[test]
fn refused_forwards_fill_no_log() {
    const BURST: usize = 500;
    let lab = Lab::new();
    lab.write("usual.conf", "Match all\n  LogLevel INFO\n");
    let include = lab.arg("usual.conf");
    let server = Lhsshd::start(&lab, &format!("UsePAM no\nPermitOpen none\nInclude {include}\n"));
    let mut client = logged_in(&lab, server.port);
    let channel = |kind: &[u8], number: usize, to: &[u8], port: Option<u32>| {
        let mut open = message(90, &[kind]);
        [u32::try_from(number).unwrap(), 1 << 20, 32768].iter().for_each(|&number| open.put_u32(number));
        open.put_string(to);
        port.into_iter().for_each(|port| open.put_u32(port));
        open.put_string(b"127.0.0.1");
        open.put_u32(1);
        open
    };
    let mut listen = message(80, &[b"streamlocal-forward@openssh.com"]);
    listen.put_bool(true);
    listen.put_string(b"/no/such/directory/socket");
    for number in 0..BURST {
        client.packet(&channel(b"direct-tcpip", number, b"127.0.0.1", Some(1)));
        client.packet(&channel(b"direct-streamlocal@openssh.com", number, b"/no/such/socket", None));
        client.packet(&listen);
        for _ in 0..3 {
            while !matches!(client.receive().unwrap()[0], 82 | 92) {}
        }
    }
    drop(client);
    eventually("all processes of the connection end", || process::below(server.pid()).is_empty());
    let log = server.log();
    let kinds = ["but the request was denied", "refused streamlocal port forward", "cannot bind to path"];
    let written = log.lines().filter(|line| kinds.iter().any(|kind| line.contains(kind))).count();
    let left_out = log
        .lines()
        .filter_map(|line| line.strip_suffix(" log lines about requests of this connection left out"))
        .map(|number| number.parse::<usize>().unwrap());
    let left_out: usize = left_out.sum();
    assert_eq!(written + left_out, 3 * BURST);
    assert!(written >= 100 && left_out > 0, "{written} written, {left_out} left out");
    assert!(log.contains("Connection closed by user"), "{log}");
}

/// Covers: key exchanges again and again
#[test]
fn a_storm_of_key_exchanges_harms_nobody_else() {
    let lab = Lab::new();
    let server = server(&lab);
    let mut client = logged_in(&lab, server.port);
    let mut peaks = Peaks::of(&server);
    let done = (0..EXCHANGES).take_while(|_| exchange_keys(&mut client).is_ok()).count();
    peaks.sample();
    eprintln!("{done} exchanges, {} KiB more", peaks.growth());
    assert!(done > 0);
    assert!(peaks.growth() < MOST, "{} KiB", peaks.growth());
    is_unharmed(&lab, &server, client, "key exchanges");
}

/// The monitor signs once before the login. The client is sent a reason for the end of its connection.
#[test]
fn key_exchange_before_the_login_ends_with_a_reason() {
    let lab = Lab::new();
    let server = server(&lab);
    let mut client = connected(server.port);
    client.send_kexinit();
    let theirs = wait_for(&mut client, 20);
    client.on_kexinit(&theirs);
    client.send_public();
    let end = loop {
        match client.receive() {
            Ok(payload) => assert_ne!(payload[0], 31, "the server exchanges keys"),
            Err(end) => break end,
        }
    };
    assert_eq!(end, End::Disconnected(2));
    is_unharmed(&lab, &server, client, "a key exchange before the login");
}
