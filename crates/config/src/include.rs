//! Which files an `Include` line names.

use std::path::{Path, PathBuf};

use crate::pattern::wildcard;

/// How deep files may include files (OpenSSH's limit).
pub const MAX_DEPTH: usize = 16;

/// The largest configuration file that is read, in bytes; OpenSSH has no such limit, but a device or an endless file must not eat
/// the memory.
pub const MAX_FILE: u64 = 16 << 20;

/// Most files one `Include` pattern may name.
const MAX_MATCHES: usize = 4096;

/// Files that match `pattern` (an absolute path with `*`, `?` and `[…]` in its components), sorted by name. A pattern
/// without wildcards gives the path itself if it exists. Hidden files need a pattern that starts with a dot.
pub fn glob(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from(if pattern.starts_with('/') { "/" } else { "." })];
    for component in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for base in &found {
            if !component.contains(['*', '?', '[']) {
                let path = base.join(component);
                if path.symlink_metadata().is_ok() {
                    next.push(path);
                }
                continue;
            }
            let Ok(entries) = std::fs::read_dir(base) else { continue };
            let mut names: Vec<_> = entries
                .flatten()
                .map(|entry| entry.file_name())
                .filter(|name| {
                    let bytes = name.as_encoded_bytes();
                    (component.starts_with('.') || !bytes.starts_with(b"."))
                        && matches_component(bytes, component.as_bytes())
                })
                .collect();
            names.sort();
            next.extend(names.into_iter().map(|name| base.join(name)));
            if next.len() > MAX_MATCHES {
                next.truncate(MAX_MATCHES);
                break;
            }
        }
        found = next;
    }
    found
}

/// Like [`wildcard`], with `[abc]`, `[a-z]` and `[!…]` too.
fn matches_component(name: &[u8], pattern: &[u8]) -> bool {
    if !pattern.contains(&b'[') {
        return wildcard(name, pattern);
    }
    // A row of the usual dynamic programme: at[i] says whether the pattern so far matches the first i bytes.
    let mut at = vec![false; name.len() + 1];
    at[0] = true;
    let mut p = 0;
    while p < pattern.len() {
        let mut next = vec![false; name.len() + 1];
        match pattern[p] {
            b'*' => {
                let mut reached = false;
                for i in 0..=name.len() {
                    reached |= at[i];
                    next[i] = reached;
                }
                p += 1;
            }
            c => {
                let class = if c == b'[' { class_end(pattern, p) } else { None };
                for i in 0..name.len() {
                    let hit = match (c, class) {
                        (_, Some(end)) => in_class(name[i], &pattern[p + 1..end]),
                        (b'?', _) => true,
                        _ => c == name[i],
                    };
                    next[i + 1] = at[i] && hit;
                }
                p = class.map_or(p + 1, |end| end + 1);
            }
        }
        at = next;
    }
    at[name.len()]
}

fn class_end(pattern: &[u8], open: usize) -> Option<usize> {
    // A bracket that directly follows the opening one (or its `!`) belongs to the class.
    let mut first = open + 1;
    if matches!(pattern.get(first), Some(b'!' | b'^')) {
        first += 1;
    }
    pattern.iter().skip(first + 1).position(|c| *c == b']').map(|at| first + 1 + at)
}

fn in_class(c: u8, class: &[u8]) -> bool {
    let (negated, class) = match class {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut hit = false;
    let mut i = 0;
    while i < class.len() {
        if class.get(i + 1) == Some(&b'-') && i + 2 < class.len() {
            hit |= (class[i]..=class[i + 2]).contains(&c);
            i += 3;
        } else {
            hit |= class[i] == c;
            i += 1;
        }
    }
    hit != negated
}

/// Reads a configuration file as text; bytes that are not UTF-8 become replacement characters.
///
/// # Errors
/// The operating system's, and `FileTooLarge` past [`MAX_FILE`].
pub fn read_text(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    if file.metadata()?.is_dir() {
        // `Include conf.d/*` may hit a folder; it is as good as an empty file.
        return Ok(String::new());
    }
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(std::io::Error::from(std::io::ErrorKind::FileTooLarge));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}
