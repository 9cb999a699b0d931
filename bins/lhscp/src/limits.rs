//! What held a copy up, and what would help: from what the kernel counted for this process and its connection.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use lh_transfer::{Direction, Waits};

/// What is counted at the beginning, to be compared at the end.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    at: Instant,
    cpu: Duration,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// One word for programs.
    pub(crate) name: &'static str,
    /// What it is, for people.
    pub(crate) what: String,
    /// What would help.
    pub(crate) advice: &'static str,
}

/// What was counted of the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Path {
    /// Smallest round trip.
    pub(crate) round_trip: Option<Duration>,
}

impl Path {
    /// Of a socket, while it is open.
    pub(crate) fn of(socket: impl AsFd) -> Self {
        Self { round_trip: lh_sys::socket::round_trip(socket) }
    }
}

/// What the process has used of its processors, with the time of its system calls.
fn cpu() -> Duration {
    let clock = rustix::time::ClockId::ProcessCPUTime;
    rustix::time::clock_gettime(clock).try_into().unwrap_or_default()
}

impl Start {
    pub(crate) fn now() -> Self {
        Self { at: Instant::now(), cpu: cpu() }
    }

    /// Since then.
    pub(crate) fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }

    /// What held up the copy that has ended just now.
    pub(crate) fn verdict(&self, direction: Direction, limited: bool, waits: Waits, path: Path) -> Verdict {
        let wall = self.elapsed();
        judge(direction, limited, waits, path, wall, cpu().saturating_sub(self.cpu))
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() / whole.as_secs_f64().max(1e-9)
}

fn judge(
    direction: Direction,
    limited: bool,
    waits: Waits,
    path: Path,
    wall: Duration,
    cpu: Duration,
) -> Verdict {
    let percent = |part: Duration| format!("{:.0} %", share(part, wall).min(1.0) * 100.0);
    let round_trip = path.round_trip.map_or_else(String::new, |round_trip| {
        format!(", round trip {:.1} ms", round_trip.as_secs_f64() * 1000.0)
    });
    if wall < Duration::from_millis(500) {
        return Verdict {
            name: "nothing",
            what: "it was over before anything could hold it up".to_owned(),
            advice: "",
        };
    }
    if limited {
        return Verdict {
            name: "request",
            what: "the rate that was asked for (-l)".to_owned(),
            advice: "a higher limit",
        };
    }
    if share(waits.disk, wall) > 0.4 {
        return Verdict {
            name: "disk",
            what: format!(
                "this host's disk: {} of the time went into reading and writing files",
                percent(waits.disk)
            ),
            advice: "a faster disk or file system here; without --fsync, if it was given",
        };
    }
    if share(cpu, wall) > 0.8 {
        return Verdict {
            name: "processor",
            what: format!("this host's processor: one core was busy for {} of the time", percent(cpu)),
            advice: "a cipher that the processor has instructions for (-c aes128-gcm@openssh.com), no compression (-C)",
        };
    }
    if direction == Direction::Upload && share(waits.window, wall) > 0.5 {
        return Verdict {
            name: "network",
            what: format!(
                "the network or the server's window: for {} of the time there was no room to send{round_trip}",
                percent(waits.window)
            ),
            advice: "several connections (-j), a server that grants larger windows",
        };
    }
    if share(waits.answers, wall) > 0.5 {
        return Verdict {
            name: "server",
            what: format!(
                "the server or the way there: for {} of the time everything that may be in flight was{round_trip}",
                percent(waits.answers)
            ),
            advice: "a faster disk or processor there; more in flight (-X nrequests=)",
        };
    }
    Verdict {
        name: "server",
        what: format!("nothing here: the server, or the way there{round_trip}"),
        advice: "a look at the server's processor and disk",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_recognised_by_what_it_leaves() {
        let second = Duration::from_secs(1);
        let part = |percent: u64| Duration::from_millis(percent * 10);
        let name = |direction, limited, waits, cpu| {
            judge(direction, limited, waits, Path::default(), second, cpu).name
        };
        let none = Waits::default();
        let (up, down) = (Direction::Upload, Direction::Download);
        assert_eq!(name(up, true, none, part(95)), "request");
        assert_eq!(name(up, false, Waits { disk: part(60), ..none }, part(95)), "disk");
        assert_eq!(name(down, false, none, part(95)), "processor");
        assert_eq!(name(up, false, Waits { window: part(80), ..none }, part(30)), "network");
        assert_eq!(name(down, false, Waits { answers: part(80), ..none }, part(30)), "server");
        let short = judge(up, true, none, Path::default(), part(3), part(3));
        assert_eq!(short.name, "nothing");
    }
}
