//! Further connections of a copy (`-j`).
//!
//! A server that gives tickets (a Longhaul server) is joined by them: no login, no question, and each connection has a process
//! of its own there. To others further channels come first, and an ordinary login with what needs nobody to answer
//! (`BatchMode`) only when the server allows no more of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use lh_client::{
    LogLevel, Options as ClientOptions, SessionSetup, Start, TerminalUi, Ticket, answer_by_default, connect,
};
use lh_driver::{ChannelOptions, Control, ControlCx, ControlEvent};
use lh_transfer::{Further, Job, Side};

use crate::inside::mark_as_bulk;

/// Channels of one further connection: what OpenSSH's server allows.
const CHANNELS: usize = 10;

/// What the thread that connects is to do next.
enum Want {
    Join(Ticket),
    LogIn,
}

/// Makes the connections of one job, one after the other: a server that counts those who log in sees one at a time.
pub(crate) struct Connector {
    job: Job,
    side: Side,
    options: ClientOptions,
    /// Tickets that the server has not answered about.
    asked: Mutex<VecDeque<Ticket>>,
    wants: Mutex<Option<Sender<Want>>>,
    /// The threads of the connections, and whether each is connected.
    running: Mutex<Vec<(Arc<AtomicBool>, JoinHandle<()>)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connector {
    /// A connector for `job`, whose first connection was made with `options`.
    pub(crate) fn new(job: &Job, side: Side, options: &ClientOptions) -> Arc<Self> {
        let mut options = options.clone();
        // Nobody is asked, and the first connection has said what there was to say.
        options.config.settings.batch_mode.force(true);
        options.log_level = LogLevel::Quiet;
        let (wants, wanted) = channel();
        let connector = Arc::new(Self {
            job: job.clone(),
            side,
            options,
            asked: Mutex::default(),
            wants: Mutex::new(Some(wants)),
            running: Mutex::default(),
        });
        let of_thread = Arc::clone(&connector);
        // Nobody waits for this one: it may be connecting when everything is done.
        std::thread::spawn(move || of_thread.work(&wanted));
        connector
    }

    /// The server has answered about the oldest ticket.
    pub(crate) fn replied(&self, ok: bool) {
        let Some(ticket) = locked(&self.asked).pop_front() else { return };
        if !ok || !self.want(Want::Join(ticket)) {
            self.job.connection_failed(false);
        }
    }

    /// The copy is over: waits for connections that stand to be closed.
    pub(crate) fn end(&self) {
        *locked(&self.wants) = None;
        for (connected, thread) in std::mem::take(&mut *locked(&self.running)) {
            if connected.load(Ordering::Acquire) {
                let _ = thread.join();
            }
        }
    }

    fn want(&self, want: Want) -> bool {
        locked(&self.wants).as_ref().is_some_and(|wants| wants.send(want).is_ok())
    }

    fn work(self: Arc<Self>, wanted: &Receiver<Want>) {
        while let Ok(want) = wanted.recv() {
            let (ticket, channels) = match want {
                Want::Join(ticket) => (Some(Arc::new(ticket)), 1),
                Want::LogIn => (None, 1 + wanted.try_iter().take(CHANNELS - 1).count()),
            };
            if self.job.is_finished() || self.job.is_stopped() {
                return;
            }
            let (connected, connector) = (Arc::new(AtomicBool::new(false)), Arc::clone(&self));
            let (tried, result) = channel::<()>();
            let stands = Arc::clone(&connected);
            let thread = std::thread::spawn(move || connector.serve(ticket, channels, &stands, tried));
            // Hears of it when it stands, or of the end of the thread.
            let _ = result.recv();
            locked(&self.running).push((connected, thread));
        }
    }

    /// One connection, from its beginning to the end of the copy.
    fn serve(&self, ticket: Option<Arc<Ticket>>, channels: usize, connected: &AtomicBool, tried: Sender<()>) {
        let joins = ticket.is_some();
        let options = ClientOptions { ticket, ..self.options.clone() };
        let mut client = match connect(&options, &mut TerminalUi::default()) {
            Ok(client) => client,
            Err(error) => {
                self.job.remark(format!("no further connection: {error}"));
                (0..channels).for_each(|_| self.job.connection_failed(!joins));
                return;
            }
        };
        let Ok(connection) = self.job.further_connection() else {
            (0..channels).for_each(|_| self.job.connection_failed(!joins));
            return client.close();
        };
        mark_as_bulk(&mut client, &options);
        connected.store(true, Ordering::Release);
        drop(tried);
        self.job.remark(if joins {
            "a further connection has joined the session".to_owned()
        } else {
            format!("a further connection for {channels} channels is logged in")
        });
        for n in 0..channels {
            let setup = SessionSetup::new(Start::Subsystem("sftp".to_owned()));
            let handler = Box::new(self.job.further_handler(self.side, connection, n == 0));
            if client.open_session(setup, &ChannelOptions::default(), handler).is_err() {
                self.job.connection_failed(true);
            }
        }
        let _ = client.run(&mut Default);
        if !self.job.is_finished() {
            self.job.connection_lost(connection, "Connection closed");
        }
        client.close();
    }
}

impl Further for Connector {
    fn instead(&self, cx: &mut ControlCx<'_>) -> bool {
        let ticket = Ticket::request(cx);
        let asked = ticket.is_some();
        locked(&self.asked).extend(ticket);
        asked
    }

    fn beyond(&self) -> bool {
        self.want(Want::LogIn)
    }
}

/// The server may open nothing on such a connection.
struct Default;

impl Control for Default {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        answer_by_default(event, cx);
    }
}
