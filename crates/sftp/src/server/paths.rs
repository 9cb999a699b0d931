//! Paths of requests and their parts.

/// Splits a path into its directory, with the slash, and its last component, without the slashes behind it.
pub(super) fn directory_and_name(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let path = if end == 0 { path } else { path.get(..end).unwrap_or(path) };
    path.split_at(path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

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
