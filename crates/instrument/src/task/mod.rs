//! One remote command with its data: what it sends and receives, and samples of the connection meanwhile.

mod bulk;
mod comparison;
mod pings;
mod samples;
mod shared;
mod timer;
mod watch;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_client::{Client, ClientError, Pty, SessionSetup, Start};
use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler, ChannelId, ChannelOptions};
use lh_wire::Writer as _;

use self::bulk::Bulk;
use self::pings::Pings;
use self::samples::Samples;
use self::shared::{RANDOM, Shared};
pub(crate) use self::watch::LATE;
use self::watch::{FIRST_ANSWER, Phase, Watch};
use crate::command::sh;
use crate::target::Remote;
pub(crate) use comparison::Comparison;
pub(crate) use shared::{Data, Opens, Shown, Task, random};

/// Small messages on an idle connection, and the time between them.
pub(crate) const PING_COUNT: usize = 10;
pub(crate) const PING_EVERY: Duration = Duration::from_millis(20);
/// Time for the server's messages on an idle connection to a server that answers no small messages.
const ATTENTION: Duration = Duration::from_millis(50);

impl Remote {
    /// Runs a task to its end. After a failure the connection is of no more use.
    pub(crate) fn run(&mut self, task: Task) -> Shown {
        self.renew(true);
        let begun = Instant::now();
        let shared = Rc::new(RefCell::new(Shared {
            shown: Shown::default(),
            begun,
            sending: false,
            sends: matches!(task.data, Data::Send(..)),
            ready: None,
            input: task.input,
            left: match task.data {
                Data::Send(_, most) => most,
                _ => 0,
            },
            keep: !matches!(task.data, Data::Receive(_)),
            ends_input: task.data == Data::Keep,
            block: RANDOM.with(Rc::clone),
        }));
        let handler = Box::new(Bulk { shared: Rc::clone(&shared), at: 0 });
        let asks = self.client.driver().link().peer().limits().answers_stack_metrics;
        let ends_with_data = match task.opens {
            Opens::Forward(_) => true,
            // With several connections and large windows, data in flight take seconds to arrive.
            Opens::Session(_) => task.comparison.is_some() && matches!(task.data, Data::Receive(_)),
            Opens::AmongTerminals(_) => false,
        };
        let opened = open(&mut self.client, task.opens, handler);
        let channel = match opened {
            Ok(channel) => Some(channel),
            Err(error) => return Shown { failure: Some(error.to_string()), ..Shown::default() },
        };
        let mut control = Watch {
            shared: Rc::clone(&shared),
            channel,
            begun,
            data: task.data,
            phase: Phase::Data,
            ends: begun + task.limit,
            samples: Samples::new(task.sample, begun, asks, self.options.rate_limit),
            pings: Pings::beside_data(task.ping, begun, self.answers.pending),
            hold: task.hold.map(|hold| (hold, begun)),
            comparison: task.comparison,
            ends_with_data,
        };
        let result = self.client.run(&mut control);
        let (stale, waiting) = control.pings.unanswered();
        drop(control);
        let mut shown = std::mem::take(&mut shared.borrow_mut().shown);
        self.note_answers(stale, waiting, &shown);
        if let Err(error) = result {
            shown.failure.get_or_insert_with(|| error.to_string());
        }
        shown
    }

    /// Round trips of small messages while nothing else moves, seconds. None, and without waiting, for a
    /// server that has left such messages unanswered.
    pub(crate) fn ping(&mut self, count: usize, every: Duration) -> Vec<f64> {
        if self.answers.is_mute() {
            return Vec::new();
        }
        self.renew(false);
        let (shown, result) = self.idle(Some(every), count, FIRST_ANSWER);
        if shown.pings.is_empty() && result.is_ok() {
            self.answers.note_wait();
        }
        shown.pings.into_iter().map(|(_, took)| took).collect()
    }

    /// Does for an idle connection what it needs: it answers the server's messages, and sends one of its own
    /// unless the server answers none.
    pub(crate) fn attend(&mut self) {
        if self.answers.is_mute() {
            drop(self.idle(None, 1, ATTENTION));
        } else {
            drop(self.ping(1, PING_EVERY));
        }
    }

    fn note_answers(&mut self, stale: usize, waiting: usize, shown: &Shown) {
        let has_answered = !shown.pings.is_empty() || stale < self.answers.pending;
        self.answers.note(stale + waiting, has_answered);
    }

    /// Runs the connection without a channel until `count` small messages are answered; for `limit` where
    /// none is.
    fn idle(
        &mut self,
        every: Option<Duration>,
        count: usize,
        limit: Duration,
    ) -> (Shown, Result<i32, ClientError>) {
        let begun = Instant::now();
        let shared = Rc::new(RefCell::new(Shared {
            shown: Shown::default(),
            begun,
            sending: false,
            sends: false,
            ready: None,
            input: Vec::new(),
            left: 0,
            keep: false,
            ends_input: false,
            block: RANDOM.with(Rc::clone),
        }));
        let mut control = Watch {
            shared: Rc::clone(&shared),
            channel: None,
            begun,
            data: Data::Keep,
            phase: Phase::Data,
            ends: begun + limit,
            samples: Samples::default(),
            pings: Pings::alone(every, begun, self.answers.pending, count),
            hold: None,
            comparison: None,
            ends_with_data: false,
        };
        let result = self.client.run(&mut control);
        let (stale, waiting) = control.pings.unanswered();
        drop(control);
        let shown = std::mem::take(&mut shared.borrow_mut().shown);
        self.note_answers(stale, waiting, &shown);
        (shown, result)
    }
}

/// Opens the channel of a task.
fn open(client: &mut Client, opens: Opens, handler: Box<Bulk>) -> Result<ChannelId, ClientError> {
    let options = ChannelOptions::default();
    match opens {
        Opens::Session(setup) => client.open_session(setup, &options, handler),
        Opens::AmongTerminals(setup) => {
            open_terminal(client)?;
            let opened = client.open_session(setup, &options, handler)?;
            open_terminal(client)?;
            Ok(opened)
        }
        Opens::Forward(address) => {
            // Target and origin (RFC 4254 section 7.2).
            let mut fields = Vec::new();
            for (host, port) in [(address.ip().to_string(), address.port()), ("127.0.0.1".to_owned(), 0)] {
                fields.put_string(host.as_bytes());
                fields.put_u32(port.into());
            }
            let opened = client.driver().control().open("direct-tcpip", &fields, &options, handler);
            opened.map_err(|error| ClientError::Local(error.to_string()))
        }
    }
}

/// Opens a session with a terminal that lasts as long as the connection.
fn open_terminal(client: &mut Client) -> Result<ChannelId, ClientError> {
    let mut setup = SessionSetup::new(Start::Exec(sh("exec cat >/dev/null")));
    setup.pty = Some(Pty { term: "dumb".to_owned(), columns: 80, rows: 24, ..Pty::default() });
    client.open_session(setup, &ChannelOptions::default(), Box::new(Idle))
}

/// The handler of a session that moves no data.
struct Idle;

impl ChannelHandler for Idle {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        if let ChannelEvent::Data { data, .. } = event {
            cx.consumed(data.len());
        }
    }
}
