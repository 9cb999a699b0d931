//! Asking the helper.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use lh_agent::SecurityKey;
use lh_wire::Writer as _;
use zeroize::Zeroizing;

use crate::flags;
use crate::messages::{Enrollment, MAX_MESSAGE, Reply, Request, Resident, Secret, VERSION};
use crate::{FileKey, SkError};

/// The program's name.
const HELPER: &str = "lhssh-sk-helper";
/// Where it may be when it is not beside the program that asks.
const ELSEWHERE: [&str; 2] = ["/usr/libexec/lhssh-sk-helper", "/usr/lib/longhaul/lhssh-sk-helper"];

/// Keys that the hardware lists.
pub type Residents = Vec<Resident>;

/// Asks the user for a PIN; `None` when there is none to be had.
pub type Pin<'a> = &'a mut dyn FnMut() -> Secret;

/// Signs `data` with a key whose private half is in hardware, which may take a touch. Asks for the PIN where the key says that it
/// needs one, or the hardware does.
///
/// # Errors
/// See [`SkError`]. It blocks for as long as the hardware does.
pub fn sign(
    key: &SecurityKey,
    provider: &str,
    data: &[u8],
    verbose: bool,
    ask: Pin<'_>,
) -> Result<Vec<u8>, SkError> {
    let plain = key.plain();
    let mut pin = if key.flags & flags::USER_VERIFICATION != 0 { ask() } else { None };
    loop {
        let asked = pin.is_some();
        let request = Request::Sign {
            key: Box::new(plain.clone()),
            provider: provider.to_owned(),
            data: data.to_vec(),
            pin: pin.take(),
        };
        match converse(&request, verbose)? {
            Reply::Signature(signature) => return Ok(signature),
            // Once: a wrong PIN brings the hardware closer to locking itself.
            Reply::Failed(SkError::Pin) if !asked => pin = Some(ask().ok_or(SkError::Pin)?),
            Reply::Failed(error) => return Err(error),
            _ => return Err(SkError::Invalid),
        }
    }
}

/// Has a key made. Returns it with the attestation.
///
/// # Errors
/// See [`SkError`]; [`SkError::Pin`] when a PIN is missing or wrong.
pub fn enroll(wanted: Enrollment, verbose: bool) -> Result<(SecurityKey, Vec<u8>), SkError> {
    let kind =
        if wanted.ed25519 { "sk-ssh-ed25519@openssh.com" } else { "sk-ecdsa-sha2-nistp256@openssh.com" };
    match converse(&Request::Enroll(wanted), verbose)? {
        // Other versions of OpenSSH's helper have other numbers for the types.
        Reply::Enrolled(key, attestation) if key.public.key_type() == kind => Ok((*key, attestation)),
        Reply::Failed(error) => Err(error),
        _ => Err(SkError::Invalid),
    }
}

/// The keys that the hardware lists.
///
/// # Errors
/// See [`SkError`].
pub fn residents(provider: &str, device: &str, pin: Secret, verbose: bool) -> Result<Residents, SkError> {
    let request = Request::Residents { provider: provider.to_owned(), device: device.to_owned(), pin };
    match converse(&request, verbose)? {
        Reply::Residents(keys) => Ok(keys),
        Reply::Failed(error) => Err(error),
        _ => Err(SkError::Invalid),
    }
}

fn helper() -> PathBuf {
    if let Some(named) = std::env::var_os("SSH_SK_HELPER").filter(|path| !path.is_empty()) {
        return named.into();
    }
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join(HELPER)));
    let mut places = beside.into_iter().chain(ELSEWHERE.iter().map(PathBuf::from));
    places.find(|path| path.is_file()).unwrap_or_else(|| ELSEWHERE[0].into())
}

/// One request, one reply, one process.
fn converse(request: &Request, verbose: bool) -> Result<Reply, SkError> {
    let path = helper();
    let failed = |source| SkError::Helper { what: format!("helper \"{}\"", path.display()), source };
    let mut child =
        Command::new(&path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let sent = child.stdin.take().map_or(Ok(()), |mut to| {
        let body = request.encode(verbose);
        let mut message = Zeroizing::new(Vec::with_capacity(body.len() + 5));
        message.put_u32(u32::try_from(body.len() + 1).unwrap_or(u32::MAX));
        message.put_u8(VERSION);
        message.put_bytes(&body);
        to.write_all(&message)
    });
    let mut reply = Vec::new();
    let received =
        child.stdout.take().map_or(Ok(0), |from| from.take(MAX_MESSAGE as u64 + 5).read_to_end(&mut reply));
    // Whatever happened, the child is waited for.
    let ended = child.wait().map_err(failed)?;
    if !ended.success() {
        return Err(SkError::Died);
    }
    sent.map_err(failed)?;
    received.map_err(failed)?;
    let (length, rest) = reply.split_first_chunk().ok_or(SkError::Invalid)?;
    match rest.split_first() {
        Some((&VERSION, body)) if u32::from_be_bytes(*length) as usize == rest.len() => Reply::parse(body),
        _ => Err(SkError::Invalid),
    }
}

impl FileKey {
    /// A signature blob. For a key in hardware, `provider` is the library that talks to it; see [`sign`].
    ///
    /// # Errors
    /// What to say after "signing failed".
    pub fn sign(
        &self,
        algorithm: &str,
        data: &[u8],
        provider: &str,
        verbose: bool,
        ask: Pin<'_>,
    ) -> Result<Vec<u8>, String> {
        match self {
            Self::Plain(key) => key.sign(algorithm, data).map_err(|error| error.to_string()),
            Self::Security(key) => sign(key, provider, data, verbose, ask).map_err(|error| error.to_string()),
        }
    }
}
