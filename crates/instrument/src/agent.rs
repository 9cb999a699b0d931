//! Asks this machine's authentication agent whether it answers, and how long it needs to sign. The client
//! waits for its agent without a time limit.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lh_client::Options;
use lh_crypto::{FingerprintHash, PublicKey};
use lh_wire::{Reader, Writer as _};

/// Time that an agent has to list its keys. Those that ask their user do so for signatures.
const LIMIT: Duration = Duration::from_secs(5);
/// SSH_AGENTC_REQUEST_IDENTITIES (RFC 9987), with its length.
const LIST: [u8; 5] = [0, 0, 0, 1, 11];

/// Time that an agent has to sign: it may ask its user.
const SIGNS: Duration = Duration::from_secs(10);
/// SSH_AGENT_IDENTITIES_ANSWER, SSH_AGENTC_SIGN_REQUEST and SSH_AGENT_SIGN_RESPONSE (RFC 9987).
const IDENTITIES: u8 = 12;
const SIGN: u8 = 13;
const SIGNED: u8 = 14;
/// The longest answer that is read, bytes.
const LONGEST: usize = 1 << 20;

/// Seconds that the agent needs to sign with a key. `described` is a text that has the key's fingerprint.
/// `None` if there is no such key, or the agent does not sign.
pub(crate) fn signing(options: &Options, described: &str) -> Option<f64> {
    sign(&socket(options)?, SIGNS, |blob| {
        let key = PublicKey::from_blob(blob);
        key.is_ok_and(|key| described.contains(&key.fingerprint(FingerprintHash::Sha256)))
    })
}

fn sign(socket: &Path, limit: Duration, is_it: impl Fn(&[u8]) -> bool) -> Option<f64> {
    let mut agent = UnixStream::connect(socket).ok()?;
    agent.set_read_timeout(Some(limit)).ok()?;
    agent.write_all(&LIST).ok()?;
    let keys = answer(&mut agent)?;
    let (kind, rest) = keys.split_first()?;
    let mut reader = Reader::new(rest);
    let count = (*kind == IDENTITIES).then(|| reader.u32().ok()).flatten()?;
    let mut keys = (0..count).map_while(|_| {
        let key = reader.string().ok()?;
        reader.string().ok().map(|_comment| key)
    });
    let key = keys.find(|key| is_it(key))?;
    let mut request = vec![SIGN];
    request.put_string(key);
    // No login: what a server would take begins with the identifier of a session.
    request.put_string(b"longhaul doctor times a signature");
    // Some agents make no signatures with SHA-1; SSH_AGENT_RSA_SHA2_256 asks for another one.
    request.put_u32(if key.windows(7).any(|name| name == b"ssh-rsa") { 2 } else { 0 });
    let mut message = Vec::new();
    message.put_string(&request);
    let begun = Instant::now();
    agent.write_all(&message).ok()?;
    let signed = answer(&mut agent)?;
    (signed.first() == Some(&SIGNED)).then(|| begun.elapsed().as_secs_f64())
}

/// An answer of the agent, without its length.
fn answer(agent: &mut UnixStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    agent.read_exact(&mut length).ok()?;
    let length = usize::try_from(u32::from_be_bytes(length)).ok().filter(|length| *length <= LONGEST)?;
    let mut message = vec![0; length];
    agent.read_exact(&mut message).ok()?;
    Some(message)
}

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

    #[test]
    fn signature_with_the_right_key_is_timed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent");
        let listener = UnixListener::bind(&path).unwrap();
        let answers = std::thread::spawn(move || {
            for mut client in listener.incoming().map_while(Result::ok).take(2) {
                let mut list = [0; 5];
                client.read_exact(&mut list).unwrap();
                let mut keys = vec![IDENTITIES];
                keys.put_u32(2);
                for text in [b"first", b"home ", b"other", b"work "] {
                    keys.put_string(text);
                }
                let mut message = Vec::new();
                message.put_string(&keys);
                client.write_all(&message).unwrap();
                let Some(request) = answer(&mut client) else { continue };
                assert_eq!((request[0], &request[5..10]), (SIGN, &b"other"[..]));
                std::thread::sleep(Duration::from_millis(30));
                client.write_all(&[0, 0, 0, 5, SIGNED, 0, 0, 0, 0]).unwrap();
            }
        });
        let took = sign(&path, Duration::from_secs(60), |key| key == b"other").expect("a signature");
        assert!(took >= 0.03, "{took}");
        assert_eq!(sign(&path, Duration::from_secs(60), |key| key == b"third"), None);
        answers.join().unwrap();
    }
}
