//! Additional connections of a copy, as many as `-j` says, or as are found to help.
//!
//! A server that gives tickets (a Longhaul server) is joined by them: no login, no question, and each connection has a process
//! of its own there. To others additional channels come first, and an ordinary login only when the server allows
//! no more of them, or when one connection is what holds the copy up; and only where the first login has needed nobody:
//! a login that fails is a warning in the server's log, and a key that has to be touched blinks for a reason.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use lh_client::{
    LogLevel, Options as ClientOptions, SessionSetup, Start, Ticket, answer_by_default, connect,
};
use lh_driver::{ChannelOptions, Control, ControlCx, ControlEvent};
use lh_terminal::TerminalUi;
use lh_transfer::{AdditionalConnections, Job, Load, Side};

use crate::load::Gauge;

/// Channels of one additional connection: what OpenSSH's server allows.
const CHANNELS: usize = 10;

/// Purpose of an additional connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// In place of a channel that is waited for.
    Channel,
    /// One more, with channels that are not waited for.
    Another,
}

/// The next task of the thread that connects.
struct Want {
    purpose: Purpose,
    /// To be joined with; else by a login.
    ticket: Option<Ticket>,
    channels: usize,
}

/// The thread that connects; it is there when it is first needed.
enum Worker {
    None,
    Running(Sender<Want>),
    Over,
}

/// Tickets that the server has not answered about, in the order in which it will; none where the copy is over that wanted one. The
/// connection's, because answers come in after that.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<VecDeque<Option<TicketUse>>>>);

/// A ticket, and the purpose of the connection that it joins.
type TicketUse = (Ticket, Purpose);

impl Asked {
    fn push(&self, ticket: Ticket, purpose: Purpose) {
        locked(&self.0).push_back(Some((ticket, purpose)));
    }

    /// The one that an answer which has come is about.
    pub(crate) fn oldest(&self) -> Option<TicketUse> {
        locked(&self.0).pop_front().flatten()
    }

    /// Forgets the copy that wanted them, which is over.
    fn forget(&self) {
        locked(&self.0).iter_mut().for_each(|asked| *asked = None);
    }
}

/// Makes the connections of one job, one after the other: a server that counts those who log in sees one at a time.
pub struct Connector {
    job: Job,
    side: Side,
    options: ClientOptions,
    /// The program or subsystem of their channels.
    start: Start,
    asked: Asked,
    /// Another login needs nobody; false before the first one.
    may_log_in: AtomicBool,
    worker: Mutex<Worker>,
    me: Weak<Self>,
    gauge: Mutex<Gauge>,
    /// The threads of the connections, and whether each is connected.
    running: Mutex<Vec<(Arc<AtomicBool>, JoinHandle<()>)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connector {
    /// A connector for `job`, whose first connection was made with `options`.
    pub(crate) fn new(
        job: &Job,
        side: Side,
        options: &ClientOptions,
        start: Start,
        load: Gauge,
        asked: Asked,
    ) -> Arc<Self> {
        let mut options = options.clone();
        // Nobody is asked, and the first connection has said what there was to say.
        options.config.settings.batch_mode.force(true);
        options.log_level = LogLevel::Quiet;
        Arc::new_cyclic(|me| Self {
            job: job.clone(),
            side,
            options,
            start,
            asked,
            may_log_in: AtomicBool::new(false),
            worker: Mutex::new(Worker::None),
            me: me.clone(),
            gauge: Mutex::new(load),
            running: Mutex::default(),
        })
    }

    /// The first connection is logged in; `again`: another login needs nobody.
    pub(crate) fn logged_in(&self, again: bool) {
        self.may_log_in.store(again, Ordering::Release);
    }

    /// The server has answered about a ticket.
    pub(crate) fn replied(&self, ticket: Ticket, purpose: Purpose, ok: bool) {
        if !ok || !self.want(Want { purpose, ticket: Some(ticket), channels: 1 }) {
            self.failed(purpose, 1, true);
        }
    }

    /// The copy is over: waits for connections that stand to be closed.
    pub fn end(&self) {
        self.asked.forget();
        *locked(&self.worker) = Worker::Over;
        for (connected, thread) in std::mem::take(&mut *locked(&self.running)) {
            if connected.load(Ordering::Acquire) {
                let _ = thread.join();
            }
        }
    }

    fn want(&self, want: Want) -> bool {
        let mut worker = locked(&self.worker);
        if let (Worker::None, Some(me)) = (&*worker, self.me.upgrade()) {
            let (wants, wanted) = channel();
            // Nobody waits for this one: it may be connecting when everything is done.
            std::thread::spawn(move || me.work(&wanted));
            *worker = Worker::Running(wants);
        }
        matches!(&*worker, Worker::Running(wants) if wants.send(want).is_ok())
    }

    fn work(self: Arc<Self>, wanted: &Receiver<Want>) {
        let mut waiting: VecDeque<Want> = VecDeque::new();
        while let Some(mut want) = waiting.pop_front().or_else(|| wanted.recv().ok()) {
            waiting.extend(wanted.try_iter());
            let plain = |want: &Want| want.ticket.is_none() && want.purpose == Purpose::Channel;
            if plain(&want) {
                // One login serves as many channels as are waited for.
                while want.channels < CHANNELS && waiting.front().is_some_and(plain) {
                    waiting.pop_front();
                    want.channels += 1;
                }
            }
            if self.job.is_finished() || self.job.is_stopped() {
                return;
            }
            let (connected, connector) = (Arc::new(AtomicBool::new(false)), Arc::clone(&self));
            let (tried, result) = channel::<()>();
            let stands = Arc::clone(&connected);
            let thread = std::thread::spawn(move || connector.serve(want, &stands, tried));
            // Hears of it when it stands, or of the end of the thread.
            let _ = result.recv();
            locked(&self.running).push((connected, thread));
        }
    }

    /// No connection came of it.
    fn failed(&self, purpose: Purpose, channels: usize, joins: bool) {
        match purpose {
            Purpose::Channel => (0..channels).for_each(|_| self.job.connection_failed(!joins)),
            Purpose::Another => self.job.another_failed(),
        }
    }

    /// One connection, from its beginning to the end of the copy.
    fn serve(&self, want: Want, connected: &AtomicBool, tried: Sender<()>) {
        let Want { purpose, ticket, channels } = want;
        let joins = ticket.is_some();
        let options = ClientOptions { ticket: ticket.map(Arc::new), ..self.options.clone() };
        let mut client = match connect(&options, &mut TerminalUi::default()) {
            Ok(client) => client,
            Err(error) => {
                self.job.remark(format!("no additional connection: {error}"));
                return self.failed(purpose, channels, joins);
            }
        };
        let Ok(connection) = self.job.additional_connection() else {
            self.failed(purpose, channels, joins);
            return client.close();
        };
        client.mark_packets(&options);
        connected.store(true, Ordering::Release);
        drop(tried);
        self.job.remark(if joins {
            "an additional connection has joined the session".to_owned()
        } else {
            format!("an additional connection for {channels} channels is logged in")
        });
        for n in 0..channels {
            let setup = SessionSetup::new(self.start.clone());
            let handler = Box::new(self.job.additional_handler(self.side, connection, n == 0));
            let opened = client.open_session(setup, &ChannelOptions::default(), handler);
            if opened.is_err() && purpose == Purpose::Channel {
                self.job.connection_failed(true);
            }
        }
        let _ = client.run(&mut Default);
        if !self.job.is_finished() {
            self.job.connection_lost(connection, "Connection closed");
            self.job.remark("an additional connection is lost; its work goes over the others".to_owned());
        }
        client.close();
    }

    /// Has another login made, where it needs nobody; false otherwise. The job may be locked.
    fn log_in(&self, purpose: Purpose, channels: usize) -> bool {
        self.may_log_in.load(Ordering::Acquire) && self.want(Want { purpose, ticket: None, channels })
    }

    /// Asks for a ticket.
    fn ask(&self, purpose: Purpose, cx: &mut ControlCx<'_>) -> bool {
        let ticket = Ticket::request(cx);
        let asked = ticket.is_some();
        ticket.into_iter().for_each(|ticket| self.asked.push(ticket, purpose));
        asked
    }
}

impl AdditionalConnections for Connector {
    fn instead(&self, cx: &mut ControlCx<'_>) -> bool {
        self.ask(Purpose::Channel, cx)
    }

    fn beyond(&self) -> bool {
        self.log_in(Purpose::Channel, 1)
    }

    fn another(&self, channels: usize, cx: &mut ControlCx<'_>) -> bool {
        let channels = channels.clamp(1, CHANNELS);
        self.ask(Purpose::Another, cx) || self.log_in(Purpose::Another, channels)
    }

    fn load(&self) -> Load {
        locked(&self.gauge).read()
    }
}

/// The server may open nothing on such a connection.
struct Default;

impl Control for Default {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        answer_by_default(event, cx);
    }
}
