//! Connections from a load balancer, which names its client in a header of the PROXY protocol.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use lh_interop::{Inetd, Lab, Lhsshd, Ran, eventually, our, peers, skip, uninterrupted};

/// A load balancer on 127.0.0.1 that begins each connection to the server with a header.
struct Balancer {
    port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Balancer {
    fn new(lab: &Lab, server: u16, header: &[u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        lab.know(port);
        let stop = Arc::new(AtomicBool::new(false));
        let (ended, header) = (Arc::clone(&stop), header.to_vec());
        let thread = std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let mut server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                // In pieces: nothing says that a header comes as one.
                let (first, rest) = header.split_at(header.len() / 2);
                server.set_nodelay(true).unwrap();
                let _ = server.write_all(first).and_then(|()| server.write_all(rest));
                pass_on(client.try_clone().unwrap(), server.try_clone().unwrap());
                pass_on(server, client);
            }
        });
        Self { port, stop, thread: Some(thread) }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}

fn ssh(lab: &Lab, ssh: &Path, port: u16, more: &[&str]) -> Ran {
    let mut args = lab.client_options();
    args.extend(more.iter().map(|word| (*word).to_owned()));
    args.extend(["-p", &port.to_string(), "127.0.0.1", "echo $SSH_CLIENT $FROM"].map(str::to_owned));
    lab.run(ssh, &args)
}

/// A header of version 2 for TCP over IPv4: 192.0.2.8 port 40000.
fn version_2(command: u8) -> Vec<u8> {
    let fields = b"\x04\x00\x02zz";
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend_from_slice(&[
        0x20 | command,
        0x11,
        0,
        12 + 5,
        192,
        0,
        2,
        8,
        10,
        0,
        0,
        1,
        0x9c,
        0x40,
        0,
        22,
    ]);
    header.extend_from_slice(fields);
    header
}

/// Covers: sshd_config ProxyProtocolFrom
#[test]
fn balancer_names_the_client() {
    let Some([client]) = peers("balancer_names_the_client", ["ssh"]) else { return };
    let lab = Lab::new();
    lab.write("match", "Match Address 192.0.2.7\n  SetEnv FROM=seven\n");
    let config = format!("ProxyProtocolFrom 198.51.100.0/24,127.0.0.1\nInclude {}\n", lab.arg("match"));
    let server = Lhsshd::start(&lab, &config);
    let port = server.port;
    for (header, expected) in [
        (&b"PROXY TCP4 192.0.2.7 10.0.0.1 40000 22\r\n"[..], format!("192.0.2.7 40000 {port} seven\n")),
        (b"PROXY TCP6 2001:db8::9 ::1 40001 22\r\n", format!("2001:db8::9 40001 {port}\n")),
        (&version_2(1), format!("192.0.2.8 40000 {port}\n")),
    ] {
        let balancer = Balancer::new(&lab, port, header);
        assert_eq!(ssh(&lab, &client, balancer.port, &[]).ok("ssh").text(), expected);
    }
    assert!(server.log().contains(" from 192.0.2.7 port 40000 ssh2: ED25519 "), "{}", server.log());
    assert!(server.log().contains("Connection from 192.0.2.8 port 40000 through 127.0.0.1 port "));
    // The balancer's own connections, and those of clients that it does not know.
    for header in [&b"PROXY UNKNOWN\r\n"[..], &version_2(0)] {
        let balancer = Balancer::new(&lab, port, header);
        let seen = ssh(&lab, &client, balancer.port, &[]).ok("ssh").text();
        assert!(seen.starts_with("127.0.0.1 ") && seen.ends_with(&format!(" {port}\n")), "{seen}");
    }
}

/// Covers: sshd_config ProxyProtocolFrom (a missing or malformed header)
#[test]
fn missing_and_malformed_headers_are_closed() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ProxyProtocolFrom 127.0.0.0/8\n");
    for (sent, logged) in [
        ("SSH-2.0-OpenSSH_9.2\r\n", "closed: no PROXY header"),
        ("PROXY TCP4 192.0.2.7 10.0.0.1 40000 70000\r\n", "closed: malformed PROXY header: not a port"),
        ("PROXY TCP4 192.0.2.7", "closed: connection closed in the PROXY header"),
    ] {
        let mut balancer = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let port = balancer.local_addr().unwrap().port();
        balancer.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        balancer.write_all(sent.as_bytes()).unwrap();
        let _ = balancer.shutdown(Shutdown::Write);
        let mut got = Vec::new();
        // Closed with bytes unread: a reset is as good as an end.
        let _ = uninterrupted(|| balancer.read_to_end(&mut got));
        assert_eq!(String::from_utf8_lossy(&got), "");
        let line = format!("Connection from 127.0.0.1 port {port} {logged}");
        eventually("it is logged", || server.log().contains(&line));
    }
    // No session process was started for any of them.
    assert!(!server.log().contains("[preauth]"), "{}", server.log());
}

/// A balancer opens all of its connections again when the server was away.
#[test]
fn a_burst_behind_a_balancer_is_answered() {
    const BURST: usize = 300;
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    if most.trim().parse::<usize>().unwrap() < BURST {
        return skip("burst", "needs net.core.somaxconn of 300");
    }
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ProxyProtocolFrom 127.0.0.1\nMaxStartups 1:100:1\n");
    let listener = Pid::from_raw(server.pid().cast_signed()).unwrap();
    // Meanwhile the kernel accepts them.
    kill_process(listener, Signal::STOP).unwrap();
    let clients: Vec<TcpStream> = (0..BURST)
        .map(|n| {
            let mut client = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            let header = format!("PROXY TCP4 198.51.100.{} 10.0.0.1 40000 22\r\n", n % 250);
            client.write_all(header.as_bytes()).unwrap();
            client
        })
        .collect();
    kill_process(listener, Signal::CONT).unwrap();
    for mut client in clients {
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // The server's version, or the line of MaxStartups.
        let got = uninterrupted(|| client.read(&mut [0; 1]));
        assert_eq!(got.ok(), Some(1), "{}", server.log());
    }
    assert!(!server.log().contains("in the PROXY header"), "{}", server.log());
}

/// A header from elsewhere is no header: its bytes are a client's, and the address in it counts for nothing.
///
/// Covers: sshd_config ProxyProtocolFrom (other sources)
#[test]
fn headers_of_other_sources_are_not_believed() {
    let Some([client]) = peers("headers_of_other_sources_are_not_believed", ["ssh"]) else { return };
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ProxyProtocolFrom 192.0.2.1\n");
    let balancer = Balancer::new(&lab, server.port, b"PROXY TCP4 192.0.2.7 10.0.0.1 40000 22\r\n");
    assert_eq!(ssh(&lab, &client, balancer.port, &[]).code, 255);
    eventually("it is logged", || server.log().contains("invalid format"));
    assert!(!server.log().contains("from 192.0.2.7"), "{}", server.log());
    let seen = ssh(&lab, &client, server.port, &[]).ok("ssh").text();
    assert!(seen.starts_with("127.0.0.1 "), "{seen}");
}

/// Covers: sshd_config ProxyProtocolFrom (penalties)
#[test]
fn penalties_are_for_clients_behind_the_balancer() {
    let Some([client]) = peers("penalties_are_for_clients_behind_the_balancer", ["ssh"]) else { return };
    let lab = Lab::new();
    let config = "ProxyProtocolFrom 127.0.0.1\nPerSourcePenalties authfail:300s min:1s invaliduser:300s";
    let server = Lhsshd::start(&lab, config);
    let from = |address: &str| {
        let header = format!("PROXY TCP4 {address} 10.0.0.1 40000 22\r\n");
        Balancer::new(&lab, server.port, header.as_bytes())
    };
    let (bad, good) = (from("192.0.2.9"), from("192.0.2.10"));
    assert_eq!(ssh(&lab, &client, bad.port, &["-l", "nosuch-user"]).code, 255);
    eventually("the penalty is there", || {
        server.log().contains("192.0.2.9: activating penalty of 300 seconds")
    });
    assert_eq!(ssh(&lab, &client, bad.port, &[]).code, 255);
    assert!(server.log().contains("from [192.0.2.9]:40000 penalty"), "{}", server.log());
    ssh(&lab, &client, good.port, &[]).ok("another client");
}

/// Covers: sshd -i (behind a load balancer)
#[test]
fn inetd_mode_takes_a_header() {
    let Some([client]) = peers("inetd_mode_takes_a_header", ["ssh"]) else { return };
    let lab = Lab::new();
    lab.write(
        "conf",
        &format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nPermitRootLogin yes\nProxyProtocolFrom 127.0.0.1\n",
            lab.arg("host_ed25519"),
            lab.arg("authorized_keys")
        ),
    );
    let args = ["-i", "-e", "-f", &lab.arg("conf")].map(str::to_owned);
    let server = Inetd::start(&lab, &our("lhsshd"), &args);
    let balancer = Balancer::new(&lab, server.port, &version_2(1));
    let seen = ssh(&lab, &client, balancer.port, &[]).ok("ssh").text();
    assert!(seen.starts_with("192.0.2.8 40000 "), "{seen}");
    assert_eq!(ssh(&lab, &client, server.port, &[]).code, 255);
    assert!(server.log().contains("closed: no PROXY header"), "{}", server.log());
}
