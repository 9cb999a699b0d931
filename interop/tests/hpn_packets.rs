//! HPN-SSH handles packets of up to 32,896 bytes, the length of its prepared key stream. Longer ones arrive
//! corrupted, with a valid tag. `peers/hpn_packets.py` has HPN-SSH's identification and limits, and fails if
//! a peer exceeds them, in both roles.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lh_interop::carrier::{Carrier, Route, Way};
use lh_interop::sharing::Running;
use lh_interop::{Lab, Lhsshd, assert_same_file, eventually, find, make_blob, me, our, skip};
use lh_wire::Message;
use lh_wire::msg::{self, Rest};

const PYTHON: &str = "/usr/bin/python3";
const MIB: u64 = 1 << 20;
/// Largest data in a channel packet, bytes.
const MOST: u64 = 32 << 10;

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/hpn_packets.py")
}

fn has_asyncssh(test: &str, lab: &Lab) -> bool {
    let there = lab.run(Path::new(PYTHON), &["-W", "ignore", "-c", "import asyncssh"]).code == 0;
    if !there {
        skip(test, "Debian's python3-asyncssh is not installed");
    }
    there
}

/// Checks that no packet was too long, and that packets of the largest allowed size came.
fn assert_limits_kept(lab: &Lab, what: &str) {
    let failed = std::fs::read_to_string(lab.path("hpn.failed")).unwrap_or_default();
    assert!(failed.is_empty(), "{what}: {failed}");
    let largest: u64 = lab.read("hpn.largest").parse().unwrap();
    assert_eq!(largest, MOST, "{what}");
}

/// The peer as a server; killed when dropped.
struct HpnServer {
    child: Child,
    port: u16,
}

impl HpnServer {
    fn start(lab: &Lab) -> Self {
        let mut child = Command::new(PYTHON)
            .args(["-W", "ignore"])
            .arg(script())
            .arg("server")
            .arg(lab.dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        lab.know(port);
        Self { child, port }
    }
}

impl Drop for HpnServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Covers: wire direct-tcpip; wire forwarded-tcpip; wire direct-streamlocal@openssh.com; wire forwarded-streamlocal@openssh.com
#[test]
fn an_hpn_client_gets_and_sends_short_packets() {
    let lab = Lab::new();
    if !has_asyncssh("an_hpn_client_gets_and_sends_short_packets", &lab) {
        return;
    }
    let server = Lhsshd::start(&lab, "");
    // The second version is recognised by the cipher that it offers.
    for version in ["OpenSSH_10.2p1_hpn18.8.0", "OpenSSH_10.2p1"] {
        let (script, port, user) = (script(), server.port_arg(), me());
        let version = format!("HPN_VERSION={version}");
        let words = [
            &version,
            PYTHON,
            "-W",
            "ignore",
            script.to_str().unwrap(),
            "client",
            &lab.arg(""),
            &port,
            &user,
        ];
        let ran = lab.run(Path::new("/usr/bin/env"), &words).ok("the client");
        assert!(ran.text().ends_with("done\n"), "{}", ran.text());
        assert_limits_kept(&lab, &version);
        std::fs::remove_file(lab.path("hpn.largest")).unwrap();
    }
}

fn client(lab: &Lab, port: u16, words: &[&str]) -> Command {
    let mut command = Command::new(our("lhssh"));
    command.args(lab.client_options()).args(["-p", &port.to_string()]).args(words);
    command.env("HOME", lab.path("home")).env_remove("SSH_AUTH_SOCK").current_dir(lab.dir());
    command
}

/// How our client gets its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Alone,
    /// As a mux client that passes its descriptors to a master.
    Shared,
    /// As a mux client in proxy mode, which speaks SSH itself.
    Proxy,
}

fn start_master(program: &Path, lab: &Lab, port: u16) -> Running {
    let mut command = Command::new(program);
    command.args(lab.client_options()).args(["-p", &port.to_string(), "-M", "-N", "-S", &lab.arg("ctl")]);
    command.arg(format!("{}@127.0.0.1", me())).env("HOME", lab.path("home")).env_remove("SSH_AUTH_SOCK");
    let running = Running(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    eventually("the master can be joined", || UnixStream::connect(lab.path("ctl")).is_ok());
    running
}

fn check_channel(lab: &Lab, port: u16, carrier: Carrier, way: Way, how: How) {
    let what = format!("{carrier:?}, {way:?}, {how:?}");
    println!("{what}");
    let route = Route::new(lab, carrier, way);
    let ctl = lab.arg("ctl");
    let host = format!("{}@127.0.0.1", me());
    let mut words: Vec<&str> = match how {
        How::Alone => Vec::new(),
        How::Shared => vec!["-S", &ctl],
        How::Proxy => vec!["-S", &ctl, "-O", "proxy"],
    };
    words.extend(route.flags.iter().map(String::as_str));
    if !route.is_program() {
        words.push("-N");
    }
    words.push(&host);
    words.extend(route.command.iter().map(String::as_str));
    let mut command = client(lab, port, &words);
    let child = if route.is_program() {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    } else {
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    };
    let (program, beside) =
        if route.is_program() { (Some(child), None) } else { (None, Some(Running(child))) };
    // The connection rekeys twice during the transfer.
    let mut flow = route.flow(program);
    flow.pass(3 * MIB);
    drop(beside);
    assert_limits_kept_by_sender(lab, &what, way);
}

/// Like [`assert_limits_kept`]; for data sent to us it expects no packet of the largest size.
fn assert_limits_kept_by_sender(lab: &Lab, what: &str, way: Way) {
    match way {
        Way::Up => assert_limits_kept(lab, what),
        Way::Down => assert!(!lab.path("hpn.failed").exists(), "{what}: {}", lab.read("hpn.failed")),
    }
    let _ = std::fs::remove_file(lab.path("hpn.largest"));
}

/// Covers: ssh -L; ssh -R; ssh -D; ssh -W; ssh -s; ssh -O proxy
#[test]
fn an_hpn_server_gets_and_sends_short_packets() {
    let lab = Lab::new();
    if !has_asyncssh("an_hpn_server_gets_and_sends_short_packets", &lab) {
        return;
    }
    let server = HpnServer::start(&lab);
    for carrier in Carrier::ALL {
        for way in [Way::Up, Way::Down] {
            check_channel(&lab, server.port, carrier, way, How::Alone);
        }
    }
    let masters = [Some(our("lhssh")), find("ssh")];
    if masters[1].is_none() {
        skip("hpn_packets_with_master_of_openssh", "not installed: ssh");
    }
    for program in masters.into_iter().flatten() {
        println!("master: {}", program.display());
        let _ = std::fs::remove_file(lab.path("ctl"));
        let _master = start_master(&program, &lab, server.port);
        for way in [Way::Up, Way::Down] {
            check_channel(&lab, server.port, Carrier::Command, way, How::Shared);
            check_channel(&lab, server.port, Carrier::Command, way, How::Proxy);
            check_channel(&lab, server.port, Carrier::Local, way, How::Proxy);
            check_channel(&lab, server.port, Carrier::Remote, way, How::Proxy);
        }
    }
}

#[test]
fn copies_with_an_hpn_server_have_short_packets() {
    let lab = Lab::new();
    if !has_asyncssh("copies_with_an_hpn_server_have_short_packets", &lab) {
        return;
    }
    let server = HpnServer::start(&lab);
    make_blob(&lab.path("blob"), 5_000_000);
    let there = |name: &str| format!("{}@127.0.0.1:{}", me(), lab.arg(name));
    let run = |program: &str, words: &[&str]| {
        let mut args = lab.client_options();
        args.extend(["-P".to_owned(), server.port.to_string()]);
        args.extend(words.iter().map(|&word| word.to_owned()));
        lab.run(&our(program), &args).ok(program)
    };
    run("lhscp", &["blob", &there("up")]);
    run("lhscp", &[&there("up"), "down"]);
    run("lhscp", &["-j", "2", "blob", &there("parts")]);
    lab.write("batch", &format!("put blob {}\nget {} got\n", lab.arg("put"), lab.arg("put")));
    run("lhsftp", &["-b", "batch", &format!("{}@127.0.0.1", me())]);
    for name in ["up", "down", "parts", "put", "got"] {
        assert_same_file(&lab.path("blob"), &lab.path(name));
    }
    assert_limits_kept(&lab, "copies");
}

/// A request longer than HPN-SSH's key stream would arrive as another command, so it is not sent.
#[test]
fn a_command_too_long_for_hpn_is_refused() {
    let lab = Lab::new();
    if !has_asyncssh("a_command_too_long_for_hpn_is_refused", &lab) {
        return;
    }
    let server = HpnServer::start(&lab);
    let host = format!("{}@127.0.0.1", me());
    let run = |length: usize| {
        let command = format!(": {}; echo ran", "x".repeat(length));
        let ran = client(&lab, server.port, &[&host, &command]).stdin(Stdio::null()).output().unwrap();
        (ran.status.code(), String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
    };
    assert_eq!(run(32_000), (Some(0), "ran\n".to_owned()));
    let (code, said) = run(33_000);
    assert!(code == Some(255) && said.contains("packets of up to 32896 bytes"), "{code:?} {said}");
    assert!(!lab.path("hpn.failed").exists());
}

/// Messages to and from a master, each after its length.
struct MuxLine(UnixStream);

impl MuxLine {
    fn put(&mut self, body: &[u8]) {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        self.0.write_all(&[&length[..], body].concat()).unwrap();
    }

    /// Sends an SSH message after the byte for the length of its padding, 0.
    fn put_packet<'a>(&mut self, message: &impl Message<'a>) {
        self.put(&[vec![0], message.to_payload()].concat());
    }

    fn get(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut body).unwrap();
        body
    }
}

/// In proxy mode, client and server announce packet sizes to each other without knowing whom the master
/// connects them to. Our master replaces them with sizes that every peer handles.
///
/// Covers: ssh -O proxy; wire mux
#[test]
fn a_master_passes_on_short_packets_only() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let _master = start_master(&our("lhssh"), &lab, server.port);
    let mut line = MuxLine(UnixStream::connect(lab.path("ctl")).unwrap());
    // HELLO, version 4; then the request for proxy mode, with its number.
    line.put(&[0, 0, 0, 1, 0, 0, 0, 4]);
    line.put(&[0x10, 0, 0, 0x0F, 0, 0, 0, 9]);
    assert_eq!(line.get()[..4], [0, 0, 0, 1], "hello");
    assert_eq!(line.get()[..4], [0x80, 0, 0, 0x0F], "proxy mode");
    // The master's server is Longhaul, which accepts 64 KiB; this client would accept 128.
    line.put_packet(&msg::ChannelOpen::new(b"session", 5, 1 << 25, 1 << 17, Rest(b"")));
    let answer = line.get();
    let accepted = msg::ChannelOpenConfirmation::decode(&answer[1..]).unwrap();
    assert_eq!((accepted.recipient, u64::from(accepted.max_packet)), (5, MOST));
    // So much that full packets come on any machine: a busy one reads a pipe of which little has been
    // written.
    let command = b"head -c 20000000 /dev/zero";
    let mut fields = u32::try_from(command.len()).unwrap().to_be_bytes().to_vec();
    fields.extend(command);
    line.put_packet(&msg::ChannelRequest::new(accepted.sender, b"exec", false, Rest(&fields)));
    let (mut came, mut largest) = (0, 0);
    while came < 20_000_000 {
        let body = line.get();
        if let Ok(data) = msg::ChannelData::decode(&body[1..]) {
            came += data.data.len();
            largest = largest.max(data.data.len() as u64);
        }
    }
    assert_eq!((came, largest), (20_000_000, MOST));
}
