//! Execution of requests.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use lh_agent::SecurityKey;
use lh_cli::helper::say;
use lh_crypto::PublicKey;
use lh_security_key::messages::{Enrollment, Reply, Request, Resident};
use lh_security_key::{INTERNAL, SkError, flags};
use lh_sys::security_key::{Algorithm, Enrolled, Provider, ProviderError, Signed};
use lh_wire::{Reader, Writer as _};

use crate::internal::{Internal, SSH};

const ED25519: &str = "sk-ssh-ed25519@openssh.com";
const ECDSA: &str = "sk-ecdsa-sha2-nistp256@openssh.com";
/// The kernel's random numbers.
const RANDOM: &str = "/dev/urandom";

/// What talks to the hardware.
enum Backend {
    /// libfido2.
    Internal(Internal),
    /// A library of the user's.
    Library(Provider),
}

/// Executes a request.
pub(crate) fn answer(request: Request) -> Result<Reply, SkError> {
    match request {
        Request::Sign { key, provider, data, pin } => {
            sign(&key, &provider, &data, pin.as_ref().map(|pin| pin.as_str())).map(Reply::Signature)
        }
        Request::Enroll(wanted) => enroll(&wanted),
        Request::Residents { provider, device, pin } => {
            residents(&provider, &device, pin.as_ref().map(|pin| pin.as_str())).map(Reply::Residents)
        }
    }
}

fn open(provider: &str) -> Result<Backend, SkError> {
    if provider.is_empty() {
        say("No FIDO SecurityKeyProvider specified");
        return Err(SkError::Invalid);
    }
    if provider.eq_ignore_ascii_case(INTERNAL) {
        return Internal::open().map(Backend::Internal);
    }
    Provider::open(Path::new(provider)).map(Backend::Library).map_err(failed)
}

/// Maps a library's failure to an error for the caller, and prints its text.
fn failed(error: ProviderError) -> SkError {
    match error {
        ProviderError::Refused(-2) => SkError::Unsupported,
        ProviderError::Refused(-3) => SkError::Pin,
        ProviderError::Refused(-4) => SkError::NoDevice,
        ProviderError::Refused(-5) => SkError::Exists,
        ProviderError::Refused(_) => SkError::Invalid,
        ProviderError::Unusable(text) => {
            say(&text);
            SkError::Invalid
        }
        ProviderError::Nonsense => {
            say("sk_api response invalid");
            SkError::Invalid
        }
    }
}

fn sign(key: &SecurityKey, provider: &str, data: &[u8], pin: Option<&str>) -> Result<Vec<u8>, SkError> {
    let mut fields = Reader::new(key.public.blob());
    let kind = fields.text().map_err(|_| SkError::Argument)?;
    let (algorithm, fields_before) = match kind {
        ED25519 => (Algorithm::Ed25519, 1),
        ECDSA => (Algorithm::Ecdsa, 2),
        _ => return Err(SkError::Argument),
    };
    for _ in 0..fields_before {
        fields.string().map_err(|_| SkError::Argument)?;
    }
    let application = fields.text().map_err(|_| SkError::Argument)?;
    if application.is_empty() {
        return Err(SkError::Argument);
    }
    let (handle, flags) = (&key.handle, key.flags);
    let signed = match open(provider)? {
        Backend::Internal(fido) => fido.sign(algorithm, data, application, handle, flags, pin)?,
        Backend::Library(library) => {
            library.sign(algorithm, data, application, handle, flags, pin).map_err(failed)?
        }
    };
    let mut blob = Vec::new();
    blob.put_string(kind.as_bytes());
    put_signature(&mut blob, algorithm, &signed)?;
    blob.put_u8(signed.flags);
    blob.put_u32(signed.counter);
    Ok(blob)
}

fn put_signature(blob: &mut Vec<u8>, algorithm: Algorithm, signed: &Signed) -> Result<(), SkError> {
    if signed.r.is_empty() || (algorithm == Algorithm::Ecdsa && signed.s.is_empty()) {
        say("sk_sign response invalid");
        return Err(SkError::Invalid);
    }
    match algorithm {
        Algorithm::Ed25519 => blob.put_string(&signed.r),
        Algorithm::Ecdsa => {
            blob.nested(|blob| {
                blob.put_mpint(&signed.r);
                blob.put_mpint(&signed.s);
            });
        }
    }
    Ok(())
}

fn enroll(wanted: &Enrollment) -> Result<Reply, SkError> {
    if wanted.application.is_empty() {
        return Err(SkError::Argument);
    }
    let algorithm = if wanted.ed25519 { Algorithm::Ed25519 } else { Algorithm::Ecdsa };
    let challenge = if wanted.challenge.is_empty() { &random()?[..] } else { &wanted.challenge };
    let pin = wanted.pin.as_ref().map(|pin| pin.as_str());
    let made = match open(&wanted.provider)? {
        Backend::Internal(fido) => fido.enroll(algorithm, challenge, wanted, pin)?,
        Backend::Library(library) => {
            let options = [("device", wanted.device.as_str()), ("user", &wanted.user)];
            library
                .enroll(algorithm, challenge, &wanted.application, wanted.flags, pin, &options)
                .map_err(failed)?
        }
    };
    let key = key(algorithm, &wanted.application, made.flags, &made)?;
    Ok(Reply::Enrolled(Box::new(key), attestation(&made)))
}

/// Returns a challenge, from the kernel: the helpers link no library for cryptography.
fn random() -> Result<[u8; 32], SkError> {
    let mut bytes = [0; 32];
    let filled = File::open(RANDOM).and_then(|mut file| file.read_exact(&mut bytes));
    filled.map(|()| bytes).map_err(|error| {
        say(&format!("{RANDOM}: {error}"));
        SkError::Invalid
    })
}

/// Attestation data in the form `ssh-sk-attest-v01` (OpenSSH's PROTOCOL.u2f).
fn attestation(made: &Enrolled) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_string(b"ssh-sk-attest-v01");
    out.put_string(&made.certificate);
    out.put_string(&made.signature);
    out.put_string(&made.authenticator_data);
    out.put_u32(0);
    out.put_string(b"");
    out
}

/// The key in the form that files and agents use.
fn key(algorithm: Algorithm, application: &str, flags: u8, made: &Enrolled) -> Result<SecurityKey, SkError> {
    let mut blob = Vec::new();
    match algorithm {
        Algorithm::Ed25519 => blob.put_string(ED25519.as_bytes()),
        Algorithm::Ecdsa => {
            blob.put_string(ECDSA.as_bytes());
            blob.put_string(b"nistp256");
        }
    }
    blob.put_string(&made.public);
    blob.put_string(application.as_bytes());
    let public = PublicKey::from_blob(&blob).map_err(|_| {
        say("sk_enroll response invalid");
        SkError::Invalid
    })?;
    if made.handle.is_empty() {
        say("sk_enroll response invalid");
        return Err(SkError::Invalid);
    }
    Ok(SecurityKey { public, flags, handle: made.handle.clone(), reserved: Vec::new() })
}

fn residents(provider: &str, device: &str, pin: Option<&str>) -> Result<Vec<Resident>, SkError> {
    let found = match open(provider)? {
        Backend::Internal(fido) => fido.residents(device, pin)?,
        Backend::Library(library) => library.residents(pin, &[("device", device)]).map_err(|error| {
            if let ProviderError::Refused(code) = error {
                say(&format!("Provider \"{provider}\" returned failure {code}"));
            }
            failed(error)
        })?,
    };
    let mut keys = Vec::new();
    for resident in found {
        // Authenticators also hold keys of other applications.
        let (Some(algorithm), true) = (resident.algorithm, resident.application.starts_with(SSH)) else {
            continue;
        };
        let Ok(application) = std::str::from_utf8(&resident.application) else { continue };
        let verified = resident.flags & flags::USER_VERIFICATION;
        let key =
            key(algorithm, application, flags::USER_PRESENCE | flags::RESIDENT | verified, &resident.key)?;
        keys.push(Resident { key, user: resident.user });
    }
    Ok(keys)
}
