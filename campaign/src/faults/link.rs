//! A link to a server that goes down for a while, resets its connections, or flips bits.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lh_testkit::Seeded;

/// Interval at which a connection checks the state of the link.
const TICK: Duration = Duration::from_millis(10);

/// Average number of bits between two flipped ones.
const BITS_PER_FLIP: f64 = 1e6;

/// Forwards connections to a server.
pub(super) struct Link {
    /// The port on the loopback device that leads to the server.
    pub(super) port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    down: AtomicBool,
    /// Changes when all connections are to be reset.
    resets: AtomicU64,
    /// Bits that may still be flipped.
    flips: AtomicU64,
    flipped: AtomicU64,
    connections: AtomicU64,
    seed: AtomicU64,
}

impl Link {
    /// Creates a link to the server that listens on `to`. It lasts as long as the program runs.
    ///
    /// # Errors
    /// No port is free.
    pub(super) fn to(to: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                let (Ok(near_too), Ok(far_too)) = (near.try_clone(), far.try_clone()) else { continue };
                let number = shared.connections.fetch_add(1, Ordering::Relaxed);
                for (way, from, to) in [(0, near, far), (1, far_too, near_too)] {
                    let seed = shared.seed.load(Ordering::Relaxed).wrapping_add(number * 2 + way);
                    let pass = Pass { from, to, state: Arc::clone(&shared), random: Seeded::new(seed) };
                    std::thread::spawn(move || pass.run());
                }
            }
        });
        Ok(Self { port, state })
    }

    /// Sets whether the link is down: it then forwards nothing.
    pub(super) fn set_down(&self, down: bool) {
        self.state.down.store(down, Ordering::Relaxed);
    }

    /// Ends all connections with RST, towards both ends.
    pub(super) fn reset(&self) {
        self.state.resets.fetch_add(1, Ordering::Relaxed);
    }

    /// Flips at most `count` bits from now on, one in a million on average. `seed` determines their
    /// positions.
    pub(super) fn flip(&self, count: u64, seed: u64) {
        self.state.seed.store(seed, Ordering::Relaxed);
        self.state.flips.store(count, Ordering::Relaxed);
    }

    /// Bits flipped so far.
    pub(super) fn flipped(&self) -> u64 {
        self.state.flipped.load(Ordering::Relaxed)
    }
}

/// One direction of a connection.
struct Pass {
    from: TcpStream,
    to: TcpStream,
    state: Arc<State>,
    random: Seeded,
}

impl Pass {
    fn run(mut self) {
        let resets = self.state.resets.load(Ordering::Relaxed);
        let mut block = vec![0; 64 << 10];
        let _ = self.from.set_read_timeout(Some(TICK));
        let mut until_flip = self.distance();
        loop {
            if self.state.resets.load(Ordering::Relaxed) != resets {
                // The last descriptor that is closed sends RST: that of this direction, or of the other one.
                let _ = rustix::net::sockopt::set_socket_linger(&self.from, Some(Duration::ZERO));
                let _ = rustix::net::sockopt::set_socket_linger(&self.to, Some(Duration::ZERO));
                return;
            }
            if self.state.down.load(Ordering::Relaxed) {
                std::thread::sleep(TICK);
                continue;
            }
            match self.from.read(&mut block) {
                Ok(0) => break,
                Ok(count) => {
                    let Some(bytes) = block.get_mut(..count) else { break };
                    self.flip(bytes, &mut until_flip);
                    if self.to.write_all(bytes).is_err() {
                        break;
                    }
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(_) => break,
            }
        }
        let _ = self.to.shutdown(Shutdown::Write);
        let _ = self.from.shutdown(Shutdown::Read);
    }

    /// Returns the number of bits before the next flipped one.
    fn distance(&mut self) -> u64 {
        let unit = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        (-(1.0 - unit).ln() * BITS_PER_FLIP) as u64
    }

    fn flip(&mut self, bytes: &mut [u8], until: &mut u64) {
        let bits = bytes.len() as u64 * 8;
        while *until < bits {
            let allowed = self
                .state
                .flips
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if let (Ok(_), Some(byte)) = (allowed, bytes.get_mut((*until / 8) as usize)) {
                *byte ^= 1 << (*until % 8);
                self.state.flipped.fetch_add(1, Ordering::Relaxed);
            }
            *until += self.distance().max(1);
        }
        *until -= bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An echo server.
    fn echo() -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut other = stream.try_clone().unwrap();
                    let _ = std::io::copy(&mut stream, &mut other);
                });
            }
        });
        port
    }

    #[test]
    fn a_link_flips_the_given_number_of_bits() {
        let link = Link::to(echo()).unwrap();
        link.flip(3, 1);
        let mut stream = TcpStream::connect(("127.0.0.1", link.port)).unwrap();
        let sent = vec![0; 4 << 20];
        let mut writer = stream.try_clone().unwrap();
        let mut came = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                writer.write_all(&sent).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            stream.read_to_end(&mut came).unwrap();
        });
        assert_eq!(came.len(), sent.len());
        assert_eq!(came.iter().map(|byte| byte.count_ones()).sum::<u32>(), 3);
        assert_eq!(link.flipped(), 3);
    }

    #[test]
    fn a_link_goes_down_and_resets() {
        let link = Link::to(echo()).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", link.port)).unwrap();
        let mut byte = [0];
        stream.write_all(b"a").unwrap();
        stream.read_exact(&mut byte).unwrap();
        link.set_down(true);
        // Bytes for which the link already waits still pass.
        std::thread::sleep(TICK * 10);
        stream.write_all(b"b").unwrap();
        stream.set_read_timeout(Some(TICK * 10)).unwrap();
        assert!(stream.read(&mut byte).is_err());
        link.set_down(false);
        stream.set_read_timeout(None).unwrap();
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"b");
        link.reset();
        let error = stream.read(&mut byte).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}
