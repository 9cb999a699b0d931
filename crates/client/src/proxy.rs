//! Ways to a host that are no TCP connection of our own: a command, or another connection.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler, ChannelOptions, Control, ControlCx, ControlEvent};
use lh_driver::{Driver, FdPump, Link, LocalFd, Stream, Workers};
use lh_wire::Writer;
use lh_wire::msg::open_failure;

use crate::options::user_shell;

/// A running `ProxyCommand`. Dropped, it is told to end, as when a terminal hangs up.
#[derive(Debug)]
pub(crate) struct ProxyCommand {
    child: Child,
}

impl ProxyCommand {
    /// Starts `command` in the user's shell, with the connection on its standard input and output.
    pub(crate) fn start(command: &str) -> io::Result<(Self, Stream)> {
        // `exec`, so that the shell does not stay around between us and the command.
        let mut child = Command::new(user_shell())
            .arg("-c")
            .arg(format!("exec {command}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("no pipes"));
        };
        let stream = Stream::pipes(OwnedFd::from(stdout), OwnedFd::from(stdin))?;
        Ok((Self { child }, stream))
    }
}

impl Drop for ProxyCommand {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // In a copy of the process that started it, asking is an error: it may well be running.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::HUP);
        }
    }
}

/// Lets the authenticated connection to a jump host carry a stream to `host`:`port`. The stream comes back at
/// once; whether the jump host could connect shows when it is used.
///
/// The jump host's connection runs in a process of its own: a copy of this one, made while there is one thread, so
/// that the session itself may still go to the background (`-f`). Where there are threads already, it
/// runs in another one.
///
/// `proxy` is what leads to the jump host, which must live as long as the connection through it.
pub(crate) fn carry(
    link: Link,
    proxy: Option<ProxyCommand>,
    channels: lh_connection::Config,
    workers: Workers,
    target: (&str, u16),
) -> io::Result<Stream> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut ours = Some(Stream::socket(ours.into())?);
    let mut hop = Some((link, proxy, OwnedFd::from(theirs)));
    let forked = lh_sys::background::in_copy(|| {
        // ^C at the terminal may be for a command of ours (`lhsftp`), not for the connection.
        let _ = rustix::process::setsid();
        // Held here too, it would never seem closed from the other side.
        ours = None;
        // A reader of our output must not wait for the copy.
        drop(lh_sys::fd::take_stdin_stdout());
        hop.take().map_or(255, |hop| serve_hop(hop, channels, workers, target))
    });
    match (forked, hop.take()) {
        (Ok(()), Some((link, proxy, _))) => {
            drop(link);
            // The command is the copy's now, to be told when its work is over.
            std::mem::forget(proxy);
        }
        (Err(_), Some(hop)) => {
            let (host, port) = (target.0.to_owned(), target.1);
            std::thread::Builder::new()
                .name("jump".to_owned())
                .spawn(move || serve_hop(hop, channels, workers, (&host, port)))?;
        }
        (_, None) => {}
    }
    ours.ok_or_else(|| io::Error::other("jump host connection lost"))
}

/// Runs the connection to a jump host until its one channel is closed.
fn serve_hop(
    hop: (Link, Option<ProxyCommand>, OwnedFd),
    channels: lh_connection::Config,
    workers: Workers,
    (host, port): (&str, u16),
) -> i32 {
    let (link, _proxy, local) = hop;
    let mut driver = Driver::new(link, channels);
    driver.set_workers(workers);
    let mut fields = Vec::new();
    fields.put_string(host.as_bytes());
    fields.put_u32(port.into());
    // Where the connection comes from: there is no such address, and OpenSSH says this too.
    fields.put_string(b"127.0.0.1");
    fields.put_u32(65535);
    let Ok(local) = LocalFd::owned(local) else { return 255 };
    let hop = Hop { pump: FdPump::socket(local) };
    if driver.control().open("direct-tcpip", &fields, &ChannelOptions::default(), Box::new(hop)).is_err() {
        return 255;
    }
    let code = driver.run(&mut HopControl).unwrap_or(255);
    driver.disconnect("", crate::handshake::GOODBYE);
    code
}

/// The channel through a jump host: a pump that says why the far end could not be reached.
struct Hop {
    pump: FdPump,
}

impl ChannelHandler for Hop {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        if let ChannelEvent::OpenFailed { reason, description } = &event {
            // The session's own messages follow when its stream ends.
            eprint!(
                "channel 0: open failed: {}: {}\r\nstdio forwarding failed\r\n",
                open_failure_words(*reason),
                crate::sanitise(description)
            );
        }
        self.pump.on_event(event, cx);
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_batch_end(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_writable(cx);
    }

    fn interests<'a>(&'a self, out: &mut lh_driver::Interests<'a>) {
        self.pump.interests(out);
    }

    fn on_ready(&mut self, token: usize, ready: lh_driver::Ready, cx: &mut ChannelCx<'_>) {
        self.pump.on_ready(token, ready, cx);
    }

    fn next_deadline(&self) -> Option<std::time::Instant> {
        self.pump.next_deadline()
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_timeout(cx);
    }

    fn finished(&self) -> bool {
        self.pump.finished()
    }
}

/// `connect failed` and so on, as OpenSSH words the codes of RFC 4254 section 5.1.
pub(crate) const fn open_failure_words(reason: u32) -> &'static str {
    match reason {
        open_failure::ADMINISTRATIVELY_PROHIBITED => "administratively prohibited",
        open_failure::CONNECT_FAILED => "connect failed",
        open_failure::UNKNOWN_CHANNEL_TYPE => "unknown channel type",
        open_failure::RESOURCE_SHORTAGE => "resource shortage",
        _ => "unknown reason",
    }
}

/// Nothing may be opened towards us through a jump host, and the loop ends with its channel.
struct HopControl;

impl Control for HopControl {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        if matches!(event, ControlEvent::ChannelGone { .. }) {
            cx.stop(0);
        } else {
            crate::session::answer_by_default(event, cx);
        }
    }
}
