//! Braces in the patterns of `ls`: `{a,b}*` stands for `a*` and `b*`. No other command of `sftp` knows them.
//!
//! They mean what they mean to OpenSSH's `sftp`: quotes do not guard them, and a brace that is not closed
//! ends the pattern.

/// Alternatives of one pattern at most: `{a,b}{a,b}…` grows with every pair of braces.
const MOST: usize = 4096;

/// Returns the alternatives of a pattern, in their order; `None` when there are too many.
pub(crate) fn expand(pattern: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut done = Vec::new();
    let mut todo = vec![pattern.to_vec()];
    while let Some(pattern) = todo.pop() {
        if done.len() + todo.len() > MOST {
            return None;
        }
        let Some(open) = find(&pattern, 0, b'{') else {
            done.push(pattern);
            continue;
        };
        let Some((choices, end)) = choices(&pattern, open) else {
            done.push(pattern[..open].to_vec());
            continue;
        };
        for choice in choices.into_iter().rev() {
            todo.push([&pattern[..open], choice, &pattern[end..]].concat());
        }
    }
    Some(done)
}

/// The position of the first `wanted` from `at` on that no backslash guards.
fn find(pattern: &[u8], mut at: usize, wanted: u8) -> Option<usize> {
    loop {
        match pattern.get(at)? {
            b'\\' => at += 2,
            byte if *byte == wanted => return Some(at),
            _ => at += 1,
        }
    }
}

/// Returns the alternatives between the brace at `open` and its closing brace, which commas separate, and the
/// position after the closing brace. `None` if no brace closes it.
fn choices(pattern: &[u8], open: usize) -> Option<(Vec<&[u8]>, usize)> {
    let (mut choices, mut depth) = (Vec::new(), 0_usize);
    let (mut at, mut begin) = (open + 1, open + 1);
    loop {
        match pattern.get(at)? {
            b'\\' => at += 1,
            // Braces and commas in a set are part of it.
            b'[' => at = find(pattern, at + 1, b']').unwrap_or(at),
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            byte @ (b',' | b'}') if depth == 0 => {
                choices.push(&pattern[begin..at]);
                begin = at + 1;
                if *byte == b'}' {
                    return Some((choices, begin));
                }
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn alternatives_are_openssh_s() {
        for (pattern, expected) in [
            ("a*", &["a*"][..]),
            ("{b,a}*", &["b*", "a*"]),
            ("x{a{1,2},b}y", &["xa1y", "xa2y", "xby"]),
            ("{a,}1{c,d}", &["a1c", "a1d", "1c", "1d"]),
            ("{a}", &["a"]),
            ("{}*", &["*"]),
            ("a}", &["a}"]),
            ("dir/{a,b", &["dir/"]),
            ("{[},],b}", &["[},]", "b"]),
            ("\\{a,b}", &["\\{a,b}"]),
        ] {
            let found = expand(pattern.as_bytes()).unwrap();
            let found: Vec<_> = found.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
            assert_eq!(found, expected, "{pattern}");
        }
        assert_eq!(expand("{a,b}".repeat(13).as_bytes()), None);
    }

    proptest! {
        #[test]
        fn expansion_ends(pattern in "[a{},\\\\\\[\\]]{0,24}") {
            let _ = expand(pattern.as_bytes());
        }
    }
}
