//! `RevokedKeys`: files with keys that are not accepted any more, as lines or as key revocation lists (KRLs).

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;
use std::{fmt, io};

use lh_config::server_table::ServerSettings;
use lh_crypto::{Krl, KrlError, PublicKey};

use super::fingerprints::describe;
use crate::authorized_keys::{Line, parse_line};
use crate::key_options::OptionError;
use crate::log::{Log, error};

/// Largest size of a file, bytes: more than a list of every key that a large site ever had.
const LARGEST: u64 = 64 << 20;

/// Result of checking a key against the revocation files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Revocation {
    No,
    /// A file cannot be read. The key is refused, so that an accident never admits a revoked one.
    Unknown,
    Yes,
}

/// The files of `RevokedKeys`. Each is read once per connection, because a client may query a hundred keys
/// and a list may be large. Errors are kept too.
#[derive(Default)]
pub(super) struct RevokedKeys {
    files: RefCell<HashMap<String, Rc<Result<List, ListError>>>>,
}

/// The content of a file.
enum List {
    Krl(Box<Krl>),
    Text {
        /// Blobs of the keys, without their certificates.
        keys: HashSet<Vec<u8>>,
        /// The first invalid line: it may have been meant to revoke any key.
        broken: Option<BrokenLine>,
    },
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error("{}", lh_sys::errno_text(.0))]
    Read(#[from] io::Error),
    #[error(transparent)]
    Krl(#[from] KrlError),
}

/// A line that may have been meant to revoke any key.
#[derive(Debug, thiserror::Error)]
#[error("line {number}: {fault}")]
struct BrokenLine {
    number: usize,
    fault: LineFault,
}

#[derive(Debug, thiserror::Error)]
enum LineFault {
    #[error("a second key in one line")]
    SecondKey,
    #[error("a carriage return inside of a line")]
    InnerReturn,
    #[error("bad options: {0}")]
    BadOptions(OptionError),
    #[error("not a public key")]
    NoKey,
}

impl RevokedKeys {
    /// Returns whether a file revokes the key, or the authority of its certificate.
    pub(super) fn check(&self, settings: &ServerSettings, key: &PublicKey, log: &Log) -> Revocation {
        let mut worst = Revocation::No;
        for path in settings.revoked_keys.list() {
            let file = self.file(path);
            let holds = match file.as_ref() {
                Ok(list) => list.holds(key).map_err(|broken| broken as &dyn fmt::Display),
                Err(problem) => Err(problem as &dyn fmt::Display),
            };
            match holds {
                Ok(false) => {}
                Ok(true) => {
                    error!(log, "Authentication key {} revoked by file {path}", describe(settings, key));
                    return Revocation::Yes;
                }
                Err(problem) => {
                    error!(
                        log,
                        "Error checking authentication key {} in revoked keys file {path}: {problem}",
                        describe(settings, key)
                    );
                    worst = Revocation::Unknown;
                }
            }
        }
        worst
    }

    /// Frees the files after the login.
    pub(super) fn forget(&self) {
        self.files.take();
    }

    fn file(&self, path: &str) -> Rc<Result<List, ListError>> {
        if let Some(known) = self.files.borrow().get(path) {
            return Rc::clone(known);
        }
        let list = Rc::new(List::read(Path::new(path)));
        self.files.borrow_mut().insert(path.to_owned(), Rc::clone(&list));
        list
    }
}

impl List {
    fn read(path: &Path) -> Result<Self, ListError> {
        let read = || {
            if std::fs::metadata(path)?.len() > LARGEST {
                return Err(io::Error::other("file too large"));
            }
            std::fs::read(path)
        };
        let content = read()?;
        if Krl::is_binary(&content) {
            let krl = Krl::parse(&content)?;
            return Ok(Self::Krl(Box::new(krl)));
        }
        let text = String::from_utf8_lossy(&content);
        let mut keys = HashSet::new();
        let mut broken = None;
        for (number, line) in (1..).zip(text.lines()) {
            let fault = match parse_line(line) {
                Line::Blank => hidden_in_note(line).then_some(LineFault::SecondKey),
                Line::Entry(entry) => {
                    keys.insert(entry.key.plain().blob().to_vec());
                    holds_key(&entry.comment).then_some(LineFault::SecondKey)
                }
                Line::BadOptions(why) => Some(LineFault::BadOptions(why)),
                Line::Malformed => Some(LineFault::NoKey),
            };
            let fault = fault.or_else(|| has_inner_return(line).then_some(LineFault::InnerReturn));
            broken = broken.or_else(|| fault.map(|fault| BrokenLine { number, fault }));
        }
        Ok(Self::Text { keys, broken })
    }

    fn holds(&self, key: &PublicKey) -> Result<bool, &BrokenLine> {
        match self {
            Self::Krl(krl) => Ok(krl.is_revoked(key)),
            Self::Text { keys, broken } => {
                // Checks the key itself, certified or not, and the authority that certified it.
                let authority = key.certificate().map(lh_crypto::Certificate::authority);
                let mut named = [Some(key.plain()), authority].into_iter().flatten();
                if named.any(|key| keys.contains(key.blob())) {
                    return Ok(true);
                }
                broken.as_ref().map_or(Ok(false), Err)
            }
        }
    }
}

/// Returns whether a line contains a carriage return before its end: an editor that ends lines with it wrote
/// several.
fn has_inner_return(line: &str) -> bool {
    line.trim_end_matches('\r').contains('\r')
}

/// Returns whether the comment of a key holds another key, which was appended to a file whose last line had
/// no newline. Every key's blob begins with the length of its type's name, which is below 2^16 (`AAAA` in
/// base64).
fn holds_key(comment: &str) -> bool {
    /// Length of the shortest word that can be a key, characters.
    const SHORTEST: usize = 16;
    comment.split_whitespace().any(|word| word.len() >= SHORTEST && word.starts_with("AAAA"))
}

/// Returns whether a key was appended to a comment line without a newline: its type is glued to the comment's
/// last word. A commented-out key does not count.
fn hidden_in_note(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let [before, word] = pair else { return false };
        PublicKey::from_base64(word).is_some_and(|key| {
            before.ends_with(key.key_type()) && before.trim_start_matches('#') != key.key_type()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Level;
    use lh_crypto::{KeyType, PrivateKey};

    #[test]
    fn a_broken_line_revokes_every_key_and_is_named() {
        let line = |key: &PublicKey| key.to_openssh_line("x");
        let key = || PrivateKey::generate(KeyType::Ed25519, None).unwrap().public().clone();
        let (good, bad) = (key(), key());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("revoked");
        let settings = crate::testing::settings(&format!("RevokedKeys {}\n", path.display()));
        let log = Log::lines(Level::Info);
        let check = |text: &str, key: &PublicKey| {
            std::fs::write(&path, text).unwrap();
            (RevokedKeys::default().check(&settings, key, &log), log.taken().join("\n"))
        };
        let whole = line(&bad);
        // A line with an unknown key type is valid: a key of that type cannot log in anyway.
        let sound = format!("# a comment\n\n{whole}\r\nssh-future AAAACnNzaC1mdXR1cmUAAAABeA== x\n");
        assert_eq!(check(&sound, &good), (Revocation::No, String::new()));
        assert_eq!(check(&sound, &bad).0, Revocation::Yes);
        let (head, tail) = whole.split_at(40);
        for (text, place) in [
            (format!("{}\n{head}\n{tail}\n", line(&key())), "line 2: not a public key"),
            (head.to_owned(), "line 1: not a public key"),
            (format!("\n{}\n", &whole[..whole.len() - 8]), "line 2: not a public key"),
            (format!("no-such-option {whole}"), "line 1: bad options"),
        ] {
            for key in [&good, &bad] {
                let (revoked, lines) = check(&text, key);
                assert!(revoked != Revocation::No && lines.contains(place), "{text}: {lines}");
                assert!(lines.contains(&path.display().to_string()), "{lines}");
            }
        }
        // A key appended to a last line without a newline, and other systems' line ends.
        let other = line(&key());
        let comment = "ssh-ed25519 is what this is";
        assert_eq!(check(&format!("# {whole}\n#{whole}\n{other} {comment}\n"), &good).0, Revocation::No);
        for (text, place) in [
            (format!("{other}{whole}\n"), "line 1: a second key in one line"),
            (format!("\n{other} no-pty {whole}"), "line 2: a second key in one line"),
            (format!("{other} {}\n", &whole[..whole.len() - 30]), "line 1: a second key in one line"),
            (format!("# revoked in May{whole}\n"), "line 1: a second key in one line"),
            (format!("{other}\r{whole}\r"), "line 1: a second key in one line"),
            (format!("# revoked\r{whole}\r"), "line 1: a carriage return inside of a line"),
            (format!("{other}\n\n# a\r\r# b\r\n"), "line 3: a carriage return inside of a line"),
        ] {
            for key in [&good, &bad] {
                let (revoked, lines) = check(&text, key);
                assert!(revoked != Revocation::No && lines.contains(place), "{text:?}: {lines}");
                assert!(lines.contains(&path.display().to_string()), "{lines}");
            }
        }
        // A key on a valid line is revoked even beside broken lines.
        assert!(check(&format!("{head}\n{whole}\n"), &bad).1.contains("revoked by file"));
    }

    #[test]
    fn a_file_is_read_once_and_failures_stay() {
        let key = || PrivateKey::generate(KeyType::Ed25519, None).unwrap().public().clone();
        let (bad, good) = (key(), key());
        let directory = tempfile::tempdir().unwrap();
        let [list, missing] = ["list", "missing"].map(|name| directory.path().join(name));
        let settings = |path: &Path| crate::testing::settings(&format!("RevokedKeys {}\n", path.display()));
        let log = Log::lines(Level::Info);
        let files = RevokedKeys::default();
        std::fs::write(&list, bad.to_openssh_line("")).unwrap();
        assert_eq!(files.check(&settings(&list), &good, &log), Revocation::No);
        std::fs::write(&list, good.to_openssh_line("")).unwrap();
        assert_eq!(files.check(&settings(&list), &good, &log), Revocation::No);
        assert_eq!(files.check(&settings(&list), &bad, &log), Revocation::Yes);
        assert_eq!(files.check(&settings(&missing), &good, &log), Revocation::Unknown);
        std::fs::write(&missing, "").unwrap();
        assert_eq!(files.check(&settings(&missing), &good, &log), Revocation::Unknown);
        files.forget();
        assert_eq!(files.check(&settings(&missing), &good, &log), Revocation::No);
        assert_eq!(files.check(&settings(&list), &good, &log), Revocation::Yes);
    }
}
