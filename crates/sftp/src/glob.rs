//! Patterns in paths. SFTP has none: the client lists and matches, unless the server offers
//! [`LIST_DIR`](crate::extension::LIST_DIR).

/// Returns true if `path` contains `*`, `?` or `[` without a backslash before it.
pub fn has_magic(path: &[u8]) -> bool {
    let mut bytes = path.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'*' | b'?' | b'[' => return true,
            _ => {}
        }
    }
    false
}

/// Removes the backslashes of a pattern without wildcards: the result is the path that it means.
pub fn unescape(pattern: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(pattern.len());
    let mut bytes = pattern.iter();
    while let Some(&byte) = bytes.next() {
        out.push(if byte == b'\\' { bytes.next().copied().unwrap_or(b'\\') } else { byte });
    }
    out
}

/// Matches one path component, as fnmatch(3) does with `FNM_PERIOD`: a wildcard does not match a leading dot.
///
/// `*`, `?`, `[a-z]`, `[!x]`, `[^x]`, `[[:alpha:]]`, and backslash. Takes time proportional to the product of
/// both lengths at most: a star is tried again, never nested.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && !pattern.starts_with(b".") && !pattern.starts_with(b"\\.") {
        return false;
    }
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let matched = match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n));
                p += 1;
                continue;
            }
            None if n == name.len() => return true,
            None => None,
            Some(_) => name.get(n).and_then(|&byte| match_one(&pattern[p..], byte)),
        };
        match (matched, retry) {
            (Some(used), _) => {
                p += used;
                n += 1;
            }
            (None, Some((after_star, at))) if at < name.len() => {
                retry = Some((after_star, at + 1));
                p = after_star;
                n = at + 1;
            }
            (None, _) => return false,
        }
    }
}

/// Returns the length of the part of the pattern that matches `byte`, or `None` if `byte` does not match.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', ..] => match_set(pattern, byte),
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

/// Whether a byte is in a class of characters.
type Class = fn(&u8) -> bool;

/// Returns the character class at `at` (`[:alpha:]`), and the position after it.
fn class(pattern: &[u8], at: usize) -> Option<(Class, usize)> {
    let name = pattern.get(at..)?.strip_prefix(b"[:")?;
    let len = name.windows(2).position(|end| end == b":]")?;
    let class: Class = match &name[..len] {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    };
    Some((class, at + 2 + len + 2))
}

fn match_set(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let first = 1 + usize::from(negated);
    let mut at = first;
    let mut found = false;
    loop {
        let mut low = *match pattern.get(at) {
            // A bracket without a closing one stands for itself.
            None => return (byte == b'[').then_some(1),
            Some(b']') if at > first => break,
            Some(low) => low,
        };
        if let Some((class, after)) = class(pattern, at) {
            found |= class(&byte);
            at = after;
            continue;
        }
        if low == b'\\' {
            at += 1;
            low = *pattern.get(at)?;
        }
        at += 1;
        let mut high = low;
        if let (Some(b'-'), Some(&end)) = (pattern.get(at), pattern.get(at + 1))
            && end != b']'
        {
            at += 2;
            high = end;
            if end == b'\\' {
                high = *pattern.get(at)?;
                at += 1;
            }
        }
        found |= (low..=high).contains(&byte);
    }
    (found != negated).then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*", "a", true),
            ("*", "", true),
            ("*", ".a", false),
            (".*", ".a", true),
            ("*.txt", "a.txt", true),
            ("*.txt", "a.txt~", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]]", "]", true),
            ("[a", "[a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("[a\\]]", "]", true),
            ("[a-]", "-", true),
            ("file[0-9][0-9]", "file42", true),
            ("[[:alpha:]]1", "b1", true),
            ("[[:alpha:]]1", "11", false),
            ("[![:digit:]x]", "y", true),
            ("[_[:upper:][:digit:]]", "_", true),
            ("[_[:upper:][:digit:]]", "a", false),
            ("[[:nosuch:]]", "n]", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn magic_is_only_what_is_not_guarded() {
        assert!(has_magic(b"a*"));
        assert!(!has_magic(b"a\\*"));
        assert_eq!(unescape(b"a\\*b\\"), b"a*b\\");
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = b"a*".repeat(60);
        assert!(!matches(&[&pattern[..], b"b"].concat(), &b"a".repeat(5_000)));
    }

    proptest! {
        #[test]
        fn a_name_matches_itself_when_escaped(name in proptest::collection::vec(1_u8..=255, 0..20)) {
            let escaped: Vec<u8> = name.iter().flat_map(|&byte| [b'\\', byte]).collect();
            prop_assert!(matches(&escaped, &name));
        }

        #[test]
        fn any_pattern_ends(pattern in "[a*?\\[\\]\\-\\\\!]{0,12}", name in "[a\\[\\]\\-]{0,12}") {
            let _ = matches(pattern.as_bytes(), name.as_bytes());
        }
    }
}
