//! Requests to the server's SFTP, many at a time: the files of a run at servers that run no commands.

mod deadlines;
mod remove;
mod requests;
pub(crate) mod session;
mod steps;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use lh_driver::ChannelId;

use self::requests::Requests;
pub(crate) use self::steps::{OnStop, Outcome, Step};
use crate::fault::Fault;
use crate::target::Remote;

/// Why steps are not done that the user does not wait for.
const INTERRUPTED: &str = "interrupted";

/// An SFTP session on a connection.
pub(crate) struct Sftp<'a> {
    remote: &'a mut Remote,
    channel: ChannelId,
    requests: Rc<RefCell<Requests>>,
    stop: &'a dyn Fn() -> bool,
}

impl<'a> Sftp<'a> {
    /// Starts the server's SFTP. `stop` says that the user wants an end.
    ///
    /// # Errors
    /// The server has none, in its words, or the connection is lost.
    pub(crate) fn start(
        remote: &'a mut Remote,
        stop: &'a dyn Fn() -> bool,
        on_stop: OnStop,
    ) -> Result<Self, Fault> {
        let server = remote.client.driver().link().peer_identification().map(str::to_owned);
        let requests = Rc::new(RefCell::new(Requests::new(server.as_deref(), on_stop)));
        let channel = session::start(remote, &requests).map_err(|error| Fault::Server(error.to_string()))?;
        let mut sftp = Self { remote, channel, requests, stop };
        sftp.perform(Vec::new())?;
        Ok(sftp)
    }

    /// Does these steps, in any order and many at a time.
    ///
    /// # Errors
    /// Why the session has ended, or that the user wants an end.
    pub(crate) fn perform(&mut self, steps: Vec<Step>) -> Result<Outcome, Fault> {
        self.requests.borrow_mut().begin(steps, Instant::now(), (self.stop)());
        if self.requests.borrow().is_interrupted() {
            return Err(Fault::Late(INTERRUPTED));
        }
        session::run(self.remote, self.channel, &self.requests, self.stop);
        let mut requests = self.requests.borrow_mut();
        let outcome =
            requests.finish().map_err(|loss| Fault::Server(lh_client::sanitise(&loss.to_string())))?;
        if requests.is_interrupted() { Err(Fault::Late(INTERRUPTED)) } else { Ok(outcome) }
    }

    /// Removes a directory with all that is in it, as far as the server permits.
    ///
    /// # Errors
    /// The first refusal, or as [`perform`](Self::perform).
    pub(crate) fn remove_tree(&mut self, path: &str) -> Result<(), Fault> {
        remove::remove_tree(path, &mut |steps| self.perform(steps))
    }
}

impl Drop for Sftp<'_> {
    fn drop(&mut self) {
        session::close(self.remote, self.channel);
    }
}
