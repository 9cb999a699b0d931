//! Rate limits of all connections of a user account together (`PerUserReceiveRate`, `PerUserSendRate`).
//!
//! The connections share two numbers, one for each direction ([`SharedRate`]). They are in a file of the
//! account, in a directory that only the server's user may enter. The session process maps the file before
//! it becomes the user and keeps no descriptor of it, so the user's programs can neither inherit nor open it.
//! The file outlives reloads of the server, and needs no listener.

use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lh_config::server_table::ServerSettings;
use lh_crypto::{Hash, PublicKey};
use lh_driver::{Link, SharedRate};
use lh_sys::ids::is_root;
use lh_sys::shared_words::SharedWords;
use rustix::fs::{Mode, OFlags};

use crate::log::{Log, error};

/// Directory of the files of a server that runs as root.
const DIRECTORY: &str = "/run/lhsshd";

/// Mode bits that give group or others anything.
const OTHERS: u32 = 0o077;

/// Words of a file: the schedules of receiving and of sending.
const WORDS: usize = 2;
const RECEIVED: usize = 0;
const SENT: usize = 1;

/// Length of a file, bytes.
const LENGTH: u64 = (WORDS * size_of::<u64>()) as u64;

/// Why the connections of an account cannot share their rates.
#[derive(Debug, thiserror::Error)]
enum RatesError {
    #[error("{} belongs to another user, is of another kind, or others may access it", .0.display())]
    Unsafe(PathBuf),
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: io::Error },
}

/// The rates of the account, and the schedules for them.
pub(super) struct UserRates {
    words: Arc<SharedWords>,
    receive: Option<u64>,
    send: Option<u64>,
}

impl UserRates {
    /// Opens the schedules of the account with this id, where one of the keywords is set. If that fails, the
    /// rates limit this connection alone, and the log says so. `host_keys` identify the server.
    ///
    /// # Errors
    /// The kernel has no memory.
    pub(super) fn open(
        settings: &ServerSettings,
        uid: u32,
        host_keys: &[PublicKey],
        log: &Log,
    ) -> io::Result<Option<Self>> {
        Self::open_in(&directory(), settings, uid, host_keys, log)
    }

    fn open_in(
        directory: &Path,
        settings: &ServerSettings,
        uid: u32,
        host_keys: &[PublicKey],
        log: &Log,
    ) -> io::Result<Option<Self>> {
        let receive = settings.per_user_receive_rate.value.bytes_per_second();
        let send = settings.per_user_send_rate.value.bytes_per_second();
        let keyword = match (receive, send) {
            (None, None) => return Ok(None),
            (Some(_), _) => "PerUserReceiveRate",
            (None, Some(_)) => "PerUserSendRate",
        };
        let words = match open_schedules(directory, &file_name(uid, host_keys)) {
            Ok(words) => words,
            Err(problem) => {
                error!(log, "{keyword}: the rate is that of this connection alone: {problem}");
                SharedWords::private(WORDS)?
            }
        };
        Ok(Some(Self { words: Arc::new(words), receive, send }))
    }

    /// Limits a connection.
    pub(super) fn limit(&self, link: &mut Link) {
        let rate = |index, rate: Option<u64>| SharedRate::new(Arc::clone(&self.words), index, rate?);
        link.share_rates(rate(RECEIVED, self.receive), rate(SENT, self.send));
    }
}

/// Returns the directory of the files. Only root may write to `/run`.
fn directory() -> PathBuf {
    if is_root() {
        return DIRECTORY.into();
    }
    let own = rustix::process::geteuid().as_raw();
    let runtime = PathBuf::from(format!("/run/user/{own}"));
    if std::fs::metadata(&runtime).is_ok_and(|found| found.is_dir() && found.uid() == own) {
        return runtime.join("lhsshd");
    }
    format!("/tmp/lhsshd-{own}").into()
}

/// Returns the name of an account's file: servers with other host keys on this host have others.
fn file_name(uid: u32, host_keys: &[PublicKey]) -> String {
    let mark = host_keys.iter().map(|key| Hash::Sha256.digest(&[key.blob()]).as_ref().to_vec()).min();
    let mark: String = mark.unwrap_or_default().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("rates-{mark}-{uid}")
}

/// Opens the directory and the file, makes them where they are missing, and maps the file.
fn open_schedules(directory: &Path, name: &str) -> Result<SharedWords, RatesError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |problem: io::Error| RatesError::File { path, problem }
    };
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(problem) if problem.kind() != io::ErrorKind::AlreadyExists => return Err(at(directory)(problem)),
        _ => {}
    }
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags | OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())
        .map_err(|problem| at(directory)(problem.into()))?;
    let opened = File::from(opened);
    let is_own = |file: &File| {
        let found = file.metadata()?;
        let own = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & OTHERS == 0;
        Ok(own.then_some(found))
    };
    if is_own(&opened).map_err(at(directory))?.is_none() {
        return Err(RatesError::Unsafe(directory.to_owned()));
    }
    let path = directory.join(name);
    let flags = flags | OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::openat(&opened, name, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|problem| at(&path)(problem.into()))?;
    let file = File::from(file);
    match is_own(&file).map_err(at(&path))? {
        Some(found) if found.is_file() => make_long(&file, found.len()).map_err(at(&path))?,
        _ => return Err(RatesError::Unsafe(path)),
    }
    SharedWords::map(&file, WORDS).map_err(at(&path))
}

/// Gives a new file its length, and space: access to a mapped page that the file system has no space for
/// would kill the process.
fn make_long(mut file: &File, length: u64) -> io::Result<()> {
    if length >= LENGTH {
        return Ok(());
    }
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, LENGTH) {
        // Another connection may have begun to count: these zeros give it one burst more.
        Err(rustix::io::Errno::OPNOTSUPP) => file.write_all(&[0; LENGTH as usize]),
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::log::Level;
    use crate::testing;

    fn word(words: &SharedWords, index: usize) -> u64 {
        words.get(index).unwrap().load(Relaxed)
    }

    #[test]
    fn connections_of_an_account_share_a_private_file() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("lhsshd");
        let [one, other] = [(), ()].map(|()| open_schedules(&directory, "rates-1").unwrap());
        one.get(SENT).unwrap().store(7, Relaxed);
        assert_eq!([word(&other, RECEIVED), word(&other, SENT)], [0, 7]);
        drop((one, other));
        // A reload of the server changes nothing, and another account has its own.
        assert_eq!(word(&open_schedules(&directory, "rates-1").unwrap(), SENT), 7);
        assert_eq!(word(&open_schedules(&directory, "rates-2").unwrap(), SENT), 0);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&directory.join("rates-1"))), (0o700, 0o600));
    }

    #[test]
    fn files_that_others_may_change_are_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("lhsshd");
        let file = directory.join("rates-1");
        let refusal = || open_schedules(&directory, "rates-1").map(drop).unwrap_err().to_string();
        let set_mode = |path: &Path, bits| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
        };
        let is_unsafe = |path: &Path| {
            let text = "belongs to another user, is of another kind, or others may access it";
            assert_eq!(refusal(), format!("{} {text}", path.display()));
        };
        open_schedules(&directory, "rates-1").unwrap();
        set_mode(&directory, 0o711);
        is_unsafe(&directory);
        set_mode(&directory, 0o700);
        set_mode(&file, 0o620);
        is_unsafe(&file);
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("elsewhere", &file).unwrap();
        assert!(refusal().starts_with(&format!("{}: ", file.display())));
        assert!(!directory.join("elsewhere").exists());
        std::fs::remove_dir_all(&directory).unwrap();
        std::os::unix::fs::symlink(parent.path(), &directory).unwrap();
        assert!(refusal().starts_with(&format!("{}: ", directory.display())));
    }

    #[test]
    fn names_tell_accounts_and_servers_apart() {
        let [one, other] = [(), ()].map(|()| {
            lh_crypto::PrivateKey::generate(lh_crypto::KeyType::Ed25519, None).unwrap().public().clone()
        });
        let both = [one.clone(), other.clone()];
        assert_eq!(file_name(7, &both), file_name(7, &[other.clone(), one.clone()]));
        assert_ne!(file_name(7, std::slice::from_ref(&one)), file_name(7, &[other]));
        assert_ne!(file_name(7, std::slice::from_ref(&one)), file_name(8, &[one]));
        assert_eq!(file_name(7, &[]), "rates--7");
    }

    #[test]
    fn a_rate_without_a_file_is_that_of_the_connection() {
        let open = |directory: &Path, lines: &str| {
            let log = Log::lines(Level::Info);
            let rates = UserRates::open_in(directory, &testing::settings(lines), 7, &[], &log).unwrap();
            (rates, log.taken())
        };
        let missing = Path::new("/nonexistent/lhsshd");
        let (rates, lines) = open(missing, "ReceiveRate 8M\nTcpPacing 8M");
        assert!(rates.is_none() && lines.is_empty() && !missing.exists());
        for (lines, keyword, rates) in [
            ("PerUserReceiveRate 8M", "PerUserReceiveRate", [Some(1_000_000), None]),
            ("PerUserSendRate 16K", "PerUserSendRate", [None, Some(2000)]),
        ] {
            let (limit, logged) = open(missing, lines);
            let limit = limit.unwrap();
            assert_eq!([limit.receive, limit.send], rates);
            let line =
                "the rate is that of this connection alone: /nonexistent/lhsshd: No such file or directory";
            assert_eq!(logged.len(), 1);
            assert!(logged[0].contains(&format!("{keyword}: {line}")), "{logged:?}");
            assert_eq!(word(&limit.words, RECEIVED), 0);
        }
    }
}
