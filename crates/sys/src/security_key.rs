//! Middleware libraries for FIDO security keys, loaded at run time through OpenSSH's C interface
//! (`sk-api.h`), version 10.
//!
//! Such a library is third-party code and may do anything to the process that loads it. Only
//! `lhssh-sk-helper` loads one; it holds a single request and ends after it.
#![expect(unsafe_code, reason = "dlopen(3), and the functions found there")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{NonNull, null, null_mut};

use zeroize::{Zeroize as _, Zeroizing};

/// Version of the interface; its upper half must match the library's.
const VERSION: u32 = 0x000a_0000;
const MAJOR: u32 = 0xffff_0000;

/// Upper limit of a data item from a library, bytes; real ones are a few kilobytes.
const LONGEST: usize = 64 * 1024;
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

/// Why a library failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The library cannot be loaded or is not a provider; the message says why.
    #[error("{0}")]
    Unusable(String),
    /// The library refused, with one of `SSH_SK_ERR_…`.
    #[error("the provider failed with {0}")]
    Refused(i32),
    /// The library's answer is not valid, or the request cannot be expressed in C.
    #[error("the provider's answer makes no sense")]
    Nonsense,
}

/// A newly enrolled key.
pub struct Enrolled {
    /// Flag bits of the key: what its use requires.
    pub flags: u8,
    /// The public key; for ECDSA an uncompressed point.
    pub public: Vec<u8>,
    /// Key handle, by which the authenticator finds the key.
    pub handle: Zeroizing<Vec<u8>>,
    /// The authenticator's signature over the challenge.
    pub signature: Vec<u8>,
    /// Certificate of the attestation key that made this signature.
    pub certificate: Vec<u8>,
    /// The other signed data.
    pub authenticator_data: Vec<u8>,
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

#[repr(C)]
struct RawOption {
    name: *mut c_char,
    value: *mut c_char,
    required: u8,
}

#[repr(C)]
struct RawEnrolled {
    flags: u8,
    public: *mut u8,
    public_len: usize,
    handle: *mut u8,
    handle_len: usize,
    signature: *mut u8,
    signature_len: usize,
    certificate: *mut u8,
    certificate_len: usize,
    authenticator_data: *mut u8,
    authenticator_data_len: usize,
}

#[repr(C)]
struct RawSigned {
    flags: u8,
    counter: u32,
    r: *mut u8,
    r_len: usize,
    s: *mut u8,
    s_len: usize,
}

#[repr(C)]
struct RawResident {
    algorithm: u32,
    slot: usize,
    application: *mut c_char,
    key: RawEnrolled,
    flags: u8,
    user: *mut u8,
    user_len: usize,
}

type VersionFn = unsafe extern "C" fn() -> u32;
type EnrollFn = unsafe extern "C" fn(
    u32,
    *const u8,
    usize,
    *const c_char,
    u8,
    *const c_char,
    *mut *mut RawOption,
    *mut *mut RawEnrolled,
) -> c_int;
type SignFn = unsafe extern "C" fn(
    u32,
    *const u8,
    usize,
    *const c_char,
    *const u8,
    usize,
    u8,
    *const c_char,
    *mut *mut RawOption,
    *mut *mut RawSigned,
) -> c_int;
type LoadFn =
    unsafe extern "C" fn(*const c_char, *mut *mut RawOption, *mut *mut *mut RawResident, *mut usize) -> c_int;

impl Provider {
    /// Loads a library, which stays loaded until the process ends.
    ///
    /// # Errors
    /// [`ProviderError::Unusable`], in OpenSSH's words.
    pub fn open(path: &Path) -> Result<Self, ProviderError> {
        let shown = path.display();
        let unusable = |text: String| ProviderError::Unusable(format!("Provider \"{shown}\" {text}"));
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| ProviderError::Nonsense)?;
        // SAFETY: the name is a C string. Loading runs the library's initialisers, which the caller intends;
        // see the module documentation.
        let handle = NonNull::new(unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) })
            .ok_or_else(|| unusable(format!("dlopen failed: {}", dl_error())))?;
        let find = |name: &CStr| {
            // SAFETY: the handle came from dlopen and is never closed; the name is a C string.
            let symbol = unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) };
            let failed = || unusable(format!("dlsym({}) failed: {}", name.to_string_lossy(), dl_error()));
            NonNull::new(symbol).ok_or_else(failed)
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

fn dl_error() -> String {
    // SAFETY: dlerror returns null or a C string that lives until this thread's next call of its family.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown reason".to_owned();
    }
    // SAFETY: as above; the string is copied at once.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn text(text: &str) -> Result<CString, ProviderError> {
    CString::new(text).map_err(|_| ProviderError::Nonsense)
}

/// Copies an allocation of the library, then wipes and frees it. Null gives an empty vector.
///
/// # Safety
/// `from` is null, or comes from malloc with `len` bytes and has no other user.
unsafe fn take(from: *mut u8, len: usize) -> Result<Vec<u8>, ProviderError> {
    if from.is_null() {
        return Ok(Vec::new());
    }
    if len > LONGEST {
        return Err(ProviderError::Nonsense);
    }
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = std::slice::from_raw_parts_mut(from, len);
        let copy = bytes.to_vec();
        bytes.zeroize();
        libc::free(from.cast());
        Ok(copy)
    }
}

/// Takes the members of a response.
///
/// # Safety
/// `raw` points to a response whose members satisfy [`take`]'s conditions.
unsafe fn take_enrolled(raw: *mut RawEnrolled) -> Result<Enrolled, ProviderError> {
    // SAFETY: the caller's promise.
    unsafe {
        Ok(Enrolled {
            flags: (*raw).flags,
            public: take((*raw).public, (*raw).public_len)?,
            handle: Zeroizing::new(take((*raw).handle, (*raw).handle_len)?),
            signature: take((*raw).signature, (*raw).signature_len)?,
            certificate: take((*raw).certificate, (*raw).certificate_len)?,
            authenticator_data: take((*raw).authenticator_data, (*raw).authenticator_data_len)?,
        })
    }
}

/// A PIN as a C string that is wiped on drop.
struct Pin(Zeroizing<Vec<u8>>);

impl Pin {
    fn new(pin: &str) -> Result<Self, ProviderError> {
        if pin.contains('\0') {
            return Err(ProviderError::Nonsense);
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(pin.len() + 1));
        bytes.extend_from_slice(pin.as_bytes());
        bytes.push(0);
        Ok(Self(bytes))
    }

    fn pointer(pin: Option<&Self>) -> *const c_char {
        pin.map_or(null(), |pin| pin.0.as_ptr().cast())
    }
}

/// Options in the interface's form: a list of pointers that ends in null.
struct Options {
    /// The strings that the options point to.
    _texts: Vec<CString>,
    /// Not in a box: a box that moves claims its content for itself, which makes pointers to it invalid.
    _options: Vec<RawOption>,
    pointers: Vec<*mut RawOption>,
}

impl Options {
    fn new(options: &[(&str, &str)]) -> Result<Self, ProviderError> {
        // All strings are in their vector before pointers to them are taken: each is a box, too.
        let mut texts = Vec::new();
        for (name, value) in options.iter().filter(|(_, value)| !value.is_empty()) {
            texts.extend([text(name)?, text(value)?]);
        }
        let pairs = texts.as_chunks().0;
        let option = |[name, value]: &[CString; 2]| RawOption {
            name: name.as_ptr().cast_mut(),
            value: value.as_ptr().cast_mut(),
            required: 0,
        };
        let mut options_of_c: Vec<RawOption> = pairs.iter().map(option).collect();
        // The vector does not grow from here on, so its content stays where it is.
        let pointers = options_of_c.iter_mut().map(|option| &raw mut *option).chain([null_mut()]).collect();
        Ok(Self { _texts: texts, _options: options_of_c, pointers })
    }

    /// The list; null when it is empty, as in OpenSSH.
    fn pointer(&mut self) -> *mut *mut RawOption {
        if self.pointers.len() > 1 { self.pointers.as_mut_ptr() } else { null_mut() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a library would have allocated.
    fn allocated(bytes: &[u8]) -> *mut u8 {
        // SAFETY: malloc returns null or space for as many bytes as are written.
        unsafe {
            let to = libc::malloc(bytes.len()).cast::<u8>();
            assert!(!to.is_null());
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            to
        }
    }

    #[test]
    fn responses_are_copied_and_freed() {
        let mut raw = RawEnrolled {
            flags: 5,
            public: allocated(b"public"),
            public_len: 6,
            handle: allocated(b"handle"),
            handle_len: 6,
            signature: null_mut(),
            signature_len: 9,
            certificate: allocated(b"c"),
            certificate_len: 1,
            authenticator_data: allocated(b"data"),
            authenticator_data_len: 4,
        };
        // SAFETY: the members come from malloc with their lengths, and are not used again.
        let enrolled = unsafe { take_enrolled(&raw mut raw) }.unwrap();
        assert_eq!(
            (enrolled.flags, &*enrolled.public, &**enrolled.handle),
            (5, &b"public"[..], &b"handle"[..])
        );
        assert_eq!((enrolled.signature.len(), &*enrolled.certificate), (0, &b"c"[..]));
        assert_eq!(enrolled.authenticator_data, b"data");
    }

    #[test]
    fn options_can_be_read_after_moves() {
        let options = Options::new(&[("device", "x"), ("user", ""), ("application", "ssh:")]).unwrap();
        let mut moved = Box::new(std::convert::identity(options));
        let list = moved.pointer();
        // SAFETY: the list ends in null, and everything that it points to belongs to `moved`.
        let read = |at: usize| unsafe {
            let option = *list.add(at);
            let text = |from: *mut c_char| CStr::from_ptr(from).to_str().unwrap().to_owned();
            (!option.is_null()).then(|| (text((*option).name), text((*option).value), (*option).required))
        };
        assert_eq!(read(0), Some(("device".to_owned(), "x".to_owned(), 0)));
        assert_eq!(read(1), Some(("application".to_owned(), "ssh:".to_owned(), 0)));
        assert_eq!(read(2), None);
        assert!(Options::new(&[("user", "")]).unwrap().pointer().is_null());
    }

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
