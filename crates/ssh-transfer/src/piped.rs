//! The SFTP subsystem of a connection as a socket of this process, for programs that ask one thing after another.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use lh_client::Start;
use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler, ChannelOptions, FdPump, Interests, LocalFd, Ready};
use lh_transfer::RemoteStderr;

use crate::Connection;

impl Connection {
    /// Runs the connection while `work`, on a thread of its own, talks to the SFTP server through the socket that it is given. The
    /// socket ends when the connection does.
    ///
    /// # Errors
    /// The message: no channel, a refused subsystem, a lost connection. What `work` returned comes with it.
    pub fn run_sftp<T: Send>(
        &mut self,
        work: impl FnOnce(UnixStream) -> T + Send,
    ) -> io::Result<(Option<T>, Result<(), String>)> {
        let (ours, theirs) = UnixStream::pair()?;
        let both_ways = (ours.try_clone()?, ours);
        let pump = FdPump::new()
            .input(LocalFd::owned(both_ways.0.into())?)
            .output(LocalFd::owned(both_ways.1.into())?);
        let handler = Piped { pump, stderr: RemoteStderr::default(), closed: false };
        let setup = self.setup(Start::Subsystem("sftp".to_owned()));
        let channel = self.open_session(setup, &ChannelOptions::default(), Box::new(handler));
        let channel = match channel {
            Ok(channel) => channel,
            Err(error) => return Ok((None, Err(error.to_string()))),
        };
        let end = theirs.try_clone()?;
        let (result, done) = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let done = work(theirs);
                // Another clone is left: this tells the pump.
                let _ = end.shutdown(Shutdown::Write);
                done
            });
            let (result, control) = self.run(Some(channel), None);
            let refused = control.refused;
            let _ = end.shutdown(Shutdown::Both);
            let result = match refused {
                Some(request) => Err(format!("{request} request failed on channel 0")),
                None => result.map(|_| ()),
            };
            (result, worker.join().ok())
        });
        Ok((done, result))
    }
}

/// Stops the driver when the channel is closed and everything is handed on.
struct Piped {
    pump: FdPump,
    stderr: RemoteStderr,
    closed: bool,
}

impl Piped {
    fn stop_if_done(&self, cx: &mut ChannelCx<'_>) {
        if (self.closed && self.pump.finished()) || self.pump.output_error().is_some() {
            cx.stop(0);
        }
    }
}

impl ChannelHandler for Piped {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        if let ChannelEvent::Data { ext: Some(_), data } = event {
            self.stderr.write(&data);
            return cx.consumed(data.len());
        }
        self.closed |= matches!(event, ChannelEvent::Closed | ChannelEvent::OpenFailed { .. });
        self.pump.on_event(event, cx);
        self.stop_if_done(cx);
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_batch_end(cx);
        self.stop_if_done(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_writable(cx);
        self.stop_if_done(cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        self.pump.interests(out);
    }

    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ChannelCx<'_>) {
        self.pump.on_ready(token, ready, cx);
        self.stop_if_done(cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.pump.next_deadline()
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_timeout(cx);
    }

    fn finished(&self) -> bool {
        self.pump.finished()
    }
}
