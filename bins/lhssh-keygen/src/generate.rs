//! Generates keys: one (`-t`), or the missing host keys (`-A`).

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use lh_crypto::{KeyType, PrivateKey};
use lh_security_key::FileKey;
use lh_sys::errno_text;

use crate::arguments::Arguments;
use crate::console::{
    Outcome, ask_file, fatal, print, program, shown, silent, ssh_directory, user_at_host, warn,
};
use crate::enroll;
use crate::files;
use crate::save::{may_overwrite, new_passphrase, save, save_public};

/// Default of `-t`.
const DEFAULT_TYPE: &str = "ed25519";
const RSA_BITS: u32 = 3072;

/// Key type of `-t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Ed25519,
    MlDsa44Ed25519,
    Ecdsa,
    Rsa,
    Ed25519Sk,
    EcdsaSk,
}

impl Family {
    const fn file_name(self) -> &'static str {
        match self {
            Self::Ed25519 => "id_ed25519",
            Self::MlDsa44Ed25519 => "id_mldsa44_ed25519",
            Self::Ecdsa => "id_ecdsa",
            Self::Rsa => "id_rsa",
            Self::Ed25519Sk => "id_ed25519_sk",
            Self::EcdsaSk => "id_ecdsa_sk",
        }
    }

    /// Finds a type by its short or full name, with the bits that a full name implies.
    fn by_name(name: &str) -> Outcome<(Self, Option<u32>)> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "ed25519" | "ssh-ed25519" => (Self::Ed25519, None),
            "mldsa44-ed25519" | "ssh-mldsa44-ed25519" => (Self::MlDsa44Ed25519, None),
            "ecdsa" => (Self::Ecdsa, None),
            "ecdsa-sha2-nistp256" => (Self::Ecdsa, Some(256)),
            "ecdsa-sha2-nistp384" => (Self::Ecdsa, Some(384)),
            "ecdsa-sha2-nistp521" => (Self::Ecdsa, Some(521)),
            "rsa" | "ssh-rsa" | "rsa-sha2-256" | "rsa-sha2-512" => (Self::Rsa, None),
            "ed25519-sk" | "sk-ssh-ed25519@openssh.com" => (Self::Ed25519Sk, None),
            "ecdsa-sk" | "sk-ecdsa-sha2-nistp256@openssh.com" => (Self::EcdsaSk, None),
            _ => return Err(fatal(format!("unknown key type {}", lh_client::sanitise(name)))),
        })
    }

    /// Type and size of the key; `None` for keys on a security key. An invalid size is an error.
    fn sized(self, bits: Option<u32>) -> Outcome<Option<(KeyType, Option<u32>)>> {
        Ok(Some(match self {
            Self::Ed25519Sk | Self::EcdsaSk => return Ok(None),
            Self::Ed25519 => (KeyType::Ed25519, None),
            Self::MlDsa44Ed25519 => (KeyType::MlDsa44Ed25519, None),
            Self::Ecdsa => match bits {
                None | Some(256) => (KeyType::EcdsaP256, None),
                Some(384) => (KeyType::EcdsaP384, None),
                Some(521) => (KeyType::EcdsaP521, None),
                Some(_) => {
                    return Err(fatal("Invalid ECDSA key length: valid lengths are 256, 384 or 521 bits"));
                }
            },
            Self::Rsa => match bits.unwrap_or(RSA_BITS) {
                ..1024 => return Err(fatal("Invalid RSA key length: minimum is 1024 bits")),
                16385.. => return Err(fatal("Invalid RSA key length: maximum is 16384 bits")),
                bits if bits.is_multiple_of(128) => (KeyType::Rsa, Some(bits)),
                // AWS-LC makes no others.
                _ => return Err(fatal("Invalid RSA key length: must be a multiple of 128 bits")),
            },
        }))
    }
}

/// File that commands propose when none is named.
pub(crate) fn proposed_file(arguments: &Arguments) -> Outcome<PathBuf> {
    let family = match &arguments.values.key_type {
        Some(name) => Family::by_name(name)?.0,
        None => Family::Ed25519,
    };
    Ok(ssh_directory()?.join(family.file_name()))
}

/// The file of `-f`, or of the answer to a prompt.
pub(crate) fn key_file(arguments: &Arguments) -> Outcome<PathBuf> {
    match &arguments.file {
        Some(file) => Ok(file.clone()),
        None => ask_file("Enter file in which the key is", &proposed_file(arguments)?),
    }
}

/// Generates one key.
pub(crate) fn one(arguments: &Arguments) -> Outcome {
    let name = arguments.values.key_type.clone().unwrap_or_else(|| DEFAULT_TYPE.to_owned());
    let (family, implied) = Family::by_name(&name)?;
    let sized = family.sized(arguments.bits.or(implied))?;
    if !arguments.quiet {
        print(format!("Generating public/private {} key pair.\n", lh_client::sanitise(&name)))?;
    }
    // The security key comes first: if it fails, no file name is needed.
    let (key, attestation) = match sized {
        Some((key_type, bits)) => {
            let key = PrivateKey::generate(key_type, bits).map_err(|failed| fatal(failed.to_string()))?;
            (FileKey::Plain(key), None)
        }
        None => {
            let (key, attestation) = enroll::make(arguments, family == Family::Ed25519Sk)?;
            (FileKey::Security(key), attestation)
        }
    };
    let path = match &arguments.file {
        Some(file) => file.clone(),
        None => ask_file("Enter file in which to save the key", &ssh_directory()?.join(family.file_name()))?,
    };
    make_ssh_directory(&path, arguments.quiet)?;
    if !may_overwrite(&path)? {
        return Err(silent());
    }
    let passphrase = new_passphrase(arguments)?;
    let comment = arguments.comment.clone().unwrap_or_else(user_at_host);
    save(arguments, &path, &key, &comment, &passphrase)?;
    let public = files::public_name(&path);
    save_public(&public, &key, &comment)?;
    if arguments.quiet {
        return attestation.map_or(Ok(()), |attestation| attestation.save(true));
    }
    print(format!(
        "Your identification has been saved in {}\nYour public key has been saved in {}\n\
         The key fingerprint is:\n{} {}\nThe key's randomart image is:\n{}\n",
        shown(&path),
        shown(&public),
        key.public().fingerprint(arguments.hash),
        lh_client::sanitise(&comment),
        key.public().randomart(arguments.hash)
    ))?;
    attestation.map_or(Ok(()), |attestation| attestation.save(false))
}

/// Generates missing host keys below the prefix of `-f`, or in `/etc/ssh`.
pub(crate) fn host_keys(arguments: &Arguments) -> Outcome {
    let directory = match &arguments.file {
        Some(prefix) => prefix.join("etc/ssh"),
        None => PathBuf::from("/etc/ssh"),
    };
    let comment = arguments.comment.clone().unwrap_or_else(user_at_host);
    let mut announced = false;
    let mut failed = false;
    for (label, key_type, bits, name) in [
        ("RSA", KeyType::Rsa, Some(RSA_BITS), "ssh_host_rsa_key"),
        ("ECDSA", KeyType::EcdsaP256, None, "ssh_host_ecdsa_key"),
        ("ED25519", KeyType::Ed25519, None, "ssh_host_ed25519_key"),
        ("MLDSA44-ED25519", KeyType::MlDsa44Ed25519, None, "ssh_host_mldsa44_ed25519_key"),
    ] {
        // FIPS builds make no composite keys.
        if lh_crypto::FIPS && key_type == KeyType::MlDsa44Ed25519 {
            continue;
        }
        let path = directory.join(name);
        match fs::metadata(&path) {
            // A crash at the first boot leaves an empty file, which counts as missing.
            Ok(about) if about.len() > 0 => continue,
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                warn(&format!("Could not stat {}: {}", shown(&path), errno_text(&error)));
                failed = true;
                continue;
            }
            _ => {}
        }
        if !arguments.quiet {
            if !announced {
                print(format!("{}: generating new host keys: ", program()))?;
            }
            print(format!("{label} "))?;
            announced = true;
        }
        let key = PrivateKey::generate(key_type, bits).map_err(|failed| fatal(failed.to_string()))?;
        let key = FileKey::Plain(key);
        let saved = save(arguments, &path, &key, &comment, &[])
            .and_then(|()| save_public(&files::public_name(&path), &key, &comment));
        if let Err(failure) = saved {
            warn(&format!("{}{}", if announced { "\n" } else { "" }, failure.text));
            announced = false;
            failed = true;
        }
    }
    if announced {
        print("\n")?;
    }
    if failed { Err(silent()) } else { Ok(()) }
}

/// Creates `~/.ssh`, if the key belongs there and it does not exist.
fn make_ssh_directory(path: &Path, quiet: bool) -> Outcome {
    let Ok(directory) = ssh_directory() else { return Ok(()) };
    if path.parent() != Some(directory.as_path()) || directory.exists() {
        return Ok(());
    }
    match fs::DirBuilder::new().mode(0o700).create(&directory) {
        Ok(()) if quiet => Ok(()),
        Ok(()) => print(format!("Created directory '{}'.\n", shown(&directory))),
        Err(failed) => {
            // Saving the key will fail too, which ends the program.
            warn(&format!("Could not create directory '{}' ({}).", shown(&directory), errno_text(&failed)));
            Ok(())
        }
    }
}
