//! Client of the security key helper.

use std::io;

use lh_agent::SecurityKey;

use crate::flags;
use crate::messages::{Enrollment, Reply, Request, Resident, Secret, VERSION};
use crate::{SkError, program};

/// Name of the helper program.
const HELPER: &str = "lhssh-sk-helper";

/// Resident keys of the hardware.
pub type Residents = Vec<Resident>;

/// Asks the user for a PIN; `None` when none can be obtained.
pub type Pin<'a> = &'a mut dyn FnMut() -> Secret;

/// Signs `data` with a key in a security key, which may require a touch. Asks for the PIN if the key's flags
/// or the hardware require one.
///
/// # Errors
/// See [`SkError`]. The call blocks as long as the hardware does.
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
            // Only once: each wrong PIN brings the hardware closer to locking itself.
            Reply::Failed(SkError::Pin) if !asked => pin = Some(ask().ok_or(SkError::Pin)?),
            Reply::Failed(error) => return Err(error),
            _ => return Err(SkError::Invalid),
        }
    }
}

/// Creates a key in the hardware. Returns it with the attestation.
///
/// # Errors
/// See [`SkError`]; [`SkError::Pin`] when a PIN is missing or wrong.
pub fn enroll(wanted: Enrollment, verbose: bool) -> Result<(SecurityKey, Vec<u8>), SkError> {
    let kind =
        if wanted.ed25519 { "sk-ssh-ed25519@openssh.com" } else { "sk-ecdsa-sha2-nistp256@openssh.com" };
    match converse(&Request::Enroll(wanted), verbose)? {
        // Other versions of OpenSSH's helper use other numbers for the key types.
        Reply::Enrolled(key, attestation) if key.public.key_type() == kind => Ok((*key, attestation)),
        Reply::Failed(error) => Err(error),
        _ => Err(SkError::Invalid),
    }
}

/// Returns the resident keys of the hardware.
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

/// Runs the helper for one request and returns its reply.
fn converse(request: &Request, verbose: bool) -> Result<Reply, SkError> {
    let path = program::find(HELPER, "SSH_SK_HELPER");
    let failed = |source| SkError::Helper { what: format!("helper \"{}\"", path.display()), source };
    let mut child = program::start(&path).map_err(failed)?;
    let sent =
        child.stdin.take().map_or(Ok(()), |mut to| program::send(&mut to, VERSION, &request.encode(verbose)));
    let received = child.stdout.take().map_or(Ok(None), |mut from| program::receive(&mut from, VERSION));
    // Always wait for the child, even after an error.
    let ended = child.wait().map_err(failed)?;
    if !ended.success() {
        return Err(SkError::Died);
    }
    sent.map_err(failed)?;
    match received {
        Ok(Some(body)) => Reply::parse(&body),
        Ok(None) => Err(SkError::Invalid),
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
            Err(SkError::Invalid)
        }
        Err(error) => Err(failed(error)),
    }
}
