//! One file that is written and read over the server's SFTP, for a limited time: the requests, and their I/O.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_client::{SessionNote, SessionSetup, Start, answer_by_default};
use lh_driver::{
    ChannelCx, ChannelEvent, ChannelHandler, ChannelId, ChannelOptions, Control, ControlCx, ControlEvent,
};
use lh_sftp::{Attrs, Handle, Incoming, OpenFlags, Reply, ReplyBody, Request, Session, Status, StatusCode};

use crate::target::Remote;
use crate::task::random;

/// Data of a request, bytes: what all servers take.
pub(super) const BLOCK: u32 = 32 * 1024;
/// Requests at a time, where the server is known to take many, and elsewhere.
const AT_A_TIME: [usize; 2] = [64, 16];
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
    session: Session,
    out: Vec<u8>,
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
    failure: Option<String>,
}

impl File {
    fn new(server: Option<&str>, path: String, plan: Plan) -> Self {
        let mut session = Session::new();
        session.set_server(server, None);
        let mut out = Vec::new();
        session.start(&mut out);
        Self {
            session,
            out,
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
            failure: None,
        }
    }

    fn at_a_time(&self) -> usize {
        AT_A_TIME[usize::from(!self.session.takes_many_requests())]
    }

    /// Writes the next request, if one is due.
    fn ask(&mut self, now: Instant) {
        if self.session.version().is_none() {
            return;
        }
        let path = self.path.as_bytes();
        let request = match self.phase {
            Phase::Write | Phase::Read => {
                if self.is_enough(now) || self.asked >= self.at_a_time() {
                    return;
                }
                let offset = self.offset;
                self.offset += u64::from(BLOCK);
                match self.phase {
                    Phase::Write => Request::Write { handle: &self.handle, offset, data: &self.block },
                    // The file may be read several times.
                    _ => Request::Read { handle: &self.handle, offset: offset % self.written, len: BLOCK },
                }
            }
            _ if self.asked > 0 => return,
            Phase::Open => Request::Open { path, flags: OpenFlags::NEW_FILE, attrs: Attrs::NONE },
            Phase::Unlink | Phase::Remove => Request::Remove { path },
            Phase::Close => Request::Close { handle: &self.handle },
            Phase::Over => return,
        };
        self.session.request(&request, &mut self.out);
        self.asked += 1;
    }

    fn on_reply(&mut self, body: &ReplyBody, now: Instant) {
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
            (Phase::Remove, _) => self.phase = Phase::Over,
            (_, ReplyBody::Status(Status { code, message })) => {
                self.fail(if message.is_empty() { code.text() } else { message });
            }
            _ => self.fail("an answer of another kind"),
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
    fn fail(&mut self, why: &str) {
        self.failure.get_or_insert_with(|| lh_client::sanitise(why));
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
        self.rates.at_a_time = (self.at_a_time() as f64) * f64::from(BLOCK);
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
            self.failure.get_or_insert_with(|| "it did not answer in time".to_owned());
        }
        if self.has_name {
            self.failure = Some(format!("{} stays at the server", lh_client::sanitise(&self.path)));
        }
        self.phase = Phase::Over;
    }

    /// When answers are not waited for any longer.
    fn deadline(&self) -> Instant {
        let (part, least) = DRAIN;
        self.begun + self.plan.time + self.plan.time.mul_f64(part).max(least)
    }

    fn transmit(&mut self, cx: &mut ChannelCx<'_>) {
        loop {
            if self.out.is_empty() {
                self.ask(Instant::now());
            }
            let sent = cx.send(&self.out);
            self.out.drain(..sent);
            if sent == 0 {
                break;
            }
        }
    }
}

/// Writes and reads a file of this name over the server's SFTP.
///
/// # Errors
/// Why there are no rates, in the server's words.
pub(super) fn measure(remote: &mut Remote, path: String, plan: Plan) -> Result<SftpRates, String> {
    remote.renew(true);
    let server = remote.client.driver().link().peer_identification().map(str::to_owned);
    let file = Rc::new(RefCell::new(File::new(server.as_deref(), path, plan)));
    let setup = SessionSetup::new(Start::Subsystem("sftp".to_owned()));
    let handler = Box::new(Handler(Rc::clone(&file)));
    let opened = remote.client.open_session(setup, &ChannelOptions::default(), handler);
    let channel = opened.map_err(|error| error.to_string())?;
    let mut control = FileControl { file: Rc::clone(&file), channel };
    let ran = remote.client.run(&mut control);
    if let Some(mut channel) = remote.client.driver().control().channel(channel) {
        channel.close();
    }
    let file = file.borrow();
    ran.map_err(|error| lh_client::sanitise(&error.to_string()))?;
    match &file.failure {
        Some(why) => Err(why.clone()),
        None => Ok(file.rates),
    }
}

struct Handler(Rc<RefCell<File>>);

impl ChannelHandler for Handler {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        let mut file = self.0.borrow_mut();
        match event {
            ChannelEvent::Opened { .. } => file.transmit(cx),
            ChannelEvent::Data { ext, data } => {
                cx.consumed(data.len());
                if ext.is_some() {
                    return;
                }
                file.session.input(data);
                loop {
                    match file.session.poll() {
                        Ok(Some(Incoming::Reply(Reply { body, .. }))) => file.on_reply(&body, Instant::now()),
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(error) => {
                            file.fail(&error.to_string());
                            file.phase = Phase::Over;
                            break;
                        }
                    }
                }
                file.transmit(cx);
                if file.phase == Phase::Over {
                    cx.stop(0);
                }
            }
            ChannelEvent::Eof => {
                file.fail("its program ended");
                file.phase = Phase::Over;
                cx.stop(0);
            }
            _ => {}
        }
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.0.borrow_mut().transmit(cx);
    }
}

struct FileControl {
    file: Rc<RefCell<File>>,
    channel: ChannelId,
}

impl Control for FileControl {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        let refused = match &event {
            ControlEvent::Note { note, .. } => match note.downcast_ref::<SessionNote>() {
                Some(SessionNote::OpenFailed { description, .. }) => Some(description.clone()),
                Some(SessionNote::StartRefused { request }) => Some(format!("{request} request failed")),
                _ => return,
            },
            ControlEvent::ChannelGone { id, .. } if *id == self.channel => {
                Some("its program ended".to_owned())
            }
            _ => None,
        };
        match refused {
            Some(why) => {
                let mut file = self.file.borrow_mut();
                file.fail(&why);
                file.phase = Phase::Over;
                cx.stop(0);
            }
            None => answer_by_default(event, cx),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.file.borrow().deadline())
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let mut file = self.file.borrow_mut();
        if file.deadline() <= cx.now() {
            file.give_up(cx.now());
            cx.stop(0);
        }
    }
}
