//! Users' certificates: whose signature is trusted, for which accounts, with which rights.
//!
//! The authority's own signature has been checked before anything here is asked.

use std::path::Path;

use lh_config::server_table::ServerSettings;
use lh_crypto::{Certificate, CertificateKind, PublicKey};
use lh_sys::time::now_unix;
use lh_sys::users::User;

use super::external::External;
use super::keys::user_tokens;
use super::{Monitor, describe, principals};
use crate::authorized_keys::{Line, parse_line};
use crate::cert_options::Comer;
use crate::key_options::KeyOptions;
use crate::log::{Level, debug, error, verbose};

/// Reason for a certificate without usable principals, in OpenSSH's words.
const NO_PRINCIPAL: &str = "Certificate does not contain an authorized principal";

impl Monitor {
    pub(super) fn comer<'a>(&'a self, user: &'a User) -> Comer<'a> {
        let origin = self.origin();
        Comer { user: &user.name, address: origin.address, name: origin.name, now: now_unix() }
    }

    /// Whether options let the user in from here; why not is logged. `authorities`: as for [`KeyOptions::authorise`].
    pub(super) fn permitted(
        &self,
        options: &KeyOptions,
        place: &str,
        user: &User,
        authorities: bool,
    ) -> bool {
        match options.authorise(place, &self.comer(user), authorities) {
            Ok(()) => true,
            Err((level, why)) => {
                self.log.line(level, format_args!("{why}"));
                false
            }
        }
    }

    /// A certificate whose authority stands in `authorized_keys` behind `line`, at `place`. `Err` is the line for the log.
    pub(super) fn certificate_of_line(
        &self,
        user: &User,
        certificate: &Certificate,
        line: &KeyOptions,
        place: &str,
    ) -> Result<KeyOptions, String> {
        let options = self.options_of(user, certificate, place)?;
        let options = line.merged(&options).map_err(str::to_owned)?;
        // Principals of the line are preferred to the user's name.
        let name = match &line.principals {
            None => &user.name,
            Some(list) => {
                let listed = |principal: &&String| list.split(',').any(|each| each == principal.as_str());
                certificate.principals().iter().find(listed).ok_or(NO_PRINCIPAL)?
            }
        };
        in_force(certificate, name)?;
        Ok(options)
    }

    /// A certificate of an authority in `TrustedUserCAKeys`. What is wrong with one is logged.
    pub(super) fn trusted_authority(
        &self,
        settings: &ServerSettings,
        user: &User,
        key: &PublicKey,
        certificate: &Certificate,
    ) -> Option<KeyOptions> {
        let file = settings.trusted_user_ca_keys.as_deref()?;
        let authority = certificate.authority();
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(problem) => {
                error!(self.log, "Could not open CA keys file {file}: {problem}");
                self.doubt.set(true);
                return None;
            }
        };
        let listed = text
            .lines()
            .any(|line| matches!(parse_line(line), Line::Entry(entry) if entry.key == *authority));
        if !listed {
            debug!(self.log, "CA {} is not listed in {file}", describe(settings, authority));
            return None;
        }
        match self.certificate_of_server(settings, user, key, certificate) {
            Ok(options) => {
                let (id, serial) = (certificate.key_id(), certificate.serial());
                let authority = describe(settings, authority);
                verbose!(
                    self.log,
                    "Accepted certificate ID \"{id}\" (serial {serial}) signed by {} CA {} via {file}",
                    authority.split(' ').next().unwrap_or_default(),
                    authority.split(' ').nth(1).unwrap_or_default()
                );
                Some(options)
            }
            Err(why) => {
                error!(self.log, "{why}");
                None
            }
        }
    }

    fn certificate_of_server(
        &self,
        settings: &ServerSettings,
        user: &User,
        key: &PublicKey,
        certificate: &Certificate,
    ) -> Result<KeyOptions, String> {
        let file = settings.authorized_principals_file.as_deref();
        let command = settings.authorized_principals_command.0.as_deref();
        let restricted = file.is_some() || command.is_some();
        let mut found = file.and_then(|file| self.principal_of_file(settings, user, certificate, file));
        if found.is_none()
            && let Some(command) = command
        {
            found = self.principal_of_command(settings, user, key, certificate, command);
        }
        if restricted && found.is_none() {
            return Err(NO_PRINCIPAL.to_owned());
        }
        in_force(certificate, found.as_ref().map_or(&user.name, |found| &found.principal))?;
        let options = self.options_of(user, certificate, "cert")?;
        match found {
            None => Ok(options),
            Some(found) if self.permitted(&found.options, "principals", user, false) => {
                Ok(found.options.merged(&options)?)
            }
            Some(_) => Err("Refused by certificate principals options".to_owned()),
        }
    }

    fn principal_of_file(
        &self,
        settings: &ServerSettings,
        user: &User,
        certificate: &Certificate,
        pattern: &str,
    ) -> Option<principals::Match> {
        let path = match user_tokens(user).expand(pattern) {
            Ok(path) => user.home.join(path),
            Err(problem) => {
                error!(self.log, "AuthorizedPrincipalsFile: {problem}");
                return None;
            }
        };
        let paths = self.files_of_pattern(user, "AuthorizedPrincipalsFile", pattern, path);
        paths.iter().find_map(|path| {
            debug!(self.log, "trying authorized principals file {}", path.display());
            let text = self.user_file(settings, user, "authorized principals", path)?;
            self.matching_principal(certificate, &text, path)
        })
    }

    fn principal_of_command(
        &self,
        settings: &ServerSettings,
        user: &User,
        key: &PublicKey,
        certificate: &Certificate,
        command: &str,
    ) -> Option<principals::Match> {
        let authority = certificate.authority();
        let tokens = self
            .connection_tokens(user_tokens(user))
            .with('t', key.key_type())
            .with('f', super::fingerprint(settings, key))
            .with('k', key.to_base64())
            .with('T', authority.key_type())
            .with('F', super::fingerprint(settings, authority))
            .with('K', authority.to_base64())
            .with('i', certificate.key_id())
            .with('s', certificate.serial().to_string());
        let external = External {
            keyword: "AuthorizedPrincipalsCommand",
            command,
            user: settings.authorized_principals_command_user.as_deref(),
            default_argument: None,
            tokens: &tokens,
            deadline: self.deadline,
        };
        match external.run() {
            Ok(text) => self.matching_principal(certificate, &text, Path::new("AuthorizedPrincipalsCommand")),
            Err(problem) => {
                error!(self.log, "{problem}");
                self.doubt.set(true);
                None
            }
        }
    }

    /// The first line with a principal of the certificate and options that can be read. No later one counts, as in sshd.
    fn matching_principal(
        &self,
        certificate: &Certificate,
        text: &str,
        file: &Path,
    ) -> Option<principals::Match> {
        for (number, found) in principals::find(text, certificate) {
            let place = format!("{}:{number}", file.display());
            match found {
                Ok(found) => {
                    let line = format_args!("{place}: matched principal \"{}\"", found.principal);
                    self.log.line(Level::Debug3, line);
                    return Some(found);
                }
                Err(why) => debug!(self.log, "{place}: {why}"),
            }
        }
        None
    }

    /// What the certificate itself allows, if it may be used by this user from here.
    fn options_of(&self, user: &User, certificate: &Certificate, place: &str) -> Result<KeyOptions, String> {
        let options = KeyOptions::of_certificate(certificate).map_err(|why| {
            error!(self.log, "{why}");
            "Invalid certificate options".to_owned()
        })?;
        if self.permitted(&options, place, user, false) {
            Ok(options)
        } else {
            Err("Refused by certificate options".to_owned())
        }
    }
}

/// Kind, time, principals: the rules that hold everywhere. Critical options are [`KeyOptions::of_certificate`]'s business.
fn in_force(certificate: &Certificate, name: &str) -> Result<(), String> {
    let now = u64::try_from(now_unix()).unwrap_or(0);
    let critical: Vec<&str> = certificate.critical_options().iter().map(|(name, _)| name.as_str()).collect();
    certificate.check(CertificateKind::User, name, now, &critical).map_err(|problem| problem.to_string())
}
