//! Questions to an SFTP server over a socket that waits: requests are collected, and answers come in any
//! order.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use bytes::BytesMut;
use lh_sftp::{Incoming, Reply, ReplyBody, Request, Session};
use lh_ssh_transfer::Connection;

use crate::fault::Fault;

/// Read in one go.
const CHUNK: usize = 64 * 1024;

/// Runs `work` with an SFTP session on the connection, then takes leave of the server.
///
/// # Errors
/// Those of `work`, or why the connection ended, which says more than that it did.
pub(crate) fn over_connection<T: Send>(
    mut connection: Connection,
    work: impl FnOnce(UnixStream) -> Result<T, Fault> + Send,
) -> Result<T, Fault> {
    let done = connection.run_sftp(work);
    connection.close();
    match done.map_err(Fault::system("SFTP"))? {
        (Some(Ok(done)), _) => Ok(done),
        (_, Err(error)) => Err(Fault::Refused(error.to_string())),
        (Some(Err(fault)), Ok(())) => Err(fault),
        (None, Ok(())) => Err(Fault::Closed),
    }
}

/// The client's side of one SFTP session.
pub(crate) struct Sftp {
    stream: UnixStream,
    session: Session,
    queue: Vec<u8>,
}

impl Sftp {
    /// Greets the server.
    ///
    /// # Errors
    /// It does not speak SFTP, or the connection is gone.
    pub(crate) fn start(stream: UnixStream) -> Result<Self, Fault> {
        let mut sftp = Self { stream, session: Session::new(), queue: Vec::new() };
        sftp.session.start(&mut sftp.queue);
        sftp.incoming()?;
        if sftp.session.request_limits(&mut sftp.queue) {
            sftp.incoming()?;
        }
        Ok(sftp)
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    /// Queues a request; returns its id.
    pub(crate) fn send(&mut self, request: &Request<'_>) -> u32 {
        self.session.request(request, &mut self.queue)
    }

    /// Sends what is queued and waits for the next answer.
    ///
    /// # Errors
    /// The connection is gone, or the server broke the protocol.
    pub(crate) fn answer(&mut self) -> Result<Reply, Fault> {
        loop {
            if let Incoming::Reply(reply) = self.incoming()? {
                return Ok(reply);
            }
        }
    }

    /// Asks one question; no other may be open.
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> Result<ReplyBody, Fault> {
        let id = self.send(request);
        let reply = self.answer()?;
        if reply.id == id { Ok(reply.body) } else { Err(Fault::BrokenRules) }
    }

    fn incoming(&mut self) -> Result<Incoming, Fault> {
        self.stream.write_all(&self.queue).map_err(|_| Fault::Closed)?;
        self.queue.clear();
        loop {
            if let Some(incoming) = self.session.poll().map_err(|error| Fault::Refused(error.to_string()))? {
                return Ok(incoming);
            }
            let mut space = BytesMut::zeroed(CHUNK);
            match self.stream.read(&mut space) {
                Ok(0) => return Err(Fault::Closed),
                Ok(read) => self.session.input(space.split_to(read).freeze()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::System { what: "SFTP", error }),
            }
        }
    }
}
