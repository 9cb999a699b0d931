//! Signals that stop a copy in good order, also where its thread hangs in a system call.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lh_sys::signals::{self, Signals};
use lh_transfer::{Job, Summary};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};

use crate::command_line::Arguments;
use crate::durable::{INTERRUPTED, left, tell_interrupted};
use crate::frame;
use crate::record::RunRecord;
use crate::retry::stop_signals;
use crate::show::say;

/// Time for the loop of a copy to take notice of a signal. One that does not hangs in a system call, perhaps
/// for a file system that does not answer.
const NOTICE: Duration = Duration::from_millis(800);

/// Time for what follows until the copy has ended: farewells to servers that keep sessions take four seconds
/// of it at most. Not for the end of the job itself, which has [`NOTICE`].
const END: Duration = Duration::from_secs(10);

/// Time to write the journal, which may be on a file system that hangs too.
const JOURNAL: Duration = Duration::from_millis(400);

/// Signals that stop a job in good order while it runs. Not longer: programs that are started for a
/// connection must hear of them.
pub(crate) struct JobSignals(Option<Caught>);

impl JobSignals {
    /// ^C, and requests to end, stop `job` from now on. `journal` is that of the job.
    pub(crate) fn begin(
        job: &Job,
        arguments: &Arguments,
        journal: Option<PathBuf>,
        record: &RunRecord,
    ) -> Self {
        let last_words =
            LastWords { can_go_on: arguments.can_log_in_again(), journal, record: record.clone() };
        Self(Self::start(job.clone(), last_words))
    }

    /// `None` without descriptors or threads: signals end the program like any other.
    fn start(job: Job, last_words: LastWords) -> Option<Caught> {
        let (ours, theirs) = UnixStream::pair().ok()?;
        let signals = Arc::new(stop_signals()?);
        let watched = Watched::Job(job);
        let watch = Watch { signals: Arc::clone(&signals), end: theirs, watched, last_words };
        match std::thread::Builder::new().name("interrupt".to_owned()).spawn(|| watch.run()) {
            Ok(thread) => Some(Caught { signals, end: ours, thread }),
            Err(_) => {
                release(signals);
                None
            }
        }
    }

    /// Gives the thread's reference to the job up, so that the caller's is the last one: the end of the job
    /// closes files, and the thread watches that too.
    pub(crate) fn release_job(&self) {
        if let Some(Caught { end, .. }) = &self.0 {
            let mut end: &UnixStream = end;
            if end.write_all(&[0]).is_ok() {
                // Fails where the thread has ended: then it has no reference either.
                let _ = end.read_exact(&mut [0]);
            }
        }
    }

    /// They end the program again; also one that came when the job had ended, so that it could not stop it.
    pub(crate) fn end(self) {
        if let Some(Caught { signals, end, thread }) = self.0 {
            drop(end);
            // It may just be ending the process.
            let late = thread.join().ok().flatten();
            release(signals);
            if let Some(signal) = late {
                let _ = kill_process(getpid(), signal);
            }
        }
    }
}

struct Caught {
    signals: Arc<Signals>,
    /// Carries [`JobSignals::release_job`] and its answer; closed when the copy is over.
    end: UnixStream,
    /// Returns the signal that it has taken, if it stopped nothing.
    thread: JoinHandle<Option<Signal>>,
}

fn release(signals: Arc<Signals>) {
    Arc::into_inner(signals).into_iter().for_each(Signals::release);
}

/// Waits for signals, on a thread of its own.
struct Watch {
    signals: Arc<Signals>,
    /// Readable when the job is to be released and, at its end, when the copy is over.
    end: UnixStream,
    watched: Watched,
    last_words: LastWords,
}

/// What a signal is to stop.
enum Watched {
    Job(Job),
    /// The copy has stopped with this summary, which the record has. The other thread closes its files.
    Released {
        summary: Summary,
        has_noticed: bool,
    },
}

/// What has happened.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Over,
    Signal(Signal),
    TimeUp,
}

impl Watch {
    fn run(mut self) -> Option<Signal> {
        let Event::Signal(signal) = self.wait(None) else { return None };
        if let Watched::Job(job) = &self.watched {
            job.interrupt();
        }
        if self.wait(Some(NOTICE)) == Event::Over {
            return (!self.watched.has_noticed()).then_some(signal);
        }
        if self.watched.has_noticed() && self.wait(Some(END)) == Event::Over {
            return None;
        }
        self.last_words.say_and_exit(self.watched);
    }

    /// Waits until the copy is over, a signal comes, or for this time. Releases the job meanwhile.
    fn wait(&mut self, time: Option<Duration>) -> Event {
        let mut until = time.map(|time| Instant::now() + time);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds = [PollFd::new(&self.end, PollFlags::IN), PollFd::new(&*self.signals, PollFlags::IN)];
            let _ = poll(&mut fds, timeout.as_ref());
            let (has_word, has_signal) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
            if has_word {
                if !matches!(self.end.read(&mut [0]), Ok(1)) {
                    return Event::Over;
                }
                self.release();
                // The farewells are said: what follows closes files.
                until = until.map(|_| Instant::now() + NOTICE);
            } else if has_signal {
                // ^C may have broken the connection as well: a client that finds that must not connect again.
                signals::note_end();
                if let Ok(Some(signal)) = self.signals.take() {
                    return Event::Signal(signal);
                }
            } else if left.is_some_and(|left| left.is_zero()) {
                return Event::TimeUp;
            }
        }
    }

    /// The other thread has a reference until it hears that this one has none.
    fn release(&mut self) {
        if let Watched::Job(job) = &self.watched {
            let (summary, has_noticed) = (job.summary(), job.has_noticed_interrupt());
            self.watched = Watched::Released { summary, has_noticed };
        }
        // An error means that the other thread has ended.
        let _ = self.end.write_all(&[0]);
    }
}

impl Watched {
    fn has_noticed(&self) -> bool {
        match self {
            Self::Job(job) => job.has_noticed_interrupt(),
            Self::Released { has_noticed, .. } => *has_noticed,
        }
    }

    /// Returns the numbers of the copy, which is stopped; `None` where they cannot be had. True where the
    /// record has them already.
    fn stop(self) -> (Option<Summary>, bool) {
        match self {
            Self::Job(job) => {
                let is_recorded = job.has_noticed_interrupt();
                (job.stop_without_loops(), is_recorded)
            }
            Self::Released { summary, .. } => (Some(summary), true),
        }
    }
}

/// What is said and written when the thread of the copy hangs.
struct LastWords {
    can_go_on: bool,
    journal: Option<PathBuf>,
    record: RunRecord,
}

impl LastWords {
    /// Ends the process, with the messages of every interrupted copy. Nothing waits for the thread that
    /// hangs.
    fn say_and_exit(self, watched: Watched) -> ! {
        let Self { can_go_on, journal, mut record } = self;
        let (sender, receiver) = mpsc::channel::<((Option<Summary>, bool), Option<String>)>();
        let write = move || {
            let stopped = watched.stop();
            let _ = sender.send((stopped, left(journal.as_deref())));
        };
        let _ = std::thread::Builder::new().spawn(write);
        let ((summary, is_recorded), left) = receiver.recv_timeout(JOURNAL).unwrap_or_default();
        tell_interrupted(can_go_on, summary.as_ref());
        left.iter().for_each(|text| say(text));
        if let (Some(summary), false) = (summary, is_recorded) {
            record.attempt(summary);
        }
        frame::end_now(INTERRUPTED)
    }
}
