//! What the program says and asks, and how it ends.
//!
//! Errors go to standard error with the line ends of OpenSSH's, and with its two exit statuses: scripts know 255 for what it
//! calls fatal and 1 for the rest.

use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use lh_cli::flags::KEYGEN;
use lh_cli::prompt::{Kind, PromptError, Prompter, Require};
use lh_crypto::Zeroizing;
use lh_sys::users;

/// The program ends here, without success.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Exit status.
    pub(crate) status: u8,
    /// For standard error, without a final newline; empty when everything has been said.
    pub(crate) text: String,
}

/// How every command ends.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// What ssh-keygen calls fatal: status 255.
pub(crate) fn fatal(text: impl Into<String>) -> Failure {
    Failure { status: 255, text: text.into() }
}

/// An error with status 1.
pub(crate) fn error(text: impl Into<String>) -> Failure {
    Failure { status: 1, text: text.into() }
}

/// Ends with status 1 without a word.
pub(crate) fn silent() -> Failure {
    error("")
}

/// Ends with status 255 without a word.
pub(crate) fn silent_fatal() -> Failure {
    fatal("")
}

/// Something that this program does not do yet, though ssh-keygen does.
pub(crate) fn unsupported(what: impl AsRef<str>) -> Failure {
    error(format!("{}: {} not supported yet", program(), what.as_ref()))
}

/// The name for messages: OpenSSH's where the program was called by that one.
pub(crate) fn program() -> &'static str {
    KEYGEN.called()
}

/// Says something on standard error.
pub(crate) fn warn(text: &str) {
    let mut out = String::new();
    for line in text.lines() {
        out.push_str(line);
        out.push_str("\r\n");
    }
    // Nobody is left to be told when even this fails.
    let _ = io::stderr().write_all(out.as_bytes());
}

/// Says on standard error what is being done.
pub(crate) fn note(text: &str) {
    // Nobody is left to be told when even this fails.
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Writes to standard output at once: prompts and errors go elsewhere and must not overtake it.
pub(crate) fn print(bytes: impl AsRef<[u8]>) -> Outcome {
    let mut out = io::stdout();
    match out.write_all(bytes.as_ref()).and_then(|()| out.flush()) {
        Err(gone) if gone.kind() == io::ErrorKind::BrokenPipe => Err(silent()),
        Err(failed) => Err(error(format!("standard output: {}", reason(&failed)))),
        Ok(()) => Ok(()),
    }
}

/// The system's words for an error, without the number Rust puts behind them.
pub(crate) fn reason(failed: &io::Error) -> String {
    let text = failed.to_string();
    match (failed.raw_os_error(), text.find(" (os error ")) {
        (Some(_), Some(end)) => text[..end].to_owned(),
        _ => text,
    }
}

/// A line of standard input without its end; `None` at the end of the input.
pub(crate) fn read_line() -> Option<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        // Byte by byte: what follows may be the answer to a prompt that reads the descriptor itself.
        match rustix::io::read(io::stdin(), &mut byte) {
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
            Ok(0) if line.is_empty() => return None,
            Ok(0) => break,
            Ok(_) if byte[0] == b'\n' => break,
            // Longer lines than any path; the rest is dropped.
            Ok(_) if line.len() < 4096 => line.push(byte[0]),
            Ok(_) => {}
        }
    }
    Some(String::from_utf8_lossy(&line).into_owned())
}

/// Asks on standard output and reads standard input, as ssh-keygen does for all but passphrases.
pub(crate) fn ask(question: &str) -> Outcome<Option<String>> {
    print(question)?;
    Ok(read_line())
}

/// Asks for a file, with one to take when nothing is entered.
pub(crate) fn ask_file(question: &str, proposal: &Path) -> Outcome<PathBuf> {
    match ask(&format!("{question} ({}): ", proposal.display()))? {
        None => Err(silent()),
        Some(answer) if answer.is_empty() => Ok(proposal.to_owned()),
        Some(answer) => Ok(answer.into()),
    }
}

/// Asks for a passphrase. The end of the input counts as an empty one, as scripts have it (`</dev/null`); a cancelled window
/// does not, for nobody who closes it wants a key without protection.
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
        Err(PromptError::Nobody | PromptError::NoAnswer) if window => Err(fatal("No passphrase was given.")),
        Err(PromptError::Nobody | PromptError::NoAnswer) => Ok(Zeroizing::new(Vec::new())),
    }
}

/// A PIN; `None` when nothing is entered.
pub(crate) fn ask_pin(prompt: &str) -> Option<Zeroizing<String>> {
    let entered = ask_passphrase(prompt).ok()?;
    let text = Zeroizing::new(String::from_utf8_lossy(&entered).into_owned());
    (!text.is_empty()).then_some(text)
}

/// `user@host`, the comment of a key that gets no other.
pub(crate) fn user_at_host() -> String {
    let user = users::current().ok().flatten().map(|user| user.name);
    let system = rustix::system::uname();
    format!("{}@{}", user.as_deref().unwrap_or("unknown"), system.nodename().to_string_lossy())
}

/// `~/.ssh`. The password database goes before `$HOME`, as in ssh-keygen.
pub(crate) fn ssh_folder() -> Outcome<PathBuf> {
    let home = users::current().ok().flatten().map(|user| user.home).or_else(users::home);
    home.map(|home| home.join(".ssh")).ok_or_else(|| fatal("No user exists for this uid"))
}

/// A path that is about to be printed.
pub(crate) fn shown(path: &Path) -> String {
    lh_client::sanitise(&String::from_utf8_lossy(path.as_os_str().as_bytes()))
}
