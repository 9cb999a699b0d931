//! Names of users and groups from the name service switch.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lh_sftp::server::Lookup;
use lh_sys::users::{self, User};

/// User and group database of the host.
#[derive(Debug, Clone)]
pub struct HostNames {
    home: PathBuf,
    started: Instant,
}

impl HostNames {
    /// Creates the database view of `user`.
    pub fn new(user: &User) -> Self {
        Self { home: user.home.clone(), started: Instant::now() }
    }
}

impl Lookup for HostNames {
    fn user_name(&mut self, uid: u32) -> Option<String> {
        users::by_uid(uid).ok().flatten().map(|user| user.name)
    }

    fn group_name(&mut self, gid: u32) -> Option<String> {
        users::group_by_gid(gid).ok().flatten().map(|group| group.name)
    }

    fn home(&mut self, user: &[u8]) -> Option<Vec<u8>> {
        if user.is_empty() {
            return Some(self.home.clone().into_os_string().into_vec());
        }
        let user = users::by_name(OsStr::from_bytes(user)).ok().flatten()?;
        Some(user.home.into_os_string().into_vec())
    }

    fn clock(&mut self) -> Duration {
        self.started.elapsed()
    }

    fn now(&mut self) -> i64 {
        lh_sys::time::now_unix()
    }

    fn utc_offset(&mut self, time: i64) -> i32 {
        lh_sys::time::utc_offset(time)
    }
}
