//! Additional connections of a copy: as many as `-j` requests, or as many as make the copy faster.
//!
//! A Longhaul server gives tickets: a connection with a ticket joins the session without a login or a prompt,
//! and gets its own process on the server. For other servers, additional channels are tried first. An
//! ordinary login follows only if the server allows no more channels, or one connection limits the copy. It
//! is made only if the first login needed no interaction: a failed login is a warning in the server's log,
//! and a security key must not blink without a reason.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use lh_client::{
    LogLevel, Options as ClientOptions, SessionSetup, Start, TICKET_REQUEST, Ticket, answer_by_default,
    connect,
};
use lh_config::special::Resume;
use lh_config::value::Seconds;
use lh_driver::{ChannelCx, ChannelOptions, Control, ControlCx, ControlEvent};
use lh_terminal::TerminalUi;
use lh_transfer::{AdditionalConnections, Job, Load, Side};

use crate::load::LoadMeter;

/// Channels of one additional connection: the limit of OpenSSH's server.
const CHANNELS: usize = 10;

/// Seconds of silence after which the server is asked whether it lives, where `ServerAliveInterval` is not
/// set. Losing an additional connection costs little, so this is shorter than for one that ends the copy.
const ALIVE_INTERVAL: u64 = 10;

/// Purpose of an additional connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Replaces a channel that the job waits for.
    Channel,
    /// An extra connection, with channels that the job does not wait for.
    Another,
}

/// The next task of the connecting thread.
struct ConnectTask {
    purpose: Purpose,
    /// Ticket to join the session with; `None`: log in.
    ticket: Option<Ticket>,
    channels: usize,
}

/// State of the connecting thread, which starts when it is first needed.
enum Worker {
    None,
    Running(Sender<ConnectTask>),
    Over,
}

/// Requested tickets that the server has not answered, in order. `None` replaces tickets whose copy is over.
/// The list belongs to the connection, because answers may arrive after the copy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<VecDeque<Option<TicketUse>>>>);

/// A ticket, and the purpose of the connection that it joins.
type TicketUse = (Ticket, Purpose);

impl Asked {
    fn push(&self, ticket: Ticket, purpose: Purpose) {
        locked(&self.0).push_back(Some((ticket, purpose)));
    }

    /// Returns the ticket to which the next answer of the server belongs.
    pub(crate) fn oldest(&self) -> Option<TicketUse> {
        locked(&self.0).pop_front().flatten()
    }

    /// Cancels the ticket requests of a copy that is over; their answers will be ignored.
    fn forget(&self) {
        locked(&self.0).iter_mut().for_each(|asked| *asked = None);
    }
}

/// Makes the additional connections of one job, one after the other: some servers limit the number of
/// simultaneous logins.
pub struct Connector {
    job: Job,
    side: Side,
    options: ClientOptions,
    /// Program or subsystem of their channels.
    start: Start,
    asked: Asked,
    /// Another login needs no interaction; false before the first login.
    may_log_in: AtomicBool,
    worker: Mutex<Worker>,
    me: Weak<Self>,
    meter: Mutex<LoadMeter>,
    /// Threads of the connections, each with a flag that is true once it is connected.
    running: Mutex<Vec<(Arc<AtomicBool>, JoinHandle<()>)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connector {
    /// Creates a connector for `job`, whose first connection was made with `options`.
    pub(crate) fn new(
        job: &Job,
        side: Side,
        options: &ClientOptions,
        start: Start,
        load: LoadMeter,
        asked: Asked,
    ) -> Arc<Self> {
        let mut options = options.clone();
        // The user is not prompted, and the first connection has already shown all messages.
        options.config.settings.batch_mode.force(true);
        options.log_level = LogLevel::Quiet;
        // When one breaks, the others take over its work; the copy's end must not wait for it.
        options.config.settings.resume.force(Resume::No);
        // A silent one would stop the copy for ever: it has no silence of its own to watch without `Resume`.
        if options.config.server_alive_interval.duration().is_none() {
            options.config.settings.server_alive_interval.force(Seconds(ALIVE_INTERVAL));
        }
        Arc::new_cyclic(|me| Self {
            job: job.clone(),
            side,
            options,
            start,
            asked,
            may_log_in: AtomicBool::new(false),
            worker: Mutex::new(Worker::None),
            me: me.clone(),
            meter: Mutex::new(load),
            running: Mutex::default(),
        })
    }

    /// Records that the first connection is logged in. `again`: another login needs no interaction.
    pub(crate) fn logged_in(&self, again: bool) {
        self.may_log_in.store(again, Ordering::Release);
    }

    /// Handles the server's answer to a ticket request.
    pub(crate) fn replied(&self, ticket: Ticket, purpose: Purpose, ok: bool) {
        if !ok || !self.want(ConnectTask { purpose, ticket: Some(ticket), channels: 1 }) {
            self.failed(purpose, 1, true);
        }
    }

    /// Ends the copy's additional connections: waits until the established ones are closed.
    pub fn end(&self) {
        self.asked.forget();
        *locked(&self.worker) = Worker::Over;
        for (connected, thread) in std::mem::take(&mut *locked(&self.running)) {
            if connected.load(Ordering::Acquire) {
                let _ = thread.join();
            }
        }
    }

    fn want(&self, want: ConnectTask) -> bool {
        let mut worker = locked(&self.worker);
        if let (Worker::None, Some(me)) = (&*worker, self.me.upgrade()) {
            let (wants, wanted) = channel();
            // No thread waits for this one: it may still be connecting when the copy is over.
            std::thread::spawn(move || me.work(&wanted));
            *worker = Worker::Running(wants);
        }
        matches!(&*worker, Worker::Running(wants) if wants.send(want).is_ok())
    }

    fn work(self: Arc<Self>, wanted: &Receiver<ConnectTask>) {
        let mut waiting: VecDeque<ConnectTask> = VecDeque::new();
        while let Some(mut want) = waiting.pop_front().or_else(|| wanted.recv().ok()) {
            waiting.extend(wanted.try_iter());
            let plain = |want: &ConnectTask| want.ticket.is_none() && want.purpose == Purpose::Channel;
            if plain(&want) {
                // One login serves all channels that the job waits for, up to the limit.
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
            // Waits until the connection is established, or its thread ends.
            let _ = result.recv();
            locked(&self.running).push((connected, thread));
        }
    }

    /// Reports that no connection was made.
    fn failed(&self, purpose: Purpose, channels: usize, joins: bool) {
        match purpose {
            Purpose::Channel => (0..channels).for_each(|_| self.job.connection_failed(!joins)),
            Purpose::Another => self.job.another_failed(),
        }
    }

    /// Serves one connection, from its start to the end of the copy.
    fn serve(&self, want: ConnectTask, connected: &AtomicBool, tried: Sender<()>) {
        let ConnectTask { purpose, ticket, channels } = want;
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

    /// Requests another login if it needs no interaction; otherwise returns false. The job may be locked.
    fn log_in(&self, purpose: Purpose, channels: usize) -> bool {
        self.may_log_in.load(Ordering::Acquire) && self.want(ConnectTask { purpose, ticket: None, channels })
    }

    /// Requests a ticket from the server.
    fn ask(&self, purpose: Purpose, cx: &mut ChannelCx<'_>) -> bool {
        let Some(ticket) = Ticket::generate(cx.peer_extension(TICKET_REQUEST), cx.session_id()) else {
            return false;
        };
        cx.global_request(TICKET_REQUEST, true, &ticket.request());
        self.asked.push(ticket, purpose);
        true
    }
}

impl AdditionalConnections for Connector {
    fn instead(&self, cx: &mut ChannelCx<'_>) -> bool {
        self.ask(Purpose::Channel, cx)
    }

    fn beyond(&self) -> bool {
        self.log_in(Purpose::Channel, 1)
    }

    fn another(&self, channels: usize, cx: &mut ChannelCx<'_>) -> bool {
        let channels = channels.clamp(1, CHANNELS);
        self.ask(Purpose::Another, cx) || self.log_in(Purpose::Another, channels)
    }

    fn load(&self) -> Load {
        locked(&self.meter).read()
    }
}

/// Control of an additional connection: the server may not open any channel on it.
struct Default;

impl Control for Default {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        answer_by_default(event, cx);
    }
}
