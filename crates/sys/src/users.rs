//! Users, groups and shadow entries through the name service switch.
//!
//! Uses the re-entrant functions of the C library, which consult every source in `nsswitch.conf` (files,
//! LDAP, SSSD).
#![expect(unsafe_code, reason = "getpwnam_r and its relatives exist only in the C library")]

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use zeroize::Zeroizing;

/// Upper limit of the buffer for one entry, bytes; it is doubled up to this size. A larger entry is an error
/// (`ERANGE`).
const LARGEST_ENTRY: usize = 1 << 20;

/// A line of the password database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The login name.
    pub name: String,
    /// The user id.
    pub uid: u32,
    /// The primary group id.
    pub gid: u32,
    /// The home directory.
    pub home: PathBuf,
    /// The login shell. An empty field in the database means `/bin/sh`, which is stored here.
    pub shell: PathBuf,
    /// The comment field, usually the full name.
    pub gecos: String,
}

/// A line of the group database, without its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The name.
    pub name: String,
    /// The group id.
    pub gid: u32,
}

/// Entry of the shadow database: a password and its validity.
///
/// Days count from 1970-01-01; negative values in the database (not set) become `None`.
#[cfg(target_os = "linux")]
#[derive(Clone)]
pub struct Shadow {
    /// The hash in `crypt(3)` form, or a string that no password hashes to (`!`, `*`, `!!`).
    pub hash: Zeroizing<Vec<u8>>,
    /// Day of the last change; 0 means that the password must be changed at the next login.
    pub last_change: Option<i64>,
    /// Validity of a password, days.
    pub max_days: Option<i64>,
    /// Days after its expiry in which a password is still accepted.
    pub inactive_days: Option<i64>,
    /// Day on which the user account expires.
    pub expires: Option<i64>,
}

/// The user of this name; `None` when there is none.
pub fn by_name(name: &OsStr) -> io::Result<Option<User>> {
    let Ok(name) = CString::new(name.as_bytes()) else { return Ok(None) };
    with_buffer(|buffer| {
        // SAFETY: all-zero bytes are a valid `passwd`: integers and null pointers.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: every pointer is valid for the call, and the length is the buffer's own.
        let status = unsafe {
            libc::getpwnam_r(name.as_ptr(), &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found)
        };
        // SAFETY: when `found` is set, the strings in `entry` point into `buffer`, which is still alive.
        answer(status, found.is_null(), || unsafe { user_from(&entry) })
    })
}

/// The user with this id; `None` when there is none.
pub fn by_uid(uid: u32) -> io::Result<Option<User>> {
    with_buffer(|buffer| {
        // SAFETY: all-zero bytes are a valid `passwd`: integers and null pointers.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: every pointer is valid for the call, and the length is the buffer's own.
        let status =
            unsafe { libc::getpwuid_r(uid, &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found) };
        // SAFETY: when `found` is set, the strings in `entry` point into `buffer`, which is still alive.
        answer(status, found.is_null(), || unsafe { user_from(&entry) })
    })
}

/// The user this process runs as (real id).
pub fn current() -> io::Result<Option<User>> {
    by_uid(rustix::process::getuid().as_raw())
}

/// The group with this id; `None` when there is none.
pub fn group_by_gid(gid: u32) -> io::Result<Option<Group>> {
    // SAFETY: the entry's name is a valid string.
    entry_of_group(gid, |entry| Group { name: unsafe { text(entry.gr_name) }, gid: entry.gr_gid })
}

/// The name of the group with this id, and the members that the group database lists; `None` when there is no
/// such group. Users whose primary group it is need not be listed.
pub fn members_of_group(gid: u32) -> io::Result<Option<(String, Vec<String>)>> {
    entry_of_group(gid, |entry| {
        // SAFETY: the entry's name is a valid string.
        let name = unsafe { text(entry.gr_name) };
        let mut members = Vec::new();
        let mut next = entry.gr_mem;
        // SAFETY: `gr_mem` is an array of pointers to strings that ends with a null pointer, or null itself.
        while !next.is_null() && !unsafe { *next }.is_null() {
            // SAFETY: as above; the string is one of the array.
            members.push(unsafe { text(*next) });
            // SAFETY: the element before the terminating null pointer has a successor.
            next = unsafe { next.add(1) };
        }
        (name, members)
    })
}

/// Looks up a group's entry, whose strings are valid while `read` runs.
fn entry_of_group<T>(gid: u32, read: impl Fn(&libc::group) -> T) -> io::Result<Option<T>> {
    with_buffer(|buffer| {
        // SAFETY: all-zero bytes are a valid `group`: integers and null pointers.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: every pointer is valid for the call, and the length is the buffer's own. The strings of a
        // found entry point into `buffer`, which outlives the call of `read`.
        let status =
            unsafe { libc::getgrgid_r(gid, &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found) };
        answer(status, found.is_null(), || read(&entry))
    })
}

/// The group of this name; `None` when there is none.
pub fn group_by_name(name: &str) -> io::Result<Option<Group>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    with_buffer(|buffer| {
        // SAFETY: all-zero bytes are a valid `group`: integers and null pointers.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: every pointer is valid for the call, and the length is the buffer's own.
        let status = unsafe {
            libc::getgrnam_r(name.as_ptr(), &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found)
        };
        // SAFETY: when `found` is set, `gr_name` points into `buffer`, which is still alive.
        answer(status, found.is_null(), || Group { name: unsafe { text(entry.gr_name) }, gid: entry.gr_gid })
    })
}

/// All groups of a user, the primary one included.
pub fn groups_of(user: &User) -> io::Result<Vec<u32>> {
    let name = CString::new(user.name.as_str()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut groups: Vec<libc::gid_t> = vec![0; 32];
    loop {
        let mut count = c_int::try_from(groups.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // macOS declares group ids as signed numbers of the same size here.
        let (first, list) = (user.gid as _, groups.as_mut_ptr().cast());
        // SAFETY: `count` is the length of `groups`; the call writes no more than that many.
        let status = unsafe { libc::getgrouplist(name.as_ptr(), first, list, &mut count) };
        let wanted = usize::try_from(count).unwrap_or(0);
        if status >= 0 {
            groups.truncate(wanted);
            return Ok(groups);
        }
        if groups.len() > 1 << 17 {
            return Err(io::Error::from_raw_os_error(libc::ERANGE));
        }
        groups.resize(wanted.max(groups.len() * 2), 0);
    }
}

/// The shadow entry of a user. `None` when there is none; an error when this process may not read it.
#[cfg(target_os = "linux")]
pub fn shadow(name: &str) -> io::Result<Option<Shadow>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    with_buffer(|buffer| {
        // SAFETY: all-zero bytes are a valid `spwd`: integers and null pointers.
        let mut entry: libc::spwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: every pointer is valid for the call, and the length is the buffer's own.
        let status = unsafe {
            libc::getspnam_r(name.as_ptr(), &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found)
        };
        let day = |value: libc::c_long| (value >= 0).then_some(value);
        let result = answer(status, found.is_null(), || Shadow {
            // SAFETY: `found` is set, so `sp_pwdp` points into `buffer`, which is still alive.
            hash: Zeroizing::new(unsafe { bytes(entry.sp_pwdp) }),
            last_change: day(entry.sp_lstchg),
            max_days: day(entry.sp_max),
            inactive_days: day(entry.sp_inact),
            expires: day(entry.sp_expire),
        });
        zeroize::Zeroize::zeroize(&mut buffer[..]);
        result
    })
}

/// Home directory for `~`: `$HOME` if it is absolute, else that of the password database.
pub fn home() -> Option<PathBuf> {
    match std::env::var_os("HOME") {
        Some(home) if Path::new(&home).is_absolute() => Some(home.into()),
        _ => current().ok().flatten().map(|user| user.home),
    }
}

/// True when a netgroup (netgroup(5)) is known. It is not where its service does not answer. musl does not
/// support netgroups.
pub fn is_netgroup(netgroup: &str) -> bool {
    let Ok(netgroup) = CString::new(netgroup) else { return false };
    #[cfg(target_env = "musl")]
    let (setnetgrent, endnetgrent) = (|_: *const c_char| -> c_int { 0 }, || {});
    // SAFETY: the name is a C string that outlives the call. What the calls change, one list of the process,
    // is read by no other code of ours: `innetgr` has one of its own.
    #[cfg_attr(target_env = "musl", expect(unused_unsafe, reason = "no functions of the C library"))]
    unsafe {
        let is_known = setnetgrent(netgroup.as_ptr()) == 1;
        endnetgrent();
        is_known
    }
}

/// True when a netgroup (netgroup(5)) has a member with this host and this user; `None` matches any. musl
/// does not support netgroups.
pub fn in_netgroup(netgroup: &str, host: Option<&str>, user: Option<&str>) -> bool {
    let text = |text: Option<&str>| text.map(CString::new).transpose();
    let (Ok(netgroup), Ok(host), Ok(user)) = (CString::new(netgroup), text(host), text(user)) else {
        return false;
    };
    let pointer = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
    #[cfg(target_env = "musl")]
    let innetgr = |_, _, _, _: *const c_char| -> c_int { 0 };
    // SAFETY: all are C strings that outlive the call, or null, which matches any.
    #[cfg_attr(target_env = "musl", expect(unused_unsafe, reason = "no function of the C library"))]
    unsafe {
        innetgr(netgroup.as_ptr(), pointer(&host), pointer(&user), std::ptr::null()) == 1
    }
}

#[cfg(not(target_env = "musl"))]
unsafe extern "C" {
    /// setnetgrent(3).
    fn setnetgrent(netgroup: *const c_char) -> c_int;
    /// setnetgrent(3).
    fn endnetgrent();
    /// setnetgrent(3).
    fn innetgr(
        netgroup: *const c_char,
        host: *const c_char,
        user: *const c_char,
        domain: *const c_char,
    ) -> c_int;
}

/// Calls `look_up` with larger and larger buffers until the entry fits.
fn with_buffer<T>(mut look_up: impl FnMut(&mut [c_char]) -> io::Result<Option<T>>) -> io::Result<Option<T>> {
    let mut size = 1024;
    loop {
        match look_up(&mut vec![0; size]) {
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) && size < LARGEST_ENTRY => size *= 2,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Interprets the return value of a `get…_r` call. Several values stand for "no such entry" (getpwnam(3)).
fn answer<T>(status: c_int, null: bool, make: impl FnOnce() -> T) -> io::Result<Option<T>> {
    match status {
        0 if null => Ok(None),
        0 => Ok(Some(make())),
        libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => Ok(None),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// # Safety
/// The strings of `entry` must be null or valid C strings.
unsafe fn user_from(entry: &libc::passwd) -> User {
    // SAFETY: the caller's promise.
    let (name, gecos, home, shell) =
        unsafe { (text(entry.pw_name), text(entry.pw_gecos), bytes(entry.pw_dir), bytes(entry.pw_shell)) };
    let shell = if shell.is_empty() { b"/bin/sh".to_vec() } else { shell };
    User { name, uid: entry.pw_uid, gid: entry.pw_gid, home: path(home), shell: path(shell), gecos }
}

fn path(bytes: Vec<u8>) -> PathBuf {
    std::ffi::OsString::from_vec(bytes).into()
}

/// # Safety
/// `pointer` must be null or a valid C string.
unsafe fn bytes(pointer: *const c_char) -> Vec<u8> {
    if pointer.is_null() {
        return Vec::new();
    }
    // SAFETY: not null, so a valid C string by the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_bytes().to_vec()
}

/// # Safety
/// Like [`bytes`].
unsafe fn text(pointer: *const c_char) -> String {
    // SAFETY: the caller's promise.
    String::from_utf8_lossy(&unsafe { bytes(pointer) }).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_by_name_and_id() {
        let by_name = by_name(OsStr::new("root")).unwrap().unwrap();
        let by_uid = by_uid(0).unwrap().unwrap();
        assert_eq!(by_name, by_uid);
        assert_eq!((by_name.uid, by_name.gid), (0, 0));
        assert_eq!(by_name.home, Path::new("/root"));
        assert!(groups_of(&by_name).unwrap().contains(&0));
        assert_eq!(group_by_gid(0).unwrap().unwrap().name, "root");
        assert_eq!(group_by_name("root").unwrap().unwrap().gid, 0);
    }

    #[test]
    fn entries_of_the_c_library_are_copied() {
        let texts = ["ada", "Ada", "/home/ada", ""].map(|text| CString::new(text).unwrap());
        // SAFETY: all-zero bytes are a valid `passwd`: integers and null pointers.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        (entry.pw_uid, entry.pw_gid) = (1000, 100);
        // SAFETY: the strings are null.
        assert_eq!(unsafe { user_from(&entry) }.name, "");
        let [name, gecos, home, shell] = &texts;
        entry.pw_name = name.as_ptr().cast_mut();
        entry.pw_gecos = gecos.as_ptr().cast_mut();
        entry.pw_dir = home.as_ptr().cast_mut();
        entry.pw_shell = shell.as_ptr().cast_mut();
        // SAFETY: the strings live in `texts`.
        let user = unsafe { user_from(&entry) };
        drop(texts);
        assert_eq!((&*user.name, &*user.gecos, user.uid, user.gid), ("ada", "Ada", 1000, 100));
        assert_eq!((&*user.home, &*user.shell), (Path::new("/home/ada"), Path::new("/bin/sh")));
    }

    #[test]
    fn unknown_and_invalid_names_are_not_found() {
        assert_eq!(by_name(OsStr::new("no-such-user-here")).unwrap(), None);
        assert_eq!(by_name(OsStr::from_bytes(b"a\0b")).unwrap(), None);
        assert_eq!(by_name(OsStr::from_bytes(b"\xff\xfe")).unwrap(), None);
        assert_eq!(group_by_name("no-such-group-here").unwrap(), None);
    }

    #[test]
    fn shadow_is_readable_by_root_only() {
        let entry = shadow("root");
        if rustix::process::geteuid().is_root() {
            assert!(!entry.unwrap().unwrap().hash.is_empty());
        } else {
            lh_testkit::skip("shadow_is_readable_by_root_only", "reading the shadow database needs root");
        }
        assert!(!matches!(shadow("no-such-user-here"), Ok(Some(_))));
    }
}
