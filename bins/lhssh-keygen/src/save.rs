//! Saving key files: formats, passphrases, and the question before a file is overwritten.

use std::fs;
use std::path::Path;

use lh_crypto::{Encryption, PemFormat, Zeroizing};
use lh_security_key::FileKey;
use lh_sys::errno_text;

use crate::arguments::{Arguments, Format};
use crate::console::{Outcome, ask, ask_passphrase, error, fatal, print, shown};
use crate::files;

/// Lower limit of a PEM file's passphrase; OpenSSL's limit, which ssh-keygen applies.
const MIN_PEM_PASSPHRASE: usize = 5;

/// Writes a private key in the format of `-m`, encrypted unless the passphrase is empty.
pub(crate) fn save(
    arguments: &Arguments,
    path: &Path,
    key: &FileKey,
    comment: &str,
    passphrase: &[u8],
) -> Outcome {
    let failed = |why: &str| error(format!("Saving key \"{}\" failed: {why}", shown(path)));
    // Where a format does not support the key type, OpenSSH writes its own format.
    let format = match (arguments.format, key.public().key_type()) {
        (Some(_), "ssh-mldsa44-ed25519") | (Some(Format::Pem), "ssh-ed25519") => None,
        (Some(_), kind) if kind.starts_with("sk-") => None,
        (Some(Format::Pkcs8), _) => Some(PemFormat::Pkcs8),
        (Some(Format::Pem), _) => Some(PemFormat::Traditional),
        _ => None,
    };
    let text = match (format, key) {
        (Some(_), _) if (1..MIN_PEM_PASSPHRASE).contains(&passphrase.len()) => {
            return Err(failed("passphrase is too short (minimum five characters)"));
        }
        (Some(format), FileKey::Plain(key)) => {
            key.to_pem(format, (!passphrase.is_empty()).then_some(passphrase))
        }
        _ => {
            let encryption = Encryption { passphrase, rounds: arguments.rounds, cipher: &arguments.cipher };
            key.to_openssh_with(comment, (!passphrase.is_empty()).then_some(&encryption))
        }
    };
    let text = text.map_err(|error| failed(&error.to_string()))?;
    files::write_private(path, text.as_bytes()).map_err(|error| failed(&errno_text(&error)))
}

/// Writes the public half.
pub(crate) fn save_public(path: &Path, key: &FileKey, comment: &str) -> Outcome {
    let line = format!("{}\n", key.public().to_openssh_line(comment));
    files::write_public(path, line.as_bytes()).map_err(|failed| {
        fatal(format!("Unable to save public key to {}: {}", shown(path), errno_text(&failed)))
    })
}

/// Asks before overwriting a file.
pub(crate) fn may_overwrite(path: &Path) -> Outcome<bool> {
    if fs::metadata(path).is_err() {
        return Ok(true);
    }
    print(format!("{} already exists.\n", shown(path)))?;
    let answer = ask("Overwrite (y/n)? ")?;
    Ok(answer.is_some_and(|answer| answer.starts_with(['y', 'Y'])))
}

/// The passphrase of `-P` or `-N`, or one that is entered twice.
pub(crate) fn new_passphrase(arguments: &Arguments) -> Outcome<Zeroizing<Vec<u8>>> {
    if let Some(given) = arguments.old_passphrase.as_ref().or(arguments.new_passphrase.as_ref()) {
        return Ok(given.clone());
    }
    loop {
        let passphrase = ask_passphrase("Enter passphrase (empty for no passphrase): ")?;
        let again = ask_passphrase("Enter same passphrase again: ")?;
        if passphrase == again {
            return Ok(passphrase);
        }
        print("Passphrases do not match.  Try again.\n")?;
    }
}
