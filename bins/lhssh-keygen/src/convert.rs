//! Public keys in the format of RFC 4716, which other SSH programs write: export (`-e`) and import (`-i`).

use std::fs::File;
use std::io::Read as _;

use lh_cli::flags::KEYGEN;
use lh_crypto::PublicKey;

use crate::arguments::{Arguments, Format};
use crate::change::public_of;
use crate::files::MAX_KEY_FILE;
use crate::generate::key_file;
use crate::talk::{Outcome, fatal, print, reason, shown, unsupported, user_at_host};

const BEGIN: &str = "---- BEGIN SSH2 PUBLIC KEY ----";
const END: &str = "---- END SSH2 PUBLIC KEY ----";
/// Columns of a line of base64; RFC 4716 section 3.1 allows 72.
const COLUMNS: usize = 70;
/// Longest comment ssh-keygen writes.
const MAX_COMMENT: usize = 60;

/// Prints a public key in RFC 4716's format.
pub(crate) fn export(arguments: &Arguments) -> Outcome {
    check(arguments, "exporting to")?;
    let path = key_file(arguments)?;
    print(rfc4716(&public_of(arguments, &path)?))
}

/// Prints a key of RFC 4716's format as OpenSSH has it.
pub(crate) fn import(arguments: &Arguments) -> Outcome {
    check(arguments, "importing from")?;
    let path = key_file(arguments)?;
    let mut bytes = Vec::new();
    File::open(&path)
        .and_then(|file| file.take(MAX_KEY_FILE).read_to_end(&mut bytes))
        .map_err(|failed| fatal(format!("{}: {}: {}", KEYGEN.called(), shown(&path), reason(&failed))))?;
    let text = String::from_utf8_lossy(&bytes);
    if text.contains("BEGIN SSH2 ENCRYPTED PRIVATE KEY") {
        return Err(unsupported("importing private keys of this format is"));
    }
    let key = from_rfc4716(&text).ok_or_else(|| fatal("do_convert_from_ssh2: parse key: invalid format"))?;
    print(format!("{}\n", key.to_openssh_line("")))
}

fn check(arguments: &Arguments, what: &str) -> Outcome {
    match arguments.format {
        None | Some(Format::Rfc4716) => Ok(()),
        Some(Format::Pkcs8) => Err(unsupported(format!("{what} PKCS8 is"))),
        Some(Format::Pem) => Err(unsupported(format!("{what} PEM is"))),
    }
}

fn rfc4716(key: &PublicKey) -> String {
    let mut comment =
        format!("{}-bit {}, converted by {} from OpenSSH", key.bits(), key.display_type(), user_at_host());
    while comment.len() > MAX_COMMENT {
        comment.pop();
    }
    let mut out = format!("{BEGIN}\nComment: \"{comment}\"\n");
    let encoded = key.to_base64();
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(COLUMNS));
        out.push_str(line);
        out.push('\n');
        rest = tail;
    }
    out.push_str(END);
    out.push('\n');
    out
}

/// Headers are passed over; one whose line ends in a backslash goes on in the next (section 3.3).
fn from_rfc4716(text: &str) -> Option<PublicKey> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != BEGIN).skip(1);
    let mut encoded = String::new();
    let mut in_header = false;
    loop {
        let line = lines.next()?;
        if line == END {
            return PublicKey::from_base64(&encoded);
        }
        if in_header || line.contains(':') {
            in_header = line.ends_with('\\');
        } else {
            encoded.push_str(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_crypto::{KeyType, PrivateKey};
    use proptest::prelude::*;

    #[test]
    fn keys_come_back_whatever_their_headers() {
        let key = PrivateKey::generate(KeyType::EcdsaP521, None).expect("a key").public().clone();
        let text = rfc4716(&key);
        assert_eq!(from_rfc4716(&text).as_ref(), Some(&key));
        let more = text.replace("Comment: ", "Subject: me\r\nx-long: a\\\r\nb: c\\\nd\nComment: ");
        assert_eq!(from_rfc4716(&more), Some(key));
        assert_eq!(from_rfc4716(text.trim_end().trim_end_matches('-')), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(---- BEGIN SSH2 PUBLIC KEY ----\n|---- END SSH2 PUBLIC KEY ----\n|AAAA|[:\\\\\n]|\\PC){0,20}") {
            let _ = from_rfc4716(&text);
        }
    }
}
