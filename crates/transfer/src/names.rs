//! Names and paths. Both ends' paths are bytes; nothing here asks a file system.

pub use lh_wire::printable as display_name;

/// Returns true for a name that may be joined to a directory. Names in listings come from the server: one
/// with a slash, or a dot name, would let it write outside of the target (CVE-2019-6111).
pub fn is_safe_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
}

/// `directory/name`, without a second slash.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.len());
    path.extend_from_slice(directory);
    if !directory.is_empty() && !directory.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The last component, as basename(3): trailing slashes do not count, `/` has the name `/`, nothing is `.`.
pub fn base_name(path: &[u8]) -> &[u8] {
    let Some(end) = path.iter().rposition(|&byte| byte != b'/') else {
        return if path.is_empty() { b"." } else { b"/" };
    };
    let path = &path[..=end];
    path.iter().rposition(|&byte| byte == b'/').map_or(path, |slash| &path[slash + 1..])
}

/// How a remote path must be resolved before the server understands it.
#[derive(Debug, PartialEq, Eq)]
pub enum RemotePath {
    /// Nothing: relative paths start at the login directory.
    Plain(Vec<u8>),
    /// `~user`: only the server knows.
    Expand(Vec<u8>),
}

/// Understands `~`, as `scp` does: nothing and `~` are the login directory, `~/x` is relative to it.
pub fn remote_path(path: &[u8]) -> RemotePath {
    let plain = |path: &[u8]| RemotePath::Plain(if path.is_empty() { b".".to_vec() } else { path.to_vec() });
    match path {
        [] | [b'~'] => plain(b""),
        [b'~', b'/', rest @ ..] => {
            let start = rest.iter().position(|&byte| byte != b'/').unwrap_or(rest.len());
            plain(&rest[start..])
        }
        [b'~', ..] => RemotePath::Expand(path.to_vec()),
        _ => plain(path),
    }
}

/// Compares paths by their components, so that a directory is followed by what is in it.
pub(crate) fn by_components(one: &[u8], other: &[u8]) -> std::cmp::Ordering {
    one.split(|&byte| byte == b'/').cmp(other.split(|&byte| byte == b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_unsafe() {
        for name in [&b""[..], b".", b"..", b"a/b", b"/", b"../x", b"/etc/passwd", b"a\0b"] {
            assert!(!is_safe_name(name), "{name:?}");
        }
        for name in [&b"..."[..], b".ssh", b"a b", b"a\nb", b"\xff", b"-rf", b"..x"] {
            assert!(is_safe_name(name), "{name:?}");
        }
    }

    #[test]
    fn base_names_are_those_of_posix() {
        for (path, name) in [
            ("", "."),
            ("/", "/"),
            ("///", "/"),
            ("a", "a"),
            ("a/", "a"),
            ("/a/b//", "b"),
            ("..", ".."),
            ("a/.", "."),
        ] {
            assert_eq!(base_name(path.as_bytes()), name.as_bytes(), "{path}");
        }
    }

    #[test]
    fn tildes_mean_what_they_mean_to_scp() {
        for (path, meant) in [("", "."), ("~", "."), ("~/", "."), ("~//x", "x"), ("x~", "x~"), ("/~", "/~")] {
            assert_eq!(remote_path(path.as_bytes()), RemotePath::Plain(meant.into()));
        }
        assert_eq!(remote_path(b"~joe/x"), RemotePath::Expand(b"~joe/x".to_vec()));
    }

    #[test]
    fn joining_adds_one_slash() {
        assert_eq!(join(b"a", b"b"), b"a/b");
        assert_eq!(join(b"a/", b"b"), b"a/b");
        assert_eq!(join(b"/", b"b"), b"/b");
    }

    #[test]
    fn directories_are_followed_by_what_is_in_them() {
        let mut paths = ["a-b", "a/c", "a", "b"];
        paths.sort_by(|one, other| by_components(one.as_bytes(), other.as_bytes()));
        assert_eq!(paths, ["a", "a/c", "a-b", "b"]);
    }
}
