//! Changes of user and group ids, for a few file accesses or permanently.
//!
//! The kernel keeps ids per thread; the C library's calls used here change every thread of the process. They
//! are still meant for a process with one thread (the session before authentication): other threads do not
//! expect their ids to change.
#![expect(unsafe_code, reason = "process-wide changes of ids exist only in the C library")]

use std::io;

use rustix::process::{getegid, geteuid, getgid, getuid};

use crate::users::{User, groups_of};

/// The ids that decide what a process may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Ids {
    /// The ids that a login of `user` gets. The groups come from the name service switch.
    pub fn of(user: &User) -> io::Result<Self> {
        Ok(Self { uid: user.uid, gid: user.gid, groups: groups_of(user)? })
    }
}

/// True when the process runs with root's effective id.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Runs `work` with the effective ids of a user, so that the user's file permissions apply (also on an NFS
/// server). Without root's rights `work` runs with the current ids.
///
/// # Aborts
/// The process aborts when the former ids cannot be restored: it must not continue with unknown ids.
pub fn with_effective<T>(ids: &Ids, work: impl FnOnce() -> T) -> io::Result<T> {
    if !is_root() || ids.uid == 0 {
        return Ok(work());
    }
    let guard = Restore { uid: geteuid().as_raw(), gid: getegid().as_raw(), groups: current_groups()? };
    set_groups(&ids.groups)?;
    // SAFETY: no memory is involved.
    check(unsafe { libc::setegid(ids.gid) })?;
    // SAFETY: no memory is involved.
    check(unsafe { libc::seteuid(ids.uid) })?;
    let result = work();
    drop(guard);
    Ok(result)
}

struct Restore {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl Drop for Restore {
    fn drop(&mut self) {
        // SAFETY: no memory is involved.
        let restored = unsafe { libc::seteuid(self.uid) == 0 && libc::setegid(self.gid) == 0 }
            && set_groups(&self.groups).is_ok();
        if !restored {
            std::process::abort();
        }
    }
}

/// Becomes the user permanently: changes groups, then group id, then user id (real, effective and saved), and
/// then verifies that the former ids cannot be restored.
///
/// Without root's rights this succeeds only for the ids that the process has already.
pub fn become_permanently(ids: &Ids) -> io::Result<()> {
    let (old_uid, old_gid) = (getuid().as_raw(), getgid().as_raw());
    if is_root() {
        set_groups(&ids.groups)?;
    } else if ids.uid != old_uid || geteuid().as_raw() != ids.uid {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "only root can become another user"));
    }
    if is_root() || getegid().as_raw() != ids.gid {
        // SAFETY: no memory is involved.
        check(unsafe { libc::setresgid(ids.gid, ids.gid, ids.gid) })?;
    }
    // SAFETY: no memory is involved.
    check(unsafe { libc::setresuid(ids.uid, ids.uid, ids.uid) })?;
    let now = [getuid(), geteuid()].map(|id| id.as_raw());
    let group_now = [getgid(), getegid()].map(|id| id.as_raw());
    if now != [ids.uid; 2] || group_now != [ids.gid; 2] {
        return Err(io::Error::other("ids did not change"));
    }
    if ids.uid != 0 {
        // SAFETY: no memory is involved.
        let back = unsafe {
            (old_gid != ids.gid && old_uid == 0 && libc::setegid(old_gid) == 0)
                || (old_uid != ids.uid && (libc::setuid(old_uid) == 0 || libc::seteuid(old_uid) == 0))
        };
        if back {
            return Err(io::Error::other("the former ids could be taken back"));
        }
    }
    Ok(())
}

/// Sets the groups of a login before its other ids: PAM modules that establish credentials add to them.
///
/// # Errors
/// The process is not root.
pub fn take_groups(ids: &Ids) -> io::Result<()> {
    set_groups(&ids.groups)
}

/// The supplementary groups of this process.
pub fn current_groups() -> io::Result<Vec<u32>> {
    Ok(rustix::process::getgroups()?.into_iter().map(|gid| gid.as_raw()).collect())
}

fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: pointer and length belong to the same slice.
    check(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })
}

fn check(status: libc::c_int) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    /// Returns true in a child that runs this test alone. Elsewhere runs that child: ids are process-wide,
    /// and tests share a process.
    fn is_child(test: &str) -> bool {
        const CHILD: &str = "LH_SYS_TEST_IDS";
        if std::env::var_os(CHILD).is_some() {
            return true;
        }
        if !is_root() {
            lh_testkit::skip(test, "changing ids needs root");
            return false;
        }
        let name = format!("ids::tests::{test}");
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", &name, "--nocapture"]).env(CHILD, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("1 passed"), "{text}");
        false
    }

    #[test]
    fn effective_ids_apply_and_are_restored() {
        if !is_child("effective_ids_apply_and_are_restored") {
            return;
        }
        let nobody = crate::users::by_name(OsStr::new("nobody")).unwrap().unwrap();
        let ids = Ids::of(&nobody).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let secret = directory.path().join("secret");
        std::fs::write(&secret, "x").unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
        let before = current_groups().unwrap();
        let (read, made) = with_effective(&ids, || {
            let made = directory.path().join("made");
            std::fs::write(&made, "y").unwrap();
            (std::fs::read(&secret), made)
        })
        .unwrap();
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(std::fs::metadata(made).unwrap().uid(), nobody.uid);
        assert!(is_root());
        assert_eq!(current_groups().unwrap(), before);
    }

    #[test]
    fn permanent_change_cannot_be_undone() {
        if !is_child("permanent_change_cannot_be_undone") {
            return;
        }
        let nobody = crate::users::by_name(OsStr::new("nobody")).unwrap().unwrap();
        become_permanently(&Ids::of(&nobody).unwrap()).unwrap();
        assert_eq!(std::fs::read("/etc/shadow").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let uids = status.lines().find(|line| line.starts_with("Uid:")).unwrap().to_owned();
        assert!(uids.split_whitespace().skip(1).all(|id| id == nobody.uid.to_string()), "{uids}");
        assert!(become_permanently(&Ids { uid: 0, gid: 0, groups: vec![] }).is_err());
    }
}
