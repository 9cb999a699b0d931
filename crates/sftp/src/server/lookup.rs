//! Names and times that the host knows and the engine wants: users, groups, home directories, clocks.

use std::time::Duration;

/// Answers of the host. The engine caches names of ids for the session.
pub trait Lookup: Send {
    /// The name of a user id.
    fn user_name(&mut self, uid: u32) -> Option<String>;
    /// The name of a group id.
    fn group_name(&mut self, gid: u32) -> Option<String>;
    /// The home directory of a user, or of the one logged in when `user` is empty.
    fn home(&mut self, user: &[u8]) -> Option<Vec<u8>>;
    /// Time since a fixed moment, by a clock that never goes back: tells how long a request took. It is read once
    /// for each request.
    fn clock(&mut self) -> Duration;
    /// Seconds since 1970, for the age of files in listings.
    fn now(&mut self) -> i64;
    /// Seconds east of UTC at `time`, for the times in listings.
    fn utc_offset(&mut self, _time: i64) -> i32 {
        0
    }
}
