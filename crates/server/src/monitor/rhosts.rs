//! `hosts.equiv`, `shosts.equiv`, `~/.shosts` and `~/.rhosts`: which users of which hosts may log in as which
//! users here.
//!
//! A line is `[+|-]host [[+|-]user]`, where each may be `@netgroup`. A line without a user applies to the
//! user with the local user's name. The first line that applies to the client decides for its file; a minus
//! refuses. So does a malformed line with a minus, or one with a netgroup that is not known, perhaps because
//! its service does not answer: it is unknown which hosts and users it should have refused.

use std::borrow::Cow;
use std::io::{self, BufRead};
use std::path::Path;

use lh_config::enums::IgnoreRhosts;
use lh_sys::ids::{Ids, with_effective};
use lh_sys::private_group::{Place, only_owner_writes};
use lh_sys::users::{User, in_netgroup, is_netgroup};

use crate::bounded_lines::{BoundedLines, MAX_LINE};
use crate::log::{Log, debug, error, info};
use crate::strict;

/// System-wide files; they do not count for root.
const SYSTEM_FILES: [&str; 2] = ["/etc/hosts.equiv", "/etc/ssh/shosts.equiv"];
/// Files in the user's home directory.
const USER_FILES: [&str; 2] = [".shosts", ".rhosts"];

/// Said about lines that are too long, not text, or not of one or two words.
const GARBAGE: &str = "Found garbage";

/// The client's user, and the settings that apply.
pub(super) struct Rules<'a> {
    /// Name of the client's host.
    pub(super) name: &'a str,
    /// Address of the client's host, which a line may have in place of the name.
    pub(super) address: &'a str,
    /// User name on the client's host.
    pub(super) client_user: &'a str,
    /// The local user that the client wants to log in as.
    pub(super) user: &'a User,
    /// Value of `StrictModes`.
    pub(super) strict: bool,
    /// Value of `IgnoreRhosts`.
    pub(super) ignore: IgnoreRhosts,
}

/// Returns whether one of the files permits the login.
pub(super) fn allow(rules: &Rules<'_>, log: &Log) -> bool {
    allow_by(rules, &SYSTEM_FILES.map(Path::new), log)
}

fn allow_by(rules: &Rules<'_>, system_files: &[&Path], log: &Log) -> bool {
    let user = rules.user;
    if user.uid != 0 {
        for path in system_files {
            // No `StrictModes` check for the administrator's files.
            let permits = strict::open("root", "hosts", path, Path::new("/"), 0, false)
                .and_then(|file| file.read_by(|file| decide(file, rules, path, log)));
            match permits {
                Ok(true) => return true,
                Ok(false) => {}
                Err(problem) => debug!(log, "{}: {problem}", path.display()),
            }
        }
    }
    match std::fs::metadata(&user.home) {
        Err(_) => {
            let home = user.home.display();
            info!(log, "Rhosts authentication refused for {}: no home directory {home}", user.name);
            return false;
        }
        Ok(about) if rules.strict && !only_owner_writes(&about, Place::At(&user.home), user.uid) => {
            info!(
                log,
                "Rhosts authentication refused for {}: bad ownership or modes for home directory.", user.name
            );
            return false;
        }
        Ok(_) => {}
    }
    let as_the_user = Ids::of(user).and_then(|ids| {
        with_effective(&ids, || USER_FILES.iter().any(|file| allowed_by_user(rules, file, log)))
    });
    as_the_user.unwrap_or_else(|problem| {
        error!(log, "cannot read files as user {}: {problem}", user.name);
        false
    })
}

fn allowed_by_user(rules: &Rules<'_>, file: &str, log: &Log) -> bool {
    let path = rules.user.home.join(file);
    let Ok(about) = std::fs::metadata(&path) else { return false };
    if rules.strict && !only_owner_writes(&about, Place::At(&path), rules.user.uid) {
        let (name, path) = (&rules.user.name, path.display());
        info!(log, "Rhosts authentication refused for {name}: bad modes for {path}");
        return false;
    }
    let ignored = match rules.ignore {
        IgnoreRhosts::Yes => true,
        IgnoreRhosts::No => false,
        IgnoreRhosts::ShostsOnly => file != ".shosts",
    };
    if ignored {
        debug!(log, "Server has been configured to ignore {file}.");
        return false;
    }
    let permits = strict::open(&rules.user.name, "hosts", &path, &rules.user.home, rules.user.uid, false)
        .and_then(|file| file.read_by(|file| decide(file, rules, &path, log)));
    permits.unwrap_or_else(|problem| {
        info!(log, "{problem}");
        false
    })
}

/// Returns whether a file permits the login.
///
/// # Errors
/// The file cannot be read.
fn decide(file: impl BufRead, rules: &Rules<'_>, path: &Path, log: &Log) -> io::Result<bool> {
    let path = path.display();
    let mut lines = BoundedLines::new(file, MAX_LINE);
    while let Some(line) = lines.next_line()? {
        let number = line.number;
        let text = String::from_utf8_lossy(line.bytes);
        let judgement = match text {
            // Bytes that are not UTF-8 were replaced.
            Cow::Owned(_) => Judgement::garbage(&text, GARBAGE),
            Cow::Borrowed(_) if line.is_too_long => Judgement::garbage(&text, GARBAGE),
            Cow::Borrowed(text) => judge(text, rules),
        };
        match judgement {
            Judgement::Nothing => {}
            Judgement::Garbage(what) => debug!(log, "{what} in {path}."),
            Judgement::UnknownNetgroup => {
                error!(log, "{path}:{number}: unknown netgroup: the lines after this one permit nobody");
                return Ok(false);
            }
            Judgement::BrokenMinus => {
                error!(log, "{path}:{number}: invalid line that refuses: the lines after it permit nobody");
                return Ok(false);
            }
            Judgement::Yes => {
                debug!(log, "Matched entry in {path}.");
                return Ok(true);
            }
            Judgement::No => {
                debug!(log, "Matched negative entry in {path}.");
                return Ok(false);
            }
        }
    }
    Ok(false)
}

#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    /// The line applies to another user or host, or is a comment.
    Nothing,
    /// The line is malformed.
    Garbage(&'static str),
    /// The line is malformed, and begins with a host or a user that has a minus.
    BrokenMinus,
    /// The line has a minus, and would refuse the client if an unknown netgroup has it as a member.
    UnknownNetgroup,
    Yes,
    No,
}

impl Judgement {
    /// Judges a malformed line; `what` is for the log.
    fn garbage(line: &str, what: &'static str) -> Self {
        // A byte order mark may be in front of the first line.
        let has_minus = |word: &str| {
            word.trim_start_matches(|character: char| !character.is_ascii_graphic()).starts_with('-')
        };
        match line.split_ascii_whitespace().take(2).any(has_minus) && !is_comment(line) {
            true => Self::BrokenMinus,
            false => Self::Garbage(what),
        }
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

fn judge(line: &str, rules: &Rules<'_>) -> Judgement {
    if is_comment(line) {
        return Judgement::Nothing;
    }
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (host, user) = match words[..] {
        [] => return Judgement::Nothing,
        [host] => (host, rules.user.name.as_str()),
        [host, user] => (host, user),
        _ => return Judgement::garbage(line, GARBAGE),
    };
    let (no_host, host) = signed(host);
    let (no_user, user) = signed(user);
    // No host has a name with other characters.
    if host.is_empty() || user.is_empty() || !host.is_ascii() {
        return Judgement::garbage(line, "Ignoring wild host/user names");
    }
    let host = match host.strip_prefix('@') {
        Some(netgroup) => is_member(netgroup, |group| {
            [rules.name, rules.address].iter().any(|host| in_netgroup(group, Some(host), None))
        }),
        None => Membership::of(host.eq_ignore_ascii_case(rules.name) || host == rules.address),
    };
    if host == Membership::No {
        return Judgement::Nothing;
    }
    let user = match user.strip_prefix('@') {
        Some(netgroup) => is_member(netgroup, |group| in_netgroup(group, None, Some(rules.client_user))),
        None => Membership::of(user == rules.client_user),
    };
    match (host, user) {
        (_, Membership::No) => Judgement::Nothing,
        (Membership::Yes, Membership::Yes) if no_host || no_user => Judgement::No,
        (Membership::Yes, Membership::Yes) => Judgement::Yes,
        _ if no_host || no_user => Judgement::UnknownNetgroup,
        _ => Judgement::Nothing,
    }
}

/// Whether the client's host, or user, is the one of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Membership {
    Yes,
    No,
    /// The line has a netgroup that is not known.
    Unknown,
}

impl Membership {
    const fn of(fits: bool) -> Self {
        if fits { Self::Yes } else { Self::No }
    }
}

/// Returns whether a netgroup has a member. `has` looks it up.
fn is_member(netgroup: &str, has: impl Fn(&str) -> bool) -> Membership {
    match has(netgroup) {
        true => Membership::Yes,
        false if is_netgroup(netgroup) => Membership::No,
        false => Membership::Unknown,
    }
}

/// Returns whether a word has a minus in front, and the word without its sign.
fn signed(word: &str) -> (bool, &str) {
    match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word.strip_prefix('+').unwrap_or(word)),
    }
}

/// Decides by a file of a user. It permits nothing without a line that names the host.
#[cfg(fuzzing)]
pub(super) fn fuzz(bytes: &[u8]) {
    // Netgroups are looked up outside this process.
    if bytes.contains(&b'@') {
        return;
    }
    let text = || String::new();
    let (home, shell) = (std::path::PathBuf::from("/"), std::path::PathBuf::from("/bin/sh"));
    let user = User { name: "ada".to_owned(), uid: 1000, gid: 1000, home, shell, gecos: text() };
    let (name, address) = ("client.example", "192.0.2.7");
    let rules =
        Rules { name, address, client_user: "ada", user: &user, strict: true, ignore: IgnoreRhosts::No };
    let log = Log::stderr(crate::log::Level::Quiet);
    if decide(bytes, &rules, Path::new(".shosts"), &log).expect("memory can be read") {
        let names_host = |line: &[u8]| {
            let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty()).unwrap_or_default();
            let word = word.strip_prefix(b"+").unwrap_or(word);
            word.eq_ignore_ascii_case(name.as_bytes()) || word == address.as_bytes()
        };
        assert!(bytes.split(|byte| *byte == b'\n').any(names_host), "nobody was named");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Level;
    use proptest::prelude::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    fn me(home: &Path) -> User {
        let user = lh_sys::users::current().unwrap().unwrap();
        User { home: home.to_owned(), ..user }
    }

    fn rules<'a>(user: &'a User, client_user: &'a str) -> Rules<'a> {
        let (name, address) = ("Client.example", "192.0.2.7");
        Rules { name, address, client_user, user, strict: true, ignore: IgnoreRhosts::No }
    }

    #[test]
    fn lines_are_about_hosts_and_users() {
        let home = tempfile::tempdir().unwrap();
        let user = User { name: "ada".to_owned(), ..me(home.path()) };
        let says = |line: &str| judge(line, &rules(&user, "ada"));
        for line in ["client.EXAMPLE", "192.0.2.7", "+client.example +ada", "  client.example\tada  "] {
            assert_eq!(says(line), Judgement::Yes, "{line:?}");
        }
        for line in ["-client.example", "client.example -ada", "-192.0.2.7 ada"] {
            assert_eq!(says(line), Judgement::No, "{line:?}");
        }
        for line in ["", "# client.example", "other.example", "client.example bob", "@nobody-has-this ada"] {
            assert_eq!(says(line), Judgement::Nothing, "{line:?}");
        }
        for line in ["+", "+ +", "client.example +", "client.example ada more", "client.example ada - more"] {
            assert!(matches!(says(line), Judgement::Garbage(_)), "{line:?}");
        }
        let minus =
            ["- ada", "-", "client.example -", "-other.example bob # in May", "client.example -ada x"];
        for line in minus.into_iter().chain(["\u{feff}-client.example bob", "-\u{a0}other.example"]) {
            assert_eq!(says(line), Judgement::BrokenMinus, "{line:?}");
        }
        let unknown =
            ["-@nobody-has-this", "client.example -@nobody-has-this", "-@nobody-has-this @nor-this"];
        for line in unknown {
            assert_eq!(says(line), Judgement::UnknownNetgroup, "{line:?}");
        }
        // These are about another user or host; the members of the netgroup do not matter.
        for line in ["-@nobody-has-this bob", "other.example -@nobody-has-this"] {
            assert_eq!(says(line), Judgement::Nothing, "{line:?}");
        }
        // A line without a user applies only to equal names.
        assert_eq!(judge("client.example", &rules(&user, "bob")), Judgement::Nothing);
        assert_eq!(judge("client.example bob", &rules(&user, "bob")), Judgement::Yes);
    }

    #[test]
    fn an_invalid_line_with_a_minus_ends_the_file() {
        let home = tempfile::tempdir().unwrap();
        let user = User { name: "ada".to_owned(), ..me(home.path()) };
        let long = "x".repeat(2 * MAX_LINE);
        for (first, is_permitted) in [
            (b"-other.example mallory".to_vec(), true),
            (b"other.example # garbage".to_vec(), true),
            (format!("# -{long}").into_bytes(), true),
            (b"# \xff -x".to_vec(), true),
            (b"-other.example mallory # left in May".to_vec(), false),
            (b"- other.example".to_vec(), false),
            (b"other.example -m\xfcller".to_vec(), false),
            (format!("-other.example {long}").into_bytes(), false),
            (format!("-{long}").into_bytes(), false),
            (b"@nobody-has-this".to_vec(), true),
            (b"-@nobody-has-this".to_vec(), false),
        ] {
            let log = Log::lines(Level::Info);
            let file = [&b"# first\n"[..], &first, b"\nclient.example\n"].concat();
            let decided = decide(&*file, &rules(&user, "ada"), Path::new("equiv"), &log).unwrap();
            let first = String::from_utf8_lossy(&first[..first.len().min(40)]).into_owned();
            assert_eq!(decided, is_permitted, "{first}");
            assert_eq!(log.taken().iter().any(|line| line.contains("equiv:2: ")), !is_permitted, "{first}");
        }
    }

    /// Covers: sshd_config IgnoreRhosts; sshd_config StrictModes
    #[test]
    fn files_of_the_user_count_where_they_are_asked_for_and_safe() {
        let home = tempfile::tempdir().unwrap();
        set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
        let user = me(home.path());
        let log = Log::lines(Level::Debug1);
        let file = |name: &str, text: &str| {
            let path = home.path().join(name);
            write(&path, text).unwrap();
            set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            path
        };
        let allowed = |ignore: IgnoreRhosts| {
            allow_by(&Rules { ignore, ..rules(&user, "bob") }, &[Path::new("/nonexistent")], &log)
        };
        assert!(!allowed(IgnoreRhosts::No));
        let rhosts = file(".rhosts", "client.example bob\n");
        assert!(allowed(IgnoreRhosts::No));
        assert!(!allowed(IgnoreRhosts::ShostsOnly) && !allowed(IgnoreRhosts::Yes));
        // A minus decides only for its own file.
        file(".shosts", "-client.example bob\nclient.example bob\n");
        assert!(allowed(IgnoreRhosts::No) && !allowed(IgnoreRhosts::ShostsOnly));
        file(".shosts", "client.example bob\n");
        assert!(allowed(IgnoreRhosts::ShostsOnly) && !allowed(IgnoreRhosts::Yes));
        std::fs::remove_file(home.path().join(".shosts")).unwrap();
        // Group or others could have written this file.
        set_permissions(&rhosts, Permissions::from_mode(0o646)).unwrap();
        assert!(!allowed(IgnoreRhosts::No));
        set_permissions(&rhosts, Permissions::from_mode(0o644)).unwrap();
        set_permissions(home.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(!allowed(IgnoreRhosts::No));
    }

    #[test]
    fn the_host_s_files_are_not_for_root() {
        let (home, etc) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let equiv = etc.path().join("shosts.equiv");
        write(&equiv, "client.example\n").unwrap();
        let log = Log::lines(Level::Debug1);
        let root = User { uid: 0, gid: 0, name: "root".to_owned(), ..me(home.path()) };
        let ada = User { uid: 12345, name: "ada".to_owned(), ..me(home.path()) };
        assert!(allow_by(&rules(&ada, "ada"), &[&equiv], &log));
        assert!(!allow_by(&rules(&ada, "bob"), &[&equiv], &log));
        if lh_sys::ids::is_root() {
            assert!(!allow_by(&rules(&root, "root"), &[&equiv], &log));
        }
    }

    proptest! {
        #[test]
        fn any_line_is_answered(line in "\\PC{0,100}") {
            let user = me(Path::new("/"));
            judge(&line, &rules(&user, "ada"));
        }
    }
}
