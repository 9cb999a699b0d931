//! Wildcard patterns: `*` and `?`, lists with commas, `!` for exceptions.

/// Whether `text` matches `pattern`, where `*` is any run of bytes and `?` any one.
///
/// Time is at most `text × pattern`: a star never restarts an earlier one.
pub fn wildcard(text: &[u8], pattern: &[u8]) -> bool {
    let (mut t, mut p) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                t += 1;
                p += 1;
            }
            _ => match star {
                Some((after, at)) => {
                    star = Some((after, at + 1));
                    p = after;
                    t = at + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// How a pattern list answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListMatch {
    /// A plain pattern matched and no `!` pattern did.
    Yes,
    /// Nothing matched.
    No,
    /// A `!` pattern matched: the answer is no, whatever else matches.
    Negated,
}

/// Matches against patterns separated by commas; `fold`: patterns are compared in lower case (for host names).
pub fn match_list(text: &str, patterns: &str, fold: bool) -> ListMatch {
    let mut found = ListMatch::No;
    for pattern in patterns.split(',') {
        let (negated, pattern) = match pattern.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let hit = if fold {
            wildcard(text.as_bytes(), pattern.to_ascii_lowercase().as_bytes())
        } else {
            wildcard(text.as_bytes(), pattern.as_bytes())
        };
        if hit && negated {
            return ListMatch::Negated;
        }
        if hit {
            found = ListMatch::Yes;
        }
    }
    found
}

/// A host name against a pattern list: both in lower case.
pub fn match_host(host: &str, patterns: &str) -> bool {
    match_list(&host.to_ascii_lowercase(), patterns, true) == ListMatch::Yes
}
