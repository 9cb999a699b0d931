//! Users' public keys: finds them in the users' files and checks revocation and signatures.

use lh_auth::server::PublicKeyAttempt;
use lh_config::algorithms::AlgorithmList;
use lh_config::server_table::ServerSettings;
use lh_crypto::{Attested, Certificate, PublicKey, key_algorithms};

use super::account_context::AccountContext;
use super::candidate::Candidate;
use super::client::Client;
use super::external::External;
use super::fingerprints::{describe, fingerprint};
use super::lookups::Lookups;
use super::revoked::Revocation;

use crate::authorized_keys::{self, Line, Selector};
use crate::bounded_lines::lines_of_text;
use crate::hosts::shown_endpoint;
use crate::key_options::KeyOptions;
use crate::log::{Log, debug, error, info, verbose};
use crate::user_tokens::user_tokens;

/// An accepted key: without or with a valid signature.
pub(super) enum KeyVerdict {
    WouldDo,
    Proven(Box<Found>),
}

/// A trusted key, and the options that apply to it.
pub(super) struct Found {
    pub(super) options: KeyOptions,
    /// FILE:LINE of the key, reported to the client after the login. `None` for a certificate.
    pub(super) place: Option<String>,
}

impl From<KeyOptions> for Found {
    /// Converts the options of a certificate.
    fn from(options: KeyOptions) -> Self {
        Self { options, place: None }
    }
}

/// Checks a user's key, and its signature where the attempt has one.
pub(super) fn key_right(
    client: &Client,
    lookups: &Lookups,
    candidate: &Candidate,
    attempt: &PublicKeyAttempt,
) -> Option<KeyVerdict> {
    let settings = &candidate.settings;
    let accepted = ("PubkeyAcceptedAlgorithms", &settings.pubkey_accepted_algorithms.value);
    let key = usable_key(settings, &attempt.key, &attempt.algorithm, accepted, &client.log)?;
    if candidate.used_keys.iter().any(|used| used == key.plain()) {
        debug!(client.log, "Refusing key, already used: {}", describe(settings, &key));
        return None;
    }
    let user = candidate.user.as_ref()?;
    if lookups.revocation(settings, &key) != Revocation::No {
        return None;
    }
    let found = AccountContext { client, lookups, settings, user }.find_key(&key)?;
    match &attempt.signature {
        None => Some(KeyVerdict::WouldDo),
        Some(signature) => {
            let signed = client.signed_data(&candidate.name, attempt);
            match key.verify_attested(&attempt.algorithm, &signed, signature) {
                Ok(attested) => attestation_enough(client, candidate, &found.options, &key, attested)
                    .then(|| KeyVerdict::Proven(Box::new(found))),
                Err(problem) => {
                    debug!(client.log, "signature of user {}: {problem}", user.name);
                    None
                }
            }
        }
    }
}

/// Returns the key, if `keyword` accepts signatures with this algorithm and, for a certificate, its
/// authority's signature is valid.
pub(super) fn usable_key(
    settings: &ServerSettings,
    blob: &[u8],
    algorithm: &str,
    (keyword, accepted): (&str, &AlgorithmList),
    log: &Log,
) -> Option<PublicKey> {
    if !accepted.apply(&key_algorithms::DEFAULT).iter().any(|name| name == algorithm) {
        let method = if keyword == "HostbasedAcceptedAlgorithms" { "hostbased" } else { "pubkey" };
        info!(log, "userauth_{method}: signature algorithm {algorithm} not in {keyword} [preauth]");
        return None;
    }
    let key = PublicKey::from_blob(blob).ok()?;
    if !key.signature_algorithms().contains(&algorithm) {
        return None;
    }
    let least = settings.required_rsa_size.value as usize;
    if key.plain().key_type() == "ssh-rsa" && key.bits() < least {
        info!(log, "refusing RSA key: Invalid key length");
        return None;
    }
    if let Some(certificate) = key.certificate() {
        sound(settings, certificate, log)?;
    }
    Some(key)
}

/// Checks that the authority's signature is valid and its algorithm accepted. Trust in the authority is
/// decided elsewhere.
fn sound(settings: &ServerSettings, certificate: &Certificate, log: &Log) -> Option<()> {
    let allowed = settings.ca_signature_algorithms.apply(&key_algorithms::AUTHORITY);
    let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
    match certificate.verify(&allowed) {
        Ok(()) => Some(()),
        Err(problem) => {
            let algorithm = certificate.signature_algorithm();
            info!(log, "certificate signature algorithm {algorithm}: {problem}");
            None
        }
    }
}

/// Returns whether a security key has done what is required: touch, user verification.
fn attestation_enough(
    client: &Client,
    candidate: &Candidate,
    options: &KeyOptions,
    key: &PublicKey,
    attested: Option<Attested>,
) -> bool {
    let Some(attested) = attested else { return true };
    let wanted = candidate.settings.pubkey_auth_options.value;
    let touch = wanted.touch_required || !options.no_touch_required;
    let verify = wanted.verify_required || options.verify_required;
    let missing = if touch && !attested.present {
        "user presence (authenticator touch)"
    } else if verify && !attested.verified {
        "user verification"
    } else {
        return true;
    };
    let (name, from) = (&candidate.name, shown_endpoint(client.peer));
    error!(
        client.log,
        "public key {} signature for {name} from {from} rejected: {missing} requirement not met",
        describe(&candidate.settings, key)
    );
    false
}

/// Returns the key that a line of `authorized_keys` must hold: this one, or the authority of a certificate.
fn listed_key(key: &PublicKey) -> &PublicKey {
    key.certificate().map_or(key, Certificate::authority)
}

impl AccountContext<'_> {
    /// Searches the places where the key may be trusted: the user's files, the server's authorities, the
    /// server's command.
    pub(super) fn find_key(&self, key: &PublicKey) -> Option<Found> {
        let Self { client, lookups, settings, user } = *self;
        let tokens = user_tokens(user);
        let selector = Selector::new(listed_key(key));
        for pattern in
            settings.authorized_keys_file.list().iter().filter(|name| !name.eq_ignore_ascii_case("none"))
        {
            let path = match tokens.expand(pattern) {
                Ok(path) => user.home.join(path),
                Err(problem) => {
                    error!(client.log, "AuthorizedKeysFile: {problem}");
                    continue;
                }
            };
            for path in lookups.files_of_pattern(user, "AuthorizedKeysFile", pattern, path) {
                let lines =
                    lookups.lines(settings, user, "authorized keys", &path, |line| selector.selects(line));
                let lines = lines.iter().map(|(number, line)| (*number, &line[..]));
                if let Some(found) = self.search(key, lines, &path.display().to_string()) {
                    return Some(found);
                }
            }
        }
        if let Some(certificate) = key.certificate()
            && let Some(options) = self.trusted_authority(key, certificate)
        {
            return Some(options.into());
        }
        self.ask_for_keys(key)
    }

    /// Searches the output of `AuthorizedKeysCommand`.
    fn ask_for_keys(&self, key: &PublicKey) -> Option<Found> {
        let Self { client, lookups, settings, user } = *self;
        let command = settings.authorized_keys_command.0.as_deref()?;
        let tokens = client
            .tokens(user)
            .with('t', key.key_type())
            .with('f', fingerprint(settings, key))
            .with('k', key.to_base64());
        let external = External {
            keyword: "AuthorizedKeysCommand",
            command,
            user: settings.authorized_keys_command_user.as_deref(),
            default_argument: Some(&user.name),
            tokens: &tokens,
            deadline: client.deadline,
        };
        match external.run() {
            Ok(text) => {
                let selector = Selector::new(listed_key(key));
                let lines = lines_of_text(&text, |line| selector.selects(line));
                self.search(key, lines, &external.path())
            }
            Err(problem) => {
                error!(client.log, "{problem}");
                lookups.set_doubt();
                None
            }
        }
    }

    /// Searches numbered lines of an `authorized_keys` file for a key, or for the authority of a certificate.
    fn search<'b>(
        &self,
        key: &PublicKey,
        lines: impl Iterator<Item = (usize, &'b str)>,
        file: &str,
    ) -> Option<Found> {
        let Self { client, settings, .. } = *self;
        let certificate = key.certificate();
        let kind = if certificate.is_some() { "CA" } else { "key" };
        let wanted = listed_key(key);
        for (number, line) in lines {
            let place = format!("{file}:{number}");
            let options = match authorized_keys::entry(line, wanted, certificate.is_some()) {
                None => continue,
                Some(Line::Entry(entry)) => entry.options,
                Some(Line::BadOptions(why)) => {
                    debug!(client.log, "{place}: bad key options: {why}");
                    continue;
                }
                Some(Line::Blank | Line::Malformed) => continue,
            };
            debug!(client.log, "{place}: matching {kind} found: {}", describe(settings, wanted));
            if !self.permitted(&options, &place, true) {
                error!(client.log, "Refused by key options");
                continue;
            }
            let Some(certificate) = certificate else {
                verbose!(client.log, "Accepted key {} found at {place}", describe(settings, key));
                return Some(Found { options, place: Some(place) });
            };
            match self.certificate_of_line(certificate, &options, &place) {
                Ok(options) => {
                    let (id, serial) = (certificate.key_id(), certificate.serial());
                    let authority = describe(settings, wanted);
                    verbose!(
                        client.log,
                        "Accepted certificate ID \"{id}\" (serial {serial}) signed by CA {authority} found at {place}"
                    );
                    return Some(options.into());
                }
                Err(why) => error!(client.log, "{why}"),
            }
        }
        None
    }
}
