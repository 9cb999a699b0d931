//! User and group ids of the pre-auth process: those of an account that owns nothing.

use std::io;

use lh_sys::ids::{Ids, is_root};
use lh_sys::users::{self, User};

/// Accounts that own nothing, in order of preference: our package's, then OpenSSH's.
const USERS: [&str; 3] = ["lhsshd", "sshd", "nobody"];

/// The ids where none of these accounts exists: the kernel's overflow ids ("nobody").
const NOBODY: u32 = 65_534;

/// Why there are no usable ids.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoIds {
    /// The name service lookup failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The account has root's ids, which would protect nothing.
    #[error("user {0} is root")]
    Root(&'static str),
}

/// Returns the ids for all pre-auth processes of a listener.
///
/// Looked up once, because a lookup in each process costs more than a hundred system calls: it loads every
/// module of `/etc/nsswitch.conf` in front of the answer.
///
/// `None`: the listener does not run as root, or its lookup failed. Each process then looks up the ids
/// itself; if that fails too, it reports the error and refuses the connection.
pub fn preauth_ids() -> Option<Ids> {
    if is_root() { look_up().ok() } else { None }
}

/// Looks up the account and returns its ids.
pub(crate) fn look_up() -> Result<Ids, NoIds> {
    choose(|name| users::by_name(name.as_ref()))
}

fn choose(mut by_name: impl FnMut(&str) -> io::Result<Option<User>>) -> Result<Ids, NoIds> {
    for name in USERS {
        if let Some(user) = by_name(name)? {
            if user.uid == 0 {
                return Err(NoIds::Root(name));
            }
            return Ok(Ids { uid: user.uid, gid: user.gid, groups: Vec::new() });
        }
    }
    Ok(Ids { uid: NOBODY, gid: NOBODY, groups: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str, uid: u32) -> User {
        User {
            name: name.into(),
            uid,
            gid: uid + 1,
            home: "/".into(),
            shell: "/bin/false".into(),
            gecos: String::new(),
        }
    }

    #[test]
    fn first_account_that_exists_is_used() {
        let ids = choose(|name| Ok((name != "lhsshd").then(|| account(name, 7)))).unwrap();
        assert_eq!((ids.uid, ids.gid), (7, 8));
        assert!(ids.groups.is_empty());
        let ids = choose(|_| Ok(None)).unwrap();
        assert_eq!((ids.uid, ids.gid), (NOBODY, NOBODY));
    }

    #[test]
    fn account_with_root_ids_is_refused() {
        let error = choose(|name| Ok(Some(account(name, 0)))).unwrap_err();
        assert_eq!(error.to_string(), "user lhsshd is root");
        assert!(choose(|_| Err(io::Error::other("no answer"))).is_err());
    }
}
