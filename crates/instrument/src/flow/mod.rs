//! A bulk flow in one direction, and what the ends counted meanwhile.

mod constant_window;
mod devices;
mod direction;
mod groups;
mod pauses;
mod received_marks;
mod result;
mod scheduling;
mod scripts;
mod sender;
mod shapers;
mod stolen;
mod stopped;
mod summary;
mod taken;
mod turns;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lh_client::{SessionSetup, Start};

use self::devices::Devices;
use self::groups::groups_here;
use self::received_marks::ReceivedMarks;
use self::shapers::Shapers;
use self::stolen::{allowed_here, idle, processors_here, stolen};
use self::summary::summarise;
use self::turns::{own_thread_times, turns};
use crate::command::sh;
use crate::memory;
use crate::quota;
use crate::shell::SHORT;
use crate::target::Remote;
use crate::task::{Comparison, Data, Opens, Task};
pub(crate) use devices::DeviceRate;
pub(crate) use direction::Direction;
pub(crate) use pauses::Pauses;
pub(crate) use result::{EndUsage, Flow, MANY_REKEYS, USED_UP, WARM_UP};
#[cfg(test)]
pub(crate) use result::{Rekeys, SshWindows, Tcp};
pub(crate) use scheduling::Scheduling;
pub(crate) use sender::{Sender, window_after_slow_start};
pub(crate) use shapers::Shaper;
#[cfg(test)]
pub(crate) use stopped::Stopped;
pub(crate) use stopped::Tracer;
pub(crate) use turns::{TurnWaits, Turns};

/// Time between samples of a flow.
const SAMPLE: Duration = Duration::from_millis(50);
/// Time between pings beside a flow.
const PING: Duration = Duration::from_millis(200);

/// The comparison that a flow is part of, and its number there.
pub(crate) type Part = Option<(Arc<Comparison>, usize)>;

impl Remote {
    /// Runs a flow for this time.
    pub(crate) fn flow(&mut self, direction: Direction, time: Duration) -> Flow {
        self.flow_of(Opens::Session, direction, time, None)
    }

    /// Runs a flow that may end before this time where it is only compared with another.
    pub(crate) fn compared_flow(&mut self, direction: Direction, time: Duration, part: Part) -> Flow {
        self.flow_of(Opens::Session, direction, time, part)
    }

    /// Like [`compared_flow`](Self::compared_flow), between two sessions with a terminal.
    pub(crate) fn flow_among_terminals(&mut self, direction: Direction, time: Duration, part: Part) -> Flow {
        self.flow_of(Opens::AmongTerminals, direction, time, part)
    }

    fn flow_of(
        &mut self,
        opens: fn(SessionSetup) -> Opens,
        direction: Direction,
        time: Duration,
        comparison: Part,
    ) -> Flow {
        let (script, data) = match direction {
            Direction::Up => (scripts::take(), Data::Send(time, u64::MAX)),
            Direction::Down => (scripts::give(), Data::Receive(time)),
        };
        let shapers = (direction == Direction::Up).then(Shapers::here);
        let ((quotas, memory), busy) = (groups_here(), processors_here());
        let (marks, devices) = (ReceivedMarks::here(), Devices::here());
        let (begun, before) = (Instant::now(), own_thread_times());
        let shown = self.run(Task {
            opens: opens(SessionSetup::new(Start::Exec(sh(&script)))),
            data,
            input: Vec::new(),
            sample: Some(SAMPLE),
            // A master does not pass such messages on.
            ping: (!self.client.is_relayed()).then_some(PING),
            limit: SHORT,
            hold: None,
            comparison,
        });
        let mut flow = summarise(direction, &shown);
        flow.client.devices = Devices::here().since(&devices, begun.elapsed().as_secs_f64());
        if let Some(before) = shapers {
            flow.packets.shapers = Shapers::here().since(&before);
        }
        flow.client.turns = turns(&before, &own_thread_times(), begun.elapsed().as_secs_f64());
        let (quotas_after, memory_after) = groups_here();
        flow.client.quota = quota::between(&quotas, &quotas_after);
        flow.client.memory = memory::between(&memory, &memory_after);
        let busy = busy.zip(processors_here());
        flow.client.stolen = busy.and_then(|(before, after)| stolen(before, after));
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        flow.client.scheduling = Scheduling::of(&stat, &allowed_here(), "");
        flow.client.idle = busy
            .filter(|_| flow.client.scheduling.may_use_all())
            .and_then(|(before, after)| idle(before, after));
        if direction == Direction::Down {
            flow.packets.marked =
                marks.zip(ReceivedMarks::here()).and_then(|(before, after)| after.part_since(before));
        }
        flow
    }

    /// A download through a forward to `address`, where a helper sends when it has this line. There is no
    /// session.
    pub(crate) fn forwarded_download(
        &mut self,
        address: SocketAddr,
        line: String,
        time: Duration,
        comparison: Part,
    ) -> Flow {
        let shown = self.run(Task {
            opens: Opens::Forward(address),
            data: Data::Receive(time),
            input: line.into_bytes(),
            sample: Some(SAMPLE),
            ping: Some(PING),
            limit: SHORT,
            hold: None,
            comparison,
        });
        summarise(Direction::Down, &shown)
    }
}
