//! Texts of system errors.

use std::io;

/// Returns the text of an error in the C library's words, as other programs print it. Removes the additions
/// of the standard library before the text of `gai_strerror` and after that of `strerror`.
pub fn errno_text(error: &io::Error) -> String {
    // Our own time limits have no errno.
    if error.kind() == io::ErrorKind::TimedOut {
        return "Connection timed out".to_owned();
    }
    let text = error.to_string();
    let text = text.split_once("lookup address information: ").map_or(text.as_str(), |(_, words)| words);
    text.split_once(" (os error ").map_or(text, |(words, _)| words).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_no_number() {
        assert_eq!(errno_text(&io::Error::from_raw_os_error(2)), "No such file or directory");
        assert_eq!(errno_text(&io::Error::other("too long")), "too long");
        assert_eq!(errno_text(&io::ErrorKind::TimedOut.into()), "Connection timed out");
        let unknown = io::Error::other("failed to lookup address information: Name or service not known");
        assert_eq!(errno_text(&unknown), "Name or service not known");
    }
}
