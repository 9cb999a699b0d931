//! Checks that protocol crates do no I/O: bytes and time are arguments, bytes and events are results.

use super::source::Files;
use crate::workspace::shown;

/// Crates that use no sockets, files, clocks, threads or processes.
const SANS_IO: &[&str] = &[
    "crates/wire",
    "crates/agent",
    "crates/auth",
    "crates/connection",
    "crates/resume",
    "crates/sftp",
    "crates/transport",
];

/// Paths that sans-IO crates must not use.
const FORBIDDEN: &[&str] = &[
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::net::ToSocketAddrs",
    "std::os::unix::net",
    "std::fs",
    "std::thread",
    "std::process",
    "std::env",
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "rustix",
    "lh_sys",
];

/// Names below [`FORBIDDEN`] paths that are allowed, because they only denote values: the system's error
/// numbers.
const VALUES: &[&str] = &["rustix::io::Errno"];

/// Adds to `wrong` every forbidden path of a sans-IO crate.
pub(super) fn check(name: &str, files: &Files, wrong: &mut Vec<String>) {
    if !SANS_IO.contains(&name) {
        return;
    }
    for (file, path) in files.paths() {
        if is_forbidden(&path) {
            wrong.push(format!("{}: {path} in a crate without I/O", shown(file)));
        }
    }
}

fn is_forbidden(path: &str) -> bool {
    let is_below = |above: &&str| {
        path.strip_prefix(*above).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    FORBIDDEN.iter().any(is_below) && !VALUES.iter().any(is_below)
}

#[cfg(test)]
mod tests {
    use super::is_forbidden;

    #[test]
    fn forbidden_path_covers_its_subpaths() {
        assert!(is_forbidden("std::fs"));
        assert!(is_forbidden("std::fs::read"));
        assert!(is_forbidden("std::time::Instant::now"));
        assert!(!is_forbidden("std::time::Instant"));
        assert!(!is_forbidden("std::fsync"));
    }

    #[test]
    fn error_numbers_are_values_and_calls_are_not() {
        assert!(!is_forbidden("rustix::io::Errno") && !is_forbidden("rustix::io::Errno::NOENT"));
        assert!(is_forbidden("rustix::io") && is_forbidden("rustix::io::read") && is_forbidden("rustix"));
    }
}
