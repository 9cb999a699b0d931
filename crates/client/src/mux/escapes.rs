//! Escape sequences in a mux client's input. The client puts its terminal into raw mode itself; the master
//! has its descriptors.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use lh_driver::{ChannelCx, InputFilter};
use lh_wire::Writer;

use crate::Forwards;
use crate::escape::{Action, EscapeFilter, EscapeScope};

/// Filters escape sequences; their output goes to the mux client's standard error.
pub(super) struct MuxClientEscapes {
    filter: EscapeFilter,
    forwards: Forwards,
    stderr: Rc<OwnedFd>,
}

impl MuxClientEscapes {
    pub(super) const fn new(escape: u8, forwards: Forwards, stderr: Rc<OwnedFd>) -> Self {
        Self { filter: EscapeFilter::new(Some(escape)), forwards, stderr }
    }

    fn act(&self, action: Action, cx: &mut ChannelCx<'_>) {
        let e = self.filter.shown();
        match action {
            Action::Disconnect => {
                write_notice(&self.stderr, &format!("{e}.\r\n"));
                cx.close();
            }
            Action::ListChannels => {
                let mut text = format!("{e}#\r\nThe following connections are open:\r\n");
                text.push_str(&format!("  #{} mux-session\r\n", cx.id()));
                for (id, name) in self.forwards.describe() {
                    text.push_str(&format!("  #{id} {name}\r\n"));
                }
                write_notice(&self.stderr, &text);
            }
            Action::Help => write_notice(&self.stderr, &self.filter.help(EscapeScope::MuxSession)),
            Action::Break => {
                write_notice(&self.stderr, &format!("{e}B\r\n"));
                // Length of the break in milliseconds (RFC 4335), as OpenSSH sends it.
                let mut fields = Vec::new();
                fields.put_u32(1000);
                cx.request("break", false, &fields);
            }
            Action::Rekey => cx.request_rekey(),
            Action::Suspend
            | Action::Background
            | Action::CommandLine
            | Action::ConnectionInformation
            | Action::LessVerbose
            | Action::MoreVerbose => {
                write_notice(&self.stderr, &format!("{e}: not available to multiplexed sessions\r\n"));
            }
        }
    }
}

/// Writes a short text for the user. It is dropped if it does not fit at once.
pub(super) fn write_notice(fd: &OwnedFd, text: &str) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(fd, PollFlags::OUT)];
    if poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0) {
        let _ = rustix::io::write(fd, text.as_bytes());
    }
}

impl InputFilter for MuxClientEscapes {
    fn filter(&mut self, mut input: &[u8], out: &mut Vec<u8>, cx: &mut ChannelCx<'_>) {
        while !input.is_empty() {
            if let Some(action) = self.filter.process(&mut input, out) {
                self.act(action, cx);
            }
        }
    }
}
