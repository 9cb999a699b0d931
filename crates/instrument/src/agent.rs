//! Asks this machine's authentication agent whether it answers. The client waits for its agent without a time
//! limit.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lh_client::Options;

/// Time that an agent has to list its keys. Those that ask their user do so for signatures.
const LIMIT: Duration = Duration::from_secs(5);
/// SSH_AGENTC_REQUEST_IDENTITIES (RFC 9987), with its length.
const LIST: [u8; 5] = [0, 0, 0, 1, 11];

/// The agent's socket, where it takes connections and then says nothing.
pub(crate) fn silent(options: &Options) -> Option<PathBuf> {
    socket(options).filter(|socket| is_silent(socket, LIMIT))
}

fn is_silent(socket: &Path, limit: Duration) -> bool {
    // A refusal is an answer.
    let Ok(mut agent) = UnixStream::connect(socket) else { return false };
    let asked = agent.set_read_timeout(Some(limit)).and_then(|()| agent.write_all(&LIST));
    let mut answer = [0; 4];
    let answered = asked.and_then(|()| agent.read(&mut answer));
    answered.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

/// `IdentityAgent`, else `SSH_AUTH_SOCK`.
fn socket(options: &Options) -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    match options.config.identity_agent.as_deref() {
        None | Some("SSH_AUTH_SOCK") => variable("SSH_AUTH_SOCK"),
        Some(text) if text.eq_ignore_ascii_case("none") => None,
        Some(text) => match text.strip_prefix('$').filter(|name| !name.starts_with('{')) {
            Some(name) => variable(name),
            None => Some(PathBuf::from(text)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn agent_that_says_nothing_is_told_from_one_that_answers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent");
        assert!(!is_silent(&path, Duration::from_secs(60)), "there is none");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(is_silent(&path, Duration::from_millis(20)));
        let answers = std::thread::spawn(move || {
            // The first connection is the one without an answer.
            let mut clients = listener.incoming().map_while(Result::ok);
            let _silent = clients.next();
            let mut client = clients.next().unwrap();
            client.write_all(&[0, 0, 0, 1, 5]).unwrap();
            client
        });
        assert!(!is_silent(&path, Duration::from_secs(60)));
        drop(answers.join().unwrap());
    }
}
