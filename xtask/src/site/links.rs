//! Checks that every link within the site leads to a file, and to an existing heading if it has one.

use std::collections::{BTreeMap, BTreeSet};

/// Checks all pages; the error lists every link that leads nowhere.
pub(super) fn check(files: &BTreeMap<String, String>) -> Result<(), String> {
    let pages = files.iter().filter(|(name, _)| name.ends_with(".html"));
    let ids: BTreeMap<&str, BTreeSet<&str>> =
        pages.clone().map(|(name, text)| (name.as_str(), values(text, " id=\"").collect())).collect();
    let mut wrong = Vec::new();
    for (name, text) in pages {
        for link in
            values(text, " href=\"").filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        {
            let (path, part) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { name.clone() } else { resolve(name, path) };
            let found = files.contains_key(&target)
                && (part.is_empty() || ids.get(target.as_str()).is_some_and(|ids| ids.contains(part)));
            if !found {
                wrong.push(format!("{name}: {link}"));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("links that lead nowhere:\n{}", wrong.join("\n"))) }
}

/// Returns the values of an attribute.
fn values<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(start).skip(1).filter_map(|rest| rest.split('"').next())
}

/// Returns the path to which a link of the page `from` leads.
fn resolve(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_pages_and_headings_are_reported() {
        let page = |links: &str| format!("<h2 id=\"here\">x</h2>{links}");
        let files = BTreeMap::from([
            ("docs/a.html".to_owned(), page("<a href=\"../index.html#here\">")),
            (
                "index.html".to_owned(),
                page("<a href=\"docs/a.html#gone\"><a href=\"b.html\"><a href=\"https://x/\">"),
            ),
        ]);
        let error = check(&files).unwrap_err();
        assert!(error.ends_with("index.html: docs/a.html#gone\nindex.html: b.html"), "{error}");
    }
}
