//! One remote command with its data: what it sends and receives, and samples of the connection meanwhile.

mod bulk;
mod shared;
mod watch;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_driver::ChannelOptions;

use self::bulk::Bulk;
use self::shared::{RANDOM, Shared};
use self::watch::{GRACE, Phase, Watch};
use crate::target::Remote;
pub(crate) use shared::{Data, Shown, Task, random};

impl Remote {
    /// Runs a task to its end. After a failure the connection is of no more use.
    pub(crate) fn run(&mut self, task: Task) -> Shown {
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
        let asks = self.client.driver().link().transport_ref().peer().limits().answers_stack_metrics;
        let opened = self.client.open_session(task.setup, &ChannelOptions::default(), handler);
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
            sample: task.sample.map(|every| (every, begun)),
            ping: task.ping.map(|every| (every, begun)),
            pings: VecDeque::new(),
            pings_left: None,
            asks: asks && task.sample.is_some(),
            asked: false,
            rate_limit: self.options.rate_limit,
            hold: task.hold.map(|hold| (hold, begun)),
        };
        let result = self.client.run(&mut control);
        drop(control);
        let mut shown = std::mem::take(&mut shared.borrow_mut().shown);
        if let Err(error) = result {
            shown.failure.get_or_insert_with(|| error.to_string());
        }
        shown
    }

    /// Round trips of small messages while nothing else moves, seconds.
    pub(crate) fn ping(&mut self, count: usize, every: Duration) -> Vec<f64> {
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
            ends: begun + GRACE,
            sample: None,
            ping: Some((every, begun)),
            pings: VecDeque::new(),
            pings_left: Some(count),
            asks: false,
            asked: false,
            rate_limit: None,
            hold: None,
        };
        let _ = self.client.run(&mut control);
        drop(control);
        let shown = std::mem::take(&mut shared.borrow_mut().shown);
        shown.pings.into_iter().map(|(_, took)| took).collect()
    }
}
