//! Streams of a known length, their far end, and a copying relay: the tools to measure forwards.
//!
//! Both ends of a stream stay alive until the near end closes the stream, so that it can read the usage of
//! all programs in between while they still run.

use std::fs::File;
use std::io::{Read, Write, copy, sink};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::stdio::{stdin, stdout};

/// Subcommand of a far end; processes with it in their command line are not counted.
pub(crate) const END: &str = "stream-end";

/// Bytes passed to the kernel at once.
const BATCH: usize = 256 * 1024;
/// Upper limit of one read, bytes.
const SLAB: usize = 1 << 20;

/// Direction of a stream's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the far end to the near one.
    Down,
    /// From the near end to the far one.
    Up,
}

impl Way {
    /// Both directions, in the order of the report.
    pub(crate) const BOTH: [Self; 2] = [Self::Down, Self::Up];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }
}

/// Byte that an end sends when it is ready, and when it has received all bytes.
const HERE: &[u8; 1] = b".";

/// `lh-bench stream-end --bytes N`: the far end on standard input and output.
///
/// # Errors
/// The stream breaks.
pub fn end(args: &[String]) -> Result<(), String> {
    let bytes = option(args, "--bytes")?.parse().map_err(|_| "--bytes")?;
    let (mut input, mut output) = (file(stdin())?, file(stdout())?);
    let mut serve = || -> std::io::Result<()> {
        output.write_all(HERE)?;
        let mut way = [0];
        input.read_exact(&mut way)?;
        if way == *b"d" {
            send(&mut output, bytes)?;
        } else {
            receive(&mut input, bytes)?;
            output.write_all(HERE)?;
        }
        copy(&mut input, &mut sink()).map(drop)
    };
    serve().map_err(|error| format!("stream: {error}"))
}

fn option<'a>(args: &'a [String], name: &str) -> Result<&'a str, String> {
    let at = args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    at.map(String::as_str).ok_or_else(|| format!("no {name}"))
}

fn file(fd: BorrowedFd<'_>) -> Result<File, String> {
    fd.try_clone_to_owned().map(File::from).map_err(|error| format!("descriptor: {error}"))
}

/// The near end of a stream.
pub(crate) struct Near {
    to: File,
    from: File,
}

impl Near {
    pub(crate) fn pipes(to: OwnedFd, from: OwnedFd) -> Self {
        Self { to: to.into(), from: from.into() }
    }

    pub(crate) fn socket(socket: TcpStream) -> std::io::Result<Self> {
        socket.set_nodelay(true)?;
        Ok(Self { to: OwnedFd::from(socket.try_clone()?).into(), from: OwnedFd::from(socket).into() })
    }

    /// Requests a connection from a SOCKS 5 proxy (RFC 1928).
    pub(crate) fn ask_socks(&mut self, to: std::net::SocketAddrV4) -> std::io::Result<()> {
        self.to.write_all(&[5, 1, 0])?;
        self.from.read_exact(&mut [0; 2])?;
        let [a, b, c, d] = to.ip().octets();
        let [high, low] = to.port().to_be_bytes();
        self.to.write_all(&[5, 1, 0, 1, a, b, c, d, high, low])?;
        let mut answer = [0; 10];
        self.from.read_exact(&mut answer)?;
        if answer[1] == 0 { Ok(()) } else { Err(std::io::Error::other(format!("SOCKS error {}", answer[1]))) }
    }

    /// Waits until the far end is ready.
    pub(crate) fn greet(&mut self) -> std::io::Result<()> {
        self.from.read_exact(&mut [0; HERE.len()])
    }

    /// Transfers all bytes.
    pub(crate) fn transfer(&mut self, way: Way, bytes: u64) -> std::io::Result<()> {
        match way {
            Way::Down => {
                self.to.write_all(b"d")?;
                receive(&mut self.from, bytes)
            }
            Way::Up => {
                self.to.write_all(b"u")?;
                send(&mut self.to, bytes)?;
                self.greet()
            }
        }
    }
}

fn send(to: &mut impl Write, bytes: u64) -> std::io::Result<()> {
    let block = vec![0x5a; BATCH];
    let mut left = bytes;
    while left > 0 {
        let take = left.min(BATCH as u64);
        to.write_all(&block[..take as usize])?;
        left -= take;
    }
    Ok(())
}

/// Reads exactly this many bytes.
fn receive(from: &mut impl Read, bytes: u64) -> std::io::Result<()> {
    let mut slab = vec![0; SLAB];
    let mut left = bytes;
    while left > 0 {
        let take = left.min(SLAB as u64) as usize;
        match from.read(&mut slab[..take])? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => left -= count as u64,
        }
    }
    Ok(())
}

/// `lh-bench tcp-relay --to ADDRESS:PORT`, with a connection as standard input: copies in both directions,
/// with one thread each and large buffers. Two in a row are a forward without SSH.
///
/// # Errors
/// The connection cannot be made.
pub fn relay(args: &[String]) -> Result<(), String> {
    let to = option(args, "--to")?;
    let far = TcpStream::connect(to).map_err(|error| format!("{to}: {error}"))?;
    let near = TcpStream::from(stdin().try_clone_to_owned().map_err(|error| format!("stdin: {error}"))?);
    let pass = |mut from: &TcpStream, mut to: &TcpStream| {
        let mut buffer = vec![0; BATCH];
        while let Ok(count) = from.read(&mut buffer)
            && count > 0
            && to.write_all(&buffer[..count]).is_ok()
        {}
        let _ = to.shutdown(Shutdown::Write);
    };
    for socket in [&far, &near] {
        let _ = socket.set_nodelay(true);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| pass(&far, &near));
        pass(&near, &far);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_transfer_the_exact_length() {
        let mut sent = Vec::new();
        send(&mut sent, 3_000_001).unwrap();
        assert_eq!(sent.len(), 3_000_001);
        receive(&mut sent.as_slice(), 3_000_001).unwrap();
        assert!(receive(&mut sent.as_slice(), 3_000_002).is_err());
    }
}
