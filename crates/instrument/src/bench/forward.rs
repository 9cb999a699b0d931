//! Throughput through `-L`, `-D` and `-J` of a client.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use super::child::{Bench, Figure};
use super::process::{kill, said, spawn};
use super::row::Unit;
use crate::command::quoted;
use crate::far_end::ForwardMethod;
use crate::fault::Fault;
use crate::flow::Direction;

/// Time limit for the client to log in and to listen.
const LISTENS: Duration = Duration::from_secs(20);

impl Bench<'_> {
    /// Both directions through a forward of a port to the TCP end at the server.
    pub(super) fn forward(&self, program: &Path, way: ForwardMethod) -> Result<Vec<Figure>, Fault> {
        let Some(far) = self.far else { return Ok(Vec::new()) };
        let near =
            free_port().map_err(|error| Fault::System { what: "a loopback port".to_owned(), error })?;
        let mut command = self.command(program);
        command.args(["-N", "-o", "ExitOnForwardFailure=yes"]);
        match way {
            ForwardMethod::Local => command.arg("-L").arg(format!("{near}:{}", bracketed(far.address))),
            ForwardMethod::Socks => command.arg("-D").arg(near.to_string()),
        };
        let mut child = spawn(command.arg(&self.plan.destination))?;
        let figures = Direction::BOTH.into_iter().map(|direction| {
            let mut stream = self.near_end(&mut child, near)?;
            if way == ForwardMethod::Socks {
                ask_socks(&mut stream, far.address)?;
            }
            let rate = far.flow(&mut stream, direction, self.slice)?;
            Ok((direction.column(), Unit::BytesPerSecond, rate))
        });
        let figures: io::Result<Vec<Figure>> = figures.collect();
        kill(&mut child);
        let words = said(child);
        figures.map_err(|error| match words.is_empty() {
            true => Fault::System { what: "the forward".to_owned(), error },
            false => Fault::Client(format!("{words} ({error})")),
        })
    }

    /// Connects to the client's port as soon as it listens.
    fn near_end(&self, child: &mut Child, near: SocketAddr) -> io::Result<TcpStream> {
        let begun = Instant::now();
        loop {
            match TcpStream::connect_timeout(&near, LISTENS) {
                Ok(stream) => return Ok(stream),
                Err(error) if child.try_wait()?.is_some() || begun.elapsed() > LISTENS => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Both directions through the server as its own jump host: as `-J`, with the flags of this run at the
    /// jump host, too.
    pub(super) fn jump(&self, program: &Path) -> Result<Vec<Figure>, Fault> {
        let mut words = vec![program.display().to_string(), "-o".to_owned(), "BatchMode=yes".to_owned()];
        words.extend(["-o", "ControlPath=none", "-o", "ClearAllForwardings=yes"].map(str::to_owned));
        words.extend(self.plan.client_words.iter().cloned());
        let words: Vec<String> = words.iter().map(|word| quoted(&word.replace('%', "%%"))).collect();
        let proxy =
            format!("ProxyCommand={} -W '[%h]:%p' {}", words.join(" "), quoted(&self.plan.destination));
        self.both_ways(program, &["-o".to_owned(), proxy])
    }

    /// Both directions through a pipe, with these words on the command line.
    pub(super) fn both_ways(&self, program: &Path, more: &[String]) -> Result<Vec<Figure>, Fault> {
        let mut figures = self.up(program, more)?;
        figures.extend(self.down(program, more)?);
        // Processor time of this side may be that of two clients: the row is about throughput.
        figures.retain(|(_, unit, _)| *unit == Unit::BytesPerSecond);
        Ok(figures)
    }

    /// Both directions through a pipe to the jump host alone.
    pub(super) fn to_jump_host(&self, program: &Path) -> Result<Vec<Figure>, Fault> {
        let Some(plan) = self.jump_host else { return Ok(Vec::new()) };
        Bench { plan, serial: self.serial.clone(), ..*self }.both_ways(program, &[])
    }
}

/// A loopback port that nothing uses now.
fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Formats an address as an argument of `-L` contains it: `[address]:port`.
fn bracketed(address: SocketAddr) -> String {
    format!("[{}]:{}", address.ip(), address.port())
}

/// Asks a SOCKS5 server (RFC 1928) for a connection.
fn ask_socks(stream: &mut TcpStream, to: SocketAddr) -> io::Result<()> {
    stream.set_read_timeout(Some(LISTENS))?;
    let host = to.ip().to_string();
    let mut request = vec![5, 1, 0, 5, 1, 0, 3, u8::try_from(host.len()).unwrap_or(0)];
    request.extend_from_slice(host.as_bytes());
    request.extend_from_slice(&to.port().to_be_bytes());
    let (greeting, request) = request.split_at(3);
    stream.write_all(greeting)?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer)?;
    if answer != [5, 0] {
        return Err(io::Error::other("the SOCKS server wants a login"));
    }
    stream.write_all(request)?;
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    if head[1] != 0 {
        return Err(io::Error::other(format!("the SOCKS server refused with code {}", head[1])));
    }
    let rest = match head[3] {
        1 => 4,
        4 => 16,
        _ => {
            let mut length = [0];
            stream.read_exact(&mut length)?;
            usize::from(length[0])
        }
    };
    stream.read_exact(&mut vec![0; rest + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socks_request_names_the_address() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut greeting = [0; 3];
            stream.read_exact(&mut greeting).unwrap();
            stream.write_all(&[5, 0]).unwrap();
            let mut request = [0; 16];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(&[5, 2, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
            (greeting, request)
        });
        let to: SocketAddr = "127.0.0.1:258".parse().unwrap();
        let error = ask_socks(&mut TcpStream::connect(near).unwrap(), to).unwrap_err();
        assert_eq!(error.to_string(), "the SOCKS server refused with code 2");
        let (greeting, request) = server.join().unwrap();
        assert_eq!((greeting, &request), ([5, 1, 0], b"\x05\x01\x00\x03\x09127.0.0.1\x01\x02"));
        assert_eq!(bracketed("[::1]:7".parse().unwrap()), "[::1]:7");
    }
}
