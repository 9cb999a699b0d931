//! Sessions over a master's connection, which its server may refuse (`MaxSessions`).

use std::time::{Duration, Instant};

use lh_client::{
    Client, ClientError, LogLevel, RefusedHandler, SessionChannel, SessionNote, SessionSetup,
    answer_by_default,
};
use lh_driver::{ChannelHandler, ChannelId, ChannelOptions, Control, ControlCx, ControlEvent};

/// Reason of a refusal, which is untrusted, and the handler that has no session.
type Refused = (String, Box<dyn ChannelHandler>);

/// Opens a session and waits for the answer, for at most `timeout`.
///
/// # Errors
/// The connection has ended, or there is no answer. The inner result has the server's refusal.
pub(crate) fn open_session(
    client: &mut Client,
    setup: SessionSetup,
    handler: Box<dyn ChannelHandler>,
    timeout: Duration,
) -> Result<Result<ChannelId, Refused>, ClientError> {
    let place = RefusedHandler::default();
    let handler = Box::new(SessionChannel::new(setup, handler).returning(&place));
    let opened = client.driver().control().open("session", b"", &ChannelOptions::default(), handler);
    let id = opened.map_err(|error| ClientError::Local(error.to_string()))?;
    let mut waiting = Waiting { id, deadline: Some(Instant::now() + timeout), reason: String::new() };
    client.run(&mut waiting)?;
    if waiting.deadline.is_none() {
        let text =
            format!("the server has not answered the request for a session in {} s", timeout.as_secs());
        return Err(ClientError::lost(LogLevel::Error, text));
    }
    let returned = place.take();
    Ok(returned.map_or(Ok(id), |handler| Err((waiting.reason, handler))))
}

/// The control of a connection until the answer for one channel.
struct Waiting {
    id: ChannelId,
    /// `None` when the time is over.
    deadline: Option<Instant>,
    reason: String,
}

impl Control for Waiting {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        match event {
            ControlEvent::Note { id, note, .. } if id == self.id => match note.downcast_ref() {
                Some(SessionNote::Opened) => cx.stop(0),
                Some(SessionNote::OpenFailed { description, .. }) => {
                    self.reason = lh_transfer::display_name(description.as_bytes());
                    cx.stop(0);
                }
                _ => {}
            },
            event => answer_by_default(event, cx),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        self.deadline = None;
        cx.stop(0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use lh_client::{Options, Start, local_account};
    use lh_config::client::{Request, UserFile};
    use lh_driver::{ChannelCx, ChannelEvent};

    use super::*;

    struct Nothing;

    impl ChannelHandler for Nothing {
        fn on_event(&mut self, _event: ChannelEvent, _cx: &mut ChannelCx<'_>) {}
    }

    #[test]
    fn a_silent_server_is_not_waited_for_without_end() {
        let mut request = Request::new("h", local_account().expect("a user"));
        request.user_file = UserFile::None;
        request.system_file = None;
        let options = Options::load(&request).expect("loads");
        let (ours, _theirs) = UnixStream::pair().expect("sockets");
        let mut client = Client::relayed(ours, &options).expect("a client");
        let setup = SessionSetup::new(Start::Shell);
        let opened = open_session(&mut client, setup, Box::new(Nothing), Duration::ZERO);
        let error = opened.err().expect("no answer").to_string();
        assert!(error.contains("not answered the request for a session"), "{error}");
    }
}
