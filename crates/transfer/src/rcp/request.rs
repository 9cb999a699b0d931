//! Which names a source may send for what was asked of it.
//!
//! The remote shell expands the path, so the source decides what files there are; a source that lies would
//! put its `.bashrc` where `*.txt` was asked for (CVE-2019-6111). So the name of each file is held against
//! the pattern.

use crate::names::base_name;
use lh_sftp::glob;

/// Alternatives of one request at most; `{a,b}{c,d}…` grows with every pair of braces.
const MOST_PATTERNS: usize = 4096;

/// The braces of a pattern stand for too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("could not expand pattern")]
pub struct TooManyAlternatives;

/// Names that the source may send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request(Option<Vec<Vec<u8>>>);

impl Request {
    /// Anything may come (`-T`, and the receiving side of an upload).
    pub const fn anything() -> Self {
        Self(None)
    }

    /// What was asked for by `path`, as it stood on the command line.
    ///
    /// With `recursive`, a path that only a shell could understand (`$DIR`, `~`, quotes) restricts nothing,
    /// as in OpenSSH, where no recursive copy does; what a plain path or pattern says is held against it
    /// here.
    ///
    /// # Errors
    /// Braces that stand for too much.
    pub fn of(path: &[u8], recursive: bool) -> Result<Self, TooManyAlternatives> {
        let base = base_name(path);
        let shell = |byte: &u8| b"$`\"'~\\<>|&;()!#".contains(byte);
        if recursive && (base.iter().any(shell) || matches!(base, b"." | b".." | b"/")) {
            return Ok(Self::anything());
        }
        let patterns = expand_braces(path).ok_or(TooManyAlternatives)?;
        Ok(Self(Some(patterns.iter().map(|pattern| base_name(pattern).to_vec()).collect())))
    }

    /// Returns true if the request covers a file or directory of this name.
    pub fn allows(&self, name: &[u8]) -> bool {
        self.0.as_ref().is_none_or(|patterns| {
            patterns.iter().any(|pattern| pattern == name || glob::matches(pattern, name))
        })
    }
}

/// `a{b,c}d` → `abd`, `acd`, as a shell does it. `None` when it becomes too many.
fn expand_braces(pattern: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut done = Vec::new();
    // Each with the position from which on braces are looked for.
    let mut open = vec![(pattern.to_vec(), 0)];
    while let Some((pattern, from)) = open.pop() {
        if done.len() + open.len() > MOST_PATTERNS || pattern.len() > 64 * 1024 {
            return None;
        }
        match Brace::find(&pattern, from) {
            None => done.push(pattern),
            Some(brace) => {
                let (head, tail) = (&pattern[..brace.start], &pattern[brace.end..]);
                for choice in brace.choices.iter().rev() {
                    open.push(([head, &pattern[choice.clone()], tail].concat(), head.len()));
                }
            }
        }
    }
    Some(done)
}

/// A pair of braces with at least one comma between them.
struct Brace {
    start: usize,
    /// Index after the closing brace.
    end: usize,
    choices: Vec<std::ops::Range<usize>>,
}

impl Brace {
    fn find(pattern: &[u8], from: usize) -> Option<Self> {
        let mut at = from;
        while at < pattern.len() {
            match pattern[at] {
                b'\\' => at += 1,
                b'[' => at = skip_set(pattern, at),
                b'{' => {
                    if let Some(brace) = Self::at(pattern, at) {
                        return Some(brace);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// The braces that open at `start`.
    fn at(pattern: &[u8], start: usize) -> Option<Self> {
        let (mut depth, mut at, mut begin) = (0, start, start + 1);
        let mut choices = Vec::new();
        while at < pattern.len() {
            match pattern[at] {
                b'\\' => at += 1,
                b'[' => at = skip_set(pattern, at),
                b'{' => depth += 1,
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        choices.push(begin..at);
                        // `{}` and `{a}` are what they look like.
                        return (choices.len() > 1).then_some(Self { start, end: at + 1, choices });
                    }
                }
                b',' if depth == 1 => {
                    choices.push(begin..at);
                    begin = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        None
    }
}

/// The closing bracket of a set, or where it starts if it never closes.
fn skip_set(pattern: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    if matches!(pattern.get(at), Some(b'!' | b'^')) {
        at += 1;
    }
    if pattern.get(at) == Some(&b']') {
        at += 1;
    }
    while let Some(&byte) = pattern.get(at) {
        match byte {
            b']' => return at,
            b'\\' => at += 1,
            _ => {}
        }
        at += 1;
    }
    start
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expanded(pattern: &str) -> Vec<String> {
        let all = expand_braces(pattern.as_bytes()).expect("not too many");
        all.into_iter().map(|bytes| String::from_utf8(bytes).expect("text")).collect()
    }

    #[test]
    fn braces_expand_as_in_a_shell() {
        assert_eq!(expanded("abc"), ["abc"]);
        assert_eq!(expanded("a{b,c}d"), ["abd", "acd"]);
        assert_eq!(expanded("{a,b}{1,2}"), ["a1", "a2", "b1", "b2"]);
        assert_eq!(expanded("x{a,{b,c}}"), ["xa", "xb", "xc"]);
        assert_eq!(expanded("{a,}b"), ["ab", "b"]);
        for same in ["{}", "{a}", "a{b", "a}b", "\\{a,b}", "[{a,b}]", "a,b"] {
            assert_eq!(expanded(same), [same]);
        }
    }

    #[test]
    fn names_are_held_against_the_request() {
        for (path, name, allowed) in [
            ("file", "file", true),
            ("file", "other", false),
            ("dir/file", "file", true),
            ("*.txt", "a.txt", true),
            ("*.txt", ".bashrc", false),
            ("*", ".bashrc", false),
            ("/x/{a,b}.c", "b.c", true),
            ("/x/{a,b}.c", "c.c", false),
            ("x[1]", "x[1]", true),
            ("a\\ b", "a b", true),
            ("", ".", true),
        ] {
            let request = Request::of(path.as_bytes(), false).expect("fine");
            assert_eq!(request.allows(name.as_bytes()), allowed, "{path} {name}");
        }
        assert!(Request::anything().allows(b"x"));
    }

    #[test]
    fn recursive_requests_are_checked_where_they_are_plain() {
        let allows = |path: &str, name: &str| {
            Request::of(path.as_bytes(), true).expect("fine").allows(name.as_bytes())
        };
        assert!(allows("/srv/tree/", "tree") && !allows("/srv/tree/", ".ssh"));
        for path in ["$HOME", "~", "~joe", "'a b'", "x/.", "a\\ b"] {
            assert!(allows(path, "anything"), "{path}");
        }
    }

    #[test]
    fn too_many_alternatives_are_refused() {
        let refused = Request::of("{a,b}".repeat(30).as_bytes(), false).unwrap_err();
        assert_eq!(refused.to_string(), "could not expand pattern");
    }

    proptest! {
        #[test]
        fn expansion_ends(pattern in "[a{},\\\\\\[\\]]{0,24}") {
            let _ = expand_braces(pattern.as_bytes());
        }
    }
}
