//! Forwards that go wrong, many times over: an error each, and neither end keeps a descriptor or memory of them.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use lh_interop::process::{Held, below, held};
use lh_interop::sharing::Scene;
use lh_interop::tunnel::{Pair, Tunnel, eventually, free_port, round_trip, serve_sums, sum_server};
use lh_interop::{Inetd, Lab, Lhsshd, our, peers};

/// How often each thing goes wrong before the first look, and again before the second.
const TIMES: usize = 150;
/// Memory may differ by what an allocator keeps, KiB; a leak of 4 KiB each time would be more.
const SLACK_KIB: usize = 512;

/// Our processes of one connection.
struct Watched<'a> {
    tunnel: &'a Tunnel,
    server: Option<u32>,
    ours: bool,
}

impl Watched<'_> {
    fn look(&self) -> Vec<Held> {
        let client = self.ours.then(|| self.tunnel.pid());
        let server = self.server.into_iter().flat_map(below);
        client.into_iter().chain(server).map(held).collect()
    }

    /// Lets something happen often, and often again, and compares.
    fn leaves_nothing(&self, what: &str, mut happen: impl FnMut()) {
        let mut often = || (0..TIMES).for_each(|_| happen());
        often();
        let settled = |before: &[Held]| {
            self.look().iter().zip(before).all(|(after, before)| after.descriptors <= before.descriptors)
        };
        // The last ones may still be on their way out.
        let mut before = self.look();
        eventually(what, || {
            let last = std::mem::replace(&mut before, self.look());
            std::thread::sleep(Duration::from_millis(100));
            before.iter().map(|held| held.descriptors).eq(last.iter().map(|held| held.descriptors))
        });
        often();
        eventually(what, || settled(&before));
        let after = self.look();
        println!("{what}: {before:?} {after:?}");
        assert_eq!(after.len(), before.len(), "{what}: a process is gone");
        for (after, before) in after.iter().zip(&before) {
            assert!(after.kib <= before.kib + SLACK_KIB, "{what}: {before:?} {after:?}");
        }
    }
}

/// Connects, says something, and hears that it is over.
fn refused(port: u16, words: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let _ = stream.write_all(words);
    let _ = stream.shutdown(Shutdown::Write);
    // An end or a reset, and no data but an answer of SOCKS.
    let _ = stream.read_to_end(&mut Vec::new());
}

fn exercise(pair: &Pair<'_>, server: Option<u32>) {
    let closed = free_port();
    let (local, dynamic, back, there) = (free_port(), free_port(), free_port(), sum_server());
    let good = free_port();
    let tunnel = pair.tunnel(&[
        "-L",
        &format!("127.0.0.1:{local}:127.0.0.1:{closed}"),
        "-L",
        &format!("127.0.0.1:{good}:127.0.0.1:{there}"),
        "-D",
        &format!("127.0.0.1:{dynamic}"),
        "-R",
        &format!("127.0.0.1:{back}:127.0.0.1:{closed}"),
    ]);
    tunnel.wait_for_port(back);
    tunnel.wait_for_port(dynamic);
    let watched = Watched { tunnel: &tunnel, server, ours: pair.is_ours() };
    watched.leaves_nothing("-L to a port that refuses", || refused(local, b"x"));
    watched.leaves_nothing("-R to a port that refuses", || refused(back, b"x"));
    let port = closed.to_be_bytes();
    let request = [&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1][..], &port].concat();
    watched.leaves_nothing("-D to a port that refuses", || refused(dynamic, &request));
    watched.leaves_nothing("a SOCKS client that lies", || refused(dynamic, b"\x05\x01\x00\x05\x01\x00\x09x"));
    watched.leaves_nothing("somebody who goes at once", || drop(TcpStream::connect(("127.0.0.1", local))));
    round_trip(good, 100_000);
    // One who listened and does not any more.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (once, target) = (free_port(), listener.local_addr().unwrap().port());
    let second = pair.tunnel(&["-L", &format!("127.0.0.1:{once}:127.0.0.1:{target}")]);
    serve_sums(listener.try_clone().unwrap());
    second.wait_for_port(once);
    round_trip(once, 1000);
}

/// Covers: ssh -L (refused); ssh -R (refused); ssh -D (refused); wire direct-tcpip; wire forwarded-tcpip
#[test]
fn connections_that_are_refused_leave_nothing_behind() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    exercise(&Pair::new(&lab, our("lhssh"), server.port), Some(server.pid()));
    if let Some([ssh, sshd]) = peers("connections_that_are_refused", ["ssh", "sshd"]) {
        let server = Lhsshd::start(&lab, "");
        exercise(&Pair::new(&lab, ssh, server.port), Some(server.pid()));
        let server = Inetd::openssh(&lab, &sshd, "");
        exercise(&Pair::new(&lab, our("lhssh"), server.port), None);
    }
}

/// Covers: ssh_config ControlPath (vanished); ssh -O check; ssh -O exit
#[test]
fn a_control_socket_that_vanishes_harms_nobody() {
    let mix = |master: &Path, client: &Path| {
        let scene = Scene::new(master.to_owned(), client.to_owned(), "");
        let running = scene.start_master(&[]);
        scene.ride(&["@", "true"]).ok("while it is there");
        let before = held(running.0.id()).descriptors;
        std::fs::remove_file(scene.socket()).unwrap();
        // Nobody answers, which is said and is no success; the master itself goes on.
        let ran = scene.ride(&["-O", "check", "@"]);
        assert_eq!(ran.code, 255);
        assert!(ran.err.contains("No such file or directory"), "{}", ran.err);
        // Who rides along only where there is somebody to ride with logs in himself.
        let args = scene.args(&["@", "echo alone"]);
        assert_eq!(scene.lab.run(client, &args).ok("by himself").text(), "alone\n");
        assert_eq!(scene.logins(), 2);
        assert!(held(running.0.id()).descriptors <= before, "the master keeps nothing of that");
        // Its place may be taken.
        drop(running);
        let second = scene.start_master(&[]);
        scene.ride(&["@", "true"]).ok("with the next one");
        drop(second);
    };
    mix(&our("lhssh"), &our("lhssh"));
    if let Some([ssh]) = peers("a_control_socket_that_vanishes", ["ssh"]) {
        mix(&our("lhssh"), &ssh);
        mix(&ssh, &our("lhssh"));
    }
}
