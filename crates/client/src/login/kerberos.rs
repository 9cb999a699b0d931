//! Kerberos authentication (RFC 4462 section 3): the user's ticket for the host replaces a key or password.

use lh_auth::client::Client as Machine;
use lh_sys::gssapi::{Initiator, KERBEROS, Step};
use lh_wire::PacketSink;

use crate::error::ClientError;
use crate::log::{Log, sanitise};
use crate::ui::LogLevel;

/// The method's state during one login.
#[derive(Default)]
pub(super) struct Kerberos {
    /// The method was tried; a second attempt would end alike.
    tried: bool,
    /// The GSSAPI exchange in progress.
    dialogue: Option<Dialogue>,
}

/// A GSSAPI exchange with the host.
struct Dialogue {
    initiator: Initiator,
    /// The next token. The first one is made before the server is asked, because it shows whether there are
    /// credentials.
    step: Step,
}

/// The login's next action after a step of the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Wait for the server's reply.
    Wait,
    /// Try the next method.
    Method,
}

impl Kerberos {
    /// Offers the method. False if it was tried before, or there are no credentials for `host`.
    pub(super) fn offer(
        &mut self,
        host: &str,
        delegate: bool,
        machine: &mut Machine,
        sink: &mut dyn PacketSink,
        log: &mut Log<'_>,
    ) -> bool {
        if std::mem::replace(&mut self.tried, true) {
            return false;
        }
        let begun = Initiator::new(host, delegate).and_then(|mut initiator| {
            let step = initiator.step(b"")?;
            Ok(Dialogue { initiator, step })
        });
        match begun {
            Ok(dialogue) => self.dialogue = Some(dialogue),
            Err(problem) => {
                log.debug(|| format!("gssapi-with-mic: {}", sanitise(&problem.text)));
                return false;
            }
        }
        if delegate {
            log.debug(|| "Delegating credentials".to_owned());
        }
        machine.gss(&[&KERBEROS], sink);
        true
    }

    /// Handles the server's choice of a mechanism.
    pub(super) fn on_mechanism(
        &mut self,
        mechanism: &[u8],
        machine: &mut Machine,
        sink: &mut dyn PacketSink,
        log: &mut Log<'_>,
    ) -> Next {
        if mechanism != KERBEROS {
            log.debug(|| "Server returned different OID than expected".to_owned());
            return Next::Method;
        }
        self.send_token(machine, sink, log)
    }

    /// Handles a token from the server.
    ///
    /// # Errors
    /// The server continues an exchange that is complete.
    pub(super) fn on_token(
        &mut self,
        token: &[u8],
        machine: &mut Machine,
        sink: &mut dyn PacketSink,
        log: &mut Log<'_>,
    ) -> Result<Next, ClientError> {
        let Some(dialogue) = &mut self.dialogue else { return Ok(Next::Method) };
        if dialogue.step.complete {
            // Our side is complete, and the MIC has been sent.
            let text = "GSSAPI token after the end of the dialogue";
            return Err(ClientError::lost(LogLevel::Error, text));
        }
        match dialogue.initiator.step(token) {
            Ok(step) => {
                dialogue.step = step;
                Ok(self.send_token(machine, sink, log))
            }
            Err(problem) => {
                log.debug(|| format!("gssapi-with-mic: {}", sanitise(&problem.text)));
                if !problem.token.is_empty() {
                    machine.gss_error_token(&problem.token, sink);
                }
                Ok(Next::Method)
            }
        }
    }

    /// Sends the next token, and after the last one the MIC over the login's data.
    fn send_token(&self, machine: &mut Machine, sink: &mut dyn PacketSink, log: &mut Log<'_>) -> Next {
        let Some(Dialogue { initiator, step }) = &self.dialogue else { return Next::Method };
        if !step.complete {
            machine.gss_token(&step.token, sink);
            return Next::Wait;
        }
        match initiator.mic(&machine.gss_data()) {
            Ok(mic) => {
                machine.gss_done(&step.token, Some(&mic), sink);
                Next::Wait
            }
            Err(problem) => {
                log.debug(|| format!("gssapi-with-mic: {}", sanitise(&problem.text)));
                Next::Method
            }
        }
    }
}
