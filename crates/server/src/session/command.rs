//! Decides what a session runs: a shell, the client's command, or a forced one.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use lh_config::enums::LonghaulSftp;
use lh_config::server_table::ServerSettings;
use lh_sftp_server::Arguments;
use lh_sys::users::User;

use crate::key_options::KeyOptions;

/// The program that the client requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestedProgram {
    /// A `shell` request.
    Shell,
    /// An `exec` request.
    Command(OsString),
    /// A `subsystem` request.
    Subsystem(String),
}

/// A kind of program that a session runs, or the message in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Run a program.
    Program {
        path: PathBuf,
        arg0: OsString,
        args: Vec<OsString>,
        /// The program is a login shell, which gets the message of the day.
        login_shell: bool,
    },
    /// Serve SFTP in this process, with these arguments.
    InternalSftp(Vec<String>),
    /// Send this text as standard error and end with this status.
    Message(String, u32),
    /// The account or key is limited to SFTP, but the client requested a shell or a command.
    SftpOnly,
    /// There is no such subsystem.
    Nothing,
}

/// A plan and its origin, for the log and `SSH_ORIGINAL_COMMAND`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) plan: Plan,
    /// The client's command, where another one was forced.
    pub(crate) original: Option<OsString>,
    /// The program in the words of OpenSSH's log: `shell`, `command`, `subsystem 'sftp'`, `forced-command
    /// (config) '…'`.
    pub(crate) what: String,
    /// The command is forced, so the client may not send it signals.
    pub(crate) forced: bool,
}

/// Exit status of a session that may run nothing, as in sshd.
const CLOSED: u32 = 254;

/// Paths of OpenSSH's SFTP server in distributions. The server inside this process replaces it
/// (`LonghaulSftp`).
const SFTP_SERVERS: [&str; 9] = [
    "/usr/lib/openssh/sftp-server",
    "/usr/lib/ssh/sftp-server",
    "/usr/lib/sftp-server",
    "/usr/lib/misc/sftp-server",
    "/usr/lib64/misc/sftp-server",
    "/usr/lib64/ssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/libexec/sftp-server",
    "/usr/local/libexec/sftp-server",
];

/// Shells that run any command. Another shell may be there to refuse some, such as sftp-server, so it runs
/// first.
const PLAIN_SHELLS: [&str; 12] =
    ["sh", "ash", "bash", "csh", "dash", "fish", "ksh", "ksh93", "mksh", "tcsh", "yash", "zsh"];

/// The name of the SFTP server inside this process.
const INTERNAL_SFTP: &str = "internal-sftp";

/// Decides what to run. `notice` is the reason to run nothing: `/etc/nologin`, or a PAM module's refusal.
pub(crate) fn decide(
    wanted: &RequestedProgram,
    user: &User,
    settings: &ServerSettings,
    options: &KeyOptions,
    must_change_password: bool,
    has_terminal: bool,
    notice: Option<String>,
) -> Decision {
    let subsystem_command = match wanted {
        RequestedProgram::Subsystem(name) => settings.subsystem.find(name),
        _ => None,
    };
    let asked = match wanted {
        RequestedProgram::Shell => None,
        RequestedProgram::Command(command) => Some(command.clone()),
        RequestedProgram::Subsystem(_) => subsystem_command.map(OsString::from),
    };
    if let (RequestedProgram::Subsystem(_), None) = (wanted, &asked) {
        let what = "unknown subsystem".to_owned();
        return Decision { plan: Plan::Nothing, original: None, what, forced: false };
    }
    let forced = match (settings.force_command.command(), &options.command) {
        (Some(command), _) => Some(("config", command.to_owned())),
        (None, Some(command)) => Some(("key-option", command.clone())),
        (None, None) => None,
    };
    let what = match (&forced, wanted) {
        (Some((source, command)), _) => format!("forced-command ({source}) '{command}'"),
        (None, RequestedProgram::Shell) => "shell".to_owned(),
        (None, RequestedProgram::Command(_)) => "command".to_owned(),
        (None, RequestedProgram::Subsystem(name)) => format!("subsystem '{name}'"),
    };
    let is_forced = forced.is_some();
    let original = if is_forced { asked.clone() } else { None };
    let command = forced.map(|(_, command)| OsString::from(command)).or(asked);
    let plan = if let Some(notice) = notice {
        Plan::Message(notice, CLOSED)
    } else if must_change_password {
        change_password(has_terminal)
    } else {
        match command {
            None => login_shell(user),
            Some(command) => serve_or_run(command, wanted, is_forced, user, settings),
        }
    };
    Decision { plan, original, what, forced: is_forced }
}

/// Serves SFTP where the command means that; otherwise passes the command to the user's shell.
/// `internal-sftp` has its meaning only in the configuration and in `authorized_keys`: from a client, it is
/// an ordinary command.
fn serve_or_run(
    command: OsString,
    wanted: &RequestedProgram,
    is_forced: bool,
    user: &User,
    settings: &ServerSettings,
) -> Plan {
    let is_subsystem = matches!(wanted, RequestedProgram::Subsystem(_));
    let is_internal = is_internal_sftp(&command);
    match internal_sftp(&command, user, settings) {
        Some(_) if is_internal && is_forced && !is_subsystem => Plan::SftpOnly,
        Some(args) if !is_internal || is_forced || is_subsystem => Plan::InternalSftp(args),
        _ => shell_command(user, command),
    }
}

/// Returns the message for a client that requests a shell or a command from an SFTP-only account, as in sshd.
pub(crate) fn sftp_only(has_terminal: bool) -> &'static str {
    match has_terminal {
        true => "This service allows sftp connections only.\r\n",
        false => "This service allows sftp connections only.\n",
    }
}

/// Returns whether a command begins with the name of the SFTP server inside this process.
fn is_internal_sftp(command: &OsStr) -> bool {
    let words = command.to_str().map(split_words).unwrap_or_default();
    words.first().is_some_and(|word| word == INTERNAL_SFTP)
}

/// Returns the path, if a command is OpenSSH's SFTP server under one of its usual paths.
pub(crate) fn sftp_server(command: &OsStr) -> Option<&'static str> {
    let words = command.to_str().map(split_words)?;
    let path = words.first()?;
    SFTP_SERVERS.into_iter().find(|known| known == path)
}

/// Returns the arguments, if the command means the SFTP server inside this process: `internal-sftp`, or
/// OpenSSH's server where this process would do exactly its work.
fn internal_sftp(command: &OsStr, user: &User, settings: &ServerSettings) -> Option<Vec<String>> {
    let text = command.to_str()?;
    let mut words = split_words(text);
    let is_internal = words.first()? == INTERNAL_SFTP;
    words.remove(0);
    let replaced = || {
        let plain = base_name(&user.shell).to_str().is_some_and(|shell| PLAIN_SHELLS.contains(&shell));
        settings.longhaul_sftp.value == LonghaulSftp::Internal
            && plain
            && sftp_server(command).is_some()
            && is_plain(text)
            // OpenSSH's server runs itself where it would print a text or fail. Only our server has `-c`.
            && !words.iter().any(|word| word.starts_with("-c"))
            && Arguments::parse(words.iter().map(OsString::from), user).is_ok()
    };
    (is_internal || replaced()).then_some(words)
}

/// Returns whether a shell takes the text as plain words, with the meaning that [`split_words`] gives them.
fn is_plain(text: &str) -> bool {
    let mut quote = None;
    for c in text.chars() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            (' ' | '\t' | '-' | '_' | '.' | '/' | ',' | ':' | '+' | '@' | '%' | '=', _) => {}
            (c, _) if c.is_alphanumeric() => {}
            _ => return false,
        }
    }
    quote.is_none()
}

/// Splits a text at blanks outside quotes.
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

fn base_name(shell: &Path) -> &OsStr {
    shell.file_name().unwrap_or(shell.as_os_str())
}

/// Returns a login shell: a `-` in front of argument 0 tells the shell so.
fn login_shell(user: &User) -> Plan {
    let mut arg0 = b"-".to_vec();
    arg0.extend_from_slice(base_name(&user.shell).as_bytes());
    Plan::Program {
        path: user.shell.clone(),
        arg0: OsString::from_vec(arg0),
        args: Vec::new(),
        login_shell: true,
    }
}

fn shell_command(user: &User, command: OsString) -> Plan {
    Plan::Program {
        path: user.shell.clone(),
        arg0: base_name(&user.shell).to_owned(),
        args: vec!["-c".into(), command],
        login_shell: false,
    }
}

fn change_password(has_terminal: bool) -> Plan {
    if has_terminal {
        Plan::Program {
            path: "/usr/bin/passwd".into(),
            arg0: "passwd".into(),
            args: Vec::new(),
            login_shell: false,
        }
    } else {
        Plan::Message("Password change required but no TTY available.\n".to_owned(), 1)
    }
}

/// Returns the message for a user whose password is too old.
pub(crate) fn password_warning(has_terminal: bool) -> &'static str {
    if has_terminal {
        "WARNING: Your password has expired.\nYou must change your password now and log in again!\n"
    } else {
        "WARNING: Your password has expired.\n"
    }
}

/// Returns the text of `/etc/nologin`, where the file exists and the user is not root. A file that the user
/// may not read has an empty text, and keeps the user out as well.
pub(crate) fn nologin_notice(uid: u32) -> Option<String> {
    if uid == 0 { None } else { notice_of(Path::new("/etc/nologin")) }
}

fn notice_of(nologin: &Path) -> Option<String> {
    nologin.metadata().ok()?;
    let text = std::fs::read(nologin).unwrap_or_default();
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> User {
        crate::testing::user(1000, "/home/ada".as_ref(), "/bin/zsh")
    }

    #[test]
    fn a_nologin_file_that_cannot_be_read_counts() {
        let directory = tempfile::tempdir().unwrap();
        let nologin = directory.path().join("nologin");
        assert_eq!(notice_of(&nologin), None);
        std::fs::write(&nologin, "back at noon\n").unwrap();
        assert_eq!(notice_of(&nologin).as_deref(), Some("back at noon\n"));
        // Root can read any file, but no directory.
        assert_eq!(notice_of(directory.path()).as_deref(), Some(""));
    }

    fn decided(wanted: &RequestedProgram, config: &str, key: &str) -> Decision {
        let settings = crate::testing::settings(config);
        let options = KeyOptions::parse(key).unwrap();
        decide(wanted, &user(), &settings, &options, false, false, None)
    }

    fn program(plan: &Plan) -> Vec<&str> {
        match plan {
            Plan::Program { path, arg0, args, .. } => {
                let words =
                    [path.as_os_str(), arg0].into_iter().chain(args.iter().map(|arg| arg.as_os_str()));
                words.map(|word| word.to_str().unwrap()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn plain_requests() {
        let shell = decided(&RequestedProgram::Shell, "", "");
        assert_eq!(program(&shell.plan), ["/bin/zsh", "-zsh"]);
        assert_eq!(shell.what, "shell");
        let command = decided(&RequestedProgram::Command("ls -l; x".into()), "", "");
        assert_eq!(program(&command.plan), ["/bin/zsh", "zsh", "-c", "ls -l; x"]);
        assert_eq!(command.original, None);
    }

    #[test]
    fn subsystems() {
        let config = "Subsystem sftp internal-sftp -R -d /a/b\nSubsystem git /usr/bin/git-thing -x\n";
        let sftp = decided(&RequestedProgram::Subsystem("sftp".to_owned()), config, "");
        assert_eq!(sftp.plan, Plan::InternalSftp(vec!["-R".into(), "-d".into(), "/a/b".into()]));
        let other = decided(&RequestedProgram::Subsystem("git".to_owned()), config, "");
        assert_eq!(program(&other.plan), ["/bin/zsh", "zsh", "-c", "/usr/bin/git-thing -x"]);
        assert_eq!(decided(&RequestedProgram::Subsystem("x".to_owned()), config, "").plan, Plan::Nothing);
    }

    #[test]
    fn the_sftp_server_of_distributions_is_the_internal_one() {
        let wanted = RequestedProgram::Subsystem("sftp".to_owned());
        for path in SFTP_SERVERS {
            let config = format!("Subsystem sftp {path} -l INFO\n");
            let plan = decided(&wanted, &config, "").plan;
            assert_eq!(plan, Plan::InternalSftp(vec!["-l".into(), "INFO".into()]));
            let external = decided(&wanted, &format!("{config}LonghaulSftp external\n"), "");
            assert_eq!(program(&external.plan), ["/bin/zsh", "zsh", "-c", &format!("{path} -l INFO")]);
        }
        // Another program, and accounts whose shell decides what runs.
        let own = decided(&wanted, "Subsystem sftp /opt/sftp-server\n", "");
        assert_eq!(program(&own.plan), ["/bin/zsh", "zsh", "-c", "/opt/sftp-server"]);
        let settings = crate::testing::settings("Subsystem sftp /usr/lib/openssh/sftp-server\n");
        for shell in ["/usr/sbin/nologin", "/bin/false", "/usr/bin/rssh", "/bin/rbash"] {
            let user = crate::testing::user(1000, "/home/ada".as_ref(), shell);
            let plan = decide(&wanted, &user, &settings, &KeyOptions::default(), false, false, None).plan;
            assert!(matches!(plan, Plan::Program { .. }), "{shell}");
        }
    }

    #[test]
    fn command_lines_with_shell_syntax_run_the_external_server() {
        const PATH: &str = "/usr/lib/openssh/sftp-server";
        for rest in [
            " 2>/dev/null",
            "; date",
            " | tee /tmp/x",
            " && id",
            " -d $HOME",
            " -d ~",
            " -d `pwd`",
            " -d \"a",
            " -l INFO\ndate",
            " -Q requests",
            " -h",
            " -x",
            " -u 999",
            " -c x",
            " /tmp",
        ] {
            let line = format!("{PATH}{rest}");
            let plan = decided(&RequestedProgram::Command(line.clone().into()), "", "").plan;
            assert!(matches!(plan, Plan::Program { .. }), "{line}: {plan:?}");
            // Lines with these characters cannot be written in a configuration.
            if !line.contains(['"', '\n']) {
                let config = format!("Subsystem sftp {line}\n");
                let plan = decided(&RequestedProgram::Subsystem("sftp".to_owned()), &config, "").plan;
                assert!(matches!(plan, Plan::Program { .. }), "{line}: {plan:?}");
            }
        }
        for (rest, expected) in [("", &[][..]), (" -R -d '/srv/a b'", &["-R", "-d", "/srv/a b"])] {
            let plan = decided(&RequestedProgram::Command(format!("{PATH}{rest}").into()), "", "").plan;
            assert_eq!(plan, Plan::InternalSftp(expected.iter().map(|word| (*word).to_owned()).collect()));
        }
    }

    #[test]
    fn forced_commands_win_and_keep_what_was_asked() {
        let wanted = RequestedProgram::Command("rm -rf /".into());
        let key = decided(&wanted, "", r#"command="backup""#);
        assert_eq!(program(&key.plan), ["/bin/zsh", "zsh", "-c", "backup"]);
        assert_eq!(key.original, Some("rm -rf /".into()));
        assert_eq!(key.what, "forced-command (key-option) 'backup'");
        assert!(key.forced);
        let config = decided(&wanted, "ForceCommand internal-sftp\n", r#"command="backup""#);
        assert_eq!(config.plan, Plan::SftpOnly);
        let subsystem = RequestedProgram::Subsystem("sftp".to_owned());
        let lines = "ForceCommand internal-sftp -R\nSubsystem sftp /usr/bin/other\n";
        assert_eq!(decided(&subsystem, lines, "").plan, Plan::InternalSftp(vec!["-R".into()]));
        assert_eq!(decided(&RequestedProgram::Shell, "", r#"command="internal-sftp""#).plan, Plan::SftpOnly);
        let asked = decided(&RequestedProgram::Command("internal-sftp".into()), "", "");
        assert_eq!(program(&asked.plan), ["/bin/zsh", "zsh", "-c", "internal-sftp"]);
        let server = RequestedProgram::Command("/usr/lib/openssh/sftp-server".into());
        assert_eq!(decided(&server, "", "").plan, Plan::InternalSftp(Vec::new()));
        let forced = decided(&RequestedProgram::Shell, "ForceCommand /usr/lib/openssh/sftp-server\n", "");
        assert_eq!(forced.plan, Plan::InternalSftp(Vec::new()));
        assert_eq!(decided(&RequestedProgram::Shell, "", r#"command="backup""#).original, None);
    }

    #[test]
    fn old_passwords_and_nologin() {
        let settings = crate::testing::settings("");
        let options = KeyOptions::default();
        let old = |terminal| {
            decide(&RequestedProgram::Shell, &user(), &settings, &options, true, terminal, None).plan
        };
        assert_eq!(program(&old(true)), ["/usr/bin/passwd", "passwd"]);
        assert!(matches!(old(false), Plan::Message(_, 1)));
        let closed = decide(
            &RequestedProgram::Shell,
            &user(),
            &settings,
            &options,
            false,
            true,
            Some("down".to_owned()),
        );
        assert_eq!(closed.plan, Plan::Message("down".to_owned(), 254));
    }
}
