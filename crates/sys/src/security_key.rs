//! FIDO security keys: libfido2 ([`fido`]), and middleware libraries that are loaded at run time through
//! OpenSSH's C interface (`sk-api.h`), version 10.
//!
//! Such a library is third-party code and may do anything to the process that loads it. Only
//! `lhssh-sk-helper` loads one; it holds a single request and ends after it.
#![expect(unsafe_code, reason = "functions of a library that is loaded at run time")]

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

use crate::dynamic::Library;

pub mod fido;
mod interface;

use interface::{EnrollFn, LoadFn, Options, Pin, SignFn, VersionFn, take, take_enrolled, text};
pub use interface::{Enrolled, ProviderError};

/// Version of the interface; its upper half must match the library's.
const VERSION: u32 = 0x000a_0000;
const MAJOR: u32 = 0xffff_0000;

/// Upper limit of keys from one authenticator.
const MOST_KEYS: usize = 4096;

/// Key type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// `sk-ecdsa-sha2-nistp256@openssh.com`.
    Ecdsa,
    /// `sk-ssh-ed25519@openssh.com`.
    Ed25519,
}

impl Algorithm {
    const fn number(self) -> u32 {
        match self {
            Self::Ecdsa => 0,
            Self::Ed25519 => 1,
        }
    }

    const fn by_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Ecdsa),
            1 => Some(Self::Ed25519),
            _ => None,
        }
    }
}

/// A signature.
pub struct Signed {
    /// Flags of the signature (OpenSSH's PROTOCOL.u2f).
    pub flags: u8,
    /// The key's signature counter.
    pub counter: u32,
    /// ECDSA: the first number. Ed25519: the whole signature.
    pub r: Vec<u8>,
    /// ECDSA: the second number.
    pub s: Vec<u8>,
}

/// A resident key on the authenticator.
pub struct Resident {
    /// Key type; `None` for one that SSH does not support.
    pub algorithm: Option<Algorithm>,
    /// The application (relying party) of the key.
    pub application: Vec<u8>,
    /// The key.
    pub key: Enrolled,
    /// Flag bits of the key: what its use requires.
    pub flags: u8,
    /// User id stored with the key.
    pub user: Vec<u8>,
}

/// A loaded provider library.
pub struct Provider {
    enroll: EnrollFn,
    sign: SignFn,
    load: LoadFn,
}

impl Provider {
    /// Loads a library, which stays loaded until the process ends.
    ///
    /// # Errors
    /// [`ProviderError::Unusable`], in OpenSSH's words.
    pub fn open(path: &Path) -> Result<Self, ProviderError> {
        let shown = path.display();
        let unusable = |text: String| ProviderError::Unusable(format!("Provider \"{shown}\" {text}"));
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| ProviderError::Nonsense)?;
        let library = Library::open(&name).map_err(|error| unusable(format!("dlopen failed: {error}")))?;
        let find = |name: &CStr| {
            let failed = |error| unusable(format!("dlsym({}) failed: {error}", name.to_string_lossy()));
            library.symbol(name).map_err(failed)
        };
        let version = find(c"sk_api_version")?;
        // SAFETY: libraries with this interface export a function of this type under the name, and they are
        // never unloaded. A library that differs cannot be detected; the process holds nothing but this
        // request.
        let version = unsafe { std::mem::transmute::<NonNull<c_void>, VersionFn>(version)() };
        if version & MAJOR != VERSION & MAJOR {
            let supported = format!("(supported: 0x{VERSION:08x})");
            return Err(unusable(format!("implements unsupported version 0x{version:08x} {supported}")));
        }
        let (enroll, sign, load) = (find(c"sk_enroll")?, find(c"sk_sign")?, find(c"sk_load_resident_keys")?);
        // SAFETY: as above, for the version that the library has reported.
        Ok(unsafe {
            Self {
                enroll: std::mem::transmute::<NonNull<c_void>, EnrollFn>(enroll),
                sign: std::mem::transmute::<NonNull<c_void>, SignFn>(sign),
                load: std::mem::transmute::<NonNull<c_void>, LoadFn>(load),
            }
        })
    }

    /// Creates a key. `options` are names and values that the library may know (`device`, `user`).
    ///
    /// # Errors
    /// See [`ProviderError`].
    pub fn enroll(
        &self,
        algorithm: Algorithm,
        challenge: &[u8],
        application: &str,
        flags: u8,
        pin: Option<&str>,
        options: &[(&str, &str)],
    ) -> Result<Enrolled, ProviderError> {
        let application = text(application)?;
        let pin = pin.map(Pin::new).transpose()?;
        let mut options = Options::new(options)?;
        let mut answer = null_mut();
        // SAFETY: the library's function of this type. Every pointer refers to memory of the given length or
        // to a C string, lives until the call returns, and is not kept according to the interface; `answer`
        // is a valid pointer.
        let code = unsafe {
            (self.enroll)(
                algorithm.number(),
                challenge.as_ptr(),
                challenge.len(),
                application.as_ptr(),
                flags,
                Pin::pointer(pin.as_ref()),
                options.pointer(),
                &raw mut answer,
            )
        };
        check(code)?;
        let answer = NonNull::new(answer).ok_or(ProviderError::Nonsense)?;
        // SAFETY: the library reported success, so `answer` is a response from malloc that we own now.
        unsafe {
            let enrolled = take_enrolled(answer.as_ptr());
            libc::free(answer.as_ptr().cast());
            enrolled
        }
    }

    /// Signs `data`, which the library hashes.
    ///
    /// # Errors
    /// See [`ProviderError`].
    pub fn sign(
        &self,
        algorithm: Algorithm,
        data: &[u8],
        application: &str,
        handle: &[u8],
        flags: u8,
        pin: Option<&str>,
    ) -> Result<Signed, ProviderError> {
        let application = text(application)?;
        let pin = pin.map(Pin::new).transpose()?;
        let mut answer = null_mut();
        // SAFETY: as in `enroll`; the interface allows no options.
        let code = unsafe {
            (self.sign)(
                algorithm.number(),
                data.as_ptr(),
                data.len(),
                application.as_ptr(),
                handle.as_ptr(),
                handle.len(),
                flags,
                Pin::pointer(pin.as_ref()),
                null_mut(),
                &raw mut answer,
            )
        };
        check(code)?;
        let answer = NonNull::new(answer).ok_or(ProviderError::Nonsense)?;
        // SAFETY: the library reported success, so `answer` is a response from malloc that we own now. Its
        // members are null or from malloc too, with the lengths given.
        unsafe {
            let raw = answer.as_ptr();
            let (r, s) = (take((*raw).r, (*raw).r_len), take((*raw).s, (*raw).s_len));
            let (flags, counter) = ((*raw).flags, (*raw).counter);
            libc::free(raw.cast());
            Ok(Signed { flags, counter, r: r?, s: s? })
        }
    }

    /// The resident keys on the authenticator.
    ///
    /// # Errors
    /// See [`ProviderError`].
    pub fn residents(
        &self,
        pin: Option<&str>,
        options: &[(&str, &str)],
    ) -> Result<Vec<Resident>, ProviderError> {
        let pin = pin.map(Pin::new).transpose()?;
        let mut options = Options::new(options)?;
        let (mut list, mut count) = (null_mut(), 0);
        // SAFETY: as in `enroll`.
        let code = unsafe {
            (self.load)(Pin::pointer(pin.as_ref()), options.pointer(), &raw mut list, &raw mut count)
        };
        check(code)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        if list.is_null() || count > MOST_KEYS {
            return Err(ProviderError::Nonsense);
        }
        let mut found = Vec::with_capacity(count);
        for at in 0..count {
            // SAFETY: the library reported `count` pointers to keys, each from malloc and ours now, with
            // members as in `sign`; the application is a C string. The list itself stays allocated until the
            // process ends.
            unsafe {
                let raw = *list.add(at);
                if raw.is_null() {
                    return Err(ProviderError::Nonsense);
                }
                let application = match (*raw).application {
                    name if name.is_null() => Vec::new(),
                    name => CStr::from_ptr(name).to_bytes().to_vec(),
                };
                found.push(Resident {
                    algorithm: Algorithm::by_number((*raw).algorithm),
                    application,
                    key: take_enrolled(&raw mut (*raw).key)?,
                    flags: (*raw).flags,
                    user: take((*raw).user, (*raw).user_len)?,
                });
            }
        }
        Ok(found)
    }
}

fn check(code: c_int) -> Result<(), ProviderError> {
    if code == 0 { Ok(()) } else { Err(ProviderError::Refused(code)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_providers_are_refused() {
        for (path, why) in
            [("/nonexistent/library.so", "dlopen failed"), ("libc.so.6", "dlsym(sk_api_version) failed")]
        {
            let error = Provider::open(Path::new(path)).err().map(|error| error.to_string());
            assert!(error.as_ref().is_some_and(|text| text.contains(why)), "{error:?}");
        }
    }
}
