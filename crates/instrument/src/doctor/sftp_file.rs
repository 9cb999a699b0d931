//! One file that is written and read over the server's SFTP, for a limited time: the requests, and their I/O.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_sftp::{Attrs, Handle, OpenFlags, Reply, ReplyBody, Request, Status, StatusCode};

use crate::fault::Fault;
use crate::flow::window_after_slow_start;
use crate::sftp::session::{self, SessionLoss, SessionState, SessionWork};
use crate::target::Remote;
use crate::task::random;

/// Data of a request, bytes: what all servers take.
pub(super) const BLOCK: u32 = 32 * 1024;
/// The largest file, bytes.
const MOST: u64 = 64 << 20;
/// Part of the time whose data count, the fastest of them: TCP's slow start comes before.
const COUNTED: f64 = 0.25;
/// How many times more the last quarter of the time must have moved for the rate to grow still, and answers
/// for that verdict.
const GROWS: f64 = 1.4;
const MANY: usize = 16;
/// Time for what is under way at the end of a direction, part of its time, and at least so long.
const DRAIN: (f64, Duration) = (1.0, Duration::from_secs(2));

/// How long each direction may take, and the rates at which it may end early, bytes/s.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) time: Duration,
    pub(super) good: [f64; 2],
}

/// Rates of a file over SFTP, bytes/s: writing and reading.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SftpRates {
    pub(crate) write: Option<f64>,
    pub(crate) read: Option<f64>,
    /// Most data that were under way, bytes.
    pub(crate) at_a_time: f64,
    /// Congestion windows of this end, which writes, and of the server, which reads, bytes, where TCP had
    /// ended its slow start: more than that is not under way then.
    pub(crate) congestion_windows: [Option<f64>; 2],
}

/// Why there are no rates of a file over SFTP.
#[derive(Debug, thiserror::Error)]
pub(super) enum SftpFileError {
    /// There is no connection to measure over.
    #[error(transparent)]
    NoConnection(#[from] Fault),
    /// The session ended before there was a rate.
    #[error(transparent)]
    Session(#[from] SessionLoss),
    /// The server refused a request about the file: its words.
    #[error("{0}")]
    Refused(String),
    /// The file was not removed.
    #[error("{path} stays at the server")]
    Leftover { path: String },
}

/// What is done with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Its name is removed at once, so that the file goes with the session, also when the connection breaks.
    Unlink,
    Write,
    Read,
    Close,
    Remove,
    Over,
}

/// The requests about the file.
struct File {
    state: SessionState,
    phase: Phase,
    path: String,
    handle: Handle,
    /// Requests without an answer.
    asked: usize,
    offset: u64,
    /// Bytes of the file.
    written: u64,
    plan: Plan,
    /// When the phase began, and what it has moved by when.
    begun: Instant,
    moved: Vec<(f64, u64)>,
    block: Vec<u8>,
    has_name: bool,
    rates: SftpRates,
    /// The first refusal of the server.
    refusal: Option<String>,
}

impl File {
    fn new(server: Option<&str>, path: String, plan: Plan) -> Self {
        Self {
            state: SessionState::new(server),
            phase: Phase::Open,
            path,
            handle: Handle::new(&[]),
            asked: 0,
            offset: 0,
            written: 0,
            plan,
            begun: Instant::now(),
            moved: Vec::new(),
            block: random(BLOCK as usize),
            has_name: false,
            rates: SftpRates::default(),
            refusal: None,
        }
    }

    fn on_answer(&mut self, body: &ReplyBody, now: Instant) {
        self.asked = self.asked.saturating_sub(1);
        match (self.phase, body) {
            (Phase::Open, ReplyBody::Handle(handle)) => {
                (self.handle, self.has_name) = (handle.clone(), true);
                self.phase = Phase::Unlink;
            }
            (Phase::Unlink, ReplyBody::Status(status)) => {
                self.has_name = status.code != StatusCode::OK;
                self.begin(Phase::Write, now);
            }
            (Phase::Write, ReplyBody::Status(Status { code: StatusCode::OK, .. })) => {
                self.written += u64::from(BLOCK);
                self.note(u64::from(BLOCK), now);
            }
            (Phase::Read, ReplyBody::Data(data)) => self.note(data.len() as u64, now),
            (Phase::Close, _) => self.phase = if self.has_name { Phase::Remove } else { Phase::Over },
            (Phase::Remove, body) => {
                self.has_name = !matches!(body, ReplyBody::Status(Status { code: StatusCode::OK, .. }));
                self.phase = Phase::Over;
            }
            (_, ReplyBody::Status(Status { code, message })) => {
                self.on_refusal(if message.is_empty() { code.text() } else { message });
            }
            _ => self.state.lose(SessionLoss::OtherAnswer { path: self.path.clone() }),
        }
        if matches!(self.phase, Phase::Write | Phase::Read) && self.asked == 0 && self.is_enough(now) {
            self.end_direction(now);
        }
    }

    fn begin(&mut self, phase: Phase, now: Instant) {
        (self.phase, self.begun, self.offset) = (phase, now, 0);
        self.moved = vec![(0.0, 0)];
    }

    fn note(&mut self, bytes: u64, now: Instant) {
        let before = self.moved.last().map_or(0, |(_, bytes)| *bytes);
        self.moved.push((now.duration_since(self.begun).as_secs_f64(), before + bytes));
    }

    /// The server refuses something; the first reason counts.
    fn on_refusal(&mut self, words: &str) {
        self.refusal.get_or_insert_with(|| words.to_owned());
        let is_open = !matches!(self.phase, Phase::Open | Phase::Over);
        self.phase = if is_open { Phase::Close } else { Phase::Over };
    }

    /// True where nothing more is to be moved in this direction.
    fn is_enough(&self, now: Instant) -> bool {
        let good = self.plan.good[usize::from(self.phase == Phase::Read)];
        let is_good = || self.last_rate().is_some_and(|rate| rate >= good);
        self.offset >= MOST || now.duration_since(self.begun) >= self.plan.time || is_good()
    }

    /// The rate of the last data that count, bytes/s.
    fn last_rate(&self) -> Option<f64> {
        let (end, all) = *self.moved.last()?;
        let counted = COUNTED * self.plan.time.as_secs_f64();
        let start = self.moved.iter().rev().find(|(at, _)| end - at >= counted)?;
        Some((all - start.1) as f64 / (end - start.0))
    }

    /// The highest rate over the time that counts, or where it took less, of all data, bytes/s.
    fn rate(&self) -> Option<f64> {
        let counted = COUNTED * self.plan.time.as_secs_f64();
        let mut best: Option<f64> = None;
        let mut from = self.moved.iter().peekable();
        for (end, all) in &self.moved {
            while let Some((start, before)) = from.next_if(|(start, _)| end - start >= counted) {
                let rate = (all - before) as f64 / (end - start);
                best = best.filter(|best| *best >= rate).or(Some(rate));
            }
        }
        let (end, all) = *self.moved.last().filter(|(_, all)| *all > 0)?;
        best.or_else(|| (end > 0.0).then(|| all as f64 / end))
    }

    /// True where TCP has not found its rate yet: the last quarter moved clearly more than the one before.
    fn grows(&self) -> bool {
        let Some((end, all)) = self.moved.last().filter(|_| self.moved.len() >= MANY) else { return false };
        let by = |part: f64| {
            self.moved.iter().rev().find(|(at, _)| *at <= part * end).map_or(0, |(_, bytes)| *bytes)
        };
        let (half, three) = (by(0.5), by(0.75));
        (all - three) as f64 > GROWS * (three - half) as f64
    }

    fn end_direction(&mut self, now: Instant) {
        self.rates.at_a_time = (self.state.at_a_time() as f64) * f64::from(BLOCK);
        let good = self.plan.good[usize::from(self.phase == Phase::Read)];
        let rate = self.rate().filter(|rate| *rate >= good || !self.grows());
        if self.phase == Phase::Write {
            self.rates.write = rate;
            self.begin(if self.written > 0 { Phase::Read } else { Phase::Close }, now);
        } else {
            self.rates.read = rate;
            self.phase = Phase::Close;
        }
    }

    /// The time of what is under way is over: the answers to come are not waited for.
    fn give_up(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Write | Phase::Read) {
            // What was moved in all of the time is the rate of something that stands still.
            let took = now.duration_since(self.begun).as_secs_f64();
            let all = self.moved.last().map_or(0, |(_, bytes)| *bytes);
            let rate = Some(all as f64 / took.max(0.1)).filter(|_| all > 0);
            if self.phase == Phase::Write { self.rates.write = rate } else { self.rates.read = rate }
        }
        if self.rates == SftpRates::default() {
            self.state.lose(SessionLoss::Late);
        }
        self.phase = Phase::Over;
    }

    /// The rates, or why there are none.
    fn finish(&self) -> Result<SftpRates, SftpFileError> {
        if self.has_name {
            return Err(SftpFileError::Leftover { path: self.path.clone() });
        }
        if let Some(words) = &self.refusal {
            return Err(SftpFileError::Refused(words.clone()));
        }
        self.state.loss().map_or(Ok(self.rates), |loss| Err(loss.clone().into()))
    }
}

impl SessionWork for File {
    fn state(&mut self) -> &mut SessionState {
        &mut self.state
    }

    fn write_next(&mut self, now: Instant) -> Option<u32> {
        if !self.state.has_begun() {
            return None;
        }
        let path = self.path.as_bytes();
        let request = match self.phase {
            Phase::Write | Phase::Read => {
                if self.is_enough(now) || self.asked >= self.state.at_a_time() {
                    return None;
                }
                let offset = self.offset;
                self.offset += u64::from(BLOCK);
                match self.phase {
                    Phase::Write => Request::Write { handle: &self.handle, offset, data: &self.block },
                    // The file may be read several times.
                    _ => Request::Read { handle: &self.handle, offset: offset % self.written, len: BLOCK },
                }
            }
            _ if self.asked > 0 => return None,
            Phase::Open => Request::Open { path, flags: OpenFlags::NEW_FILE, attrs: Attrs::NONE },
            Phase::Unlink | Phase::Remove => Request::Remove { path },
            Phase::Close => Request::Close { handle: &self.handle },
            Phase::Over => return None,
        };
        self.asked += 1;
        Some(self.state.request(&request))
    }

    fn on_version(&mut self, _: Instant) {}

    fn on_reply(&mut self, reply: Reply, now: Instant) {
        self.on_answer(&reply.body, now);
    }

    fn is_over(&self) -> bool {
        self.phase == Phase::Over || self.state.loss().is_some()
    }

    /// When answers are not waited for any longer.
    fn next_deadline(&self) -> Instant {
        let (part, least) = DRAIN;
        self.begun + self.plan.time + self.plan.time.mul_f64(part).max(least)
    }

    fn on_timeout(&mut self, now: Instant, _: &dyn Fn() -> bool) {
        self.give_up(now);
    }
}

/// Writes and reads a file of this name over the server's SFTP.
///
/// # Errors
/// Why there are no rates.
pub(super) fn measure(remote: &mut Remote, path: String, plan: Plan) -> Result<SftpRates, SftpFileError> {
    remote.renew(true);
    let server = remote.client.driver().link().peer_identification().map(str::to_owned);
    let file = Rc::new(RefCell::new(File::new(server.as_deref(), path, plan)));
    let channel = session::start(remote, &file).map_err(SessionLoss::Connection)?;
    session::run(remote, channel, &file, &|| false);
    session::close(remote, channel);
    let rates = file.borrow().finish()?;
    Ok(SftpRates { congestion_windows: congestion_windows(remote), ..rates })
}

/// Time limit for a look at the server's TCP.
const LOOK: Duration = Duration::from_secs(3);

/// The congestion windows of this end and of the server, where their slow start is over.
fn congestion_windows(remote: &mut Remote) -> [Option<f64>; 2] {
    let here = remote.client.driver().control().tcp_info().and_then(|info| {
        // The kernel's value for a threshold that no loss and no HyStart has set.
        const UNLIMITED: u64 = 0x7fff_ffff;
        info.get("snd_ssthresh").filter(|segments| *segments < UNLIMITED)?;
        Some((info.get("snd_cwnd")? * info.get("snd_mss")?) as f64)
    });
    let script = "set -- $SSH_CONNECTION; ss -tinH \"sport = :$4 and dport = :$2\" 2>/dev/null";
    [here, window_after_slow_start(&remote.script(script, LOOK).text())]
}
