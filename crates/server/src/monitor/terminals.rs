//! The terminals of a session that the monitor keeps records of.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Instant;

use lh_config::server_table::ServerSettings;
use lh_sys::users::User;

use super::recordings::Recordings;
use crate::key_options::KeyOptions;
use crate::log_budget::LogBudget;

/// Largest number of terminals of one connection that have records at a time. More than users open; further
/// terminals work without a record.
const MOST: usize = 64;

/// The terminals in use, and the user who may have them.
#[derive(Debug, Default)]
pub(super) struct UserTerminals {
    pub(super) user: Option<User>,
    pub(super) show_last: bool,
    /// The session may have a terminal, but its chroot may have no devices for them.
    pub(super) allocates: bool,
    pub(super) lines: Vec<(String, u32)>,
    /// The records of logins that this connection may still write.
    pub(super) budget: LogBudget,
    pub(super) recordings: Recordings,
    /// The recordings that this connection may still have.
    pub(super) recording_budget: LogBudget,
}

impl UserTerminals {
    pub(super) fn logged_in(&mut self, user: &User, settings: &ServerSettings, options: &KeyOptions) {
        self.user = Some(user.clone());
        self.show_last = settings.print_last_log.value;
        let allowed = settings.permit_tty.value && options.pty;
        self.recordings = Recordings::new(settings);
        self.allocates = allowed && settings.chroot_directory.as_deref().is_some();
    }

    /// Decides whether one more login is recorded: terminals that come and go, or are said to, must not fill
    /// a disk.
    pub(super) fn may_record(&mut self, now: Instant) -> bool {
        self.lines.len() < MOST && self.budget.spend(now).is_some()
    }
}

/// Returns whether `line` (`pts/3`) is a terminal of this user: no user may record a login at another's.
pub(super) fn is_own_terminal(line: &str, user: &User) -> bool {
    let number = line.strip_prefix("pts/").unwrap_or_default();
    let sound = (1..=10).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    let device = || std::fs::symlink_metadata(Path::new("/dev").join(line));
    sound && device().is_ok_and(|device| device.file_type().is_char_device() && device.uid() == user.uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_that_come_and_go_fill_no_disk() {
        let (mut terminals, now) = (UserTerminals::default(), Instant::now());
        assert_eq!((0..10_000).filter(|_| terminals.may_record(now)).count(), 100);
        assert!(terminals.may_record(now + std::time::Duration::from_secs(60)));
        let mut full = UserTerminals::default();
        full.lines.extend((0..64).map(|number| (format!("pts/{number}"), 1)));
        assert!(!full.may_record(now));
    }

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
