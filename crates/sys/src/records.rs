//! Login records: current logins (utmp), past logins (wtmp), failed attempts (btmp) and each user's last
//! login (lastlog).
//!
//! Missing files are not created: an administrator has decided that such a system keeps its records elsewhere
//! (a PAM module, the journal), or keeps none.
#![expect(unsafe_code, reason = "struct utmpx and pututxline belong to the C library")]

use std::ffi::{CString, c_char};
use std::io;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Length of an entry of lastlog, bytes: a time of 4, a line of 32, a host of 256.
const LASTLOG_ENTRY: u64 = 4 + 32 + 256;

/// A word of an address in an entry.
#[cfg(not(target_env = "musl"))]
type Word = i32;
#[cfg(target_env = "musl")]
type Word = u32;

unsafe extern "C" {
    /// Appends to a file of the wtmp kind, with the usual file lock. Not in the `libc` crate.
    fn updwtmpx(file: *const c_char, entry: *const libc::utmpx);
}

/// One login.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The user's name.
    pub user: &'a str,
    /// The terminal without `/dev/`: `pts/3`.
    pub line: &'a str,
    /// Origin of the login: a host name or an address.
    pub host: &'a str,
    /// The address, where there is one.
    pub address: Option<IpAddr>,
    /// The process behind the terminal.
    pub pid: u32,
    /// Seconds since 1970.
    pub time: i64,
}

/// Time and origin of the last login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Last {
    /// Seconds since 1970.
    pub time: i64,
    /// Host name or address; empty when unknown.
    pub host: String,
}

/// Locations of the records.
#[derive(Debug, Clone)]
pub struct Records {
    wtmp: PathBuf,
    btmp: PathBuf,
    lastlog: PathBuf,
    /// True to write the C library's utmp, whose path is fixed.
    utmp: bool,
}

impl Records {
    /// The system's files.
    pub fn of_the_system() -> Self {
        Self {
            wtmp: "/var/log/wtmp".into(),
            btmp: "/var/log/btmp".into(),
            lastlog: "/var/log/lastlog".into(),
            utmp: true,
        }
    }

    /// Records in a directory, without utmp. For tests.
    pub fn in_directory(directory: &Path) -> Self {
        let file = |name| directory.join(name);
        Self { wtmp: file("wtmp"), btmp: file("btmp"), lastlog: file("lastlog"), utmp: false }
    }

    /// Records a login in utmp, wtmp and lastlog.
    ///
    /// # Errors
    /// The error of the first file that could not be written; the others are written all the same.
    pub fn login(&self, uid: u32, entry: &Entry<'_>) -> io::Result<()> {
        let record = utmp_entry(libc::USER_PROCESS, entry);
        let utmp = self.put(&record);
        append(&self.wtmp, &record)?;
        utmp.and(self.set_last(uid, entry))
    }

    /// Records a logout.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn logout(&self, line: &str, pid: u32, time: i64) -> io::Result<()> {
        let record =
            utmp_entry(libc::DEAD_PROCESS, &Entry { user: "", line, host: "", address: None, pid, time });
        let utmp = self.put(&record);
        append(&self.wtmp, &record)?;
        utmp
    }

    /// Records a failed login attempt in btmp. The file must belong to the effective user (root) and be
    /// closed to others, because it may hold passwords that were typed as user names.
    ///
    /// # Errors
    /// `PermissionDenied` when the file is open to others; else the system's error.
    pub fn failure(&self, entry: &Entry<'_>) -> io::Result<()> {
        let metadata = match std::fs::metadata(&self.btmp) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o017 != 0 {
            let text = format!("Excess permission or bad ownership on file {}", self.btmp.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        append(&self.btmp, &utmp_entry(libc::LOGIN_PROCESS, entry))
    }

    /// Last login of `uid`; `None` for never, and where no such records are kept.
    pub fn last(&self, uid: u32) -> Option<Last> {
        let file = std::fs::File::open(&self.lastlog).ok()?;
        let mut bytes = [0; LASTLOG_ENTRY as usize];
        file.read_exact_at(&mut bytes, u64::from(uid) * LASTLOG_ENTRY).ok()?;
        let (time, rest) = bytes.split_first_chunk::<4>()?;
        let time = i64::from(u32::from_ne_bytes(*time));
        let host = rest.get(32..)?.split(|byte| *byte == 0).next().unwrap_or_default();
        (time != 0).then(|| Last { time, host: String::from_utf8_lossy(host).into_owned() })
    }

    fn set_last(&self, uid: u32, entry: &Entry<'_>) -> io::Result<()> {
        let file = match std::fs::OpenOptions::new().write(true).open(&self.lastlog) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::with_capacity(LASTLOG_ENTRY as usize);
        bytes.extend_from_slice(&u32::try_from(entry.time).unwrap_or(0).to_ne_bytes());
        for (text, room) in [(entry.line, 32), (entry.host, 256)] {
            let text = text.as_bytes();
            let text = text.get(..room).unwrap_or(text);
            bytes.extend_from_slice(text);
            bytes.resize(bytes.len() + room - text.len(), 0);
        }
        file.write_all_at(&bytes, u64::from(uid) * LASTLOG_ENTRY)
    }

    /// Writes utmp. musl keeps no login records: its functions do nothing, including the one for wtmp.
    #[cfg_attr(target_env = "musl", expect(deprecated, reason = "not called there"))]
    fn put(&self, record: &libc::utmpx) -> io::Result<()> {
        if !self.utmp || cfg!(target_env = "musl") {
            return Ok(());
        }
        // SAFETY: the C library's utmp functions keep static state, which no other thread uses (these
        // processes have one thread); `record` is a valid entry during the call.
        let written = unsafe {
            libc::setutxent();
            let written = libc::pututxline(record);
            libc::endutxent();
            written
        };
        let error = io::Error::last_os_error();
        // A missing utmp, as in most containers, is no error.
        if written.is_null() && error.kind() != io::ErrorKind::NotFound { Err(error) } else { Ok(()) }
    }
}

fn append(path: &Path, record: &libc::utmpx) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: a C string and a valid entry, both alive during the call.
    unsafe { updwtmpx(name.as_ptr(), record) };
    Ok(())
}

fn utmp_entry(kind: i16, entry: &Entry<'_>) -> libc::utmpx {
    // SAFETY: all-zero bytes are a valid entry: integers and arrays of characters.
    let mut record: libc::utmpx = unsafe { std::mem::zeroed() };
    record.ut_type = kind;
    record.ut_pid = i32::try_from(entry.pid).unwrap_or(0);
    put_text(&mut record.ut_line, entry.line);
    // The id is the last characters of the line, such as `s/3`, by convention.
    let short = entry.line.len().saturating_sub(record.ut_id.len());
    put_text(&mut record.ut_id, entry.line.get(short..).unwrap_or(entry.line));
    put_text(&mut record.ut_user, entry.user);
    put_text(&mut record.ut_host, entry.host);
    // The file format has 32 bits on every platform, enough until 2106.
    record.ut_tv.tv_sec = entry.time as u32 as _;
    match entry.address {
        // Network byte order in memory.
        Some(IpAddr::V4(v4)) => record.ut_addr_v6[0] = Word::from_ne_bytes(v4.octets()),
        Some(IpAddr::V6(v6)) => {
            for (word, bytes) in record.ut_addr_v6.iter_mut().zip(v6.octets().as_chunks::<4>().0) {
                *word = Word::from_ne_bytes(*bytes);
            }
        }
        None => {}
    }
    record
}

fn put_text(field: &mut [c_char], text: &str) {
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = from.cast_signed() as c_char;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn entry() -> Entry<'static> {
        Entry {
            user: "ada",
            line: "pts/3",
            host: "client.example",
            address: Some([10, 1, 2, 3].into()),
            pid: 77,
            time: 1_700_000_000,
        }
    }

    #[test]
    fn login_and_logout_are_recorded() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::in_directory(directory.path());
        // Missing files are not created.
        records.login(1000, &entry()).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        for name in ["wtmp", "lastlog"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(records.last(1000), None);
        records.login(1000, &entry()).unwrap();
        records.logout("pts/3", 77, 1_700_000_100).unwrap();
        let last = Last { time: 1_700_000_000, host: "client.example".into() };
        assert_eq!(records.last(1000), Some(last));
        assert_eq!(records.last(999), None);
        let wtmp = std::fs::read(directory.path().join("wtmp")).unwrap();
        assert_eq!(wtmp.len(), 2 * size_of::<libc::utmpx>());
        let text = String::from_utf8_lossy(&wtmp);
        assert!(text.contains("pts/3") && text.contains("ada") && text.contains("client.example"));
        assert!(wtmp.windows(4).any(|bytes| bytes == [10, 1, 2, 3]));
    }

    #[test]
    fn failures_need_a_private_btmp() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::in_directory(directory.path());
        records.failure(&entry()).unwrap();
        let btmp = directory.path().join("btmp");
        std::fs::write(&btmp, "").unwrap();
        std::fs::set_permissions(&btmp, std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = records.failure(&entry()).unwrap_err().to_string();
        assert_eq!(refused, format!("Excess permission or bad ownership on file {}", btmp.display()));
        std::fs::set_permissions(&btmp, std::fs::Permissions::from_mode(0o660)).unwrap();
        records.failure(&entry()).unwrap();
        assert_eq!(std::fs::metadata(&btmp).unwrap().len() as usize, size_of::<libc::utmpx>());
    }
}
