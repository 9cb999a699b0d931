//! A plain TCP end at the server for as long as the run lasts, started through the session.
//!
//! A connection to it begins with a line of a token, which only this process and the helper know, and a
//! direction. Anything else is closed.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use lh_sys::tcp_info::TcpInfo;

use crate::fault::Fault;
use crate::flow::Direction;
use crate::held::Held;
use crate::target::Target;
use crate::task::random;

/// Time limit of a connection, and of the answer to an upload.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Part of a flow that is not counted, as for flows of SSH: TCP's slow start.
const WARM_UP: f64 = 0.3;
/// Time limit for the helper to listen.
const LISTENS: Duration = Duration::from_secs(3);
const BLOCK: usize = 128 * 1024;

const PYTHON: &str = include_str!("far_end.py");
const PERL: &str = include_str!("far_end.pl");

/// Reads the token, then starts the first helper that exists. `@PORT@` is 0 for a loopback port of the
/// kernel's choice.
const SCRIPT: &str = r#"
read T; export T; set -- $SSH_CONNECTION; p=@PORT@; a=127.0.0.1
[ $p = 0 ] || a=${3:-127.0.0.1}
if python3 -c 'import socket' 2>/dev/null; then exec python3 -u -c '@PYTHON@' $a $p
elif perl -MIO::Socket::IP -e 1 2>/dev/null; then exec perl -e '@PERL@' $a $p
elif [ $p != 0 ] && command -v socat >/dev/null; then
socat TCP-LISTEN:$p,bind="[$a]",reuseaddr,fork SYSTEM:'read t w; if [ "$t" = "$T" ]; then case $w in D) cat /dev/zero;; U) cat | wc -c;; esac; fi' &
k=$!; echo "ready $a $p socat"; cat >/dev/null; kill $k
else echo "the server has neither python3 nor perl, nor socat with --tcp-port" >&2; exit 1; fi"#;

/// Kind of forward that reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForwardMethod {
    Local,
    Socks,
}

/// The TCP end; stopped when dropped.
pub(crate) struct FarEnd {
    /// Address where it listens, as the server sees it.
    pub(crate) address: SocketAddr,
    /// The program that serves it.
    pub(crate) program: String,
    token: String,
    _helper: Held,
}

impl FarEnd {
    /// Starts it: at this port of the server's address, or at a loopback port.
    ///
    /// # Errors
    /// The server lacks the programs, or the port cannot be used: the server's words.
    pub(crate) fn start(target: &Target, port: Option<u16>) -> Result<Self, Fault> {
        let mut bytes = [0; 16];
        let source = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
        source.map_err(Fault::program("/dev/urandom".as_ref()))?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let script = SCRIPT
            .replace("@PORT@", &port.unwrap_or(0).to_string())
            .replace("@PYTHON@", PYTHON.trim())
            .replace("@PERL@", PERL.trim());
        let input = format!("{token}\n").into_bytes();
        let late = "the helper at the server did not start in time";
        let (helper, line) = Held::start(target, script, input, late)?;
        let mut words = line.split_whitespace().skip(1);
        let mut next = || words.next().unwrap_or_default().to_owned();
        let (address, port, program) = (next(), next(), next());
        let address = address.parse().ok().zip(port.parse().ok());
        let address = address
            .map(|(ip, port)| SocketAddr::new(ip, port))
            .ok_or_else(|| Fault::Server(format!("the helper said: {line}")))?;
        Ok(Self { address, program, token, _helper: helper })
    }

    /// Begins a flow on a connection to this end.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) fn begin(&self, stream: &mut TcpStream, direction: Direction) -> io::Result<()> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.write_all(self.request(direction).as_bytes())
    }

    /// The line with which a connection to this end begins.
    pub(crate) fn request(&self, direction: Direction) -> String {
        let way = if direction == Direction::Up { 'U' } else { 'D' };
        format!("{} {way}\n", self.token)
    }

    /// Moves data on a connection to this end for that time; returns bytes per second.
    ///
    /// # Errors
    /// The connection is lost, or nothing arrives.
    pub(crate) fn flow(
        &self,
        stream: &mut TcpStream,
        direction: Direction,
        slice: Duration,
    ) -> io::Result<f64> {
        self.begin(stream, direction)?;
        let (bytes, took) = match direction {
            Direction::Up => upload(stream, slice)?,
            Direction::Down => download(stream, slice)?,
        };
        if bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed at once"));
        }
        Ok(bytes as f64 / took.max(1e-6))
    }

    /// The rate of TCP alone to this end's port at `host`, bytes per second behind its slow start.
    ///
    /// # Errors
    /// The port cannot be reached.
    pub(crate) fn tcp_alone(
        &self,
        host: std::net::IpAddr,
        direction: Direction,
        slice: Duration,
    ) -> io::Result<f64> {
        let address = SocketAddr::new(host, self.address.port());
        let begun = Instant::now();
        let mut stream = loop {
            match TcpStream::connect_timeout(&address, TIMEOUT) {
                Err(error)
                    if error.kind() == io::ErrorKind::ConnectionRefused && begun.elapsed() < LISTENS =>
                {
                    std::thread::sleep(Duration::from_millis(50));
                }
                other => break other?,
            }
        };
        self.begin(&mut stream, direction)?;
        let begun = Instant::now();
        let mut block = random(BLOCK);
        let (mut moved, mut warm) = (0_u64, None);
        while begun.elapsed() < slice {
            let count = match direction {
                Direction::Up => uninterrupted(|| stream.write(&block))?,
                Direction::Down => uninterrupted(|| stream.read(&mut block))?,
            };
            if count == 0 {
                break;
            }
            moved += count as u64;
            let now = begun.elapsed().as_secs_f64();
            if warm.is_none() && now >= slice.as_secs_f64() * WARM_UP {
                warm = Some((now, arrived(&stream, direction, moved)));
            }
        }
        let (from, before) = warm.ok_or(io::ErrorKind::UnexpectedEof)?;
        let bytes = arrived(&stream, direction, moved).saturating_sub(before);
        Ok(bytes as f64 / (begun.elapsed().as_secs_f64() - from).max(1e-6))
    }
}

/// Bytes that have arrived at the receiver. Bytes in a send buffer have not.
fn arrived(stream: &TcpStream, direction: Direction, moved: u64) -> u64 {
    match direction {
        Direction::Up => TcpInfo::of(stream).and_then(|info| info.get("bytes_acked")).unwrap_or(moved),
        Direction::Down => moved,
    }
}

fn uninterrupted<T>(mut step: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match step() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Sends, then waits until the other end has counted everything.
fn upload(stream: &mut TcpStream, slice: Duration) -> io::Result<(u64, f64)> {
    let (block, begun, mut sent) = (random(BLOCK), Instant::now(), 0);
    while begun.elapsed() < slice {
        sent += uninterrupted(|| stream.write(&block))? as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.take(32).read_to_string(&mut answer)?;
    let took = begun.elapsed().as_secs_f64();
    match answer.trim().parse::<u64>() {
        Ok(got) if got == sent => Ok((sent, took)),
        _ => Err(io::Error::other(format!(
            "{sent} bytes were sent, the other end counted {:?}",
            answer.trim()
        ))),
    }
}

fn download(stream: &mut TcpStream, slice: Duration) -> io::Result<(u64, f64)> {
    let mut block = vec![0; BLOCK];
    let mut got = uninterrupted(|| stream.read(&mut block))? as u64;
    let begun = Instant::now();
    while got > 0 && begun.elapsed() < slice {
        match uninterrupted(|| stream.read(&mut block))? {
            0 => break,
            count => got += count as u64,
        }
    }
    Ok((got, begun.elapsed().as_secs_f64()))
}
