//! Finds keys in `authorized_keys` files.

use lh_crypto::PublicKey;

use crate::key_options::{KeyOptions, OptionError, options_end};

/// Longest line that is read, bytes; longer ones are skipped, as in OpenSSH. It fits 8 KiB of key and as much
/// of options.
const MAX_LINE: usize = 16 * 1024;

/// A line with a key that may be used.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The options before the key.
    pub options: KeyOptions,
    /// The key.
    pub key: PublicKey,
    /// The comment after the key.
    pub comment: String,
}

/// The kinds of lines in an `authorized_keys` file.
#[derive(Debug)]
pub enum Line {
    /// A blank line or a comment.
    Blank,
    /// A key.
    Entry(Box<Entry>),
    /// A key whose options are wrong: it must not be used, and the error belongs in the log.
    BadOptions(OptionError),
    /// Neither blank, nor a comment, nor a key.
    Malformed,
}

/// Parses one line.
pub fn parse_line(line: &str) -> Line {
    let line = line.trim_start_matches([' ', '\t']).trim_end_matches(['\r', '\n']);
    if line.is_empty() || line.starts_with('#') {
        return Line::Blank;
    }
    if line.len() > MAX_LINE {
        return Line::Malformed;
    }
    if let Some((key, comment)) = PublicKey::from_openssh_line(line) {
        return Line::Entry(Box::new(Entry { options: KeyOptions::default(), key, comment }));
    }
    let (options, rest) = line.split_at(options_end(line));
    let Some((key, comment)) = PublicKey::from_openssh_line(rest.trim_start_matches([' ', '\t'])) else {
        return Line::Malformed;
    };
    match KeyOptions::parse(options) {
        Ok(options) => Line::Entry(Box::new(Entry { options, key, comment })),
        Err(error) => Line::BadOptions(error),
    }
}

/// Returns the entries of a file that hold `key`, with their line numbers (from 1). `authority` selects
/// `cert-authority` lines or all others: a plain key never matches an authority's line, nor an authority a
/// plain one.
pub fn find<'a>(
    text: &'a str,
    key: &'a PublicKey,
    authority: bool,
) -> impl Iterator<Item = (usize, Line)> + use<'a> {
    let kind = key.key_type();
    text.lines().enumerate().filter_map(move |(number, line)| {
        // The cheap comparison first: few keys of a long file have the right type, and parsing all is slow.
        if !line.contains(kind) {
            return None;
        }
        match parse_line(line) {
            Line::Entry(entry) if entry.key == *key && entry.options.cert_authority == authority => {
                Some((number + 1, Line::Entry(entry)))
            }
            // Report a broken option only where its key would have matched.
            Line::BadOptions(error) if line_key(line).is_some_and(|found| found == *key) => {
                Some((number + 1, Line::BadOptions(error)))
            }
            _ => None,
        }
    })
}

/// Returns the key of a line, skipping its options without parsing them.
pub(crate) fn line_key(line: &str) -> Option<PublicKey> {
    let line = line.trim_start_matches([' ', '\t']);
    let (_, rest) = line.split_at(options_end(line));
    PublicKey::from_openssh_line(rest.trim_start_matches([' ', '\t'])).map(|(key, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_crypto::{KeyType, PrivateKey};
    use proptest::prelude::*;

    fn key() -> PublicKey {
        PrivateKey::generate(KeyType::Ed25519, None).unwrap().public().clone()
    }

    #[test]
    fn keys_are_found_with_their_options() {
        let (mine, other) = (key(), key());
        let text = format!(
            "# comment\n\n{}\n  no-pty,command=\"a b\" {}\ncert-authority {}\nnopty {}\n",
            other.to_openssh_line("other"),
            mine.to_openssh_line("mine too"),
            mine.to_openssh_line("ca"),
            mine.to_openssh_line("broken"),
        );
        let found: Vec<_> = find(&text, &mine, false).collect();
        let [(4, Line::Entry(entry)), (6, Line::BadOptions(OptionError::Unknown))] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(!entry.options.pty);
        assert_eq!((entry.options.command.as_deref(), entry.comment.as_str()), (Some("a b"), "mine too"));
        assert_eq!(find(&text, &key(), false).count(), 0);
        let found: Vec<_> = find(&text, &mine, true).map(|(number, _)| number).collect();
        assert_eq!(found, [5, 6]);
    }

    #[test]
    fn other_lines() {
        assert!(matches!(parse_line("   # x"), Line::Blank));
        assert!(matches!(parse_line("\t\r\n"), Line::Blank));
        assert!(matches!(parse_line("ssh-ed25519"), Line::Malformed));
        assert!(matches!(parse_line("ssh-ed25519 AAAA"), Line::Malformed));
        assert!(matches!(parse_line(&"x".repeat(20_000)), Line::Malformed));
    }

    proptest! {
        #[test]
        fn any_line_is_answered(line in "\\PC{0,300}") {
            parse_line(&line);
        }
    }
}
