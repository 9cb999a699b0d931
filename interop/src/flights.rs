//! A relay that counts the round trips of a connection, regardless of their duration.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time of silence from both ends after which each counts as waiting for the other. On a busy machine it may
/// be too short: the relay then counts too many flights, never too few.
const SILENCE: Duration = Duration::from_millis(120);

/// A relay for one connection. It holds back the bytes of both directions until both ends are silent, then
/// forwards them at once.
pub struct Flights {
    /// Port of 127.0.0.1 that the relay listens on.
    pub port: u16,
    relay: JoinHandle<std::io::Result<usize>>,
}

impl Flights {
    /// Starts a relay to a server on this port of 127.0.0.1.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let own = listener.local_addr().unwrap().port();
        let relay = std::thread::spawn(move || {
            let (client, _) = listener.accept()?;
            relay(client, TcpStream::connect(("127.0.0.1", port))?)
        });
        Self { port: own, relay }
    }

    /// Waits for the end of the connection and returns the number of times that the client was answered: its
    /// round trips, without TCP's handshake.
    pub fn count(self) -> usize {
        self.relay.join().unwrap().unwrap()
    }

    /// Returns the smallest number of flights in up to ten runs, each with the port of a new relay to
    /// `port`; stops at `enough`.
    ///
    /// A disturbed run counts too many flights. No run can count fewer than it needs.
    pub fn fewest(port: u16, enough: usize, mut run: impl FnMut(u16)) -> usize {
        let mut fewest = usize::MAX;
        for _ in 0..10 {
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
                    Err(error)
                        if matches!(
                            error.kind(),
                            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                        ) => {}
                    Err(_) => ended = true,
                }
            }
        }
        if !down.is_empty() {
            answers += 1;
        }
        // A write to a closed end fails.
        let gone = server.write_all(&up).is_err() | client.write_all(&down).is_err();
        if ended || gone {
            return Ok(answers);
        }
    }
}
