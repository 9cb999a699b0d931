//! Listeners at the server: `-R`.

use lh_config::forward::{Endpoint, Forward};
use lh_driver::{ChannelId, ControlCx, FdPump, Target, dial};
use lh_wire::msg::open_failure;
use lh_wire::{Reader, Result as WireResult, Writer};

use super::error::ForwardError;
use super::remote_socks::RemoteSocks;
use super::state::{ChannelAcceptor, Done, Forwards, RemoteListener, target};
use super::words;
use crate::log::sanitise;
use crate::ui::LogLevel;

/// Returns the address to send to the server: an empty one means its loopback address, `*` all addresses.
fn bind_host(host: Option<&str>) -> &str {
    match host {
        None => "localhost",
        Some("*") => "",
        Some(host) => host,
    }
}

fn fields(forward: &Forward, port: u16) -> (bool, Vec<u8>) {
    let mut fields = Vec::new();
    match &forward.listen {
        Endpoint::Tcp { host, .. } => {
            fields.put_string(bind_host(host.as_deref()).as_bytes());
            fields.put_u32(port.into());
            (true, fields)
        }
        Endpoint::Unix(path) => {
            fields.put_string(path.as_bytes());
            (false, fields)
        }
    }
}

impl Forwards {
    /// Asks the server to listen; calls `done` with the result.
    pub fn add_remote(&self, forward: &Forward, cx: &mut ControlCx<'_>, done: Done) {
        self.listen_there(forward, None, cx, done);
    }

    /// Like [`add_remote`](Self::add_remote), but `taker` handles the connections.
    pub(crate) fn add_remote_for(
        &self,
        forward: &Forward,
        taker: ChannelAcceptor,
        cx: &mut ControlCx<'_>,
        done: Done,
    ) {
        self.listen_there(forward, Some(taker), cx, done);
    }

    fn listen_there(
        &self,
        forward: &Forward,
        taker: Option<ChannelAcceptor>,
        cx: &mut ControlCx<'_>,
        done: Done,
    ) {
        let port = match forward.listen {
            Endpoint::Tcp { port, .. } => port,
            Endpoint::Unix(_) => 0,
        };
        let (tcp, fields) = fields(forward, port);
        cx.global_request(
            if tcp { "tcpip-forward" } else { "streamlocal-forward@openssh.com" },
            true,
            &fields,
        );
        let mut state = self.0.state.borrow_mut();
        let id = state.next;
        state.next += 1;
        state.remote.push(RemoteListener { id, forward: forward.clone(), port, taker });
        state.asked.push_back((id, done));
    }

    /// Handles the server's reply to the oldest request.
    pub(super) fn answered(&self, ok: bool, fields: &[u8], cx: &mut ControlCx<'_>) {
        let mut state = self.0.state.borrow_mut();
        let Some((id, done)) = state.asked.pop_front() else { return };
        // The user may have cancelled it meanwhile.
        let Some(index) = state.remote.iter().position(|each| each.id == id) else {
            drop(state);
            return done(Err(ForwardError::Cancelled), cx);
        };
        let listener = &mut state.remote[index];
        let result = match &listener.forward.listen {
            Endpoint::Tcp { port: 0, .. } if ok => match Reader::new(fields).u32().map(u16::try_from) {
                Ok(Ok(port)) if port != 0 => {
                    listener.port = port;
                    Ok(port)
                }
                _ => Err(ForwardError::PortNotNamed),
            },
            _ if ok => Ok(listener.port),
            Endpoint::Tcp { port, .. } => Err(ForwardError::RemotePort(*port)),
            Endpoint::Unix(path) => Err(ForwardError::RemotePath(path.clone())),
        };
        self.0.logger.debug(|| words::answered(&listener.forward, ok));
        if result.is_err() {
            state.remote.swap_remove(index);
        }
        drop(state);
        done(result, cx);
    }

    /// Asks the server to stop listening. False if there is no such forward.
    pub fn cancel_remote(&self, forward: &Forward, cx: &mut ControlCx<'_>) -> bool {
        let mut state = self.0.state.borrow_mut();
        let is_it = |each: &RemoteListener| {
            each.forward.listen == forward.listen
                // A port that the server chose is named by its number.
                || matches!((&each.forward.listen, &forward.listen),
                    (Endpoint::Tcp { host, port: 0 }, Endpoint::Tcp { host: other, port })
                        if host == other && each.port == *port)
        };
        let Some(index) = state.remote.iter().position(is_it) else { return false };
        let listener = state.remote.swap_remove(index);
        let (tcp, fields) = fields(&listener.forward, listener.port);
        let name = if tcp { "cancel-tcpip-forward" } else { "cancel-streamlocal-forward@openssh.com" };
        cx.global_request(name, false, &fields);
        true
    }

    /// Returns the port of an equal forward, if one is active.
    pub fn has_remote(&self, forward: &Forward) -> Option<u16> {
        self.0.state.borrow().remote.iter().find(|each| each.forward == *forward).map(|each| each.port)
    }

    /// Handles a connection to a listener at the server.
    pub(super) fn connect_back(&self, id: ChannelId, kind: &str, fields: &[u8], cx: &mut ControlCx<'_>) {
        let parsed = if kind == "forwarded-tcpip" { read_tcp(fields) } else { read_unix(fields) };
        let Ok((listen, from)) = parsed else {
            return cx.refuse(id, open_failure::CONNECT_FAILED, "malformed request");
        };
        let Some((forward, taker)) = self.find(&listen) else {
            let text = match &listen {
                Endpoint::Tcp { port, .. } => format!("unknown listen_port {port}"),
                Endpoint::Unix(path) => format!("unknown listen_path {path}"),
            };
            let text = format!("WARNING: Server requests forwarding for {}", sanitise(&text));
            self.0.logger.say(LogLevel::Info, &text);
            return cx.refuse(id, open_failure::ADMINISTRATIVELY_PROHIBITED, "open failed");
        };
        self.0.logger.debug(|| format!("client_request_forwarded: {listen:?}, originator {from}"));
        if let Some(taker) = taker {
            return taker(id, kind, fields, cx);
        }
        let limit = self.0.rules.timeouts.of(kind);
        let Some(connect) = &forward.connect else {
            let handler = RemoteSocks::new(self.clone(), limit);
            return self.accept(id, format!("{kind}: dynamic, connect from {from}"), Box::new(handler), cx);
        };
        let target = target(connect);
        let text = format!("{kind}: connect from {from} to {target:?}");
        let this = self.clone();
        dial(&target.clone(), self.0.rules.family, &self.0.resolver, cx, move |result, cx| {
            match result.and_then(|socket| this.forwarded(socket)) {
                Ok(fd) => this.accept(id, text, Box::new(FdPump::socket(fd).idle_limit(limit)), cx),
                Err(problem) => {
                    let words = lh_sys::errno_text(&problem);
                    let to = match &target {
                        Target::Tcp { host, port } => format!("{host} port {port}"),
                        Target::Unix(path) => path.display().to_string(),
                    };
                    this.0.logger.say(LogLevel::Error, &format!("connect_to {to}: failed: {words}"));
                    cx.refuse(id, open_failure::CONNECT_FAILED, &words);
                }
            }
        });
    }

    /// Returns the forward that a connection belongs to. Some servers change the address, but never the port.
    fn find(&self, listen: &Endpoint) -> Option<(Forward, Option<ChannelAcceptor>)> {
        let state = self.0.state.borrow();
        let found = match listen {
            Endpoint::Unix(_) => state.remote.iter().find(|each| each.forward.listen == *listen),
            Endpoint::Tcp { host, port } => {
                let tcp = |each: &&RemoteListener| {
                    matches!(each.forward.listen, Endpoint::Tcp { .. }) && each.port == *port && *port != 0
                };
                let exactly = |each: &&RemoteListener| match &each.forward.listen {
                    Endpoint::Tcp { host: ours, .. } => Some(bind_host(ours.as_deref())) == host.as_deref(),
                    Endpoint::Unix(_) => false,
                };
                let named = state.remote.iter().filter(tcp).find(exactly);
                named.or_else(|| state.remote.iter().find(tcp))
            }
        };
        found.map(|each| (each.forward.clone(), each.taker.clone()))
    }
}

/// Listening and originating address of a `forwarded-tcpip` open (RFC 4254 section 7.2).
fn read_tcp(fields: &[u8]) -> WireResult<(Endpoint, String)> {
    let mut reader = Reader::new(fields);
    let host = String::from_utf8_lossy(reader.string()?).into_owned();
    let port = u16::try_from(reader.u32()?).unwrap_or(0);
    let from = String::from_utf8_lossy(reader.string()?).into_owned();
    let from = format!("{from} port {}", reader.u32()?);
    reader.finish()?;
    Ok((Endpoint::Tcp { host: Some(host), port }, from))
}

/// Path of a `forwarded-streamlocal@openssh.com` open.
fn read_unix(fields: &[u8]) -> WireResult<(Endpoint, String)> {
    let mut reader = Reader::new(fields);
    let path = String::from_utf8_lossy(reader.string()?).into_owned();
    let _reserved = reader.string()?;
    reader.finish()?;
    Ok((Endpoint::Unix(path), "a socket".to_owned()))
}

/// Reads the fields of opens of forwarded connections.
#[cfg(fuzzing)]
pub(super) fn fuzz_fields(fields: &[u8]) {
    let _ = read_tcp(fields);
    let _ = read_unix(fields);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bind_address_is_sent_as_the_user_meant_it() {
        let told = |spec: &str| {
            let forward = Forward::parse(spec, true).unwrap();
            let (_, fields) = fields(&forward, 1);
            String::from_utf8_lossy(Reader::new(&fields).string().unwrap()).into_owned()
        };
        assert_eq!(told("8080:h:80"), "localhost");
        assert_eq!(told(":8080:h:80"), "");
        assert_eq!(told("*:8080:h:80"), "");
        assert_eq!(told("10.0.0.1:8080:h:80"), "10.0.0.1");
        assert_eq!(told("/run/s:h:80"), "/run/s");
    }

    proptest! {
        #[test]
        fn opens_never_panic(fields in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = read_tcp(&fields);
            let _ = read_unix(&fields);
        }
    }
}
