//! Wildcard patterns: `*` and `?`, comma-separated lists, `!` for exceptions.

/// Returns whether `text` matches `pattern`, where `*` matches any run of bytes and `?` any single byte.
///
/// Takes time at most proportional to `text × pattern`: a star never restarts an earlier one.
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

/// Result of matching a pattern list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListMatch {
    /// A plain pattern matched and no `!` pattern did.
    Yes,
    /// Nothing matched.
    No,
    /// A `!` pattern matched: no match, even where other patterns match.
    Negated,
}

/// Matches text against comma-separated patterns; `fold` lower-cases the patterns (for host names).
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

/// Matches a host name against a pattern list, both in lower case.
pub fn match_host(host: &str, patterns: &str) -> bool {
    match_list(&host.to_ascii_lowercase(), patterns, true) == ListMatch::Yes
}
