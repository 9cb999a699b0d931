//! The local X server's cookie, from xauth.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use lh_crypto::{Random as _, SystemRandom};
use lh_sys::spawn::spawn_unblocked;
use zeroize::Zeroizing;

use super::display::Display;
use crate::log::Logger;
use crate::ui::LogLevel;

/// The only protocol for which xauth generates cookies.
const MIT: &str = "MIT-MAGIC-COOKIE-1";
/// Time for which the X server keeps a generated cookie after we have stopped using it.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(60);
/// Longest accepted cookie, bytes; XDM's and MIT's have 16.
const COOKIE_MAX: usize = 512;

/// Waits until a descriptor is readable, as [`Client::wait_for`](crate::Client::wait_for) does.
pub(super) type WaitFor<'a> = dyn FnMut(BorrowedFd<'_>) + 'a;

/// Name and data of an X11 authentication protocol.
pub(super) struct Cookie {
    pub(super) protocol: String,
    pub(super) value: Zeroizing<Vec<u8>>,
}

impl Cookie {
    /// Returns a cookie from xauth. Trusted programs need none (the X server may accept all local
    /// connections); without one, untrusted programs are not forwarded.
    pub(super) fn of(
        display: &Display,
        xauth: &Path,
        trusted: bool,
        timeout: Duration,
        logger: &Logger,
        wait_for: &mut WaitFor<'_>,
    ) -> Option<Self> {
        let name = display.authority_name();
        let found = if !xauth.is_file() {
            logger.debug(|| "No xauth program.".to_owned());
            None
        } else if trusted {
            list(xauth, None, &name, wait_for)
        } else {
            match PrivateDirectory::make() {
                Ok(directory) => generate(xauth, &directory.0.join("xauthfile"), &name, timeout, wait_for),
                Err(error) => {
                    let text = format!("cannot make a directory for xauth: {error}");
                    logger.say(LogLevel::Error, &text);
                    None
                }
            }
        };
        match found {
            None if !trusted => {
                let text = "Warning: untrusted X11 forwarding setup failed: xauth key data not generated";
                logger.say(LogLevel::Info, text);
                None
            }
            None => {
                let text = "Warning: No xauth data; using fake authentication data for X11 forwarding.";
                logger.say(LogLevel::Info, text);
                let mut value = Zeroizing::new(vec![0; 16]);
                SystemRandom.fill(&mut value);
                Some(Self { protocol: MIT.to_owned(), value })
            }
            found => found,
        }
    }
}

/// A private directory for the file that xauth writes; removed on drop.
struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    fn make() -> io::Result<Self> {
        let mut name = [0; 8];
        SystemRandom.fill(&mut name);
        let path = std::env::temp_dir().join(format!("ssh-{}", *to_hex(&name)));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes the X server generate a cookie for untrusted programs.
fn generate(
    xauth: &Path,
    file: &Path,
    display: &str,
    timeout: Duration,
    wait_for: &mut WaitFor<'_>,
) -> Option<Cookie> {
    // 0 means no limit, for xauth as in our configuration.
    let seconds = if timeout.is_zero() { 0 } else { timeout.saturating_add(TIMEOUT_MARGIN).as_secs() };
    let mut command = Command::new(xauth);
    command.arg("-f").arg(file);
    command.args(["generate", display, MIT, "untrusted", "timeout", &seconds.to_string()]);
    // Its output, of which there is none, shows its end.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    run(&mut command, wait_for).filter(|output| output.status.success())?;
    list(xauth, Some(file), display, wait_for)
}

/// Runs a program, and returns its output. `wait_for` waits for the first of it, or its end.
fn run(command: &mut Command, wait_for: &mut WaitFor<'_>) -> Option<Output> {
    let child = spawn_unblocked(command).ok()?;
    if let Some(output) = &child.stdout {
        wait_for(output.as_fd());
    }
    child.wait_with_output().ok()
}

fn list(xauth: &Path, file: Option<&Path>, display: &str, wait_for: &mut WaitFor<'_>) -> Option<Cookie> {
    let mut command = Command::new(xauth);
    if let Some(file) = file {
        command.arg("-f").arg(file);
    }
    command.args(["list", display]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let printed = Zeroizing::new(run(&mut command, wait_for)?.stdout);
    parse(std::str::from_utf8(&printed).ok()?)
}

/// Parses the first line of xauth's list: display, protocol, cookie.
pub(super) fn parse(printed: &str) -> Option<Cookie> {
    let mut words = printed.lines().next()?.split_whitespace().skip(1);
    let protocol = words.next()?.to_owned();
    let value = from_hex(words.next()?)?;
    Some(Cookie { protocol, value })
}

fn from_hex(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    if text.is_empty() || !text.len().is_multiple_of(2) || text.len() > 2 * COOKIE_MAX {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut value = Zeroizing::new(Vec::with_capacity(text.len() / 2));
    for pair in text.as_bytes().chunks_exact(2) {
        let &[high, low] = pair else { return None };
        value.push(digit(high)? << 4 | digit(low)?);
    }
    Some(value)
}

pub(super) fn to_hex(bytes: &[u8]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(2 * bytes.len()));
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(digit.into(), 16));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn xauth_list_is_parsed() {
        let cookie = parse("box/unix:0  MIT-MAGIC-COOKIE-1  00ff10\nbox:1 X 11\n").unwrap();
        assert_eq!((cookie.protocol.as_str(), &cookie.value[..]), (MIT, &[0, 255, 16][..]));
        for text in ["", "box:0", "box:0 MIT", "box:0 MIT 0", "box:0 MIT xy"] {
            assert!(parse(text).is_none(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn hex_survives_encoding_and_decoding(bytes in proptest::collection::vec(any::<u8>(), 1..80), text in "\\PC{0,40}") {
            prop_assert_eq!(&*from_hex(&to_hex(&bytes)).unwrap(), &bytes);
            let _ = parse(&text);
        }
    }
}
