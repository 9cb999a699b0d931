//! How often two ends wait for each other, whatever a round trip takes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long both ends must have been silent to be taken to wait for each other. On a busy machine that may be too short: then more
/// flights are counted than there are, and never fewer.
const SILENCE: Duration = Duration::from_millis(120);

/// A relay for one connection, that hands on in one go, in both directions, what has come until both ends are silent.
pub struct Flights {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    relay: JoinHandle<std::io::Result<usize>>,
}

impl Flights {
    /// Relays to a server on this port of 127.0.0.1.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let own = listener.local_addr().unwrap().port();
        let relay = std::thread::spawn(move || {
            let (client, _) = listener.accept()?;
            relay(client, TcpStream::connect(("127.0.0.1", port))?)
        });
        Self { port: own, relay }
    }

    /// After the connection has ended: how many times the client has been answered. That is how many round trips it has taken,
    /// without the one of TCP.
    pub fn count(self) -> usize {
        self.relay.join().unwrap().unwrap()
    }

    /// The fewest of three runs, each of which gets the port of a relay to `port`: one that was disturbed proves nothing, and none can take
    /// fewer flights than it needs.
    pub fn fewest(port: u16, enough: usize, mut run: impl FnMut(u16)) -> usize {
        let mut fewest = usize::MAX;
        for _ in 0..3 {
            let flights = Self::to(port);
            run(flights.port);
            fewest = fewest.min(flights.count());
            if fewest <= enough {
                break;
            }
        }
        fewest
    }
}

fn relay(mut client: TcpStream, mut server: TcpStream) -> std::io::Result<usize> {
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(Duration::from_millis(5)))?;
        stream.set_nodelay(true)?;
    }
    let mut answers = 0;
    loop {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let mut ended = false;
        let mut quiet_since = Instant::now();
        while !ended && quiet_since.elapsed() < SILENCE {
            for (stream, held) in [(&mut client, &mut up), (&mut server, &mut down)] {
                let mut piece = [0; 64 * 1024];
                match stream.read(&mut piece) {
                    Ok(0) => ended = true,
                    Ok(n) => {
                        held.extend_from_slice(&piece[..n]);
                        quiet_since = Instant::now();
                    }
                    Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock) => {}
                    Err(_) => ended = true,
                }
            }
        }
        if !down.is_empty() {
            answers += 1;
        }
        // Who has left takes nothing any more.
        let gone = server.write_all(&up).is_err() | client.write_all(&down).is_err();
        if ended || gone {
            return Ok(answers);
        }
    }
}
