//! Who sits at which terminal: utmp, wtmp and lastlog, written for the user session process, which may not.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use lh_config::server_table::ServerSettings;
use lh_sys::pty::Pty;
use lh_sys::records::{Entry, Last, Records};
use lh_sys::time::now_unix;
use lh_sys::users::User;

use super::{Monitor, Stage, Unexpected};
use crate::key_options::KeyOptions;
use crate::log::debug;

/// Terminals one connection may have recorded at a time. More than users open; terminals beyond it work
/// without a record.
const MOST: usize = 64;

/// The terminals in use.
#[derive(Debug, Default)]
pub(super) struct Presence {
    user: Option<User>,
    show_last: bool,
    /// The session may have a terminal, and is inside a chroot that may lack them.
    allocates: bool,
    lines: Vec<(String, u32)>,
}

impl Presence {
    pub(super) fn logged_in(&mut self, user: &User, settings: &ServerSettings, options: &KeyOptions) {
        self.user = Some(user.clone());
        self.show_last = settings.print_last_log.value;
        let allowed = settings.permit_tty.value && options.pty;
        self.allocates = allowed && settings.chroot_directory.as_deref().is_some();
    }
}

/// Whether `line` (`pts/3`) is a terminal of this user: no user may record a login at another's.
fn is_own_terminal(line: &str, user: &User) -> bool {
    let number = line.strip_prefix("pts/").unwrap_or_default();
    let sound = (1..=10).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    let device = || std::fs::symlink_metadata(Path::new("/dev").join(line));
    sound && device().is_ok_and(|device| device.file_type().is_char_device() && device.uid() == user.uid)
}

impl Monitor {
    /// Allocates a terminal outside of the session's chroot, which belongs to the user.
    ///
    /// # Errors
    /// Outside: this session is not to ask for one. Inside: there is none.
    pub(crate) fn terminal(&self) -> Result<io::Result<Pty>, Unexpected> {
        if self.stage != Stage::Over {
            return Err(Unexpected::Time);
        }
        let user = self.presence.user.as_ref().filter(|_| self.presence.allocates);
        let uid = user.ok_or(Unexpected::Terminal)?.uid;
        Ok(Pty::allocate().and_then(|pty| {
            pty.set_owner(uid)?;
            Ok(pty)
        }))
    }

    /// Records that the user sits at a terminal now. Returns when he was here last, if he is to be told.
    ///
    /// # Errors
    /// The login is not complete, or it is not the user's terminal.
    pub(crate) fn arrived(&mut self, line: &str, pid: u32) -> Result<Option<Last>, Unexpected> {
        if self.stage != Stage::Over {
            return Err(Unexpected::Time);
        }
        let user = self.presence.user.as_ref().ok_or(Unexpected::Time)?;
        if !is_own_terminal(line, user) {
            return Err(Unexpected::Terminal);
        }
        let records = Records::of_the_system();
        let last = records.last(user.uid).filter(|_| self.presence.show_last);
        if self.presence.lines.len() < MOST {
            let host = self.origin().to_string();
            let address = Some(self.peer.ip());
            let entry = Entry { user: &user.name, line, host: &host, address, pid, time: now_unix() };
            if let Err(problem) = records.login(user.uid, &entry) {
                debug!(self.log, "record of the login: {problem}");
            }
            self.presence.lines.push((line.to_owned(), pid));
        }
        Ok(last)
    }

    /// Records that a terminal is free again; all of them when `line` is `None`.
    pub(crate) fn left(&mut self, line: Option<&str>) {
        let (gone, stay) = std::mem::take(&mut self.presence.lines)
            .into_iter()
            .partition(|(known, _)| line.is_none_or(|line| line == known));
        self.presence.lines = stay;
        let gone: Vec<(String, u32)> = gone;
        for (line, pid) in gone {
            if let Err(problem) = Records::of_the_system().logout(&line, pid, now_unix()) {
                debug!(self.log, "record of the logout: {problem}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_user_s_own_terminals() {
        let me = lh_sys::users::current().unwrap().unwrap();
        let nobody = User { uid: 12_345, ..me.clone() };
        if let Ok(pty) = lh_sys::pty::Pty::allocate() {
            let name = pty.name().strip_prefix("/dev").unwrap().display().to_string();
            assert!(is_own_terminal(&name, &me));
            assert!(!is_own_terminal(&name, &nobody));
        }
        for line in
            ["", "pts/", "tty1", "pts/../null", "null", "pts/ptmx", "../etc/passwd", "pts/99999999999"]
        {
            assert!(!is_own_terminal(line, &me), "{line}");
        }
    }
}
