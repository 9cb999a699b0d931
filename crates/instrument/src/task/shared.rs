//! Tasks, their results, and the state that their parts share.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lh_client::SessionSetup;
use lh_metrics::Point;

use super::comparison::Comparison;

/// Length of the block that is sent again and again. It is random, so that nothing on the way compresses it.
const BLOCK: usize = 256 * 1024;

/// Direction of a command's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    /// The output is kept; the input is empty.
    Keep,
    /// Random bytes are sent for this time, or up to this number of bytes, from the command's first output
    /// on.
    Send(Duration, u64),
    /// The output is counted for this time from its first byte on; a line of input then tells the command to
    /// end.
    Receive(Duration),
    /// The output is kept, and the input stays open until the task's `hold` says no.
    Hold,
}

/// Says whether a held command goes on; asked several times a second, with the command's output so far.
pub(crate) type Hold = Box<dyn FnMut(&[u8]) -> bool>;

/// The channel of a task.
pub(crate) enum Opens {
    Session(SessionSetup),
    /// A session between two others that have a terminal and move no data. Servers mark the packets of a
    /// connection by its first session, by its last one, or by whether one has a terminal.
    AmongTerminals(SessionSetup),
    /// A connection from the server to this address, as `-L` asks for it. It ends with its data.
    Forward(SocketAddr),
}

/// Command to run, and how to measure it.
pub(crate) struct Task {
    pub(crate) opens: Opens,
    pub(crate) data: Data,
    /// Input before the end of input.
    pub(crate) input: Vec<u8>,
    /// Time between samples of the connection.
    pub(crate) sample: Option<Duration>,
    /// Time between round trips of small messages.
    pub(crate) ping: Option<Duration>,
    /// Time limit of a command that keeps its output, and of the start of one that moves data.
    pub(crate) limit: Duration,
    /// For [`Data::Hold`].
    pub(crate) hold: Option<Hold>,
    /// Ends the data early where the rate is known before; the number is that of this connection among those
    /// compared.
    pub(crate) comparison: Option<(Arc<Comparison>, usize)>,
}

/// Results of a task.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// Samples of this end.
    pub(crate) local: Vec<Point>,
    /// Samples of the other end, where it answers.
    pub(crate) remote: Vec<Point>,
    /// Round trips of small messages: when they were sent, and how long they took, seconds.
    pub(crate) pings: Vec<(f64, f64)>,
    /// Time until the channel was open, and until the command had ended, seconds.
    pub(crate) opened: Option<f64>,
    pub(crate) ended: Option<f64>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
    /// When pieces of `out` and `err` together arrived, seconds, with the text.
    pub(crate) pieces: Vec<(f64, Vec<u8>)>,
    /// The server gave no terminal.
    pub(crate) lacks_terminal: bool,
    /// Exit status.
    pub(crate) status: Option<u32>,
    pub(crate) moved: Moved,
    /// When the data phase began and ended, seconds.
    pub(crate) data: Option<(f64, f64)>,
    /// The data ended early: from when on their rate stood still, seconds.
    pub(crate) steady: Option<f64>,
    /// Failure: refused, or the connection was lost.
    pub(crate) failure: Option<String>,
}

/// Bytes that a command has moved.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// Its output.
    pub(crate) received: u64,
    /// Its input.
    pub(crate) sent: u64,
}

impl Shown {
    /// The output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// The standard error as text.
    pub(crate) fn err_text(&self) -> String {
        String::from_utf8_lossy(&self.err).into_owned()
    }
}

/// State that the channel's handler and the control share.
pub(super) struct Shared {
    pub(super) shown: Shown,
    pub(super) begun: Instant,
    pub(super) sending: bool,
    /// Data are sent when the command is ready.
    pub(super) sends: bool,
    /// When the command gave its first output, seconds.
    pub(super) ready: Option<f64>,
    pub(super) input: Vec<u8>,
    pub(super) left: u64,
    /// The output is kept.
    pub(super) keep: bool,
    /// The input ends with `input`.
    pub(super) ends_input: bool,
    pub(super) block: Rc<Vec<u8>>,
}

impl Shared {
    pub(super) fn now(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }
}

thread_local! {
    pub(super) static RANDOM: Rc<Vec<u8>> = Rc::new(random(BLOCK));
}

/// Bytes that do not compress (xorshift).
pub(crate) fn random(length: usize) -> Vec<u8> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
