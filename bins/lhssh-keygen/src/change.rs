//! Changes existing private keys: passphrase (`-p`) and comment (`-c`). Prints the public half (`-y`).

use std::fs;
use std::path::Path;

use lh_crypto::{PrivateKey, PublicKey, Zeroizing};
use lh_security_key::{FileKey, flags};
use lh_sys::errno_text;

use crate::arguments::{Arguments, Format};
use crate::console::{Failure, Outcome, ask, ask_passphrase, error, fatal, print, program, shown, silent};
use crate::files::{KeyFile, LoadError, Loaded, load_public, public_name, read_limited};
use crate::generate::key_file;
use crate::save::{save, save_public};

/// A decrypted key, and the passphrase used (empty: none was needed).
struct Opened {
    key: FileKey,
    comment: Option<String>,
    passphrase: Zeroizing<Vec<u8>>,
}

/// Changes the passphrase, and with `-O` what a security key requires for signatures.
pub(crate) fn passphrase(arguments: &Arguments) -> Outcome {
    let path = key_file(arguments)?;
    let failed = |why: LoadError| fatal(format!("Failed to load key {}: {why}", shown(&path)));
    let given = arguments.old_passphrase.as_ref();
    let mut opened = open(&path, given, "Enter old passphrase: ", failed)?;
    if !arguments.values.options.is_empty() {
        let FileKey::Security(key) = &mut opened.key else {
            return Err(fatal(format!("FIDO-specific option requested for non-FIDO key {}", shown(&path))));
        };
        key.flags = Requirements::parse(arguments)?.applied_to(key.flags);
    }
    if let Some(comment) = &opened.comment {
        print(format!("Key has comment '{}'\n", lh_client::sanitise(comment)))?;
    }
    let new = match &arguments.new_passphrase {
        Some(new) => new.clone(),
        None => {
            let new = ask_passphrase("Enter new passphrase (empty for no passphrase): ")?;
            if ask_passphrase("Enter same passphrase again: ")? != new {
                print("Pass phrases do not match.  Try again.\n")?;
                return Err(silent());
            }
            new
        }
    };
    let comment = opened.comment.unwrap_or_default();
    save(arguments, &path, &opened.key, &comment, &new)?;
    print("Your identification has been saved with the new passphrase.\n")
}

/// Flags of a security key's key that `-O` sets and clears.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Requirements {
    set: u8,
    cleared: u8,
}

impl Requirements {
    fn parse(arguments: &Arguments) -> Outcome<Self> {
        let mut found = Self::default();
        for option in &arguments.values.options {
            found.add(&option.to_string_lossy())?;
        }
        Ok(found)
    }

    /// Adds one `-O`; a later one replaces an earlier one.
    fn add(&mut self, option: &str) -> Outcome {
        let name = option.to_ascii_lowercase();
        let (name, set) = name.strip_prefix("no-").map_or((name.as_str(), true), |name| (name, false));
        let flag = match name {
            "touch-required" => flags::USER_PRESENCE,
            "verify-required" => flags::USER_VERIFICATION,
            _ => {
                let option = lh_client::sanitise(option);
                return Err(fatal(format!("Option \"{option}\" is unsupported when changing a passphrase")));
            }
        };
        let (to, from) =
            if set { (&mut self.set, &mut self.cleared) } else { (&mut self.cleared, &mut self.set) };
        *to |= flag;
        *from &= !flag;
        Ok(())
    }

    const fn applied_to(self, flags: u8) -> u8 {
        (flags | self.set) & !self.cleared
    }
}

/// Changes the comment, in the private key and in the public key file.
pub(crate) fn comment(arguments: &Arguments) -> Outcome {
    let path = key_file(arguments)?;
    let failed = |why: LoadError| fatal(format!("Cannot load private key \"{}\": {why}", shown(&path)));
    let given = arguments.old_passphrase.as_ref().or(arguments.new_passphrase.as_ref());
    let opened = open(&path, given, "Enter passphrase: ", failed)?;
    let foreign = matches!(arguments.format, Some(Format::Pem | Format::Pkcs8));
    if foreign && opened.key.public().key_type() != "ssh-ed25519" {
        return Err(error("Comments are only supported for keys stored in the new format (-o)."));
    }
    match &opened.comment {
        Some(comment) => print(format!("Old comment: {}\n", lh_client::sanitise(comment)))?,
        None => print("No existing comment\n")?,
    }
    let new = match &arguments.comment {
        Some(comment) => comment.clone(),
        None => ask("New comment: ")?.ok_or_else(silent)?,
    };
    if opened.comment.as_ref() == Some(&new) {
        return print("No change to comment\n");
    }
    save(arguments, &path, &opened.key, &new, &opened.passphrase)?;
    save_public(&public_name(&path), &opened.key, &new)?;
    if new.is_empty() {
        print("Comment removed\n")
    } else {
        print(format!("Comment '{}' applied\n", lh_client::sanitise(&new)))
    }
}

/// Prints the public half.
pub(crate) fn public(arguments: &Arguments) -> Outcome {
    let path = key_file(arguments)?;
    let failed = |why: LoadError| fatal(format!("Load key \"{}\": {why}", shown(&path)));
    let opened = open(&path, arguments.old_passphrase.as_ref(), "Enter passphrase: ", failed)?;
    let comment = opened.comment.unwrap_or_default();
    print(format!("{}\n", opened.key.public().to_openssh_line(&comment)))
}

/// Public key of a file: the first line of a public key file; of a private one, the part that needs no
/// passphrase, else that of the decrypted key.
pub(crate) fn public_of(arguments: &Arguments, path: &Path) -> Outcome<PublicKey> {
    if let Some(key) = public_in_line(path)? {
        return Ok(key);
    }
    // Neither what OpenSSH's format stores unencrypted nor the file beside it needs a passphrase.
    if let Some(key) = read_limited(path).ok().and_then(|file| PrivateKey::parse_public(&file).ok()) {
        return Ok(key);
    }
    if let Some((key, _)) = load_public(path) {
        return Ok(key);
    }
    let failed = |why: LoadError| fatal(format!("Load key \"{}\": {why}", shown(path)));
    let opened = open(path, arguments.old_passphrase.as_ref(), "Enter passphrase: ", failed)?;
    Ok(opened.key.public().clone())
}

/// Public key in the first line of a file.
pub(crate) fn public_in_line(path: &Path) -> Outcome<Option<PublicKey>> {
    let bytes = fs::read(path)
        .map_err(|failed| fatal(format!("{}: {}: {}", program(), shown(path), errno_text(&failed))))
        .map(Zeroizing::new)?;
    let line = String::from_utf8_lossy(&bytes);
    Ok(line.lines().next().and_then(PublicKey::from_openssh_line).map(|(key, _)| key))
}

/// Opens a private key and returns only the key.
pub(crate) fn open_key(
    path: &Path,
    given: Option<&Zeroizing<Vec<u8>>>,
    prompt: &str,
    failed: impl Fn(LoadError) -> Failure,
) -> Outcome<FileKey> {
    if let Err(missing) = fs::metadata(path) {
        return Err(failed(LoadError::Io(missing)));
    }
    Ok(open(path, given, prompt, failed)?.key)
}

/// Opens a private key: without a passphrase, with the given one, or with one from a prompt. One attempt, as
/// in ssh-keygen.
fn open(
    path: &Path,
    given: Option<&Zeroizing<Vec<u8>>>,
    prompt: &str,
    failed: impl Fn(LoadError) -> Failure,
) -> Outcome<Opened> {
    fs::metadata(path).map_err(|missing| fatal(format!("{}: {}", shown(path), errno_text(&missing))))?;
    let file = KeyFile::read(path).map_err(&failed)?;
    let opened = |loaded: Loaded, passphrase| Opened { key: loaded.key, comment: loaded.comment, passphrase };
    match file.open(None) {
        Ok(loaded) => return Ok(opened(loaded, Zeroizing::new(Vec::new()))),
        Err(why) if why.wants_passphrase() => {}
        Err(why) => return Err(failed(why)),
    }
    let passphrase = match given {
        Some(given) => given.clone(),
        None => ask_passphrase(prompt)?,
    };
    let loaded = file.open(Some(&passphrase)).map_err(&failed)?;
    Ok(opened(loaded, passphrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_requirement_of_a_kind_counts() {
        let mut found = Requirements::default();
        for option in ["no-touch-required", "verify-required", "Touch-Required"] {
            found.add(option).expect("known");
        }
        let both = flags::USER_PRESENCE | flags::USER_VERIFICATION;
        assert_eq!(found, Requirements { set: both, cleared: 0 });
        found.add("no-verify-required").expect("known");
        assert_eq!(found, Requirements { set: flags::USER_PRESENCE, cleared: flags::USER_VERIFICATION });
        assert_eq!(found.applied_to(flags::USER_VERIFICATION | flags::RESIDENT), 0x21);
        assert!(found.add("resident").is_err());
    }
}
