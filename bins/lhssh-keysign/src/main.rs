//! `lhssh-keysign`: signs with the host's keys for host-based authentication, as ssh-keysign(8) does.
//!
//! Installed set-uid root and started by `lhssh`, it reads one request on standard input and writes one
//! signature to standard output. It reads the keys first, and then permanently becomes the user who started
//! it. It signs only for that user, and only for connections of this host. The administrator must permit it:
//! `EnableSSHKeysign yes` in `/etc/ssh/ssh_config`.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;

use lh_auth::{HostRequest, keysign};
use lh_config::client::{Request, UserFile};
use lh_config::names::HOST_KEY_FILES;
use lh_config::{Account, ConfigError};
use lh_crypto::{CryptoError, PrivateKey, PublicKey};
use lh_sys::ids::{Ids, become_permanently};
use lh_wire::WireError;
use zeroize::Zeroizing;

/// The configuration of this host.
const CONFIG: &str = "/etc/ssh/ssh_config";
/// Upper limit of a key file, bytes.
const LARGEST_KEY: u64 = 64 * 1024;

fn main() -> ExitCode {
    lh_cli::helper::main(run)
}

/// An end of the program without a signature.
#[derive(Debug, thiserror::Error)]
enum KeysignError {
    /// The user database does not know the caller.
    #[error("getpwuid failed")]
    NoUser,
    #[error(transparent)]
    Groups(io::Error),
    #[error("cannot become {user}: {source}")]
    Become { user: String, source: io::Error },
    #[error("could not open any host key")]
    NoKeyFiles,
    #[error(transparent)]
    Account(lh_client::UnknownUid),
    #[error(transparent)]
    Config(ConfigError),
    /// The administrator does not permit it.
    #[error("ssh-keysign not enabled in {CONFIG}")]
    NotEnabled,
    #[error("no hostkey found")]
    NoKeys,
    #[error("ssh_msg_recv failed: {0}")]
    Receive(io::Error),
    /// The caller's message is longer than any request.
    #[error("ssh_msg_recv failed: {0} bytes")]
    TooLong(usize),
    #[error("bad request: {0}")]
    Malformed(WireError),
    /// The caller names a descriptor that it has not passed.
    #[error("bad fd = {0}")]
    NoConnection(u32),
    /// The data to sign are for another user, another host or another purpose.
    #[error("not a valid request")]
    NotPermitted,
    #[error("no matching hostkey found for key {0}")]
    OtherKey(String),
    #[error("signing failed: {0}")]
    Sign(CryptoError),
    #[error("ssh_msg_send failed: {0}")]
    Send(io::Error),
}

fn run() -> Result<(), KeysignError> {
    // Runs as root, if installed set-uid root. No input of the caller has been read yet.
    let files: Vec<Zeroizing<Vec<u8>>> =
        HOST_KEY_FILES.iter().filter_map(|path| contents(Path::new(path))).collect();
    let uid = rustix::process::getuid().as_raw();
    let user = lh_sys::users::by_uid(uid).ok().flatten().ok_or(KeysignError::NoUser)?;
    let ids = Ids::of(&user).map_err(KeysignError::Groups)?;
    let refused = |source| KeysignError::Become { user: user.name.clone(), source };
    become_permanently(&ids).map_err(refused)?;
    // Runs as the user from here on.
    if files.is_empty() {
        return Err(KeysignError::NoKeyFiles);
    }
    let account = lh_client::local_account().map_err(KeysignError::Account)?;
    let name = account.name.clone();
    if !enabled(account)? {
        return Err(KeysignError::NotEnabled);
    }
    let keys: Vec<PrivateKey> =
        files.iter().filter_map(|bytes| PrivateKey::parse(bytes, None).ok()).map(|(key, _)| key).collect();
    drop(files);
    if keys.is_empty() {
        return Err(KeysignError::NoKeys);
    }
    let message = message()?;
    let (number, data) = keysign::read_request(&message).map_err(KeysignError::Malformed)?;
    let connection = connection(number).ok_or(KeysignError::NoConnection(number))?;
    let host = lh_sys::reverse_lookup::local_name(&connection);
    drop(connection);
    let request = permitted(data, &host, &name).ok_or(KeysignError::NotPermitted)?;
    let public = PublicKey::from_blob(request.key).map_err(|_| KeysignError::NotPermitted)?;
    let key = keys.iter().find(|key| key.public() == public.plain());
    let key = key.ok_or_else(|| KeysignError::OtherKey(public.key_type().to_owned()))?;
    let signature = key.sign(request.algorithm, data).map_err(KeysignError::Sign)?;
    io::stdout().write_all(&keysign::answer(&signature)).map_err(KeysignError::Send)
}

fn contents(path: &Path) -> Option<Zeroizing<Vec<u8>>> {
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|about| about.is_file()))?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(LARGEST_KEY as usize + 1));
    file.take(LARGEST_KEY + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= LARGEST_KEY).then_some(bytes)
}

/// Value of `EnableSSHKeysign`, from the host's file only; the user's file is ignored.
fn enabled(account: Account) -> Result<bool, KeysignError> {
    let mut request = Request::new("", account);
    request.user_file = UserFile::Skipped;
    request.system_file = Some(CONFIG.into());
    let config =
        lh_config::client::load(&request, &lh_client::SystemEnvironment).map_err(KeysignError::Config)?;
    Ok(*config.enable_ssh_keysign)
}

fn message() -> Result<Vec<u8>, KeysignError> {
    let failed = KeysignError::Receive;
    let mut stdin = io::stdin().lock();
    let mut message = vec![0; 4];
    stdin.read_exact(&mut message).map_err(failed)?;
    let length = message.first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes)) as usize;
    if length > keysign::LONGEST {
        return Err(KeysignError::TooLong(length));
    }
    message.resize(4 + length, 0);
    stdin.read_exact(message.get_mut(4..).unwrap_or_default()).map_err(failed)?;
    Ok(message)
}

/// The connection on which the user logs in.
fn connection(number: u32) -> Option<OwnedFd> {
    lh_sys::fd::inherited(i32::try_from(number).ok()?).ok()
}

/// The request in `data`, if it is one for host-based authentication with the actual host and user names.
fn permitted<'a>(data: &'a [u8], host: &str, user: &str) -> Option<HostRequest<'a>> {
    let (session_id, request) = HostRequest::from_signed_data(data).ok()?;
    let named = request.host.strip_suffix('.')?;
    // A session identifier is a hash. Other lengths are refused, because such data could pass for other data
    // that host keys sign.
    let is_hash = matches!(session_id.len(), 20 | 32 | 48 | 64);
    let key = PublicKey::from_blob(request.key).ok()?;
    let fits = key.signature_algorithms().contains(&request.algorithm);
    (is_hash && fits && named.eq_ignore_ascii_case(host) && request.local_user == user).then_some(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_crypto::KeyType;

    #[test]
    fn only_the_actual_host_and_user_are_signed() {
        let key = PrivateKey::generate(KeyType::Ed25519, None).expect("a key");
        let request = HostRequest {
            algorithm: "ssh-ed25519",
            key: key.public().blob(),
            host: "Here.example.",
            local_user: "ada",
        };
        let allowed = |request: HostRequest<'_>, session: &[u8]| {
            permitted(&request.signed_data(session, b"root"), "here.EXAMPLE", "ada").is_some()
        };
        assert!(allowed(request, &[7; 32]));
        assert!(!allowed(request, &[7; 31]));
        assert!(!allowed(HostRequest { host: "here.example", ..request }, &[7; 32]));
        assert!(!allowed(HostRequest { host: "there.example.", ..request }, &[7; 32]));
        assert!(!allowed(HostRequest { local_user: "root", ..request }, &[7; 32]));
        assert!(!allowed(HostRequest { algorithm: "rsa-sha2-256", ..request }, &[7; 32]));
        assert!(permitted(b"anything", "here.example", "ada").is_none());
    }
}
