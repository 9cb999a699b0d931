//! Command lines for the login shell of a server.

/// Returns the text as one word for a shell.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A command line for any login shell that has `/bin/sh` run the script.
pub(crate) fn sh(script: &str) -> Vec<u8> {
    format!("exec /bin/sh -c {}", quoted(script.trim())).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_reach_the_inner_shell() {
        assert_eq!(sh("echo 'a'"), br"exec /bin/sh -c 'echo '\''a'\'''");
    }
}
