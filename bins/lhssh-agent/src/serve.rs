//! The agent's loop: clients, signals, questions to the user, the end.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use lh_agent::{Frames, Reply, Request, frame};
use lh_cli::prompt::{Prompter, Require};
use lh_sys::errno_text;
use lh_sys::signals::Signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getuid};
use zeroize::Zeroize as _;

use crate::answer::{Outcome, Signing, Work, WorkDone, after_question, after_work, answer};
use crate::keyring::Keyring;
use crate::listen::Socket;
use crate::log::Log;
use crate::permit::Bindings;

/// Upper limit of clients at a time; further ones wait in the kernel's queue.
const MOST_CLIENTS: usize = 1000;
/// Upper limit of concurrent work of security keys and tokens, each with a process and a thread.
const MOST_JOBS: usize = 16;
/// Size of one read, bytes.
const READ: usize = 4096;
/// Exit status of an agent that a signal ended; OpenSSH's.
const ENDED: u8 = 2;

/// Event other than a signal that ends the agent.
pub(crate) struct EndEvent(Option<OwnedFd>);

impl EndEvent {
    /// None: only signals end the agent.
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// The end of a process.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn process_ends(pid: Pid) -> io::Result<Self> {
        Ok(Self(Some(lh_sys::child::end_of_process(pid)?)))
    }
}

struct Client {
    /// Identifier that is never reused, unlike the index in the list.
    number: u64,
    socket: UnixStream,
    frames: Frames,
    bindings: Bindings,
    /// Replies that the client has not taken yet.
    out: Vec<u8>,
    state: State,
    closed: bool,
}

/// Event that a client's next request waits for.
enum State {
    Open,
    /// Handle this message at this time, not before.
    Until(Instant, zeroize::Zeroizing<Vec<u8>>),
    /// The user's confirmation. Questions are asked in the order of their numbers.
    Asked(u64, Box<Signing>),
    /// A security key or a token.
    Working,
}

/// Client number, and what its security key or token has done.
type FinishedJob = (u64, WorkDone);

/// State of the loop.
pub(crate) struct Server {
    socket: Socket,
    ring: Keyring,
    until: EndEvent,
    log: Log,
    signals: Signals,
    clients: Vec<Client>,
    /// Number of the next client, and of the next question.
    next_number: u64,
    /// Started work that has not been reported as finished. It outlives its client: a client that leaves and
    /// comes back must not start more.
    running: usize,
    /// The user is being asked. The next question waits for the answer, and is dropped with its client.
    asking: bool,
    /// Channels for questions and answers; each answer sends a byte on the socket, which wakes the loop.
    questions: Sender<(u64, String)>,
    answers: Receiver<(u64, bool)>,
    /// Channel for the work of security keys and tokens, which wakes the loop in the same way.
    finished: (Sender<FinishedJob>, Receiver<FinishedJob>),
    wake: UnixStream,
    waker: UnixStream,
}

impl Server {
    /// # Errors
    /// The system's error.
    pub(crate) fn new(
        socket: Socket,
        ring: Keyring,
        until: EndEvent,
        log: Log,
        interruptible: bool,
    ) -> io::Result<Self> {
        let mut signals = vec![Signal::HUP, Signal::TERM, Signal::USR1];
        if interruptible {
            signals.push(Signal::INT);
        }
        // Blocked before the thread starts, which inherits the mask.
        let signals = Signals::collect(&signals)?;
        let (wake, waker) = UnixStream::pair()?;
        let to_ask = waker.try_clone()?;
        wake.set_nonblocking(true)?;
        let (questions, asked) = channel();
        let (answered, answers) = channel();
        std::thread::Builder::new().name("ask".to_owned()).spawn(move || ask(&asked, &answered, to_ask))?;
        Ok(Self {
            socket,
            ring,
            until,
            log,
            signals,
            clients: Vec::new(),
            next_number: 0,
            running: 0,
            asking: false,
            questions,
            answers,
            finished: channel(),
            wake,
            waker,
        })
    }

    /// Serves until it must end. Returns the exit status.
    pub(crate) fn run(mut self) -> u8 {
        loop {
            let ready = match self.wait() {
                Ok(ready) => ready,
                Err(error) => {
                    self.log.error(&format!("poll: {}", errno_text(&error)));
                    return ENDED;
                }
            };
            let now = Instant::now();
            self.ring.expire(now);
            if ready.ended || (ready.signal && self.on_signals()) {
                return ENDED;
            }
            if ready.woken {
                self.on_answers(now);
            }
            if ready.listener {
                self.accept();
            }
            for index in 0..self.clients.len() {
                if ready.clients.contains(&index) {
                    self.read(index);
                }
                self.work(index, now);
            }
            self.clients.retain(|client| !client.closed);
            self.ask_next();
        }
    }

    fn wait(&self) -> io::Result<ReadyList> {
        let deadlines = self.clients.iter().filter_map(|client| match &client.state {
            State::Until(at, _) => Some(*at),
            _ => None,
        });
        let deadline = deadlines.chain(self.ring.next_expiry()).min();
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());

        let full = self.clients.len() >= MOST_CLIENTS;
        let nothing = PollFlags::empty();
        let end: BorrowedFd<'_> = self.until.0.as_ref().map_or(self.wake.as_fd(), AsFd::as_fd);
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(
                self.socket.listener().as_fd(),
                if full { nothing } else { PollFlags::IN },
            ),
            PollFd::from_borrowed_fd(end, if self.until.0.is_some() { PollFlags::IN } else { nothing }),
        ];
        for client in &self.clients {
            let wants = if !client.out.is_empty() {
                PollFlags::OUT
            } else if matches!(client.state, State::Open) {
                PollFlags::IN
            } else {
                nothing
            };
            fds.push(PollFd::from_borrowed_fd(client.socket.as_fd(), wants));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        let told_to_end = self.until.0.is_some() && ready(3);
        let first = 4;
        Ok(ReadyList {
            signal: ready(0),
            woken: ready(1),
            listener: ready(2),
            ended: told_to_end,
            clients: (0..self.clients.len()).filter(|index| ready(first + index)).collect(),
        })
    }

    /// Handles signals; true when one of them ends the agent.
    fn on_signals(&mut self) -> bool {
        while let Ok(Some(signal)) = self.signals.take() {
            if signal == Signal::USR1 {
                self.log.debug(|| "signal: removing all keys".to_owned());
                self.ring.clear();
            } else {
                return true;
            }
        }
        false
    }

    fn accept(&mut self) {
        while self.clients.len() < MOST_CLIENTS {
            let socket = match self.socket.listener().accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // For example, no descriptor is left. Existing clients continue, and may free some.
                    self.log.error(&format!("accept: {}", errno_text(&error)));
                    return;
                }
            };
            let peer = lh_sys::pass::peer_uid(&socket);
            let allowed = peer.is_ok_and(|uid| uid == 0 || uid == getuid().as_raw());
            if !allowed {
                self.log.error("refused a client of another user");
                continue;
            }
            if let Err(error) = socket.set_nonblocking(true) {
                self.log.error(&errno_text(&error));
                continue;
            }
            self.next_number += 1;
            self.clients.push(Client {
                number: self.next_number,
                socket,
                frames: Frames::default(),
                bindings: Bindings::default(),
                out: Vec::new(),
                state: State::Open,
                closed: false,
            });
        }
    }

    fn read(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index) else { return };
        if !client.out.is_empty() {
            return client.flush();
        }
        let mut buffer = [0; READ];
        match client.socket.read(&mut buffer) {
            Ok(0) => client.closed = true,
            Ok(n) => client.frames.push(&buffer[..n]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => client.closed = true,
        }
        buffer.zeroize();
    }

    /// Handles the received requests, as long as the client takes the replies.
    fn work(&mut self, index: usize, now: Instant) {
        while let Some(client) = self.clients.get_mut(index) {
            if client.closed || !client.out.is_empty() {
                return;
            }
            let body = match std::mem::replace(&mut client.state, State::Open) {
                State::Until(at, body) if at <= now => body,
                State::Open => match client.frames.next_body() {
                    Ok(Some(body)) => body,
                    Ok(None) => return,
                    Err(error) => {
                        self.log.error(&error.to_string());
                        client.closed = true;
                        return;
                    }
                },
                waiting => {
                    client.state = waiting;
                    return;
                }
            };
            let outcome = match Request::parse(&body) {
                Ok(request) => answer(&mut self.ring, &mut client.bindings, request, now, self.log),
                Err(error) => {
                    if lh_agent::is_session_bind(&body) {
                        client.bindings.note_failure();
                    }
                    self.log.error(&error.to_string());
                    Outcome::Reply(Reply::Failure)
                }
            };
            match outcome {
                Outcome::Hardware(job) => self.start(index, job),
                Outcome::Reply(reply) => client.reply(&reply),
                Outcome::Wait(at) => client.state = State::Until(at, body),
                Outcome::Ask(signing) => {
                    self.next_number += 1;
                    client.state = State::Asked(self.next_number, Box::new(signing));
                }
            }
        }
    }

    /// Has the user asked the oldest question of a client that is still there, if no other one is open.
    fn ask_next(&mut self) {
        if self.asking {
            return;
        }
        let asked = self.clients.iter_mut().filter_map(|client| match &client.state {
            State::Asked(order, signing) => Some((*order, signing.question.clone(), client)),
            _ => None,
        });
        let Some((_, question, client)) = asked.min_by_key(|(order, ..)| *order) else { return };
        self.asking = self.questions.send((client.number, question)).is_ok();
        if !self.asking {
            client.state = State::Open;
            client.reply(&Reply::Failure);
        }
    }

    /// Starts the work of a security key or token, in a thread of its own.
    fn start(&mut self, index: usize, job: Work) {
        let Some(client) = self.clients.get_mut(index) else { return };
        let (number, done, waker) = (client.number, self.finished.0.clone(), self.waker.try_clone());
        let started = waker.and_then(|mut waker| {
            if self.running >= MOST_JOBS {
                return Err(io::Error::other("too many signatures at once"));
            }
            std::thread::Builder::new().name("sign".to_owned()).spawn(move || {
                if done.send((number, job.run())).is_ok() {
                    let _ = waker.write_all(&[1]);
                }
            })
        });
        match started {
            Ok(_) => {
                self.running += 1;
                client.state = State::Working;
            }
            Err(error) => {
                self.log.error(&format!("no signature: {}", errno_text(&error)));
                client.reply(&Reply::Failure);
            }
        }
    }

    fn on_answers(&mut self, now: Instant) {
        let _ = self.wake.read(&mut [0; 64]);
        while let Ok((number, done)) = self.finished.1.try_recv() {
            self.running = self.running.saturating_sub(1);
            let reply = after_work(&mut self.ring, done, now, self.log);
            // The client may have gone.
            if let Some(client) = self.clients.iter_mut().find(|client| client.number == number) {
                client.state = State::Open;
                client.reply(&reply);
            }
        }
        while let Ok((number, allowed)) = self.answers.try_recv() {
            self.asking = false;
            let Some(index) = self.clients.iter().position(|client| client.number == number) else {
                continue;
            };
            let Some(client) = self.clients.get_mut(index) else { continue };
            if let State::Asked(_, signing) = std::mem::replace(&mut client.state, State::Open) {
                match after_question(&mut self.ring, &signing, allowed, now, self.log) {
                    Outcome::Hardware(job) => self.start(index, job),
                    Outcome::Reply(reply) => client.reply(&reply),
                    // A request asks or waits only once.
                    Outcome::Ask(_) | Outcome::Wait(_) => client.reply(&Reply::Failure),
                }
            }
        }
    }
}

struct ReadyList {
    signal: bool,
    woken: bool,
    listener: bool,
    ended: bool,
    clients: Vec<usize>,
}

impl Client {
    fn reply(&mut self, reply: &Reply) {
        self.out.extend_from_slice(&frame(&reply.encode()));
        self.flush();
    }

    fn flush(&mut self) {
        while !self.out.is_empty() {
            match self.socket.write(&self.out) {
                Ok(0) => self.closed = true,
                Ok(n) => drop(self.out.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.closed = true,
            }
            if self.closed {
                return;
            }
        }
    }
}

/// Asks the user one question after the other.
fn ask(questions: &Receiver<(u64, String)>, answers: &Sender<(u64, bool)>, mut waker: UnixStream) {
    while let Ok((number, question)) = questions.recv() {
        // An agent has no terminal, so an askpass program shows the question.
        let prompter = Prompter { require: Require::Force, ..Prompter::from_environment() };
        let allowed = prompter.confirm(&question).unwrap_or(false);
        if answers.send((number, allowed)).is_err() || waker.write_all(&[1]).is_err() {
            return;
        }
    }
}
