//! SFTP inside the session process: no second process and no pipe; file data goes straight into packets.
//!
//! The event loop makes file system calls itself as long as that is safe and fast: every mounted file system
//! is local, the channel is the only one of its connection, and no recent request took longer than a
//! millisecond. Otherwise the engine moves to a worker thread ([`workers`]) for a few requests, while the
//! loop serves the other channels, the keepalives and the windows. Where a mounted file system can hang, the
//! engine runs in a thread of its own ([`own_thread`]) from the beginning. There is one engine, so requests
//! are served in order in any case. While it is away, received data is kept without returning window, so the
//! client's window bounds the memory.

mod absence;
pub(super) mod mounts;
mod own_thread;
mod records;
mod upload_hook;
mod visit;
pub(super) mod workers;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler, Interest, Interests, Ready};
use lh_sftp::server::{Backlog, Progress, Server, ServerError};
use lh_sftp_server::{Arguments, BAD_CLIENT};
use lh_wire::Writer;

use super::shared::Shared;
use crate::hosts::shown_ip;
use crate::log::{Log, error, info};
use own_thread::OwnThread;
use records::Reporter;
use upload_hook::UploadHook;
use visit::Visit;
use workers::ResultQueue;

/// Size of the replies that a worker may produce in one visit, bytes.
const REPLIES: usize = 512 * 1024;

/// The engine visits a worker again while at most this many bytes of its last replies are unsent: it reads
/// the next part of a file while the loop encrypts this one.
const UNSENT: usize = 256 * 1024;

/// Number of visits without a slow request, after a slow one, before the loop makes file system calls again.
const QUICK_RUNS: u32 = 64;

/// Longest wait for an unfinished call at the end of a connection, so that its files get into the log of
/// transfers.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// The handler of a session channel that serves SFTP.
pub(super) struct Sftp {
    /// The engine; `None` while a thread has it.
    server: Option<Box<Server>>,
    /// The thread that owns the engine for good.
    thread: Option<OwnThread>,
    /// A thread has the engine; its visit has not returned.
    away: bool,
    /// The engine knows that the client is away. While uploads are checked, it then serves nothing.
    is_paused: bool,
    begun: Instant,
    /// Data received while the engine is away.
    waiting: Vec<Bytes>,
    /// Replies of a thread that the channel has not taken yet.
    replies: Backlog,
    /// Receives the results of threads; created when the first thread is needed.
    mailbox: Option<ResultQueue<Visit>>,
    pace: Pace,
    /// Stops `UploadHook`, where one is configured.
    stop_hook: Option<Arc<AtomicBool>>,
    reporter: Reporter,
    shared: Rc<Shared>,
    log: Log,
    eof: bool,
    ended: bool,
    /// The exit status, to send after a thread has closed the open files.
    status: Option<u32>,
}

/// Decides whether the loop or a thread makes file system calls.
struct Pace {
    /// Number of further visits without a slow request before the loop may make calls.
    careful: u32,
    /// The engine changes the umask. That belongs to the whole process, unless a thread has unshared it.
    own_umask: bool,
    /// No thread is available.
    inline_only: bool,
    /// The thread's engine had nothing to do at the end of its last visit.
    idle: bool,
    /// The thread's engine can continue.
    more: bool,
}

impl Sftp {
    /// `client` and `own` are the identification lines of both ends of the connection.
    pub(super) fn new(arguments: &Arguments, shared: Rc<Shared>, client: Option<&str>, own: &str) -> Self {
        let (user, log) = (shared.user.clone(), shared.requests_log.clone());
        let address = shown_ip(shared.client.peer.get()).to_string();
        let to = (!arguments.stderr).then(|| log.of_its_own("internal-sftp", arguments.facility));
        let directory = shared.programs.start.directory.clone();
        let start = arguments.start_in(&directory);
        let (reporter, recorder) = Reporter::new(Rc::clone(&shared), arguments.log_level, to, start.clone());
        let mut server = arguments.server(&user, address, directory, recorder);
        server.set_client(client, Some(own));
        let hook = UploadHook::new(&shared, start, reporter.notes());
        let stop_hook = hook.map(|hook| {
            let stop = hook.stop();
            server.set_upload_check(Box::new(hook));
            stop
        });
        let own_umask = arguments.umask.is_some();
        let mut sftp = Self {
            server: None,
            thread: None,
            away: false,
            is_paused: false,
            begun: Instant::now(),
            waiting: Vec::new(),
            replies: Backlog::new(REPLIES),
            mailbox: None,
            pace: Pace { careful: 0, own_umask, inline_only: false, idle: true, more: false },
            stop_hook,
            reporter,
            shared,
            log,
            eof: false,
            ended: false,
            status: None,
        };
        sftp.settle(Box::new(server));
        sftp
    }

    /// Places the engine: in a thread of its own where a file system can hang, otherwise in the loop.
    fn settle(&mut self, server: Box<Server>) {
        if self.shared.files.mounts.all_local(Instant::now()) {
            self.server = Some(server);
            return;
        }
        let Ok(mailbox) = ResultQueue::new() else {
            self.server = Some(server);
            return;
        };
        match OwnThread::start(server, mailbox.address(), self.pace.own_umask) {
            Ok(thread) => self.thread = Some(thread),
            Err(server) => self.server = Some(server),
        }
        self.mailbox = Some(mailbox);
    }

    /// Serves the requests that can be served now.
    fn serve(&mut self, cx: &mut ChannelCx<'_>) {
        self.follow_client();
        if self.ended || (self.is_paused && self.stop_hook.is_some()) {
            return;
        }
        if self.replies.rest().len() > UNSENT {
            self.send_replies(cx);
        }
        let here = self.stays_here(cx);
        if self.send_replies(cx)
            && here
            && let Some(server) = &mut self.server
        {
            let result = server.poll(cx);
            if self.account(result, cx) {
                cx.want_writable();
            }
        }
        self.finish(cx);
    }

    /// Returns whether the loop may make file system calls.
    fn is_quick(&self, cx: &mut ChannelCx<'_>) -> bool {
        self.pace.inline_only
            || (self.pace.careful == 0
                && self.stop_hook.is_none()
                && cx.channel_count() == 1
                && self.shared.files.mounts.all_local(cx.now()))
    }

    /// Returns whether the engine can run in the loop now. If its next requests may block, hands it to a
    /// thread, now or when replies have been sent.
    fn stays_here(&mut self, cx: &mut ChannelCx<'_>) -> bool {
        let wanted = match (&self.server, &self.thread) {
            (Some(server), _) => {
                if !server.wants_files() || self.is_quick(cx) {
                    return true;
                }
                true
            }
            (None, Some(_)) => !self.away && (self.pace.more || !self.waiting.is_empty()),
            (None, None) => false,
        };
        let unsent = self.replies.rest().len();
        if wanted && unsent <= UNSENT {
            let replies = Backlog::new(cx.window().saturating_sub(unsent).min(REPLIES));
            self.hand_over(replies, cx);
        }
        false
    }

    fn hand_over(&mut self, mut replies: Backlog, cx: &mut ChannelCx<'_>) {
        if let Some(thread) = &self.thread {
            thread.serve(std::mem::take(&mut self.waiting), replies);
            self.away = true;
            self.pace.more = false;
            return;
        }
        if self.mailbox.is_none() {
            self.mailbox = ResultQueue::new().ok();
        }
        let (Some(mailbox), Some(mut server)) = (&self.mailbox, self.server.take()) else {
            self.stay();
            return cx.want_writable();
        };
        let (address, own_umask) = (mailbox.address(), self.pace.own_umask);
        let job = Box::new(move || {
            let fit = !own_umask || lh_sys::threads::own_umask().is_ok();
            let result = fit.then(|| server.poll(&mut replies));
            let idle = server.is_idle();
            address.deliver(Visit { server: Some(server), replies, idle, result, closed: false });
        });
        self.away = true;
        if let Err(job) = self.shared.files.workers.submit(job) {
            // No thread is available: the loop runs the job, now and from now on.
            job();
            self.stay();
            self.take_back(cx);
        }
    }

    /// Stops using worker threads for this channel.
    fn stay(&mut self) {
        if !std::mem::replace(&mut self.pace.inline_only, true) {
            info!(self.log, "sftp: no thread can be used for files: a file that hangs stops the connection");
        }
    }

    /// Takes the result of a thread's visit.
    fn take_back(&mut self, cx: &mut ChannelCx<'_>) {
        let Some(mut visit) = self.mailbox.as_ref().and_then(ResultQueue::take) else { return };
        self.away = false;
        let arrived = !self.waiting.is_empty();
        if let Some(mut server) = visit.server {
            self.waiting.drain(..).for_each(|data| server.input(data));
            self.server = Some(server);
        }
        self.replies.append(&mut visit.replies);
        if visit.closed {
            self.thread = None;
        }
        if self.ended {
            self.close();
            if let (false, Some(status)) = (self.away, self.status.take_if(|_| visit.closed)) {
                self.say_status(status, cx);
            }
            return;
        }
        let more = match visit.result {
            None => {
                self.stay();
                true
            }
            Some(result) => self.account(result, cx),
        };
        self.pace.idle = visit.idle;
        // The engine may wait for room in the channel; then `want_writable` has it served later.
        self.pace.more = more || (!visit.idle && cx.budget() > 0);
        if self.pace.more || arrived {
            self.serve(cx);
        } else {
            self.send_replies(cx);
            self.finish(cx);
        }
    }

    /// Returns window for the data that the engine has used, or ends the channel with its error. Returns
    /// whether there is more to do.
    fn account(&mut self, result: Result<Progress, ServerError>, cx: &mut ChannelCx<'_>) -> bool {
        match result {
            Ok(progress) => {
                let quick = self.pace.careful.saturating_sub(1);
                self.pace.careful = if progress.slow { QUICK_RUNS } else { quick };
                cx.consumed(progress.consumed);
                progress.more
            }
            Err(problem) => {
                error!(self.log, "sftp: {problem}");
                self.end(BAD_CLIENT.into(), cx);
                false
            }
        }
    }

    /// Sends replies of workers; returns whether all have been sent.
    fn send_replies(&mut self, cx: &mut ChannelCx<'_>) -> bool {
        while !self.replies.is_empty() {
            if cx.budget() == 0 {
                return false;
            }
            let sent = cx.send(self.replies.rest());
            if sent == 0 {
                return false;
            }
            self.replies.advance(sent);
        }
        true
    }

    /// Ends the channel when the client has sent EOF and every request is answered.
    fn finish(&mut self, cx: &mut ChannelCx<'_>) {
        self.reporter.report();
        let idle = match &self.server {
            Some(server) => server.is_idle(),
            None => !self.away && self.pace.idle && self.waiting.is_empty(),
        };
        if self.eof && idle && self.replies.is_empty() && !self.ended {
            self.end(0, cx);
        }
        self.send_lines(cx);
    }

    /// Sends log lines to the client, as far as its window allows.
    fn send_lines(&self, cx: &mut ChannelCx<'_>) {
        let mut stderr = self.reporter.stderr().borrow_mut();
        if !stderr.is_empty() {
            let sent = cx.send_ext(1, &stderr);
            stderr.drain(..sent);
        }
    }

    fn end(&mut self, status: u32, cx: &mut ChannelCx<'_>) {
        self.ended = true;
        self.close();
        if self.away {
            self.status = Some(status);
        } else {
            self.say_status(status, cx);
        }
    }

    fn say_status(&self, status: u32, cx: &mut ChannelCx<'_>) {
        self.send_lines(cx);
        let mut fields = Vec::new();
        fields.put_u32(status);
        cx.request("exit-status", false, &fields);
        cx.eof();
        cx.close();
    }

    /// Records the open files and has them closed, by a thread if closing may block.
    fn close(&mut self) {
        if let Some(stop) = &self.stop_hook {
            stop.store(true, Ordering::Relaxed);
        }
        if let Some(server) = &mut self.server {
            let files = server.close();
            if self.pace.inline_only || self.shared.files.mounts.all_local(Instant::now()) {
                drop(files);
            } else if let Err(job) = self.shared.files.workers.submit(Box::new(move || drop(files))) {
                job();
            }
        }
        if let Some(thread) = &mut self.thread {
            thread.close();
            self.away = true;
        }
        self.reporter.report();
    }
}

impl ChannelHandler for Sftp {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        match event {
            ChannelEvent::Data { ext: None, data } if !self.ended => match &mut self.server {
                Some(server) => server.input(data),
                None => self.waiting.push(data),
            },
            ChannelEvent::Data { data, .. } => cx.consumed(data.len()),
            ChannelEvent::Eof => self.eof = true,
            ChannelEvent::Closed => {
                self.ended = true;
                self.waiting.clear();
                self.close();
            }
            ChannelEvent::Request { want_reply: true, .. } => cx.reply(false),
            _ => {}
        }
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.serve(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        // The thread's engine may have stopped for lack of room.
        self.pace.more |= !self.pace.idle;
        self.serve(cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        if let (true, Some(mailbox)) = (self.away, &self.mailbox) {
            out.add(0, mailbox.fd(), Interest::READ);
        }
    }

    fn on_ready(&mut self, _token: usize, _ready: Ready, cx: &mut ChannelCx<'_>) {
        self.take_back(cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        // A time that has passed: at once.
        self.has_news_of_client().then_some(self.begun)
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.serve(cx);
    }

    fn finished(&self) -> bool {
        !self.away
    }
}

impl Drop for Sftp {
    /// Ends the connection's use of files. A call that does not return is left behind, with its files.
    fn drop(&mut self) {
        let deadline = Instant::now() + LAST_WAIT;
        self.ended = true;
        self.close();
        while self.away
            && let Some(mailbox) = &self.mailbox
        {
            let Some(visit) = mailbox.wait(deadline) else {
                info!(self.log, "sftp: a call on a file has not returned; it is left behind");
                break;
            };
            self.away = self.thread.is_some() && !visit.closed;
            if visit.server.is_some() {
                self.server = visit.server;
                self.close();
            }
        }
        self.reporter.report();
    }
}
