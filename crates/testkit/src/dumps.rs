//! Parser for the output of `ssh -G` and `sshd -T`, for comparing our settings with OpenSSH's.

use std::collections::BTreeMap;

/// Keyword in lower case → its values, one per line.
pub type Settings = BTreeMap<String, Vec<String>>;

/// Lists whose defaults depend on the version; lists edited with `+`, `-` or `^` depend on it too.
pub const LISTS: &[&str] = &[
    "ciphers",
    "macs",
    "kexalgorithms",
    "hostkeyalgorithms",
    "hostbasedacceptedalgorithms",
    "pubkeyacceptedalgorithms",
    "casignaturealgorithms",
];

/// Parses a dump into its settings.
pub fn by_keyword(dump: &str) -> Settings {
    let mut map = Settings::new();
    for line in dump.lines() {
        let (keyword, value) = line.split_once(' ').unwrap_or((line, ""));
        map.entry(keyword.to_ascii_lowercase()).or_default().push(value.to_owned());
    }
    map
}

/// Returns whether a configuration edits the default of a list with `+`, `-` or `^`.
pub fn edits(text: &str, keyword: &str) -> bool {
    // `KeyTypes` is the former name of `AcceptedAlgorithms`.
    let old = keyword.replace("algorithms", "keytypes");
    text.lines().any(|line| {
        let mut words = line.split(|c: char| c.is_whitespace() || c == '=').filter(|word| !word.is_empty());
        let name = words.next().unwrap_or_default().to_ascii_lowercase();
        (name == keyword || name == old) && words.next().is_some_and(|list| list.starts_with(['+', '-', '^']))
    })
}

/// Returns the keywords whose value in OpenSSH's dump differs from ours, except those left at both programs'
/// defaults. `ours` and `theirs` are a program's settings and its defaults.
pub fn differing<'a>(ours: (&Settings, &Settings), theirs: (&'a Settings, &Settings)) -> Vec<&'a str> {
    let differs = |(keyword, values): &(&'a String, &'a Vec<String>)| {
        let own = ours.0.get(*keyword);
        let untouched = theirs.1.get(*keyword) == Some(*values) && ours.1.get(*keyword) == own;
        own != Some(*values) && !untouched
    };
    theirs.0.iter().filter(differs).map(|(keyword, _)| keyword.as_str()).collect()
}
