//! Tests of `lhssh`'s memory while a server floods it, both with a server that reads nothing and with one
//! that reads all.

use std::io::{ErrorKind, Read as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lh_campaign::explore::sockets::Socket;
use lh_campaign::flood::flood;
use lh_campaign::packets::message;
use lh_campaign::server::Server;
use lh_crypto::{KeyType, PrivateKey};
use lh_interop::{our, process};
use lh_wire::Writer;

/// Largest number of bytes that one flood sends.
const FLOOD: usize = 24 << 20;
/// Growth that a flood may cause, KiB: 2 MiB of answers in a queue that grows by doubling, and the
/// allocator's reserve.
const MOST: u64 = 16 << 10;

/// Time at which the flood starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The client has requested the login service.
    Service,
    /// The client has tried to log in without a password.
    Login,
    /// The server offers keyboard-interactive, and the client has begun it.
    Dialogue,
    /// The user is logged in.
    Session,
    /// The user is logged in, and the client has begun the key exchange that switches encryption off.
    Switch,
}

/// Handling of the client's packets by the server during the flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replies {
    Read,
    Unread,
}

/// A process of `lhssh -N` that ends with the test.
struct Client(Child);

impl Client {
    fn start(port: u16) -> Self {
        Self::start_with(port, &[], Stdio::null())
    }

    fn start_with(port: u16, more: &[&str], stderr: Stdio) -> Self {
        let options = [
            "UserKnownHostsFile=/dev/null",
            "GlobalKnownHostsFile=/dev/null",
            "StrictHostKeyChecking=no",
            "IdentityFile=none",
            "IdentityAgent=none",
            "NumberOfPasswordPrompts=1000000",
        ];
        let mut command = Command::new(our("lhssh"));
        command.args(["-F", "none", "-N", "-p", &port.to_string()]);
        command.args(options.iter().chain(more).flat_map(|option| ["-o", option])).arg("me@127.0.0.1");
        // Prompts are answered at once, without a terminal.
        command.env("SSH_ASKPASS", "/bin/true").env("SSH_ASKPASS_REQUIRE", "force");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        Self(command.spawn().expect("lhssh"))
    }

    /// Peak of resident memory, KiB.
    fn peak(&self) -> u64 {
        process::status(self.0.id(), "VmHWM:").unwrap_or_default()
    }

    /// Waits for the client's end, and returns the text of its standard error, which is a pipe.
    fn last_words(&mut self) -> String {
        let mut text = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(self.0.wait().unwrap().code(), Some(255), "{text}");
        text
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Accepts a connection and advances it to the start of the phase.
fn accept<'a>(listener: &TcpListener, key: &'a PrivateKey, phase: Phase) -> Server<'a, Socket> {
    let (stream, _) = listener.accept().unwrap();
    let mut server = Server::new(Socket::of(stream).unwrap(), key, true);
    server.wire().timeout(Duration::from_secs(30)).unwrap();
    server.identify().unwrap();
    server.send_kexinit();
    let theirs = server.receive().unwrap();
    server.on_kexinit(&theirs);
    let public = server.receive().unwrap();
    server.on_public(&public).unwrap();
    server.send_newkeys();
    let wait_for =
        |server: &mut Server<'a, Socket>, number: u8| while server.receive().unwrap()[0] != number {};
    wait_for(&mut server, 21);
    server.on_newkeys();
    wait_for(&mut server, 5);
    if phase == Phase::Service {
        return server;
    }
    server.packet(&message(6, &[b"ssh-userauth"]));
    wait_for(&mut server, 50);
    match phase {
        Phase::Dialogue => {
            let mut failure = message(51, &[b"keyboard-interactive"]);
            failure.put_bool(false);
            server.packet(&failure);
            wait_for(&mut server, 50);
        }
        Phase::Session => server.packet(&[52]),
        Phase::Switch => {
            server.packet(&[52]);
            wait_for(&mut server, 20);
        }
        Phase::Service | Phase::Login => {}
    }
    server
}

/// Sends the message repeatedly, at most [`FLOOD`] bytes. Returns the number of bytes that the client
/// accepted and the last peak, KiB.
fn flood_with(
    server: &mut Server<'_, Socket>,
    payload: &[u8],
    replies: Replies,
    client: &Client,
) -> (usize, u64) {
    let mut socket: TcpStream = server.wire().stream().unwrap();
    let drained = (replies == Replies::Read).then(|| {
        let mut from = socket.try_clone().unwrap();
        from.set_read_timeout(None).unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 64 << 10];
            loop {
                match from.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        })
    });
    let mut peak = client.peak();
    let sent = flood(&mut socket, FLOOD, || server.sealed(payload), || peak = peak.max(client.peak()));
    // Bytes that the client has read by now count as well.
    peak = peak.max(client.peak());
    let _ = socket.shutdown(std::net::Shutdown::Both);
    if let Some(drained) = drained {
        drained.join().unwrap();
    }
    (sent, peak)
}

fn floods() -> Vec<(&'static str, Phase, Vec<u8>)> {
    let mut debug = vec![4, 1];
    debug.put_string(&[b'x'; 1000]);
    debug.put_string(b"");
    let mut ext_info = vec![7, 0, 0, 0, 2];
    ext_info.put_string(b"x@longhaul");
    ext_info.put_string(&[b'x'; 1000]);
    ext_info.put_string(b"server-sig-algs");
    ext_info.put_string(&[b'x'; 1000]);
    let global = |name: &[u8], reply: bool| {
        let mut payload = message(80, &[name]);
        payload.put_bool(reply);
        payload
    };
    let mut host_keys = global(b"hostkeys-00@openssh.com", false);
    host_keys.put_string(&message(0, &[b"ssh-ed25519", &[7; 32]])[1..]);
    let mut prompts = message(60, &[b"name", b"instruction", b""]);
    prompts.put_u32(2);
    for _ in 0..2 {
        prompts.put_string(b"Password: ");
        prompts.put_bool(false);
    }
    let mut no_prompts = message(60, &[b"", b"", b""]);
    no_prompts.put_u32(0);
    let open = |kind: &[u8]| {
        let mut payload = message(90, &[kind]);
        for number in [7, 1 << 20, 1 << 15] {
            payload.put_u32(number);
        }
        payload.put_string(b"localhost");
        payload.put_u32(80);
        payload.put_string(b"127.0.0.1");
        payload.put_u32(80);
        payload
    };
    let mut data = vec![94, 0, 0, 0, 0];
    data.put_string(&[7; 32 << 10]);
    let mut failure = message(51, &[b"publickey,password,keyboard-interactive"]);
    failure.put_bool(true);
    let banner = message(53, &[&[b'x'; 1000], b""]);
    vec![
        ("IGNORE", Phase::Service, message(2, &[&[7; 1000]])),
        ("DEBUG", Phase::Service, debug.clone()),
        ("EXT_INFO", Phase::Service, ext_info.clone()),
        ("unknown number", Phase::Service, [&[200][..], &[7; 10]].concat()),
        ("ping", Phase::Service, message(192, &[&[7; 1000]])),
        ("SERVICE_ACCEPT", Phase::Service, message(6, &[b"ssh-userauth"])),
        ("USERAUTH_BANNER", Phase::Login, banner),
        ("EXT_INFO in the login", Phase::Login, ext_info.clone()),
        ("USERAUTH_FAILURE", Phase::Login, failure),
        ("INFO_REQUEST without prompts", Phase::Dialogue, no_prompts),
        ("INFO_REQUEST", Phase::Dialogue, prompts),
        ("GLOBAL_REQUEST with reply", Phase::Session, global(b"x@longhaul", true)),
        ("GLOBAL_REQUEST", Phase::Session, global(b"x@longhaul", false)),
        ("keepalive", Phase::Session, global(b"keepalive@openssh.com", true)),
        ("host keys", Phase::Session, host_keys),
        ("REQUEST_SUCCESS", Phase::Session, vec![81]),
        ("CHANNEL_OPEN forwarded", Phase::Session, open(b"forwarded-tcpip")),
        ("CHANNEL_OPEN agent", Phase::Session, open(b"auth-agent@openssh.com")),
        ("CHANNEL_OPEN x11", Phase::Session, open(b"x11")),
        ("CHANNEL_DATA", Phase::Session, data),
        ("EXT_INFO in the session", Phase::Session, ext_info),
        ("DEBUG in the session", Phase::Session, debug),
        ("unknown number in the session", Phase::Session, [&[200][..], &[7; 10]].concat()),
        ("ping in the session", Phase::Session, message(192, &[&[7; 8 << 10]])),
    ]
}

const SWITCH: [&str; 2] = ["NoneEnabled=yes", "NoneSwitch=yes"];

/// The client requests to switch encryption off, and the server sends everything except the answer.
#[test]
fn a_flood_before_the_none_cipher_ends_the_client() {
    let key = PrivateKey::generate(KeyType::Ed25519, None).expect("a key");
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut data = vec![94, 0, 0, 0, 0];
    data.put_string(&[7; 30 << 10]);
    let mut request = message(80, &[b"x@longhaul"]);
    request.put_bool(false);
    let mut debug = vec![4, 0];
    debug.put_string(&[b'x'; 30 << 10]);
    debug.put_string(b"");
    for (name, payload) in [("CHANNEL_DATA", data), ("GLOBAL_REQUEST", request), ("DEBUG", debug)] {
        let mut client = Client::start_with(port, &SWITCH, Stdio::piped());
        let mut server = accept(&listener, &key, Phase::Switch);
        let before = client.peak();
        let (sent, peak) = flood_with(&mut server, &payload, Replies::Unread, &client);
        let growth = peak.saturating_sub(before);
        assert!(growth < MOST, "{name}: {sent} bytes cost {growth} KiB");
        let said = client.last_words();
        let wanted = "peer sends too many messages before the switch to the NONE cipher";
        assert!(said.contains(wanted), "{name}: {said}");
    }
}

/// The server never answers the key exchange that would switch encryption off.
#[test]
fn a_server_that_never_switches_ends_the_client() {
    let key = PrivateKey::generate(KeyType::Ed25519, None).expect("a key");
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    // This is enough time for the connection on a busy machine.
    let options = [&SWITCH[..], &["ConnectTimeout=10"]].concat();
    let mut client = Client::start_with(port, &options, Stdio::piped());
    let server = accept(&listener, &key, Phase::Switch);
    let said = client.last_words();
    assert!(said.contains("timed out during the switch to the NONE cipher"), "{said}");
    drop(server);
}

#[test]
fn flooded_clients_stay_small() {
    let key = PrivateKey::generate(KeyType::Ed25519, None).expect("a key");
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut wrong = Vec::new();
    for (name, phase, payload) in floods() {
        for replies in [Replies::Unread, Replies::Read] {
            let client = Client::start(listener.local_addr().unwrap().port());
            let mut server = accept(&listener, &key, phase);
            let before = client.peak();
            assert!(before > 0, "{name}: lhssh runs");
            let (sent, peak) = flood_with(&mut server, &payload, replies, &client);
            let growth = peak.saturating_sub(before);
            eprintln!("{name}, replies {replies:?}: {sent} bytes taken, {growth} KiB more");
            if growth >= MOST {
                wrong.push(format!("{name}, replies {replies:?}: {sent} bytes cost {growth} KiB"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
