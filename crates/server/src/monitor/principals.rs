//! Principals that may log in as a user: lines of `AuthorizedPrincipalsFile`, or of
//! `AuthorizedPrincipalsCommand`'s output.

use lh_crypto::Certificate;

use crate::key_options::{KeyOptions, OptionError, options_end};

/// Longest line that is read, bytes; longer ones are skipped, as in `authorized_keys`.
const MAX_LINE: usize = 16 * 1024;

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

/// Returns the lines of `text` that name a principal of the certificate, with their numbers (from 1). A line
/// with invalid options is an `Err`.
pub(super) fn find<'a>(
    text: &'a str,
    certificate: &'a Certificate,
) -> impl Iterator<Item = (usize, Result<Match, BadOptions>)> + 'a {
    text.lines().enumerate().filter_map(move |(number, line)| {
        let (options, principal) = split(line)?;
        let principal = certificate.principals().iter().find(|listed| *listed == principal)?;
        let found = match KeyOptions::parse(options) {
            Ok(options) => Ok(Match { principal: principal.clone(), options }),
            Err(problem) => Err(BadOptions(problem)),
        };
        Some((number + 1, found))
    })
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
