//! Converts keys of other formats: exports (`-e`) and imports (`-i`) public keys in RFC 4716, PKCS#8 and PEM,
//! and imports SSH2 private keys.

use lh_crypto::{PemFormat, PrivateKey, PublicKey, SSH2_PRIVATE_BEGIN};
use lh_sys::errno_text;

use crate::arguments::{Arguments, Format};
use crate::change::public_of;
use crate::console::{Outcome, fatal, print, program, shown, user_at_host};
use crate::files::read_limited;
use crate::generate::key_file;
use crate::hexdump;

const BEGIN: &str = "---- BEGIN SSH2 PUBLIC KEY ----";
const END: &str = "---- END SSH2 PUBLIC KEY ----";
/// Columns of a base64 line; RFC 4716 section 3.1 allows 72.
const COLUMNS: usize = 70;
/// Upper limit of a comment, as in ssh-keygen.
const MAX_COMMENT: usize = 60;

/// Prints a public key in the format of `-m`.
pub(crate) fn export(arguments: &Arguments) -> Outcome {
    if arguments.format == Some(Format::Hexdump) {
        return hexdump::export(arguments);
    }
    let path = key_file(arguments)?;
    let key = public_of(arguments, &path)?;
    let unknown = |function: &str| {
        let kind = lh_client::sanitise(&key.display_type());
        fatal(format!("{function}: unsupported key type {kind}"))
    };
    print(match arguments.format {
        None | Some(Format::Rfc4716 | Format::Hexdump) => rfc4716(&key),
        Some(Format::Pkcs8) => key.to_spki_pem().ok_or_else(|| unknown("do_convert_to_pkcs8"))?,
        // Only RSA keys have a PEM format of their own; ECDSA keys use the general one.
        Some(Format::Pem) => match key.plain().key_type() {
            "ssh-rsa" => key.to_pkcs1_pem(),
            kind if kind.starts_with("ecdsa-") => key.to_spki_pem(),
            _ => None,
        }
        .ok_or_else(|| unknown("do_convert_to_pem"))?,
    })
}

/// Prints a key of another format in OpenSSH's format.
pub(crate) fn import(arguments: &Arguments) -> Outcome {
    let path = key_file(arguments)?;
    let bytes = read_limited(&path)
        .map_err(|failed| fatal(format!("{}: {}: {}", program(), shown(&path), errno_text(&failed))))?;
    let text = String::from_utf8_lossy(&bytes);
    let key = match arguments.format {
        None | Some(Format::Rfc4716) => {
            if text.contains(SSH2_PRIVATE_BEGIN) {
                let key = PrivateKey::from_ssh2(&text)
                    .map_err(|why| fatal(format!("do_convert_from_ssh2: {}: {why}", shown(&path))))?;
                // As in ssh-keygen, a private key stays private, and is written without a passphrase.
                let pem = key.to_pem(PemFormat::Traditional, None).map_err(|why| fatal(why.to_string()))?;
                return print(pem.as_str());
            }
            from_rfc4716(&text).ok_or_else(|| fatal("do_convert_from_ssh2: parse key: invalid format"))?
        }
        Some(Format::Pkcs8) => PublicKey::from_public_pem(&text).ok_or_else(|| {
            fatal(format!("do_convert_from_pkcs8: {} is not a recognised public key format", shown(&path)))
        })?,
        Some(Format::Pem) => PublicKey::from_public_pem(&text)
            .filter(|_| text.contains("BEGIN RSA PUBLIC KEY"))
            .ok_or_else(|| fatal("do_convert_from_pem: unrecognised raw private key format"))?,
        Some(Format::Hexdump) => return Err(fatal("do_convert_from: unknown key format hexdump")),
    };
    print(format!("{}\n", key.to_openssh_line("")))
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

/// Parses an RFC 4716 key. Headers are skipped; one whose line ends in a backslash continues in the next line
/// (section 3.3).
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
    use lh_crypto::KeyType;
    use proptest::prelude::*;

    #[test]
    fn rfc4716_keys_parse_with_any_headers() {
        let key = PrivateKey::generate(KeyType::EcdsaP521, None).expect("a key").public().clone();
        let text = rfc4716(&key);
        assert_eq!(from_rfc4716(&text).as_ref(), Some(&key));
        let more = text.replace("Comment: ", "Subject: me\r\nx-long: a\\\r\nb: c\\\nd\nComment: ");
        assert_eq!(from_rfc4716(&more), Some(key));
        assert_eq!(from_rfc4716(text.trim_end().trim_end_matches('-')), None);
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "(---- BEGIN SSH2 PUBLIC KEY ----\n|---- END SSH2 PUBLIC KEY ----\n|AAAA|[:\\\\\n]|\\PC){0,20}") {
            let _ = from_rfc4716(&text);
        }
    }
}
