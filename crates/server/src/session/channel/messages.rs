//! The server's own messages to the user of a session.

use std::path::Path;

use lh_driver::ChannelCx;
use lh_sys::records::Last;

use crate::session::command::RequestedProgram;
use crate::session::environment::UserFile;
use crate::session::greeting;
use crate::session::shared::Shared;

/// Messages for one session.
pub(super) struct Messages<'a> {
    pub(super) shared: &'a Shared,
    /// Messages of PAM's modules for this session.
    pub(super) said: &'a str,
    /// Whether the session has a terminal.
    pub(super) on_terminal: bool,
}

impl Messages<'_> {
    /// Sends the greeting ahead of a login shell. `last` is the last login, where it should be shown.
    pub(super) fn greet(&self, last: Option<&Last>, cx: &mut ChannelCx<'_>) {
        let shared = self.shared;
        let motd = shared.settings.print_motd.value.then_some(Path::new("/etc/motd"));
        if let Some(text) = greeting::text(&shared.user, self.said, last, motd) {
            cx.send(text.as_bytes());
        }
    }

    /// Sends the messages of PAM's modules (the message of the day, why a password must change) to a session
    /// without a greeting, as sshd does.
    pub(super) fn pass_on_said(&self, cx: &mut ChannelCx<'_>) {
        let shared = self.shared;
        if let Some(text) = greeting::text(&shared.user, self.said, None, None) {
            let text = if self.on_terminal { text } else { text.replace("\r\n", "\n") };
            cx.send(text.as_bytes());
        }
    }

    /// Reports invalid lines of `~/.ssh/environment`, and that the home directory cannot be entered.
    /// Subsystems get no report: programs read their output, and OpenSSH does not send their standard error
    /// either.
    pub(super) fn tell_about_files(
        &self,
        wanted: &RequestedProgram,
        file: &UserFile,
        cx: &mut ChannelCx<'_>,
    ) {
        if matches!(wanted, RequestedProgram::Subsystem(_)) {
            return;
        }
        let home = self.shared.programs.start.notice.as_deref().unwrap_or_default();
        for text in [&file.problems, home] {
            if !text.is_empty() {
                self.say(text, cx);
            }
        }
    }

    /// Sends a text as standard error of the channel.
    pub(super) fn say(&self, text: &str, cx: &mut ChannelCx<'_>) {
        if self.on_terminal {
            cx.send(text.replace('\n', "\r\n").as_bytes());
        } else {
            cx.send_ext(1, text.as_bytes());
        }
    }
}
