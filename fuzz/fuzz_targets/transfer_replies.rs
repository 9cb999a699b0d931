//! A copy between two remote hosts of which one, or both, lie: some replies of their servers are dropped,
//! cut, doubled, changed or made up. In every case the copy ends, and an honest target gets no path outside
//! the target's directory.
#![no_main]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_fuzz::{Guarded, NoFiles};
use lh_sftp::server::{NoLog, Server, ServerOptions};
use lh_sftp_fs::SystemFiles;
use lh_transfer::{Direction, Engine, Keep, Limits, Options, Placing, Plan, Side, Verify};
use libfuzzer_sys::fuzz_target;

/// The target, and its directory: nothing outside of that may be touched.
const TARGET: &[u8] = b"directory/target";
const DIRECTORY: &[u8] = b"directory";

/// Replies that are looked at; honest ones end every copy long before.
const MOST: usize = 4000;

/// One of the hosts.
struct Host {
    side: Side,
    server: Server,
    lies: bool,
    requests: Vec<u8>,
    replies: Vec<u8>,
}

impl Host {
    fn new(side: Side, lies: bool, stock: bool) -> Self {
        let ours = ["put-files", "get-files", "list-dir"].map(str::to_owned);
        let deny = if stock { ours.into() } else { Vec::new() };
        let options = ServerOptions { deny, max_handles: Some(64), ..ServerOptions::default() };
        let files: Box<dyn lh_sftp::fs::FileSystem> = match side {
            Side::Target if !lies => Box::new(Guarded { files: NoFiles, below: DIRECTORY }),
            _ => Box::new(NoFiles),
        };
        let server = Server::new(files, Box::new(SystemFiles::default()), Box::new(NoLog), options);
        Self { side, server, lies, requests: Vec::new(), replies: Vec::new() }
    }

    /// Returns the next reply of the server; `None` where there is none.
    fn answer(&mut self) -> Option<Vec<u8>> {
        if !self.requests.is_empty() {
            self.server.input(Bytes::from(std::mem::take(&mut self.requests)));
        }
        while self.server.poll(&mut self.replies).ok()?.more {}
        let (length, rest) = self.replies.split_first_chunk::<4>()?;
        let length = u32::from_be_bytes(*length) as usize;
        let message = rest.get(..length)?.to_vec();
        self.replies.drain(..4 + length);
        Some(message)
    }
}

/// How an honest reply is changed.
fn lie(message: Vec<u8>, script: &mut VecDeque<u8>) -> Vec<Vec<u8>> {
    let mut next = || script.pop_front().unwrap_or(0);
    match next() % 16 {
        // The type of another reply to the same request.
        1 => {
            let mut other = message;
            if let Some(first) = other.first_mut() {
                *first = [101, 102, 103, 104, 105, 201][usize::from(next()) % 6];
            }
            vec![other]
        }
        2 => Vec::new(),
        3 => vec![message.clone(), message],
        4 => {
            let keep = usize::from(next()).min(message.len());
            vec![message.into_iter().take(keep).collect()]
        }
        // Some bytes change.
        5..=7 => {
            let mut other = message;
            for _ in 0..1 + next() % 4 {
                let (at, byte) = (usize::from(next()), next());
                let at = at % other.len().max(1);
                if let Some(place) = other.get_mut(at) {
                    *place = byte;
                }
            }
            vec![other]
        }
        // The rest is made up, but for the number of the request.
        8 => {
            let mut other: Vec<u8> = message.into_iter().take(5).collect();
            let count = next();
            other.extend((0..count).map(|_| next()));
            vec![other]
        }
        9 => {
            let count = next();
            vec![message, (0..count).map(|_| next()).collect()]
        }
        _ => vec![message],
    }
}

fuzz_target!(|input: (u16, Vec<u8>)| {
    let (flags, script) = input;
    let has = |bit: u16| flags & (1 << bit) != 0;
    let mut script = VecDeque::from(script);
    let mut now = Instant::now();
    let options = Options {
        recursive: has(0),
        preserve: has(1),
        keep: Keep { links: has(2), hard_links: has(3), owner: has(4), xattrs: has(5), ..Keep::default() },
        placing: Placing { atomic: has(6), sync: has(9), ..Placing::default() },
        verify: if has(7) { Verify::Always } else { Verify::WhenCheap },
        batches: has(8),
        limits: Limits { open_files: 16, ..Limits::default() },
        ..Options::default()
    };
    let plan = Plan {
        direction: Direction::Relay,
        sources: vec![b"source".to_vec()],
        target: TARGET.to_vec(),
        target_must_be_dir: has(10),
    };
    // At least one host lies, and a lying target may get any path.
    let (source_lies, target_lies) = (has(11) || !has(12), has(12));
    let mut engine = Engine::new(plan, options, now);
    let mut hosts =
        [Host::new(Side::Source, source_lies, has(13)), Host::new(Side::Target, target_lies, has(14))];
    hosts.iter().for_each(|host| engine.open(host.side));
    let mut left = MOST;
    while !engine.is_finished() {
        let mut moved = false;
        for host in &mut hosts {
            engine.advance(host.side, &mut host.requests, now);
            while let Some(message) = host.answer() {
                moved = true;
                left = left.saturating_sub(1);
                if left == 0 {
                    // A server can make a listing or a link endless; the user interrupts it.
                    return;
                }
                let said = if host.lies { lie(message, &mut script) } else { vec![message] };
                for message in said {
                    engine.received(
                        host.side,
                        Bytes::from((message.len() as u32).to_be_bytes().to_vec()),
                        now,
                    );
                    engine.received(host.side, Bytes::from(message), now);
                }
                engine.advance(host.side, &mut host.requests, now);
            }
        }
        for _ in 0..engine.channels_wanted() {
            engine.channel_refused();
        }
        while engine.poll_event().is_some() {}
        if !moved && !engine.is_finished() {
            now = match engine.next_deadline() {
                Some(at) if at > now => at,
                // The copy waits for a dropped reply until the connection times out.
                _ => {
                    let lost = hosts.iter().find(|host| host.lies).map_or(Side::Source, |host| host.side);
                    engine.lost(lost, "Connection closed", now);
                    engine.lost(Side::Source, "Connection closed", now);
                    engine.lost(Side::Target, "Connection closed", now);
                    assert!(engine.is_finished(), "nothing moves, and the copy does not end");
                    now + Duration::from_secs(1)
                }
            };
        }
    }
});
