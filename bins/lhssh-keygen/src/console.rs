//! Messages, prompts and exit statuses of the program.
//!
//! Errors go to standard error with OpenSSH's line ends and its two exit statuses, which scripts rely on: 255
//! for fatal errors and 1 for others.

use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use lh_cli::flags::KEYGEN;
use lh_cli::prompt::{Kind, PromptError, Prompter, Require};
use lh_crypto::Zeroizing;
use lh_sys::errno_text;
use lh_sys::users;

/// An unsuccessful end of the program.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Exit status.
    pub(crate) status: u8,
    /// Text for standard error, without a final newline; empty when it has been printed already.
    pub(crate) text: String,
}

/// Result of a command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// A fatal error in ssh-keygen's sense: status 255.
pub(crate) fn fatal(text: impl Into<String>) -> Failure {
    Failure { status: 255, text: text.into() }
}

/// An error with status 1.
pub(crate) fn error(text: impl Into<String>) -> Failure {
    Failure { status: 1, text: text.into() }
}

/// An end with status 1 without a message.
pub(crate) fn silent() -> Failure {
    error("")
}

/// An end with status 255 without a message.
pub(crate) fn silent_fatal() -> Failure {
    fatal("")
}

/// Program name for messages: OpenSSH's where the program was called by that name.
pub(crate) fn program() -> &'static str {
    KEYGEN.called()
}

/// Prints a message on standard error, with OpenSSH's line ends.
pub(crate) fn warn(text: &str) {
    // Messages about each line of each input would be all that a fuzz target has time for.
    if cfg!(fuzzing) {
        return;
    }
    let mut out = String::new();
    for line in text.lines() {
        out.push_str(line);
        out.push_str("\r\n");
    }
    // If this fails, there is no output left to report it on.
    let _ = io::stderr().write_all(out.as_bytes());
}

/// Prints a progress message on standard error.
pub(crate) fn note(text: &str) {
    // If this fails, there is no output left to report it on.
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Writes to standard output and flushes: prompts and errors use other descriptors and must not overtake it.
pub(crate) fn print(bytes: impl AsRef<[u8]>) -> Outcome {
    let mut out = io::stdout();
    match out.write_all(bytes.as_ref()).and_then(|()| out.flush()) {
        Err(gone) if gone.kind() == io::ErrorKind::BrokenPipe => Err(silent()),
        Err(failed) => Err(error(format!("standard output: {}", errno_text(&failed)))),
        Ok(()) => Ok(()),
    }
}

/// Reads a line of standard input without its end; `None` at the end of the input.
pub(crate) fn read_line() -> Option<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        // Read byte by byte: the rest may be the answer to a prompt that reads the descriptor itself.
        match rustix::io::read(io::stdin(), &mut byte) {
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
            Ok(0) if line.is_empty() => return None,
            Ok(0) => break,
            Ok(_) if byte[0] == b'\n' => break,
            // The limit exceeds any path; the rest of the line is dropped.
            Ok(_) if line.len() < 4096 => line.push(byte[0]),
            Ok(_) => {}
        }
    }
    Some(String::from_utf8_lossy(&line).into_owned())
}

/// Asks on standard output and reads standard input, as ssh-keygen does for everything except passphrases.
pub(crate) fn ask(question: &str) -> Outcome<Option<String>> {
    print(question)?;
    Ok(read_line())
}

/// Asks for a file; an empty answer selects the proposal.
pub(crate) fn ask_file(question: &str, proposal: &Path) -> Outcome<PathBuf> {
    match ask(&format!("{question} ({}): ", proposal.display()))? {
        None => Err(silent()),
        Some(answer) if answer.is_empty() => Ok(proposal.to_owned()),
        Some(answer) => Ok(answer.into()),
    }
}

/// Asks for a passphrase. End of input counts as an empty one, which scripts rely on (`</dev/null`). A
/// cancelled askpass window is an error: the user did not ask for a key without protection.
pub(crate) fn ask_passphrase(prompt: &str) -> Outcome<Zeroizing<Vec<u8>>> {
    let mut prompter = Prompter::from_environment();
    prompter.allow_stdin = true;
    let window = match prompter.require {
        Require::Never => false,
        Require::Force => true,
        Require::Prefer => prompter.display,
        Require::Auto => prompter.display && !rustix::termios::isatty(io::stdin()),
    };
    match prompter.ask(prompt, Kind::Secret) {
        Ok(answer) => Ok(Zeroizing::new(answer.as_bytes().to_vec())),
        Err(PromptError::Unavailable | PromptError::NoAnswer) if window => {
            Err(fatal("No passphrase was given."))
        }
        Err(PromptError::Unavailable | PromptError::NoAnswer) => Ok(Zeroizing::new(Vec::new())),
    }
}

/// Asks for a PIN; `None` for an empty answer.
pub(crate) fn ask_pin(prompt: &str) -> Option<Zeroizing<String>> {
    let entered = ask_passphrase(prompt).ok()?;
    let text = Zeroizing::new(String::from_utf8_lossy(&entered).into_owned());
    (!text.is_empty()).then_some(text)
}

/// `user@host`, the default comment of a key.
pub(crate) fn user_at_host() -> String {
    let user = users::current().ok().flatten().map(|user| user.name);
    let system = rustix::system::uname();
    format!("{}@{}", user.as_deref().unwrap_or("unknown"), system.nodename().to_string_lossy())
}

/// `~/.ssh`. The password database takes precedence over `$HOME`, as in ssh-keygen.
pub(crate) fn ssh_directory() -> Outcome<PathBuf> {
    let home = users::current().ok().flatten().map(|user| user.home).or_else(users::home);
    home.map(|home| home.join(".ssh")).ok_or_else(|| fatal("No user exists for this uid"))
}

/// A path in printable form.
pub(crate) fn shown(path: &Path) -> String {
    lh_client::sanitise(&String::from_utf8_lossy(path.as_os_str().as_bytes()))
}
