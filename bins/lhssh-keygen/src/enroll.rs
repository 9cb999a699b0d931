//! Keys on FIDO security keys: enrolling them (`-t ed25519-sk`, `-t ecdsa-sk`), and downloading resident keys
//! (`-K`).

use std::path::{Path, PathBuf};

use lh_agent::SecurityKey;
use lh_security_key::messages::{Enrollment, Resident};
use lh_security_key::{FileKey, SkError, flags};
use lh_sys::errno_text;

use crate::arguments::Arguments;
use crate::console::{Outcome, ask, ask_pin, fatal, note, print, shown, silent_fatal, warn};
use crate::files;
use crate::save::{may_overwrite, new_passphrase, save, save_public};

/// Prefix of SSH's application strings, and the default application.
const APPLICATION: &str = "ssh:";
/// Upper limit of a challenge, bytes.
const MAX_CHALLENGE: u64 = 64 * 1024;
/// Wrong PINs before giving up; an authenticator locks itself after a few more.
const MOST_PINS: u32 = 3;

/// The authenticator's attestation data and the file for it.
pub(crate) struct Attestation {
    bytes: Vec<u8>,
    path: PathBuf,
}

impl Attestation {
    /// Writes the file.
    pub(crate) fn save(&self, quiet: bool) -> Outcome {
        files::write_private(&self.path, &self.bytes).map_err(|why| {
            fatal(format!("Unable to write attestation data \"{}\": {}", shown(&self.path), errno_text(&why)))
        })?;
        if quiet {
            return Ok(());
        }
        print(format!("Your FIDO attestation certificate has been saved in {}\n", shown(&self.path)))
    }
}

/// Settings of `-O`.
struct EnrollSettings {
    enrollment: Enrollment,
    attestation: Option<PathBuf>,
}

impl EnrollSettings {
    fn parse(arguments: &Arguments, ed25519: bool) -> Outcome<Self> {
        let mut wanted = Self {
            enrollment: Enrollment {
                ed25519,
                provider: arguments.provider(),
                device: String::new(),
                application: APPLICATION.to_owned(),
                user: String::new(),
                flags: flags::USER_PRESENCE,
                pin: None,
                challenge: Vec::new(),
            },
            attestation: None,
        };
        for option in &arguments.values.options {
            wanted.add(&option.to_string_lossy())?;
        }
        Ok(wanted)
    }

    fn add(&mut self, option: &str) -> Outcome {
        let enrollment = &mut self.enrollment;
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name.to_ascii_lowercase(), Some(value)),
            None => (option.to_ascii_lowercase(), None),
        };
        match (name.as_str(), value) {
            ("no-touch-required", None) => enrollment.flags &= !flags::USER_PRESENCE,
            ("verify-required", None) => enrollment.flags |= flags::USER_VERIFICATION,
            ("resident", None) => enrollment.flags |= flags::RESIDENT,
            ("device", Some(device)) => enrollment.device = device.to_owned(),
            ("user", Some(user)) => enrollment.user = user.to_owned(),
            ("write-attestation", Some(path)) => self.attestation = Some(path.into()),
            ("application", Some(application)) => {
                if !application.starts_with(APPLICATION) {
                    return Err(fatal("FIDO application string must begin with \"ssh:\""));
                }
                enrollment.application = application.to_owned();
            }
            ("challenge", Some(path)) => {
                let failed = |why| {
                    let path = lh_client::sanitise(path);
                    fatal(format!("Unable to load FIDO enrollment challenge \"{path}\": {why}"))
                };
                let bytes = files::read_up_to(Path::new(path), MAX_CHALLENGE);
                enrollment.challenge = bytes.map_err(|why| failed(errno_text(&why)))?.to_vec();
                if enrollment.challenge.is_empty() {
                    return Err(fatal("Missing enrollment challenge"));
                }
            }
            _ => {
                let option = lh_client::sanitise(option);
                let what = "is unsupported for FIDO authenticator enrollment";
                return Err(fatal(format!("Option \"{option}\" {what}")));
            }
        }
        Ok(())
    }

    fn enrollment(&self, flags: u8, pin: Option<&str>) -> Enrollment {
        let wanted = &self.enrollment;
        Enrollment {
            ed25519: wanted.ed25519,
            provider: wanted.provider.clone(),
            device: wanted.device.clone(),
            application: wanted.application.clone(),
            user: wanted.user.clone(),
            flags,
            pin: pin.map(|pin| pin.to_owned().into()),
            challenge: wanted.challenge.clone(),
        }
    }

    /// Asks whether to replace a resident key with these names.
    fn may_replace(&self) -> Outcome<bool> {
        let user = match self.enrollment.user.as_str() {
            "" => "null user id".to_owned(),
            user => format!("user id '{}'", lh_client::sanitise(user)),
        };
        let application = lh_client::sanitise(&self.enrollment.application);
        print(format!("A resident key scoped to '{application}' with {user} already exists.\n"))?;
        let answer = ask("Overwrite key in token (y/n)? ")?;
        Ok(answer.is_some_and(|answer| answer.starts_with(['y', 'Y'])))
    }
}

/// Enrolls a key, prompting for the authenticator's PIN where it is required.
pub(crate) fn make(arguments: &Arguments, ed25519: bool) -> Outcome<(SecurityKey, Option<Attestation>)> {
    let wanted = EnrollSettings::parse(arguments, ed25519)?;
    let mut flags = wanted.enrollment.flags;
    let (mut pin, mut again, mut tries) = (None, "", 0);
    loop {
        if !arguments.quiet {
            print(format!("You may need to touch your authenticator{again} to authorize key generation.\n"))?;
        }
        let pin_given: Option<lh_crypto::Zeroizing<String>> = pin.take();
        let request = wanted.enrollment(flags, pin_given.as_ref().map(|pin| pin.as_str()));
        match lh_security_key::enroll(request, arguments.verbose) {
            Ok((key, bytes)) => {
                let attestation = wanted.attestation.map(|path| Attestation { bytes, path });
                return Ok((key, attestation));
            }
            Err(SkError::Exists)
                if flags & flags::RESIDENT != 0 && flags & flags::FORCE == 0 && wanted.may_replace()? =>
            {
                flags |= flags::FORCE;
                pin = pin_given;
            }
            Err(SkError::Pin) => {
                if pin_given.is_some() {
                    warn("PIN incorrect");
                }
                tries += 1;
                if tries >= MOST_PINS {
                    return Err(fatal("Too many incorrect PINs"));
                }
                pin = ask_pin("Enter PIN for authenticator: ");
            }
            Err(why) => return Err(fatal(format!("Key enrollment failed: {why}"))),
        }
        again = " again";
    }
}

/// Writes a file for each resident key to the current directory.
pub(crate) fn download(arguments: &Arguments) -> Outcome {
    let mut device = String::new();
    for option in &arguments.values.options {
        let option = option.to_string_lossy();
        match option.split_once('=') {
            Some((name, value)) if name.eq_ignore_ascii_case("device") => value.clone_into(&mut device),
            _ => {
                let what = "is unsupported for FIDO authenticator download";
                return Err(fatal(format!("Option \"{}\" {what}", lh_client::sanitise(&option))));
            }
        }
    }
    let pin = ask_pin("Enter PIN for authenticator: ");
    if !arguments.quiet {
        print("You may need to touch your authenticator to authorize key download.\n")?;
    }
    let keys = lh_security_key::residents(&arguments.provider(), &device, pin, arguments.verbose)
        .map_err(|why| fatal(format!("Unable to load resident keys: {why}")))?;
    if keys.is_empty() {
        note("No keys to download");
        return Ok(());
    }
    let mut passphrase = None;
    for Resident { key, user } in keys {
        let application = application(&key);
        let suffix = suffix(&application, &user);
        let kind = if key.public.display_type() == "ECDSA-SK" { "ecdsa_sk" } else { "ed25519_sk" };
        let dash = if suffix.is_empty() { "" } else { "_" };
        let path = PathBuf::from(format!("id_{kind}_rk{dash}{suffix}"));
        if !may_overwrite(&path)? {
            return Err(silent_fatal());
        }
        if passphrase.is_none() {
            passphrase = Some(new_passphrase(arguments)?);
        }
        let key = FileKey::Security(key);
        save(arguments, &path, &key, &application, passphrase.as_ref().map_or(&[], |pass| &pass[..]))?;
        if !arguments.quiet {
            let scope = if suffix.is_empty() {
                String::new()
            } else {
                format!(" {}", lh_client::sanitise(&application))
            };
            print(format!("Saved {} key{scope} to {}\n", key.public().display_type(), shown(&path)))?;
        }
        save_public(&files::public_name(&path), &key, &application)?;
    }
    Ok(())
}

/// Application string of a key, the last field of its public half.
fn application(key: &SecurityKey) -> String {
    String::from_utf8_lossy(key.application()).into_owned()
}

/// Suffix that distinguishes the files of several keys: the part after `ssh:`, and the user id.
fn suffix(application: &str, user: &[u8]) -> String {
    let scope = ["ssh://", "ssh:"].iter().find_map(|start| application.strip_prefix(start));
    let mut suffix = safe(scope.unwrap_or(application).as_bytes());
    // Authenticators fill unused bytes with zeros.
    let end = user.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if end > 0 {
        if !suffix.is_empty() {
            suffix.push('_');
        }
        suffix.push_str(&safe(&user[..end]));
    }
    suffix
}

/// A safe part of a file name: no path separators, only text.
fn safe(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text)
            if !text.contains(['/', '\\']) && !text.contains("..") && !text.contains(char::is_control) =>
        {
            text.to_owned()
        }
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_key_file_names_are_distinct_and_safe() {
        for (application, user, expected) in [
            ("ssh:", &[0; 32][..], ""),
            ("ssh:", b"", ""),
            ("ssh:work", b"me\0\0", "work_me"),
            ("ssh://host", b"", "host"),
            ("ssh:../x", b"", "2e2e2f78"),
            ("ssh:", b"a/b", "612f62"),
            ("ssh:", b"\xff", "ff"),
        ] {
            assert_eq!(suffix(application, user), expected, "{application}");
        }
    }
}
