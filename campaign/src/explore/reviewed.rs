//! The lists of reviewed differences: `reviewed.list` of servers, `reviewed-clients.list` of clients.
//!
//! A line is `PATTERN # REASON`. A pattern is the text of a difference in which `*` matches any text. A
//! difference without a line fails the campaign; in a complete campaign, so does a line without a difference.

/// Differences between servers.
pub(super) const SERVERS: List =
    List { name: "campaign/reviewed.list", text: include_str!("../../reviewed.list") };

/// Differences between clients.
pub(super) const CLIENTS: List =
    List { name: "campaign/reviewed-clients.list", text: include_str!("../../reviewed-clients.list") };

/// A list in the repository.
pub(super) struct List {
    /// Path of the list in the repository.
    name: &'static str,
    text: &'static str,
}

/// The list, with the lines that matched a difference.
pub(super) struct Reviewed {
    name: &'static str,
    lines: Vec<(String, bool)>,
}

impl Reviewed {
    /// Reads a list.
    ///
    /// # Errors
    /// A line has no reason.
    pub(super) fn read(list: &List) -> Result<Self, String> {
        Self::parse(list.name, list.text)
    }

    fn parse(name: &'static str, text: &str) -> Result<Self, String> {
        let mut lines = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once(" # ") {
                Some((pattern, reason)) if !reason.trim().is_empty() => {
                    lines.push((pattern.trim().to_owned(), false));
                }
                _ => return Err(format!("{name}: no reason: {line}")),
            }
        }
        Ok(Self { name, lines })
    }

    /// Returns the path of the list.
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns true if a difference is on the list.
    pub(super) fn has(&self, difference: &str) -> bool {
        self.lines.iter().any(|(pattern, _)| matches(pattern, difference))
    }

    /// Like [`has`](Self::has), and marks the lines as used.
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

    /// Returns the lines that no difference has matched.
    pub(super) fn unused(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|(_, used)| !used).map(|(pattern, _)| pattern.as_str())
    }
}

/// Returns true if `text` matches `pattern`, in which each `*` matches any text.
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
        let mut list = Reviewed::parse(
            "list",
            "# text\nstrict *:ping:* ours=a theirs=b # sshd 9.2 has no ping\nx # y\n",
        )
        .unwrap();
        assert!(list.knows("strict login:ping:right ours=a theirs=b"));
        assert!(!list.knows("strict login:pong:right ours=a theirs=b"));
        assert_eq!(list.unused().collect::<Vec<_>>(), ["x"]);
        assert!(Reviewed::parse("list", "pattern without a reason").is_err());
        assert!(Reviewed::read(&SERVERS).is_ok() && Reviewed::read(&CLIENTS).is_ok());
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
