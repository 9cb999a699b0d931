//! The environment of a user's programs.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use lh_config::pattern::wildcard;
use lh_sys::users::User;

/// `PATH` of ordinary users, as in Debian's sshd.
const USER_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/games";
/// `PATH` of root.
const ROOT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Largest number of variables accepted from a client (OpenSSH's limit), and the largest size of one, bytes.
const MAX_CLIENT_VARIABLES: usize = 128;
const MAX_VARIABLE_LEN: usize = 64 * 1024;

/// Names and values; a later value for a name replaces the earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    variables: Vec<(OsString, OsString)>,
}

impl Environment {
    /// Sets a variable. A pair with a NUL inside is dropped, because a program would see only the part before
    /// it.
    pub(crate) fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        let (name, value) = (name.into(), value.into());
        let nul = |text: &OsString| text.as_encoded_bytes().contains(&0);
        if name.is_empty() || name.as_encoded_bytes().contains(&b'=') || nul(&name) || nul(&value) {
            return;
        }
        match self.variables.iter_mut().find(|(known, _)| *known == name) {
            Some((_, slot)) => *slot = value,
            None => self.variables.push((name, value)),
        }
    }

    /// Returns the pairs for [`lh_sys::spawn::Program::env`].
    pub(crate) fn into_variables(self) -> Vec<(OsString, OsString)> {
        self.variables
    }

    #[cfg(test)]
    fn value(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.to_str())
    }
}

/// Variables from a client's `env` requests that `AcceptEnv` permits.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientVariables {
    accepted: Vec<(String, OsString)>,
}

impl ClientVariables {
    /// Accepts a variable from one request; returns `false` when it is not permitted.
    pub(crate) fn offer(&mut self, patterns: &[String], name: &str, value: OsString) -> bool {
        let permitted = patterns.iter().any(|pattern| wildcard(name.as_bytes(), pattern.as_bytes()));
        if !permitted || self.accepted.len() >= MAX_CLIENT_VARIABLES || value.len() > MAX_VARIABLE_LEN {
            return false;
        }
        self.accepted.push((name.to_owned(), value));
        true
    }
}

/// The sources of a program's environment, lowest precedence first.
pub(crate) struct Sources<'a> {
    /// Variables of the client.
    pub(crate) client: &'a ClientVariables,
    /// The user who has logged in.
    pub(crate) user: &'a User,
    /// `environment=` options of the key (empty unless `PermitUserEnvironment` allows them).
    pub(crate) key: &'a [(String, String)],
    /// Variables of `~/.ssh/environment`, as far as permitted.
    pub(crate) user_file: &'a [(OsString, OsString)],
    /// Location of the user's Kerberos credentials (`KRB5CCNAME`).
    pub(crate) credentials: Option<&'a str>,
    /// PAM is used for this session.
    pub(crate) pam: bool,
    /// Variables that PAM's modules have set.
    pub(crate) modules: &'a [(OsString, OsString)],
    /// Variables of the server's `SetEnv`.
    pub(crate) set_env: &'a [(String, String)],
    /// The client's address and the server's.
    pub(crate) connection: Option<(SocketAddr, SocketAddr)>,
    /// Value of `DISPLAY`.
    pub(crate) display: Option<&'a str>,
    /// Path of the forwarded agent's socket.
    pub(crate) agent: Option<&'a std::path::Path>,
    /// Device path and type (`TERM`) of the terminal.
    pub(crate) terminal: Option<(&'a std::path::Path, &'a str)>,
    /// The client's command, where another one is forced.
    pub(crate) original_command: Option<&'a OsString>,
    /// Path of the file for `ExposeAuthInfo`.
    pub(crate) auth_info: Option<&'a std::path::Path>,
}

/// Largest number of lines in `~/.ssh/environment`, as in OpenSSH.
const MAX_USER_LINES: usize = 1000;

/// The content of `~/.ssh/environment`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UserFile {
    pub(super) variables: Vec<(OsString, OsString)>,
    /// Messages for the user, one for each invalid line.
    pub(super) problems: String,
}

/// Why `~/.ssh/environment` cannot be used. `Display` is OpenSSH's text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UserFileError {
    #[error("Too many lines in environment file {}", .0.display())]
    TooManyLines(PathBuf),
}

/// Reads `~/.ssh/environment`: `NAME=value`, comments, blank lines. Bytes that are not UTF-8 are kept.
///
/// # Errors
/// The file has too many lines: no program is run then, as in OpenSSH.
pub(super) fn read_user_file(path: &Path) -> Result<UserFile, UserFileError> {
    parse_user_file(&std::fs::read(path).unwrap_or_default(), path)
}

/// Parses the text of `~/.ssh/environment`. `path` is for messages.
fn parse_user_file(text: &[u8], path: &Path) -> Result<UserFile, UserFileError> {
    let mut file = UserFile::default();
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        if index == MAX_USER_LINES {
            return Err(UserFileError::TooManyLines(path.to_owned()));
        }
        // A program would see nothing after a NUL.
        let line = line.split(|&byte| byte == 0).next().unwrap_or_default();
        let start = line.iter().position(|byte| !b" \t".contains(byte)).unwrap_or(line.len());
        let line = line.get(start..).unwrap_or_default();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        match line.iter().position(|&byte| byte == b'=') {
            Some(at) => {
                let (name, value) = line.split_at(at);
                let value = value.get(1..).unwrap_or_default();
                file.variables.push((OsString::from_vec(name.to_vec()), OsString::from_vec(value.to_vec())));
            }
            None => file.problems.push_str(&format!("Bad line {} in {}\n", index + 1, path.display())),
        }
    }
    Ok(file)
}

/// Builds the environment, in OpenSSH's order of precedence.
pub(crate) fn build(sources: &Sources<'_>) -> Environment {
    let mut environment = Environment::default();
    if let Some(place) = sources.credentials {
        environment.set("KRB5CCNAME", place);
    }
    for (name, value) in &sources.client.accepted {
        environment.set(name, value);
    }
    let user = sources.user;
    environment.set("USER", &user.name);
    environment.set("LOGNAME", &user.name);
    environment.set("HOME", &user.home);
    environment.set("PATH", if user.uid == 0 { ROOT_PATH } else { USER_PATH });
    // As in sshd: with PAM, its modules set `MAIL`.
    if !sources.pam {
        environment.set("MAIL", format!("/var/mail/{}", user.name));
    }
    environment.set("SHELL", &user.shell);
    if let Some(zone) = std::env::var_os("TZ") {
        environment.set("TZ", zone);
    }
    // A client without a terminal type sends an empty one.
    if let Some((_, kind)) = sources.terminal.filter(|(_, kind)| !kind.is_empty()) {
        environment.set("TERM", kind);
    }
    for (name, value) in sources.key {
        environment.set(name, value);
    }
    for (name, value) in sources.user_file {
        environment.set(name, value);
    }
    // These variables are only for PAM's modules.
    let internal = |name: &OsString| name.as_encoded_bytes().starts_with(b"SSH_AUTH_INFO");
    for (name, value) in sources.modules.iter().filter(|(name, _)| !internal(name)) {
        environment.set(name, value);
    }
    for (name, value) in sources.set_env {
        environment.set(name, value);
    }
    if let Some((peer, local)) = sources.connection {
        let (from, to) = (lh_sys::interfaces::numeric_host(&peer), lh_sys::interfaces::numeric_host(&local));
        environment.set("SSH_CLIENT", format!("{from} {} {}", peer.port(), local.port()));
        let connection = format!("{from} {} {to} {}", peer.port(), local.port());
        environment.set("SSH_CONNECTION", connection);
    } else {
        // Over pipes there are no addresses; scripts know OpenSSH's values for that.
        environment.set("SSH_CLIENT", "UNKNOWN 65535 65535");
        environment.set("SSH_CONNECTION", "UNKNOWN 65535 UNKNOWN 65535");
    }
    if let Some(display) = sources.display {
        environment.set("DISPLAY", display);
    }
    if let Some(socket) = sources.agent {
        environment.set("SSH_AUTH_SOCK", socket);
    }
    if let Some((device, _)) = sources.terminal {
        environment.set("SSH_TTY", device);
    }
    if let Some(command) = sources.original_command {
        environment.set("SSH_ORIGINAL_COMMAND", command);
    }
    if let Some(path) = sources.auth_info {
        environment.set("SSH_USER_AUTH", path);
    }
    environment
}

/// Parses `~/.ssh/environment` and checks what a program would get of it.
#[cfg(fuzzing)]
pub(crate) fn fuzz_user_file(bytes: &[u8]) {
    let Ok(file) = parse_user_file(bytes, Path::new("environment")) else { return };
    assert!(file.variables.len() <= MAX_USER_LINES);
    let mut environment = Environment::default();
    for (name, value) in file.variables {
        environment.set(name, value);
    }
    let mut names: Vec<OsString> = Vec::new();
    for (name, value) in environment.into_variables() {
        assert!(!name.is_empty() && !name.as_encoded_bytes().iter().any(|byte| b"=\0\n".contains(byte)));
        assert!(!value.as_encoded_bytes().iter().any(|byte| b"\0\n".contains(byte)));
        assert!(!names.contains(&name));
        names.push(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32) -> User {
        crate::testing::user(uid, "/home/ada".as_ref(), "/bin/zsh")
    }

    #[test]
    fn precedence_is_openssh_s() {
        let patterns = ["LANG".to_owned(), "LC_*".to_owned(), "HOME".to_owned()];
        let mut client = ClientVariables::default();
        assert!(client.offer(&patterns, "LC_ALL", "C".into()));
        assert!(client.offer(&patterns, "HOME", "/evil".into()));
        assert!(!client.offer(&patterns, "LD_PRELOAD", "/evil.so".into()));
        let key = [("A".to_owned(), "key".to_owned()), ("SSH_CLIENT".to_owned(), "forged".to_owned())];
        let set_env = [("A".to_owned(), "server".to_owned()), ("C".to_owned(), "server".to_owned())];
        let modules = [("C", "modules"), ("D", "modules"), ("B", "modules"), ("SSH_AUTH_INFO_0", "x")];
        let modules = modules.map(|(name, value)| (name.into(), value.into()));
        let built = build(&Sources {
            client: &client,
            user: &user(1000),
            key: &key,
            set_env: &set_env,
            user_file: &[("B", "file=1"), ("E", "file=1")].map(|(name, value)| (name.into(), value.into())),
            credentials: Some("FILE:/tmp/krb5cc_1000_x"),
            pam: false,
            modules: &modules,
            connection: Some(("10.0.0.1:4000".parse().unwrap(), "10.0.0.2:22".parse().unwrap())),
            display: Some("localhost:10.0"),
            agent: Some(std::path::Path::new("/home/ada/.ssh/agent/s")),
            terminal: Some((std::path::Path::new("/dev/pts/7"), "xterm")),
            original_command: Some(&"ls -l".into()),
            auth_info: Some(std::path::Path::new("/tmp/sshauth.x")),
        });
        for (name, value) in [
            ("LC_ALL", "C"),
            ("KRB5CCNAME", "FILE:/tmp/krb5cc_1000_x"),
            ("HOME", "/home/ada"),
            ("SHELL", "/bin/zsh"),
            ("PATH", USER_PATH),
            ("MAIL", "/var/mail/ada"),
            ("A", "server"),
            ("B", "modules"),
            ("C", "server"),
            ("D", "modules"),
            ("E", "file=1"),
            ("SSH_USER_AUTH", "/tmp/sshauth.x"),
            ("SSH_CLIENT", "10.0.0.1 4000 22"),
            ("SSH_CONNECTION", "10.0.0.1 4000 10.0.0.2 22"),
            ("SSH_AUTH_SOCK", "/home/ada/.ssh/agent/s"),
            ("SSH_TTY", "/dev/pts/7"),
            ("DISPLAY", "localhost:10.0"),
            ("TERM", "xterm"),
            ("SSH_ORIGINAL_COMMAND", "ls -l"),
        ] {
            assert_eq!(built.value(name), Some(value), "{name}");
        }
        assert_eq!(built.value("SSH_AUTH_INFO_0"), None);
    }

    #[test]
    fn bad_lines_of_the_user_s_file_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("environment");
        std::fs::write(&path, b"# no\n\nB=file=1\n \tbroken\n  C=\xff\r\nD\0=x\n\t\nE=").unwrap();
        let bad = |line| format!("Bad line {line} in {}\n", path.display());
        let pair = |name: &str, value: &[u8]| (name.into(), OsString::from_vec(value.to_vec()));
        assert_eq!(
            read_user_file(&path),
            Ok(UserFile {
                variables: vec![pair("B", b"file=1"), pair("C", b"\xff\r"), pair("E", b"")],
                problems: bad(4) + &bad(6),
            })
        );
        std::fs::write(&path, "A=1\n".repeat(1000)).unwrap();
        assert_eq!(read_user_file(&path).map(|file| file.variables.len()), Ok(1000));
        std::fs::write(&path, "A=1\n".repeat(1001)).unwrap();
        assert!(
            read_user_file(&path)
                .unwrap_err()
                .to_string()
                .starts_with("Too many lines in environment file /")
        );
        assert_eq!(read_user_file(&directory.path().join("none")), Ok(UserFile::default()));
    }

    #[test]
    fn floods_and_broken_names_are_dropped() {
        let patterns = ["*".to_owned()];
        let mut client = ClientVariables::default();
        for number in 0..1000 {
            client.offer(&patterns, &format!("V{number}"), "x".into());
        }
        assert_eq!(client.accepted.len(), MAX_CLIENT_VARIABLES);
        assert!(!client.offer(&patterns, "BIG", "x".repeat(100_000).into()));
        let mut environment = Environment::default();
        environment.set("A=B", "x");
        environment.set("", "x");
        environment.set("A", "x\0y");
        assert_eq!(environment, Environment::default());
    }
}
