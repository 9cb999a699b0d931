//! Names and times that the engine asks the host for: users, groups, home directories, clocks.

use std::time::Duration;

/// Names and times of the host. The engine caches names of ids for the session.
pub trait Lookup: Send {
    /// Returns the name of a user id.
    fn user_name(&mut self, uid: u32) -> Option<String>;
    /// Returns the name of a group id.
    fn group_name(&mut self, gid: u32) -> Option<String>;
    /// Returns the home directory of a user, or of the logged-in user if `user` is empty.
    fn home(&mut self, user: &[u8]) -> Option<Vec<u8>>;
    /// Returns the time since a fixed moment, by a clock that never goes back. The engine reads it once for
    /// each request, to measure how long the request took.
    fn clock(&mut self) -> Duration;
    /// Returns the seconds since 1970, for the age of files in listings.
    fn now(&mut self) -> i64;
    /// Returns the seconds east of UTC at `time`, for the times in listings.
    fn utc_offset(&mut self, _time: i64) -> i32 {
        0
    }
}
