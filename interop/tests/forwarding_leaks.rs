//! Forwards that fail or come in large numbers, many times over. Each is refused or served normally, and
//! neither end keeps descriptors or memory of finished ones.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use lh_interop::process::{Held, below, held};
use lh_interop::sharing::SharingSetup;
use lh_interop::tunnel::{Pair, Tunnel, free_port, round_trip, serve_sums};
use lh_interop::{Inetd, Lab, Lhsshd, eventually, our, peers, skip};

/// Number of failures before the first measurement, and again before the second.
const TIMES: usize = 100;
/// Number of connections opened at once.
const CROWD: usize = 1000;
/// Allowed growth of memory, KiB, by number of connections: what an allocator keeps, and buffers of a
/// megabyte that a crowd may fill. A leak of 4 KiB per connection would exceed it.
const SLACK_KIB: [(usize, usize); 2] = [(TIMES, 384), (CROWD, 3584)];

/// Our processes that serve one connection.
struct Watched<'a> {
    tunnel: &'a Tunnel,
    /// The listener's process, where the server is ours.
    server: Option<u32>,
    ours: bool,
    /// Open descriptors of each process when idle.
    idle: Vec<usize>,
}

impl<'a> Watched<'a> {
    /// To be created after a first run of everything.
    fn new(tunnel: &'a Tunnel, server: Option<u32>, ours: bool) -> Self {
        let mut watched = Self { tunnel, server, ours, idle: Vec::new() };
        // Connections that only probed the listener may still be closing.
        eventually("it is quiet", || {
            let now = watched.descriptors();
            let before = std::mem::replace(&mut watched.idle, now);
            std::thread::sleep(Duration::from_millis(200));
            before == watched.idle
        });
        watched
    }

    fn look(&self) -> Vec<Held> {
        let client = self.ours.then(|| self.tunnel.pid());
        let server = self.server.into_iter().flat_map(below);
        client.into_iter().chain(server).map(held).collect()
    }

    fn descriptors(&self) -> Vec<usize> {
        self.look().iter().map(|held| held.descriptors).collect()
    }

    fn settled(&self, what: &str) -> Vec<Held> {
        eventually(what, || {
            let now = self.descriptors();
            assert_eq!(now.len(), self.idle.len(), "{what}: a process is gone");
            now.iter().zip(&self.idle).all(|(now, idle)| now <= idle)
        });
        self.look()
    }

    /// Runs `happen` once to warm up and once more, and compares memory and descriptors.
    fn leaves_nothing(&self, what: &str, times: usize, mut happen: impl FnMut()) {
        let slack = SLACK_KIB.iter().find(|(of, _)| *of == times).map_or(0, |(_, slack)| *slack);
        happen();
        let before = self.settled(what);
        happen();
        let after = self.settled(what);
        println!("{what}: {before:?} {after:?}");
        for (after, before) in after.iter().zip(&before) {
            assert!(after.kib <= before.kib + slack, "{what}: {before:?} {after:?}");
        }
    }
}

/// Checks that a connection is refused: it ends or is reset, without data except a SOCKS reply.
fn refused(mut stream: impl Read + Write, end: impl FnOnce()) {
    let _ = stream.write_all(b"x");
    end();
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Like [`refused`], on a TCP port, with `words` sent first.
fn refused_at(port: u16, words: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let _ = stream.write_all(words);
    let half = stream.try_clone().unwrap();
    refused(stream, move || drop(half.shutdown(Shutdown::Write)));
}

fn refused_by(path: &Path) {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let half = stream.try_clone().unwrap();
    refused(stream, move || drop(half.shutdown(Shutdown::Write)));
}

/// Returns the SOCKS request for a port of this machine.
fn socks_request(port: u16) -> Vec<u8> {
    [&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1][..], &port.to_be_bytes()].concat()
}

/// Runs `check` with each of our programs and the other, and with OpenSSH's; the server's process is `None`
/// where the server is not ours.
fn each_watched(test: &str, check: impl Fn(&Pair<'_>, Option<u32>)) {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    println!("{test}: lhssh and lhsshd");
    check(&Pair::new(&lab, our("lhssh"), server.port), Some(server.pid()));
    if let Some([ssh, sshd]) = peers(test, ["ssh", "sshd"]) {
        let (lab, other) = (Lab::new(), Lab::new());
        let server = Lhsshd::start(&lab, "");
        println!("{test}: ssh and lhsshd");
        check(&Pair::new(&lab, ssh, server.port), Some(server.pid()));
        let server = Inetd::openssh(&other, &sshd, "");
        println!("{test}: lhssh and sshd");
        check(&Pair::new(&other, our("lhssh"), server.port), None);
    }
}

/// Covers: ssh -L (refused); ssh -R (refused); ssh -D (refused); wire direct-tcpip; wire forwarded-tcpip; wire direct-streamlocal@openssh.com
#[test]
fn connections_that_are_refused_leave_nothing_behind() {
    each_watched("connections_that_are_refused", |pair, server| {
        let closed = free_port();
        let [local, dynamic, back, back_dynamic, good, dead, unix, gone] =
            std::array::from_fn(|_| free_port());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap().port();
        serve_sums(listener);
        // A socket file without a listener.
        let stale = pair.lab.path("stale");
        drop(UnixListener::bind(&stale).unwrap());
        // A listener that accepts connections and closes them.
        let rude = TcpListener::bind("127.0.0.1:0").unwrap();
        let rude_port = rude.local_addr().unwrap().port();
        std::thread::spawn(move || rude.incoming().for_each(drop));
        let (here, remote) = (pair.lab.path("here"), pair.lab.path("remote"));
        let to = |from: u16, to: u16| format!("127.0.0.1:{from}:127.0.0.1:{to}");
        let tunnel = pair.tunnel(
            &[
                ["-L", &to(local, closed)],
                ["-L", &to(good, there)],
                ["-L", &to(dead, rude_port)],
                ["-L", &format!("127.0.0.1:{unix}:{}", stale.display())],
                ["-L", &format!("127.0.0.1:{gone}:no-such-host.invalid:1")],
                ["-L", &format!("{}:127.0.0.1:{closed}", here.display())],
                ["-D", &format!("127.0.0.1:{dynamic}")],
                ["-R", &format!("{}:{}", remote.display(), stale.display())],
                ["-R", &to(back, closed)],
                ["-R", &format!("127.0.0.1:{back_dynamic}")],
            ]
            .concat(),
        );
        tunnel.wait_for_port(back_dynamic);
        tunnel.wait_for_port(dynamic);
        refused_at(gone, b"");
        let watched = Watched::new(&tunnel, server, pair.is_ours());
        let often = |happen: &dyn Fn()| (0..TIMES).for_each(|_| happen());
        watched.leaves_nothing("-L to a port that refuses", TIMES, || often(&|| refused_at(local, b"")));
        watched.leaves_nothing("-L from a socket", TIMES, || often(&|| refused_by(&here)));
        watched.leaves_nothing("-L to a socket whose listener is dead", TIMES, || {
            often(&|| refused_at(unix, b""))
        });
        watched.leaves_nothing("-L to a listener that closes", TIMES, || often(&|| refused_at(dead, b"")));
        watched.leaves_nothing("-R to a port that refuses", TIMES, || often(&|| refused_at(back, b"")));
        watched.leaves_nothing("-R to a socket whose listener is dead", TIMES, || {
            often(&|| refused_by(&remote))
        });
        let request = socks_request(closed);
        for port in [dynamic, back_dynamic] {
            watched.leaves_nothing("SOCKS to a port that refuses", TIMES, || {
                often(&|| refused_at(port, &request))
            });
            for lie in
                [&b"\x05\x01\x00\x05\x01\x00\x09x"[..], b"GET / HTTP/1.0\r\n\r\n", b"\x04\x01", b"\x05\xff"]
            {
                watched
                    .leaves_nothing("a SOCKS client that lies", TIMES, || often(&|| refused_at(port, lie)));
            }
        }
        watched.leaves_nothing("a client that closes at once", TIMES, || {
            often(&|| drop(TcpStream::connect(("127.0.0.1", local))));
        });
        round_trip(good, 100_000);
    });
}

/// Echoes one byte for each connection of a crowd, and closes all when all have come.
fn host(listener: TcpListener) {
    std::thread::spawn(move || {
        let mut streams = Vec::new();
        for stream in listener.incoming().flatten() {
            let mut byte = [0];
            // Connections that only probe the listener send nothing.
            if (&stream).read(&mut byte).is_ok_and(|read| read == 1) && (&stream).write_all(&byte).is_ok() {
                streams.push(stream);
            }
            if streams.len() == CROWD {
                streams.drain(..).for_each(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
            }
        }
    });
}

/// Holds all connections open at once: each sends a word and reads the echo after `skip` other bytes. They
/// connect in groups, because a connection that finds a listener's queue full retries only seconds later.
fn crowd<S: Read + Write>(connect: impl Fn() -> S, word: &[u8], skip: usize) {
    const GROUP: usize = 50;
    let mut streams: Vec<S> = Vec::new();
    let mut heard = vec![0; skip + 1];
    while streams.len() < CROWD {
        let new = streams.len();
        for _ in 0..GROUP {
            let mut stream = connect();
            stream.write_all(word).unwrap();
            streams.push(stream);
        }
        for stream in &mut streams[new..] {
            stream.read_exact(&mut heard).unwrap();
            assert_eq!(heard.last(), word.last());
        }
    }
}

/// Covers: ssh -L; ssh -R; ssh -D; wire direct-tcpip; wire forwarded-tcpip; wire forwarded-streamlocal@openssh.com
#[test]
fn a_thousand_connections_at_once_leave_nothing_behind() {
    // Each end needs one descriptor per connection; this process needs two.
    let most = rustix::process::Rlimit { current: Some(8192), maximum: Some(8192) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, most)
        .unwrap_or_else(|error| skip("a_thousand_connections", &error.to_string()));
    each_watched("a_thousand_connections", |pair, server| {
        let [local, dynamic, back, back_dynamic] = std::array::from_fn(|_| free_port());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap().port();
        host(listener);
        let (here, remote) = (pair.lab.path("here"), pair.lab.path("remote"));
        let tunnel = pair.tunnel(
            &[
                ["-L", &format!("127.0.0.1:{local}:localhost:{there}")],
                ["-L", &format!("{}:127.0.0.1:{there}", here.display())],
                ["-D", &format!("127.0.0.1:{dynamic}")],
                ["-R", &format!("{}:127.0.0.1:{there}", remote.display())],
                ["-R", &format!("127.0.0.1:{back}:127.0.0.1:{there}")],
                ["-R", &format!("127.0.0.1:{back_dynamic}")],
            ]
            .concat(),
        );
        tunnel.wait_for_port(back_dynamic);
        tunnel.wait_for_port(local);
        let watched = Watched::new(&tunnel, server, pair.is_ours());
        let at = |port: u16| {
            let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream
        };
        watched.leaves_nothing("-L", CROWD, || crowd(|| at(local), b"x", 0));
        watched.leaves_nothing("-R", CROWD, || crowd(|| at(back), b"x", 0));
        let request = [&socks_request(there)[..], b"x"].concat();
        // Method selection and reply, with an IPv4 address.
        for port in [dynamic, back_dynamic] {
            watched.leaves_nothing("-D", CROWD, || crowd(|| at(port), &request, 12));
        }
        for path in [&here, &remote] {
            watched
                .leaves_nothing("sockets", CROWD, || crowd(|| UnixStream::connect(path).unwrap(), b"x", 0));
        }
    });
}

/// Covers: ssh_config ControlPath (vanished); ssh -O check; ssh -O exit
#[test]
fn a_vanished_control_socket_is_survived() {
    let mix = |master: &Path, client: &Path| {
        let setup = SharingSetup::new(master.to_owned(), client.to_owned(), "");
        let running = setup.start_master(&[]);
        setup.run_mux_client(&["@", "true"]).ok("while it is there");
        let before = held(running.0.id()).descriptors;
        std::fs::remove_file(setup.socket()).unwrap();
        // No master answers, which is reported as a failure; the master itself continues.
        let ran = setup.run_mux_client(&["-O", "check", "@"]);
        assert_eq!(ran.code, 255);
        assert!(ran.err.contains("No such file or directory"), "{}", ran.err);
        // A client that would share a connection logs in by itself if there is no master.
        let args = setup.args(&["@", "echo alone"]);
        assert_eq!(setup.lab.run(client, &args).ok("its own login").text(), "alone\n");
        assert_eq!(setup.logins(), 2);
        assert!(held(running.0.id()).descriptors <= before, "the master keeps nothing of that");
        // A new master may take the path.
        drop(running);
        let second = setup.start_master(&[]);
        setup.run_mux_client(&["@", "true"]).ok("with the next one");
        drop(second);
    };
    mix(&our("lhssh"), &our("lhssh"));
    if let Some([ssh]) = peers("a_control_socket_that_vanishes", ["ssh"]) {
        mix(&our("lhssh"), &ssh);
        mix(&ssh, &our("lhssh"));
    }
}
