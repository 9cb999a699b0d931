//! An engine and the real SFTP server engine, joined by pipes in memory that can be narrow, chop what passes
//! through, and hand replies to a liar first.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test file uses a part")]

mod files;
mod fs;
pub mod syncing;

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_sftp::server::{NoLog, Server, ServerOptions};
use lh_sftp_fs::SystemFiles;
use lh_testkit::Seeded;
use lh_transfer::{Direction, Engine, Event, FileWork, Options, Plan, SendWork, Side, Summary, Wakes};
use lh_wire::{Output, Reservation, Reserved, Slices};

pub use files::{TempTree, bytes_of, same_tree};
pub use fs::{Count, FaultFs, Faults};

/// What a test wants of the pipe.
pub struct Setup {
    /// Bytes the client may have on the way to the server.
    pub window: usize,
    /// Bytes per piece in both directions.
    pub piece: usize,
    /// Rewrites each reply: gets a message without its length, returns those that go on in its place.
    pub tamper: Box<dyn FnMut(Vec<u8>) -> Vec<Vec<u8>>>,
    /// Replies that arrived together are handed on in reverse.
    pub reverse: bool,
    /// The connection ends after so many bytes from the server.
    pub cut_after: Option<u64>,
    /// The client is gone, from one moment to the next, after so many bytes of files.
    pub kill_after: Option<u64>,
    pub faults: Faults,
    /// The server is of another make: it has none of our extensions.
    pub stock: bool,
    /// It offers neither `lsetstat@openssh.com` nor digests, as servers of neither OpenSSH's nor our make.
    pub foreign: bool,
    /// The server looks at one message in each packet.
    pub one_per_packet: bool,
    /// The server takes what stands behind the first words.
    pub early: bool,
    /// Files and directories the server keeps open at a time.
    pub max_handles: Option<u64>,
    /// What a round trip takes.
    pub rtt: Duration,
    /// Additional channels the server allows.
    pub channels: usize,
    /// Each channel has a connection of its own, whose loop runs when something came on it or it is woken. How
    /// fast each server answers is drawn from this.
    pub separate: Option<Seeded>,
    /// Threads read and write files while the others go on: how long each takes for it is drawn from this.
    pub slow_files: Option<Seeded>,
    /// That channel ends after so many rounds.
    pub channel_dies: Option<(usize, usize)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            window: 2 << 20,
            piece: 32 * 1024,
            tamper: Box::new(|message| vec![message]),
            reverse: false,
            cut_after: None,
            kill_after: None,
            faults: Faults::default(),
            stock: false,
            foreign: false,
            one_per_packet: false,
            early: false,
            max_handles: None,
            rtt: Duration::ZERO,
            channels: 0,
            separate: None,
            slow_files: None,
            channel_dies: None,
        }
    }
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    pub summary: Summary,
    pub failures: Vec<String>,
    pub skipped: Vec<String>,
    /// What was said of sources that changed.
    pub changed: Vec<String>,
    pub done: Vec<String>,
    /// Bytes of files that were gone on with.
    pub resumed: u64,
    /// What was deleted, or would be.
    pub deleted: Vec<Vec<u8>>,
    /// Targets of a copy that was only planned.
    pub planned: Vec<Vec<u8>>,
    pub copied: Vec<lh_transfer::Copied>,
    pub missed: Vec<Option<Vec<u8>>>,
    /// Virtual time it took.
    pub took: Duration,
    /// How often all that could be sent was sent, and all answers waited for: round trips.
    pub rounds: usize,
    /// Additional channels that were opened.
    pub channels: usize,
    /// Threads that read or wrote files at the same time, at most.
    pub most_at_once: usize,
    /// Bytes that went either way.
    pub moved: u64,
    /// What the engine said of its decisions.
    pub notices: Vec<String>,
}

impl Ended {
    /// The copy went well.
    #[track_caller]
    pub fn well(self) -> Self {
        assert_eq!(self.failures, Vec::<String>::new());
        assert_eq!(self.summary.failures, 0);
        self
    }
}

struct End {
    side: Side,
    /// Which of several channels to the same server.
    channel: usize,
    server: Server,
    to_server: Pipe,
    replies: VecDeque<Vec<u8>>,
    partial: Vec<u8>,
    cut: bool,
    /// What its thread does without the engine.
    sending: Option<SendWork>,
    doing: Option<FileWork>,
}

/// Bytes on the way to a server.
struct Pipe {
    bytes: Vec<u8>,
    window: usize,
    piece: usize,
    one_per_packet: bool,
    /// Of the message that is half sent.
    left: usize,
    reserved: Vec<Vec<u8>>,
}

impl Pipe {
    /// What is sent in one go shares packets.
    fn look(&mut self, data: &[u8]) {
        if self.left == 0 && !data.is_empty() {
            let length = data.first_chunk::<4>().expect("a length is not cut");
            self.left = 4 + u32::from_be_bytes(*length) as usize;
        }
        assert!(data.len() <= self.left, "two messages share a packet");
        self.left -= data.len();
    }
}

impl Output for Pipe {
    fn budget(&mut self) -> usize {
        self.window.saturating_sub(self.bytes.len())
    }

    fn peer_is_full(&mut self) -> bool {
        self.budget() == 0
    }

    fn send(&mut self, data: &[u8]) -> usize {
        let taken = data.len().min(self.budget());
        if self.one_per_packet {
            self.look(&data[..taken]);
        }
        self.bytes.extend_from_slice(&data[..taken]);
        taken
    }

    fn reserve(&mut self, want: usize) -> Option<Reservation<'_>> {
        assert!(want <= self.budget(), "the engine asked for more than its budget");
        self.reserved =
            (0..want).step_by(self.piece).map(|at| vec![0xee; self.piece.min(want - at)]).collect();
        Some(Reservation::new(self, want))
    }
}

impl Reserved for Pipe {
    fn slices(&mut self, _: usize) -> Slices<'_> {
        self.reserved.iter_mut().map(|buffer| &mut buffer[..]).collect()
    }

    fn commit(&mut self, _: usize, used: usize) -> usize {
        let flat = self.reserved.concat();
        if self.one_per_packet {
            self.look(&flat[..used]);
        }
        self.bytes.extend_from_slice(&flat[..used]);
        used
    }
}

impl End {
    fn new(side: Side, channel: usize, server_root: &Path, setup: &Setup) -> Self {
        let fs = FaultFs::new(server_root, setup.faults.clone());
        let ours = ["put-files", "get-files", "list-dir"].map(str::to_owned);
        let mut deny: Vec<String> = if setup.stock { ours.into() } else { Vec::new() };
        if setup.foreign {
            deny.extend(
                ["lsetstat", "check-file", "check-file-handle", "check-file-name"].map(str::to_owned),
            );
        }
        let options = ServerOptions { deny, max_handles: setup.max_handles, ..ServerOptions::default() };
        Self {
            side,
            channel,
            server: Server::new(Box::new(fs), Box::new(SystemFiles::new()), Box::new(NoLog), options),
            to_server: Pipe {
                bytes: Vec::new(),
                window: setup.window,
                piece: setup.piece,
                one_per_packet: setup.one_per_packet,
                left: 0,
                reserved: Vec::new(),
            },
            replies: VecDeque::new(),
            partial: Vec::new(),
            cut: false,
            sending: None,
            doing: None,
        }
    }

    /// Its thread reads or writes a file.
    fn is_busy(&self) -> bool {
        self.sending.is_some() || self.doing.is_some()
    }

    fn finish_work(&mut self, engine: &mut Engine, now: Instant) {
        if let Some(work) = self.sending.take() {
            let sent = work.carry_out(&mut self.to_server);
            engine.sent(sent);
            self.advance_slowly(engine, now, false);
        } else if let Some(work) = self.doing.take() {
            engine.file_work_done(work.carry_out());
            self.doing = engine.next_file_work();
        }
    }

    /// Sends what can be sent, up to where a file is to be read or written.
    fn advance_slowly(&mut self, engine: &mut Engine, now: Instant, begin: bool) {
        self.sending = match self.channel {
            0 => engine.advance_step(self.side, &mut self.to_server, now, begin),
            channel => engine.advance_channel_step(channel, &mut self.to_server, now),
        };
        if self.sending.is_none() {
            self.doing = engine.next_file_work();
        }
    }
}

/// Copies with a well-behaved pipe.
pub fn copy(plan: Plan, options: Options, server_root: &Path) -> Ended {
    copy_with(plan, options, server_root, &mut Setup::default())
}

/// Copies with the server's relative paths starting at `server_root`.
pub fn copy_with(plan: Plan, options: Options, server_root: &Path, setup: &mut Setup) -> Ended {
    let start = Instant::now();
    let mut now = start;
    let sides: &[Side] = match plan.direction {
        Direction::Upload => &[Side::Target],
        Direction::Download => &[Side::Source],
        Direction::Relay => &[Side::Source, Side::Target],
    };
    let mut engine = Engine::new(plan, options, now);
    if !setup.rtt.is_zero() {
        engine.expect_round_trip(setup.rtt);
    }
    let mut ends: Vec<End> = Vec::new();
    for &side in sides {
        if setup.early {
            engine.open_early(side);
        } else {
            engine.open(side);
        }
        ends.push(End::new(side, 0, server_root, setup));
    }
    let mut ended = Ended {
        summary: Summary::default(),
        failures: Vec::new(),
        skipped: Vec::new(),
        changed: Vec::new(),
        done: Vec::new(),
        resumed: 0,
        deleted: Vec::new(),
        planned: Vec::new(),
        copied: Vec::new(),
        missed: Vec::new(),
        took: Duration::ZERO,
        rounds: 0,
        channels: 0,
        most_at_once: 0,
        moved: 0,
        notices: Vec::new(),
    };
    let mut passed = 0;
    let mut wakes = Wakes::default();
    let mut awake = vec![true; ends.len()];
    while !engine.is_finished() {
        let mut moved = false;
        ended.rounds += 1;
        let mut busy = 0;
        for (at, end) in ends.iter_mut().enumerate() {
            if let Some(random) = &mut setup.slow_files
                && end.is_busy()
            {
                busy += 1;
                ended.most_at_once = ended.most_at_once.max(busy);
                (moved, awake[at]) = (true, true);
                if random.below(3) > 0 {
                    continue;
                }
                end.finish_work(&mut engine, now);
                if end.is_busy() {
                    continue;
                }
            }
            if std::mem::replace(&mut awake[at], setup.separate.is_none()) {
                if end.channel > 0 && end.cut {
                    continue;
                }
                if setup.slow_files.is_some() {
                    end.advance_slowly(&mut engine, now, true);
                    if end.is_busy() {
                        moved = true;
                        continue;
                    }
                } else if end.channel == 0 {
                    engine.advance(end.side, &mut end.to_server, now);
                } else {
                    engine.advance_channel(end.channel, &mut end.to_server, now);
                }
                let others = wakes.channels_to_wake(&mut engine, 0..awake.len());
                others.into_iter().filter(|&channel| channel != at).for_each(|channel| awake[channel] = true);
            }
            // Now one server is slow, now the other.
            let pace =
                |random: &mut Seeded| random.below(2 + 20 * usize::from(ended.rounds / 50 % 2 == at % 2)) > 0;
            if setup.separate.as_mut().is_some_and(pace) {
                // It answers later.
                moved |= !end.to_server.bytes.is_empty();
                continue;
            }
            ended.moved += end.to_server.bytes.len() as u64;
            // A window that was shut opens.
            awake[at] |= end.to_server.budget() == 0;
            moved |= serve(end, setup);
            if end.channel == 0 {
                now += setup.rtt;
            }
            let mut batch: Vec<Vec<u8>> = end.replies.drain(..).collect();
            if setup.reverse {
                batch.reverse();
            }
            for message in batch {
                let mut framed = (message.len() as u32).to_be_bytes().to_vec();
                framed.extend_from_slice(&message);
                ended.moved += framed.len() as u64;
                for piece in framed.chunks(setup.piece) {
                    passed += piece.len() as u64;
                    let piece = Bytes::copy_from_slice(piece);
                    match (end.channel, setup.slow_files.is_some()) {
                        (0, false) => engine.received(end.side, piece, now),
                        (channel, false) => engine.channel_received(channel, piece, now),
                        (0, true) => engine.take_in(end.side, piece, now),
                        (channel, true) => engine.channel_take_in(channel, piece, now),
                    }
                }
                (moved, awake[at]) = (true, true);
                if setup.cut_after.is_some_and(|after| passed >= after)
                    && !std::mem::replace(&mut end.cut, true)
                {
                    engine.lost(end.side, "Connection closed", now);
                }
            }
        }
        for _ in 0..engine.channels_wanted() {
            if ends.len() > setup.channels {
                engine.channel_refused();
            } else {
                ends.push(End::new(sides[0], engine.open_channel(), server_root, setup));
                awake.push(true);
                ended.channels += 1;
                moved = true;
            }
        }
        let dies =
            setup.channel_dies.filter(|&(channel, round)| round == ended.rounds && channel < ends.len());
        if let Some((channel, _)) = dies {
            ends[channel].cut = true;
            engine.channel_lost(channel, "Connection closed", now);
        }
        while let Some(event) = engine.poll_event() {
            match event {
                Event::Notice { text } => ended.notices.push(text),
                Event::Failed { text } => ended.failures.push(text),
                Event::Skipped { text } => ended.skipped.push(text),
                Event::Changed { text, .. } => ended.changed.push(text),
                Event::FileDone { name, .. } => ended.done.push(String::from_utf8_lossy(&name).into_owned()),
                Event::Resumed { kept, .. } => ended.resumed += kept,
                Event::Planned { target, .. } => ended.planned.push(target),
                Event::Copied(copied) => ended.copied.push(*copied),
                Event::Missed { path } => ended.missed.push(path),
                Event::Deleted { target } | Event::PlannedDelete { target } => ended.deleted.push(target),
                Event::Started { .. } | Event::Entered { .. } => {}
            }
        }
        if setup.kill_after.is_some_and(|after| engine.summary().bytes >= after) {
            ended.summary = engine.summary();
            return ended;
        }
        let sleeps = setup.separate.is_none() || !awake.contains(&true);
        if !moved && sleeps && !engine.is_finished() {
            match engine.next_deadline() {
                Some(at) if at > now => {
                    now = at;
                    awake.fill(true);
                }
                _ => panic!("nothing moves any more; so far: {ended:?}\n{engine:#?}"),
            }
        }
    }
    while let Some(event) = engine.poll_event() {
        match event {
            Event::Failed { text } => ended.failures.push(text),
            Event::Skipped { text } => ended.skipped.push(text),
            Event::Changed { text, .. } => ended.changed.push(text),
            Event::FileDone { name, .. } => ended.done.push(String::from_utf8_lossy(&name).into_owned()),
            Event::Resumed { kept, .. } => ended.resumed += kept,
            Event::Planned { target, .. } => ended.planned.push(target),
            Event::Copied(copied) => ended.copied.push(*copied),
            Event::Missed { path } => ended.missed.push(path),
            Event::Deleted { target } | Event::PlannedDelete { target } => ended.deleted.push(target),
            Event::Started { .. } | Event::Entered { .. } | Event::Notice { .. } => {}
        }
    }
    ended.summary = engine.summary();
    ended.took = now - start;
    if !ended.summary.lost {
        assert_eq!(ended.summary.failures as usize, ended.failures.len());
    }
    ended
}

/// Lets a server take all that is on the way to it, and collects its replies.
fn serve(end: &mut End, setup: &mut Setup) -> bool {
    let sent = std::mem::take(&mut end.to_server.bytes);
    let mut moved = !sent.is_empty();
    for piece in sent.chunks(setup.piece) {
        end.server.input(Bytes::copy_from_slice(piece));
    }
    loop {
        let before = end.partial.len();
        let progress = end.server.poll(&mut end.partial).expect("the engine speaks SFTP");
        moved |= end.partial.len() > before;
        if !progress.more {
            break;
        }
    }
    let mut rest = &end.partial[..];
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let Some((message, behind)) = behind.split_at_checked(u32::from_be_bytes(*length) as usize) else {
            break;
        };
        end.replies.extend((setup.tamper)(message.to_vec()));
        rest = behind;
    }
    let used = end.partial.len() - rest.len();
    end.partial.drain(..used);
    moved
}

/// A plan with one source.
pub fn plan(direction: Direction, source: &Path, target: &Path) -> Plan {
    Plan { direction, sources: vec![bytes_of(source)], target: bytes_of(target), target_must_be_dir: false }
}

/// All of a tree, with times and modes.
pub fn whole_tree() -> Options {
    Options { recursive: true, preserve: true, ..Options::default() }
}

/// A server without the extensions of ours: what it offers is cut down to OpenSSH's, `without` some of them.
pub fn stock(without: &'static [&'static str]) -> Setup {
    use lh_wire::{Reader, Writer};
    let tamper = move |message: Vec<u8>| {
        if message.first() != Some(&lh_sftp::PacketType::VERSION.0) {
            return vec![message];
        }
        let mut cut = message[..5].to_vec();
        let mut reader = Reader::new(&message[5..]);
        while let (Ok(name), Ok(version)) = (reader.string(), reader.string()) {
            let known = name.ends_with(b"@openssh.com");
            if known && !without.iter().any(|each| each.as_bytes() == name) {
                cut.put_string(name);
                cut.put_string(version);
            }
        }
        vec![cut]
    };
    Setup { tamper: Box::new(tamper), ..Setup::default() }
}
