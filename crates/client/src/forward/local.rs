//! Local listeners: `-L` and `-D`.

use std::net::SocketAddr;
use std::path::Path;

use lh_config::forward::{Endpoint, Forward};
use lh_driver::{Accepted, Bound, ControlCx, ListenOn, Listening, UnixListener, listen_tcp};
use lh_sys::errno_text;

use super::error::ForwardError;
use super::state::{Done, Forwards, LocalListener, target};
use super::words;
use crate::ui::LogLevel;

impl Forwards {
    /// Starts a local listener. If the address is a host name, `done` is called later, after the look-up.
    pub fn add_local(&self, forward: &Forward, cx: &mut ControlCx<'_>, done: Done) {
        match &forward.listen {
            Endpoint::Unix(path) => {
                let result = self.listen_unix(forward, path, cx);
                done(result, cx);
            }
            Endpoint::Tcp { host, port } => {
                let on = self.listen_on(host.as_deref());
                match on.addresses(*port, self.0.rules.family) {
                    Ok(addresses) => {
                        let result = self.listen_tcp(forward, &addresses, cx);
                        done(result, cx);
                    }
                    Err(name) => {
                        let (this, forward) = (self.clone(), forward.clone());
                        let named = name.to_owned();
                        let then = move |answer: std::io::Result<Vec<SocketAddr>>, cx: &mut ControlCx<'_>| {
                            let result = match answer {
                                Ok(addresses) => this.listen_tcp(&forward, &addresses, cx),
                                Err(source) => {
                                    Err(this.complain(ForwardError::NoAddress { name: named, source }))
                                }
                            };
                            done(result, cx);
                        };
                        self.0.resolver.resolve(name, *port, self.0.rules.family, cx, then);
                    }
                }
            }
        }
    }

    /// Returns the addresses for a local listener (`-L`, `-D`; `GatewayPorts`).
    fn listen_on(&self, host: Option<&str>) -> ListenOn {
        match host {
            None if self.0.rules.gateway_ports => ListenOn::Everywhere,
            None | Some("localhost") => ListenOn::Loopback,
            Some("" | "*") => ListenOn::Everywhere,
            Some(host) => ListenOn::Host(host.to_owned()),
        }
    }

    /// Logs the error, and returns it.
    fn complain(&self, error: ForwardError) -> ForwardError {
        self.0.logger.say(LogLevel::Error, &error.to_string());
        error
    }

    fn listen_tcp(
        &self,
        forward: &Forward,
        addresses: &[SocketAddr],
        cx: &mut ControlCx<'_>,
    ) -> Result<u16, ForwardError> {
        let Bound { bound, failed } = listen_tcp(addresses);
        for (address, problem) in &failed {
            let text = format!("bind [{}]:{}: {}", address.ip(), address.port(), errno_text(problem));
            // As in ssh: only the last address's failure is an error, the others are logged at a verbose
            // level.
            let last = addresses.last().is_some_and(|last| last.ip() == address.ip());
            self.0.logger.say(if last { LogLevel::Error } else { LogLevel::Verbose }, &text);
        }
        let Some(port) = bound.first().map(|(_, at)| at.port()) else {
            let port = addresses.first().map_or(0, SocketAddr::port);
            return Err(self.complain(ForwardError::LocalPort(port)));
        };
        let mut sources = Vec::new();
        for (socket, at) in bound {
            self.0.logger.debug(|| format!("Local forwarding listening on {} port {}.", at.ip(), at.port()));
            let listening = format!("listening port {}", at.port());
            let accepted = self.acceptor(forward, listening);
            sources.push(cx.add_source(Box::new(Listening::tcp(socket, accepted))));
        }
        self.0.state.borrow_mut().local.push(LocalListener { forward: forward.clone(), sources });
        Ok(port)
    }

    fn listen_unix(
        &self,
        forward: &Forward,
        path: &str,
        cx: &mut ControlCx<'_>,
    ) -> Result<u16, ForwardError> {
        let rules = &self.0.rules;
        let listener = match UnixListener::bind(Path::new(path), rules.bind_mask, rules.bind_unlink) {
            Ok(listener) => listener,
            Err(source) => {
                return Err(self.complain(ForwardError::LocalPath { path: path.to_owned(), source }));
            }
        };
        self.0.logger.debug(|| format!("Local forwarding listening on path {path}."));
        let accepted = self.acceptor(forward, format!("listening path {path}"));
        let sources = vec![cx.add_source(Box::new(Listening::unix(listener, accepted)))];
        self.0.state.borrow_mut().local.push(LocalListener { forward: forward.clone(), sources });
        Ok(0)
    }

    /// Returns the function that handles accepted connections.
    fn acceptor(
        &self,
        forward: &Forward,
        listening: String,
    ) -> impl FnMut(Accepted, &mut ControlCx<'_>) + 'static {
        let (this, forward) = (self.clone(), forward.clone());
        let target = forward.connect.as_ref().map(target);
        move |accepted, cx| {
            let (socket, from) = match accepted.and_then(|(socket, from)| Ok((this.forwarded(socket)?, from)))
            {
                Ok(accepted) => accepted,
                Err(problem) => {
                    let text = format!("accept: {}", errno_text(&problem));
                    return this.0.logger.say(LogLevel::Error, &text);
                }
            };
            this.0.logger.debug(|| words::requested(&forward));
            match &target {
                Some(target) => this.open_direct(target, from, socket, &listening, cx, |_, _| {}),
                None => this.negotiate_socks(socket, from, &listening, cx),
            }
        }
    }

    /// Stops the listener at `listen`; its accepted connections stay open. False if there is no such
    /// listener.
    pub fn cancel_listener(&self, listen: &Endpoint, cx: &mut ControlCx<'_>) -> bool {
        let mut state = self.0.state.borrow_mut();
        let Some(index) = state.local.iter().position(|each| each.forward.listen == *listen) else {
            return false;
        };
        for source in state.local.swap_remove(index).sources {
            cx.remove_source(source);
        }
        true
    }

    /// Closes all local listeners. Accepted connections stay open, and so do listeners at the server.
    pub fn stop_listening(&self, cx: &mut ControlCx<'_>) {
        for source in self.0.state.borrow_mut().local.drain(..).flat_map(|each| each.sources) {
            cx.remove_source(source);
        }
    }

    /// True if an equal forward is active: a repeated request is no failure.
    pub fn has_local(&self, forward: &Forward) -> bool {
        self.0.state.borrow().local.iter().any(|each| each.forward == *forward)
    }
}
