//! The list of reviewed differences: `reviewed.list`.
//!
//! A line is `PATTERN # REASON`; a pattern is the text of a difference in which `*` stands for anything. A
//! difference without a line fails the campaign; in a complete campaign, so does a line without a difference.

/// The list in the repository.
const LIST: &str = include_str!("../../reviewed.list");

/// The list, with the lines that matched a difference.
pub(super) struct Reviewed {
    lines: Vec<(String, bool)>,
}

impl Reviewed {
    /// Reads the repository's list.
    ///
    /// # Errors
    /// A line has no reason.
    pub(super) fn read() -> Result<Self, String> {
        Self::parse(LIST)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut lines = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once(" # ") {
                Some((pattern, reason)) if !reason.trim().is_empty() => {
                    lines.push((pattern.trim().to_owned(), false));
                }
                _ => return Err(format!("reviewed.list: no reason: {line}")),
            }
        }
        Ok(Self { lines })
    }

    /// Whether a difference is on the list.
    pub(super) fn knows(&mut self, difference: &str) -> bool {
        let mut known = false;
        for (pattern, used) in &mut self.lines {
            if matches(pattern, difference) {
                *used = true;
                known = true;
            }
        }
        known
    }

    /// Lines that no difference matched.
    pub(super) fn unused(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|(_, used)| !used).map(|(pattern, _)| pattern.as_str())
    }
}

/// Whether `text` is `pattern`, in which each `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_need_a_line_with_a_reason() {
        let mut list =
            Reviewed::parse("# text\nstrict *:ping:* ours=a theirs=b # sshd 9.2 has no ping\nx # y\n")
                .unwrap();
        assert!(list.knows("strict login:ping:right ours=a theirs=b"));
        assert!(!list.knows("strict login:pong:right ours=a theirs=b"));
        assert_eq!(list.unused().collect::<Vec<_>>(), ["x"]);
        assert!(Reviewed::parse("pattern without a reason").is_err());
        assert!(Reviewed::read().is_ok());
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text, yes) in [
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "ab", false),
            ("*b*", "abc", true),
            ("a", "ab", false),
            ("a*b*c", "a-b-b-c", true),
        ] {
            assert_eq!(matches(pattern, text), yes, "{pattern} {text}");
        }
    }
}
