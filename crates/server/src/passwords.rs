//! Checks passwords against the shadow database, at the same cost whether or not the user exists.

use std::sync::OnceLock;

use lh_sys::{crypt, users};
use zeroize::Zeroizing;

use crate::log::{Log, error};

/// Longest password that is checked, bytes; OpenSSH's limit.
const LONGEST: usize = 1024;

/// Longest password that every crypt(3) takes, bytes; libxcrypt takes 511. That a longer one fails says
/// nothing about the hash.
const LONGEST_HASHED: usize = 255;

/// Hash setting for users that do not exist: Debian's default.
const FAKE_SETTING: &[u8] = b"$y$j9T$u9sNqwqkE3SNHbKFUHhwk.$";

/// Returns whether `hash` is the hash of `password`. `None` stands for a user without a hash, or a missing
/// user: the result is false, after the same work.
pub(crate) fn check(password: &[u8], hash: Option<&[u8]>, log: &Log) -> bool {
    if password.len() > LONGEST {
        return false;
    }
    match hash {
        // An account without a password. The caller decides whether it may log in.
        Some(b"") => password.is_empty(),
        Some(hash) if hash.starts_with(b"$") || hash.len() == 13 => match crypt::verify(password, hash) {
            Ok(right) => right,
            Err(_) if password.len() > LONGEST_HASHED => false,
            Err(problem) => {
                error!(log, "password hash cannot be checked: {problem}");
                false
            }
        },
        _ => {
            let _ = crypt::hash_with(password, fake_setting());
            false
        }
    }
}

/// Returns the setting of root's own hash, which the host's other users probably share, or a default.
fn fake_setting() -> &'static [u8] {
    static SETTING: OnceLock<Zeroizing<Vec<u8>>> = OnceLock::new();
    SETTING.get_or_init(|| {
        let root = users::shadow("root").ok().flatten();
        match root {
            Some(shadow) if shadow.hash.starts_with(b"$") => shadow.hash.clone(),
            _ => Zeroizing::new(FAKE_SETTING.to_vec()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Level;

    #[test]
    fn right_wrong_locked_and_missing() {
        let log = Log::lines(Level::Info);
        let hash = crypt::hash_with(b"secret", FAKE_SETTING).unwrap().unwrap();
        assert!(check(b"secret", Some(&hash), &log));
        assert!(!check(b"Secret", Some(&hash), &log));
        assert!(!check(b"", Some(&hash), &log));
        for length in [511, 512, 1024, 1025] {
            assert!(!check(&vec![b'x'; length], Some(&hash), &log));
        }
        let mut locked = b"!".to_vec();
        locked.extend_from_slice(&hash);
        for hash in [&locked[..], b"!", b"*", b"x"] {
            assert!(!check(b"secret", Some(hash), &log));
            assert!(!check(b"", Some(hash), &log));
        }
        assert!(!check(b"secret", None, &log));
        assert!(check(b"", Some(b""), &log));
        assert!(!check(b"x", Some(b""), &log));
        assert_eq!(log.taken(), Vec::<String>::new());
        assert!(!check(b"x", Some(b"$unknown$x"), &log));
        assert_eq!(log.taken().len(), 1);
    }
}
