//! A path with a delay between two programs on one machine: it needs no rights and no network of its own, and counts what passes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::Lab;

/// Hands on what comes on its port, each byte after the same time. Lives as long as the test's process.
pub struct SlowLink {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    forth: Arc<AtomicU64>,
    back: Arc<AtomicU64>,
}

impl SlowLink {
    /// A way to `127.0.0.1:to` that takes `one_way` in each direction; the lab's host keys are known at its port.
    pub fn new(lab: &Lab, to: u16, one_way: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        lab.know(port);
        let link = Self { port, forth: Arc::default(), back: Arc::default() };
        let (forth, back) = (Arc::clone(&link.forth), Arc::clone(&link.back));
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                for (from, to, count) in [(&near, &far, &forth), (&far, &near, &back)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let _ = to.set_nodelay(true);
                    let (late, due) = channel();
                    let count = Arc::clone(count);
                    std::thread::spawn(move || take(from, one_way, &late));
                    std::thread::spawn(move || give(to, &due, &count));
                }
            }
        });
        link
    }

    /// Bytes that have come out where the connections go to.
    pub fn forth(&self) -> u64 {
        self.forth.load(Ordering::Relaxed)
    }

    /// Bytes that have come out where the connections come from.
    pub fn back(&self) -> u64 {
        self.back.load(Ordering::Relaxed)
    }
}

fn take(mut from: TcpStream, delay: Duration, late: &Sender<(Instant, Vec<u8>)>) {
    let mut buffer = vec![0; 256 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if late.send((Instant::now() + delay, buffer[..n].to_vec())).is_err() {
            return;
        }
    }
}

fn give(mut to: TcpStream, due: &Receiver<(Instant, Vec<u8>)>, count: &AtomicU64) {
    for (when, bytes) in due {
        std::thread::sleep(when.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            return;
        }
        count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
    let _ = to.shutdown(Shutdown::Write);
}
