//! Signals that stop a copy in good order, also where its thread hangs in a system call.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

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
/// of it at most.
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
        let watch = Watch { signals: Arc::clone(&signals), end: theirs, job, last_words };
        match std::thread::Builder::new().name("interrupt".to_owned()).spawn(|| watch.run()) {
            Ok(thread) => Some(Caught { signals, end: ours, thread }),
            Err(_) => {
                release(signals);
                None
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
    /// Closed when the copy is over.
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
    /// Readable, at its end, when the copy is over.
    end: UnixStream,
    job: Job,
    last_words: LastWords,
}

impl Watch {
    fn run(self) -> Option<Signal> {
        let signal = loop {
            let (is_over, has_come) = self.wait();
            if is_over {
                return None;
            }
            if !has_come {
                continue;
            }
            // ^C may have broken the connection as well: a client that finds that must not connect again.
            signals::note_end();
            if let Ok(Some(signal)) = self.signals.take() {
                break signal;
            }
        };
        self.job.interrupt();
        if self.is_over(NOTICE) {
            return (!self.job.has_noticed_interrupt()).then_some(signal);
        }
        let has_noticed = self.job.has_noticed_interrupt();
        if has_noticed && self.is_over(END) {
            return None;
        }
        self.last_words.say_and_exit(self.job, has_noticed);
    }

    /// Waits until the copy is over, or a signal comes. Returns which of both has happened; perhaps neither.
    fn wait(&self) -> (bool, bool) {
        let mut fds = [PollFd::new(&self.end, PollFlags::IN), PollFd::new(&*self.signals, PollFlags::IN)];
        let _ = poll(&mut fds, None);
        (!fds[0].revents().is_empty(), !fds[1].revents().is_empty())
    }

    /// Waits until the copy is over: true; or for this time.
    fn is_over(&self, time: Duration) -> bool {
        let mut fds = [PollFd::new(&self.end, PollFlags::IN)];
        let _ = poll(&mut fds, Timespec::try_from(time).ok().as_ref());
        !fds[0].revents().is_empty()
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
    /// hangs. `is_recorded` is true where the record has the numbers of the copy already.
    fn say_and_exit(self, job: Job, is_recorded: bool) -> ! {
        let Self { can_go_on, journal, mut record } = self;
        let (sender, receiver) = mpsc::channel::<(Option<Summary>, Option<String>)>();
        let write = move || {
            let summary = job.stop_without_loops();
            let _ = sender.send((summary, left(journal.as_deref())));
        };
        let _ = std::thread::Builder::new().spawn(write);
        let (summary, left) = receiver.recv_timeout(JOURNAL).unwrap_or_default();
        tell_interrupted(can_go_on, summary.as_ref());
        left.iter().for_each(|text| say(text));
        if let (Some(summary), false) = (summary, is_recorded) {
            record.attempt(summary);
        }
        frame::end_now(INTERRUPTED)
    }
}
