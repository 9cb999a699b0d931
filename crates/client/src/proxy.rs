//! Streams to a host through the connection to a jump host.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::carrier::{Carrier, HopEnd, HopReport, hop_end};
use crate::farewell::END_SIGNALS;
use crate::log::sanitise_start;
use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler, ChannelOptions, Control, ControlCx, ControlEvent};
use lh_driver::{Driver, FdPump, Link, LocalFd, Stream, Workers};
use lh_sys::signals;
use lh_wire::msg::open_failure;
use lh_wire::{LONGEST_TEXT, Writer};

/// Opens a stream to `host`:`port` over the authenticated connection to a jump host. Returns at once; a
/// failed connect shows when the stream is used.
///
/// The jump host's connection runs in a forked copy of this process, made while it has one thread, so that
/// the session may still go to the background (`-f`). If there are other threads, it runs in a thread
/// instead.
///
/// `carrier` carries the connection to the jump host; it must live as long as the connection through it.
pub(crate) fn carry(
    link: Link,
    carrier: Option<Carrier>,
    channels: lh_connection::Config,
    workers: Workers,
    target: (&str, u16),
) -> io::Result<(Stream, HopEnd)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut ours = Some(Stream::socket(ours.into())?);
    let (end, report) = hop_end()?;
    let mut hop = Some(Carried { link, carrier, local: theirs.into(), report });
    let forked = lh_sys::background::in_copy(|| {
        // ^C at the terminal may be for a local command (`lhsftp`), not for the connection.
        let _ = rustix::process::setsid();
        // The thread that would act on signals exists only in the parent.
        signals::restore_defaults(&END_SIGNALS);
        // With this end open in the copy, the parent's close would go unnoticed.
        ours = None;
        // A reader of our output must not wait for the copy to exit.
        drop(lh_sys::fd::take_stdin_stdout());
        hop.take().map_or(255, |hop| serve_hop(hop, channels, workers, target))
    });
    match (forked, hop.take()) {
        (Ok(()), Some(Carried { link, carrier, .. })) => {
            drop(link);
            if let Some(ours) = &mut ours {
                ours.set_carried();
            }
            carrier.into_iter().for_each(Carrier::leave_to_copy);
        }
        (Err(_), Some(hop)) => {
            let (host, port) = (target.0.to_owned(), target.1);
            std::thread::Builder::new()
                .name("jump".to_owned())
                .spawn(move || serve_hop(hop, channels, workers, (&host, port)))?;
        }
        (_, None) => {}
    }
    let ours = ours.ok_or_else(|| io::Error::other("jump host connection lost"))?;
    Ok((ours, end))
}

/// A connection to a jump host, and the session's stream through it.
struct Carried {
    link: Link,
    /// What carries the connection itself.
    carrier: Option<Carrier>,
    /// This end of the session's stream.
    local: OwnedFd,
    report: HopReport,
}

/// Runs the connection to a jump host until its one channel closes.
fn serve_hop(
    hop: Carried,
    channels: lh_connection::Config,
    workers: Workers,
    (host, port): (&str, u16),
) -> i32 {
    let Carried { link, carrier: _carrier, local, report } = hop;
    let mut driver = Driver::new(link, channels);
    driver.set_workers(workers);
    let mut fields = Vec::new();
    fields.put_string(host.as_bytes());
    fields.put_u32(port.into());
    // There is no originator address; OpenSSH also sends this one.
    fields.put_string(b"127.0.0.1");
    fields.put_u32(65535);
    let Ok(watched) = local.try_clone() else { return 255 };
    let Ok(local) = LocalFd::owned(local) else { return 255 };
    let hop = Hop { pump: FdPump::socket(local), watched, report, ends: None, closed: false };
    if driver.control().open("direct-tcpip", &fields, &ChannelOptions::default(), Box::new(hop)).is_err() {
        return 255;
    }
    let code = driver.run(&mut HopControl).unwrap_or(255);
    driver.disconnect("", crate::farewell::DISCONNECT_TIMEOUT);
    code
}

/// The channel through a jump host: a pump that reports why the target could not be reached.
struct Hop {
    pump: FdPump,
    /// The session's end of the stream, of which the pump reads nothing while the path takes nothing.
    watched: OwnedFd,
    report: HopReport,
    /// Time at which the hop ends although the jump host has not closed the channel.
    ends: Option<Instant>,
    /// The jump host has closed the channel: what it sent is still delivered, however slowly it is read.
    closed: bool,
}

/// Poll token of the session's end; the pump's own are small.
const LEFT: usize = usize::MAX;

/// Longest life of a hop whose session has left it. The path may have fallen silent, and the copy of the
/// process holds the standard error that a reader waits for.
const HOP_AFTER_SESSION: Duration = Duration::from_secs(3);

impl Hop {
    /// Notices that the session has ended, or goes on over another connection.
    fn look(&mut self, cx: &ChannelCx<'_>) {
        if self.pump.input_ended() {
            self.on_left(cx);
        }
    }

    fn on_left(&mut self, cx: &ChannelCx<'_>) {
        if !self.closed && self.ends.is_none() {
            self.ends = cx.now().checked_add(HOP_AFTER_SESSION);
        }
    }
}

impl ChannelHandler for Hop {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        if let ChannelEvent::OpenFailed { reason, description } = &event {
            // The session's own messages follow when its stream ends.
            eprint!("{}\r\nstdio forwarding failed\r\n", open_failed(0, *reason, description));
        }
        if matches!(event, ChannelEvent::Closed | ChannelEvent::OpenFailed { .. }) {
            (self.closed, self.ends) = (true, None);
        }
        if matches!(event, ChannelEvent::Eof | ChannelEvent::Closed) {
            self.report.closed();
        }
        self.pump.on_event(event, cx);
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_batch_end(cx);
        self.look(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_writable(cx);
    }

    fn interests<'a>(&'a self, out: &mut lh_driver::Interests<'a>) {
        self.pump.interests(out);
        if !self.closed && self.ends.is_none() {
            out.add_hangup(LEFT, self.watched.as_fd());
        }
    }

    fn on_ready(&mut self, token: usize, ready: lh_driver::Ready, cx: &mut ChannelCx<'_>) {
        if token == LEFT {
            return self.on_left(cx);
        }
        self.pump.on_ready(token, ready, cx);
        self.look(cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        [self.pump.next_deadline(), self.ends].into_iter().flatten().min()
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_timeout(cx);
        if self.ends.is_some_and(|ends| ends <= cx.now()) {
            cx.stop(255);
        }
    }

    fn finished(&self) -> bool {
        self.pump.finished()
    }
}

/// Returns OpenSSH's text for a reason code of RFC 4254 section 5.1, such as `connect failed`.
pub const fn open_failure_words(reason: u32) -> &'static str {
    match reason {
        open_failure::ADMINISTRATIVELY_PROHIBITED => "administratively prohibited",
        open_failure::CONNECT_FAILED => "connect failed",
        open_failure::UNKNOWN_CHANNEL_TYPE => "unknown channel type",
        open_failure::RESOURCE_SHORTAGE => "resource shortage",
        _ => "unknown reason",
    }
}

/// OpenSSH's message for a channel that the server did not open. `text`: the server's words, where it has
/// some.
pub fn open_failed(channel: u32, reason: u32, text: &str) -> String {
    let words = open_failure_words(reason);
    let colon = if text.is_empty() { "" } else { ": " };
    format!("channel {channel}: open failed: {words}{colon}{}", sanitise_start(text, LONGEST_TEXT))
}

/// Refuses all channels from a jump host, and stops the loop when its channel has closed.
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
