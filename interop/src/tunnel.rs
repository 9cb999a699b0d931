//! Forwarding clients, and the servers at the ends of their forwards.

use std::hash::{DefaultHasher, Hasher as _};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lh_testkit::Seeded;
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};

use crate::process::held;
use crate::{Inetd, Lab, Lhsshd, eventually, me, our, peers};

/// A client program and the server it logs in to.
pub struct Pair<'a> {
    /// Keys and files.
    pub lab: &'a Lab,
    /// The client program.
    pub client: PathBuf,
    port: u16,
}

impl<'a> Pair<'a> {
    /// Pairs a client with the server on `port`.
    pub fn new(lab: &'a Lab, client: PathBuf, port: u16) -> Self {
        Self { lab, client, port }
    }

    /// True for our own client.
    pub fn is_ours(&self) -> bool {
        self.client == our("lhssh")
    }

    /// Returns the client's arguments. The host comes last, or where `@host` stands.
    pub fn args(&self, given: &[&str]) -> Vec<String> {
        let mut args = self.lab.client_options();
        args.extend(["-p".to_owned(), self.port.to_string()]);
        let host = format!("{}@127.0.0.1", me());
        args.extend(given.iter().map(|&word| if word == "@host" { host.clone() } else { word.to_owned() }));
        if !given.contains(&"@host") {
            args.push(host);
        }
        args
    }

    /// Starts a client that only forwards.
    pub fn tunnel(&self, forwards: &[&str]) -> Tunnel {
        let mut args = vec!["-N"];
        args.extend(forwards);
        Tunnel::start(self.lab, &self.client, &self.args(&args))
    }
}

/// Runs `check` with our client and our server, then with each of them and OpenSSH's counterpart.
pub fn each_pair(test: &str, config: &str, check: impl Fn(&Pair<'_>)) {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, config);
    println!("{test}: lhssh and lhsshd");
    check(&Pair::new(&lab, our("lhssh"), server.port));
    if let Some([ssh]) = peers(test, ["ssh"]) {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, config);
        println!("{test}: ssh and lhsshd");
        check(&Pair::new(&lab, ssh, server.port));
    }
    if let Some([sshd]) = peers(test, ["sshd"]) {
        let lab = Lab::new();
        let server = Inetd::openssh(&lab, &sshd, config);
        println!("{test}: lhssh and sshd");
        check(&Pair::new(&lab, our("lhssh"), server.port));
    }
}

/// A running client; it is killed when dropped.
pub struct Tunnel {
    child: Child,
    log: PathBuf,
}

impl Tunnel {
    /// Starts the client.
    pub fn start(lab: &Lab, program: &Path, args: &[String]) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let log = lab.path(&format!("tunnel-{}.log", NEXT.fetch_add(1, Ordering::Relaxed)));
        let child = Command::new(program)
            .args(args)
            .env("HOME", lab.path("home"))
            .env_remove("SSH_AUTH_SOCK")
            .current_dir(lab.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self { child, log }
    }

    /// Process id of the client.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the client's standard error.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for a line of standard error that begins with `start`, and returns it.
    pub fn wait_for_line(&self, start: &str) -> String {
        let find = || {
            self.said().lines().find(|line| line.starts_with(start)).map(|line| line.trim_end().to_owned())
        };
        eventually(start, || find().is_some());
        find().unwrap()
    }

    /// Waits until the port accepts connections on 127.0.0.1.
    pub fn wait_for_port(&self, port: u16) {
        self.wait_for("127.0.0.1", port);
    }

    /// Waits until the port accepts connections on this host.
    pub fn wait_for(&self, host: &str, port: u16) {
        for _ in 0..1800 {
            if TcpStream::connect((host, port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("no listener on {host} port {port}: {}", self.said());
    }

    /// Waits until a Unix socket accepts connections.
    pub fn wait_for_path(&self, path: &Path) {
        for _ in 0..1800 {
            if UnixStream::connect(path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("no listener on {}: {}", path.display(), self.said());
    }

    /// Number of open descriptors.
    pub fn descriptors(&self) -> usize {
        held(self.pid()).descriptors
    }

    /// Resident memory, KiB.
    pub fn memory_kib(&self) -> usize {
        held(self.pid()).kib
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- client's standard error\n{}", self.said());
        }
    }
}

/// Returns a port of 127.0.0.1 that stays reserved as long as this process lives.
///
/// A port that is only looked up and freed can become the source port of any connection a moment later, also
/// in tests that run beside this one. The socket that reserves it stays bound with `SO_REUSEADDR` and never
/// listens. So the kernel assigns the port only on request by number, connections to it are refused, and a
/// program that sets `SO_REUSEADDR` (all SSH programs do) can listen on it.
pub fn free_port() -> u16 {
    static RESERVED: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = SocketAddrV4::try_from(getsockname(&socket).unwrap()).unwrap().port();
    RESERVED.lock().unwrap().push(socket);
    port
}

/// Returns a sum server's answer: length and hash of the data.
pub fn sum(data: &[u8]) -> Vec<u8> {
    let mut hasher = DefaultHasher::new();
    hasher.write(data);
    format!("{} {:016x}\n", data.len(), hasher.finish()).into_bytes()
}

fn serve(mut read: impl Read, mut write: impl Write) {
    let mut data = Vec::new();
    if read.read_to_end(&mut data).is_ok() {
        let _ = write.write_all(&sum(&data));
        // The data is sent back too, so that both directions carry bulk.
        let _ = write.write_all(&data);
    }
}

/// Starts a sum server: it reads to the end, then returns the sum and the data. It lives as long as the
/// test's process.
pub fn sum_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    serve_sums(listener);
    port
}

/// Runs a sum server on this listener.
pub fn serve_sums(listener: TcpListener) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(&stream, &stream));
        }
    });
}

/// Like [`sum_server`], on a Unix socket.
pub fn sum_server_unix(path: &Path) -> PathBuf {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(&stream, &stream));
        }
    });
    path.to_owned()
}

fn check(mut read: impl Read, data: &[u8]) {
    let mut got = Vec::new();
    read.read_to_end(&mut got).unwrap();
    let expected = sum(data);
    assert!(got.starts_with(&expected), "{}", String::from_utf8_lossy(&got[..got.len().min(60)]));
    assert!(got[expected.len()..] == *data, "the data came back changed");
}

/// Sends `size` bytes to a sum server behind `port`, shuts down its sending half, and checks the answer.
#[track_caller]
pub fn round_trip(port: u16, size: usize) {
    round_trip_after(TcpStream::connect(("127.0.0.1", port)).unwrap(), 0, size);
}

/// Like [`round_trip`], on a connection whose first `skip` bytes are skipped.
#[track_caller]
pub fn round_trip_after(mut stream: TcpStream, skip: usize, size: usize) {
    stream.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
    stream.read_exact(&mut vec![0; skip]).unwrap();
    let data = Seeded::new(size as u64).bytes(size);
    stream.write_all(&data).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    check(&stream, &data);
}

/// Like [`round_trip`], through a Unix socket.
#[track_caller]
pub fn round_trip_unix(path: &Path, size: usize) {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
    let data = Seeded::new(size as u64).bytes(size);
    stream.write_all(&data).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    check(&stream, &data);
}
