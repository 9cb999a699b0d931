//! Kerberos authentication (RFC 4462 section 3): the user's ticket for the host replaces a key or password.

use lh_sys::gssapi::{Initiator, KERBEROS, Step};

use super::Login;
use crate::error::ClientError;
use crate::log::{Log, sanitise};

/// A GSSAPI dialogue with the host.
pub(super) struct Dialogue {
    initiator: Initiator,
    /// The next token. The first one is made before the server is asked, because it shows whether there are
    /// credentials.
    step: Step,
}

impl Login<'_> {
    /// Offers Kerberos. False if it has been tried, or there are no credentials for this host.
    pub(super) fn try_kerberos(&mut self, log: &mut Log<'_>) -> bool {
        if std::mem::replace(&mut self.tried_kerberos, true) {
            return false;
        }
        let begun = Initiator::new(&self.config.host, self.config.delegate).and_then(|mut initiator| {
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
        if self.config.delegate {
            log.debug(|| "Delegating credentials".to_owned());
        }
        self.machine.gss(&[&KERBEROS], self.packets.sink());
        true
    }

    /// The server accepts the method, with the mechanism that it names.
    pub(super) fn begin_dialogue(&mut self, mechanism: &[u8], log: &mut Log<'_>) -> Result<(), ClientError> {
        if mechanism != KERBEROS {
            log.debug(|| "Server returned different OID than expected".to_owned());
            return self.next_method(log);
        }
        self.speak(log)
    }

    /// Handles a token from the server.
    pub(super) fn go_on(&mut self, token: &[u8], log: &mut Log<'_>) -> Result<(), ClientError> {
        let Some(dialogue) = &mut self.dialogue else { return self.next_method(log) };
        if dialogue.step.complete {
            // Our side is complete, and the checksum has been sent.
            return Err(ClientError::Lost("GSSAPI token after the end of the dialogue".to_owned()));
        }
        match dialogue.initiator.step(token) {
            Ok(step) => {
                dialogue.step = step;
                self.speak(log)
            }
            Err(problem) => {
                log.debug(|| format!("gssapi-with-mic: {}", sanitise(&problem.text)));
                if !problem.token.is_empty() {
                    self.machine.gss_error_token(&problem.token, self.packets.sink());
                }
                self.next_method(log)
            }
        }
    }

    fn speak(&mut self, log: &mut Log<'_>) -> Result<(), ClientError> {
        let Some(Dialogue { initiator, step }) = &self.dialogue else { return self.next_method(log) };
        if !step.complete {
            self.machine.gss_token(&step.token, self.packets.sink());
            return Ok(());
        }
        match initiator.mic(&self.machine.gss_data()) {
            Ok(mic) => {
                self.machine.gss_done(&step.token, Some(&mic), self.packets.sink());
                Ok(())
            }
            Err(problem) => {
                log.debug(|| format!("gssapi-with-mic: {}", sanitise(&problem.text)));
                self.next_method(log)
            }
        }
    }
}
