//! What the server itself tells the user of a session.

use std::path::Path;

use lh_driver::ChannelCx;
use lh_sys::records::Last;

use crate::session::command::Wanted;
use crate::session::environment::UserFile;
use crate::session::greeting;
use crate::session::shared::Shared;

/// Texts for one session.
pub(super) struct Messages<'a> {
    pub(super) shared: &'a Shared,
    /// What PAM's modules say to this session.
    pub(super) said: &'a str,
    /// The session has a terminal.
    pub(super) on_terminal: bool,
}

impl Messages<'_> {
    /// Greets the user in front of a login shell; `last` is the last login, where it is to be shown.
    pub(super) fn greet(&self, last: Option<&Last>, cx: &mut ChannelCx<'_>) {
        let shared = self.shared;
        let motd = shared.settings.print_motd.value.then_some(Path::new("/etc/motd"));
        if let Some(text) = greeting::text(&shared.user, self.said, last, motd) {
            cx.send(text.as_bytes());
        }
    }

    /// Sends what PAM's modules say (the message of the day, why a password must change) to a session without a greeting of its
    /// own, as sshd does.
    pub(super) fn pass_on_said(&self, cx: &mut ChannelCx<'_>) {
        let shared = self.shared;
        if let Some(text) = greeting::text(&shared.user, self.said, None, None) {
            let text = if self.on_terminal { text } else { text.replace("\r\n", "\n") };
            cx.send(text.as_bytes());
        }
    }

    /// Bad lines of `~/.ssh/environment`, and that the home directory cannot be entered. Not for subsystems, whose standard error
    /// OpenSSH does not send either: programs read what comes.
    pub(super) fn tell_about_files(&self, wanted: &Wanted, file: &UserFile, cx: &mut ChannelCx<'_>) {
        if matches!(wanted, Wanted::Subsystem(_)) {
            return;
        }
        let home = self.shared.programs.start.notice.as_deref().unwrap_or_default();
        for text in [&file.problems, home] {
            if !text.is_empty() {
                self.say(text, cx);
            }
        }
    }

    /// Sends a text as if a program had written it to its standard error.
    pub(super) fn say(&self, text: &str, cx: &mut ChannelCx<'_>) {
        if self.on_terminal {
            cx.send(text.replace('\n', "\r\n").as_bytes());
        } else {
            cx.send_ext(1, text.as_bytes());
        }
    }
}
