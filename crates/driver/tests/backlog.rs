//! Tests of peers before a login, when there is no driver yet: peers that cause answers without reading them,
//! and peers that send without end.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::links;
use lh_driver::{InputLimit, Link, LinkError};
use lh_transport::Event;

/// Number of requests: sixteen times as many as fill a socket pair's buffers and the limit of unsent bytes.
const MOST_REQUESTS: usize = 200_000;
const REQUEST: [u8; 60] = [50; 60];
const ANSWER: [u8; 600] = [51; 600];

/// Answers every request until `over` is set. Returns the maximum of unsent bytes.
fn answer_all(link: &mut Link, answered: &AtomicUsize, over: &AtomicBool) -> usize {
    let mut most = 0;
    while !over.load(Ordering::Relaxed) {
        match link.next_event(Some(Instant::now() + Duration::from_millis(50))) {
            Ok(Event::Packet(_)) => {
                link.send(&ANSWER);
                answered.fetch_add(1, Ordering::Relaxed);
                most = most.max(link.unsent_bytes());
            }
            Ok(_) | Err(LinkError::TimedOut) => {}
            Err(error) => panic!("{error}"),
        }
    }
    most
}

/// Ends the other thread when this one ends, also after a panic.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn peer_that_never_reads_is_not_read() {
    let (mut client, mut server, _) = links();
    let (answered, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _end = AtEnd(&over);
        let server = scope.spawn(|| answer_all(&mut server, &answered, &over));
        let mut asked = 0;
        while asked < MOST_REQUESTS {
            for _ in 0..1000 {
                client.send(&REQUEST);
            }
            asked += 1000;
            // A busy machine may need longer for a thousand requests, but then some are answered meanwhile.
            let mut before = usize::MAX;
            while !client.finish(Duration::from_millis(500)) && answered.load(Ordering::Relaxed) != before {
                before = answered.load(Ordering::Relaxed);
            }
            if client.unsent_bytes() > 0 {
                break;
            }
        }
        assert!(asked < MOST_REQUESTS, "every request was taken");
        // Now the client reads, and every answer arrives.
        let mut answers = 0;
        while answers < asked {
            match client.next_event(Some(Instant::now() + Duration::from_secs(20))) {
                Ok(Event::Packet(answer)) => {
                    assert_eq!(answer, &ANSWER[..]);
                    answers += 1;
                }
                Ok(_) => {}
                Err(error) => panic!("{error} after {answers} of {asked} answers"),
            }
        }
        over.store(true, Ordering::Relaxed);
        let most = server.join().unwrap();
        // The bound is the limit plus the answers to one buffer of requests.
        assert!(most < 4 << 20, "{most} bytes waited");
    });
}

/// Receives until no bytes arrive for a moment. Returns the error of a connection that has ended.
fn receive_all(link: &mut Link) -> Option<LinkError> {
    loop {
        match link.next_event(Some(Instant::now() + Duration::from_millis(300))) {
            Ok(_) => {}
            Err(LinkError::TimedOut) => return None,
            Err(error) => return Some(error),
        }
    }
}

#[test]
fn input_beyond_the_limit_is_not_read() {
    let (mut client, mut server, _) = links();
    let before = server.bytes_in();
    // A byte per second: the rate adds nothing that a test could notice.
    server.limit_input(InputLimit::new(1, 10_000, Instant::now()));
    for _ in 0..10_000 {
        client.send(&REQUEST);
    }
    assert!(!client.finish(Duration::from_millis(300)));
    assert!(receive_all(&mut server).is_none());
    let received = server.bytes_in() - before;
    // The bound is the limit plus the read that exceeded it.
    assert!((10_000..100_000).contains(&received), "{received} bytes");
    assert!(receive_all(&mut server).is_none());
    assert_eq!(server.bytes_in() - before, received);
    // The peer's end is noticed although nothing is read.
    drop(client);
    assert!(matches!(receive_all(&mut server), Some(LinkError::Closed { .. })));
}
