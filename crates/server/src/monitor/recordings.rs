//! Files that terminals are recorded to (`RecordTerminal`). The monitor creates them, so that the user cannot
//! read, change or remove them; the user session process only appends what the terminal shows.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lh_config::server_table::ServerSettings;
use lh_sys::users::User;
use serde_json::json;

use crate::monitor_ipc::TerminalFacts;
use crate::strict;

/// Mode bits that permit group or others to put files into a directory.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Why a terminal cannot be recorded. Its session is then refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordingError {
    #[error(
        "RecordTerminal {}: {} belongs to another user, or others may write to it", directory.display(),
        part.display()
    )]
    Unsafe {
        /// The value of the keyword.
        directory: PathBuf,
        /// The directory or link that is not safe: this one, or one on the way to it.
        part: PathBuf,
    },
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: io::Error },
}

/// The recordings of one connection.
#[derive(Debug, Default)]
pub(super) struct Recordings {
    /// Directory of the recordings; `None`: terminals are not recorded.
    directory: Option<PathBuf>,
    /// Number of recordings created so far.
    made: u32,
}

impl Recordings {
    pub(super) fn new(settings: &ServerSettings) -> Self {
        Self { directory: settings.record_terminal.0.clone(), made: 0 }
    }

    /// Returns whether terminals are recorded.
    pub(super) const fn are_made(&self) -> bool {
        self.directory.is_some()
    }

    /// Creates the recording of one terminal and writes its first line. `session` identifies the connection
    /// in all logs. Returns `None` where terminals are not recorded.
    ///
    /// # Errors
    /// The directory is not safe, or the file cannot be created or written.
    pub(super) fn make(
        &mut self,
        user: &User,
        session: &str,
        origin: &str,
        terminal: &TerminalFacts,
    ) -> Result<Option<(PathBuf, File)>, RecordingError> {
        let Some(directory) = &self.directory else { return Ok(None) };
        make_safe(directory)?;
        self.made += 1;
        let path = directory.join(file_name(&user.name, session, self.made));
        let at = |problem| RecordingError::File { path: path.clone(), problem };
        // `create_new`: never opens an existing file and never follows a link.
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.map_err(at)?;
        file.write_all(header(user, session, origin, terminal).as_bytes()).map_err(at)?;
        Ok(Some((path, file)))
    }
}

/// Creates the directory where it is missing, accessible only to this process's user, and checks that it and
/// every directory above it are safe: who can replace one of them chooses where root writes.
fn make_safe(directory: &Path) -> Result<(), RecordingError> {
    let at = |problem| RecordingError::File { path: directory.to_owned(), problem };
    let not_safe =
        |part: &Path| RecordingError::Unsafe { directory: directory.to_owned(), part: part.to_owned() };
    if let Some(part) = strict::replaceable_directory(directory) {
        return Err(not_safe(part));
    }
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(problem) if problem.kind() != io::ErrorKind::AlreadyExists => return Err(at(problem)),
        _ => {}
    }
    let real = directory.canonicalize().map_err(at)?;
    if let Some(part) = strict::replaceable_directory(&real) {
        return Err(not_safe(part));
    }
    let found = std::fs::metadata(&real).map_err(at)?;
    if found.is_dir() && found.mode() & WRITABLE_BY_OTHERS == 0 { Ok(()) } else { Err(not_safe(directory)) }
}

/// Returns a name such as `ada-65f1c0a2b3c4d-4711-1.cast`. Characters of the user name that could belong to a
/// path or an option are replaced.
fn file_name(user: &str, session: &str, number: u32) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "._-@+".contains(c) { c } else { '_' };
    let user: String = user.chars().map(plain).collect();
    format!("{user}-{session}-{number}.cast")
}

/// Returns the first line of an asciicast file, version 2.
fn header(user: &User, session: &str, origin: &str, terminal: &TerminalFacts) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let header = json!({
        "version": 2,
        "width": terminal.columns,
        "height": terminal.rows,
        "timestamp": now.as_secs(),
        "title": format!("{} from {origin}, session {session}", user.name),
        "env": { "TERM": terminal.kind, "SHELL": user.shell.display().to_string() },
    });
    format!("{header}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn facts() -> TerminalFacts {
        TerminalFacts { columns: 80, rows: 24, kind: "xterm".to_owned() }
    }

    fn make(recordings: &mut Recordings) -> Result<Option<(PathBuf, File)>, RecordingError> {
        let user = User { name: "CORP\\ada/..".to_owned(), ..lh_sys::users::current().unwrap().unwrap() };
        recordings.make(&user, "5f-1", "192.0.2.7", &facts())
    }

    #[test]
    fn each_terminal_has_a_private_file_of_its_own() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("terminals");
        let mut recordings = Recordings { directory: Some(directory.clone()), made: 0 };
        let (first, _file) = make(&mut recordings).unwrap().unwrap();
        assert_eq!(first, directory.join("CORP_ada_..-5f-1-1.cast"));
        assert_eq!(std::fs::metadata(&first).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        let text = std::fs::read_to_string(&first).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((read["version"].as_u64(), read["width"].as_u64()), (Some(2), Some(80)));
        assert_eq!(read["title"], "CORP\\ada/.. from 192.0.2.7, session 5f-1");
        let (second, _file) = make(&mut recordings).unwrap().unwrap();
        assert_ne!(first, second);
        // An existing file is not written to.
        let mut again = Recordings { directory: Some(directory), made: 0 };
        assert!(matches!(make(&mut again), Err(RecordingError::File { .. })));
        assert_eq!(std::fs::read_to_string(&first).unwrap(), text);
    }

    #[test]
    fn directories_that_others_may_write_to_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o770)).unwrap();
        let mut recordings = Recordings { directory: Some(directory.path().to_owned()), made: 0 };
        let error = make(&mut recordings).unwrap_err();
        assert!(error.to_string().starts_with("RecordTerminal "), "{error}");
        assert!(make(&mut Recordings::default()).unwrap().is_none());
    }

    #[test]
    fn directories_above_that_others_may_replace_are_refused() {
        let above = tempfile::tempdir().unwrap();
        let set_mode = |path: &Path, bits| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
        };
        let parent = above.path().join("parent");
        std::fs::create_dir(&parent).unwrap();
        let directory = parent.join("rec");
        let link = above.path().join("link");
        std::os::unix::fs::symlink(&directory, &link).unwrap();
        let make_in = |directory: &Path| {
            make(&mut Recordings { directory: Some(directory.to_owned()), made: 0 })
                .map(|made| made.unwrap().0)
                .map_err(|error| error.to_string())
        };
        let refusal = |directory: &Path, part: &Path| {
            let (directory, part) = (directory.display(), part.display());
            format!("RecordTerminal {directory}: {part} belongs to another user, or others may write to it")
        };
        set_mode(&parent, 0o777);
        assert_eq!(make_in(&directory), Err(refusal(&directory, &parent)));
        assert!(!directory.exists());
        std::fs::create_dir(&directory).unwrap();
        set_mode(&directory, 0o700);
        assert_eq!(make_in(&link), Err(refusal(&link, &parent.canonicalize().unwrap())));
        // With the sticky bit, others can replace nothing of ours.
        set_mode(&parent, 0o1777);
        assert!(make_in(&directory).is_ok());
        if !lh_sys::ids::is_root() {
            return lh_testkit::skip("recordings: links of other users", "giving links away needs root");
        }
        std::fs::remove_file(directory.join("CORP_ada_..-5f-1-1.cast")).unwrap();
        assert!(make_in(&link).is_ok());
        // Another user chose where this link leads.
        std::os::unix::fs::lchown(&link, Some(12345), None).unwrap();
        assert_eq!(make_in(&link), Err(refusal(&link, &link)));
    }
}
