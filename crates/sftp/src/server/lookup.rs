//! Names and times that the host knows and the protocol wants: users, groups, home directories, local time.

/// Answers of the host. Answers are cached by the engine for the session.
pub trait Lookup {
    /// The name of a user id.
    fn user_name(&mut self, uid: u32) -> Option<String>;
    /// The name of a group id.
    fn group_name(&mut self, gid: u32) -> Option<String>;
    /// The home directory of a user, or of the one logged in when `user` is empty.
    fn home(&mut self, user: &[u8]) -> Option<Vec<u8>>;
    /// Seconds since 1970, for the age of files in listings.
    fn now(&mut self) -> i64;
    /// Seconds east of UTC at `time`, for the times in listings.
    fn utc_offset(&mut self, _time: i64) -> i32 {
        0
    }
}

/// Reads `/etc/passwd` and `/etc/group` themselves: for tests and for hosts without name services.
#[derive(Debug, Clone, Default)]
pub struct SystemFiles {}
