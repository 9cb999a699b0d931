//! Finds keys in `authorized_keys` files.

use lh_crypto::PublicKey;

use crate::bounded_lines::MAX_LINE;
use crate::key_options::{KeyOptions, OptionError, options_end};

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

/// Selects the lines that may hold one key, without parsing them.
pub(crate) struct Selector(String);

impl Selector {
    pub(crate) fn new(key: &PublicKey) -> Self {
        // The last group differs with the padding, so it is left out.
        let mut encoded = key.to_base64();
        encoded.truncate(key.blob().len() / 3 * 4);
        Self(encoded)
    }

    /// Returns whether a line may hold the key.
    pub(crate) fn selects(&self, line: &str) -> bool {
        line.contains(&self.0)
    }
}

/// Returns the entry of a line, if it holds `key`. `authority` selects `cert-authority` lines or all others:
/// a plain key never matches an authority's line, nor an authority a plain one.
pub(crate) fn entry(line: &str, key: &PublicKey, authority: bool) -> Option<Line> {
    match parse_line(line) {
        Line::Entry(entry) if entry.key == *key && entry.options.cert_authority == authority => {
            Some(Line::Entry(entry))
        }
        // Report a broken option only where its key would have matched.
        Line::BadOptions(error) if line_key(line).is_some_and(|found| found == *key) => {
            Some(Line::BadOptions(error))
        }
        _ => None,
    }
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
    use crate::bounded_lines::{MOST_SELECTED, lines_of_text, selected_lines};
    use lh_crypto::{KeyType, PrivateKey};
    use proptest::prelude::*;

    fn key() -> PublicKey {
        PrivateKey::generate(KeyType::Ed25519, None).unwrap().public().clone()
    }

    /// The entries of a text that hold `key`.
    fn find(text: &str, key: &PublicKey, authority: bool) -> Vec<(usize, Line)> {
        let selector = Selector::new(key);
        lines_of_text(text, |line| selector.selects(line))
            .filter_map(|(number, line)| Some((number, entry(line, key, authority)?)))
            .collect()
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
        let found = find(&text, &mine, false);
        let [(4, Line::Entry(entry)), (6, Line::BadOptions(OptionError::Unknown))] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(!entry.options.pty);
        assert_eq!((entry.options.command.as_deref(), entry.comment.as_str()), (Some("a b"), "mine too"));
        assert_eq!(find(&text, &key(), false).len(), 0);
        let found: Vec<_> = find(&text, &mine, true).into_iter().map(|(number, _)| number).collect();
        assert_eq!(found, [5, 6]);
    }

    #[test]
    fn large_files_are_read_line_by_line() {
        let (mine, other) = (key(), key());
        let line = mine.to_openssh_line("mine");
        let padded = line.split(' ').nth(1).unwrap();
        let bare = padded.trim_end_matches('=');
        let text = format!(
            "{}\n{}{line}\nno-pty ssh-ed25519 {bare}\r\n\n\u{e4} {line}\n{line}",
            other.to_openssh_line("other"),
            "x".repeat(MAX_LINE + 1),
        );
        let selector = Selector::new(&mine);
        let read = |text: &str| selected_lines(text.as_bytes(), |line| selector.selects(line)).unwrap();
        let found = read(&text);
        let numbers: Vec<_> = found.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [3, 5, 6]);
        // The same entries as of a text that is searched as a whole; that of line 5 has a broken option.
        let [(3, Line::Entry(_)), (5, Line::BadOptions(_)), (6, Line::Entry(_))] =
            &find(&text, &mine, false)[..]
        else {
            panic!("{numbers:?}");
        };
        // Ten times as much as is taken.
        let option = format!("from=\"{}\" {line}\n", "192.0.2.1,".repeat(1000));
        let many = option.repeat(10 * MOST_SELECTED / option.len());
        let found = read(&many);
        assert!(found.iter().map(|(_, line)| line.len()).sum::<usize>() <= MOST_SELECTED);
        assert!(found.len() > 50);
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
