//! The built-in provider (`internal`): security keys through libfido2.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::time::{Duration, Instant};

use lh_cli::helper::say;
use lh_security_key::messages::Enrollment;
use lh_security_key::{SkError, flags};
use lh_sys::security_key::fido::{Assertion, Device, FidoError, NewKey, ToSign, devices, load};
use lh_sys::security_key::{Algorithm, Enrolled, Resident, Signed};

/// Prefix of the application strings of SSH keys.
pub(crate) const SSH: &[u8] = b"ssh:";
/// Length of OpenSSH's user ids: the user's text, then zeros.
const USER: usize = 32;
/// Time for the choice of one of several security keys.
const CHOICE: Duration = Duration::from_secs(15);
/// Time to wait for each of them in turn, milliseconds.
const TURN: i32 = 50;
/// Start of a FIDO device's report descriptor: usage page 0xf1d0.
const USAGE: [u8; 3] = [0x06, 0xd0, 0xf1];

/// Proof that libfido2 is loaded.
pub(crate) struct Internal(());

impl Internal {
    pub(crate) fn open() -> Result<Self, SkError> {
        load().map(|()| Self(())).map_err(|error| {
            say(&format!(
                "internal security key support not enabled: {error} (install libfido2; its package is libfido2-1 \
                 in Debian)"
            ));
            SkError::Invalid
        })
    }

    pub(crate) fn enroll(
        &self,
        algorithm: Algorithm,
        challenge: &[u8],
        wanted: &Enrollment,
        pin: Option<&str>,
    ) -> Result<Enrolled, SkError> {
        let has = |flag| wanted.flags & flag != 0;
        let (resident, verify) = (has(flags::RESIDENT), has(flags::USER_VERIFICATION));
        let mut user = [0; USER];
        match user.get_mut(..wanted.user.len()) {
            Some(start) if wanted.user.len() < USER => start.copy_from_slice(wanted.user.as_bytes()),
            _ => {
                say(&format!("the user id is longer than {} bytes", USER - 1));
                return Err(SkError::Argument);
            }
        }
        let device = self.device(&wanted.device, |_| true)?;
        check_verification(&device, verify, pin)?;
        if (resident || verify) && !device.can_protect() {
            say("this security key cannot protect resident or verify-required keys (no credProtect)");
            return Err(SkError::Unsupported);
        }
        if resident && !has(flags::FORCE) {
            let application = wanted.application.as_str();
            let probe = ToSign { application, data: &[0; 32], handle: None, touch: false, verify: false };
            match device.sign(&probe, pin) {
                Ok(keys) if keys.iter().any(|key| key.user == user) => return Err(SkError::Exists),
                Ok(_) | Err(FidoError::NO_CREDENTIALS) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let application = wanted.application.as_str();
        let key = NewKey { algorithm, challenge, application, user: &user, resident, verify };
        let made = device.make_key(&key, pin).map_err(failed)?;
        Ok(Enrolled { flags: wanted.flags, ..made })
    }

    pub(crate) fn sign(
        &self,
        algorithm: Algorithm,
        data: &[u8],
        application: &str,
        handle: &[u8],
        key_flags: u8,
        pin: Option<&str>,
    ) -> Result<Signed, SkError> {
        let verify = key_flags & flags::USER_VERIFICATION != 0;
        let handle = Some(handle);
        let holds = |device: &Device| {
            // A key that requires verification is hidden without it.
            if verify || pin.is_some() {
                return true;
            }
            let probe = ToSign { application, data, handle, touch: false, verify: false };
            matches!(device.sign(&probe, None), Ok(_) | Err(FidoError::USER_PRESENCE_REQUIRED))
        };
        let device = self.device("", holds)?;
        check_verification(&device, verify, pin)?;
        let touch = key_flags & flags::USER_PRESENCE != 0;
        let made = device.sign(&ToSign { application, data, handle, touch, verify }, pin).map_err(failed)?;
        let Some(made) = made.into_iter().next() else { return Err(SkError::Invalid) };
        signed(algorithm, made).ok_or_else(|| {
            say("the security key's signature makes no sense");
            SkError::Invalid
        })
    }

    pub(crate) fn residents(&self, device: &str, pin: Option<&str>) -> Result<Vec<Resident>, SkError> {
        let device = self.device(device, |_| true)?;
        if !device.can_list() {
            say("this security key cannot list its resident keys (no credential management)");
            return Err(SkError::Unsupported);
        }
        check_verification(&device, true, pin)?;
        let mut found = Vec::new();
        let applications = match device.applications(pin) {
            Err(FidoError::NO_CREDENTIALS) => Vec::new(),
            applications => applications.map_err(failed)?,
        };
        for application in applications {
            if !application.to_bytes().starts_with(SSH) {
                continue;
            }
            for stored in device.stored_keys(&application, pin).map_err(failed)? {
                found.push(Resident {
                    algorithm: stored.algorithm,
                    application: application.to_bytes().to_vec(),
                    key: stored.key,
                    flags: if stored.verify { flags::USER_VERIFICATION } else { 0 },
                    user: stored.user,
                });
            }
        }
        Ok(found)
    }

    /// Opens the named device; without a name, the only one that is suitable, or the one that the user
    /// touches.
    fn device(&self, named: &str, suitable: impl Fn(&Device) -> bool) -> Result<Device, SkError> {
        if !named.is_empty() {
            let path = CString::new(named).map_err(|_| SkError::Argument)?;
            return Device::open(&path).map_err(|error| {
                say(&format!("cannot open the security key {named}: {}", reason(&path, error)));
                SkError::NoDevice
            });
        }
        let paths = devices().map_err(failed)?;
        if paths.is_empty() {
            let lines = denied(Path::new("/sys/class/hidraw"), Path::new("/dev"));
            lines.iter().for_each(|line| say(line));
        }
        let opened = paths.iter().filter_map(|path| match Device::open(path) {
            Ok(device) => Some(device),
            Err(error) => {
                let shown = path.to_string_lossy();
                say(&format!("cannot open the security key {shown}: {}", reason(path, error)));
                None
            }
        });
        let mut found: Vec<Device> = opened.filter(|device| suitable(device)).collect();
        match found.len() {
            0 => Err(SkError::NoDevice),
            1 => found.pop().ok_or(SkError::NoDevice),
            _ => touched(found),
        }
    }
}

/// Returns the security key that the user touches.
fn touched(mut found: Vec<Device>) -> Result<Device, SkError> {
    found.retain(|device| device.begin_touch().is_ok());
    say("several security keys are plugged in: touch the one to use");
    let end = Instant::now() + CHOICE;
    let mut chosen = None;
    while chosen.is_none() && !found.is_empty() && Instant::now() < end {
        let mut at = 0;
        while chosen.is_none() && at < found.len() {
            match found[at].wait_for_touch(TURN) {
                Ok(true) => chosen = Some(found.swap_remove(at)),
                Ok(false) => at += 1,
                Err(_) => drop(found.swap_remove(at)),
            }
        }
    }
    found.iter().for_each(Device::cancel);
    chosen.ok_or_else(|| {
        say("no security key was touched");
        SkError::NoDevice
    })
}

/// Checks that the device can verify the user where that is required, or has a PIN where one was given.
fn check_verification(device: &Device, required: bool, pin: Option<&str>) -> Result<(), SkError> {
    if !required || (pin.is_none() && device.has_verification()) {
        return Ok(());
    }
    if !device.has_pin() {
        say(NO_PIN);
        return Err(SkError::Unsupported);
    }
    if pin.is_some() { Ok(()) } else { Err(SkError::Pin) }
}

const NO_PIN: &str = "this security key has no PIN: set one first, for example with fido2-token -S";

/// Maps libfido2's error to one for the caller, and prints what the caller's words do not say.
fn failed(error: FidoError) -> SkError {
    let (said, mapped) = match error {
        FidoError::PIN_REQUIRED | FidoError::PIN_INVALID | FidoError::UV_INVALID => return SkError::Pin,
        FidoError::NO_CREDENTIALS => ("the security key does not hold this key", SkError::NoDevice),
        FidoError::UNSUPPORTED_ALGORITHM => {
            ("the security key does not support this key type", SkError::Unsupported)
        }
        FidoError::UNSUPPORTED_OPTION | FidoError::INVALID_OPTION => {
            ("the security key does not support this request", SkError::Unsupported)
        }
        FidoError::PIN_NOT_SET => (NO_PIN, SkError::Unsupported),
        FidoError::PIN_BLOCKED => {
            ("the PIN is blocked after too many wrong ones: the security key must be reset", SkError::Invalid)
        }
        FidoError::PIN_AUTH_BLOCKED => (
            "the PIN is blocked after several wrong ones: unplug the security key and plug it in again",
            SkError::Invalid,
        ),
        FidoError::UV_BLOCKED => ("verification by fingerprint is blocked: use the PIN", SkError::Pin),
        FidoError::USER_ACTION_TIMEOUT | FidoError::ACTION_TIMEOUT => {
            ("the security key was not touched in time", SkError::Invalid)
        }
        FidoError::KEY_STORE_FULL => ("the security key has no space for another key", SkError::Invalid),
        _ => ("the security key failed", SkError::Invalid),
    };
    say(&format!("{said} ({error})"));
    mapped
}

/// Returns why a device cannot be opened: the system's error for its file, else the library's.
fn reason(path: &CStr, error: FidoError) -> String {
    let file = path.to_str().map(|path| std::fs::OpenOptions::new().read(true).write(true).open(path));
    match file {
        Ok(Err(why)) => lh_sys::errno_text(&why),
        _ => error.to_string(),
    }
}

/// Returns a line for each security key that this user may not open: libfido2 leaves them out of its list.
fn denied(class: &Path, device_files: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(class).into_iter().flatten().flatten();
    let line = |entry: std::fs::DirEntry| {
        let descriptor = std::fs::read(entry.path().join("device/report_descriptor")).ok()?;
        let path = device_files.join(entry.file_name());
        let why = std::fs::OpenOptions::new().read(true).write(true).open(&path).err()?;
        descriptor.starts_with(&USAGE).then(|| {
            format!(
                "no access to the security key {}: {} (udev gives it to the user at the seat; others need a \
                 rule for it)",
                path.display(),
                lh_sys::errno_text(&why)
            )
        })
    };
    entries.filter_map(line).collect()
}

/// Returns a signature in the form of the provider interface.
fn signed(algorithm: Algorithm, made: Assertion) -> Option<Signed> {
    let Assertion { flags, counter, signature, .. } = made;
    let (r, s) = match algorithm {
        Algorithm::Ed25519 => (signature, Vec::new()),
        Algorithm::Ecdsa => lh_crypto::ecdsa_numbers(&signature)?.map(<[u8]>::to_vec).into(),
    };
    Some(Signed { flags, counter, r, s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fido_errors_become_those_of_openssh() {
        for (error, expected) in [
            (FidoError::PIN_INVALID, SkError::Pin),
            (FidoError::PIN_REQUIRED, SkError::Pin),
            (FidoError::PIN_BLOCKED, SkError::Invalid),
            (FidoError::NO_CREDENTIALS, SkError::NoDevice),
            (FidoError::UNSUPPORTED_OPTION, SkError::Unsupported),
            (FidoError(0x7f), SkError::Invalid),
        ] {
            assert_eq!(failed(error).number(), expected.number(), "{}", error.0);
        }
    }

    #[test]
    fn security_keys_without_access_are_named() {
        let class = tempfile::tempdir().unwrap();
        for (name, descriptor) in [("hidraw0", &[5, 1, 9, 6][..]), ("hidraw1", &[0x06, 0xd0, 0xf1, 9, 1])] {
            let device = class.path().join(name).join("device");
            std::fs::create_dir_all(&device).unwrap();
            std::fs::write(device.join("report_descriptor"), descriptor).unwrap();
        }
        let lines = denied(class.path(), Path::new("/nonexistent"));
        assert_eq!(lines.len(), 1, "{lines:?}");
        let expected = "no access to the security key /nonexistent/hidraw1: No such file or directory (";
        assert!(lines[0].starts_with(expected), "{lines:?}");
    }
}
