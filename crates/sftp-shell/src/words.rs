//! The words of a line, with `sftp`'s quoting.
//!
//! Words come out as patterns: a character of a pattern that was quoted carries a backslash, so that `"a*"`
//! is the file with a star in its name and `a*` is a pattern. [`unescape`] makes a plain name of a word.

/// A quote is not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Unterminated quoted argument")]
pub struct Unterminated;

/// A word and its position, for completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word as a pattern.
    pub pattern: Vec<u8>,
    /// Start in the line, quotes included.
    pub start: usize,
    /// The quote it is still inside of at its end.
    pub open_quote: Option<u8>,
}

/// Characters of patterns that are escaped when they were quoted.
const fn is_magic(byte: u8) -> bool {
    matches!(byte, b'?' | b'*' | b'[')
}

/// Splits a line into words, up to a `#` outside of quotes.
///
/// # Errors
/// A quote is not closed.
pub fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, Unterminated> {
    let words = split_open(line);
    if words.last().is_some_and(|word| word.open_quote.is_some()) {
        return Err(Unterminated);
    }
    Ok(words.into_iter().map(|word| word.pattern).collect())
}

/// Splits what has been typed so far; the last word may be inside of a quote.
pub fn split_open(line: &[u8]) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut inside = false;
    let mut quote = None;
    let mut at = 0;
    while let Some(&byte) = line.get(at) {
        let next = line.get(at + 1).copied();
        let start = at;
        at += 1;
        if quote.is_none() && byte.is_ascii_whitespace() {
            inside = false;
            continue;
        }
        if quote.is_none() && byte == b'#' {
            break;
        }
        if !inside {
            words.push(Word { pattern: Vec::new(), start, open_quote: None });
            inside = true;
        }
        let Some(word) = words.last_mut() else { break };
        match (byte, quote) {
            (b'"' | b'\'', None) => quote = Some(byte),
            (byte, Some(open)) if byte == open => quote = None,
            (b'\\', _) => {
                // A backslash at the end of the line is dropped.
                let Some(guarded) = next else { continue };
                at += 1;
                escape(&mut word.pattern, guarded, quote);
            }
            (byte, Some(_)) if is_magic(byte) => word.pattern.extend([b'\\', byte]),
            (byte, _) => word.pattern.push(byte),
        }
        word.open_quote = quote;
    }
    words
}

/// Appends `guarded`, which follows a backslash.
fn escape(pattern: &mut Vec<u8>, guarded: u8, quote: Option<u8>) {
    match quote {
        Some(quote) if guarded == quote => pattern.push(guarded),
        // In quotes, characters of patterns are literal: the backslash stands for itself.
        Some(_) if is_magic(guarded) => pattern.extend([b'\\', b'\\', b'\\', guarded]),
        Some(_) => pattern.extend([b'\\', guarded]),
        None if is_magic(guarded) || guarded == b'\\' => pattern.extend([b'\\', guarded]),
        None => pattern.push(guarded),
    }
}

/// Returns the name that a word without pattern characters stands for.
pub fn unescape(pattern: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(pattern.len());
    let mut bytes = pattern.iter();
    while let Some(&byte) = bytes.next() {
        out.push(if byte == b'\\' { bytes.next().copied().unwrap_or(b'\\') } else { byte });
    }
    out
}

/// Returns the pattern that matches only `name`.
pub fn escaped(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for &byte in name {
        if is_magic(byte) || matches!(byte, b'\\' | b']') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}

/// Returns `name` with the escapes that it needs inside `quote`, or outside quotes.
pub fn typed(name: &str, quote: Option<u8>) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars() {
        let guard = match quote {
            Some(quote) => character == char::from(quote) || character == '\\',
            None => matches!(character, '\'' | '"' | '\\' | '\t' | '[' | ' ' | '#' | '*' | '?'),
        };
        if guard {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line.as_bytes()).unwrap().into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn quotes_and_backslashes_are_sftp_s() {
        for (line, expected) in [
            ("get a  b\t c", &["get", "a", "b", "c"][..]),
            ("put 'a b' \"c d\"", &["put", "a b", "c d"]),
            ("x a\\ b", &["x", "a b"]),
            ("x a\"b c\"d", &["x", "ab cd"]),
            ("x 'a\"b' \"a'b\"", &["x", "a\"b", "a'b"]),
            ("x \"a\\\"b\"", &["x", "a\"b"]),
            ("x '*' * \\*", &["x", "\\*", "*", "\\*"]),
            ("x \"a\\b\"", &["x", "a\\b"]),
            ("x 'a\\\\'", &["x", "a\\\\"]),
            ("x \"a\\*\"", &["x", "a\\\\\\*"]),
            ("x a # comment", &["x", "a"]),
            ("x 'a#b' a\\#b", &["x", "a#b", "a#b"]),
            ("x ''", &["x", ""]),
            ("x a\\", &["x", "a"]),
        ] {
            assert_eq!(words(line), expected, "{line}");
        }
        assert_eq!(split(b"x 'a"), Err(Unterminated));
        assert_eq!(split(b"x \"a'"), Err(Unterminated));
    }

    #[test]
    fn an_open_word_says_where_it_starts() {
        let words = split_open(b"get \"my fi");
        assert_eq!(words[1], Word { pattern: b"my fi".to_vec(), start: 4, open_quote: Some(b'"') });
    }

    proptest! {
        #[test]
        fn a_typed_name_is_read_back(
            name in "[a-z '\"\\\\#*?\\[\\]\u{e4}]{1,12}",
            quote in prop_oneof![Just(None), Just(Some(b'\''))],
        ) {
            let text = typed(&name, quote);
            let line = match quote {
                Some(quote) => format!("get {0}{text}{0}", char::from(quote)),
                None => format!("get {text}"),
            };
            let words = split(line.as_bytes()).unwrap();
            prop_assert_eq!(words.len(), 2);
            prop_assert_eq!(unescape(&words[1]), name.as_bytes());
        }

        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = split(&line);
        }

        #[test]
        fn an_escaped_name_is_itself(name in proptest::collection::vec(any::<u8>(), 0..20)) {
            prop_assert_eq!(unescape(&escaped(&name)), name);
        }
    }
}
