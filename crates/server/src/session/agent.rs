//! Agent forwarding, the server's side: a socket through which the user's programs reach the client's agent.
//!
//! There is one socket for the whole connection, however many of its sessions request it. [`place`] chooses
//! its path. It is removed with the connection.

mod place;

use std::io;
use std::rc::Rc;

use lh_agent::names;
use lh_driver::{ChannelCx, ChannelOptions, ControlCx, FdPump, Listening, LocalFd};

use super::shared::Shared;
use crate::log::{debug, error, verbose};

/// Returns whether a channel request asks for agent forwarding: OpenSSH's name, or the one RFC 9987
/// registers.
pub(super) fn is_request(name: &str) -> bool {
    matches!(name, names::AUTH_AGENT_REQ | names::AGENT_REQ)
}

/// Opens the socket. Returns false when the login may not have it, has it already, or it cannot be created.
pub(super) fn start(shared: &Rc<Shared>, request: &str, cx: &mut ChannelCx<'_>) -> bool {
    let settings = &shared.settings;
    let allowed = !shared.restricted()
        && settings.allow_agent_forwarding.value
        && !settings.disable_forwarding.value
        && shared.options.agent_forwarding;
    if !allowed {
        debug!(shared.log, "agent forwarding is not allowed");
        return false;
    }
    if shared.programs.agent.borrow().is_some() {
        debug!(shared.log, "agent forwarding is already active");
        return false;
    }
    let (listener, directory) = match place::listen(&settings.agent_socket_path, &shared.user) {
        Ok(made) => made,
        Err(problem) => {
            error!(shared.requests_log, "agent forwarding: {problem}");
            return false;
        }
    };
    let path = listener.path().to_path_buf();
    verbose!(shared.requests_log, "agent forwarding listens on {}", path.display());
    // The type of the channels follows the name of the request.
    let kind = if request == names::AGENT_REQ { names::AGENT_CONNECT } else { names::AUTH_AGENT };
    let owner = Rc::clone(shared);
    let accept = move |accepted: lh_driver::Accepted, cx: &mut ControlCx<'_>| {
        // The directory lives as long as the listener.
        let _ = &directory;
        let opened = accepted.and_then(|(socket, _)| LocalFd::owned(socket)).and_then(|socket| {
            let pump = Box::new(FdPump::socket(socket));
            cx.open(kind, b"", &ChannelOptions::default(), pump).map_err(io::Error::other)
        });
        if let Err(problem) = opened {
            error!(owner.requests_log, "agent forwarding: {problem}");
        }
    };
    cx.add_source(Box::new(Listening::unix(listener, accept)));
    *shared.programs.agent.borrow_mut() = Some(path);
    true
}
