//! What a test asks of a copy, and how the copy ended.

use std::path::Path;
use std::time::Duration;

use lh_testkit::Seeded;
use lh_transfer::{Direction, Event, Limits, Options, Placing, Plan, Summary};
use lh_wire::{Reader, Writer};

use super::files::bytes_of;
use super::fs::Faults;

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
    /// The kernel sees a short path, because a tunnel leads on from its end.
    pub tunnelled: bool,
    /// The server stands still for that long in that round. Afterwards its answers come one at a time.
    pub pause: Option<(usize, Duration)>,
    /// Additional channels the server allows.
    pub channels: usize,
    /// Each channel has a connection of its own, whose loop runs when something came on it or it is woken.
    /// How fast each server answers is drawn from this.
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
            tunnelled: false,
            pause: None,
            channels: 0,
            separate: None,
            slow_files: None,
            channel_dies: None,
        }
    }
}

/// How it ended.
#[derive(Debug, Default)]
pub struct Ended {
    pub summary: Summary,
    pub failures: Vec<String>,
    pub skipped: Vec<String>,
    /// What was said of sources that changed.
    pub changed: Vec<String>,
    pub done: Vec<String>,
    /// Bytes that continued files had before.
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
    /// Requests that a channel had without an answer, at most.
    pub most_awaited: usize,
    /// Additional channels that were opened.
    pub channels: usize,
    /// Threads that read or wrote files at the same time, at most.
    pub most_at_once: usize,
    /// Bytes that went either way.
    pub moved: u64,
    /// Bytes that went to the server on each channel.
    pub sent: Vec<u64>,
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

    /// Notes what the engine said.
    pub(super) fn take(&mut self, event: Event) {
        match event {
            Event::Notice { text } => self.notices.push(text),
            Event::Failed { text } => self.failures.push(text),
            Event::Skipped { text } => self.skipped.push(text),
            Event::Changed { text, .. } => self.changed.push(text),
            Event::FileDone { name, .. } => self.done.push(String::from_utf8_lossy(&name).into_owned()),
            Event::Resumed { kept, .. } => self.resumed += kept,
            Event::Planned { target, .. } => self.planned.push(target),
            Event::Copied(copied) => self.copied.push(*copied),
            Event::Missed { path } => self.missed.push(path),
            Event::Deleted { target } | Event::PlannedDelete { target } => self.deleted.push(target),
            Event::Started { .. } | Event::Entered { .. } => {}
        }
    }
}

/// A plan with one source.
pub fn plan(direction: Direction, source: &Path, target: &Path) -> Plan {
    Plan { direction, sources: vec![bytes_of(source)], target: bytes_of(target), target_must_be_dir: false }
}

/// All of a tree, with times and modes.
pub fn whole_tree() -> Options {
    Options { recursive: true, preserve: true, ..Options::default() }
}

/// Files grow under another name, and get theirs when they are complete.
pub fn in_part_files() -> Placing {
    Placing { atomic: true, ..Placing::default() }
}

/// Copies go on where a shorter target ends.
pub fn resuming() -> Placing {
    Placing { resume: true, ..Placing::default() }
}

/// Data go over this number of channels.
pub fn over_channels(channels: usize) -> Options {
    Options { limits: Limits { channels: Some(channels), ..Limits::default() }, ..Options::default() }
}

/// A server without the extensions of ours: what it offers is cut down to OpenSSH's, `without` some of them.
pub fn stock(without: &'static [&'static str]) -> Setup {
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
