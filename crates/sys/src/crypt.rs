//! Password checks against `crypt(3)` hashes of any kind that the system uses (yescrypt, SHA-512, bcrypt, …).
//!
//! The system's own library is loaded when the first password is checked. So a build needs no `-dev` package,
//! and a server that allows only keys never maps the library. The supported hashes are those that this host's
//! `passwd` writes. A static build with musl loads no libraries; it uses musl's own function, which supports
//! all kinds except yescrypt.
#![expect(unsafe_code, reason = "crypt_r is in a C library that is loaded at run time")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::io;
#[cfg(not(target_env = "musl"))]
use std::ptr::NonNull;

use zeroize::{Zeroize, Zeroizing};

#[cfg(not(target_env = "musl"))]
use crate::dynamic::Library;

/// Size of the buffer for the state of `crypt_r`, bytes. libxcrypt's takes 32 KiB, glibc's old one 128 KiB.
const STATE_LEN: usize = 256 * 1024;

#[cfg(target_env = "musl")]
unsafe extern "C" {
    #[link_name = "crypt_r"]
    fn musl_crypt_r(phrase: *const c_char, setting: *const c_char, state: *mut c_void) -> *mut c_char;
}

/// Names under which distributions ship the library; the second is libxcrypt without the old ABI.
#[cfg(not(target_env = "musl"))]
const LIBRARIES: [&CStr; 2] = [c"libcrypt.so.1", c"libcrypt.so.2"];

type CryptR = unsafe extern "C" fn(*const c_char, *const c_char, *mut c_void) -> *mut c_char;

/// True when `password` hashes to `hash`.
///
/// A password with a NUL inside never matches. Fails when the library is missing or does not support the
/// hash.
pub fn verify(password: &[u8], hash: &[u8]) -> io::Result<bool> {
    let computed = hash_with(password, hash)?;
    Ok(computed.is_some_and(|computed| same(&computed, hash)))
}

/// Hashes `password` with the method and salt of `setting`; `None` when either contains a NUL.
pub fn hash_with(password: &[u8], setting: &[u8]) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let Ok(setting) = CString::new(setting) else { return Ok(None) };
    if password.contains(&0) {
        return Ok(None);
    }
    let mut phrase = Zeroizing::new(Vec::with_capacity(password.len() + 1));
    phrase.extend_from_slice(password);
    phrase.push(0);
    let crypt_r = crypt_r()?;
    // u64 for its alignment: the state structure starts with machine words.
    let mut state = vec![0_u64; STATE_LEN / 8];
    // SAFETY: both strings end in NUL, and the state is zeroed (as crypt_r(3) requires) and larger than that
    // of any implementation.
    let result = unsafe { crypt_r(phrase.as_ptr().cast(), setting.as_ptr(), state.as_mut_ptr().cast()) };
    let hashed = if result.is_null() {
        Err(io::Error::last_os_error())
    } else {
        // SAFETY: not null, so it points to a C string inside `state`, which is still alive.
        let bytes = unsafe { CStr::from_ptr(result) }.to_bytes();
        // libxcrypt returns "*0" or "*1" for an unknown setting, instead of null.
        if bytes.first() == Some(&b'*') {
            Err(io::Error::new(io::ErrorKind::Unsupported, "unknown kind of password hash"))
        } else {
            Ok(Some(Zeroizing::new(bytes.to_vec())))
        }
    };
    state.zeroize();
    hashed
}

/// Compares in constant time: the duration does not depend on where the first difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (x, y)| all | (x ^ y)) == 0
}

#[cfg(target_env = "musl")]
#[expect(clippy::unnecessary_wraps, reason = "other C libraries may lack the function")]
fn crypt_r() -> io::Result<CryptR> {
    Ok(musl_crypt_r)
}

#[cfg(not(target_env = "musl"))]
fn crypt_r() -> io::Result<CryptR> {
    for name in LIBRARIES {
        let Ok(library) = Library::open(name) else { continue };
        if let Ok(symbol) = library.symbol(c"crypt_r") {
            // SAFETY: crypt_r(3) has had this signature in every release of both libraries.
            return Ok(unsafe { std::mem::transmute::<NonNull<c_void>, CryptR>(symbol) });
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "libcrypt.so.1 is not installed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Generated with `mkpasswd` for the password "longhaul".
    #[test]
    fn hash_methods_of_debian_are_supported() {
        let yescrypt = if cfg!(target_env = "musl") { None } else { Some("$y$j9T$F5Jx5fExrKuPp53xLKQ..1") };
        for setting in ["$6$saltsalt", "$5$saltsalt", "$1$saltsalt"].into_iter().chain(yescrypt) {
            let hash = hash_with(b"longhaul", setting.as_bytes()).unwrap().unwrap();
            assert!(hash.starts_with(setting.as_bytes()));
            assert!(verify(b"longhaul", &hash).unwrap(), "{setting}");
            assert!(!verify(b"longhaus", &hash).unwrap(), "{setting}");
            assert!(!verify(b"longhaul\0", &hash).unwrap(), "{setting}");
        }
    }

    #[test]
    fn locked_hash_matches_no_password() {
        for hash in [&b"!"[..], b"*", b"!!", b"", b"!$6$saltsalt$x", b"\0"] {
            assert!(!matches!(verify(b"", hash), Ok(true)), "{hash:?}");
            assert!(!matches!(verify(b"x", hash), Ok(true)), "{hash:?}");
        }
    }
}
