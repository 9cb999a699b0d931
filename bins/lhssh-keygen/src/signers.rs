//! `allowed_signers` files: lists of principals and the keys that may sign for them.
//!
//! A line consists of principals (patterns separated by commas), options and a key. An invalid line is
//! reported and skipped.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use lh_client::sanitise;
use lh_config::pattern::{ListMatch, match_list, wildcard};
use lh_crypto::{Certificate, CertificateError, CertificateKind, PublicKey};
use lh_sys::errno_text;

use crate::console::{shown, warn};
use crate::error::SignerOptionsError;
use crate::times;

/// Upper limit of a list, bytes.
const MAX_FILE: u64 = 64 << 20;

/// Options of a line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    authority: bool,
    namespaces: Option<String>,
    valid_after: Option<u64>,
    valid_before: Option<u64>,
}

/// A valid line.
struct Line {
    /// `file:line`, for messages.
    position: String,
    principals: String,
    options: Options,
    key: PublicKey,
}

/// An allowed_signers list.
pub(crate) struct Signers {
    name: String,
    text: String,
}

impl Signers {
    /// Reads a list; reports an error and returns `None` on failure.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let mut bytes = Vec::new();
        let read = fs::File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes));
        if let Err(why) = read {
            warn(&format!("Unable to open allowed keys file \"{}\": {}", shown(path), errno_text(&why)));
            return None;
        }
        Some(Self { name: shown(path), text: String::from_utf8_lossy(&bytes).into_owned() })
    }

    /// Returns whether `principal` may sign in this namespace with this key or certificate at that time.
    pub(crate) fn allow(&self, key: &PublicKey, principal: &str, namespace: &str, time: u64) -> bool {
        self.lines(Some(principal)).any(|line| {
            if line.is_authority_of(key) {
                let authorised = key.certificate().map(|cert| check(cert, Some(principal), time));
                if let Some(Err(why)) = authorised {
                    warn(&format!(
                        "{}: certificate not authorized: {}",
                        line.position,
                        sanitise(&why.to_string())
                    ));
                    return false;
                }
            } else if line.options.authority || line.key != *key {
                return false;
            }
            if let Some(allowed) = &line.options.namespaces
                && match_list(namespace, allowed, false) != ListMatch::Yes
            {
                warn(&format!(
                    "{}: key is not permitted for use in signature namespace \"{}\"",
                    line.position,
                    sanitise(namespace)
                ));
                return false;
            }
            line.is_in_time(time)
        })
    }

    /// Principals of the first line for this key: the line's own, or, for a certificate of an authority,
    /// those of the certificate that the line permits.
    pub(crate) fn find(&self, key: &PublicKey, time: u64) -> Option<Vec<String>> {
        self.lines(None).find_map(|line| {
            let split = |list: &str| list.split(',').map(str::to_owned).collect::<Vec<_>>();
            let principals = match key.certificate() {
                Some(certificate) if line.is_authority_of(key) => {
                    let found = certified(certificate, &split(&line.principals), time);
                    if found.is_empty() {
                        warn(&format!("{}: no valid principals found", line.position));
                        return None;
                    }
                    found
                }
                _ if !line.options.authority && line.key == *key => split(&line.principals),
                _ => return None,
            };
            line.is_in_time(time).then_some(principals)
        })
    }

    /// Principals fields that match a name, for any key; `None` when one of these lines is invalid.
    pub(crate) fn matching(&self, principal: &str) -> Option<Vec<String>> {
        self.parsed(Some(principal)).map(|line| line.map(|line| line.principals)).collect()
    }

    /// Number, principals and remainder of each line.
    fn fields(&self) -> impl Iterator<Item = (usize, String, &str)> {
        (1..).zip(self.text.lines()).filter_map(|(number, line)| {
            let line = line.trim_matches([' ', '\t', '\r']);
            if line.is_empty() || line.starts_with('#') {
                return None;
            }
            let (principals, rest) = match line.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => line.split_once([' ', '\t']).unwrap_or((line, "")),
            };
            Some((number, principals.to_owned(), rest.trim_start_matches([' ', '\t'])))
        })
    }

    /// Valid lines, of one principal or of all.
    fn lines(&self, principal: Option<&str>) -> impl Iterator<Item = Line> {
        self.parsed(principal).flatten()
    }

    /// Like [`lines`](Self::lines), with `None` for each invalid line, which has been reported.
    fn parsed(&self, principal: Option<&str>) -> impl Iterator<Item = Option<Line>> {
        self.fields().filter_map(move |(number, principals, rest)| {
            if principal.is_some_and(|name| match_list(name, &principals, false) != ListMatch::Yes) {
                return None;
            }
            let position = format!("{}:{number}", self.name);
            if let Some((key, _)) = PublicKey::from_openssh_line(rest) {
                return Some(Some(Line { position, principals, options: Options::default(), key }));
            }
            let (options, rest) = rest.split_at(end_of_options(rest));
            let Some((key, _)) = PublicKey::from_openssh_line(rest) else {
                let what = if rest.trim().is_empty() { "missing" } else { "invalid" };
                warn(&format!("{position}: {what} key"));
                return Some(None);
            };
            match Options::parse(options) {
                Ok(options) => Some(Some(Line { position, principals, options, key })),
                Err(why) => {
                    warn(&format!("{position}: bad options: {why}"));
                    Some(None)
                }
            }
        })
    }
}

impl Line {
    /// Returns whether the line's key is an authority that certified this key.
    fn is_authority_of(&self, key: &PublicKey) -> bool {
        self.options.authority
            && key.certificate().is_some_and(|certificate| *certificate.authority() == self.key)
    }

    fn is_in_time(&self, time: u64) -> bool {
        let shown = times::show;
        if let Some(after) = self.options.valid_after.filter(|after| time < *after) {
            let (time, after) = (shown(time), shown(after));
            warn(&format!(
                "{}: key is not yet valid: verify time {time} < valid-after {after}",
                self.position
            ));
            return false;
        }
        if let Some(before) = self.options.valid_before.filter(|before| time > *before) {
            let (time, before) = (shown(time), shown(before));
            warn(&format!("{}: key has expired: verify time {time} > valid-before {before}", self.position));
            return false;
        }
        true
    }
}

/// Checks that a certificate is a user's, currently valid, and for this principal.
fn check(certificate: &Certificate, principal: Option<&str>, time: u64) -> Result<(), CertificateError> {
    // Restrictions of a session do not apply to signatures, so all critical options are accepted.
    let options: Vec<&str> = certificate.critical_options().iter().map(|(name, _)| name.as_str()).collect();
    let any_principal = certificate.principals().first().map_or("", String::as_str);
    let name = principal.unwrap_or(any_principal);
    certificate.check(CertificateKind::User, name, time, &options)
}

/// Principals of a certificate that match one of the patterns, if the certificate is valid.
fn certified(certificate: &Certificate, patterns: &[String], time: u64) -> Vec<String> {
    if check(certificate, None, time).is_err() {
        return Vec::new();
    }
    let named = |pattern: &String| {
        let names = certificate.principals().iter();
        names.filter(|name| wildcard(name.as_bytes(), pattern.as_bytes())).cloned().collect::<Vec<_>>()
    };
    patterns.iter().flat_map(named).collect()
}

impl Options {
    fn parse(text: &str) -> Result<Self, SignerOptionsError> {
        let mut options = Self::default();
        let mut rest = text.trim_matches([' ', '\t']);
        loop {
            let (name, after) = rest.split_at(rest.find(['=', ',']).unwrap_or(rest.len()));
            let name = name.to_ascii_lowercase();
            let mut value = None;
            rest = after;
            if let Some(quoted) = after.strip_prefix('=') {
                let (unquoted, after) = unquote(quoted)?;
                value = Some(unquoted);
                rest = after;
            }
            let once = |set: bool| if set { Err(SignerOptionsError::Repeated(name.clone())) } else { Ok(()) };
            let time = |value: String| {
                times::parse_absolute(&value).ok_or_else(|| SignerOptionsError::Time(name.clone()))
            };
            match (name.as_str(), value) {
                ("cert-authority", None) => options.authority = true,
                ("namespaces", Some(list)) => {
                    once(options.namespaces.is_some())?;
                    options.namespaces = Some(list);
                }
                ("valid-after", Some(value)) => {
                    once(options.valid_after.is_some())?;
                    options.valid_after = Some(time(value)?);
                }
                ("valid-before", Some(value)) => {
                    once(options.valid_before.is_some())?;
                    options.valid_before = Some(time(value)?);
                }
                _ => return Err(SignerOptionsError::Unknown),
            }
            match rest.strip_prefix(',') {
                Some("") => return Err(SignerOptionsError::End),
                Some(more) => rest = more,
                None if rest.is_empty() => break,
                None => return Err(SignerOptionsError::Unknown),
            }
        }
        match (options.valid_after, options.valid_before) {
            (Some(after), Some(before)) if before <= after => Err(SignerOptionsError::Backwards),
            _ => Ok(options),
        }
    }
}

/// Contents of a double-quoted string, with `\"` for a quote in it, and the text after it.
fn unquote(text: &str) -> Result<(String, &str), SignerOptionsError> {
    let inner = text.strip_prefix('"').ok_or(SignerOptionsError::NoStartQuote)?;
    let mut out = String::new();
    let mut chars = inner.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((out, &inner[at + 1..])),
            '\\' if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                chars.next();
                out.push('"');
            }
            c => out.push(c),
        }
    }
    Err(SignerOptionsError::NoEndQuote)
}

/// End of the options: the first blank outside of quotes.
fn end_of_options(text: &str) -> usize {
    let mut quoted = false;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => quoted = !quoted,
            ' ' | '\t' if !quoted => return at,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// Reads a list and asks about keys in it.
#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    let signers = Signers { name: "list".to_owned(), text: String::from_utf8_lossy(bytes).into_owned() };
    const TIME: u64 = 1_800_000_000;
    let all: Vec<Line> = signers.lines(None).collect();
    for line in &all {
        let principals = signers.find(&line.key, TIME);
        // The line itself lets each of its principals sign that is no pattern, unless another limit holds.
        let unlimited = line.options == Options::default();
        for principal in line.principals.split(',').filter(|name| !name.contains(['*', '?', '!'])) {
            let listed = match_list(principal, &line.principals, false) == ListMatch::Yes;
            let may = signers.allow(&line.key, principal, "file", TIME);
            assert!(may || !(unlimited && listed), "{principal:?}");
        }
        assert!(principals.is_some() || !unlimited);
        // Nobody signs by a name that no line has.
        if all.iter().all(|line| match_list("\u{1}nobody", &line.principals, false) != ListMatch::Yes) {
            assert!(!signers.allow(&line.key, "\u{1}nobody", "file", TIME));
        }
    }
    let _ = signers.matching("ada");
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_crypto::{KeyType, PrivateKey};
    use proptest::prelude::*;

    fn signers(text: &str) -> Signers {
        Signers { name: "list".into(), text: text.into() }
    }

    #[test]
    fn invalid_options_are_refused() {
        let options =
            Options::parse("cert-authority,namespaces=\"a,\\\"b\",valid-after=\"19700102Z\"").expect("good");
        assert_eq!(
            options,
            Options {
                authority: true,
                namespaces: Some("a,\"b".into()),
                valid_after: Some(86_400),
                valid_before: None
            }
        );
        for text in [
            "octopus",
            "cert-authority=\"x\"",
            "namespaces",
            "namespaces=a",
            "namespaces=\"a",
            "cert-authority,",
            "cert-authority x",
            "namespaces=\"a\"b",
            "valid-before=\"x\"",
            "namespaces=\"a\",namespaces=\"b\"",
            "valid-after=\"19700103Z\",valid-before=\"19700102Z\"",
            "",
        ] {
            assert!(Options::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn line_matches_key_principal_namespace_and_time() {
        let key = PrivateKey::generate(KeyType::Ed25519, None).expect("a key").public().clone();
        let line = key.to_openssh_line("");
        let list = signers(&format!(
            "# note\n\nme,*@x,!bad@x namespaces=\"file,g*\",valid-after=\"19700102Z\" {line} note\n\
             \"other one\" {line}\n"
        ));
        assert!(list.allow(&key, "me", "file", 100_000));
        assert!(list.allow(&key, "you@x", "git", 100_000));
        assert!(list.allow(&key, "other one", "whatever", 0));
        assert!(!list.allow(&key, "bad@x", "file", 100_000));
        assert!(!list.allow(&key, "me", "other", 100_000));
        assert!(!list.allow(&key, "me", "file", 0));
        assert_eq!(list.find(&key, 100_000).expect("found"), ["me", "*@x", "!bad@x"]);
        assert_eq!(list.find(&key, 0).expect("found"), ["other one"]);
        assert_eq!(list.matching("me"), Some(vec!["me,*@x,!bad@x".to_owned()]));
        assert_eq!(list.matching("nobody"), Some(Vec::new()));
        let authority = signers(&format!("me cert-authority {line}\n"));
        assert!(!authority.allow(&key, "me", "file", 0), "an authority's own signature must not count");
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "([a-z*!, ]|\"|\\\\|=|\n|cert-authority|namespaces|valid-after|ssh-ed25519 |\\PC){0,30}") {
            let list = signers(&text);
            let _ = list.matching("a");
            let _ = list.lines(None).count();
            let _ = Options::parse(&text);
        }
    }
}
