//! Tests of slow-request reports, by the engine's clock and by the amount of work of the request.

use std::time::Duration;

use bytes::Bytes;
use lh_sftp::batch::{GetFile, LIST_NAMES, PutFile};
use lh_sftp::server::{Lookup, NoLog, SLOW, Server, ServerOptions};
use lh_sftp::{Attrs, Request};
use lh_sftp_fs::LocalFs;

/// A host whose clock advances by a fixed time at each reading.
struct Clock {
    now: Duration,
    step: Duration,
}

impl Lookup for Clock {
    fn user_name(&mut self, _: u32) -> Option<String> {
        None
    }
    fn group_name(&mut self, _: u32) -> Option<String> {
        None
    }
    fn home(&mut self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
    fn clock(&mut self) -> Duration {
        self.now += self.step;
        self.now
    }
    fn now(&mut self) -> i64 {
        0
    }
}

/// Serves one request that takes `took`; returns true if it was reported as slow.
fn is_slow(request: &Request<'_>, took: Duration) -> bool {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(dir.path().join(name), name).unwrap();
    }
    let clock = Clock { now: Duration::ZERO, step: took };
    let fs = Box::new(LocalFs::new(dir.path()));
    let mut server = Server::new(fs, Box::new(clock), Box::new(NoLog), ServerOptions::default());
    let mut replies = Vec::new();
    server.input(Bytes::from_static(b"\0\0\0\x05\x01\0\0\0\x03"));
    assert!(!server.poll(&mut replies).unwrap().more || took > SLOW);
    let mut message = Vec::new();
    request.encode(1, &mut message);
    server.input(message.into());
    server.poll(&mut replies).unwrap().slow
}

#[test]
fn batches_and_listings_get_their_time() {
    let (mut get, mut put) = (Vec::new(), Vec::new());
    for path in [b"a", b"b"] {
        GetFile { path, len: 1 }.write(&mut get);
        PutFile { path, attrs: Attrs::NONE, data: b"new" }.write(&mut put);
    }
    // 50 µs for each file, 5 µs for each entry.
    for (request, extra) in [
        (Request::GetFiles { flags: 0, count: 2, files: &get }, 100),
        (Request::PutFiles { flags: 0, count: 2, files: &put }, 100),
        (Request::ListDir { path: b".", pattern: b"", flags: 0 }, 25),
        (Request::ListDir { path: b".", pattern: b"", flags: LIST_NAMES }, 25),
        (Request::Stat { path: b"a" }, 0),
    ] {
        let allowed = SLOW + Duration::from_micros(extra);
        assert!(!is_slow(&request, allowed), "{request:?}");
        assert!(is_slow(&request, allowed + Duration::from_micros(1)), "{request:?}");
    }
}
