//! Agent forwarding, the client's side: programs at the server use the local agent.
//!
//! Each forwarded connection gets its own connection to the agent. First the agent is told through which host
//! it comes (`session-bind@openssh.com`), so that it can refuse keys that are not meant to be used from
//! there. The agent's reply to that is removed from the stream. Nothing here blocks, so a slow agent delays
//! no other channel.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use lh_agent::{Extension, MAX_MESSAGE, Request, SessionBind, frame, names};
use lh_config::special::ForwardAgent;
use lh_driver::{ChannelCx, ChannelOptions, ControlCx, ControlEvent, FdPump, InputFilter, LocalFd};
use lh_wire::msg::open_failure;

use crate::Options;
use crate::identity::SessionProof;
use crate::log::Logger;
use crate::ui::LogLevel;

/// The agent that programs at the server may use.
pub struct AgentForward {
    /// `None`: nothing is forwarded, and a server that opens an agent channel is refused with a warning.
    agent: Option<Agent>,
    logger: Logger,
}

struct Agent {
    socket: PathBuf,
    request: &'static str,
    session: Option<SessionProof>,
}

impl AgentForward {
    /// Evaluates `ForwardAgent`. If no agent is running, nothing is forwarded.
    pub(crate) fn new(
        options: &Options,
        session: Option<SessionProof>,
        registered_names: bool,
        logger: Logger,
    ) -> Self {
        let socket = match &*options.config.forward_agent {
            ForwardAgent::No => None,
            ForwardAgent::Yes => options.agent_socket(),
            ForwardAgent::Path(text) => {
                let path = match text.strip_prefix('$').filter(|name| !name.starts_with('{')) {
                    Some(name) => std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from),
                    // The configuration loader has expanded it.
                    None => Some(PathBuf::from(text)),
                };
                path.filter(|path| match std::fs::metadata(path) {
                    Ok(_) => true,
                    Err(error) => {
                        let (path, why) = (path.display(), lh_sys::errno_text(&error));
                        let text = format!("Cannot forward agent socket path \"{path}\": {why}");
                        logger.say(LogLevel::Error, &text);
                        false
                    }
                })
            }
        };
        let socket = socket.filter(|path| match UnixStream::connect(path) {
            Ok(_) => true,
            Err(error) => {
                let why = lh_sys::errno_text(&error);
                logger.debug(|| format!("agent {} is not forwarded: {why}", path.display()));
                false
            }
        });
        let request = if registered_names { names::AGENT_REQ } else { names::AUTH_AGENT_REQ };
        if socket.is_some() {
            logger.debug(|| "Requesting authentication agent forwarding.".to_owned());
        }
        Self { agent: socket.map(|socket| Agent { socket, request, session }), logger }
    }

    /// Returns the channel request for agent forwarding; `None` if nothing is forwarded.
    pub fn request(&self) -> Option<&'static str> {
        self.agent.as_ref().map(|agent| agent.request)
    }

    /// Handles the event if it concerns the agent; returns all others.
    pub fn on_event(&self, event: ControlEvent, cx: &mut ControlCx<'_>) -> Option<ControlEvent> {
        let ControlEvent::OpenRequested { id, kind, fields } = event else { return Some(event) };
        if !matches!(kind.as_str(), names::AUTH_AGENT | names::AGENT_CONNECT) {
            return Some(ControlEvent::OpenRequested { id, kind, fields });
        }
        let Some(agent) = &self.agent else {
            self.logger.say(LogLevel::Error, "Warning: ssh server tried agent forwarding.");
            self.logger
                .say(LogLevel::Error, "Warning: this is probably a break-in attempt by a malicious server.");
            cx.refuse(id, open_failure::ADMINISTRATIVELY_PROHIBITED, "agent forwarding was not asked for");
            return None;
        };
        match agent.connect() {
            Ok(pump) => {
                self.logger.debug(|| format!("channel {id}: new [authentication agent connection]"));
                cx.accept(id, &ChannelOptions::default(), b"", Box::new(pump));
            }
            Err(error) => {
                let why = lh_sys::errno_text(&error);
                self.logger.debug(|| format!("agent: {why}"));
                cx.refuse(id, open_failure::CONNECT_FAILED, "agent is not there");
            }
        }
        None
    }
}

impl Agent {
    fn connect(&self) -> std::io::Result<FdPump> {
        let mut socket = UnixStream::connect(&self.socket)?;
        let mut answers = 0;
        if let Some(SessionProof { host_key, session_id, signature }) = &self.session {
            let bind = SessionBind { host_key, session_id, signature, forwarding: true };
            // A few hundred bytes: they fit into the empty buffer of a new socket.
            socket.write_all(&frame(&Request::Extension(Extension::SessionBind(bind)).encode()))?;
            answers = 1;
        }
        let pump = FdPump::socket(LocalFd::owned(socket.into())?);
        Ok(if answers > 0 { pump.filter(Box::new(SkipAnswer::default())) } else { pump })
    }
}

/// Removes the first message from the agent's output. Agents without session binding reply with a failure and
/// continue.
#[derive(Default)]
struct SkipAnswer {
    length: Vec<u8>,
    /// Bytes of the message still to come; `None` before its length is known.
    left: Option<usize>,
}

impl SkipAnswer {
    /// Returns the part of `input` that belongs to the peer.
    fn rest<'a>(&mut self, mut input: &'a [u8]) -> &'a [u8] {
        while self.left.is_none() {
            let Some((first, behind)) = input.split_first() else { return input };
            self.length.push(*first);
            input = behind;
            if let Ok(length) = <[u8; 4]>::try_from(self.length.as_slice()) {
                // A length over the limit comes from no agent. The program at the other end then gets the
                // rest of the message, cannot parse it, and ends the connection.
                self.left = Some((u32::from_be_bytes(length) as usize).min(MAX_MESSAGE));
            }
        }
        let left = self.left.get_or_insert(0);
        let skipped = input.len().min(*left);
        *left -= skipped;
        input.get(skipped..).unwrap_or_default()
    }
}

impl InputFilter for SkipAnswer {
    fn filter(&mut self, input: &[u8], out: &mut Vec<u8>, _cx: &mut ChannelCx<'_>) {
        out.extend_from_slice(self.rest(input));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_bind_reply_is_not_passed_to_the_peer() {
        let stream = [0, 0, 0, 1, 6, 0, 0, 0, 2, 12, 99];
        for size in 1..=stream.len() {
            let mut skip = SkipAnswer::default();
            let passed: Vec<u8> = stream.chunks(size).flat_map(|piece| skip.rest(piece).to_vec()).collect();
            assert_eq!(passed, stream[5..], "in pieces of {size}");
        }
    }
}
