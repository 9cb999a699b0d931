//! What held a copy up, and what would help: from what the kernel counted for this process and its connection.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use lh_sys::tcp_info::TcpInfo;
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
    /// Part of what was sent that had to be sent again.
    pub(crate) sent_again: f64,
    /// Part of what was received that came behind a gap: something before it was lost, or overtaken.
    pub(crate) behind_gaps: f64,
}

/// From this part of the segments on loss holds a copy up, whatever the congestion control: at 50 ms even 1 in 10,000 costs a
/// long-lived Reno or CUBIC most of a fast path.
const LOSS: f64 = 0.0005;

impl Path {
    /// Of a socket, while it is open.
    pub(crate) fn of(socket: impl AsFd) -> Self {
        let round_trip = lh_sys::socket::round_trip(&socket);
        let info = TcpInfo::of(&socket);
        let part = |some: &str, all: &str| {
            let count = |name| info.as_ref().and_then(|info| info.get(name)).unwrap_or(0) as f64;
            count(some) / count(all).max(1.0)
        };
        Self {
            round_trip,
            sent_again: part("total_retrans", "data_segs_out"),
            behind_gaps: part("rcv_ooopack", "data_segs_in"),
        }
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
        return Verdict { name: "nothing", what: "nothing: it was over too soon".to_owned(), advice: "" };
    }
    if limited {
        return Verdict {
            name: "request",
            what: "the rate that was asked for (-l, --pace)".to_owned(),
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
    // Behind each loss about a round trip's worth of segments comes after a gap.
    let lost = if direction == Direction::Upload { path.sent_again } else { path.behind_gaps / 16.0 };
    if lost >= LOSS {
        let what = match direction {
            Direction::Upload => "of what was sent had to be sent again",
            _ => "of what came had been overtaken or was sent again",
        };
        let part = if direction == Direction::Upload { path.sent_again } else { path.behind_gaps };
        return Verdict {
            name: "loss",
            what: format!("loss on the way: {:.2} % {what}{round_trip}", part * 100.0),
            advice: "a congestion control on the sending host that stands loss (sysctl net.ipv4.tcp_congestion_control=bbr), --pace \
                     a little below what the path carries, several connections (-j)",
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
        let lossy = Path { sent_again: 0.01, ..Path::default() };
        assert_eq!(judge(up, false, none, lossy, second, part(30)).name, "loss");
        assert_eq!(judge(up, false, none, lossy, second, part(95)).name, "processor");
        let gaps = Path { behind_gaps: 0.1, ..Path::default() };
        assert_eq!(judge(down, false, none, gaps, second, part(30)).name, "loss");
        let few = Path { sent_again: 0.0001, behind_gaps: 0.001, ..Path::default() };
        assert_eq!(judge(up, false, none, few, second, part(30)).name, "server");
        let short = judge(up, true, none, Path::default(), part(3), part(3));
        assert_eq!(short.name, "nothing");
    }
}
