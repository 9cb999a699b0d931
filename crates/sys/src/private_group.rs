//! Groups of one user: Debian, Red Hat and others give each user a group of the same name, and files that the
//! user makes with the umask 002 are writable by it.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

#[cfg(target_os = "linux")]
use rustix::io::Errno;

use crate::users::{self, User};

/// A file whose access control list is looked up.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// An open file.
    Open(&'a File),
    /// What is at a path, through links.
    At(&'a Path),
}

/// Returns whether only `uid` and root can write this file by its mode: it belongs to one of them, and if its
/// group may write, that is the user's own group ([`is_private`]) and no access control list names
/// others.
pub fn only_owner_writes(metadata: &Metadata, place: Place<'_>, uid: u32) -> bool {
    const GROUP_WRITES: u32 = 0o020;
    const OTHERS_WRITE: u32 = 0o002;
    let mode = metadata.mode();
    let is_owned = metadata.uid() == 0 || metadata.uid() == uid;
    let is_private = || metadata.uid() == uid && !has_list(place) && is_private(metadata.gid(), uid);
    is_owned && mode & OTHERS_WRITE == 0 && (mode & GROUP_WRITES == 0 || is_private())
}

/// Returns whether a group is the user's own: his primary one, of his name, without another member.
///
/// Users whose primary group it is are found in `/etc/passwd` alone: other sources of users cannot be listed
/// as a rule. What cannot be looked up counts as another member.
pub fn is_private(gid: u32, uid: u32) -> bool {
    let Ok(Some(user)) = users::by_uid(uid) else { return false };
    let Ok(Some((name, members))) = users::members_of_group(gid) else { return false };
    let Ok(local) = std::fs::read("/etc/passwd") else { return false };
    user.gid == gid && name == user.name && is_only_member(&user, &members, &local)
}

/// `local`: the text of `/etc/passwd`.
fn is_only_member(user: &User, members: &[String], local: &[u8]) -> bool {
    let has_it_as_primary = |line: &str| {
        let mut numbers = line.split(':').skip(2).map(str::parse::<u32>);
        let (uid, gid) = (numbers.next(), numbers.next());
        gid == Some(Ok(user.gid)) && uid != Some(Ok(user.uid))
    };
    members.iter().all(|member| *member == user.name)
        && !String::from_utf8_lossy(local).lines().any(has_it_as_primary)
}

/// An error counts as a list, unless there are none on that file system.
#[cfg(target_os = "linux")]
fn has_list(place: Place<'_>) -> bool {
    const LIST: &str = "system.posix_acl_access";
    let mut nothing: [u8; 0] = [];
    let size = match place {
        Place::Open(file) => rustix::fs::fgetxattr(file, LIST, &mut nothing),
        Place::At(path) => rustix::fs::getxattr(path, LIST, &mut nothing),
    };
    !matches!(size, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

/// Lists are looked up on Linux only.
#[cfg(not(target_os = "linux"))]
fn has_list(_: Place<'_>) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const PASSWD: &[u8] = b"root:x:0:0:root:/root:/bin/sh\nada:x:1000:1001::/home/ada:/bin/sh\n\nbroken\n";

    fn ada() -> User {
        User {
            name: "ada".to_owned(),
            uid: 1000,
            gid: 1001,
            home: "/home/ada".into(),
            shell: "/bin/sh".into(),
            gecos: String::new(),
        }
    }

    #[test]
    fn a_group_is_private_while_it_has_one_member() {
        let of = |members: &[&str], more: &str| {
            let members: Vec<String> = members.iter().map(|name| (*name).to_owned()).collect();
            is_only_member(&ada(), &members, &[PASSWD, more.as_bytes()].concat())
        };
        assert!(of(&[], "") && of(&["ada"], "bob:x:1002:1002::/:/bin/sh\n"));
        // The same user by another name.
        assert!(of(&[], "countess:x:1000:1001::/home/ada:/bin/sh\n"));
        assert!(!of(&["bob"], "") && !of(&["ada", "bob"], ""));
        assert!(!of(&[], "bob:x:1002:1001::/home/bob:/bin/sh\n"));
        // A user whose number cannot be read is another one.
        assert!(!of(&[], "bob:x::1001::/home/bob:/bin/sh\n"));
    }

    #[test]
    fn others_and_lists_are_never_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let (path, uid) = (directory.path().join("file"), rustix::process::geteuid().as_raw());
        std::fs::write(&path, "text").unwrap();
        let check = |mode: u32, uid: u32| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let file = File::open(&path).unwrap();
            let metadata = file.metadata().unwrap();
            let answers =
                [Place::Open(&file), Place::At(&path)].map(|place| only_owner_writes(&metadata, place, uid));
            assert_eq!(answers[0], answers[1], "{mode:o}");
            answers[0]
        };
        assert!(check(0o644, uid) && check(0o600, uid));
        assert!(!check(0o646, uid) && !check(0o666, uid));
        // Not another user's file, with any mode; root's is trusted for all.
        assert_eq!(check(0o644, uid + 12345), uid == 0);
        assert!(!check(0o664, uid + 12345));
        assert_eq!(check(0o664, uid), is_private(std::fs::metadata(&path).unwrap().gid(), uid));
    }
}
