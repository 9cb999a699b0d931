//! Waits for the listener's work: one poll(2) of all its descriptors.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;

use super::options::{ListenError, system};
use super::{Listener, WaitEvents};

impl Listener {
    /// Looks what there is to do, for this long or until there is something.
    pub(super) fn look(&self, timeout: Option<Duration>) -> Result<WaitEvents, ListenError> {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)));
        let starting: Vec<_> = self.startups.iter().map(|startup| (startup.pid, &startup.control)).collect();
        let interests = self.startups.iter().map(|startup| startup.interest(&self.launch.bytes));
        fds.extend(starting.iter().zip(interests).map(|((_, control), what)| PollFd::new(*control, what)));
        let reporting: Vec<_> = self
            .sessions
            .running
            .iter()
            .filter_map(|(pid, running)| Some((*pid, running.reports.as_ref()?.control())))
            .collect();
        fds.extend(reporting.iter().map(|(_, control)| PollFd::new(*control, PollFlags::IN)));
        let adopted: Vec<_> = self.sessions.adopted.sockets().collect();
        fds.extend(adopted.iter().map(|(_, socket)| PollFd::from_borrowed_fd(*socket, PollFlags::IN)));
        if let Some(exporter) = &self.exporter {
            exporter.interests(&mut fds);
        }
        self.balancers.interests(&mut fds);
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(system("poll")(error.into())),
        }
        let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let writable = |fd: &PollFd<'_>| fd.revents().contains(PollFlags::OUT);
        let sockets = self.sockets.len();
        // Room to write alone is no word.
        let ready = |fd: &PollFd<'_>| ready(fd) && fd.revents() != PollFlags::OUT;
        let indices = |from: usize, count: usize| {
            (0..count).filter(|index| fds.get(from + index).is_some_and(ready)).collect::<Vec<_>>()
        };
        let hand_over_ready = (0..starting.len())
            .filter(|index| fds.get(1 + sockets + index).is_some_and(writable))
            .filter_map(|index| starting.get(index).map(|(pid, _)| *pid))
            .collect();
        let of = |all: &[(Pid, &OwnedFd)], which: Vec<usize>| {
            which.into_iter().filter_map(|at| all.get(at).map(|(pid, _)| *pid)).collect::<Vec<_>>()
        };
        let first_adopted = 1 + sockets + starting.len() + reporting.len();
        let of_adopted = indices(first_adopted, adopted.len()).into_iter();
        Ok(WaitEvents {
            adopted: of_adopted.filter_map(|at| adopted.get(at).map(|(id, _)| *id)).collect(),
            accepting: indices(1, sockets),
            hand_over_ready,
            startups_ready: of(&starting, indices(1 + sockets, starting.len())),
            reporting: of(&reporting, indices(1 + sockets + starting.len(), reporting.len())),
        })
    }
}
