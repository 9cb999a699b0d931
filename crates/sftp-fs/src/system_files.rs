//! User and group names of the host's own files.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lh_sftp::server::Lookup;

/// Looks names up in `/etc/passwd` and `/etc/group` directly, each read once: for tests, and for hosts
/// without name services. Times are in UTC.
#[derive(Debug, Clone)]
pub struct SystemFiles {
    passwd: Option<Vec<u8>>,
    group: Option<Vec<u8>>,
    started: Instant,
}

impl Default for SystemFiles {
    fn default() -> Self {
        Self::new()
    }
}

impl SystemFiles {
    /// Creates the table. The files are read at the first look-up.
    pub fn new() -> Self {
        Self { passwd: None, group: None, started: Instant::now() }
    }

    /// Returns the line of `table` whose field number `at` is `key`.
    fn line<'t>(table: &'t [u8], at: usize, key: &[u8]) -> Option<Vec<&'t [u8]>> {
        table
            .split(|&byte| byte == b'\n')
            .map(|line| line.split(|&byte| byte == b':').collect::<Vec<_>>())
            .find(|fields| fields.get(at) == Some(&key))
    }

    fn passwd(&mut self) -> &[u8] {
        self.passwd.get_or_insert_with(|| std::fs::read("/etc/passwd").unwrap_or_default())
    }

    fn group(&mut self) -> &[u8] {
        self.group.get_or_insert_with(|| std::fs::read("/etc/group").unwrap_or_default())
    }
}

impl Lookup for SystemFiles {
    fn user_name(&mut self, uid: u32) -> Option<String> {
        let fields = Self::line(self.passwd(), 2, uid.to_string().as_bytes())?;
        Some(String::from_utf8_lossy(fields.first()?).into_owned())
    }

    fn group_name(&mut self, gid: u32) -> Option<String> {
        let fields = Self::line(self.group(), 2, gid.to_string().as_bytes())?;
        Some(String::from_utf8_lossy(fields.first()?).into_owned())
    }

    fn home(&mut self, user: &[u8]) -> Option<Vec<u8>> {
        let fields = if user.is_empty() {
            let uid = rustix::process::getuid().as_raw().to_string();
            Self::line(self.passwd(), 2, uid.as_bytes())?
        } else {
            Self::line(self.passwd(), 0, user)?
        };
        fields.get(5).map(|home| home.to_vec())
    }

    fn clock(&mut self) -> Duration {
        self.started.elapsed()
    }

    fn now(&mut self) -> i64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |passed| i64::try_from(passed.as_secs()).unwrap_or(i64::MAX))
    }
}
