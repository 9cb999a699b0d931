//! Principals that may log in as a user: lines of `AuthorizedPrincipalsFile`, or of
//! `AuthorizedPrincipalsCommand`'s output.

use lh_crypto::Certificate;

use crate::bounded_lines::MAX_LINE;
use crate::key_options::{KeyOptions, OptionError, options_end};

/// A line that names a principal of the certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Match {
    /// The principal that the certificate and the line have in common.
    pub(super) principal: String,
    pub(super) options: KeyOptions,
}

/// The line's options cannot be parsed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad principals options: {0}")]
pub(super) struct BadOptions(OptionError);

/// Returns what a line permits, if it names a principal of the certificate.
pub(super) fn check_line(line: &str, certificate: &Certificate) -> Option<Result<Match, BadOptions>> {
    let (options, principal) = named_principal(line, certificate)?;
    Some(match KeyOptions::parse(options) {
        Ok(options) => Ok(Match { principal: principal.to_owned(), options }),
        Err(problem) => Err(BadOptions(problem)),
    })
}

/// Returns whether a line names a principal of the certificate. Its options may be invalid.
pub(super) fn names_principal(line: &str, certificate: &Certificate) -> bool {
    named_principal(line, certificate).is_some()
}

/// Splits a line that names a principal of the certificate like [`split`].
fn named_principal<'a>(line: &'a str, certificate: &Certificate) -> Option<(&'a str, &'a str)> {
    split(line).filter(|(_, principal)| certificate.principals().iter().any(|listed| listed == principal))
}

/// Splits a line into its options, which may be empty, and the principal after them.
fn split(line: &str) -> Option<(&str, &str)> {
    // A comment may also follow the principal.
    let line = line.split('#').next().unwrap_or_default().trim_matches([' ', '\t', '\r']);
    if line.is_empty() || line.len() > MAX_LINE {
        return None;
    }
    match line.rsplit_once([' ', '\t']) {
        None => Some(("", line)),
        Some((options, principal)) => {
            let options = options.trim_matches([' ', '\t']);
            // Anything else between options and principal makes the line invalid.
            (options_end(options) == options.len()).then_some((options, principal))
        }
    }
}

/// Splits lines into options and principals.
#[cfg(fuzzing)]
pub(super) fn fuzz(bytes: &[u8]) {
    let selected = crate::bounded_lines::selected_lines(bytes, |line| split(line).is_some());
    for (_, line) in selected.expect("memory can be read") {
        let (options, principal) = split(&line).expect("it was selected");
        assert!(!principal.is_empty() && !principal.contains([' ', '\t', '#']), "{principal:?}");
        let _ = KeyOptions::parse(options);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn options_that_cannot_be_read_are_named() {
        let problem = BadOptions(KeyOptions::parse("no-such-option").unwrap_err());
        assert!(problem.to_string().starts_with("bad principals options: "), "{problem}");
    }

    #[test]
    fn lines_with_and_without_options() {
        assert_eq!(split("  ada # the first\r"), Some(("", "ada")));
        assert_eq!(split("no-pty,command=\"a b\"\t ada"), Some(("no-pty,command=\"a b\"", "ada")));
        assert_eq!(split("# ada"), None);
        assert_eq!(split(""), None);
        assert_eq!(split("one two three"), None);
    }

    proptest! {
        #[test]
        fn any_line_is_answered(line in "\\PC{0,200}") {
            split(&line);
        }
    }
}
