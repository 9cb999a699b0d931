//! A relay that simulates a longer or narrower path than loopback. It needs no special rights and no separate
//! network, and counts bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes per read with a rate limit.
const PIECE: usize = 16 * 1024;
/// Bytes per read without a rate limit.
const LARGE_PIECE: usize = 256 * 1024;

/// Properties of a [`Path`], applied to each connection.
#[derive(Debug, Clone, Copy)]
pub struct Traits {
    /// One-way delay.
    pub delay: Duration,
    /// Rate limit of each direction, bytes/s.
    pub rate: Option<u32>,
    /// All connections share the rate; otherwise each connection has the whole rate.
    pub shared: bool,
}

impl Traits {
    /// A path with this one-way delay and no rate limit.
    pub const fn long(delay: Duration) -> Self {
        Self { delay, rate: None, shared: false }
    }
}

/// A relay in front of a server, with these traits.
pub struct Path {
    /// Loopback port that leads to the server.
    pub port: u16,
    forth: Arc<AtomicU64>,
    back: Arc<AtomicU64>,
}

/// Time at which the next byte may be sent.
type Pace = Arc<Mutex<Instant>>;

impl Path {
    /// Starts a path to the server on port `to`. It lasts as long as the test's process.
    pub fn to(to: u16, traits: Traits) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        if let Some(rate) = traits.rate {
            // The queue in front of the bottleneck holds at most 100 ms of data.
            let queue = (rate as usize / 10).max(64 * 1024);
            rustix::net::sockopt::set_socket_recv_buffer_size(&listener, queue).expect("a buffer");
        }
        let port = listener.local_addr().expect("an address").port();
        let paces = || [(); 2].map(|()| Pace::new(Mutex::new(Instant::now())));
        let common = paces();
        let path = Self { port, forth: Arc::default(), back: Arc::default() };
        let (forth, back) = (Arc::clone(&path.forth), Arc::clone(&path.back));
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                let _ = (near.set_nodelay(true), far.set_nodelay(true));
                let (Ok(near_too), Ok(far_too)) = (near.try_clone(), far.try_clone()) else { continue };
                let [up, down] = if traits.shared { common.clone() } else { paces() };
                pass(near, far, traits, up, Arc::clone(&forth));
                pass(far_too, near_too, traits, down, Arc::clone(&back));
            }
        });
        path
    }

    /// Bytes delivered to the server.
    pub fn forth(&self) -> u64 {
        self.forth.load(Ordering::Relaxed)
    }

    /// Bytes delivered to the clients.
    pub fn back(&self) -> u64 {
        self.back.load(Ordering::Relaxed)
    }
}

/// Relays one direction of one connection on two threads, so that delayed data do not hold up reading.
fn pass(mut from: TcpStream, mut to: TcpStream, traits: Traits, pace: Pace, count: Arc<AtomicU64>) {
    // The channel holds as much data as the socket's queue, or enough for any window.
    let pieces = traits.rate.map_or(4096, |rate| rate as usize / PIECE / 10 + 1);
    let (send, receive) = sync_channel::<(Instant, Vec<u8>)>(pieces);
    thread::spawn(move || {
        let mut block = vec![0; traits.rate.map_or(LARGE_PIECE, |_| PIECE)];
        while let Ok(count @ 1..) = from.read(&mut block) {
            if send.send((Instant::now() + traits.delay, block[..count].to_vec())).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Read);
    });
    thread::spawn(move || {
        for (due, piece) in receive {
            let mut due = due;
            if let Some(rate) = traits.rate {
                let mut next = pace.lock().unwrap_or_else(PoisonError::into_inner);
                *next = (*next).max(Instant::now())
                    + Duration::from_secs_f64(piece.len() as f64 / f64::from(rate));
                due = due.max(*next);
            }
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
            count.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
