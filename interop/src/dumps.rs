//! What `ssh -G` and `sshd -T` print, for comparing ours with OpenSSH's.

use std::collections::BTreeMap;

/// Keyword in lower case → its values, a line each.
pub type Settings = BTreeMap<String, Vec<String>>;

/// Lists whose defaults follow the version: an edited default (`+`, `-`, `^`) follows it too.
pub const LISTS: &[&str] = &[
    "ciphers",
    "macs",
    "kexalgorithms",
    "hostkeyalgorithms",
    "hostbasedacceptedalgorithms",
    "pubkeyacceptedalgorithms",
    "casignaturealgorithms",
];

/// Takes a dump apart.
pub fn by_keyword(dump: &str) -> Settings {
    let mut map = Settings::new();
    for line in dump.lines() {
        let (keyword, value) = line.split_once(' ').unwrap_or((line, ""));
        map.entry(keyword.to_ascii_lowercase()).or_default().push(value.to_owned());
    }
    map
}

/// Whether a configuration edits the default of a list.
pub fn edits(text: &str, keyword: &str) -> bool {
    // `KeyTypes` is what `AcceptedAlgorithms` was called once.
    let old = keyword.replace("algorithms", "keytypes");
    text.lines().any(|line| {
        let mut words = line.split(|c: char| c.is_whitespace() || c == '=').filter(|word| !word.is_empty());
        let name = words.next().unwrap_or_default().to_ascii_lowercase();
        (name == keyword || name == old) && words.next().is_some_and(|list| list.starts_with(['+', '-', '^']))
    })
}

/// Keywords of theirs that have another value with us, but for those that neither has touched: `ours` and `theirs` are a
/// program's settings and its defaults.
pub fn differing<'a>(ours: (&Settings, &Settings), theirs: (&'a Settings, &Settings)) -> Vec<&'a str> {
    let differs = |(keyword, values): &(&'a String, &'a Vec<String>)| {
        let own = ours.0.get(*keyword);
        let untouched = theirs.1.get(*keyword) == Some(*values) && ours.1.get(*keyword) == own;
        own != Some(*values) && !untouched
    };
    theirs.0.iter().filter(differs).map(|(keyword, _)| keyword.as_str()).collect()
}
