//! Exit statuses of a session's monitor: those of OpenSSH's sshd-session. The listener's penalties depend on
//! them.

/// `LoginGraceTime` is over.
pub(crate) const EXIT_GRACE: i32 = 3;
/// The pre-auth process has crashed.
pub(crate) const EXIT_CRASH: i32 = 4;
/// Logins were tried, and none succeeded.
pub(crate) const EXIT_AUTH_ATTEMPTED: i32 = 5;
/// `RefuseConnection` refuses the connection.
pub(crate) const EXIT_REFUSED: i32 = 6;
/// A login was tried as a user who does not exist.
pub(crate) const EXIT_INVALID_USER: i32 = 7;
/// `LoginGraceTime` is over, and logins were tried. Longhaul's own: sshd-session has [`EXIT_GRACE`] for both
/// cases, but a client whose network failed has tried nothing.
pub(crate) const EXIT_GRACE_ATTEMPTED: i32 = 8;
/// Logins were begun, and none failed: the client asked for methods, offered acceptable keys, or sent no
/// password. Longhaul's own: sshd-session has [`EXIT_FAILURE`], as for connections without a request.
pub(crate) const EXIT_LOGIN_BEGUN: i32 = 9;
/// `LoginGraceTime` is over, and logins were begun. Longhaul's own, like [`EXIT_LOGIN_BEGUN`].
pub(crate) const EXIT_GRACE_LOGIN_BEGUN: i32 = 10;
/// The session ended with an error that no other status names.
pub(crate) const EXIT_FAILURE: i32 = 255;
