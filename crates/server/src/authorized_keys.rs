//! Finding a key in `authorized_keys`.

use lh_crypto::PublicKey;

use crate::key_options::{KeyOptions, OptionError, options_end};

/// Lines longer than this are skipped, as OpenSSH skips them: 8 KiB of key and as much of options.
const MAX_LINE: usize = 16 * 1024;

/// One usable line.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What stands in front of the key.
    pub options: KeyOptions,
    /// The key.
    pub key: PublicKey,
    /// What stands behind it.
    pub comment: String,
}

/// What a line is.
#[derive(Debug)]
pub enum Line {
    /// Empty, or a comment.
    Blank,
    /// A key.
    Entry(Box<Entry>),
    /// A key whose options are wrong: it must not be used, and the administrator wants to know.
    BadOptions(OptionError),
    /// Something else.
    Malformed,
}

/// Reads one line.
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

/// The entries of a file that hold `key`, with their line numbers (from 1): those of certificate authorities when
/// `authority`, the others when not. A plain key never matches an authority's line, nor a certificate's authority a plain one.
pub fn find<'a>(
    text: &'a str,
    key: &'a PublicKey,
    authority: bool,
) -> impl Iterator<Item = (usize, Line)> + use<'a> {
    let kind = key.key_type();
    text.lines().enumerate().filter_map(move |(number, line)| {
        // Cheap before dear: a file may hold ten thousand keys of which few have the right type.
        if !line.contains(kind) {
            return None;
        }
        match parse_line(line) {
            Line::Entry(entry) if entry.key == *key && entry.options.cert_authority == authority => {
                Some((number + 1, Line::Entry(entry)))
            }
            // Only where the key would have matched is its broken option worth a line in the log.
            Line::BadOptions(error) if line_key(line).is_some_and(|found| found == *key) => {
                Some((number + 1, Line::BadOptions(error)))
            }
            _ => None,
        }
    })
}

/// The key of a line with options, which are not looked at.
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
