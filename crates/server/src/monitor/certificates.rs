//! User certificates: which authorities are trusted, for which accounts, and which rights the certificate
//! gives.
//!
//! The caller has already verified the authority's signature.

use std::path::Path;

use lh_crypto::{Certificate, CertificateError, CertificateKind, PublicKey};
use lh_sys::time::now_unix;

use super::account_context::AccountContext;
use super::external::External;
use super::fingerprints::{describe, fingerprint};
use super::principals;
use crate::authorized_keys::line_key;
use crate::cert_options::{CommandsDiffer, LoginOrigin};
use crate::key_options::KeyOptions;
use crate::log::{Level, debug, error, verbose};
use crate::user_tokens::user_tokens;

/// Why a certificate is refused. `Display` is the line for the log, in OpenSSH's words.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("Certificate does not contain an authorized principal")]
    NoPrincipal,
    /// The certificate's options cannot be used; the reason has been logged.
    #[error("Invalid certificate options")]
    BadOptions,
    #[error("Refused by certificate options")]
    Options,
    #[error("Refused by certificate principals options")]
    PrincipalsOptions,
    #[error(transparent)]
    CommandsDiffer(#[from] CommandsDiffer),
    /// The certificate is of the wrong kind, expired or not yet valid, or for other principals.
    #[error(transparent)]
    NotInForce(#[from] CertificateError),
}

impl AccountContext<'_> {
    fn origin(&self) -> LoginOrigin<'_> {
        let origin = self.client.origin();
        LoginOrigin { user: &self.user.name, address: origin.address, name: origin.name, now: now_unix() }
    }

    /// Returns whether the options permit this login, and logs the reason if not. `authorities`: as for
    /// [`KeyOptions::authorise`].
    pub(super) fn permitted(&self, options: &KeyOptions, place: &str, authorities: bool) -> bool {
        match options.authorise(place, &self.origin(), authorities) {
            Ok(()) => true,
            Err((level, why)) => {
                self.client.log.line(level, format_args!("{why}"));
                false
            }
        }
    }

    /// Checks a certificate whose authority is trusted by an `authorized_keys` line with the options `line`,
    /// at `place`.
    pub(super) fn certificate_of_line(
        &self,
        certificate: &Certificate,
        line: &KeyOptions,
        place: &str,
    ) -> Result<KeyOptions, Refusal> {
        let options = self.options_of(certificate, place)?;
        let options = line.merged(&options)?;
        // The `principals` of the line replace the user's name.
        let name = match &line.principals {
            None => &self.user.name,
            Some(list) => {
                let listed = |principal: &&String| list.split(',').any(|each| each == principal.as_str());
                certificate.principals().iter().find(listed).ok_or(Refusal::NoPrincipal)?
            }
        };
        in_force(certificate, name)?;
        Ok(options)
    }

    /// Checks a certificate of an authority in `TrustedUserCAKeys`. The reason for a refusal is logged.
    pub(super) fn trusted_authority(&self, key: &PublicKey, certificate: &Certificate) -> Option<KeyOptions> {
        let Self { client, lookups, settings, .. } = *self;
        let file = settings.trusted_user_ca_keys.as_deref()?;
        let authority = certificate.authority();
        let text = match std::fs::read(file) {
            // Comments may have any encoding.
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(problem) => {
                error!(client.log, "Could not open CA keys file {file}: {problem}");
                lookups.set_doubt();
                return None;
            }
        };
        let listing = look_up(&text, authority);
        if let Listing::Broken { line, what } = listing {
            error!(
                client.log,
                "{file}:{line}: {what} in TrustedUserCAKeys; authorities below it are not trusted, as with sshd"
            );
        }
        if listing != Listing::Trusted {
            debug!(client.log, "CA {} is not listed in {file}", describe(settings, authority));
            return None;
        }
        match self.certificate_of_server(key, certificate) {
            Ok(options) => {
                let (id, serial) = (certificate.key_id(), certificate.serial());
                let authority = describe(settings, authority);
                verbose!(
                    client.log,
                    "Accepted certificate ID \"{id}\" (serial {serial}) signed by {} CA {} via {file}",
                    authority.split(' ').next().unwrap_or_default(),
                    authority.split(' ').nth(1).unwrap_or_default()
                );
                Some(options)
            }
            Err(why) => {
                error!(client.log, "{why}");
                None
            }
        }
    }

    fn certificate_of_server(
        &self,
        key: &PublicKey,
        certificate: &Certificate,
    ) -> Result<KeyOptions, Refusal> {
        let Self { settings, user, .. } = *self;
        let file = settings.authorized_principals_file.as_deref();
        let command = settings.authorized_principals_command.0.as_deref();
        let restricted = file.is_some() || command.is_some();
        let mut found = file.and_then(|file| self.principal_of_file(certificate, file));
        if found.is_none()
            && let Some(command) = command
        {
            found = self.principal_of_command(key, certificate, command);
        }
        if restricted && found.is_none() {
            return Err(Refusal::NoPrincipal);
        }
        in_force(certificate, found.as_ref().map_or(&user.name, |found| &found.principal))?;
        let options = self.options_of(certificate, "cert")?;
        match found {
            None => Ok(options),
            Some(found) if self.permitted(&found.options, "principals", false) => {
                Ok(found.options.merged(&options)?)
            }
            Some(_) => Err(Refusal::PrincipalsOptions),
        }
    }

    fn principal_of_file(&self, certificate: &Certificate, pattern: &str) -> Option<principals::Match> {
        let Self { client, lookups, settings, user } = *self;
        let path = match user_tokens(user).expand(pattern) {
            Ok(path) => user.home.join(path),
            Err(problem) => {
                error!(client.log, "AuthorizedPrincipalsFile: {problem}");
                return None;
            }
        };
        let paths = lookups.files_of_pattern(user, "AuthorizedPrincipalsFile", pattern, path);
        paths.iter().find_map(|path| {
            debug!(client.log, "trying authorized principals file {}", path.display());
            let names_one = |line: &str| principals::names_principal(line, certificate);
            let lines = lookups.lines(settings, user, "authorized principals", path, names_one);
            let lines = lines.iter().map(|(number, line)| (*number, &line[..]));
            self.matching_principal(certificate, lines, path)
        })
    }

    fn principal_of_command(
        &self,
        key: &PublicKey,
        certificate: &Certificate,
        command: &str,
    ) -> Option<principals::Match> {
        let Self { client, lookups, settings, user } = *self;
        let authority = certificate.authority();
        let tokens = client
            .tokens(user)
            .with('t', key.key_type())
            .with('f', fingerprint(settings, key))
            .with('k', key.to_base64())
            .with('T', authority.key_type())
            .with('F', fingerprint(settings, authority))
            .with('K', authority.to_base64())
            .with('i', certificate.key_id())
            .with('s', certificate.serial().to_string());
        let external = External {
            keyword: "AuthorizedPrincipalsCommand",
            command,
            user: settings.authorized_principals_command_user.as_deref(),
            default_argument: None,
            tokens: &tokens,
            deadline: client.deadline,
        };
        match external.run() {
            Ok(text) => {
                let lines = (1..).zip(text.lines());
                self.matching_principal(certificate, lines, Path::new("AuthorizedPrincipalsCommand"))
            }
            Err(problem) => {
                error!(client.log, "{problem}");
                lookups.set_doubt();
                None
            }
        }
    }

    /// Returns the first of numbered lines that names a principal of the certificate and has valid options.
    /// As in sshd, later lines do not count.
    fn matching_principal<'b>(
        &self,
        certificate: &Certificate,
        lines: impl Iterator<Item = (usize, &'b str)>,
        file: &Path,
    ) -> Option<principals::Match> {
        for (number, line) in lines {
            let Some(found) = principals::check_line(line, certificate) else { continue };
            let place = format!("{}:{number}", file.display());
            match found {
                Ok(found) => {
                    let line = format_args!("{place}: matched principal \"{}\"", found.principal);
                    self.client.log.line(Level::Debug3, line);
                    return Some(found);
                }
                Err(why) => debug!(self.client.log, "{place}: {why}"),
            }
        }
        None
    }

    /// Returns the certificate's own options, if they permit this user to log in from here.
    fn options_of(&self, certificate: &Certificate, place: &str) -> Result<KeyOptions, Refusal> {
        let options = KeyOptions::of_certificate(certificate).map_err(|why| {
            error!(self.client.log, "{why}");
            Refusal::BadOptions
        })?;
        if self.permitted(&options, place, false) { Ok(options) } else { Err(Refusal::Options) }
    }
}

/// What `TrustedUserCAKeys` says about an authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    Absent,
    Trusted,
    /// The search ended at this line (from 1).
    Broken {
        line: usize,
        what: &'static str,
    },
}

/// Searches the text of such a file. As with sshd (tried with 9.2), the first line that is no key of a known
/// type ends the search: what an administrator meant by it is not known, and a line that was to limit an
/// authority must not trust it without limits.
fn look_up(text: &str, authority: &PublicKey) -> Listing {
    for (number, line) in (1..).zip(text.split('\n')) {
        let line = line.trim_start_matches([' ', '\t']);
        if line.is_empty() || line.starts_with(['#', '\0']) {
            continue;
        }
        let what = match PublicKey::from_openssh_line(line) {
            Some((key, _)) if key == *authority => return Listing::Trusted,
            Some((key, _)) if is_known(&key) => continue,
            Some(_) => "a key of an unknown type does not count",
            None if line_key(line).is_some() => "a line with options does not count",
            None => "a line that is no public key does not count",
        };
        return Listing::Broken { line: number, what };
    }
    Listing::Absent
}

/// Returns whether sshd knows the type of the key. It does know DSA, which nothing here verifies.
fn is_known(key: &PublicKey) -> bool {
    key.key_type().starts_with("ssh-dss") || !key.signature_algorithms().is_empty()
}

/// Checks kind, validity period and principals. [`KeyOptions::of_certificate`] checks critical options.
fn in_force(certificate: &Certificate, name: &str) -> Result<(), CertificateError> {
    let now = u64::try_from(now_unix()).unwrap_or(0);
    let critical: Vec<&str> = certificate.critical_options().iter().map(|(name, _)| name.as_str()).collect();
    certificate.check(CertificateKind::User, name, now, &critical)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_crypto::{KeyType, PrivateKey};

    #[test]
    fn options_of_an_authority_do_not_vanish() {
        let key = || PrivateKey::generate(KeyType::Ed25519, None).unwrap().public().clone();
        let (ours, other) = (key(), key());
        let line = ours.to_openssh_line("our authority");
        for trusted in [line.clone(), format!(" \t{line}\r"), ours.to_openssh_line("")] {
            assert_eq!(look_up(&trusted, &ours), Listing::Trusted, "{trusted}");
            assert_eq!(look_up(&trusted, &other), Listing::Absent, "{trusted}");
        }
        for options in ["cert-authority", "from=\"10.0.0.0/8\"", "restrict,command=\"a b\"", "no-such-option"]
        {
            let broken = Listing::Broken { line: 1, what: "a line with options does not count" };
            assert_eq!(look_up(&format!("{options} {line}"), &ours), broken, "{options}");
            assert_eq!(look_up(&format!("{options} {line}"), &other), broken, "{options}");
        }
        for comment in [format!("#{line}"), format!("  # {line}"), String::new(), "\0x".to_owned()] {
            assert_eq!(look_up(&comment, &ours), Listing::Absent, "{comment}");
            assert_eq!(look_up(&format!("{comment}\n \t\n{line}"), &ours), Listing::Trusted, "{comment}");
        }
    }

    #[test]
    fn a_broken_line_ends_the_search_for_authorities() {
        let key = || PrivateKey::generate(KeyType::Ed25519, None).unwrap().public().clone();
        let (ours, other) = (key(), key());
        let (line, other) = (ours.to_openssh_line("ours"), other.to_openssh_line("other"));
        let no_key = "a line that is no public key does not count";
        for (broken, what) in [
            ("nothing", no_key),
            ("ssh-ed25519 AAAA", no_key),
            ("\r", no_key),
            (&other.replacen("ssh-ed25519", "ssh-rsa", 1), no_key),
            ("ssh-foo AAAAB3NzaC1mb28=", "a key of an unknown type does not count"),
        ] {
            let below = format!("{other}\n{broken}\n{line}\n");
            assert_eq!(look_up(&below, &ours), Listing::Broken { line: 2, what }, "{broken}");
            let above = format!("{other}\n{line}\n{broken}\n");
            assert_eq!(look_up(&above, &ours), Listing::Trusted, "{broken}");
        }
        // Such a key is none for sshd either, but no reason to stop.
        let dsa = "ssh-dss AAAAB3NzaC1kc3M=";
        assert_eq!(look_up(&format!("{dsa}\n{line}"), &ours), Listing::Trusted);
    }
}
