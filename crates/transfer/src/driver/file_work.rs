//! Reading, writing and hashing without the engine's lock.
//!
//! A thread takes work from the engine under the lock, lets go of the lock, does the work, and takes the lock
//! again to give back what came of it. While it was without the lock, other threads may have changed what its
//! channels can do: it looks at all of them once more before it stops, so that no other thread has to wake
//! it.

use std::sync::MutexGuard;
use std::time::Instant;

use lh_driver::{ChannelCx, ChannelId};
use lh_wire::Output;

use crate::Side;

use super::{Job, State};

type Guard<'a> = MutexGuard<'a, State>;

impl Job {
    /// Does the work on files that there is. The thread that was given bytes writes them itself, in their
    /// order.
    pub(super) fn do_file_work<'a>(&'a self, mut state: Guard<'a>) -> Guard<'a> {
        // Other threads may add to the engine's queue, or take it, while this one is without the lock.
        while state.engine.has_file_work() {
            for work in state.engine.take_file_work() {
                let work = state.engine.begin_file_work(work);
                drop(state);
                let done = work.carry_out();
                state = self.lock();
                state.engine.file_work_done(done);
            }
        }
        state
    }

    /// Sends on the only channel what can be sent.
    pub(super) fn advance_first<'a>(
        &'a self,
        mut state: Guard<'a>,
        side: Side,
        out: &mut dyn Output,
        now: Instant,
    ) -> Guard<'a> {
        loop {
            (state, _) = self.advance_channel(state, side, 0, out, now);
            if !state.engine.has_file_work() {
                return state;
            }
            state = self.do_file_work(state);
        }
    }

    /// Sends on each channel of a connection what can be sent.
    pub(super) fn advance_all<'a>(
        &'a self,
        mut state: Guard<'a>,
        side: Side,
        connection: usize,
        cx: &mut ChannelCx<'_>,
        now: Instant,
    ) -> Guard<'a> {
        let own = state.channels.iter().filter(|open| open.connection == connection);
        let channels: Vec<(usize, ChannelId)> = own.map(|open| (open.number, open.id)).collect();
        // Channels in a row that were found to have nothing to do, with the lock held.
        let mut idle = 0;
        // What each has left to send, and whether the first one has left something to begin.
        let mut left = vec![0; channels.len()];
        let mut begins = false;
        for (at, &(number, id)) in channels.iter().enumerate().cycle() {
            if let Some(mut channel) = cx.sibling(id) {
                let let_go;
                (state, let_go) = self.advance_channel(state, side, number, &mut channel, now);
                if let_go {
                    idle = 0;
                }
            }
            left[at] = state.engine.queue_of(number);
            if number == 0 {
                begins = state.engine.may_begin_work();
            }
            // What was done on one channel may give another one something to send.
            let has_more =
                |(&left, &(number, _)): (&usize, &(usize, _))| state.engine.queue_of(number) > left;
            if left.iter().zip(&channels).any(has_more)
                || (connection == 0 && !begins && state.engine.may_begin_work())
            {
                idle = 0;
                begins = true;
            }
            if state.engine.has_file_work() {
                state = self.do_file_work(state);
                idle = 0;
                continue;
            }
            idle += 1;
            if idle >= channels.len() {
                break;
            }
        }
        state
    }

    /// Sends on one channel what can be sent. True when the lock was let go of meanwhile.
    fn advance_channel<'a>(
        &'a self,
        mut state: Guard<'a>,
        side: Side,
        number: usize,
        out: &mut dyn Output,
        now: Instant,
    ) -> (Guard<'a>, bool) {
        let mut begin = true;
        loop {
            let work = match number {
                0 => state.engine.advance_step(side, out, now, begin),
                number => state.engine.advance_channel_step(number, out, now),
            };
            let Some(work) = work else { return (state, !begin) };
            drop(state);
            let sent = work.carry_out(out);
            state = self.lock();
            state.engine.sent(sent);
            begin = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;
    use std::time::Duration;

    use bytes::Bytes;
    use lh_sftp::server::{NoLog, Server, ServerOptions};
    use lh_sftp_fs::{LocalFs, SystemFiles};
    use lh_wire::Reservation;

    use super::super::Report;
    use super::*;
    use crate::{Current, Direction, Event, Options, Plan, Summary};

    struct Silent;

    impl Report for Silent {
        fn event(&mut self, event: Event, _: Instant) {
            assert!(!matches!(event, Event::Failed { .. }), "{event:?}");
        }

        fn wants_progress(&self) -> bool {
            false
        }

        fn progress(&mut self, _: Option<Current<'_>>, _: Instant) {}

        fn ended(&mut self, _: &Summary, _: Instant) {}

        fn next_deadline(&self) -> Option<Instant> {
            None
        }
    }

    /// A channel that looks whether the lock is held while a file is read into its memory.
    struct Probe<'a> {
        job: &'a Job,
        bytes: Vec<u8>,
        /// Reservations without the lock, and with it.
        seen: [usize; 2],
    }

    impl Output for Probe<'_> {
        fn budget(&mut self) -> usize {
            1 << 20
        }

        fn send(&mut self, data: &[u8]) -> usize {
            self.bytes.send(data)
        }

        fn reserve(&mut self, want: usize) -> Option<Reservation<'_>> {
            let held = self.job.shared.state.try_lock().is_err();
            self.seen[usize::from(held)] += 1;
            Output::reserve(&mut self.bytes, want)
        }
    }

    fn job(direction: Direction, from: &Path, to: &Path) -> Job {
        let bytes_of = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let plan = Plan {
            direction,
            sources: vec![bytes_of(from)],
            target: bytes_of(to),
            target_must_be_dir: false,
        };
        Job::new(plan, Options::default(), Box::new(Silent)).expect("a job")
    }

    /// Carries out a copy; how often the lock was free, and how often held, when memory was reserved.
    fn copy(job: &Job, direction: Direction) -> [usize; 2] {
        let side = if direction == Direction::Upload { Side::Target } else { Side::Source };
        job.lock().engine.open(side);
        let (fs, files) = (Box::new(LocalFs::new("/")), Box::new(SystemFiles::new()));
        let mut server = Server::new(fs, files, Box::new(NoLog), ServerOptions::default());
        let mut probe = Probe { job, bytes: Vec::new(), seen: [0; 2] };
        while !job.is_finished() {
            job.advance(side, &mut probe, Instant::now());
            server.input(Bytes::from(std::mem::take(&mut probe.bytes)));
            let mut replies = Vec::new();
            while server.poll(&mut replies).expect("the engine speaks SFTP").more {}
            job.received(side, Bytes::from(replies), Instant::now());
        }
        probe.seen
    }

    #[test]
    fn the_lock_is_free_while_a_file_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        std::fs::write(&from, vec![7; 5 << 20]).expect("a file");
        let [free, held] = copy(&job(Direction::Upload, &from, &to), Direction::Upload);
        assert!(free > 10 && held == 0, "{free} times free, {held} times held");
        assert!(std::fs::read(to).expect("a copy") == std::fs::read(from).expect("a file"));
    }

    #[test]
    fn the_lock_is_free_while_a_file_is_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, pipe) = (dir.path().join("from"), dir.path().join("pipe"));
        let content: Vec<u8> = (0..500_000_u32).map(|n| n as u8).collect();
        std::fs::write(&from, &content).expect("a file");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
        let job = job(Direction::Download, &from, &pipe);
        let other = job.clone();
        let reader = std::thread::spawn(move || {
            let mut pipe = std::fs::File::open(pipe).expect("a pipe");
            let until = Instant::now() + Duration::from_secs(60);
            // What it takes without being read: then the writer waits, or is about to.
            while rustix::io::ioctl_fionread(&pipe).expect("its size") < 65_536 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            while other.shared.state.try_lock().is_err() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            let free = Instant::now() < until;
            let mut read = Vec::new();
            pipe.read_to_end(&mut read).expect("all of it");
            (free, read)
        });
        copy(&job, Direction::Download);
        drop(job);
        let (free, read) = reader.join().expect("the reader");
        assert!(free, "the lock was held while the pipe was full");
        assert!(read == content);
    }
}
