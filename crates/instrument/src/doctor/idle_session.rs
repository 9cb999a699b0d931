//! A session over which nothing is sent: what firewalls, NAT and load balancers with a time limit do to it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use lh_client::{SessionSetup, Start};

use super::facts::{Idle, IdleEnd};
use super::finding::Finding;
use crate::command::sh;
use crate::shell::SHORT;
use crate::stats::time;
use crate::target::Target;
use crate::task::{Data, Opens, Task};

/// Time that the session has for its answer, after which a new connection is tried.
const ANSWERS: Duration = Duration::from_secs(6);
/// Time of a new connection from which the server may be too busy to answer.
const BUSY: Duration = Duration::from_secs(3);
/// Idle time that is worth a verdict, seconds.
const LEAST: f64 = 4.0;

/// A command that waits for the end of its input.
const WAIT: &str = "echo ready; cat; echo alive";

/// A session that waits for its end.
pub(super) struct IdleSession {
    stop: Arc<AtomicBool>,
    told: Receiver<Idle>,
    begun: Instant,
}

impl IdleSession {
    pub(super) fn begin(target: &Target) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let (stops, target) = (Arc::clone(&stop), target.clone());
        std::thread::spawn(move || tell.send(run(&target, &stops)?).ok());
        Self { stop, told, begun: Instant::now() }
    }

    /// Ends the session; `None` where there was none, or too short a time.
    pub(super) fn end(self, target: &Target) -> Option<Idle> {
        let seconds = self.begun.elapsed().as_secs_f64();
        self.stop.store(true, Ordering::Relaxed);
        let idle = match self.told.recv_timeout(ANSWERS) {
            Ok(idle) => idle,
            // The thread waits on, or ended without a session.
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                let again = Instant::now();
                let mut remote = target.connect(&[]).ok().filter(|_| again.elapsed() < BUSY)?;
                remote.client.close();
                // Its answer may have come meanwhile.
                self.told.try_recv().unwrap_or(Idle { seconds, end: IdleEnd::Forgotten })
            }
        };
        (idle.seconds >= LEAST).then_some(idle)
    }
}

/// Runs the session; `None` where it did not begin.
fn run(target: &Target, stops: &Arc<AtomicBool>) -> Option<Idle> {
    let mut remote = target.connect(&[]).ok()?;
    let (begun, asked) = (Instant::now(), Rc::new(Cell::new(None)));
    let (stops, notes) = (Arc::clone(stops), Rc::clone(&asked));
    let shown = remote.run(Task {
        opens: Opens::Session(SessionSetup::new(Start::Exec(sh(WAIT)))),
        data: Data::Hold,
        input: Vec::new(),
        sample: None,
        ping: None,
        limit: SHORT,
        hold: Some(Box::new(move |_| {
            let is_asked = stops.load(Ordering::Relaxed);
            notes.set(is_asked.then(Instant::now));
            !is_asked
        })),
        comparison: None,
    });
    let (ready, _) = shown.pieces.first()?;
    let until = asked.get().unwrap_or_else(Instant::now);
    let seconds = until.saturating_duration_since(begun).as_secs_f64() - ready;
    let end = match shown.failure {
        _ if shown.text().contains("alive") && asked.get().is_some() => IdleEnd::Answered,
        Some(failure) if asked.get().is_none() => IdleEnd::Closed(failure),
        None if asked.get().is_none() => IdleEnd::Closed("the session ended".to_owned()),
        _ => IdleEnd::Forgotten,
    };
    remote.client.close();
    Some(Idle { seconds, end })
}

/// Finds connections that do not survive a time without traffic.
pub(super) fn judge(Idle { seconds, end }: &Idle) -> Option<Finding> {
    let long = time(*seconds);
    let (title, evidence) = match end {
        IdleEnd::Answered => return None,
        IdleEnd::Closed(words) => (
            format!("A connection that is idle is closed after {long}."),
            format!("nothing was sent over a session for {long}; then: {words}"),
        ),
        IdleEnd::Forgotten => (
            format!(
                "Something on the path forgets connections that are idle for {long}, or less: they hang then."
            ),
            format!(
                "after {long} without traffic a session did not answer for {}, and a new connection did",
                time(ANSWERS.as_secs_f64())
            ),
        ),
    };
    let interval = (seconds / 3.0).max(1.0).floor();
    Some(Finding {
        cause: "idle_timeout",
        title,
        evidence: vec![evidence],
        gain: "sessions that stay while nothing is typed".to_owned(),
        change: vec![
            format!(
                "ServerAliveInterval {interval:.0} under Host in ssh_config here (or ClientAliveInterval at the server): something is sent in time"
            ),
            "or have the limit raised: NAT and firewalls (nf_conntrack_tcp_timeout_established), load balancers; \
             ChannelTimeout and ClientAliveCountMax in the server's sshd_config"
                .to_owned(),
        ],
        weight: 40.0,
    })
}
