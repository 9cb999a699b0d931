//! Paths of requests and their parts.

/// Splits a path into its directory with the slash, and its last component without trailing slashes.
pub(super) fn directory_and_name(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let path = if end == 0 { path } else { path.get(..end).unwrap_or(path) };
    path.split_at(path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1))
}

/// Returns true if `name` is `path`, or lies below it.
pub(super) fn is_at_or_below(name: &[u8], path: &[u8]) -> bool {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    name.strip_prefix(path.get(..end).unwrap_or(path))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_below_a_directory_begin_with_it() {
        for (name, path, is_below) in [
            ("d/x", "d", true),
            ("d/x", "d/", true),
            ("d", "d", true),
            ("d", "d/", true),
            ("dx", "d", false),
            ("d", "d/x", false),
            ("/x", "/", true),
        ] {
            assert_eq!(is_at_or_below(name.as_bytes(), path.as_bytes()), is_below, "{name:?} {path:?}");
        }
    }

    #[test]
    fn slashes_at_the_end_belong_to_no_part() {
        for (path, directory, name) in [
            ("x", "", "x"),
            ("x/", "", "x"),
            ("d/x", "d/", "x"),
            ("d/x///", "d/", "x"),
            ("/x", "/", "x"),
            ("/x/", "/", "x"),
            ("/d//x/", "/d//", "x"),
            ("", "", ""),
            ("/", "/", ""),
            ("//", "//", ""),
            ("d/..", "d/", ".."),
        ] {
            let parts = directory_and_name(path.as_bytes());
            assert_eq!(parts, (directory.as_bytes(), name.as_bytes()), "{path:?}");
        }
    }
}
