//! The SFTP subsystem of a connection as a socket of this process, for programs that send one request after
//! another.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use lh_client::{ClientError, Start};
use lh_driver::{FdPump, LocalFd};
use lh_terminal::TerminalUi;

use crate::connection::Connection;
use crate::pump_until_closed::PumpUntilClosed;

/// Reason why the SFTP subsystem ended before its user did.
#[derive(Debug, thiserror::Error)]
pub enum SubsystemError {
    /// No channel could be opened, or the connection was lost.
    #[error(transparent)]
    Connection(#[from] ClientError),
    /// The server refused this request.
    #[error("{0} request failed on channel 0")]
    Refused(&'static str),
}

impl Connection {
    /// Runs the connection while `work`, on another thread, uses the SFTP server through the socket that it
    /// gets. The socket is closed when the connection ends.
    ///
    /// # Errors
    /// A socket pair cannot be created. The inner result has the other errors (no channel, refused subsystem,
    /// lost connection), together with the value that `work` returned.
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
        let start = Start::Subsystem("sftp".to_owned());
        let channel = match self.start_session(start, Box::new(handler), &mut TerminalUi::default()) {
            Ok(channel) => channel,
            Err(error) => return Ok((None, Err(error.into()))),
        };
        let end = theirs.try_clone()?;
        let (result, done) = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let done = work(theirs);
                // The pump has another clone of the socket, so dropping this one is not enough to end it.
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
    use lh_client::LogLevel;

    use super::*;

    #[test]
    fn errors_have_openssh_s_words() {
        assert_eq!(SubsystemError::Refused("subsystem").to_string(), "subsystem request failed on channel 0");
        let lost = ClientError::lost(LogLevel::Quiet, "Connection to h closed by remote host.");
        assert_eq!(SubsystemError::from(lost).to_string(), "Connection to h closed by remote host.");
    }
}
