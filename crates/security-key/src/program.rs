//! Helper programs: their paths, and the transfer of messages over their pipes.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lh_wire::Writer as _;
use zeroize::Zeroizing;

/// Longest message, bytes: OpenSSH's limit for its helpers.
pub const MAX_MESSAGE: usize = 256 * 1024;

/// Directories of helpers that are not in the directory of the calling program.
const ELSEWHERE: [&str; 2] = ["/usr/libexec", "/usr/lib/longhaul"];

/// Returns the path of a helper: the one in the environment variable, or the first existing file.
pub(crate) fn find(name: &str, variable: &str) -> PathBuf {
    if let Some(named) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        return named.into();
    }
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join(name)));
    let elsewhere = ELSEWHERE.iter().map(|directory| PathBuf::from(directory).join(name));
    let fallback = PathBuf::from(ELSEWHERE[0]).join(name);
    beside.into_iter().chain(elsewhere).find(|path| path.is_file()).unwrap_or(fallback)
}

/// Starts a helper with pipes to its standard input and output, as OpenSSH does: a shell runs a script
/// without a `#!` line.
pub(crate) fn start(path: &Path) -> io::Result<Child> {
    let mut command = Command::new(path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    lh_sys::spawn::spawn_like_execvp(&mut command)
}

/// Sends a message: its length, the protocol's version, the body.
///
/// # Errors
/// The system's error, or the body is too long.
pub fn send(to: &mut impl Write, version: u8, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len() + 1).map_err(|_| io::Error::other("the message is too long"))?;
    let mut message = Zeroizing::new(Vec::with_capacity(body.len() + 5));
    message.put_u32(length);
    message.put_u8(version);
    message.put_bytes(body);
    to.write_all(&message)?;
    to.flush()
}

/// Reads the body of the next message; `None` at the end of the stream.
///
/// # Errors
/// The system's error; [`io::ErrorKind::InvalidData`] for a wrong length or version.
pub fn receive(from: &mut impl Read, version: u8) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let mut first = [0; 1];
    loop {
        match from.read(&mut first) {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let mut head = [0; 4];
    from.read_exact(&mut head)?;
    let ([a], [b, c, d, found]) = (first, head);
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length == 0 || length > MAX_MESSAGE {
        return Err(invalid("its length is invalid".to_owned()));
    }
    if found != version {
        return Err(invalid(format!("unsupported version: received {found}, expected {version}")));
    }
    let mut body = Zeroizing::new(vec![0; length - 1]);
    from.read_exact(&mut body)?;
    Ok(Some(body))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn helper_without_an_interpreter_line_runs_in_a_shell() {
        let path = std::env::temp_dir().join(format!("lh-security-key-helper-{}", std::process::id()));
        std::fs::write(&path, "exec cat\n").expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("made executable");
        let mut child = start(&path).expect("started");
        send(&mut child.stdin.take().expect("a pipe"), 5, b"back").expect("sent");
        let from = child.stdout.as_mut().expect("a pipe");
        assert_eq!(receive(from, 5).expect("read").as_deref(), Some(&b"back".to_vec()));
        assert!(child.wait().expect("ended").success());
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn messages_round_trip_and_end() {
        let mut wire = Vec::new();
        send(&mut wire, 5, b"first").expect("sent");
        send(&mut wire, 5, b"").expect("sent");
        let mut from = &wire[..];
        assert_eq!(receive(&mut from, 5).expect("read").as_deref(), Some(&b"first".to_vec()));
        assert_eq!(receive(&mut from, 5).expect("read").as_deref(), Some(&Vec::new()));
        assert!(receive(&mut from, 5).expect("the end").is_none());
    }

    #[test]
    fn malformed_messages_are_refused() {
        for wire in [&[0, 0, 0, 0, 5][..], &[0xff, 0, 0, 1, 5], &[0, 0, 0, 1, 4], &[0, 0, 0, 2, 5], &[0, 0]] {
            assert!(receive(&mut &wire[..], 5).is_err(), "{wire:?}");
        }
    }
}
