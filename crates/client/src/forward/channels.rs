//! Channels of forwarded connections: their open messages, and their lines for `~#`.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

use lh_driver::{ChannelCx, ChannelHandler, ChannelId, ChannelOptions, ControlCx, FdPump, LocalFd, Target};
use lh_wire::Writer;

use super::state::{Forwards, Name};
use crate::log::sanitise;
use crate::proxy::open_failed;
use crate::session::SessionNote;
use crate::ui::LogLevel;

/// Returns the originator fields of a channel open.
pub(super) fn originator(from: Option<SocketAddr>) -> (String, u32) {
    // Some servers check that it is an address; OpenSSH also sends this one if there is none.
    from.map_or_else(|| ("127.0.0.1".to_owned(), 65_535), |from| (from.ip().to_string(), from.port().into()))
}

/// Returns channel type and fields of an open towards `target`.
pub(super) fn direct(target: &Target, from: Option<SocketAddr>) -> (&'static str, Vec<u8>) {
    let mut fields = Vec::new();
    let (ip, port) = originator(from);
    let kind = match target {
        Target::Tcp { host, port } => {
            fields.put_string(host.as_bytes());
            fields.put_u32((*port).into());
            "direct-tcpip"
        }
        Target::Unix(path) => {
            fields.put_string(path.as_os_str().as_bytes());
            "direct-streamlocal@openssh.com"
        }
    };
    fields.put_string(ip.as_bytes());
    fields.put_u32(port);
    (kind, fields)
}

impl Forwards {
    /// Asks the server to connect `socket` to `target`. Calls `outcome` before any data is sent.
    pub(super) fn open_direct(
        &self,
        target: &Target,
        from: Option<SocketAddr>,
        socket: LocalFd,
        listening: &str,
        cx: &mut ControlCx<'_>,
        outcome: impl FnOnce(bool, &mut ChannelCx<'_>) + 'static,
    ) {
        let (kind, fields) = direct(target, from);
        let logger = self.0.logger.clone();
        let pump = FdPump::socket(socket).idle_limit(self.0.rules.timeouts.of(kind)).on_outcome(
            move |result, cx| {
                if let Err((reason, text)) = result {
                    logger.say(LogLevel::Info, &open_failed(cx.id().number(), reason, text));
                }
                outcome(result.is_ok(), cx);
            },
        );
        let (ip, port) = originator(from);
        let to = match target {
            Target::Tcp { host, port } => format!("{host} port {port}"),
            Target::Unix(path) => path.display().to_string(),
        };
        let text = format!("{kind}: {listening} for {to}, connect from {ip} port {port}");
        self.0.logger.debug(|| format!("channel: new {text}"));
        match cx.open(kind, &fields, &ChannelOptions::default(), Box::new(pump)) {
            Ok(id) => self.name(id, text, cx),
            Err(problem) => self.0.logger.say(LogLevel::Error, &problem.to_string()),
        }
    }

    /// Connects `input` and `output` to `target` (`-W`). The control gets the result of the connect as a
    /// [`SessionNote`].
    ///
    /// # Errors
    /// All channels are in use.
    pub fn open_stdio(
        &self,
        target: &Target,
        input: LocalFd,
        output: LocalFd,
        cx: &mut ControlCx<'_>,
    ) -> Result<ChannelId, lh_connection::OpenError> {
        let (kind, fields) = direct(target, None);
        let pump = FdPump::new()
            .input(input)
            .output(output)
            .close_when_done()
            .idle_limit(self.0.rules.timeouts.of(kind))
            .on_outcome(|result, cx| match result {
                Ok(()) => cx.notify(SessionNote::Started),
                Err((reason, text)) => {
                    cx.notify(SessionNote::OpenFailed { reason, description: text.to_owned() });
                }
            });
        let id = cx.open(kind, &fields, &ChannelOptions::default(), Box::new(pump))?;
        self.name(id, "direct-tcpip: stdio forward".to_owned(), cx);
        Ok(id)
    }

    /// Accepts the server's channel open with this handler.
    pub(super) fn accept(
        &self,
        id: ChannelId,
        text: String,
        handler: Box<dyn ChannelHandler>,
        cx: &mut ControlCx<'_>,
    ) {
        if cx.accept(id, &ChannelOptions::default(), b"", handler) {
            self.name(id, text, cx);
        }
    }

    pub(super) fn name(&self, channel: ChannelId, text: String, cx: &ControlCx<'_>) {
        if let Some(handler) = cx.handler_of(channel) {
            self.0.state.borrow_mut().names.insert(handler, Name { channel, text });
        }
    }

    /// Returns the forwarded connections, for `~#`.
    pub fn describe(&self) -> Vec<(ChannelId, String)> {
        let state = self.0.state.borrow();
        let mut all: Vec<_> = state.names.values().map(|name| (name.channel, sanitise(&name.text))).collect();
        all.sort();
        all
    }
}
