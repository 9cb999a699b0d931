//! The SFTP subsystem of a connection as a socket of this process, for programs that ask one thing after another.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use lh_client::{ClientError, Start};
use lh_driver::{ChannelOptions, FdPump, LocalFd};

use crate::connection::Connection;
use crate::pump_until_closed::PumpUntilClosed;

/// Why the SFTP subsystem ended before its user was done.
#[derive(Debug, thiserror::Error)]
pub enum SubsystemError {
    /// No channel, or a lost connection.
    #[error(transparent)]
    Connection(#[from] ClientError),
    /// The server refused this request.
    #[error("{0} request failed on channel 0")]
    Refused(&'static str),
}

impl Connection {
    /// Runs the connection while `work`, on a thread of its own, talks to the SFTP server through the socket that it is given. The
    /// socket ends when the connection does.
    ///
    /// # Errors
    /// A socket of this process cannot be made. Inside: no channel, a refused subsystem, a lost connection. What `work` returned comes with it.
    pub fn run_sftp<T: Send>(
        &mut self,
        work: impl FnOnce(UnixStream) -> T + Send,
    ) -> io::Result<(Option<T>, Result<(), SubsystemError>)> {
        let (ours, theirs) = UnixStream::pair()?;
        let both_ways = (ours.try_clone()?, ours);
        let pump = FdPump::new()
            .input(LocalFd::owned(both_ways.0.into())?)
            .output(LocalFd::owned(both_ways.1.into())?);
        let handler = PumpUntilClosed::new(pump);
        let setup = self.setup(Start::Subsystem("sftp".to_owned()));
        let channel = self.open_session(setup, &ChannelOptions::default(), Box::new(handler));
        let channel = match channel {
            Ok(channel) => channel,
            Err(error) => return Ok((None, Err(error.into()))),
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
                Some(request) => Err(SubsystemError::Refused(request)),
                None => result.map(|_| ()).map_err(SubsystemError::from),
            };
            (result, worker.join().ok())
        });
        Ok((done, result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_openssh_s_words() {
        assert_eq!(SubsystemError::Refused("subsystem").to_string(), "subsystem request failed on channel 0");
        let lost = ClientError::Lost("Connection to h closed by remote host.".to_owned());
        assert_eq!(SubsystemError::from(lost).to_string(), "Connection to h closed by remote host.");
    }
}
