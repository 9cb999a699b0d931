//! Host-based authentication (RFC 4252 section 9): the client host vouches for its user.
//!
//! Only root can read the host's private keys. A helper that runs as root, `lhssh-keysign`, signs with them,
//! but only data that names this host and user truthfully. The protocol with it is OpenSSH's, so either end
//! may be OpenSSH's.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lh_auth::{HostRequest, keysign};
use lh_config::names::HOST_KEY_FILES;
use lh_crypto::PublicKey;

use super::exchange::Exchange;
use crate::key_file;
use crate::key_types::short_type;
use crate::log::Log;

/// The helper's name.
const HELPER: &str = "lhssh-keysign";
/// Paths of our helper and OpenSSH's, tried if there is none beside the program itself.
const HELPERS: [&str; 5] = [
    "/usr/libexec/lhssh-keysign",
    "/usr/lib/longhaul/lhssh-keysign",
    "/usr/lib/openssh/ssh-keysign",
    "/usr/libexec/openssh/ssh-keysign",
    "/usr/libexec/ssh-keysign",
];

/// The keys that are left to try.
pub(super) struct HostBased {
    /// Keys and algorithms, the next one last.
    left: Vec<(PublicKey, String)>,
    /// This host's name with a trailing dot.
    host: String,
    local_user: String,
}

/// A request without its signature.
struct Offer {
    key: PublicKey,
    algorithm: String,
    host: String,
    local_user: String,
}

impl Offer {
    fn request(&self) -> HostRequest<'_> {
        let Self { key, algorithm, host, local_user } = self;
        HostRequest { algorithm, key: key.blob(), host, local_user }
    }
}

impl HostBased {
    /// Finds the host's keys: certificates before plain keys. `accepted` gives the order of the algorithms.
    fn new(accepted: &[String], local_user: &str, connection: BorrowedFd<'_>) -> Self {
        let keys = host_keys();
        let mut left: Vec<(PublicKey, String)> = Vec::new();
        for algorithm in accepted {
            let fits = |key: &&PublicKey| key.signature_algorithms().contains(&algorithm.as_str());
            left.extend(keys.iter().filter(fits).map(|key| (key.clone(), algorithm.clone())));
        }
        left.reverse();
        let host = format!("{}.", lh_sys::reverse_lookup::local_name(connection));
        Self { left, host, local_user: local_user.to_owned() }
    }

    /// Returns the next request.
    fn next(&mut self) -> Option<Offer> {
        let (key, algorithm) = self.left.pop()?;
        Some(Offer { key, algorithm, host: self.host.clone(), local_user: self.local_user.clone() })
    }
}

/// Sends the next host-based request. False if no key is left, or none can sign. `keys` is found at the first
/// call.
pub(super) fn offer(keys: &mut Option<HostBased>, exchange: &mut Exchange<'_>, log: &mut Log<'_>) -> bool {
    let config = exchange.config;
    loop {
        let Some(connection) = exchange.packets.descriptor() else { return false };
        let host_based = keys.get_or_insert_with(|| {
            HostBased::new(&config.hostbased_algorithms, &config.local_user, connection)
        });
        let Some(offer) = host_based.next() else {
            log.debug(|| "No more client hostkeys for hostbased authentication.".to_owned());
            return false;
        };
        let (kind, hash) = (short_type(offer.key.key_type()), config.identities.fingerprint);
        let fingerprint = offer.key.fingerprint(hash);
        log.debug(|| format!("userauth_hostbased: trying hostkey {kind} {fingerprint}"));
        log.debug2(|| format!("userauth_hostbased: chost {}", offer.host));
        let data = exchange.machine.host_signature_data(&offer.request());
        match sign(&data, connection, log) {
            Some(signature) => {
                exchange.machine.host_based(&offer.request(), &signature, exchange.packets.sink());
                return true;
            }
            None => log.error(&format!("sign using hostkey {kind} {fingerprint} failed")),
        }
    }
}

fn host_keys() -> Vec<PublicKey> {
    let of = |suffix: &str| {
        let file = |name: &str| key_file::public_in(&PathBuf::from(format!("{name}{suffix}")));
        HOST_KEY_FILES.iter().filter_map(|name| file(name)).map(|(key, _)| key).collect::<Vec<_>>()
    };
    let mut keys = of("-cert.pub");
    keys.retain(|key| key.certificate().is_some());
    keys.append(&mut of(".pub"));
    keys
}

/// Returns the first helper that exists.
fn helper() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join(HELPER)));
    beside.into_iter().chain(HELPERS.iter().map(PathBuf::from)).find(|path| path.is_file())
}

/// Makes the helper sign `data`. The helper takes this host's address from the connection's descriptor.
fn sign(data: &[u8], connection: BorrowedFd<'_>, log: &mut Log<'_>) -> Option<Vec<u8>> {
    let Some(path) = helper() else {
        log.error("ssh_keysign: not installed: no such helper");
        return None;
    };
    match ask(&path, data, connection) {
        Ok(signature) => Some(signature),
        Err(why) => {
            log.error(&format!("ssh_keysign: {}: {why}", path.display()));
            None
        }
    }
}

/// Why a helper did not sign.
#[derive(Debug, thiserror::Error)]
enum HelperError {
    /// The helper cannot be started, or its pipe broke.
    #[error("{}", lh_sys::errno_text(.0))]
    Io(std::io::Error),
    #[error("no descriptor")]
    NoDescriptor,
    /// The helper refused; its reason is on standard error.
    #[error("exit status {0}")]
    Refused(i32),
    #[error("bad answer")]
    BadAnswer,
}

fn ask(path: &Path, data: &[u8], connection: BorrowedFd<'_>) -> Result<Vec<u8>, HelperError> {
    let failed = HelperError::Io;
    // A copy that the helper inherits; ours is closed when it runs.
    let inherited = rustix::io::dup(connection).map_err(|error| failed(error.into()))?;
    let number = u32::try_from(inherited.as_fd().as_raw_fd()).map_err(|_| HelperError::NoDescriptor)?;
    let message = keysign::request(number, data);
    let mut child =
        Command::new(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    drop(inherited);
    // A helper that refuses may not read the message. It reports the reason on standard error.
    let sent = child.stdin.take().map(|mut stdin| stdin.write_all(&message));
    let mut answer = Vec::new();
    let stdout = child.stdout.take();
    let read = stdout.map(|stdout| stdout.take(keysign::LONGEST as u64 + 4).read_to_end(&mut answer));
    let status = child.wait().map_err(failed)?;
    if !status.success() {
        return Err(HelperError::Refused(status.code().unwrap_or(255)));
    }
    for result in [sent.map(|sent| sent.map(|()| 0)), read].into_iter().flatten() {
        result.map_err(failed)?;
    }
    keysign::read_answer(&answer).map(<[u8]>::to_vec).map_err(|_| HelperError::BadAnswer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn program(directory: &Path, script: &str) -> PathBuf {
        let path = directory.join("helper");
        std::fs::write(&path, format!("#!/bin/sh\n{script}")).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
        path
    }

    #[test]
    fn helper_gets_descriptor_and_data_and_its_reply_is_checked() {
        let directory = tempfile::tempdir().expect("directory");
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let ask = |script: &str| ask(&program(directory.path(), script), b"data", ours.as_fd());
        // Version 2, "signed". The script stores the request and the descriptor's target for the test.
        let request = directory.path().join("request");
        let script = format!(
            "head -c 17 >{0}; n=$(od -An -tu1 -j8 -N1 {0}); readlink /proc/self/fd/$((n)) >{0}.fd\n\
             printf '\\0\\0\\0\\013\\002\\0\\0\\0\\006signed'",
            request.display()
        );
        assert_eq!(ask(&script).expect("a signature"), b"signed");
        let sent = std::fs::read(&request).expect("request");
        assert_eq!((&sent[..5], &sent[9..]), (&b"\0\0\0\x0d\x02"[..], &b"\0\0\0\x04data"[..]));
        let lead = std::fs::read_to_string(request.with_extension("fd")).expect("link");
        assert!(lead.starts_with("socket:"), "{lead}");
        for (script, why) in [
            ("exit 3", "exit status 3"),
            ("cat >/dev/null", "bad answer"),
            ("cat >/dev/null; printf '\\0\\0\\0\\013\\001\\0\\0\\0\\006signed'", "bad answer"),
            ("cat >/dev/null; printf '\\0\\0\\0\\013\\002\\0\\0\\0\\007signed'", "bad answer"),
        ] {
            assert_eq!(ask(script).expect_err(script).to_string(), why, "{script}");
        }
    }
}
