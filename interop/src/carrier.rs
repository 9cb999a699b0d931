//! The kinds of channel that can carry bulk data, and a byte stream through each, with both ends in the test.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sharing::Running;
use crate::{Lab, eventually, script};

/// A kind of channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// A command.
    Command,
    /// The subsystem `bulk`; see [`server_lines`].
    Subsystem,
    /// `-W`: direct-tcpip on the client's standard input and output.
    Stdio,
    /// `-L` with ports: direct-tcpip.
    Local,
    /// `-D`: direct-tcpip, after SOCKS.
    Dynamic,
    /// `-L` with sockets: direct-streamlocal.
    LocalSocket,
    /// `-R` with ports: forwarded-tcpip.
    Remote,
    /// `-R` with sockets: forwarded-streamlocal.
    RemoteSocket,
}

impl Carrier {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Command,
        Self::Subsystem,
        Self::Stdio,
        Self::Local,
        Self::Dynamic,
        Self::LocalSocket,
        Self::Remote,
        Self::RemoteSocket,
    ];
}

/// Returns the lines with which the server's configuration must begin.
pub fn server_lines(lab: &Lab) -> String {
    format!("Subsystem bulk {}\nGatewayPorts clientspecified\n", lab.arg("bulk"))
}

/// Direction of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// Far end of a carrier's streams.
enum Target {
    Tcp(TcpListener),
    Socket(UnixListener),
    /// Named pipe that the remote command reads or writes.
    Pipe(PathBuf),
}

/// Near end of a client's forward.
enum Door {
    Port(SocketAddr),
    Socket(PathBuf),
    /// The client's own standard input and output.
    Program,
}

/// One carrier, set up at both ends.
pub struct Route {
    carrier: Carrier,
    way: Way,
    target: Target,
    door: Door,
    /// The client's flags for the carrier, before the host.
    pub flags: Vec<String>,
    /// The command, after the host.
    pub command: Vec<String>,
}

/// Returns an unused address for a forward to listen on: a separate loopback address, on which the kernel
/// assigns no ports to other programs.
fn quiet_place(number: usize) -> SocketAddr {
    let [.., high, low] = (number * 2 + 1).to_be_bytes();
    let [.., process] = std::process::id().to_be_bytes();
    let listener = TcpListener::bind((Ipv4Addr::new(127, process | 1, high, low), 0)).unwrap();
    listener.local_addr().unwrap()
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

impl Route {
    /// Prepares a carrier; a lab has at most one route through a subsystem.
    pub fn new(lab: &Lab, carrier: Carrier, way: Way) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |what: &str| lab.path(&format!("{what}-{number}"));
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let mut command = Vec::new();
        let (target, door, flags) = match carrier {
            Carrier::Command | Carrier::Subsystem => {
                let pipe = name("pipe");
                lab.run(std::path::Path::new("mkfifo"), &[&pipe]).ok("mkfifo");
                let copy = match way {
                    Way::Up => format!("exec cat >'{}'", pipe.display()),
                    Way::Down => format!("exec cat '{}'", pipe.display()),
                };
                let flags = if carrier == Carrier::Command {
                    command.push(copy);
                    Vec::new()
                } else {
                    script(&lab.path("bulk"), &copy);
                    command.push("bulk".to_owned());
                    words(&["-s"])
                };
                (Target::Pipe(pipe), Door::Program, flags)
            }
            Carrier::Stdio => {
                let (target, port) = listener();
                (Target::Tcp(target), Door::Program, words(&["-W", &format!("127.0.0.1:{port}")]))
            }
            Carrier::Local | Carrier::Remote => {
                let ((target, port), door) = (listener(), quiet_place(number));
                let flag = if carrier == Carrier::Local { "-L" } else { "-R" };
                let forward = format!("{door}:127.0.0.1:{port}");
                (Target::Tcp(target), Door::Port(door), words(&[flag, &forward]))
            }
            Carrier::Dynamic => {
                let ((target, _), door) = (listener(), quiet_place(number));
                (Target::Tcp(target), Door::Port(door), words(&["-D", &door.to_string()]))
            }
            Carrier::LocalSocket | Carrier::RemoteSocket => {
                let (door, target) = (name("door"), name("target"));
                let flag = if carrier == Carrier::LocalSocket { "-L" } else { "-R" };
                let forward = format!("{}:{}", door.display(), target.display());
                let target = Target::Socket(UnixListener::bind(target).unwrap());
                (target, Door::Socket(door), words(&[flag, &forward]))
            }
        };
        Self { carrier, way, target, door, flags, command }
    }

    /// True when the stream is the client's own standard input or output. The client must then be started
    /// with pipes and passed to [`flow`](Self::flow).
    pub const fn is_program(&self) -> bool {
        matches!(self.door, Door::Program)
    }

    /// Opens a stream through the carrier. `program` is the client started for this stream; forwards need
    /// none.
    pub fn flow(&self, program: Option<Child>) -> Flow {
        let mut program = program.map(Running);
        let door = match &self.door {
            Door::Port(place) => reach("the forward", || TcpStream::connect(*place).map(OwnedFd::from)),
            Door::Socket(path) => reach("the forward", || UnixStream::connect(path).map(OwnedFd::from)),
            Door::Program => {
                let child = &mut program.as_mut().expect("a client for this stream").0;
                match self.way {
                    Way::Up => child.stdin.take().expect("a pipe").into(),
                    Way::Down => child.stdout.take().expect("a pipe").into(),
                }
            }
        };
        let door = File::from(door);
        if let (Carrier::Dynamic, Target::Tcp(target)) = (self.carrier, &self.target) {
            ask_socks(&door, target.local_addr().unwrap().port());
        }
        let target = File::from(match &self.target {
            Target::Tcp(listener) => OwnedFd::from(listener.accept().unwrap().0),
            Target::Socket(listener) => OwnedFd::from(listener.accept().unwrap().0),
            // Opening the pipe waits for the command. If it were opened for both directions, the pipe would
            // always seem to have a reader.
            Target::Pipe(path) => {
                let up = self.way == Way::Up;
                OwnedFd::from(File::options().read(up).write(!up).open(path).unwrap())
            }
        });
        // A remote forward listens on the server.
        let door_is_near = !matches!(self.carrier, Carrier::Remote | Carrier::RemoteSocket);
        let (source, sink) =
            if door_is_near == (self.way == Way::Up) { (door, target) } else { (target, door) };
        Flow { source, sink, passed: 0, _program: program }
    }
}

fn reach(what: &str, mut connect: impl FnMut() -> io::Result<OwnedFd>) -> OwnedFd {
    let mut reached = None;
    eventually(what, || {
        reached = connect().ok();
        reached.is_some()
    });
    reached.expect("a connection")
}

fn ask_socks(mut door: &File, port: u16) {
    let [high, low] = port.to_be_bytes();
    door.write_all(&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, high, low]).unwrap();
    let mut answer = [0; 12];
    door.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..4], [5, 0, 5, 0], "{answer:?}");
}

/// A byte stream through a channel; dropping it ends the client that runs for it.
pub struct Flow {
    /// End that the test writes.
    pub source: File,
    /// End that the test reads.
    pub sink: File,
    /// Number of bytes passed so far.
    pub passed: u64,
    _program: Option<Running>,
}

/// Fills `block` with the stream's content at offset `place`; every word differs, so that misplaced blocks
/// are noticed.
fn pattern(place: u64, block: &mut [u8]) {
    for (at, word) in block.chunks_mut(8).enumerate() {
        let value = (place / 8 + at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
        word.copy_from_slice(&value[..word.len()]);
    }
}

const BLOCK: usize = 64 << 10;

/// Writes the stream's blocks from offset `place` on, until `bytes` have been written or the peer stops
/// reading. Calls `wrote` after each block, with the offset of its end.
pub fn write_pattern(
    mut source: &File,
    place: u64,
    bytes: u64,
    mut wrote: impl FnMut(u64),
) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    for at in (place..place + bytes).step_by(BLOCK) {
        pattern(at, &mut block);
        source.write_all(&block)?;
        wrote(at + BLOCK as u64);
    }
    Ok(())
}

/// Reads `bytes` of the stream from offset `place` on.
///
/// # Panics
/// If the data differ from the written data.
pub fn read_pattern(mut sink: &File, place: u64, bytes: u64) -> io::Result<()> {
    let (mut block, mut expected) = (vec![0; BLOCK], vec![0; BLOCK]);
    for at in (place..place + bytes).step_by(BLOCK) {
        sink.read_exact(&mut block)?;
        pattern(at, &mut expected);
        assert!(block == expected, "wrong data at byte {at}");
    }
    Ok(())
}

impl Flow {
    /// Sends at least `bytes`, in blocks of 64 KiB, and waits until all have arrived.
    pub fn pass(&mut self, bytes: u64) {
        let bytes = bytes.next_multiple_of(BLOCK as u64);
        let (place, source, sink) = (self.passed, &self.source, &self.sink);
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || write_pattern(source, place, bytes, |_| {}));
            read_pattern(sink, place, bytes).unwrap();
            writer.join().unwrap().unwrap();
        });
        self.passed += bytes;
    }
}
