//! Host certificates: checks whether an authority that known_hosts trusts (`@cert-authority`) has certified
//! the host.
//!
//! A certificate that is untrusted or does not apply is no reason to refuse the host: its plain key decides
//! then, as without a certificate.

use lh_crypto::{Certificate, CertificateError, CertificateKind, PublicKey, VerifyError};
use lh_sys::time::now_unix;

use crate::error::ClientError;
use crate::hostkey::{self, Policy, Verdict};
use crate::known::{KnownFiles, check_not_revoked};
use crate::log::{Log, sanitise};

/// True if the certificate is trusted for the policy's host.
///
/// # Errors
/// The key or its authority is revoked; all lines but the last one have been shown.
pub(crate) fn is_trusted(
    key: &PublicKey,
    certificate: &Certificate,
    policy: &Policy,
    known: &KnownFiles,
    log: &mut Log<'_>,
) -> Result<bool, ClientError> {
    let authority = certificate.authority();
    log.debug(|| {
        format!(
            "Server host certificate: {} {}, serial {} ID \"{}\" CA {} {}",
            key.key_type(),
            key.fingerprint(policy.fingerprint),
            certificate.serial(),
            sanitise(certificate.key_id()),
            authority.key_type(),
            authority.fingerprint(policy.fingerprint)
        )
    });
    for principal in certificate.principals() {
        log.debug2(|| format!("Server host certificate hostname: {}", sanitise(principal)));
    }
    check_not_revoked(policy, authority, log)?;
    let names = [Some(&policy.name), policy.portless.as_ref()];
    for each in [key.plain(), authority] {
        for name in names.into_iter().flatten() {
            if let Some(place) = known.revoked(name, each) {
                hostkey::decide(&Verdict::Revoked(place), each, policy, log)?;
            }
        }
    }
    let found = names.into_iter().flatten().find_map(|name| known.authority(name, authority));
    let Some(place) = found else {
        log.debug(|| "No matching CA found. Retry with plain key".to_owned());
        return Ok(false);
    };
    let kind = hostkey::kind_of(key);
    log.debug(|| format!("Host '{}' is known and matches the {kind} host certificate.", policy.name));
    log.debug(|| format!("Found CA key in {}:{}", place.file.display(), place.line));
    match check(certificate, policy) {
        Ok(()) => Ok(true),
        Err(why) => {
            log.error(&why.to_string());
            log.debug(|| "No matching CA found. Retry with plain key".to_owned());
            Ok(false)
        }
    }
}

/// A host certificate that is not accepted.
#[derive(Debug, thiserror::Error)]
enum Unaccepted {
    /// The configuration does not permit the authority's algorithm (`CASignatureAlgorithms`).
    #[error("Certificate signed with disallowed algorithm {}", sanitise(.0))]
    Algorithm(String),
    /// The authority's signature is wrong.
    #[error("Certificate invalid: {0}")]
    Invalid(VerifyError),
    /// The certificate is for another host, another time or another purpose.
    #[error("{}", sanitise(&.0.to_string()))]
    Contents(CertificateError),
}

/// Checks that the authority's signature algorithm is accepted, and that the certificate is for this host and
/// time.
fn check(certificate: &Certificate, policy: &Policy) -> Result<(), Unaccepted> {
    let allowed: Vec<&str> = policy.ca_algorithms.iter().map(String::as_str).collect();
    certificate.verify(&allowed).map_err(|error| match error {
        VerifyError::WrongAlgorithm => Unaccepted::Algorithm(certificate.signature_algorithm().to_owned()),
        error => Unaccepted::Invalid(error),
    })?;
    let now = u64::try_from(now_unix()).unwrap_or(0);
    certificate.check(CertificateKind::Host, &policy.principal, now, &[]).map_err(Unaccepted::Contents)
}
